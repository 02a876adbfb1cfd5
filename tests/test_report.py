"""Reports: the numbers of evaluate, words that claim no more than these, and pages that hold together."""

import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import calibdask as cd
from calibdask.cli import main
from calibdask.estimators.mean_gap import MeanGap
from calibdask.estimators.saturation import Saturation
from calibdask.readout import plain
from calibdask.report import Measured, measure, measuring, write_cube_report, write_report
from calibdask.report.cautions import cautions
from calibdask.report.cube_summary import summary_of
from calibdask.report.decision import Limits, line_of, whole_judged
from calibdask.report.facts import Facts, error_of
from calibdask.report.slices import slices_of
from calibdask.report.verdict import stretches, verdict_on
from calibdask.report.words import cases, points, spanned
from calibdask.study.cube import DONE, FAILED, Cube
from calibdask.study.example import Means
from calibdask.study.quantiles import quantiles
from calibdask.study.seeds import Seeds

ROWS = 4000
RNG = np.random.default_rng(11)
TRUTH = RNG.random(ROWS)
LABELS = (RNG.random(ROWS) < TRUTH).astype(int)
COUNTRY = np.array(["de", "fr", "<b>it</b>"])[RNG.choice(3, ROWS, p=[0.6, 0.39, 0.01])]
WEIGHTS = RNG.random(ROWS)
MATRIX = RNG.dirichlet(np.full(4, 0.5), ROWS)
CLASSES = (
    (RNG.random(ROWS)[:, None] > np.cumsum(MATRIX**0.5 / (MATRIX**0.5).sum(1, keepdims=True), 1)).sum(1).clip(0, 3)
)
# How few replicates will do where ends do not matter.
FEW = {"n_boot": 20}
SOME = {"ece": cd.ECE(), "density_ece": cd.DensityECE(), "log_loss": cd.LogLoss(), "test": cd.SpiegelhalterTest()}

Measuring = Callable[..., Measured]


class Reader(HTMLParser):
    """What a page holds; raises where tags do not close in turn."""

    VOID = frozenset({"meta", "link", "circle", "line", "rect", "path", "polygon", "br"})

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.numbers: list[float] = []
        self.words: list[str] = []
        self.feed(html)
        assert not self.open

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag == "data":
            self.numbers.append(float(dict(attrs)["value"]))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: Any) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    def having(self, tag: str, **attributes: str) -> list[dict[str, str | None]]:
        return [found for name, found in self.tags if name == tag and attributes.items() <= found.items()]


def page_of(tmp_path: Path, results: Any, **options: Any) -> tuple[str, Reader]:
    write_report(tmp_path / "page.html", results, overwrite=True, **options)
    html = (tmp_path / "page.html").read_text(encoding="utf-8")
    return html, Reader(html)


@pytest.fixture(scope="module")
def extreme() -> Measured:
    """Scores nearer to 0 and 1 than they should be."""
    scores = TRUTH**2 / (TRUTH**2 + (1 - TRUTH) ** 2)
    return measure(LABELS, scores, by={"country": COUNTRY}, source="extreme.npz")


@pytest.fixture(scope="module")
def multiclass() -> Measured:
    return measure(CLASSES, MATRIX, by={"country": COUNTRY})


def of_two_models() -> tuple[xr.DataArray, xr.DataArray]:
    scores = xr.DataArray(np.stack([TRUTH, TRUTH**2]), dims=("model", "sample"), coords={"model": ["one", "two"]})
    return xr.DataArray(LABELS, dims="sample"), scores


def facts(scores: Any, labels: Any = LABELS, **options: Any) -> Facts:
    return Facts("model", measure(labels, scores, **{"metrics": SOME, **options}))


