"""Misuse of containers of columns: one sentence that says what came, what was expected and how to mend it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import calibdask as cd

FRAME = pd.DataFrame({"clicked": [0, 1, 1], "prediction": [0.2, 0.4, 0.9], "country": ["de", "fr", "fr"]})
NAMING = " Name the columns by --label and --score, in Python by label= and score=."
TABLE = pa.Table.from_pandas(FRAME)


def evaluated(frame: Any, **options: Any) -> Callable[[], Any]:
    return lambda: cd.evaluate(frame, metrics=cd.ECE(), **options)


MISUSE: list[tuple[Callable[[], Any], str]] = [
    (
        evaluated(FRAME, label="clickd", score="prediction"),
        "The frame has no column 'clickd'; it has clicked, prediction, country." + NAMING,
    ),
    (
        evaluated(FRAME, label="clicked", score="predictions"),
        "The frame has neither a column 'predictions' nor columns predictions_0, predictions_1, ...; it has "
        "prediction, clicked, country." + NAMING,
    ),
    (evaluated(FRAME), "The frame has no column 'label'; it has clicked, prediction, country." + NAMING),
    (
        evaluated(FRAME.assign(y=0, target=1), score="prediction"),
        "The frame has several columns that may be the labels: 'y', 'target'." + NAMING,
    ),
    (
        evaluated(FRAME.assign(prob=0.5, p_0=0.5, p_1=0.5), label="clicked"),
        "The frame has several columns that may be the scores: 'prob', 'p_0, ...'." + NAMING,
    ),
    (
        evaluated(FRAME, label="clicked", score=["prediction", "prediction"]),
        "score expects different columns, got 'prediction', 'prediction'.",
    ),
    (
        evaluated([0, 1], label="y", score="p"),
        "label and score name columns of a data frame, a table, a relation, a data set, or a function that returns a "
        "reader of record batches; got list.",
    ),
    (
        evaluated(TABLE.to_reader(), label="clicked", score="prediction", by=["country"]),
        "These metrics or slices need several passes, but the reader is exhausted; give a function that returns a new "
        "reader, or a table.",
    ),
    (
        evaluated(pl.from_arrow(TABLE).lazy(), label="clicked", score="country"),  # type: ignore[union-attr]
        "column 'country' expects numbers, got 'de', of type str, in row 0; repair these values, or convert them by "
        "astype(float).",
    ),
    (
        evaluated(pl.from_arrow(TABLE).lazy(), label="clicked", score="prediction", sample_weight=np.ones(3)),  # type: ignore[union-attr]
        "by and sample_weight of a lazy frame, a relation or a reader expect names of its columns.",
    ),
    (
        evaluated(FRAME, label="clicked", score=FRAME["prediction"]),
        "score expects the name of a column, or a list of names, got Series; with a frame, name all columns; pass "
        "arrays without it: evaluate(y_true, y_prob).",
    ),
    (
        evaluated(FRAME.rename(columns={"clicked": " clicked"}), label="clicked", score="prediction"),
        "The frame has no column 'clicked'; it has ' clicked', prediction, country." + NAMING,
    ),
]


@pytest.mark.parametrize(("call", "sentence"), MISUSE, ids=range(len(MISUSE)))
def test_sentences(call: Callable[[], Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        call()
    assert str(caught.value) == sentence


def folder_of_two(folder: Path) -> Path:
    FRAME.to_csv(folder / "rows.csv", index=False)
    FRAME.to_parquet(folder / "rows.parquet", index=False)
    return folder


def text(path: Path, rows: str) -> Path:
    path.write_text(rows)
    return path


def arrays(path: Path) -> Path:
    np.savez(path, [0, 1], [0.2, 0.8])
    return path


def iceberg(folder: Path) -> Path:
    (folder / "metadata").mkdir()
    (folder / "metadata" / "v1.metadata.json").write_text("{}")
    return folder


FILES: list[tuple[Callable[[Path], object], dict[str, Any], str]] = [
    (
        folder_of_two,
        {},
        "{} matches files of several formats, .csv, .parquet; give a pattern for one of them, such as '*.csv'.",
    ),
    (lambda folder: folder / "*.parquet", {}, "{} cannot be read: no file matches this pattern."),
    (
        iceberg,
        {},
        "{} is an Iceberg table, which is not read here; scan it by Polars (scan_iceberg), DuckDB (iceberg_scan) or "
        "pyiceberg (to_arrow), and give the frame to calibdask.evaluate, or write it to Parquet.",
    ),
    (
        lambda folder: text(folder / "rows.csv", "0,0.25,de\n1,0.75,fr\n"),
        {},
        "{} begins with values, 0, 0.25, de, where names of columns are expected; add a first line such as "
        "label,score.",
    ),
    (
        lambda folder: text(folder / "rows.csv", "label;score\n0;0,25\n1;0,75\n"),
        {},
        "{} cannot be read as CSV: column 'score' expects numbers, row 0: conversion error to double: invalid value "
        "'0,25'; write decimal commas as points; correct it, or name another column by --label, --score or --weight "
        "(label=, score=, weight=)",
    ),
    (
        lambda folder: arrays(folder / "rows.npz"),
        {},
        "{} has no array 'labels'; it has arr_0, arr_1. Name the arrays by --label and --score, in Python by label= "
        "and score=.",
    ),
]


@pytest.mark.parametrize(("make", "options", "sentence"), FILES, ids=range(len(FILES)))
def test_sentences_about_files(
    make: Callable[[Path], object], options: dict[str, Any], sentence: str, tmp_path: Path
) -> None:
    url = str(make(tmp_path))
    with pytest.raises(ValueError, match=r".") as caught:
        cd.read_rows(url, **options)
    assert str(caught.value) == sentence.replace("{}", url)


def test_delta_names_its_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "_delta_log").mkdir()
    monkeypatch.setitem(__import__("sys").modules, "deltalake", None)
    with pytest.raises(
        ValueError, match=r'expects the package deltalake; install it: pip install "calibdask\[delta\]"$'
    ):
        cd.read_rows(str(tmp_path))
