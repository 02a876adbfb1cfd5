"""Every option of the data means the same in every container and for every function that takes it: generated from the
lists of all three, and from the signatures."""

import inspect
from collections.abc import Callable
from dataclasses import asdict
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import calibdask as cd
from tests.front.row_containers import CONTAINERS, Call

N = 600
RNG = np.random.default_rng(7)
SCORES = RNG.random(N)
OUTCOMES = (RNG.random(N) < SCORES**1.3).astype(int)
FRAME = pd.DataFrame({"y": OUTCOMES, "p": SCORES, "g": RNG.choice(["de", "fr", "se"], N).astype(object)})
WEIGHTS = RNG.integers(1, 5, N) / 4
CLUSTERS = RNG.integers(0, 60, N)
DAYS = pd.Series(pd.date_range("2026-11-01", periods=N, freq="h")).dt.floor("10D")

# The rows, and what is said of them; each option is read in the same way from every container.
OPTIONS: dict[str, tuple[pd.DataFrame, Call]] = {
    "plain": (FRAME, {}),
    "weights": (FRAME.assign(w=WEIGHTS), {}),
    "clusters": (FRAME.assign(c=CLUSTERS), {}),
    "clusters named by texts": (FRAME.assign(c=[f"patient {one}" for one in CLUSTERS]), {}),
    "booleans": (FRAME.assign(y=OUTCOMES.astype(bool)), {}),
    "texts": (FRAME.assign(y=np.where(OUTCOMES, "yes", "no").astype(object)), {"pos_label": "yes"}),
    "names of both classes": (
        FRAME.assign(y=np.where(OUTCOMES, "yes", "no").astype(object)),
        {"labels": ["no", "yes"]},
    ),
    "minus one and one": (FRAME.assign(y=2 * OUTCOMES - 1), {"pos_label": 1}),
    "rows to ignore": (FRAME.assign(y=np.where(np.arange(N) % 13, OUTCOMES, -1)), {"ignore_label": -1}),
    "logits": (FRAME.assign(p=np.log(SCORES / (1 - SCORES))), {"logits": True}),
    "task": (FRAME, {"task": "binary"}),
    "population": (FRAME, {"population": cd.Population(prevalence=0.1)}),
    "soft labels": (FRAME.assign(y=np.round(SCORES**1.3, 3)), {"soft_labels": True}),
    "slices of numbers": (FRAME.assign(g=RNG.integers(1, 4, N)), {}),
    "slices of days": (FRAME.assign(g=DAYS), {}),
    "missing values": (
        FRAME.assign(
            y=np.where(np.arange(N) % 13, OUTCOMES, np.nan),
            p=np.where(np.arange(N) % 29, SCORES, np.nan),
        ),
        {"skip_missing": True},
    ),
}
# What has no such form: JSON has no dates, and a comma-separated file holds texts.
OTHERWISE = {("slices of days", "csv"), ("slices of days", "csv.gz"), ("slices of days", "jsonl")}


def settled(value: Any) -> Any:
    """Numbers with twelve digits: sums of weighted rows depend on where these are cut, and so do ends by replicates."""
    if isinstance(value, dict):
        return {str(name): settled(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [settled(one) for one in value]
    return f"{value:.12g}" if isinstance(value, float) else value


def numbers(result: xr.Dataset) -> dict[str, Any]:
    """All numbers; of histograms, where they are not 0."""

    def shown(values: Any) -> Any:
        if values.size < 1000:
            return values.tolist()
        filled = np.flatnonzero(values)
        return [values.shape, filled.tolist(), values.ravel()[filled].tolist()]

    return {str(name): shown(values.values) for name, values in {**result.data_vars, **result.coords}.items()}


def compared(**call: Any) -> dict[str, Any]:
    """The model against itself, by columns or by arrays."""
    scores = call.pop("score", None)
    scores = call.pop("y_prob") if scores is None else scores
    return numbers(cd.compare(call.pop("y_true"), {"a": scores, "b": scores}, metrics="brier-score", n_boot=20, **call))


def metrics_of(call: Call) -> list[Any]:
    """Bins are not defined for shares, and equal masses have no intervals by clusters."""
    linear = {"soft_labels", "groups"} & {*call}
    return [cd.BrierScore(), cd.MeanGap()] if linear else [cd.ECE(), cd.ECE(binning="equal-mass")]


def summarized(call: Call) -> Call:
    """Few buckets of clusters."""
    return {"settings": ["binary"], **({"buckets": 16} if "groups" in call else {})}


# By name: the function whose signature says what it takes, and how its numbers are had.
FUNCTIONS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "evaluate": (cd.evaluate, lambda **call: numbers(cd.evaluate(**call, metrics=metrics_of(call), ci=0.9, n_boot=20))),
    "summarize": (cd.summarize, lambda **call: numbers(cd.summarize(**call, **summarized(call)))),
    "check": (
        cd.check,
        lambda **call: [asdict(one) for one in cd.check(**call, limits={"brier-score": 0.5}, n_boot=20).judgements],
    ),
    "threshold": (cd.threshold, lambda **call: numbers(cd.threshold(**call, risk=0.4))),
    "fingerprint": (cd.fingerprint, lambda **call: {"fingerprint": cd.fingerprint(**call)}),
    "receipt": (cd.receipt, lambda **call: cd.receipt(**call, metrics="ece")["numbers"]),
    "compare": (cd.compare, compared),
    "compare_calibrators": (
        cd.compare_calibrators,
        lambda **call: numbers(cd.compare_calibrators(**call, calibrators=[cd.PlattScaling()])),
    ),
    "fit": (cd.PlattScaling.fit, lambda **call: cd.PlattScaling().fit(**call, min_rows=1).coef_.tolist()),
    "ece": (cd.ece, lambda **call: {"ece": cd.ece(**call)}),
    "audit": (cd.audit, lambda **call: numbers(cd.audit(**call))),
}


def takes(function: str, option: str) -> bool:
    """Whether the signature has everything that the option needs."""
    frame, said = OPTIONS[option]
    named = {argument for argument, column in {"sample_weight": "w", "groups": "c"}.items() if column in frame}
    return {*said, *named} <= {*inspect.signature(FUNCTIONS[function][0]).parameters}


def drawn() -> list[tuple[str, str, str]]:
    """Each option by each function that takes it, from all containers in turn: each container has many of both."""
    turn = cycle([*CONTAINERS][1:])
    pairs = [(option, name) for option in OPTIONS for name in FUNCTIONS if takes(name, option)]
    return [
        (option, next(container for container in turn if (option, container) not in OTHERWISE), function)
        for option, function in pairs
    ]


def called(option: str, container: str, function: str, folder: Path) -> Any:
    frame, said = OPTIONS[option]
    call = {**CONTAINERS[container](frame, folder), **said}
    signature = inspect.signature(FUNCTIONS[function][0]).parameters
    if function == "audit":
        call["features"] = call["by"]
    if "by" not in signature:
        del call["by"]
    try:
        return settled(FUNCTIONS[function][1](**call))
    except ValueError as error:
        # What one container is refused, all are.
        return {"refused": str(error)}


@pytest.mark.parametrize(("option", "container", "function"), drawn())
def test_options(option: str, container: str, function: str, tmp_path: Path) -> None:
    expected = called(option, "numpy", function, tmp_path)
    assert called(option, container, function, tmp_path) == expected
    # Its guarantee counts independent rows.
    may_refuse = function == "threshold" and ("clusters" in option or option == "population")
    assert may_refuse or not (isinstance(expected, dict) and "refused" in expected)
