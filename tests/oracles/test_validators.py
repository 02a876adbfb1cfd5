"""A validator's numbers and those of decisions, as other packages compute and as articles print them.

Numbers of statsmodels, dcurves, MAPIE and crepes are recorded in validators.json by validators_table.py.
"""

import json
from typing import Any

import numpy as np
import pytest
from scipy import special, stats
from sklearn.metrics import auc, roc_auc_score

import calibdask as cd
from tests.oracles.r_random import RandomNumbers
from tests.oracles.validators_table import ALPHAS, TABLE, THRESHOLDS, matrix, rows

RECORDED = json.loads(TABLE.read_text())
CASES = ("few", "many", "rare", "tied")


@pytest.mark.parametrize("case", CASES)
def test_slope_and_intercept_of_statsmodels(case: str) -> None:
    labels, scores, weights = rows(case)
    recorded = RECORDED["binary"][case]
    result = cd.evaluate(labels, scores, {"x": cd.CalibrationSlope()}, ci=0.95)
    for part in ("slope", "intercept"):
        value, error = recorded[part]
        expected = value + stats.norm.ppf([0.5, 0.025, 0.975]) * error
        np.testing.assert_allclose([result[f"x_{part}{end}"] for end in ("", "_low", "_high")], expected, rtol=1e-9)
    ratio = 2 * (recorded["log_likelihoods"][0] - recorded["log_likelihood_of_scores"])
    np.testing.assert_allclose(result.x_statistic, ratio, rtol=1e-9)
    np.testing.assert_allclose(result.x_pvalue, stats.chi2.sf(ratio, 2), rtol=1e-9)
    weighted = cd.evaluate(labels, scores, {"x": cd.CalibrationSlope()}, sample_weight=weights)
    np.testing.assert_allclose([weighted.x_slope, weighted.x_intercept], recorded["weighted"], rtol=1e-9)


