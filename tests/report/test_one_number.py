"""Sentences of a report that stand beside each other agree: they are computed from the same numbers."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pandas as pd
import pytest
import xarray as xr

import calibdask as cd
from calibdask.analyses.gating.check import Check
from calibdask.analyses.gating.gate import interval_text, sentence
from calibdask.data.data import Data
from calibdask.report import measure
from calibdask.report.banners import banner
from calibdask.report.model_result import ModelResult
from calibdask.report.over_time import Watching, due_rows
from calibdask.report.verdict import verdict_on, worst_slices
from tests.report.page_reader import Reader, page_of
from tests.report.sample_rows import SOME

RNG = np.random.default_rng(3)


def _biased(rows: int, bias: float) -> tuple[np.ndarray, np.ndarray]:
    scores = RNG.uniform(0.1, 0.9, rows)
    return (RNG.random(rows) < np.clip(scores + bias, 0, 1)).astype(int), scores


def test_a_biased_model_is_not_within_chance() -> None:
    """Where the mean gap excludes 0 no sentence says that there is no error beyond chance."""
    biased = 0
    for seed in range(12):
        rng = np.random.default_rng(seed)
        scores = rng.beta(2, 6, 400)
        labels = (rng.random(400) < np.clip(scores + 0.05, 0, 1)).astype(int)
        model = ModelResult("m", measure(labels, scores, {"ece": cd.ECE()}, n_boot=50))
        gap, verdict = model.gap, verdict_on(model)
        assert gap is not None
        assert (verdict.outcome in ("bias", "error")) == (gap.low > 0 or gap.high < 0 or model.error.low > 0)  # type: ignore[union-attr]
        if verdict.outcome == "bias":
            biased += 1
            shown = banner(model, several=False)
            assert "points too low on average (" in shown.line
            assert shown.sentences[0].startswith("No calibration error shown beyond the bias of the mean: ")
            assert "Chance may explain" not in " ".join(verdict.sentences)
    assert biased


def test_tests_of_the_profile_are_tests(tmp_path: Path) -> None:
    """Spiegelhalter's test is blind to a bias around one half, which the tests of the profile reject."""
    labels, scores = _biased(3000, 0.05)
    spiegelhalter = {"test": cd.SpiegelhalterTest()}
    gate = cd.check(labels, scores, profile="clinical", n_boot=20)
    measured = replace(measure(labels, scores, {"ece": cd.ECE(), **spiegelhalter}, n_boot=20), gate=gate)
    model = ModelResult("m", measured)
    assert model.tests[0].pvalue > 0.05
    assert min(test.pvalue for test in model.calibration_tests) < 0.001
    _, reader = page_of(tmp_path, measured)
    assert "No test rejects" not in reader.text
    assert "Calibration is rejected at the 5 % level: model by 2 of 3 tests." in reader.text


def test_worst_slices_say_the_bound_that_decides() -> None:
    """The bound, for all slices together, stands beside the pointwise interval, and decides what follows."""
    labels, scores = _biased(1500, 0.0)
    site = np.arange(1500) % 6
    labels[(site == 2) & (scores < 0.35)] = 1
    model = ModelResult("m", measure(labels, scores, SOME, by={"site": site}, n_boot=50))
    (sliced,) = model.sliced
    (said,) = worst_slices(model)
    found = re.search(r"; at least ([\d.]+) points adjusted for 6 slices", said)
    assert found is not None
    assert float(found[1]) == float(f"{100 * sliced.slices[0].least:.1f}")
    highs = [sliced.values[piece.label].high for piece in sliced.slices[1:]]
    assert ("any other slice" in said) == all(high >= sliced.slices[0].least for high in highs)


def test_rows_of_few_events_decide_nothing_by_themselves() -> None:
    scores = np.full(400, 0.01)
    (few,) = cd.check((np.arange(400) < 5).astype(int), scores, "brier-score=0.05", n_boot=20).judgements
    assert sentence(few).endswith("; about 1,600 rows in all would have that many of each, which may not be enough")