class TestMeasuring:
    def test_numbers_are_those_of_evaluate(self, extreme: Measured) -> None:
        scores = TRUTH**2 / (TRUTH**2 + (1 - TRUTH) ** 2)
        direct = cd.evaluate(LABELS, scores, ci=0.95)
        xr.testing.assert_identical(extreme.result[list(direct.data_vars)].drop_attrs(), direct.drop_attrs())
        by = cd.evaluate(LABELS, scores, {"ece": cd.ECE()}, by={"country": COUNTRY}, ci=0.95)
        np.testing.assert_array_equal(extreme.slices["country"].ece_low, by.ece_low)

    def test_few_passes(self, extreme: Measured) -> None:
        scores = TRUTH**2 / (TRUTH**2 + (1 - TRUTH) ** 2)
        assert extreme.result.attrs["passes"] == cd.evaluate(LABELS, scores, ci=0.95).attrs["passes"]
        assert extreme.slices["country"].attrs["passes"] == 1

    def test_lists_do(self) -> None:
        assert measure([0, 1, 1, 1] * 9, [0.2, 0.4, 0.6, 0.8] * 9, **FEW).result.attrs["rows"] == 36

    def test_summaries_tell_the_same(self, extreme: Measured) -> None:
        scores = TRUTH**2 / (TRUTH**2 + (1 - TRUTH) ** 2)
        day = np.arange(ROWS) % 2
        summary = cd.summarize(LABELS, scores, by={"country": COUNTRY, "day": day})
        told = measure(summary)
        for name in ("ece", "density_ece", "report_gap", "report_scores_at_one", "report_diagram_outcome"):
            np.testing.assert_allclose(told.result[name], extreme.result[name], rtol=1e-12)
        assert list(told.slices) == ["country", "day"]
        np.testing.assert_allclose(told.slices["country"].ece, extreme.slices["country"].ece, rtol=1e-12)
        assert list(measure(summary, by="day", **FEW).slices) == ["day"]
        with pytest.raises(ValueError, match="by expects slices of the summary, country, day, got month"):
            measure(summary, by="month")

    def test_summaries_of_other_grids_and_settings(self) -> None:
        coarse = measure(cd.summarize(CLASSES, MATRIX, settings=["classwise"], step=0.001), **FEW)
        assert str(coarse.setting) == "classwise"
        assert len(Facts("coarse", coarse).bins) == 4

    def test_weights(self) -> None:
        measured = measure(LABELS, TRUTH, sample_weight=WEIGHTS, **FEW)
        assert measured.weights == "given"
        assert float(measured.result.ece) == pytest.approx(cd.ece(LABELS, TRUTH, sample_weight=WEIGHTS))

    def test_rows_are_not_resampled_where_that_takes_long(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.setattr(measuring, "_MOST_RESAMPLED", 1)
        measured = measure(LABELS, TRUTH, **FEW)
        assert measured.bare == ("brier_score", "log_loss")
        assert "brier_score_low" not in measured.result
        assert "ece_low" in measured.result
        assert measured.result.brier_score.attrs["estimator"] == repr(cd.BrierScore())
        assert "No intervals of brier_score, log_loss" in page_of(tmp_path, measured)[1].text

    def test_warnings_are_kept_and_passed_on(self) -> None:
        with pytest.warns(UserWarning, match="outcomes of one kind"):
            measured = measure([1] * 40, np.linspace(0.1, 0.9, 40), **FEW)
        assert any("outcomes of one kind" in note for note in measured.notes)

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [((LABELS,), "got no scores"), ((LABELS, xr.DataArray(MATRIX.T, dims=("model", "sample"))), "one model")],
    )
    def test_what_cannot_be_measured(self, arguments: Any, message: str) -> None:
        with pytest.raises(ValueError, match=message):
            measure(*arguments, **FEW)


class TestEstimators:
    @pytest.mark.parametrize("weights", [None, WEIGHTS])
    def test_mean_gap(self, weights: Any) -> None:
        scores = TRUTH**0.7
        result = cd.evaluate(LABELS, scores, MeanGap(), sample_weight=weights, ci=0.9)
        w = np.ones(ROWS) if weights is None else weights
        gap = np.average(LABELS - scores, weights=w)
        error = np.sqrt((w**2 * (LABELS - scores - gap) ** 2).sum()) / w.sum()
        assert float(result.mean_gap) == pytest.approx(gap, abs=1e-10)
        assert float(result.mean_gap_low) == pytest.approx(gap - 1.6448536 * error, rel=1e-5)
        assert float(result.mean_gap_high) == pytest.approx(gap + 1.6448536 * error, rel=1e-5)
        assert float(result.mean_gap_score) == pytest.approx(np.average(scores, weights=w))

    def test_mean_gap_covers(self) -> None:
        covered = 0
        for seed in range(200):
            rng = np.random.default_rng(seed)
            scores = rng.random(200)
            result = cd.evaluate((rng.random(200) < scores**2).astype(int), scores, MeanGap(), ci=0.9)
            covered += float(result.mean_gap_low) <= 1 / 3 - 1 / 2 <= float(result.mean_gap_high)
        # Binomial: 180 give or take 4.2, of 200.
        assert 165 <= covered <= 194

    def test_mean_gap_of_classes_and_slices(self) -> None:
        result = cd.evaluate(CLASSES, MATRIX, MeanGap(setting="classwise"), by={"country": COUNTRY})
        here = COUNTRY == "fr"
        expected = [(CLASSES[here] == k).mean() - MATRIX[here, k].mean() for k in range(4)]
        np.testing.assert_allclose(result.mean_gap.sel(country="fr"), expected, atol=1e-10)

    def test_saturation(self) -> None:
        scores = np.r_[np.zeros(3), 5e-7, 2e-6, np.full(4, 0.5), 1 - 1e-9, np.ones(2)]
        labels = np.arange(scores.size) % 2
        found = cd.evaluate(labels, scores, Saturation())
        assert float(found.saturation_at_zero) == 4 / 12
        assert float(found.saturation_at_one) == 3 / 12
        assert 4 <= int(found.saturation_distinct_scores) <= 6
        assert float(found.saturation_effective_rows) == 12
        wide = cd.evaluate(labels, scores, Saturation(within=1e-5))
        assert float(wide.saturation_at_zero) == 5 / 12

    def test_saturation_of_weights(self) -> None:
        found = cd.evaluate(LABELS, TRUTH, Saturation(), sample_weight=WEIGHTS)
        assert float(found.saturation_effective_rows) == pytest.approx(WEIGHTS.sum() ** 2 / (WEIGHTS**2).sum())

    @pytest.mark.parametrize("within", [0, 0.5, True, "little"])
    def test_bad_widths(self, within: Any) -> None:
        with pytest.raises(ValueError, match="within expects a number"):
            Saturation(within=within)


