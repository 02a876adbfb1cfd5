"""Newton's method on many points, and where rounding hides whether a step lowers the loss."""

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import special

from calibdask.calibrators.curves.spline import _CHOICES, _knots, _parts, _Spline
from calibdask.estimators.regression.logistic import LogisticProblem

Array = NDArray[np.float64]


def sample(n: int, seed: int, *, with_ends: bool = False) -> tuple[Array, Array, Array]:
    """Logits in order, weights and sums of outcomes; with scores of exactly 0 and 1, logits of -708 and 708."""
    rng = np.random.default_rng([n, seed])
    scores = np.sort(rng.beta(0.3, 0.3, n))
    if with_ends:
        scores[: n // 20], scores[-n // 20 :] = 0.0, 1.0
    z = np.log(np.maximum(scores, 2.3e-308)) - np.log(np.maximum(1 - scores, 2.3e-308))
    weight = rng.integers(1, 4, n).astype(float)
    return z, weight, rng.binomial(weight.astype(int), scores**1.5).astype(float)


@pytest.mark.parametrize("smoothing", [None, 1e-4, 1.0])
@pytest.mark.parametrize("n", [900, 20_000])
def test_many_points_start_near_the_end_and_end_where_a_plain_search_does(n: int, smoothing: float | None) -> None:
    z, weight, outcome = sample(n, 0)
    spline = _Spline(_knots(z, weight, 6))
    terms = spline.terms(z) if smoothing else np.stack([np.ones_like(z), z, z**2])
    penalty = np.zeros((len(terms), len(terms))) if smoothing is None else smoothing * spline.penalty
    b = np.zeros(len(terms))
    for _ in range(60):
        q = special.expit(b @ terms)
        gradient = terms @ (weight * q - outcome) / weight.sum() + penalty @ b
        b -= np.linalg.solve((terms * weight * q * (1 - q)) @ terms.T / weight.sum() + penalty, gradient)
    problem = LogisticProblem.of(terms, weight, outcome)
    fit = problem.fit(penalty)
    assert fit.converged
    np.testing.assert_allclose(fit.coefficients, b, rtol=1e-9, atol=1e-9 * np.abs(b).max())
    from_zero = problem.fit(penalty, np.zeros(len(terms)))
    np.testing.assert_allclose(fit.coefficients, from_zero.coefficients, rtol=1e-10)
    np.testing.assert_allclose(fit.covariance, from_zero.covariance, rtol=1e-7)


@pytest.mark.parametrize("seed", range(8))
def test_steps_whose_effect_rounding_hides_end_the_search(seed: int) -> None:
    """Scores of 0 and 1 make the terms of splines nearly collinear, and the loss known to 12 digits only."""
    z, weight, outcome = _parts(*sample(1000, seed, with_ends=True))
    spline = _Spline(_knots(z, weight, 10))
    problem = LogisticProblem.of(spline.terms(z), weight, outcome)
    unit, start = 1 / np.trace(spline.penalty), None
    for smoothing in (unit * _CHOICES).tolist():
        fit = problem.fit(smoothing * spline.penalty, start)
        assert fit.converged, smoothing
        start = fit.coefficients
