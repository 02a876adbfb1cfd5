"""What is recorded: each case is a name that stays and a function that computes numbers."""

import io
import json
from collections.abc import Callable, Iterator
from contextlib import chdir, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from functools import cache, partial
from inspect import signature
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import xarray as xr

import calibdask as cd
import calibdask.accessor
from calibdask.cli import main
from tests.parity.estimators import BRIEF, EVERY, ONE_EACH, estimator
from tests.parity.inputs import CONTAINERS, INPUTS, containers, rows

# Older commits have no other panel than the full one.
_PANEL = "all" if "full" in signature(cd.default_metrics).parameters else None
_METHODS = ("corrected", "percentile", "bca")
_INTERVAL = {"ci": 0.95, "n_boot": 20, "seed": 2}


@dataclass(frozen=True)
class Case:
    """A name of parts between bars, and what computes a dataset, an array, a number or JSON."""

    name: str
    compute: Callable[[], Any]


# The parts of a name, and the function.
_Parts = Iterator[tuple[Any, ...]]


def cases() -> Iterator[Case]:
    """All cases."""
    for group in (_estimates, _intervals, _summaries, _comparisons, _others, _shell):
        for *parts, compute in group():
            yield Case(" | ".join(parts), compute)


def _evaluated(name: str, text: str | None, container: str = "numpy", **options: Any) -> xr.Dataset:
    """One estimator, under the same name for all; or the full panel."""
    metrics = _PANEL if text is None else {"m": estimator(text)}
    return cd.evaluate(**CONTAINERS[container](rows(name)), metrics=metrics, **options)


@cache
def _fitting(name: str) -> tuple[Any, ...]:
    """One of each estimator that takes the rows of that name."""
    fitting = []
    for text in ONE_EACH:
        with suppress(ValueError):
            _evaluated(name, text)
            fitting.append(estimator(text))
    return tuple(fitting)


def _together(name: str, container: str) -> xr.Dataset:
    """All of these in the same passes, under their own names."""
    return cd.evaluate(**CONTAINERS[container](rows(name)), metrics=_fitting(name))


def _estimates() -> _Parts:
    for name in INPUTS:
        for text in EVERY if name in ("binary", "matrix") else BRIEF:
            yield "evaluate", name, text, partial(_evaluated, name, text)
        for container in containers(name):
            yield "evaluate", name, container, "panel", partial(_evaluated, name, None, container)
            yield "evaluate", name, container, "together", partial(_together, name, container)
    for name, container in product(("binary", "matrix", "matrix weights"), ("dask", "blocks", "xarray")):
        for text in BRIEF if container == "dask" and name != "matrix weights" else ONE_EACH:
            yield "evaluate", name, container, text, partial(_evaluated, name, text, container)


def _intervals() -> _Parts:
    for name in INPUTS:
        for text in BRIEF if name in ("binary", "matrix") else ONE_EACH:
            # Beta kernels take 0.2 s a replicate.
            options = {**_INTERVAL, "n_boot": 3} if "beta" in text else _INTERVAL
            yield "interval", name, text, partial(_evaluated, name, text, **options)
    for name, text in product(("binary", "matrix by"), ONE_EACH):
        yield "interval", name, "replicates", text, partial(_evaluated, name, text, keep_replicates=True, **_INTERVAL)
        for method in _METHODS:
            yield "interval", name, method, text, partial(_evaluated, name, text, ci_method=method, **_INTERVAL)
    for name, container, text in product(("binary", "matrix weights"), ("dask", "blocks"), ONE_EACH):
        yield "interval", name, container, text, partial(_evaluated, name, text, container, **_INTERVAL)


@cache
def _summary(name: str, container: str = "numpy", pooled: tuple[str, ...] = ()) -> xr.Dataset:
    summary = cd.summarize(**CONTAINERS[container](rows(name)))
    return summary.sum(pooled) if pooled else summary


def _of_summary(name: str, pooled: tuple[str, ...], text: str | None, **options: Any) -> xr.Dataset:
    metrics = _PANEL if text is None else {"m": estimator(text)}
    return cd.evaluate(_summary(name, pooled=pooled), metrics=metrics, **options)