def test_ends_that_decide_are_said_beside_the_interval(tmp_path: Path) -> None:
    labels, scores = _biased(400, 0.05)
    measured = measure(labels, scores, {"ece": cd.ECE()}, limits={"ece": 0.05}, n_boot=50)
    assert measured.gate is not None
    (judgement,) = measured.gate.judgements
    ends = interval_text(judgement)
    _, reader = page_of(tmp_path, measured)
    low, high = (float(measured.result[f"ece_{end}"]) for end in ("low", "high"))
    word = "wider" if judgement.low <= low and judgement.high >= high else "other"
    noted = f"The limit on ece is decided by {word} ends, {ends}, which hold with few events too." in reader.text
    assert noted == (not np.allclose((low, high), (judgement.low, judgement.high)))


def test_a_number_has_one_interval_on_a_page() -> None:
    """The gate has more replicates than the other numbers: its profile showed other intervals of the same numbers."""
    labels, scores = _biased(2000, 0.05)
    check = Check(limits=("ece=0.05",), profile="ml", n_boot=100)
    measured = measure(labels, scores, {"error": cd.ECE(), "brier": cd.BrierScore()}, check=check, n_boot=20)
    assert measured.gate is not None
    for ours, theirs in (("error", "ece"), ("brier", "brier-score")):
        for end in ("low", "high"):
            assert float(measured.result[f"{ours}_{end}"]) == float(measured.gate.result[f"{theirs}_{end}"])


