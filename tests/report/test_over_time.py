"""The section of a report on calibration over time."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import calibdask as cd
from calibdask.data.data import Data
from calibdask.report import measure
from calibdask.report.over_time import Watching, rows_over_time
from tests.monitoring.drifted import DAYS, FROM, drifted_rows, drifted_summary
from tests.report.page_reader import Reader, page_of

FEW: Any = {"metrics": {"ece": cd.ECE()}, "n_boot": 20}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("days")
    labels, scores, by = drifted_rows()
    frame = pd.DataFrame({"label": labels, "score": scores, **by, "w": 1.0})
    frame["day"] = frame["day"].astype(str)
    frame.to_csv(folder / "rows.csv", index=False)
    return folder


def test_rows_and_their_summary_tell_the_same(tmp_path: Path) -> None:
    labels, scores, by = drifted_rows()
    watching = Watching("day", version="version")
    of_rows = rows_over_time(Data.of(labels, scores, by), watching, "binary")
    summary = cd.summarize(labels, scores, by=by, settings=["binary"])
    of_summary = measure(summary, watching=watching, **FEW)
    assert list(of_rows.slices) == list(of_summary.slices) == ["country"]
    for name in ("since", "changes", "marks"):
        assert getattr(of_rows, name) == getattr(of_summary.over_time, name)
    html, reader = page_of(tmp_path, {"model": of_summary})
    assert "Since 2026-01-19 country=b is off: scores " in reader.text
    assert ">v2</text>" in html
    assert "Over time by country, most evidence first" in reader.text
    whole = cd.watch(summary, by="country")
    assert set(whole.gap.isel(day=-1).values.tolist()) <= set(reader.numbers)
    change = cd.attribute(summary, slice(None, DAYS[17]), slice(FROM, None), by="country")
    assert f"and {100 * float(change.all_within):+.1f} points from behaviour (within)" in reader.text
    # Pictures are read aloud too.
    labels_of = [given["aria-label"] or "" for given in reader.having("svg", role="img")]
    assert any(words.startswith("country=b: evidence by day") for words in labels_of)


def test_a_model_that_is_not_off(tmp_path: Path) -> None:
    summary = drifted_summary("day", "country", shift=0.0)
    _, reader = page_of(tmp_path, measure(summary, watching=Watching("day", tolerance=0.01), **FEW))
    assert "No evidence in 30 periods that the model is off" in reader.text
    assert "What changed" not in reader.text
    assert "within 1 point of the scores" in reader.text


def test_periods_that_are_not_due_are_pending(tmp_path: Path) -> None:
    labels, scores, by = drifted_rows()
    summary = cd.summarize(labels, scores, by={name: by[name] for name in ("day", "country")}, settings=["binary"])
    watching = Watching("day", due="30d", now="2026-02-10")
    html, reader = page_of(tmp_path, measure(summary, watching=watching, **FEW))
    # Country b is off from the 19th day on, and ten days are due.
    assert "No evidence in 10 periods that the model is off" in reader.text
    assert "Grey periods are not due" in reader.text
    assert 'class="pending"' in html
    of_rows = rows_over_time(Data.of(labels, scores, by), watching, "binary")
    assert of_rows.pending is not None
    assert of_rows.pending.rows.tolist() == [300] * 20
    due = cd.watch(summary, by="country", due="30d", now="2026-02-10")
    for process, expected in zip(of_rows.slices["country"], due.log_e, strict=True):
        np.testing.assert_allclose(process.log_e, expected)
    with pytest.raises(ValueError, match="now has no effect without due"):
        Watching("day", now="2026-02-10")
    with pytest.raises(ValueError, match="due expects a time such as '30d'"):
        Watching("day", due="soon")


def test_versions_along_the_periods(tmp_path: Path) -> None:
    summary = drifted_summary("day", days=DAYS[:6]).assign_coords(version=("day", np.repeat([1, 2], 3)))
    html, _ = page_of(tmp_path, measure(summary, watching=Watching("day"), **FEW))
    assert html.count(">version 2</text>") == 2
    with pytest.raises(ValueError, match=r"expects slices of the summary, none, or a coordinate of day, got 'release'"):
        measure(summary, watching=Watching("day", version="release"), **FEW)


def test_classes_are_watched_each(tmp_path: Path) -> None:
    labels, scores, by = drifted_rows()
    summary = cd.summarize(
        labels, np.stack([1 - scores, scores], -1), by={"day": by["day"]}, settings=["classwise"], step=0.003
    )
    metrics = {"ece": cd.ECE(setting="classwise")}
    measured = measure(summary, metrics=metrics, n_boot=20, watching=Watching("day"))
    _, reader = page_of(tmp_path, measured)
    assert re.search("Since 2026-01-(19|20) class=", reader.text)
    assert "Over time by class, most evidence first" in reader.text
    assert "by groups of scores" in reader.text


def test_the_command(run: Any, data: Path) -> None:
    out = ("--out", data / "page.html", "--n-boot", 20, "--overwrite")
    status, _, err = run("report", data / "rows.csv", "--period", "day", "--by", "country", "--alpha", 0.01, *out)
    assert (status, err) == (0, "")
    reader = Reader((data / "page.html").read_text())
    assert "against a threshold of 100, a discovery among 3" in reader.text
    assert "by day, the worst first" not in reader.text
    summary = data / "days.zarr"
    run("summarize", data / "rows.csv", "--by", "country", "--by", "day", "--out", summary)
    status, _, err = run("report", summary, "--period", "day", "--by", "country", *out)
    assert (status, err) == (0, "")
    assert "country=b is off" in Reader((data / "page.html").read_text()).text


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--tolerance", 0.01), "--tolerance has no effect without --period"),
        (("--period", "day", "--weight", "w"), "--period has no effect with --weight"),
        (("--period", "day", "--tolerance", 2), "tolerance expects a number from 0 to below 1"),
        (("--period", "week"), "week"),
    ],
)
def test_what_makes_no_sense(run: Any, data: Path, options: tuple[Any, ...], words: str) -> None:
    status, _, err = run("report", data / "rows.csv", *options, "--out", data / "no.html")
    assert status == 2
    assert words in err
    assert not (data / "no.html").exists()