def _summaries() -> _Parts:
    slices = {"matrix by two names": ((), ("day",), ("country", "day"))}
    for name in ("binary", "binary weights", "matrix", "matrix by two names", "matrix models weights by"):
        for container in ("numpy", "dask"):
            yield "summary", name, container, partial(_summary, name, container)
        for pooled in slices.get(name, ((),)):
            parts = ("summary", name, *(["summed over " + ", ".join(pooled)] if pooled else []))
            yield *parts, "panel", partial(_of_summary, name, pooled, None)
            for text in ONE_EACH if pooled else BRIEF:
                yield *parts, text, partial(_of_summary, name, pooled, text)
            for text in ONE_EACH:
                yield *parts, "interval", text, partial(_of_summary, name, pooled, text, **_INTERVAL)
    for method, text in product(_METHODS, ONE_EACH):
        ends = partial(_of_summary, "matrix", (), text, ci_method=method, **_INTERVAL)
        yield "summary", "matrix", method, text, ends
    kept = partial(_of_summary, "matrix", (), "ece", keep_replicates=True, **_INTERVAL)
    yield "summary", "matrix", "replicates", kept
    for settings in (["binary"], [1, "classwise"]):
        yield "summary", "matrix", str(settings), partial(cd.summarize, **rows("matrix"), settings=settings, step=0.001)


def _sharper(scores: Any) -> Any:
    square = scores**2
    return square / square.sum(-1, keepdims=True) if scores.ndim > 1 else square


def _compared(name: str, text: str | None, **options: Any) -> xr.Dataset:
    given = rows(name)
    models = {"first": given["y_prob"], "second": given["y_prob"][::-1], "third": _sharper(given["y_prob"])}
    others = {key: value for key, value in given.items() if key not in ("y_true", "y_prob")}
    metrics = None if text is None else {"m": estimator(text)}
    return cd.compare(given["y_true"], models, metrics=metrics, n_boot=20, **others, **options)


def _worst(name: str, variable: str, **options: Any) -> xr.Dataset:
    return cd.worst_slices(_evaluated(name, None, **options), variable, n=4)


def _comparisons() -> _Parts:
    for name in ("binary", "binary weights", "matrix by two names"):
        for text in (None, *ONE_EACH):
            yield "compare", name, text or "panel", partial(_compared, name, text)
        options = {"baseline": "second", "ci_method": "bca", "seed": 3}
        yield "compare", name, "bca", partial(_compared, name, "ece", **options)
    two = rows("binary")["y_prob"], rows("binary ties")["y_prob"]
    yield "compare", "two", partial(cd.compare, rows("binary")["y_true"], *two, n_boot=20)
    for name, variable in product(("binary by", "matrix by two names"), ("ece", "brier_score", "smooth_ece")):
        yield "worst", name, variable, partial(_worst, name, variable)
        yield "worst", name, variable, "interval", partial(_worst, name, variable, **_INTERVAL)


_SHORTHANDS: dict[str, dict[str, Any]] = {
    "ece": {"bins": 10, "binning": "equal-mass"},
    "mce": {"bins": 5},
    "brier_score": {},
    "log_loss": {},
    "density_ece": {"bandwidth": 0.05},
    "skce": {"estimator": "biased"},
    "smooth_ece": {"step": 0.001},
    "reliability_diagram": {"bins": 6},
    "reliability_curve": {"points": 31},
}


def _calibrated(name: str, new: Any, **options: Any) -> dict[str, Any]:
    given = rows(name)
    made = cd.LCECalibrator(**options).fit(given["y_true"], given["y_prob"], given.get("sample_weight"))
    low, high = made.predict_interval(new, 0.9)
    probability, bandwidth = made.predict_proba(new), made.bandwidth_
    return {"probability": probability, "class": made.predict(new), "low": low, "high": high, "bandwidth": bandwidth}


def _by_accessor(method: str, **options: Any) -> Any:
    given = rows("matrix by")
    variables = {"labels": ("row", given["y_true"]), "scores": (("row", "class"), given["y_prob"])}
    data = xr.Dataset(variables, coords={"country": ("row", given["by"]["country"])})
    result = getattr(data.calib, method)(by="country", **options)
    return result.calib.table().to_dataframe().reset_index().to_xarray() if method == "evaluate" else result


@dataclass(frozen=True, kw_only=True)
class Errors(cd.Study):
    """A small cube of calibration errors."""

    outputs: ClassVar = {"gap": ("replicate",)}

    def cells(self) -> dict[str, Any]:
        return {"rows": (50, 200), "power": (1.0, 2.0)}

    def inside(self) -> dict[str, Any]:
        return {"replicate": range(3)}

    def cell(self, at: Any, seeds: Any) -> dict[str, Any]:
        scores, uniform = seeds.generator("rows").random((2, 3, at["rows"]))
        return {"gap": cd.ece(uniform < scores ** at["power"], scores).values}


