"""Names that would move the cursor, colour the screen or turn the direction of text, and where they are shown."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd

import calibdask as cd
from calibdask.accessor import CalibrationAccessor
from calibdask.render.table import ResultTable
from calibdask.storage.writers import write_dataset
from calibdask.study.example import Means
from calibdask.study.seeds import Seeds

# Of each kind one: C0 (escape, bell, backspace), DEL, C1 (the 8-bit escape), embedding, isolate, marks, separators.
EVIL = "n\x1b[31m\x07\x08\x7f\x9b2J\u202e\u2066\u200e\u200f\u2028\u2029z"
# Signs that no output may hold; lines end, and nothing else.
FORBIDDEN = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]")
# The beginning of the name in signs that show, in a text or in JSON.
SHOWN = re.compile(r"n\\+(x1b|u001b)")
ROWS = 60
LABELS, SCORES = np.arange(ROWS) % 2, np.linspace(0.02, 0.98, ROWS)

# The arguments of a command, made in a folder; meaning goes to the terminal, or into a page there.
Command = Callable[[Path], list[str]]


def rows(path: Path, **columns: Any) -> str:
    pd.DataFrame({"label": LABELS, "score": SCORES, **columns}).to_parquet(path)
    return str(path)


@dataclass(frozen=True, kw_only=True)
class Failing(Means):
    """Means, the last of which fails with a text that is no parameter."""

    error: ClassVar[str] = ""

    def cell(self, at: Mapping[str, Any], seeds: Seeds) -> dict[str, Any]:
        if at["rows"] == self.rows[-1]:
            raise ValueError(self.error)
        return super().cell(at, seeds)


def named(folder: Path, name: str = f"{EVIL}.parquet") -> str:
    return rows(folder / name)


def summary(path: Path, **options: Any) -> str:
    write_dataset(cd.summarize(LABELS, SCORES, settings=["binary"], **options), path)
    return str(path)


def cube(folder: Path, error: str = "") -> str:
    path = str(folder / f"{EVIL}.zarr")
    if not error:
        cd.run(Means(rows=(4, 5), replicates=30), path)
        return path
    Failing.error = error
    assert cd.run(Failing(rows=(4, 5), replicates=30), path).failed == 1
    return path


def damaged(path: Path) -> str:
    path.write_text("no")
    return str(path)


def texts(path: Path) -> str:
    pd.DataFrame({"label": LABELS, "score": [EVIL] * ROWS}).to_csv(path, index=False)
    return str(path)


HALVES = np.where(np.arange(ROWS) < ROWS // 2, EVIL, "b")
CLASSES = np.where(LABELS > 0, EVIL, "b")
ECE = ["--metric", "ece"]

COMMANDS: dict[str, Command] = {
    "column of slices": lambda p: ["evaluate", rows(p / "a.parquet", **{EVIL: LABELS}), "--by", EVIL, *ECE],
    "slices": lambda p: ["evaluate", rows(p / "a.parquet", by=HALVES), "--by", "by", *ECE],
    "file that is not there": lambda p: ["evaluate", str(p / EVIL)],
    "damaged file": lambda p: ["evaluate", damaged(p / f"{EVIL}.npz")],
    "files as models": lambda p: ["evaluate", named(p), rows(p / "b.parquet"), *ECE],
    "models": lambda p: ["evaluate", f"{EVIL}={rows(p / 'a.parquet')}", rows(p / "b.parquet"), *ECE],
    "compare": lambda p: ["compare", named(p), f"{EVIL}2={rows(p / 'b.parquet')}", *ECE, "--n-boot", "5"],
    "panel of tests": lambda p: [
        "evaluate",
        "--panel",
        "tests",
        named(p),
        rows(p / "b.parquet"),
        *["--resamples", "5"],
    ],
    "unknown column": lambda p: ["evaluate", rows(p / "a.parquet", **{EVIL: LABELS}), "--by", f"{EVIL}2"],
    "several labels": lambda p: ["evaluate", rows(p / "a.parquet", **{f"{EVIL}_label": LABELS}), "--score", EVIL],
    "scores are texts": lambda p: ["evaluate", texts(p / f"{EVIL}.csv")],
    "classes": lambda p: ["evaluate", rows(p / "a.parquet", label=CLASSES), "--labels", f"a,{EVIL}"],
    "positive class": lambda p: ["evaluate", rows(p / "a.parquet", label=CLASSES), "--pos-label", f"{EVIL}2"],
    "output": lambda p: ["evaluate", named(p), "--out", str(p / f"{EVIL}.json"), *ECE],
    "output that is there": lambda p: ["evaluate", named(p), "--out", damaged(p / f"{EVIL}.json"), *ECE],
    "report": lambda p: [
        *["report", rows(p / f"{EVIL}.parquet", by=HALVES, **{EVIL: LABELS}), "--by", EVIL, "--by", "by"],
        *["--out", str(p / "page.html"), "--title", EVIL, "--limit", "0.1", "--n-boot", "5"],
    ],
    "summarize": lambda p: [
        *["summarize", rows(p / "a.parquet", **{EVIL: LABELS}), "--by", EVIL, "--out", str(p / f"{EVIL}.zarr")]
    ],
    "append": lambda p: [
        *["summarize", rows(p / "a.parquet", **{EVIL: LABELS}), "--append", str(p / f"{EVIL}.zarr")],
        *["--period", f"{EVIL}2={EVIL}", "--by", EVIL],
    ],
    "append to what is no store": lambda p: [
        *["summarize", named(p), "--append", summary(p / f"{EVIL}.zarr"), "--period", f"{EVIL}={EVIL}"]
    ],
    "slice of a summary": lambda p: ["evaluate", summary(p / f"{EVIL}.zarr", by={EVIL: LABELS}), "--by", f"{EVIL}2"],
    "merge": lambda p: [
        *["merge", summary(p / f"{EVIL}.zarr", by={EVIL: LABELS}), summary(p / "b.zarr"), "--out", str(p / "c.zarr")]
    ],
    "status": lambda p: ["status", cube(p, f"Traceback\nValueError: {EVIL}")],
    "report on a cube": lambda p: ["report", cube(p, f"ValueError: {EVIL}"), "--out", str(p / "page.html")],
    "run": lambda p: ["run", "calibdask.study.example:Means", "--store", str(p / f"{EVIL}.zarr")],
    "unknown parameter": lambda p: [
        *["run", "calibdask.study.example:Means", "--store", str(p / "c.zarr"), "--set", f"{EVIL}={EVIL}"]
    ],
    "study": lambda p: ["run", f"calibdask.study.example:{EVIL}", "--store", str(p / "c.zarr")],
    "folder of a study": lambda p: ["run", str(p / EVIL), "--store", str(p / "c.zarr")],
    "explore": lambda p: ["explore", named(p), "--no-browser"],
    "cluster": lambda p: ["evaluate", named(p), "--cluster", EVIL],
    "scheduler": lambda p: ["evaluate", named(p), "--cluster", f"tcp://{EVIL}:1"],
    "certificates": lambda p: ["certs", str(p / EVIL)],
    "metric": lambda p: ["evaluate", named(p), "--metric", f"ece(bins={EVIL})"],
    "choice of a metric": lambda p: ["evaluate", named(p), "--metric", f"ece({EVIL}=1)"],
    "option": lambda p: ["evaluate", named(p), f"--{EVIL}"],
    "command": lambda p: [EVIL],
}

FRAME = pd.DataFrame({"label": LABELS, "score": SCORES, EVIL: HALVES})


def _result() -> Any:
    return cd.evaluate(LABELS, SCORES, {EVIL: cd.ECE()}, by={EVIL: HALVES}, ci=0.9, n_boot=5)


# What is shown in Python, or raised there.
CALLS: dict[str, Callable[[], Any]] = {
    "table": lambda: repr(ResultTable(_result())),
    "table as HTML": lambda: ResultTable(_result())._repr_html_(),
    "table as Markdown": lambda: ResultTable(_result())._repr_markdown_(),
    "table of one result": lambda: repr(ResultTable(cd.evaluate(LABELS, SCORES, {EVIL: cd.ECE()}))),
    "no such column": lambda: cd.evaluate(FRAME, label="label", score="p"),
    "no such variable": lambda: CalibrationAccessor(FRAME.to_xarray()).evaluate("label", "p"),
    "slices of a summary": lambda: cd.evaluate(cd.summarize(FRAME, label="label", score="score", by=[EVIL]), by=["x"]),
    "summaries that do not fit": lambda: cd.merge(
        cd.summarize(FRAME, label="label", score="score", by=[EVIL]), cd.summarize(LABELS, SCORES)
    ),
    "too many slices": lambda: cd.evaluate(
        LABELS, SCORES, by={EVIL: np.arange(ROWS), "b": np.arange(ROWS), "c": np.arange(ROWS), "d": np.arange(ROWS)}
    ),
    "models": lambda: cd.compare(LABELS, {EVIL: SCORES, "b": SCORES}, baseline="c"),
    "no order": lambda: cd.worst_slices(_result(), EVIL + "2"),
    "names of classes": lambda: cd.evaluate(CLASSES, SCORES, labels=["a", EVIL + "2"]),
    "study": lambda: Means().with_settings({EVIL: "1"}),
}