@pytest.mark.parametrize("same_data", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_selected_polynomial_of_statsmodels(case: str, same_data: bool) -> None:
    """Forward selection by hand from the likelihoods of all degrees."""
    labels, scores, _ = rows(case)
    likelihoods, degree = RECORDED["binary"][case]["log_likelihoods"], 2 if same_data else 1
    while degree < 4 and 2 * (likelihoods[degree] - likelihoods[degree - 1]) > stats.chi2.ppf(0.95, 1):
        degree += 1
    result = cd.evaluate(labels, scores, {"x": cd.CalibrationBelt(same_data=same_data, points=2)})
    assert result.x_degree == degree
    ratio = 2 * (likelihoods[degree - 1] - RECORDED["binary"][case]["log_likelihood_of_scores"])
    np.testing.assert_allclose(result.x_statistic, ratio, rtol=1e-9)


@pytest.mark.parametrize("case", CASES)
def test_net_benefits_of_dcurves(case: str) -> None:
    """It treats scores that are equal to the threshold."""
    labels, scores, _ = rows(case)
    result = cd.evaluate(labels, scores, {"x": cd.NetBenefit(thresholds=THRESHOLDS, closed="left")})
    for name, expected in RECORDED["binary"][case]["net_benefit"].items():
        np.testing.assert_allclose(result[f"x_{name}"], expected, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("case", ["few", "many"])
@pytest.mark.parametrize("place", range(len(ALPHAS)))
def test_conformal_thresholds_of_mapie_and_crepes(case: str, place: int) -> None:
    labels, scores = matrix(case)
    recorded = {name: values[place] for name, values in RECORDED["matrix"][case].items()}
    result = cd.evaluate(labels, scores, {"x": cd.ConformalThreshold(alpha=ALPHAS[place])})
    sizes = float(result.x_size) * len(labels)
    assert sizes == pytest.approx(recorded["crepes_sizes"], rel=1e-12)
    if recorded["thresholds"] is None:
        # MAPIE refuses so few rows.
        assert (float(result.x_threshold), result.x_threshold.attrs["all_classes"]) == (1.0, 1)
    else:
        assert float(result.x_threshold) == recorded["thresholds"]
        assert sizes == pytest.approx(recorded["sizes"], rel=1e-12)


def curve(errors: Any) -> tuple[Any, Any]:
    """Coverage and risk, of errors in falling order of confidence."""
    count = np.arange(1, errors.size + 1)
    return count / errors.size, errors.cumsum() / count


@pytest.mark.parametrize("case", ["few", "many"])
def test_areas_of_torch_uncertainty(case: str) -> None:
    """It joins the points of the curve by straight lines from 1/n to 1 and divides by the width of that, 1 - 1/n.

    The mean over the points is AURC; a trapezoidal rule gives half a weight to the first and to the last. AUGRC is
    the area from 0 on here, where the curve starts, which adds half of the first point's triangle.
    """
    labels, scores = matrix(case)
    errors = (scores.argmax(1) != labels)[np.argsort(-scores.max(1))].astype(float)
    coverage, risk = curve(errors)
    width, n = 1 - 1 / errors.size, errors.size
    result = cd.evaluate(labels, scores, {"x": cd.RiskCoverage()})
    of_torch = auc(coverage, risk) / width
    np.testing.assert_allclose((result.x_aurc - (risk[0] + risk[-1]) / 2 / n) / width, of_torch, rtol=1e-12)
    generalized = auc(coverage, risk * coverage) / width
    np.testing.assert_allclose((result.x_augrc - errors[0] / 2 / n**2) / width, generalized, rtol=1e-12)
    best_coverage, best_risk = curve(np.sort(errors))
    np.testing.assert_allclose(result.x_best, best_risk.mean(), rtol=1e-12)
    assert best_coverage[-1] == 1
    # Traub et al., equation 5.
    right, accuracy = 1 - errors, 1 - errors.mean()
    area = roc_auc_score(right, np.arange(n)[::-1])
    expected = (1 - area) * accuracy * (1 - accuracy) + (1 - accuracy) ** 2 / 2
    np.testing.assert_allclose(result.x_augrc, expected, rtol=1e-12)


def test_indices_that_r_prints() -> None:
    """Of the readme of R's pmcalibration, and of rms::val.prob there (Harrell's, from which Steyerberg's came).

    https://github.com/stephenrho/pmcalibration: ``set.seed(2345); dat <- sim_dat(1000, a1 = -1, a3 = 1)`` draws
    standard normal x1 and x2 and outcomes of logit -1 + x1 + x2 + x1 x2; scores leave out the product.
    """
    drawn = RandomNumbers(2345)
    x1, x2 = drawn.normal(1000), drawn.normal(1000)
    labels = drawn.binary(special.expit(-1 + x1 + x2 + x1 * x2))
    np.testing.assert_array_equal(x1[:3].round(8), [-1.19142464, 0.54930055, -0.06240514])
    np.testing.assert_array_equal(labels[:6], [0, 0, 1, 1, 0, 0])
    metrics = {"x": cd.CalibrationSlope(), "brier": cd.BrierScore(), "s": cd.SpiegelhalterTest(), "ici": cd.ICI()}
    metrics["lowess"] = cd.ICI(smoother="lowess")
    result = cd.evaluate(labels, special.expit(-1 + x1 + x2), metrics, ci=0.95)
    printed = {
        "x_slope": (1.062, 3),
        "x_statistic": (2.566, 3),
        "x_pvalue": (0.277, 3),
        "x_intercept": (-0.11, 2),
        "brier": (0.148, 3),
        "s_statistic": (-2.238, 3),
        "s_pvalue": (0.025, 3),
        # Profile limits there, Wald limits here: the same to the digits printed.
        "x_slope_low": (0.91, 2),
        "x_slope_high": (1.22, 2),
        "x_intercept_low": (-0.27, 2),
        "x_intercept_high": (0.046, 3),
    }
    differing = {
        name: float(result[name]) for name, (of_r, digits) in printed.items() if result[name].round(digits) != of_r
    }
    # The Wald limit is 0.0465.
    assert differing == {"x_intercept_high": pytest.approx(0.0465, abs=1e-4)}
    # Smoothers differ: 0.054 by restricted cubic splines, 0.044 by lowess, and E90 0.083 and 0.073.
    assert result.lowess_ici.round(3) == 0.044
    assert result.lowess_e90.round(3) == 0.073
    assert 0.044 < result.ici_ici < 0.056
    assert 0.073 < result.ici_e90 < 0.095


# Roesch & Scheule, Deep credit risk (training.deepcreditrisk.com/JP.html), and the ten grades of MATLAB's
# risk.validation.jeffreysTest: rows, mean PD, defaults, and whether Jeffreys' test rejects at 5 %.
GRADES = (
    (56, 0.027845, 6, True),
    (79, 0.07689, 18, True),
    (68, 0.12764, 16, True),
    (54, 0.17523, 21, True),
    (45, 0.2268, 11, False),
    (40, 0.27502, 14, False),
    (40, 0.327, 10, False),
    (34, 0.37635, 13, False),
    (37, 0.41964, 19, False),
    (47, 0.47274, 22, False),
)


def test_grades_of_published_examples() -> None:
    six = cd.evaluate([1, 1, 0, 0, 0, 0], np.full(6, 0.0367), {"x": cd.GradeTests()})
    assert round(float(six.x_jeffreys), 4) == 0.0044
    scores = np.concatenate([np.full(count, pd) for count, pd, _, _ in GRADES])
    labels = np.concatenate([np.arange(count) < defaults for count, _, defaults, _ in GRADES]).astype(int)
    grade = np.repeat(np.arange(10), [count for count, *_ in GRADES])
    result = cd.evaluate(labels, scores, {"x": cd.GradeTests()}, by={"grade": grade})
    assert (result.x_jeffreys < 0.05).values.tolist() == [rejected for *_, rejected in GRADES]
    # As the beta distribution's posterior that ECB's instructions (2019, section 2.5.3.1) define.
    posterior = [stats.beta.cdf(pd, k + 0.5, n - k + 0.5) for n, pd, k, _ in GRADES]
    np.testing.assert_allclose(result.x_jeffreys, posterior, rtol=1e-9)
    binomial = [stats.binomtest(k, n, pd, alternative="greater").pvalue for n, pd, k, _ in GRADES]
    np.testing.assert_allclose(result.x_binomial, binomial, rtol=1e-9)
