"""Logistic regression on a few terms of one score, by Newton's method on the rows and outcomes at each score."""

from typing import NamedTuple

import numpy as np
from scipy import special

from calibdask.statistics.exact import Array

# Newton's method is quadratic: from any start that halving of steps leads to, a few dozen steps are plenty.
_MOST_STEPS = 200
_CONVERGED = 1e-13


class LogisticFit(NamedTuple):
    """Coefficients of the terms and their covariance; not ``converged`` where the likelihood has no maximum."""

    coefficients: Array
    covariance: Array
    converged: bool


def fit_logistic(terms: Array, weight: Array, outcome: Array, offset: Array | float = 0.0) -> LogisticFit:
    """Maximum likelihood of outcome / weight = sigmoid(terms @ b + offset).

    Parameters
    ----------
    terms : array of shape (points, p)
    weight, outcome : arrays of shape (points,)
        Sums of w and of w * o.
    offset : array of shape (points,), or float
        What is added to the linear predictor.

    Notes
    -----
    The terms are orthonormalised first, so that their scales do not matter.
    """
    scale = np.sqrt(weight)[:, None]
    orthonormal, triangle = np.linalg.qr(terms * scale)
    basis = orthonormal / scale
    b = np.zeros(basis.shape[1])
    loss = _loss(basis @ b + offset, weight, outcome)
    hessian = np.eye(len(b))
    converged = False
    for _ in range(_MOST_STEPS):
        q = special.expit(basis @ b + offset)
        gradient = basis.T @ (weight * q - outcome)
        hessian = basis.T @ ((weight * q * special.expit(-(basis @ b + offset)))[:, None] * basis)
        step = np.linalg.lstsq(hessian, gradient, rcond=None)[0]
        decrement = float(gradient @ step)
        # Of separable data steps never become small, or the Hessian vanishes.
        if decrement <= _CONVERGED * max(1.0, abs(loss)) * 1e-6 and np.abs(step).max() <= 1e-7 * (1 + np.abs(b).max()):
            b, converged = b - step, True
            break
        size = 1.0
        while size > 1e-10 and _loss(basis @ (b - size * step) + offset, weight, outcome) > loss:
            size /= 2
        b = b - size * step
        loss = _loss(basis @ b + offset, weight, outcome)
    inverse = np.linalg.pinv(triangle)
    return LogisticFit(inverse @ b, inverse @ np.linalg.pinv(hessian) @ inverse.T, converged)


def _loss(predictor: Array, weight: Array, outcome: Array) -> float:
    """-log likelihood."""
    return float((weight * np.logaddexp(0.0, predictor) - outcome * predictor).sum())