class TestVerdict:
    def test_extreme_scores(self, extreme: Measured) -> None:
        verdict = verdict_on(Facts("model", extreme))
        assert verdict.outcome == "error"
        assert verdict.line.startswith("Scores too extreme: off by ")
        low, high = (float(extreme.result[f"ece_{end}"]) for end in ("low", "high"))
        assert f"95 % interval {spanned(low, high)}" in verdict.sentences[0]
        assert any("too much from" in each and "too little from" in each for each in verdict.sentences)

    @pytest.mark.parametrize(
        ("scores", "line"),
        [
            (TRUTH**0.5, "Scores too high"),
            (TRUTH**2, "Scores too low"),
            (0.5 + 0.3 * (TRUTH - 0.5), "Scores too timid"),
        ],
    )
    def test_directions(self, scores: Any, line: str) -> None:
        assert verdict_on(facts(scores)).line.startswith(line)

    def test_confidence(self, multiclass: Measured) -> None:
        verdict = verdict_on(Facts("model", multiclass))
        assert verdict.line.startswith("Overconfident")
        assert any("answers given with confidence" in each for each in verdict.sentences)

    def test_cases_are_within_the_band(self, extreme: Measured) -> None:
        said = next(each for each in verdict_on(Facts("model", extreme)).sentences if each.startswith("Of "))
        of, score, about, low, high = (
            float(word.replace(",", ""))
            for word in re.match(
                r"Of ([\d,]+) cases scored ([\d.]+), about (\d+) came true \(the band goes from (\d+) to (\d+)\)", said
            ).groups()  # type: ignore[union-attr]
        )
        curve = Facts("model", extreme).curves[""]
        assert low <= about <= high
        assert about == pytest.approx(of * np.interp(score, curve.score, curve.reliability), abs=1)
        assert low <= of * np.interp(score, curve.score, curve.band_low)
        assert not low <= of * score <= high

    def test_calibrated_models_are_not_accused(self) -> None:
        outcomes = []
        for seed in range(12):
            rng = np.random.default_rng(100 + seed)
            scores = rng.random(1000)
            found = facts(scores, (rng.random(1000) < scores).astype(int))
            outcomes.append(verdict_on(found).outcome)
        # Each interval and each test errs in one of twenty.
        assert outcomes.count("error") <= 2
        assert outcomes.count("chance") >= 8

    def test_chance_is_no_praise(self) -> None:
        rng = np.random.default_rng(100)
        scores = rng.random(1000)
        verdict = verdict_on(facts(scores, (rng.random(1000) < scores).astype(int)))
        assert verdict.outcome == "chance"
        assert any("does not show that the model is calibrated" in each for each in verdict.sentences)
        assert any(each.startswith("At no score does the band") for each in verdict.sentences)

    def test_stretches_are_where_the_band_leaves_the_diagonal(self, extreme: Measured) -> None:
        curve = Facts("model", extreme).curves[""]
        found = list(stretches(curve))
        assert found
        for each in found:
            inside = (curve.score >= each.start) & (curve.score <= each.end)
            off = curve.band_high < curve.score if each.over else curve.band_low > curve.score
            assert off[inside].all()

    def test_percentiles_do_not_tell_chance(self) -> None:
        found = facts(TRUTH, metrics={"ece": cd.ECE()}, ci_method="percentile", **FEW)
        verdict = verdict_on(found)
        assert verdict.outcome == "unclear"
        assert any("does not tell chance from error" in each for each in verdict.sentences)

    def test_without_intervals(self) -> None:
        result = cd.evaluate(LABELS, TRUTH, {"ece": cd.ECE()})
        verdict = verdict_on(Facts("model", Measured(result)))
        assert verdict.outcome == "unknown"
        assert "interval" not in verdict.sentences[0]

    def test_without_errors(self) -> None:
        verdict = verdict_on(Facts("model", Measured(cd.evaluate(LABELS, TRUTH, cd.BrierScore()))))
        assert verdict.line == "No calibration error was measured"

    def test_few_rows_tell_nothing(self) -> None:
        verdict = verdict_on(facts(TRUTH[:20], LABELS[:20], **FEW))
        assert verdict.line == "Too few rows to tell: 20 rows"

    def test_words_have_the_digits_of_tables(self, tmp_path: Path, extreme: Measured) -> None:
        assert spanned(0.06344, 0.0765) == "6.34 to 7.65"
        assert spanned(-0.0001, 0.5) == "−0.01 to 50.00"
        assert points(0.000043) == "0.00430"
        assert cases(0.5, 0.25)[2] == [25.0]
        value, low, high = (float(extreme.result[name]) for name in ("ece", "ece_low", "ece_high"))
        _, reader = page_of(tmp_path, extreme)
        shares = [f"{100 * float(f'{each:.4f}'):.2f}" for each in (value, low, high)]
        said = f"(ECE, 15 bins) is {shares[0]} percentage points (95 % interval {shares[1]} to {shares[2]})"
        assert said in reader.text
        assert f"{low:.4f} to {high:.4f}" in reader.text


def calibrated(scores: Any, seed: int = 0) -> Any:
    return (np.random.default_rng(seed).random(len(scores)) < scores).astype(int)


UNEVEN = np.where(np.arange(ROWS) < 20, 1000.0, 1.0)
ROUND = TRUTH.round(1)
SURE = np.r_[TRUTH, np.ones(200)]
WRONG = np.r_[TRUTH[:400], 1.0]


