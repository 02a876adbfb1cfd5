"""Reports on errors that are no mean gaps, such as one that a user defines."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import calibdask as cd
from calibdask.estimators.about import About, Description, PartInfo, Quantity
from calibdask.estimators.estimator import Estimator
from calibdask.estimators.parts import CalibrationError, Estimate, calibration_error
from calibdask.report import Measured, measure
from calibdask.report.model_result import ModelResult
from calibdask.report.verdict import verdict_on, worst_slices
from calibdask.results.format import PLAIN, POINTS
from calibdask.statistics.layout import Layout
from calibdask.statistics.request import Requests
from tests.report.page_reader import page_of
from tests.report.sample_rows import CLASSES, FEW, LABELS, MATRIX, ROWS, TRUTH

GROUP = np.where(np.arange(ROWS) % 2, "odd", "even")
LOW = np.where(GROUP == "odd", TRUTH**2, TRUTH)


@dataclass(frozen=True)
class SquaredGap(Estimator):
    """The square of a calibration error."""

    about = About("Squared gap", "The square of the ECE: ECE**2.", "Nobody, A new error, 2026", "squared gap")

    def describe(self, layout: Layout) -> Description:
        return {"": PartInfo("square of the mean gap", "error")}

    def estimate(self) -> Requests[Estimate]:
        parts = yield from cd.ECE(bins=5).estimate()
        ece = parts[""]
        assert isinstance(ece, CalibrationError)
        return {"": calibration_error(ece.columns**2)}


def _same_name(quantity: Quantity) -> Estimator:
    """An error of a class that is called like one of the package."""

    @dataclass(frozen=True)
    class SmoothECE(SquaredGap):
        def describe(self, layout: Layout) -> Description:
            return {"": PartInfo("a gap", "error", quantity=quantity)}

    return SmoothECE()


@pytest.mark.parametrize("quantity", ["", "mean-gap"])
def test_only_declared_mean_gaps_are_in_percentage_points(quantity: Quantity, tmp_path: Path) -> None:
    measured = measure(LABELS, LOW, {"mine": _same_name(quantity)}, by={"group": GROUP}, n_boot=50)
    model = ModelResult("model", measured)
    assert model.headline is not None
    assert model.headline.estimator_class == "SmoothECE"
    assert model.headline.quantity == quantity
    assert model.sliced[0].variable == "mine"
    verdict, value = verdict_on(model), float(measured.result.mine)
    page = page_of(tmp_path, measured)[1].text
    if quantity:
        assert f"Scores too low: off by {POINTS.number(value)} percentage points" in verdict.line
        assert ["off by" in sentence for sentence in worst_slices(model)] == [True]
    else:
        assert f"Scores too low: squared gap {PLAIN.number(value)}" in verdict.line
        assert "percentage points" not in page


class TestOwnError:
    @pytest.fixture(scope="class")
    @staticmethod
    def measured() -> Measured:
        return measure(LABELS, LOW, {"ece": SquaredGap(), "brier": cd.BrierScore()}, by={"group": GROUP}, n_boot=50)

    def test_the_verdict_names_it(self, measured: Measured) -> None:
        verdict = verdict_on(ModelResult("model", measured))
        value, low, high = (float(measured.result[name]) for name in ("ece", "ece_low", "ece_high"))
        assert value == pytest.approx(cd.ece(LABELS, LOW, bins=5) ** 2)
        assert verdict.outcome == "error"
        assert verdict.line == f"Scores too low: squared gap {PLAIN.number(value)} ({PLAIN.span(low, high)})"
        ends = PLAIN.interval(low, high, 0.95)
        assert verdict.sentences[0] == (
            f"The calibration error (squared gap) is {PLAIN.number(value)} ({ends}), over 4,000 rows: square of the "
            "mean gap."
        )
        assert not any("percentage" in sentence for sentence in verdict.sentences)

    def test_slices_are_those_by_it(self, tmp_path: Path, measured: Measured) -> None:
        model = ModelResult("model", measured)
        direct = cd.evaluate(LABELS, LOW, {"mine": SquaredGap()}, by={"group": GROUP})
        np.testing.assert_array_equal(measured.slices["group"].ece, direct.mine)
        assert [piece.label for piece in model.sliced[0].slices] == ["odd", "even"]
        worst = [sentence for sentence in worst_slices(model) if sentence.startswith("Worst by group: odd")]
        assert f"squared gap {PLAIN.number(float(direct.mine.sel(group='odd')))} (95 % interval" in worst[0]
        _, reader = page_of(tmp_path, measured)
        assert set(direct.mine.values.tolist()) <= set(reader.numbers)

    def test_the_glossary_has_it(self, tmp_path: Path, measured: Measured) -> None:
        _, reader = page_of(tmp_path, measured)
        assert "Squared gap The square of the ECE: ECE**2. Nobody, A new error, 2026" in reader.text
        assert "SquaredGap()" in reader.text

    def test_mean_gaps_come_first(self) -> None:
        result = cd.evaluate(LABELS, TRUTH, {"own": SquaredGap(), "mass": cd.ECE(binning="equal-mass"), "e": cd.ECE()})
        headline = ModelResult("model", Measured(result)).headline
        assert headline is not None
        assert headline.metric == "e"


@pytest.mark.parametrize(
    ("metric", "label"),
    [
        (cd.MulticlassECE(), "multi-class ECE"),
        (cd.ECCE(), "ECCE"),
        (cd.SKCE(estimator="linear"), "SKCE"),
        (cd.CORP(setting="confidence"), "CORP"),
    ],
)
def test_other_errors_of_the_package(metric: Estimator, label: str) -> None:
    measured = measure(CLASSES, MATRIX, {"metric": metric}, by={"group": GROUP}, **FEW)
    model = ModelResult("model", measured)
    assert verdict_on(model).outcome != "unknown"
    assert verdict_on(model).sentences[0].startswith(f"The calibration error ({label}) is ")
    assert model.sliced[0].label == label


def test_a_test_that_an_error_is_small_is_none_of_calibration(tmp_path: Path) -> None:
    tests = {"small": cd.SKCETest(estimator="linear", delta=0.5), "ece": cd.ECE()}
    measured = measure(LABELS, TRUTH, tests, **FEW)
    assert not any("test of calibration" in sentence for sentence in verdict_on(ModelResult("m", measured)).sentences)
    assert "speaks for a small error" in page_of(tmp_path, measured)[1].text
