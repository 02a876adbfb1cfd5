"""Pictures of decisions and of the calibration belt: what is in them, and that they are written in every format."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import holoviews as hv
import numpy as np
import pytest
import xarray as xr

import calibdask as cd
from calibdask.plot import calibration_belt, decision_curve, murphy_curve, risk_coverage_curve, save
from calibdask.plot.decision_charts import DECISION
from calibdask.results.format import pvalue_text

RNG = np.random.default_rng(7)
LOGIT = RNG.normal(-3.6, 1.2, 2000)
SCORES = 1 / (1 + np.exp(-LOGIT))
LABELS = RNG.random(2000) < 1 / (1 + np.exp(0.55 - 0.8 * LOGIT))
PICTURES: dict[str, Callable[..., hv.Layout]] = {
    "NetBenefit": decision_curve,
    "RiskCoverageCurve": risk_coverage_curve,
    "MurphyCurve": murphy_curve,
    "CalibrationBelt": calibration_belt,
}


@cache
def result(*, slices: bool = False, ci: float | None = 0.95) -> xr.Dataset:
    """All four of a rare outcome."""
    metrics = {name: getattr(cd, name)() for name in PICTURES}
    return cd.evaluate(LABELS, SCORES, metrics, by={"ward": np.arange(2000) % 2} if slices else None, ci=ci)


def parts(overlay: hv.Overlay) -> dict[str, Any]:
    """The parts by their names in the legend."""
    return {element.label: element for element in overlay}


def values(element: Any) -> np.ndarray:
    return np.asarray(element.dimension_values("y"))


def reach(overlay: hv.Overlay) -> tuple[tuple[float, float], tuple[float, float]]:
    x, y = overlay.get_dimension("x"), overlay.get_dimension("y")
    return x.range, y.range


def test_decision_curve() -> None:
    data = result()
    (overlay,) = decision_curve(data)
    drawn = parts(overlay)
    assert list(drawn) == ["95 % interval", "treat all", "treat none", "treat by the scores"]
    for name, part in {"treat by the scores": "model", "treat all": "treat_all", "treat none": "treat_none"}.items():
        np.testing.assert_array_equal(values(drawn[name]), data[f"NetBenefit_{part}"])
    np.testing.assert_array_equal(values(drawn["95 % interval"]), data.NetBenefit_model_high)
    np.testing.assert_array_equal(drawn["95 % interval"].dimension_values("low"), data.NetBenefit_model_low)
    (left, right), (low, high) = reach(overlay)
    # The picture is of where something can be gained: not of the fall of "treat all" nor of high thresholds.
    assert float(data.NetBenefit_treat_all.min()) < -50
    assert -0.1 < low < 0 < float(data.NetBenefit_model.max()) < high < 0.1
    assert left == 0
    assert right < 0.9
    assert float(data.NetBenefit_model.sel(NetBenefit_threshold=slice(right, 1)).max()) < 0.05 * high


def test_risk_coverage_curve() -> None:
    data = result()
    (overlay,) = risk_coverage_curve(data)
    drawn = parts(overlay)
    risk = values(drawn["by falling score"])
    np.testing.assert_array_equal(risk, data.RiskCoverageCurve_risk)
    wrong = np.sort((SCORES > 0.5) != LABELS)
    rows = np.arange(1, 101) * 20
    best = np.cumsum(wrong)[rows - 1] / rows
    np.testing.assert_allclose(values(drawn["best possible order"]), best, atol=1e-12)
    np.testing.assert_allclose(values(drawn["random order"]), wrong.mean())
    assert overlay.label == f"error rate {wrong.mean():.3g}"
    # Of the first rows alone the error rate of all is not known.
    (part,) = risk_coverage_curve(data.sel(RiskCoverageCurve_coverage=slice(0, 0.5)))
    assert list(parts(part)) == ["95 % interval", "by falling score"]


def test_murphy_curve() -> None:
    data = result()
    drawn = parts(murphy_curve(data)[0])
    np.testing.assert_array_equal(values(drawn["scores"]), data.MurphyCurve)
    constant = cd.evaluate(LABELS, np.full(2000, LABELS.mean()), {"m": cd.MurphyCurve()})
    np.testing.assert_allclose(values(drawn["the frequency as score"]), constant.m, atol=1e-12)
    # The known frequency is that of right predictions, not of each class.
    classes = cd.evaluate(LABELS.astype(int), np.stack([1 - SCORES, SCORES], -1), {"m": cd.MurphyCurve()})
    assert [len(panel) for panel in murphy_curve(classes)] == [1, 1]


def test_calibration_belt() -> None:
    data = result()
    (overlay,) = calibration_belt(data)
    drawn = parts(overlay)
    assert list(drawn) == ["95 % belt", "80 % belt", "calibrated", "polynomial"]
    for level in (0.8, 0.95):
        belt = drawn[f"{100 * level:g} % belt"]
        at = data.sel(CalibrationBelt_level=level)
        np.testing.assert_array_equal(values(belt), at.CalibrationBelt_upper)
        np.testing.assert_array_equal(belt.dimension_values("low"), at.CalibrationBelt_lower)
    np.testing.assert_array_equal(values(drawn["polynomial"]), data.CalibrationBelt_frequency)
    np.testing.assert_array_equal(values(drawn["calibrated"]), data.CalibrationBelt_score)
    across, upward = reach(overlay)
    assert across == upward
    assert SCORES.max() <= across[1] + 0.05
    assert overlay.label == f"{pvalue_text(float(data.CalibrationBelt_pvalue))} · degree 1"


def test_no_belt_where_scores_separate_the_outcomes(tmp_path: Path) -> None:
    data = cd.evaluate(SCORES > 0.05, SCORES, {"belt": cd.CalibrationBelt()})
    (overlay,) = calibration_belt(data)
    assert overlay.label == "not determined"
    save(calibration_belt(data), tmp_path / "belt.png")


@pytest.mark.parametrize("name", PICTURES)
def test_slices(name: str) -> None:
    drawn = list(PICTURES[name](result(slices=True), title="unit"))
    assert [overlay.label.split("\n")[0] for overlay in drawn] == ["unit · ward 0", "unit · ward 1"]
    # One legend and one scale for all.
    assert [any(element.label for element in overlay) for overlay in drawn] == [True, False]
    assert reach(drawn[0]) == reach(drawn[1])


def test_no_interval_without_ci() -> None:
    data = result(ci=None)
    for name in ("NetBenefit", "RiskCoverageCurve", "MurphyCurve"):
        assert not any(isinstance(element, hv.Area) for element in PICTURES[name](data)[0])


@pytest.mark.parametrize("name", PICTURES)
def test_saved_as_image(name: str, tmp_path: Path) -> None:
    save(PICTURES[name](result()), tmp_path / "picture.png")
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")


def test_pages_explain_what_they_show(tmp_path: Path) -> None:
    save({"benefit": decision_curve(result()), "belt": calibration_belt(result())}, tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    words = ("A decision curve is", "A risk-coverage curve is", "A Murphy curve is", "A calibration belt covers")
    assert [start in page for start in words] == [True, False, False, True]


def test_one_of_several_decision_curves_is_chosen_by_its_name() -> None:
    metrics = {"plain": cd.NetBenefit(), "share": cd.NetBenefit(standardized=True)}
    both = cd.evaluate(LABELS, SCORES, metrics)
    for name, metric in metrics.items():
        chart = DECISION.chart(both, DECISION.metric(both, name), {})
        np.testing.assert_array_equal(chart.line.y, both[f"{name}_model"])
        assert chart.upward == ("standardized net benefit" if metric.standardized else "net benefit")
        assert decision_curve(both, metric=name)


def test_refused() -> None:
    with pytest.raises(ValueError, match=r"with one cd.NetBenefit, got 0 among MurphyCurve"):
        decision_curve(result()[["MurphyCurve"]])
    two = cd.evaluate(LABELS, SCORES, {"a": cd.MurphyCurve(), "b": cd.MurphyCurve()})
    with pytest.raises(ValueError, match=r"with one cd.MurphyCurve, got 2 among a, b"):
        murphy_curve(two)
    with pytest.raises(ValueError, match=r"metric expects a cd.MurphyCurve of the result: a, b; got 'c'"):
        murphy_curve(two, metric="c")
    many = cd.evaluate(LABELS, SCORES, {"a": cd.MurphyCurve(thresholds=[0.1])}, by={"ward": np.arange(2000) % 61})
    with pytest.raises(ValueError, match=r"A plot of a cd.MurphyCurve expects at most 60 curves, got 61 \(ward: 61\)"):
        murphy_curve(many)
