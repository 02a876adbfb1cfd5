"""Reliability curves and densities against direct ratios of sums."""

from typing import Any

import numpy as np
import pytest

import calibdask as cd
from tests.estimators.density_data import BANDWIDTHS, KERNELS, MIRRORED, STEP, Rows, drawn, parts, simplex_rows
from tests.oracles import density_reference as reference
from tests.strategies import DEGENERATE

pytestmark = DEGENERATE


def curve_pair(rows: Rows, bandwidth: float, kernel: Any, setting: Any = "binary") -> Any:
    """Found and expected LCE and density at 361 points, and these points."""
    column = reference.columns(*rows, setting)[0]
    x = np.linspace(column[2], 1, 361)
    metric = cd.LocalCalibrationError(kernel=kernel, bandwidth=bandwidth, setting=setting, points=x.size)
    actual = parts(*rows, metric)
    expected, density = reference.lce(column, bandwidth, kernel, x)
    lce = actual.x_lce if "x_lce" in actual else actual.x  # api: part lce; the code of today: the metric's own name
    return lce.values, expected, actual.x_density.values, density, x


@pytest.mark.parametrize("kernel", ["triweight", "gaussian"])
@pytest.mark.parametrize(("kind", "n"), [("spread", 300), ("ends", 2000), ("discrete", 300)])
def test_curve_equals_direct_ratio(kernel: Any, kind: str, n: int) -> None:
    rows = drawn(kind, n)
    for h in BANDWIDTHS:
        actual, expected, _, density, _ = curve_pair(rows, h, kernel)
        where = density > 1e-3
        # Between far scores a curve is a ratio of tails: relative errors of step^2 / h^2 show undamped there.
        limit = 1e-4 if h < 0.03 else 1e-5
        np.testing.assert_allclose(actual[where], expected[where], rtol=0, atol=limit, err_msg=str(h))


@pytest.mark.parametrize("kernel", KERNELS)
def test_density_equals_direct_sum(kernel: Any) -> None:
    _, _, actual, expected, _ = curve_pair(drawn("spread", 300), 0.05, kernel)
    np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-4)


def test_reliability_curve_is_lce_plus_score() -> None:
    labels, scores = drawn("spread", 300)
    result = parts(labels, scores, cd.ReliabilityCurve(bandwidth=0.05, points=361))
    lce, _, density, _, x = curve_pair((labels, scores), 0.05, "triweight")
    np.testing.assert_allclose(result.x_reliability.values, lce + x, rtol=0, atol=1e-12)
    np.testing.assert_allclose(result.x_density.values, density, rtol=1e-12)


def test_confidence_curve_lies_on_its_support() -> None:
    actual, expected, _, density, x = curve_pair(simplex_rows(400, 3), 0.05, "triweight", "confidence")
    assert x[0] == pytest.approx(1 / 3)
    np.testing.assert_allclose(actual[density > 1e-3], expected[density > 1e-3], rtol=0, atol=1e-5)


def test_shorthand_curve() -> None:
    labels, scores = drawn("spread", 300)
    result = cd.reliability_curve(labels, scores, bandwidth=0.05)
    assert result.reliability.shape == (301,)
    np.testing.assert_allclose(result.score.values, np.linspace(0, 1, 301), atol=1e-12)
    x = result.score.values
    lce, density = reference.lce(reference.columns(labels, scores)[0], 0.05, "triweight", x)
    np.testing.assert_allclose((result.reliability.values - x)[density > 1e-3], lce[density > 1e-3], rtol=0, atol=1e-5)
    assert float(result.bandwidth) == 0.05


def test_curve_is_nan_where_there_are_no_scores() -> None:
    scores = np.array([0.2, 0.21, 0.8, 0.79])
    result = cd.reliability_curve([0, 1, 1, 1], scores, bandwidth=0.02)
    assert np.isnan(result.reliability.sel(score=0.5, method="nearest"))
    assert float(result.reliability.sel(score=0.8, method="nearest")) == pytest.approx(1, abs=1e-9)
    assert float(result.density.sel(score=0.5, method="nearest")) == pytest.approx(0, abs=1e-8)


@pytest.mark.parametrize("kernel", MIRRORED)
@pytest.mark.parametrize("bandwidth", [0.01, 0.05, 0.5, "silverman"])
def test_density_integrates_to_one(kernel: Any, bandwidth: Any) -> None:
    for kind in ("spread", "ends", "discrete"):
        labels, scores = drawn(kind, 300)
        metric = cd.LocalCalibrationError(kernel=kernel, bandwidth=bandwidth, points=3601)
        density = parts(labels, scores, metric).x_density.values
        assert np.trapezoid(density, dx=STEP) == pytest.approx(1, abs=1e-6), kind


@pytest.mark.parametrize("score", [0.0, 0.37, 1.0])
@pytest.mark.parametrize("n", [1, 50])
def test_curves_of_equal_scores(score: float, n: int) -> None:
    with pytest.warns(UserWarning, match="bandwidth"):
        result = parts(np.ones(n, int), np.full(n, score), cd.ReliabilityCurve(points=3601))
    reliability = result.x_reliability.values
    there = np.isfinite(reliability)
    assert there[round(score * 3600)]
    assert there.sum() < 20
    np.testing.assert_allclose(reliability[there], 1, atol=1e-9)


@pytest.mark.parametrize("metric", ["LocalCalibrationError", "ReliabilityCurve"])
@pytest.mark.parametrize(
    "choices", [{"kernel": "boxcar"}, {"bandwidth": -1.0}, {"points": 0}, {"points": -5}, {"step": 0.0}], ids=str
)
def test_bad_choices_of_curves(metric: str, choices: dict[str, Any]) -> None:
    labels, scores = drawn("spread", 30)
    with pytest.raises(ValueError, match=r".+"):
        parts(labels, scores, getattr(cd, metric)(**choices))