class TestCautions:
    @pytest.mark.parametrize(
        ("found", "words"),
        [
            (lambda: facts(TRUTH[:100], LABELS[:100], **FEW), "There are only 100 rows"),
            (lambda: facts(TRUTH[:100], LABELS[:100], **FEW), "of 15 bins"),
            (lambda: facts(TRUTH, sample_weight=UNEVEN, **FEW), "The weights are so unequal"),
            (lambda: facts(ROUND, calibrated(ROUND), **FEW), "only 11 different values"),
            (lambda: facts(SURE, calibrated(SURE), **FEW), "of the scores are 1 or next to it"),
            (lambda: facts(WRONG, np.r_[LABELS[:400], 0], **FEW), "1 row gave the label that came the score 0"),
            (lambda: facts(MATRIX, CLASSES % 3, **FEW), "1 class never occurs as a label (3)"),
            (lambda: facts(TRUTH, by={"c": COUNTRY}, **FEW), "1 slice of c has fewer than 100 rows (<b>it</b>)"),
            (lambda: facts(TRUTH, by={"g": np.arange(ROWS) % 25}, **FEW), "There are 25 slices of g"),
            (lambda: facts(TRUTH[:60], LABELS[:60], **FEW), "The binned error"),
        ],
    )
    def test_each(self, found: Callable[[], Facts], words: str) -> None:
        assert any(words in each for each in cautions(found()))

    def test_none_without_cause(self) -> None:
        scores, labels = np.tile(TRUTH, 4), np.tile(LABELS, 4)
        assert cautions(facts(scores, labels, by={"half": np.arange(4 * ROWS) % 2}, **FEW)) == []

    def test_wide_intervals_of_slices_are_named(self, tmp_path: Path) -> None:
        group = np.where(np.arange(ROWS) < 208, "rare", "others")
        measured = measure(LABELS, TRUTH, by={"group": group})
        ends = spanned(*(float(measured.slices["group"][f"ece_{end}"].sel(group="rare")) for end in ("low", "high")))
        _, reader = page_of(tmp_path, measured)
        said = f"group rare has 208 rows: its calibration error may be anything from {ends} percentage points."
        assert said in reader.text
        assert "None of the checks" not in reader.text
        many = cautions(facts(TRUTH, by={"group": np.arange(ROWS) % 8}, **FEW))
        assert sum("may be anything from" in each for each in many) == 5
        assert any(each.startswith("Of 3 further slices of group the interval is wider than 5.00") for each in many)


class TestSlices:
    def test_worst_first(self) -> None:
        bad = np.arange(ROWS) % 4 == 0
        scores = np.where(bad, TRUTH**0.3, TRUTH)
        result = measure(LABELS, scores, by={"group": np.where(bad, "bad", "good")}).slices["group"]
        found = slices_of(result)
        assert [each.label for each in found] == ["bad", "good"]
        assert [each.rows for each in found] == [1000, 3000]
        assert found[0].numbers["ece"].low == float(result.ece_low.sel(group="bad"))

    def test_the_verdict_names_the_worst(self) -> None:
        truth = np.where(COUNTRY == "fr", TRUTH**2, TRUTH)
        labels = (np.random.default_rng(1).random(ROWS) < truth).astype(int)
        alike = np.arange(ROWS) % 2
        said = verdict_on(Facts("model", measure(labels, TRUTH, by={"country": COUNTRY, "half": alike}))).sentences
        errors = cd.evaluate(labels, TRUTH, cd.ECE(), by={"country": COUNTRY}).ece
        value = points(float(errors.sel(country="fr")))
        assert any(each.startswith(f"Worst by country: fr, off by {value} points") for each in said)
        halves = [each for each in said if each.startswith("Worst by half: ")]
        assert ["which does not lie above that of all rows); " in each for each in halves] == [True]

    @pytest.mark.parametrize("summarized", [False, True])
    def test_slices_have_the_bins_of_all_rows(self, summarized: bool) -> None:
        metrics = {"mine": cd.ECE(bins=9), "wide": cd.DensityECE(bandwidth=0.1), "mass": cd.ECE(binning="equal-mass")}
        summary = cd.summarize(LABELS, TRUTH, by={"country": COUNTRY})
        found = (
            measure(summary, metrics=metrics)
            if summarized
            else measure(LABELS, TRUTH, metrics, by={"country": COUNTRY})
        )
        result = cd.evaluate(summary, metrics=metrics)
        slices = found.slices["country"]
        np.testing.assert_allclose(slices.ece, result.mine, rtol=1e-9)
        np.testing.assert_allclose(slices.density_ece, result.wide, rtol=1e-3)
        assert error_of(slices, Facts("model", found)) == "ece"
        assert slices.ece.attrs["estimator"] == found.result.mine.attrs["estimator"]

    def test_errors_of_different_kinds_are_not_compared(self) -> None:
        found = measure(LABELS, TRUTH, {"smooth": cd.SmoothECE()}, by={"half": np.arange(ROWS) % 2})
        said = [each for each in verdict_on(Facts("model", found)).sentences if each.startswith("Worst by half")]
        assert ["does not lie above" in each for each in said] == [False]

    def test_the_verdict_names_what_is_not_told_apart(self) -> None:
        # The errors of two slices are alike, those of six others too, and far from these.
        group = np.arange(ROWS) % 8
        labels = calibrated(np.where(group < 2, TRUTH**3, TRUTH))
        (said,) = [
            each
            for each in verdict_on(Facts("model", measure(labels, TRUTH, by={"group": group}))).sentences
            if each.startswith("Worst by group: ")
        ]
        worst = said.split(": ")[1][0]
        assert worst in "01"
        assert said.endswith(f"; {1 - int(worst)} is not told apart from it.")
        (said,) = [
            each
            for each in verdict_on(Facts("model", measure(LABELS, TRUTH, by={"group": group}))).sentences
            if each.startswith("Worst by group: ")
        ]
        assert said.endswith("and 2 more are not told apart from it.")

    def test_dates_are_days(self, tmp_path: Path) -> None:
        day = np.datetime64("2026-01-06", "ns") + (np.arange(ROWS) % 5).astype("timedelta64[D]")
        measured = measure(LABELS, TRUTH**0.8, by={"day": day}, **FEW)
        _, reader = page_of(tmp_path, measured, limit=0.01)
        assert "2026-01-06" in reader.text
        assert "00:00:00" not in reader.text
        assert "Diagrams of slices by day: the 4 worst of 5." in reader.text
        assert plain(day[:2]) == ["2026-01-06", "2026-01-07"]
        assert plain(np.datetime64("2026-01-06T06:30", "ns")) == "2026-01-06T06:30"
        assert plain(np.array("2026-01", "datetime64[M]")) == "2026-01"

    def test_very_few_rows_come_last_without_an_interval(self) -> None:
        group = np.where(np.arange(ROWS) < 3, "tiny", "all others")
        result = measure(LABELS, TRUTH**0.5, by={"group": group}, **FEW).slices["group"]
        *_, last = slices_of(result)
        assert last.label == "tiny"
        assert not last.numbers["ece"].has_interval


