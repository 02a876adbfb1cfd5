"""Reports hold the numbers of `evaluate`, of any estimator."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

import calibdask as cd
from calibdask.estimators.scores.mean_gap import MeanGap
from calibdask.estimators.scores.saturation import Saturation
from calibdask.report import Measured, measure, measuring
from calibdask.report.model_result import ModelResult
from tests.report.page_reader import page_of
from tests.report.sample_rows import CLASSES, COUNTRY, FEW, LABELS, MATRIX, ROWS, TRUTH, WEIGHTS


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
        of_summary = measure(summary)
        for name in ("ece", "density_ece", "report_gap", "report_scores_at_one", "report_diagram_outcome"):
            np.testing.assert_allclose(of_summary.result[name], extreme.result[name], rtol=1e-12)
        assert list(of_summary.slices) == ["country", "day"]
        np.testing.assert_allclose(of_summary.slices["country"].ece, extreme.slices["country"].ece, rtol=1e-12)
        assert list(measure(summary, by="day", **FEW).slices) == ["day"]
        with pytest.raises(ValueError, match="by expects slices of the summary, country, day, got month"):
            measure(summary, by="month")

    def test_summaries_of_other_grids_and_settings(self) -> None:
        coarse = measure(cd.summarize(CLASSES, MATRIX, settings=["classwise"], step=0.001), **FEW)
        assert str(coarse.setting) == "classwise"
        assert len(ModelResult("coarse", coarse).bins) == 4

    def test_weights(self) -> None:
        measured = measure(LABELS, TRUTH, sample_weight=WEIGHTS, **FEW)
        assert measured.weights == "given"
        assert float(measured.result.ece) == pytest.approx(cd.ece(LABELS, TRUTH, sample_weight=WEIGHTS))

    def test_rows_are_not_resampled_where_that_takes_long(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.setattr(measuring, "MOST_RESAMPLED", 1)
        measured = measure(LABELS, TRUTH, **FEW)
        assert measured.bare == ("brier_score", "log_loss")
        assert "brier_score_low" not in measured.result
        assert "ece_low" in measured.result
        assert measured.result.brier_score.attrs["estimator"] == repr(cd.BrierScore())
        assert "No intervals of brier_score, log_loss" in page_of(tmp_path, measured)[1].text

    def test_warnings_are_kept_and_passed_on(self) -> None:
        with pytest.warns(UserWarning, match="only one kind of outcome"):
            measured = measure([1] * 40, np.linspace(0.1, 0.9, 40), **FEW)
        assert any("only one kind of outcome" in note for note in measured.notes)

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ((LABELS,), "if these are all rows, pass both arguments"),
            ((LABELS, xr.DataArray(MATRIX.T, dims=("model", "sample"))), "one model"),
        ],
    )
    def test_what_cannot_be_measured(self, arguments: Any, message: str) -> None:
        with pytest.raises(ValueError, match=message):
            measure(*arguments, **FEW)


class TestEstimators:
    def test_mean_gap(self) -> None:
        scores, w = TRUTH**0.7, WEIGHTS
        result = cd.evaluate(LABELS, scores, MeanGap(), sample_weight=w, ci=0.9)
        gap = np.average(LABELS - scores, weights=w)
        error = np.sqrt((w**2 * (LABELS - scores - gap) ** 2).sum()) / w.sum()
        assert float(result.mean_gap) == pytest.approx(gap, abs=1e-10)
        # Score intervals of many rows are nearly those of the normal distribution.
        assert float(result.mean_gap_low) == pytest.approx(gap - 1.6448536 * error, rel=1e-3)
        assert float(result.mean_gap_high) == pytest.approx(gap + 1.6448536 * error, rel=1e-3)
        assert float(result.mean_gap_score) == pytest.approx(np.average(scores, weights=w))

    def test_mean_gap_of_classes_and_slices(self) -> None:
        result = cd.evaluate(CLASSES, MATRIX, MeanGap(setting="classwise"), by={"country": COUNTRY})
        here = COUNTRY == "fr"
        expected = [(CLASSES[here] == k).mean() - MATRIX[here, k].mean() for k in range(4)]
        np.testing.assert_allclose(result.mean_gap.sel(country="fr"), expected, atol=1e-10)

    def test_saturation(self) -> None:
        scores = np.r_[np.zeros(3), 5e-7, 2e-6, np.full(4, 0.5), 1 - 1e-9, np.ones(2)]
        labels = np.arange(scores.size) % 2
        result = cd.evaluate(labels, scores, Saturation())
        assert float(result.saturation_at_zero) == 4 / 12
        assert float(result.saturation_at_one) == 3 / 12
        assert 4 <= int(result.saturation_distinct_scores) <= 6
        assert float(result.saturation_effective_rows) == 12
        wide = cd.evaluate(labels, scores, Saturation(within=1e-5))
        assert float(wide.saturation_at_zero) == 5 / 12

    def test_saturation_of_weights(self) -> None:
        result = cd.evaluate(LABELS, TRUTH, Saturation(), sample_weight=WEIGHTS)
        assert float(result.saturation_effective_rows) == pytest.approx(WEIGHTS.sum() ** 2 / (WEIGHTS**2).sum())

    @pytest.mark.parametrize("within", [0, 0.5, True, "little"])
    def test_bad_widths(self, within: Any) -> None:
        with pytest.raises(ValueError, match="within expects a number"):
            Saturation(within=within)
