"""Sentences of a report that stand beside each other agree: they are computed from the same numbers."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

import calibdask as cd
from calibdask.analyses.gating.gate import sentence
from calibdask.report import measure
from calibdask.report.banners import banner
from calibdask.report.model_result import ModelResult
from calibdask.report.over_time import Watching
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
    assert sentence(few).endswith("; about 1,600 rows in all would have 20 of each, which may not be enough")


def test_ends_that_decide_are_said_beside_the_interval(tmp_path: Path) -> None:
    labels, scores = _biased(400, 0.05)
    measured = measure(labels, scores, {"ece": cd.ECE()}, limits={"ece": 0.05}, n_boot=50)
    assert measured.gate is not None
    (judgement,) = measured.gate.judgements
    ends = f"{judgement.low:.4f} to {judgement.high:.4f}"
    _, reader = page_of(tmp_path, measured)
    noted = f"The limit on ece is decided by wider ends, {ends}, which hold with few events too." in reader.text
    low, high = (float(measured.result[f"ece_{end}"]) for end in ("low", "high"))
    assert noted == (not np.allclose((low, high), (judgement.low, judgement.high)))


def _months() -> xr.Dataset:
    """Six months of calibrated scores, of which the last has lost most of its events; the first is May."""
    rows = 6000
    scores = RNG.uniform(0.05, 0.6, rows)
    month = np.array(["2026-05", "2026-01", "2026-02", "2026-03", "2026-04", "2026-06"])[np.arange(rows) % 6]
    labels = (RNG.random(rows) < np.where(month == "2026-06", scores / 4, scores)).astype(int)
    return cd.summarize(labels, scores, by={"month": month, "half": np.arange(rows) // 6 % 2})


def test_pending_months_are_not_judged(run: Any, tmp_path: Path) -> None:
    months = _months()
    months.to_netcdf(tmp_path / "months.nc", engine="h5netcdf")
    written = ("--limit", 0.1, "--n-boot", 20, "--out", tmp_path / "page.html")
    watched = ("--period", "month", "--due", "30d", "--now", "2026-07-10")
    status, out, err = run("report", tmp_path / "months.nc", *watched, "--by", "half", *written)
    assert (status, err) == (0, "")
    assert out.splitlines()[0] == "months: Met: all 3 limits, with 5,000 rows."
    text = Reader((tmp_path / "page.html").read_text(encoding="utf-8")).text
    assert "1,000 rows of 1 pending month not used, apart from calibration over time." in text
    measured = measure(months, by=["half"], watching=Watching("month", due="30d", now="2026-07-10"), n_boot=20)
    direct = measure(months.sel(month=months.month != "2026-06"), by=["half"], n_boot=20)
    assert float(measured.result.ece) == float(direct.result.ece)
