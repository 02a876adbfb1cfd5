"""Numbers of R on the same rows, recorded in r_table.json by r_table.R, which says of which packages."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from scipy import stats

import calibdask as cd
from calibdask.estimators.bounded_mean import BoundedMean

RECORDED = json.loads(Path(__file__).with_name("r_table.json").read_text())
# Most exact ones print 15 digits; iterations of R's fits end at a relative 1e-15 of the deviance.
EXACT = 1e-9

_NUMBER = np.arange(1, 401)
SCORES = ((149 * _NUMBER) % 401 + 0.25) / 401.5
_PLACES = ((263 * _NUMBER * _NUMBER + 17 * _NUMBER) % 409) / 409
LABELS = (_PLACES < 0.1 + 0.75 * SCORES * SCORES * (3 - 2 * SCORES)).astype(int)
_GRADE = _NUMBER % 5
_RISE = 0.08 + 0.06 * _GRADE
DEFAULTS = (_PLACES < _RISE * SCORES).astype(int)


def measured(metric: Any) -> dict[str, float]:
    """Parts of a metric of the rows, with intervals."""
    result = cd.evaluate(LABELS, SCORES, {"x": metric}, ci=0.95)
    return {str(name).removeprefix("x_"): float(result[name]) for name in result.data_vars if result[name].ndim == 0}


def test_rows_are_the_same() -> None:
    own = {"events": LABELS.sum(), "places": (_NUMBER * LABELS).sum(), "defaults": DEFAULTS.sum()}
    assert {name: RECORDED["rows"][name] for name in own} == own
    assert RECORDED["rows"]["scores"] == pytest.approx(SCORES.sum(), rel=1e-14)


def test_slope_and_intercept_of_glm() -> None:
    """With their Wald intervals, and the test of both."""
    found, recorded = measured(cd.CalibrationSlope()), RECORDED["glm"]
    for part in ("slope", "intercept"):
        ends = recorded[part] + stats.norm.ppf([0.5, 0.025, 0.975]) * recorded[f"{part}_error"]
        np.testing.assert_allclose([found[f"{part}{end}"] for end in ("", "_low", "_high")], ends, rtol=EXACT)
    for part in ("statistic", "pvalue"):
        assert found[part] == pytest.approx(recorded[part], rel=EXACT)


def test_validation_of_rms() -> None:
    """``val.prob``: the test U, Brier score, slope and Spiegelhalter's z.

    Its intercept is the one beside the slope, ours that with slope 1. Its E90 and Emax, of a lowess curve, are
    compared in test_validators.
    """
    recorded, slope = RECORDED["val_prob"], measured(cd.CalibrationSlope())
    assert slope["statistic"] == pytest.approx(recorded["statistic"], rel=EXACT)
    assert slope["pvalue"] == pytest.approx(recorded["pvalue"], rel=EXACT)
    assert slope["slope"] == pytest.approx(recorded["slope"], rel=EXACT)
    assert slope["intercept"] != pytest.approx(recorded["free_intercept"], rel=0.01)
    assert measured(cd.BrierScore())["x"] == pytest.approx(recorded["brier"], rel=EXACT)
    test = measured(cd.SpiegelhalterTest())
    assert test["statistic"] == pytest.approx(recorded["z"], rel=EXACT)
    assert test["pvalue"] == pytest.approx(recorded["z_pvalue"], rel=EXACT)


def test_area_and_variance_of_proc() -> None:
    """The variance of DeLong et al.: R's limits are normal, ours those of a mean of as many values as rarer rows."""
    found, recorded = measured(cd.CStatistic()), RECORDED["roc"]
    assert found["x"] == pytest.approx(recorded["auc"], rel=EXACT)
    rows = np.array(float(min(LABELS.sum(), (1 - LABELS).sum())))
    mean = BoundedMean(np.array(recorded["auc"]), rows * recorded["variance"], rows, 0.0, 1.0)
    np.testing.assert_allclose([found["low"], found["high"]], mean.ends(0.95), rtol=EXACT)


@pytest.mark.parametrize("same_data", [False, True])
def test_hosmer_and_lemeshow(same_data: bool) -> None:
    found, recorded = measured(cd.HosmerLemeshow(same_data=same_data)), RECORDED["hosmer_lemeshow"]
    assert found["statistic"] == pytest.approx(recorded["statistic"], rel=EXACT)
    if same_data:
        assert found["pvalue"] == pytest.approx(recorded["pvalue_of_same_data"], rel=EXACT)
    else:
        # Groups expect 2 outcomes at least: chi-square, as in R, makes too little of chance.
        assert 1 < found["pvalue"] / recorded["pvalue"] < 5


def test_bins_of_calibratr() -> None:
    """Ten bins of equally many rows; its MCE is the largest gap times the share of rows, a tenth."""
    recorded = RECORDED["equal_mass"]
    assert measured(cd.ECE(bins=10, binning="equal-mass"))["x"] == pytest.approx(recorded["ece"], rel=EXACT)
    largest = measured(cd.MCE(bins=10, binning="equal-mass"))["x"]
    assert largest / 10 == pytest.approx(recorded["largest_share"], rel=EXACT)


@pytest.mark.parametrize("rule", ["brier", "log"])
def test_isotonic_decomposition_of_isoreg(rule: Any) -> None:
    found = measured(cd.CORP(rule=rule))
    for part, value in RECORDED["corp"][rule].items():
        assert found[part] == pytest.approx(value, rel=EXACT)


@cache
def grades() -> xr.Dataset:
    """Tests of each grade by itself."""
    return cd.evaluate(DEFAULTS, SCORES / 5, {"x": cd.GradeTests()}, by={"grade": _GRADE})


@pytest.mark.parametrize("part", ["count", "defaults", "pd", "binomial", "jeffreys", "bound"])
def test_grades_by_beta_distributions(part: str) -> None:
    """``binom.test``, ``pbeta(PD, k + 1/2, n - k + 1/2)`` of ECB's instructions, and ``qbeta`` of Pluto & Tasche."""
    recorded = [of_grade[part] for of_grade in RECORDED["grades"]]
    np.testing.assert_allclose(grades()[f"x_{part}"], recorded, rtol=EXACT)


def test_consistency_bars_of_binomial_quantiles() -> None:
    result = cd.evaluate(LABELS, SCORES, {"x": cd.ConsistencyBars(bins=10)}, ci=0.95)
    for end in ("low", "high"):
        np.testing.assert_allclose(result[f"x_expected_{end}"], RECORDED["consistency_bars"][end], rtol=EXACT)
