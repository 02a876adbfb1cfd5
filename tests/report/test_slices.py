"""Slices of a report."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calibdask as cd
from calibdask.report import measure
from calibdask.report.model_result import ModelResult
from calibdask.report.slices import slices_of
from calibdask.report.small_slices import ShrunkenSlices
from calibdask.report.verdict import worst_slices
from calibdask.results.format import plain, points
from tests.report.page_reader import page_of
from tests.report.sample_rows import CLASSES, COUNTRY, FEW, LABELS, MATRIX, ROWS, TRUTH, calibrated


class TestSlices:
    def test_worst_first(self) -> None:
        bad = np.arange(ROWS) % 4 == 0
        scores = np.where(bad, TRUTH**0.3, TRUTH)
        result = measure(LABELS, scores, by={"group": np.where(bad, "bad", "good")}).slices["group"]
        slices = slices_of(result)
        assert [piece.label for piece in slices] == ["bad", "good"]
        assert [piece.rows for piece in slices] == [1000, 3000]
        assert slices[0].numbers["ece"].low == float(result.ece_low.sel(group="bad"))

    def test_the_verdict_names_the_worst(self) -> None:
        truth = np.where(COUNTRY == "fr", TRUTH**2, TRUTH)
        labels = (np.random.default_rng(1).random(ROWS) < truth).astype(int)
        alike = np.arange(ROWS) % 2
        said = list(worst_slices(ModelResult("model", measure(labels, TRUTH, by={"country": COUNTRY, "half": alike}))))
        errors = cd.evaluate(labels, TRUTH, cd.ECE(), by={"country": COUNTRY}).ece
        value = points(float(errors.sel(country="fr")))
        assert any(sentence.startswith(f"Worst by country: fr, off by {value} points") for sentence in said)
        halves = [sentence for sentence in said if sentence.startswith("Worst by half: ")]
        assert [", and cannot be distinguished from all rows or " in sentence for sentence in halves] == [True]

    def test_many_small_slices_are_ranked_by_shrunken_gaps(self) -> None:
        by = {"campaign": np.arange(ROWS) // 100}
        slices = slices_of(cd.evaluate(LABELS, TRUTH, [cd.ECE(), cd.ReliabilityDiagram()], by=by))
        shrunken = ShrunkenSlices.of(slices, 0.95)
        assert shrunken is not None
        expected = cd.shrink_slices(LABELS, by, y_prob=TRUTH)
        order = expected.campaign.values[np.argsort(expected["rank"].values)].astype(str).tolist()
        assert list(shrunken.gaps)[:2] == order[:2]
        first = expected.sel(campaign=int(order[0]))
        gap = shrunken.gaps[order[0]]
        np.testing.assert_allclose([gap.value, gap.low, gap.high], [first.shrunken, first.low, first.high], atol=5e-3)
        assert shrunken.sentence("campaign").startswith("40 slices of campaign, most of them small: ")
        assert ShrunkenSlices.of(slices[:10], 0.95) is None

    @pytest.mark.parametrize("summarized", [False, True])
    def test_slices_have_the_bins_of_all_rows(self, summarized: bool) -> None:
        metrics = {"mine": cd.ECE(bins=9), "wide": cd.DensityECE(bandwidth=0.1), "mass": cd.ECE(binning="equal-mass")}
        summary = cd.summarize(LABELS, TRUTH, by={"country": COUNTRY})
        measured = (
            measure(summary, metrics=metrics)
            if summarized
            else measure(LABELS, TRUTH, metrics, by={"country": COUNTRY})
        )
        result = cd.evaluate(summary, metrics=metrics)
        slices = measured.slices["country"]
        np.testing.assert_allclose(slices.mine, result.mine, rtol=1e-9)
        np.testing.assert_allclose(slices.wide, result.wide, rtol=1e-3)
        assert ModelResult("model", measured).sliced[0].variable == "mine"
        assert slices.mine.attrs["estimator"] == measured.result.mine.attrs["estimator"]

    @pytest.mark.parametrize(("own", "requested"), [("classwise", None), ("confidence", "classwise"), (2, None)])
    def test_slices_have_the_setting_of_the_headline(self, own: Any, requested: Any, tmp_path: Path) -> None:
        metrics = {"mine": cd.ECE(setting=own)}
        measured = measure(CLASSES, MATRIX, metrics, by={"country": COUNTRY}, setting=requested, **FEW)
        slices, model = measured.slices["country"], ModelResult("model", measured)
        direct = cd.evaluate(CLASSES, MATRIX, metrics, by={"country": COUNTRY})
        np.testing.assert_allclose(slices.mine, direct.mine, rtol=1e-9)
        assert "ece" not in slices
        assert slices.mine.attrs["setting"] == measured.result.mine.attrs["setting"]
        assert model.sliced[0].variable == "mine"
        assert model.sliced[0].error is not None
        assert model.is_headline(model.sliced[0].error)
        assert set(slices.mine.values.tolist()) <= set(page_of(tmp_path, measured)[1].numbers)

    def test_errors_of_different_kinds_are_not_compared(self, tmp_path: Path) -> None:
        measured = measure(LABELS, TRUTH, {"smooth": cd.SmoothECE()}, by={"half": np.arange(ROWS) % 2})
        said = [
            sentence
            for sentence in worst_slices(ModelResult("model", measured))
            if sentence.startswith("Worst by half")
        ]
        assert ["all rows" in sentence for sentence in said] == [False]
        assert "Slices are measured by ECE, 15 bins (" in page_of(tmp_path, measured)[1].text

    def test_the_verdict_names_what_is_not_told_apart(self) -> None:
        # The errors of two slices are alike, those of six others too, and far from these.
        group = np.arange(ROWS) % 8
        labels = calibrated(np.where(group < 2, TRUTH**3, TRUTH))
        (said,) = [
            sentence
            for sentence in worst_slices(ModelResult("model", measure(labels, TRUTH, by={"group": group})))
            if sentence.startswith("Worst by group: ")
        ]
        worst = said.split(": ")[1][0]
        assert worst in "01"
        assert said.endswith(f", and cannot be distinguished from {1 - int(worst)}.")
        (said,) = [
            sentence
            for sentence in worst_slices(ModelResult("model", measure(LABELS, TRUTH, by={"group": group})))
            if sentence.startswith("Worst by group: ")
        ]
        assert said.endswith(", and cannot be distinguished from all rows or any other slice.")

    def test_dates_are_days(self, tmp_path: Path) -> None:
        day = np.datetime64("2026-01-06", "ns") + (np.arange(ROWS) % 5).astype("timedelta64[D]")
        measured = measure(LABELS, TRUTH**0.8, by={"day": day}, **FEW)
        _, reader = page_of(tmp_path, measured)
        assert "2026-01-06" in reader.text
        assert "00:00:00" not in reader.text
        assert "Diagrams of slices by day: the 4 worst of 5." in reader.text
        assert plain(day[:2]) == ["2026-01-06", "2026-01-07"]
        assert plain(np.datetime64("2026-01-06T06:30", "ns")) == "2026-01-06T06:30"
        assert plain(np.array("2026-01", "datetime64[M]")) == "2026-01"

    def test_diagrams_have_common_axes(self, tmp_path: Path) -> None:
        generator = np.random.default_rng(0)
        scores = np.where(np.arange(ROWS) % 2, generator.beta(1, 60, ROWS), generator.beta(2, 3, ROWS))
        group = np.where(np.arange(ROWS) % 2, "small", "large")
        measured = measure(generator.random(ROWS) < scores, scores, by={"group": group}, **FEW)
        html, _ = page_of(tmp_path, measured)
        figures = re.findall(r"<figure>((?:(?!<figure>).)*?)<figcaption>group (?:small|large): ", html, re.S)
        labels = [re.findall(r"<text[^>]*>([^<]*)</text>", figure) for figure in figures]
        ticks = [[label for label in of_one if re.fullmatch(r"0\.[0-9]+", label)] for of_one in labels]
        assert len(figures) == 2
        assert len(ticks[0]) > 4
        assert ticks[0] == ticks[1]

    def test_very_few_rows_come_last_without_an_interval(self) -> None:
        group = np.where(np.arange(ROWS) < 3, "tiny", "all others")
        result = measure(LABELS, TRUTH**0.5, by={"group": group}, **FEW).slices["group"]
        *_, last = slices_of(result)
        assert last.label == "tiny"
        assert not last.numbers["ece"].has_interval