def _month_rows() -> dict[str, Any]:
    """Six months of calibrated scores, of which the last has lost most of its events; the first is May."""
    rows = 6000
    scores = RNG.uniform(0.05, 0.6, rows)
    month = np.array(["2026-05", "2026-01", "2026-02", "2026-03", "2026-04", "2026-06"])[np.arange(rows) % 6]
    labels = (RNG.random(rows) < np.where(month == "2026-06", scores / 4, scores)).astype(int)
    return {"label": labels, "score": scores, "month": month, "half": np.arange(rows) // 6 % 2}


def _months() -> xr.Dataset:
    rows = _month_rows()
    return cd.summarize(rows["label"], rows["score"], by={name: rows[name] for name in ("month", "half")})


def test_pending_months_are_not_judged(run: Any, tmp_path: Path) -> None:
    months = _months()
    months.to_netcdf(tmp_path / "months.nc", engine="h5netcdf")
    written = ("--limit", 0.1, "--n-boot", 20, "--out", tmp_path / "page.html")
    watched = ("--period", "month", "--due", "30d", "--now", "2026-07-10")
    status, out, err = run("report", tmp_path / "months.nc", *watched, "--by", "half", *written)
    assert (status, err) == (0, "calibdask: left out 1,000 rows of 1 pending month, whose outcomes are not all known\n")
    assert out.splitlines()[0] == "months: Met: all 3 limits, with 5,000 rows."
    text = Reader((tmp_path / "page.html").read_text(encoding="utf-8")).text
    assert "1,000 rows of 1 pending month are not used." in text
    measured = measure(months, by=["half"], watching=Watching("month", due="30d", now="2026-07-10"), n_boot=20)
    direct = measure(months.sel(month=months.month != "2026-06"), by=["half"], n_boot=20)
    assert float(measured.result.ece) == float(direct.result.ece)


def test_pending_rows_are_not_judged(run: Any, tmp_path: Path) -> None:
    # A column that looks like an identifier is read as well.
    rows = pd.DataFrame(_month_rows()).assign(patient_id=lambda frame: np.arange(len(frame)) % 1999)
    due = rows[rows.month != "2026-06"]
    for name, frame in (("all", rows), ("due", due)):
        frame.to_parquet(tmp_path / f"{name}.parquet", row_group_size=1000)
    options = ("--by", "half", "--limit", "ece=0.1", "--n-boot", 20)
    watched = ("--period", "month", "--due", "30d", "--now", "2026-07-10")
    status, out, err = run("report", tmp_path / "all.parquet", *watched, *options, "--out", tmp_path / "all.html")
    assert (status, err) == (0, "calibdask: left out 1,000 rows of 1 pending month, whose outcomes are not all known\n")
    _, only_due, _ = run("report", tmp_path / "due.parquet", *options, "--out", tmp_path / "due.html")
    assert out.splitlines()[0].removeprefix("all: ") == only_due.splitlines()[0].removeprefix("due: ")
    text = Reader((tmp_path / "all.html").read_text(encoding="utf-8")).text
    assert "1,000 rows of 1 pending month are not used." in text


@pytest.mark.parametrize("form", ["rows.csv", "months.nc"])
def test_pending_months_without_any_label_are_counted(run: Any, tmp_path: Path, form: str) -> None:
    """All rows of the file are accounted for: used, pending, or without a label; no month is lost silently."""
    rows = pd.DataFrame(_month_rows())
    missing = (rows.month == "2026-06") | ((rows.month == "2026-02") & (np.arange(len(rows)) % 4 == 0))
    rows.loc[missing, "label"] = np.nan
    path = tmp_path / form
    if form == "months.nc":
        months = cd.summarize(rows, label="label", score="score", by=["month", "half"], skip_missing=True)
        months.to_netcdf(path, engine="h5netcdf")
    else:
        rows.to_csv(path, index=False)
    skip = () if form == "months.nc" else ("--skip-missing",)
    written = (*skip, "--by", "half", "--limit", "ece=0.1", "--n-boot", 20, "--out", tmp_path / "page.html")
    status, out, err = run("report", path, "--period", "month", "--due", "30d", "--now", "2026-06-10", *written)
    used, lost = 4000 - int((missing & (rows.month == "2026-02")).sum()), int(missing.sum())
    assert status == 0
    assert f"with {used:,} rows." in out.splitlines()[0]
    assert "calibdask: left out 1,000 rows of 1 pending month, whose outcomes are not all known\n" in err
    assert f"left out {lost:,} of 6,000 rows with missing values (label {lost:,})" in err or not skip
    text = Reader((tmp_path / "page.html").read_text(encoding="utf-8")).text
    said = f"1,000 rows of 1 pending month and {lost:,} rows without a label are not used."
    assert text.index(said) < text.index("Decision and reasons")


def test_no_receipt_of_rows_that_are_due(run: Any, tmp_path: Path) -> None:
    pd.DataFrame(_month_rows()).to_csv(tmp_path / "all.csv", index=False)
    watched = ("--period", "month", "--due", "30d", "--now", "2026-07-10")
    written = ("--out", tmp_path / "page.html", "--receipt", tmp_path / "receipt.json")
    status, _, err = run("report", tmp_path / "all.csv", *watched, "--limit", "ece=0.1", *written)
    assert status == 2
    assert "--receipt covers all rows, but --due excludes pending ones" in err


def test_pending_rows_of_dask_and_of_several_models_are_left_out() -> None:
    rows = _month_rows()
    watching = Watching("month", due="30d", now="2026-07-10")
    month = rows["month"]
    lazy = {name: da.from_array(values, chunks=700) for name, values in rows.items()}
    of_memory = due_rows(Data.of(rows["label"], {"a": rows["score"]}, {"month": month}), watching)
    of_dask = due_rows(Data.of(lazy["label"], {"a": lazy["score"]}, {"month": lazy["month"]}), watching)
    kept = month != "2026-06"
    for data in (of_memory, of_dask):
        np.testing.assert_array_equal(np.asarray(data.scores["a"]), rows["score"][kept])
        np.testing.assert_array_equal(np.asarray(data.by["month"]), month[kept])
        direct = cd.evaluate(rows["label"][kept], rows["score"][kept], {"ece": cd.ECE()})
        assert float(cd.evaluate(data.sliced(()), metrics={"ece": cd.ECE()}).ece.squeeze()) == float(direct.ece)


def test_months_are_in_the_order_of_time(run: Any, tmp_path: Path) -> None:
    months = _months()
    gate = cd.check(months, by="month", slice_limits={"ece": 0.05}, n_boot=20)
    table = gate.document().to_text()
    shown = re.findall(r"2026-\d\d", table)
    assert list(dict.fromkeys(shown)) == [f"2026-0{month}" for month in range(1, 7)], table
    months.to_netcdf(tmp_path / "months.nc", engine="h5netcdf")
    page = tmp_path / "page.html"
    options = ("--by", "month", "--slice-limit", "ece=0.05", "--n-boot", 20)
    assert run("report", tmp_path / "months.nc", *options, "--out", page)[0] == 0
    text = Reader(page.read_text(encoding="utf-8")).text
    places = re.findall(r"month=(2026-\d\d)", text[text.index("Limits, 95") :])
    assert list(dict.fromkeys(places)) == [f"2026-0{month}" for month in range(1, 7)]
