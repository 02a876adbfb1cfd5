"""Write small files of every stored format, and beside them the numbers that they hold.

``python -m tests.release.write_fixtures 1.0`` writes `tests/fixtures/1.0`: all files in one archive, as a store has
dozens of small ones, `values.json`, and `public.json` with the names that are public. A folder is never written again:
`tests.release.test_frozen_files` reads each with the code of today, so that later versions read what earlier ones
wrote. A version that changes a format adds a folder and leaves the others as they are.
"""

import contextlib
import inspect
import json
import os
import sys
import tarfile
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import numpy as np
import pandas as pd
import xarray as xr

import calibdask as cd
from calibdask.cli import cli, main
from calibdask.estimators.signatures import signatures
from tests.study.sample_study import Walks

DAYS = ("2026-01-01", "2026-01-02", "2026-01-03")
METRICS = ["ece", "cutoff-error", "brier-score", "log-loss", "mean-gap"]
LIMITS = """confidence = 0.95
by = ["country"]
owner = "Risk"
declared = 2026-01-15

[limits]
ece = 0.2
mean-gap = "-0.001..0.001"

[slice-limits]
brier-score = 0.5
"""
BINARY = (
    cd.PlattScaling,
    cd.QuadraticScaling,
    cd.BetaCalibration,
    cd.IsotonicCalibration,
    cd.HistogramBinning,
    cd.SplineCalibration,
    cd.VennAbers,
)
MULTICLASS = (cd.TemperatureScaling, cd.VectorScaling, cd.StructuredScaling)
# Commands whose JSON other programs read, with the options that they are called with in the folder of the files.
DOCUMENTS: Mapping[str, tuple[str, ...]] = {
    "evaluate": ("rows.csv", "--by", "country", "--ci", "0.9", "--metric", "ece", "--metric", "brier-score"),
    "compare": ("old=rows.csv", "new=applied.csv"),
    "threshold": ("rows.csv", "--risk", "0.4"),
    "check": ("rows.csv", "--limits", "limits.toml"),
    "audit": ("rows.csv", "--features", "country,age", "--min-rows", "50"),
    "shrink": ("rows.csv", "--by", "country"),
    "attribute": ("periods.zarr", "--before", DAYS[0], "--after", DAYS[2]),
    "watch": ("periods.zarr",),
}