class TestPage:
    def test_numbers(self, tmp_path: Path, extreme: Measured) -> None:
        _, reader = page_of(tmp_path, {"extreme": extreme})
        scalars = [
            float(each)
            for name, each in extreme.result.data_vars.items()
            if not each.ndim and not name.startswith("report_") and not name.endswith(("_low", "_high"))
        ]
        assert set(scalars) <= set(reader.numbers)
        assert set(extreme.slices["country"].ece.values.tolist()) <= set(reader.numbers)

    def test_it_holds_together(self, tmp_path: Path, extreme: Measured, multiclass: Measured) -> None:
        html, reader = page_of(tmp_path, {"extreme": extreme, "many": multiclass}, title="Two", command="calibdask x")
        assert not re.search(r"https?://|//[a-z]|url\(|@import|<script|xmlns", html)
        anchors = {found.get("id") for _, found in reader.tags}
        assert {str(found["href"]).removeprefix("#") for found in reader.having("a")} <= anchors
        assert all(found.get("scope") in ("col", "row") for found in reader.having("th"))
        pictures = reader.having("svg", role="img")
        assert len(pictures) >= 4
        assert all(found["aria-label"] for found in pictures)
        assert all(found["aria-hidden"] == "true" for found in reader.having("svg") if found.get("role") != "img")
        levels = [int(tag[1]) for tag, _ in reader.tags if re.fullmatch(r"h\d", tag)]
        assert levels[0] == 1
        assert all(after - before <= 1 for before, after in pairwise(levels))
        for words in ("Verdict", "What was measured", "Metrics", "Reliability", "Slices", "Tests", "Warnings"):
            assert words in reader.text
        for words in ("calibdask x", cd.__version__, "seed 0", "extreme.npz", np.__version__):
            assert words in reader.text

    def test_everything_of_the_data_is_escaped(self, tmp_path: Path) -> None:
        evil = "<script>alert('x')</script>\"&"
        group = np.where(np.arange(ROWS) % 2, evil, "plain")
        named = xr.DataArray(MATRIX, dims=("sample", "class"), coords={"class": [f"{evil}{k}" for k in range(4)]})
        measured = measure(CLASSES, named, by={evil: group}, source=evil, setting="classwise", **FEW)
        html, reader = page_of(tmp_path, {evil: measured}, title=evil, command=evil)
        assert "<script" not in html
        assert not reader.having("script")
        assert reader.text.count("alert('x')") > 10

    def test_models_side_by_side(self, tmp_path: Path) -> None:
        models = {name: measure(LABELS, TRUTH**power, **FEW) for name, power in (("a", 1), ("b", 1.02), ("c", 3))}
        _, reader = page_of(tmp_path, models)
        assert "Models side by side" in reader.text
        assert "do not tell them apart" in reader.text
        assert "overlaps that of" in reader.text

    def test_results_of_evaluate(self, tmp_path: Path) -> None:
        labels, scores = of_two_models()
        result = cd.evaluate(labels, scores, [cd.ECE(), cd.ReliabilityDiagram()], ci=0.9, n_boot=20)
        _, reader = page_of(tmp_path, {"of": result})
        assert set(result.ece.values.tolist()) <= set(reader.numbers)
        assert len(reader.having("svg", role="img")) == 2
        _, reader = page_of(tmp_path, cd.evaluate(LABELS, TRUTH, cd.ECE()))
        assert "No intervals were computed" in reader.text

    @pytest.mark.parametrize(
        ("results", "error", "message"),
        [
            ({}, ValueError, "at least one result"),
            (cd.evaluate([0, 1], [0.1, 0.9], cd.ECE(), by=["a", "b"]), ValueError, "without by"),
            ({"a": 3}, TypeError, "got int"),
        ],
    )
    def test_bad_results(self, tmp_path: Path, results: Any, error: type[Exception], message: str) -> None:
        with pytest.raises(error, match=message):
            write_report(tmp_path / "page.html", results)
        assert not list(tmp_path.iterdir())

    def test_outputs_are_refused_first(self, tmp_path: Path, extreme: Measured) -> None:
        with pytest.raises(ValueError, match=r"ends in one of \.html"):
            write_report(tmp_path / "page.pdf", extreme)
        (tmp_path / "page.html").write_text("mine")
        with pytest.raises(ValueError, match="is there already"):
            write_report(tmp_path / "page.html", extreme)
        assert (tmp_path / "page.html").read_text() == "mine"

    def test_ten_models_are_small(self, tmp_path: Path, extreme: Measured) -> None:
        html, _ = page_of(tmp_path, {f"model {i}": extreme for i in range(10)})
        assert len(html.encode()) < 1.5e6