def _cube() -> xr.Dataset:
    with TemporaryDirectory() as folder:
        cd.run(Errors(seed=7), f"{folder}/cube.zarr")
        return cd.open_cube(f"{folder}/cube.zarr")[["gap"]].load()


def _others() -> _Parts:
    for name, (word, options) in product(("binary", "binary weights", "matrix", "matrix by"), _SHORTHANDS.items()):
        yield "shorthand", name, word, partial(getattr(cd, word), **rows(name))
        yield "shorthand", name, word, "options", partial(getattr(cd, word), **rows(name), **options)
    for name in ("binary", "binary weights", "two columns", "matrix", "matrix weights"):
        new = rows(name)["y_prob"][:50]
        for options in ({}, {"monotone": True}, {"kernel": "gaussian", "bandwidth": 0.05}, {"bandwidth": "isj"}):
            yield "LCECalibrator", name, str(options), partial(_calibrated, name, new, **options)
    for method in ("evaluate", "summarize", "reliability_diagram", "reliability_curve"):
        yield "accessor", method, partial(_by_accessor, method)
    yield "accessor", "evaluate", "interval", partial(_by_accessor, "evaluate", **_INTERVAL)
    yield "study", _cube


_FILES = ("binary.npz", "matrix.npz", "binary.parquet", "matrix.parquet", "matrix.csv")
_METRICS = (
    "ece,ece-l,ece-a,ece-c,ece-ac,mce,brier,log-loss,brier-decomposition,log-loss-decomposition,corp,ecce,density-ece,"
    "ece-d,residual-ece,mean-gap,saturation,smooth-ece,skce,mmce,kernel-canonical-ece,excess-cost,multiclass-ece,"
    "skce-test,consistency-test,cme-test,spiegelhalter-test"
)
_OPTIONS = (
    "",
    "--by country",
    "--by country --by day --ci 0.95 --n-boot 20",
    "--weight weight --ci 0.9 --n-boot 20 --seed 3",
    "--ci 0.95 --n-boot 20 --ci-method percentile",
    "--setting classwise --bins 10 --compat netcal",
    "--setting 1 --binning equal-mass --bins 6",
    f"--metric {_METRICS}",
    f"--metric {_METRICS} --by country --resamples 20 --draws 50",
    "--metric multiclass-ece,skce --setting largest-2 --distance euclidean",
    "--metric skce-test --estimator block --block 7 --delta 0.05",
    "--metric density-ece --kernel gaussian --bandwidth isj",
)


def _written(folder: Path, file: str) -> None:
    """The rows of a file: an array, or a column, for each thing that is known of a row."""
    kind, suffix = file.split(".")
    labels, scores = (rows(kind)[key] for key in ("y_true", "y_prob"))
    columns = {**rows("matrix by two names")["by"], "weight": rows("matrix weights")["sample_weight"]}
    if suffix == "npz":
        np.savez(folder / file, labels=labels, scores=scores, **columns)
        return
    named = {"score": scores} if scores.ndim == 1 else {f"score_{c}": scores[:, c] for c in range(scores.shape[1])}
    frame = pd.DataFrame({"label": labels, **named, **columns})
    getattr(frame, "to_csv" if suffix == "csv" else "to_parquet")(folder / file, index=False)


def _printed(*commands: str) -> Any:
    """The JSON that the last of some commands prints in a folder with all files, and its exit status."""
    with TemporaryDirectory() as folder, chdir(folder), redirect_stderr(io.StringIO()):
        for file in _FILES:
            _written(Path(folder), file)
        for command in commands:
            with redirect_stdout(io.StringIO()) as output:
                status = main([*command.split(), *_all_of(command)])
        return {"status": status, "json": json.loads(output.getvalue() or "null")}


def _all_of(command: str) -> list[str]:
    """What is added to a command so that it computes the full panel, where it names no metrics."""
    return ["--all"] if _PANEL and command.startswith("evaluate") and "--metric" not in command else []


def _shell() -> _Parts:
    for file, options in product(_FILES, _OPTIONS):
        command = f"evaluate {file} --json {options}".strip()
        yield "shell", command, partial(_printed, command)
    for options in ("", "--conventions published --setting confidence", "--setting largest-2 --consistency uniform"):
        command = f"test binary.npz matrix.parquet --json --resamples 20 {options}".strip()
        yield "shell", command, partial(_printed, command)
    summarize = "summarize matrix.parquet --out summary.zarr --by country --by day"
    for options in ("", "--by country --ci 0.95 --n-boot 20", "--metric ece,density-ece,mean-gap --setting classwise"):
        command = f"evaluate summary.zarr --json {options}".strip()
        yield "shell", summarize, command, partial(_printed, summarize, command)