def rows() -> pd.DataFrame:
    """Scored rows with slices, clusters, features and days; from the third day on the scores are far too high."""
    rng = np.random.default_rng(1)
    n = 900
    day = np.repeat(DAYS, n // len(DAYS))
    score = rng.beta(1, 2, n).round(4)
    chance = np.where(day == DAYS[2], score**3, score)
    return pd.DataFrame(
        {
            "label": (rng.random(n) < chance).astype(int),
            "score": score,
            "day": day,
            "country": rng.choice(["de", "fr", "it"], n),
            "patient": rng.integers(0, 150, n),
            "age": rng.integers(18, 90, n),
        }
    )


def classes() -> pd.DataFrame:
    """Rows of three classes."""
    rng = np.random.default_rng(2)
    scores = rng.dirichlet([1, 1, 1], 300).round(4)
    scores[:, 2] = 1 - scores[:, 0] - scores[:, 1]
    label = (scores.cumsum(1) < rng.random((300, 1))).sum(1).clip(0, 2)
    return pd.DataFrame({"label": label, **{f"score_{k}": scores[:, k].round(4) for k in range(3)}})


def call(*words: str, statuses: tuple[int, ...] = (0,)) -> None:
    status = main([*words])
    if status not in statuses:
        raise RuntimeError(f"calibdask {' '.join(words)} ended with status {status}")


def write_summaries() -> None:
    call("summarize", "rows.csv", "--by", "country", "--out", "summary.zarr")
    call("summarize", "rows.csv", "--by", "country", "--out", "summary.nc")
    # So many slices that only the cells with rows are stored.
    call("summarize", "rows.csv", "--by", "patient", "--setting", "binary", "--out", "slices.zarr")
    call("summarize", "rows.csv", "--by", "patient", "--setting", "binary", "--step", "0.002", "--out", "slices.nc")
    call("summarize", "rows.csv", "--groups", "patient", "--buckets", "16", "--step", "0.01", "--out", "clusters.zarr")
    call("summarize", "rows.csv", "--features", "country,age", "--step", "0.01", "--out", "features.zarr")
    call("summarize", "classes.csv", "--out", "classes.zarr")


def write_periods(table: pd.DataFrame) -> None:
    """Three days, of which the first was replaced."""
    for number, (day, rest) in enumerate(table.groupby("day")):
        rest.drop(columns="day").to_csv("day.csv", index=False)
        to = ("--by", "country", "--append", "periods.zarr", "--period", f"day={day}")
        call("summarize", "day.csv", *to)
        if number == 0:
            call("summarize", "day.csv", *to, "--replace", "--reason", "labels came late")
    os.remove("day.csv")


def write_maps(table: pd.DataFrame, matrix: pd.DataFrame) -> None:
    Path("maps").mkdir()
    scores = matrix.filter(like="score_").to_numpy()
    fitted: list[Any] = [kind().fit(table.label.to_numpy(), table.score.to_numpy()) for kind in BINARY]
    fitted.append(cd.LCECalibrator(step=0.01).fit(table.label.to_numpy(), table.score.to_numpy()))
    fitted += [kind().fit(matrix.label.to_numpy(), scores) for kind in MULTICLASS]
    fitted.append(cd.PriorShift(prevalence=0.2, train_prevalence=0.3).fit(table.label, table.score))
    for calibrator in fitted:
        Path("maps", f"{type(calibrator).__name__}.json").write_text(json.dumps(calibrator.to_dict()))
    call("calibrate", "rows.csv", "--by", "country", "--min-rows", "50", "--out", "maps/by_country.json")
    call("calibrate", "rows.csv", "--features", "country,age", "--out", "maps/features.json")


def accumulated(table: pd.DataFrame, weight: Any = None) -> cd.Accumulator:
    """Of all rows, in batches of 100."""
    accumulator = cd.Accumulator([cd.ECE(), cd.BrierScore()])
    for start in range(0, len(table), 100):
        part = slice(start, start + 100)
        accumulator.update(table.label[part], table.score[part], None if weight is None else weight[part])
    return accumulator


def write_all(folder: Path) -> None:
    """Write the archive, then the numbers, which are computed from the rows and not from the files."""
    folder.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as written, contextlib.chdir(written):
        table, matrix = rows(), classes()
        write_files(table, matrix)
        with tarfile.open(folder / "files.tar.xz", "w:xz") as archive:
            archive.add(".", filter=without_owner)
        expected = values(table, matrix)
    (folder / "values.json").write_text(json.dumps(expected, indent=1) + "\n")
    (folder / "public.json").write_text(json.dumps(public_names(), indent=1) + "\n")


def public_names() -> dict[str, dict[str, list[str]]]:
    """Names in Python with their parameters, commands with their options, metrics with their choices."""
    values = {name: getattr(cd, name) for name in cd.__all__}
    return {
        "python": {name: parameters(value) for name, value in values.items()},
        "commands": {name: options(command) for name, command in cli.commands.items() if not command.hidden},
        "metrics": {word: list(signature.choices) for word, signature in signatures().items()},
    }


def parameters(value: Any) -> list[str]:
    return list(inspect.signature(value).parameters) if callable(value) else []


def options(command: click.Command) -> list[str]:
    each = command.get_params(click.Context(command))
    return sorted(word for option in each if isinstance(option, click.Option) for word in option.opts)


def without_owner(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Who wrote the files, on what machine, is nobody's business."""
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


def write_files(table: pd.DataFrame, matrix: pd.DataFrame) -> None:
    table.to_csv("rows.csv", index=False)
    matrix.to_csv("classes.csv", index=False)
    Path("limits.toml").write_text(LIMITS)
    write_summaries()
    write_periods(table)
    write_maps(table, matrix)
    call("check", "rows.csv", "--limits", "limits.toml", "--receipt", "receipt.json", statuses=(0, 1, 3))
    call("watch", "periods.zarr", "--state", "watch.json", statuses=(0, 1))
    np.savez_compressed("accumulator.npz", **accumulated(table).state_dict())
    np.savez_compressed("weighted_accumulator.npz", **accumulated(table, 1 + table.age % 3).state_dict())
    cd.run(Walks(lengths=(5, 20), replicates=2), "cube.zarr")
    for name in ("applied.parquet", "applied.zarr", "applied.csv"):
        call("apply", "maps/PlattScaling.json", "rows.csv", "--out", name)
    options = ("--by", "country", "--ci", "0.9", "--metric", "ece", "--metric", "reliability-diagram")
    for name in ("result.zarr", "result.nc"):
        call("evaluate", "rows.csv", *options, "--out", name)
    write_documents()


def write_documents() -> None:
    Path("documents").mkdir()
    for name, words in DOCUMENTS.items():
        call(name, *words, "--out", f"documents/{name}.json", statuses=(0, 1, 3))


def numbers(result: xr.Dataset) -> dict[str, Any]:
    """Values of a result by name, as lists."""
    return {str(name): result[name].values.tolist() for name in result.data_vars}


def values(table: pd.DataFrame, matrix: pd.DataFrame) -> dict[str, Any]:
    """The numbers of the rows, computed from the rows and not from the files."""
    label, score, scores = table.label.to_numpy(), table.score.to_numpy(), matrix.filter(like="score_").to_numpy()
    by, day = {"country": table.country.to_numpy()}, {"day": table.day.to_numpy()}
    per_day = cd.summarize(label, score, by={**by, **day}, settings=("confidence", "classwise"))
    watched = cd.watch(per_day)
    by_bucket = cd.summarize(label, score, groups=table.patient.to_numpy(), buckets=16, step=0.01)
    maps = {path.stem: json.loads(path.read_text()) for path in sorted(Path("maps").iterdir())}
    return {
        "calibdask_version": cd.__version__,
        "by_country": numbers(cd.evaluate(label, score, METRICS, by=by)),
        "by_patient": numbers(cd.evaluate(label, score, "brier-score", by={"patient": table.patient.to_numpy()})),
        "by_country_and_day": numbers(cd.evaluate(label, score, METRICS, by={**by, **day})),
        "classes": numbers(cd.evaluate(matrix.label.to_numpy(), scores, ["ece", "ece(setting=classwise)"])),
        "all_rows": numbers(cd.evaluate(label, score, METRICS)),
        "clusters": numbers(cd.evaluate(by_bucket, ci=0.9)),
        "audit": sorted(cd.audit(label, score, table[["country", "age"]]).segment.values.tolist()),
        "weighted": numbers(accumulated(table, 1 + table.age % 3).result()),
        "watch": {name: watched[name].values.tolist() for name in ("log_e", "alarm", "gap")},
        "platt": cd.Calibrator.from_dict(maps["PlattScaling"]).predict_proba(score)[:, 1].tolist(),
        "maps": {name: mapped(name, stored, table, matrix) for name, stored in maps.items()},
        "cube": numbers(cd.open_cube("cube.zarr")[[*Walks.outputs]]),
    }


def mapped(name: str, stored: Mapping[str, Any], table: pd.DataFrame, matrix: pd.DataFrame) -> Any:
    """Scores that a stored map makes of those of the first rows."""
    calibrator: Any = cd.Calibrator.from_dict(stored)
    first = table[:20]
    if int(stored["columns"]) > 2:
        return calibrator.predict_proba(matrix.filter(like="score_").to_numpy()[:20]).tolist()
    named = {"by_country": {"by": {"country": first.country}}, "features": {"features": first[["country", "age"]]}}
    return calibrator.predict_proba(first.score.to_numpy(), **named.get(name, {})).tolist()


if __name__ == "__main__":
    write_all(Path(__file__).parents[1] / "fixtures" / sys.argv[1])