@dataclass(frozen=True, kw_only=True)
class Ends(cd.Study):
    """Values that tell their cell and place, with ends."""

    outputs: ClassVar = {"value": ("place",), "low": ("place",), "high": ("place",)}

    def cells(self) -> dict[str, Any]:
        return {"model": range(50), "size": range(9)}

    def inside(self) -> dict[str, Any]:
        return {"place": ("left", "right")}

    def cell(self, at: Mapping[str, Any], seeds: Seeds) -> dict[str, Any]:
        value = at["model"] + at["size"] / 10 + np.array([0.01, 0.02])
        return {"value": value, "low": value - 0.001, "high": value + 0.001}


class TestCubes:
    def test_quantiles(self) -> None:
        values = RNG.random((5, 31))
        values[RNG.random(values.shape) < 0.3] = np.nan
        expected = np.nanquantile(values, (0.05, 0.5, 0.95), axis=-1)
        np.testing.assert_allclose(quantiles(values, (0.05, 0.5, 0.95)), expected, rtol=1e-12)
        assert np.isnan(quantiles(np.full((1, 3), np.nan), (0.5,))).all()

    def test_of_many_intervals_those_are_read_that_are_shown(self, tmp_path: Path) -> None:
        store = str(tmp_path / "cube.zarr")
        cd.run(Ends(), store)
        Cube(store).fail(0, "ValueError: lost")
        write_cube_report(tmp_path / "page.html", store)
        reader = Reader((tmp_path / "page.html").read_text())
        assert reader.text.count("90 rows not shown.") == 2
        # 360 places, the first of which has failed: what is not there is none of the numbers.
        assert {0.11, 0.12, 39.82} <= {round(each, 6) for each in reader.numbers}
        assert not {0.01, 40.01} & {round(each, 6) for each in reader.numbers}

    def test_blocks_make_no_difference(self, monkeypatch: pytest.MonkeyPatch) -> None:
        status = xr.DataArray([[DONE, FAILED], [DONE, DONE]], dims=("a", "b"))
        values = xr.DataArray(RNG.random((2, 2, 3, 20)), dims=("a", "b", "kind", "replicate"))
        cube = xr.Dataset({"x": values, "status": status})
        whole = summary_of(cube, "x")
        monkeypatch.setattr("calibdask.report.cube_summary._BLOCK", 1)
        np.testing.assert_array_equal(summary_of(cube, "x").values, whole.values)
        done = values.values[[0, 1, 1], [0, 0, 1]]
        expected = np.median(np.quantile(done, (0.05, 0.5, 0.95), axis=-1)[:, :, 1], axis=1)
        assert whole.at({"kind": 1}) == pytest.approx(tuple(expected))

    def test_page(self, tmp_path: Path) -> None:
        store = str(tmp_path / "cube.zarr")
        cd.run(Means(rows=(4, 5, 6), replicates=30), store)
        write_cube_report(tmp_path / "page.html", store)
        reader = Reader((tmp_path / "page.html").read_text())
        cube = cd.open_cube(store)
        assert set(cube.average.median("replicate").values.tolist()) <= set(reader.numbers)
        assert "3 of 3 cells are done." in reader.text
        assert "--set rows=4,5,6" in reader.text
        assert "--set replicates=30" in reader.text

    def test_what_is_missing_is_said(self, tmp_path: Path) -> None:
        store = str(tmp_path / "cube.zarr")
        cd.run(Means(rows=(4, 5), replicates=30), store)
        Cube(store).fail(1, "Traceback\nValueError: <b>nothing</b> to see")
        write_cube_report(tmp_path / "page.html", store)
        html = (tmp_path / "page.html").read_text()
        assert "1 of 2 cells is done, 1 failed." in Reader(html).text
        assert "ValueError: &lt;b&gt;nothing&lt;/b&gt; to see" in html
        assert "rows = 5" in html

    def test_no_cube(self, tmp_path: Path) -> None:
        with pytest.raises(ValueError, match="does not exist"):
            write_cube_report(tmp_path / "page.html", str(tmp_path / "none.zarr"))
        assert not (tmp_path / "page.html").exists()


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Any:
    def call(*arguments: Any) -> tuple[int, str, str]:
        status = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return call


