"""Messages mention no option that the command lacks, and no argument that the function lacks: all doors, bad rows."""

import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import calibdask as cd
from calibdask.cli import cli
from calibdask.cli.option_names import options_of
from calibdask.testing import assert_calibrated
from tests.cli.sample_rows import Run

pytestmark = pytest.mark.usefixtures("without_recalibration")

ROWS = 60
RNG = np.random.default_rng(2)
SCORES = RNG.random(ROWS)
LABELS = (RNG.random(ROWS) < SCORES).astype(int)
CLASSES, MATRIX = RNG.integers(0, 3, ROWS), RNG.dirichlet(np.ones(3), ROWS)
AT = np.arange(ROWS) == 5
# What is wrong with rows, as labels and scores.
BAD: dict[str, tuple[Any, Any]] = {
    "a missing label": (np.where(AT, np.nan, LABELS), SCORES),
    "a missing score": (LABELS, np.where(AT, np.nan, SCORES)),
    "texts": (np.where(LABELS, "spam", "ham"), SCORES),
    "three texts": (np.array(["a", "b", "c"])[CLASSES], SCORES),
    "a stray text": (np.where(AT, "?", LABELS.astype(str)), SCORES),
    "logits": (LABELS, 9 * SCORES - 4),
    "percentages": (LABELS, 100 * SCORES),
    "minus one": (2 * LABELS - 1, SCORES),
    "void": (np.where(AT, 255, LABELS), SCORES),
    "rates": (SCORES, SCORES),
    "names of classes": (np.array(["a", "b", "c"])[CLASSES], MATRIX),
    "other numbers": (CLASSES + 7, MATRIX),
    "logits of classes": (CLASSES, np.log(MATRIX)),
    "sums": (CLASSES, 2 * MATRIX),
    "one column": (LABELS, SCORES[:, None]),
}
COMMANDS = {
    "evaluate": "evaluate ROWS",
    "panel": "evaluate ROWS --panel tests",
    "summarize": "summarize ROWS --out s.zarr --overwrite",
    "check": "check ROWS --limit ece=0.3 --n-boot 9",
    "report": "report ROWS --out r.html --n-boot 9 --overwrite",
    "audit": "audit ROWS --features g --min-rows 5",
    "calibrate": "calibrate ROWS --method platt --out m.json --overwrite",
    "compare calibrators": "calibrate ROWS --compare",
    "threshold": "threshold ROWS --risk 0.3",
    "compare": "compare a=ROWS b=ROWS --n-boot 9",
    "apply": "apply map.json ROWS --out o.csv --overwrite",
    "verify": "verify receipt.json ROWS",
}
# Commands read tasks by the same code.
TASKS = ("", "--task binary", "--task multiclass")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run) -> Path:
    monkeypatch.chdir(tmp_path)
    pd.DataFrame({"label": LABELS, "score": SCORES}).to_csv("good.csv", index=False)
    assert run("calibrate", "good.csv", "--method", "platt", "--out", "map.json")[0] == 0
    assert run("evaluate", "good.csv", "--receipt", "receipt.json")[0] == 0
    for name, (labels, scores) in BAD.items():
        columns = (
            {"score": scores} if scores.ndim == 1 else {f"score_{k}": scores[:, k] for k in range(scores.shape[1])}
        )
        frame = pd.DataFrame({"label": labels, **columns, "g": np.arange(ROWS) % 2})
        frame.to_csv(f"{name.replace(' ', '_')}.csv", index=False)
    return tmp_path


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("command", COMMANDS)
def test_commands(command: str, run: Run) -> None:
    words = COMMANDS[command].split()
    known = {*options_of(cli.commands[words[0]]), "--help", "--debug"}
    said = 0
    for name in BAD:
        for task in TASKS if command == "evaluate" else ("",):
            given = [word.replace("ROWS", f"{name.replace(' ', '_')}.csv") for word in (*words, *task.split())]
            _, _, err = run(*given)
            assert "should not have happened" not in err, (given, err)
            said += bool(err)
            assert not {*re.findall(r"(?<![\w-])--[a-z][a-z-]*", err)} - known, (given, err)
            assert not arguments_in(err), (given, err)
    assert said > len(BAD) // 2


def arguments_in(text: str) -> set[str]:
    """Arguments of functions that a message mentions, but those of calls that it shows."""
    plain = re.sub(r"[\w.]+\((?:[^()]|\([^()]*\))*\)", "", text)
    return {*re.findall(r"(?<![\w.-])([a-z_]+)=(?!=)", plain)} | {*re.findall(r"\bsum_tolerance\b", plain)}


FUNCTIONS: dict[str, tuple[Callable[..., Any], Callable[[Any, Any], Any]]] = {
    "evaluate": (cd.evaluate, lambda y, p: cd.evaluate(y, p)),
    "ece": (cd.ece, lambda y, p: cd.ece(y, p)),
    "summarize": (cd.summarize, lambda y, p: cd.summarize(y, p)),
    "compare": (cd.compare, lambda y, p: cd.compare(y, p, p, n_boot=9)),
    "check": (cd.check, lambda y, p: cd.check(y, p, limits={"ece": 0.3}, n_boot=9)),
    "audit": (cd.audit, lambda y, p: cd.audit(y, p, {"g": np.arange(ROWS) % 2}, min_rows=5)),
    "threshold": (cd.threshold, lambda y, p: cd.threshold(y, p, 0.3)),
    "compare_calibrators": (cd.compare_calibrators, lambda y, p: cd.compare_calibrators(y, p)),
    "receipt": (cd.receipt, lambda y, p: cd.receipt(y, p)),
    "fingerprint": (cd.fingerprint, lambda y, p: cd.fingerprint(y, p)),
    "Accumulator": (cd.Accumulator, lambda y, p: cd.Accumulator().update(y, p)),
    "fit": (cd.PlattScaling, lambda y, p: cd.PlattScaling().fit(y, p)),
    "assert_calibrated": (assert_calibrated, lambda y, p: assert_calibrated(y, p, 0.3)),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("function", FUNCTIONS)
def test_functions(function: str) -> None:
    owner, call = FUNCTIONS[function]
    parameters = inspect.signature(owner).parameters
    known = {*parameters, *inspect.signature(getattr(owner, "fit", owner)).parameters}
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        known |= {*inspect.signature(cd.evaluate).parameters}
    for name, (labels, scores) in BAD.items():
        assert not arguments_in(refusal(call, labels, scores)) - known, (name, refusal(call, labels, scores))


def refusal(call: Callable[[Any, Any], Any], labels: Any, scores: Any) -> str:
    """What a function says of rows; empty if nothing."""
    try:
        call(labels, scores)
    except (ValueError, AssertionError) as error:
        return str(error) if isinstance(error, ValueError) else ""
    return ""