@pytest.fixture
def data(tmp_path: Path) -> Path:
    frame = pd.DataFrame({"label": LABELS, "score": TRUTH**1.5, "country": COUNTRY, "w": WEIGHTS})
    frame.to_csv(tmp_path / "rows.csv", index=False)
    np.savez(tmp_path / "other.npz", labels=LABELS, scores=TRUTH)
    return tmp_path


# Of calibrated scores, of scores that are far off, and of a few rows.
GROUP = np.select([np.arange(ROWS) < 2500, np.arange(ROWS) < 3900], ["good", "bad"], "rare")
GROUPED = calibrated(np.where(GROUP == "bad", TRUTH**3, TRUTH))
LIMITED = (("--limit", 0.1), "--limit means nothing")


class TestDecision:
    @pytest.fixture(scope="class")
    @staticmethod
    def grouped() -> Measured:
        return measure(GROUPED, TRUTH, by={"group": GROUP})

    def test_outcomes(self, grouped: Measured) -> None:
        found = Facts("m", grouped)
        low, high = float(grouped.result.ece_low), float(grouped.result.ece_high)
        for limit, outcome in ((high, "met"), (low * 0.99, "broken"), ((low + high) / 2, "cannot be decided")):
            judged = whole_judged(found, Limits(limit))
            assert judged is not None
            assert judged.outcome == outcome
        assert line_of(found, Limits(0.5, 0.1)) == (
            "m: limit 0.5 met; by group (limit 0.1): bad broken, rare cannot be decided"
        )
        assert line_of(found, Limits(slices=0.9)) == "m: by group (limit 0.9): all 3 met"

    def test_nothing_is_decided_without_an_interval(self) -> None:
        bare = Facts("m", Measured(cd.evaluate(LABELS, TRUTH, {"ece": cd.ECE(bins=7)})))
        assert line_of(bare, Limits(0.9)) == "m: limit 0.9 cannot be decided"
        judged = whole_judged(bare, Limits(0.9))
        assert judged is not None
        assert judged.metric == "ECE, 7 bins"

    def test_page(self, tmp_path: Path, grouped: Measured) -> None:
        html, reader = page_of(tmp_path, {"m": grouped}, limit=0.1)
        assert html.index('id="decision"') < html.index('id="verdict"')
        assert f"{line_of(Facts('m', grouped), Limits(0.1))}." in reader.text
        assert "; by group: bad broken, rare cannot be decided." in reader.text
        ends = " to ".join(
            f"{float(grouped.slices['group'][f'ece_{end}'].sel(group='good')):.4f}" for end in ("low", "high")
        )
        assert re.search(rf"group: good 2,500 ECE, 15 bins [\d.]+ {ends} 0\.1 met", reader.text)
        assert 'id="decision"' not in page_of(tmp_path, {"m": grouped})[0]

    def test_bad_limits(self, tmp_path: Path, extreme: Measured) -> None:
        bare = measure(LABELS, TRUTH, **FEW)
        for limits, words in (
            ({"limit": 1}, "limit expects"),
            ({"slice_limit": -0.1}, "slice_limit expects a fraction"),
        ):
            with pytest.raises(ValueError, match=words):
                write_report(tmp_path / "page.html", extreme, **limits)
        with pytest.raises(ValueError, match="expects results with slices"):
            write_report(tmp_path / "page.html", bare, slice_limit=0.1)
        assert not list(tmp_path.iterdir())

    def test_command(self, run: Any, tmp_path: Path) -> None:
        frame = pd.DataFrame({"label": GROUPED, "score": TRUTH, "group": GROUP})
        frame.to_csv(tmp_path / "credit.csv", index=False)
        arguments = ("report", tmp_path / "credit.csv", "--by", "group", "--limit", 0.5, "--slice-limit", 0.1)
        status, out, err = run(*arguments, "--out", tmp_path / "page.html")
        assert (status, err) == (0, "")
        line = "credit: limit 0.5 met; by group (limit 0.1): bad broken, rare cannot be decided"
        assert out == f"{line}\nwrote {tmp_path / 'page.html'}\n"
        assert line in Reader((tmp_path / "page.html").read_text()).text


class TestCommand:
    def test_rows(self, run: Any, data: Path) -> None:
        arguments = ("report", f"new={data / 'rows.csv'}", data / "other.npz", "--out", data / "page.html")
        status, out, err = run(*arguments, "--n-boot", 20)
        assert (status, out, err) == (0, f"wrote {data / 'page.html'}\n", "")
        reader = Reader((data / "page.html").read_text())
        assert float(cd.ece(LABELS, TRUTH)) in reader.numbers
        assert "2 models, 8,000 rows" in reader.text
        assert f"calibdask report new={data / 'rows.csv'} {data / 'other.npz'} --out" in reader.text

    def test_slices_and_weights(self, run: Any, data: Path) -> None:
        options = ("--by", "country", "--weight", "w", "--n-boot", 20, "--ci", 0.9, "--title", "Mine")
        status, _, err = run("report", data / "rows.csv", "--out", data / "page.html", *options)
        assert (status, err) == (0, "")
        reader = Reader((data / "page.html").read_text())
        expected = cd.evaluate(LABELS, TRUTH**1.5, cd.ECE(), by={"country": COUNTRY}, sample_weight=WEIGHTS)
        assert set(expected.ece.values.tolist()) <= set(reader.numbers)
        assert "90 % interval" in reader.text
        assert reader.text.count("Mine") >= 2

    def test_summaries(self, run: Any, data: Path) -> None:
        summary = data / "summary.zarr"
        run("summarize", data / "rows.csv", "--by", "country", "--out", summary)
        status, _, err = run("report", summary, "--out", data / "page.html", "--n-boot", 20)
        assert (status, err) == (0, "")
        assert "by country, the worst first" in Reader((data / "page.html").read_text()).text
        status, _, err = run("report", summary, "--by", "day", "--out", data / "no.html")
        assert status == 2
        assert "--by day expects a slice" in err
        status, _, err = run("report", summary, "--weight", "w", "--out", data / "no.html")
        assert status == 2
        assert "--weight means nothing" in err
        assert not (data / "no.html").exists()

    def test_models_of_summaries(self, run: Any, data: Path) -> None:
        summary = cd.summarize(*of_two_models())
        summary.to_netcdf(data / "models.nc", engine="h5netcdf")
        status, _, err = run("report", data / "models.nc", "--out", data / "page.html", "--n-boot", 20)
        assert (status, err) == (0, "")
        reader = Reader((data / "page.html").read_text())
        assert set(cd.evaluate(summary, metrics=cd.ECE()).ece.values.tolist()) <= set(reader.numbers)
        assert "Metrics of two" in reader.text

    def test_cubes(self, run: Any, data: Path) -> None:
        store = data / "cube.zarr"
        cd.run(Means(rows=(4, 5), replicates=3), str(store))
        status, _, err = run("report", store, "--out", data / "page.html")
        assert (status, err) == (0, "")
        assert "2 of 2 cells are done." in Reader((data / "page.html").read_text()).text
        for arguments, words in (
            ((data / "rows.csv",), "name it alone"),
            (("--by", "rows"), "--by means nothing"),
            LIMITED,
        ):
            status, _, err = run("report", store, *arguments, "--out", data / "no.html")
            assert status == 2
            assert words in err

    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            (("none.csv", "--limit", "3", "--out", "page.html"), "--limit expects a fraction between 0 and 1"),
            (("none.csv", "--limit", "nan", "--out", "page.html"), "--limit expects a fraction between 0 and 1"),
            (("none.csv", "--by", "c", "--slice-limit", "0", "--out", "page.html"), "--slice-limit expects a fraction"),
            (("rows.csv", "--slice-limit", "0.1", "--out", "page.html"), "means nothing without --by"),
            (("rows.csv", "--out", "page.txt"), "ends in one of .html"),
            (("rows.csv", "--out", "there.html"), "is there already"),
            (("rows.csv", "--out", "nowhere/page.html"), "does not exist"),
            (("none.csv", "--out", "page.html"), "none.csv does not exist"),
            (("rows.csv", "sub/rows.csv", "--out", "page.html"), "would both be called 'rows'"),
            (("rows.csv", "--ci", "2", "--out", "page.html"), "ci expects a number between 0 and 1"),
            (("rows.csv", "--by", "month", "--out", "page.html"), "no column 'month'"),
            (("broken.npz", "--out", "page.html"), "broken.npz"),
            (("rows.csv",), "Missing option"),
        ],
    )
    def test_bad_use(
        self, run: Any, data: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], words: str
    ) -> None:
        monkeypatch.chdir(data)
        Path("there.html").write_text("mine")
        Path("broken.npz").write_bytes(b"PK no archive")
        before = sorted(data.iterdir())
        status, out, err = run("report", *arguments)
        assert (status, out) == (2, "")
        assert words in err
        assert err.count("\n") == 1
        assert sorted(data.iterdir()) == before
        assert Path("there.html").read_text() == "mine"

    def test_overwrite(self, run: Any, data: Path) -> None:
        (data / "page.html").write_text("old")
        status, _, _ = run("report", data / "other.npz", "--out", data / "page.html", "--n-boot", 20, "--overwrite")
        assert status == 0
        assert (data / "page.html").read_text().startswith("<!DOCTYPE html>")

    def test_evaluate_writes_one_too(self, run: Any, data: Path) -> None:
        options = ("--metric", "ece", "--metric", "skce", "--estimator", "linear", "--bins", 7, "--by", "country")
        status, out, err = run(
            "evaluate", data / "rows.csv", *options, "--report", data / "page.html", "--n-boot", 20, "--ci", 0.9
        )
        assert (status, err) == (0, "")
        assert f"wrote {data / 'page.html'}" in out.replace("\n", "")
        reader = Reader((data / "page.html").read_text())
        assert float(cd.ece(LABELS, TRUTH**1.5, bins=7)) in reader.numbers
        assert "calibdask evaluate" in reader.text
        assert "90 % interval" in reader.text
        status, _, err = run("evaluate", data / "rows.csv", "--report", data / "page.html")
        assert status == 2
        assert "is there already" in err

    def test_help_is_fast(self, run: Any) -> None:
        heavy = {"numpy", "dask", "xarray", "jinja2", "markupsafe", "holoviews", "pandas"}
        code = "import sys; from calibdask.cli import main; main(['report', '--help'])"
        code += f"; assert not {heavy} & set(sys.modules)"
        subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)
