"""Logistic regression on a few terms of one score, by Newton's method on the rows and outcomes at each score."""

from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
import scipy

from calibdask.estimators.regression.column_points import ColumnPoints, Undetermined
from calibdask.statistics.exact import Array

# Where a maximum exists steps are few; where it is far (outcomes that hardly overlap), distances to it shrink by a
# constant factor a step at first.
_MOST_STEPS = 200
# The step that changes logits by less, in the root mean square, is the last; it leaves an error of about its square.
_LAST_STEP = 1e-9
# Terms of which less than this share is not a combination of the others cannot be told from these.
_COLLINEAR = 1e-11
# Steps are halved down to this share, until the loss falls, up to rounding.
_SHORTEST, _ROUNDING = 1e-12, 1e-14


class LogisticFit(NamedTuple):
    """Coefficients of the terms, their covariance, and the mean of -log likelihood and penalty.

    Not ``converged`` where the likelihood has no maximum.
    """

    coefficients: Array
    covariance: Array
    loss: float
    converged: bool


def fit_logistic(terms: Array, weight: Array, outcome: Array, offset: Array | float = 0.0) -> LogisticFit:
    """Maximum likelihood of outcome / weight = sigmoid(offset + b @ terms)."""
    return LogisticProblem.of(terms, weight, outcome, offset).fit()


def standard_errors(fit: LogisticFit, points: ColumnPoints) -> Array:
    """Of the coefficients; with weights of the effective number of rows."""
    return np.asarray(np.sqrt(np.diag(fit.covariance) / points.information))


def mean_loss(predictor: Array, points: ColumnPoints) -> float:
    """The mean of -log likelihood of sigmoid(predictor)."""
    total = points.weight.sum()
    hits, misses = points.outcome / total, (points.weight - points.outcome) / total
    return float((misses * np.logaddexp(0.0, predictor) + hits * np.logaddexp(0.0, -predictor)).sum())


@dataclass(frozen=True)
class LogisticProblem:
    """The mean of -log likelihood of outcome / weight = sigmoid(offset + b @ terms), to be minimised.

    With or without a penalty. ``basis`` (p, points) are combinations of the terms, ``change`` (p, p) their
    coefficients; ``hits`` and ``misses`` (points,) are the shares of ``total``, the sum of the weights, with either
    outcome.

    Notes
    -----
    Terms are orthonormalised, so that their scales do not matter, and the mean is minimised, so that the scale of the
    weights does not. All sums over points are NumPy's, so that numbers do not depend on threads.
    """

    basis: Array
    change: Array
    hits: Array
    misses: Array
    total: float
    offset: Array | float = 0.0

    @classmethod
    def of(cls, terms: Array, weight: Array, outcome: Array, offset: Array | float = 0.0) -> Self:
        """Of terms (p, points), sums of w and of w * o.

        Raises
        ------
        Undetermined
            If a term is a combination of others, up to rounding.
        """
        total = weight.sum()
        shares = outcome / total, (weight - outcome) / total
        return cls(*_orthonormal(terms, weight / total), *shares, float(total), offset)

    def fit(self, penalty: Array | None = None, start: Array | None = None) -> LogisticFit:
        """Newton's method from ``start`` (p,) on the loss plus b @ penalty @ b / 2, penalty positive semi-definite.

        Notes
        -----
        Steps that do not lower the loss are halved. Converged is a step that changes logits by less than 1e-9, in the
        root mean square over rows weighted by q (1 - q): it is still taken, and as convergence is quadratic nothing but
        rounding remains.
        """
        terms = len(self.basis)
        penalised = np.zeros((terms, terms)) if penalty is None else self.change @ penalty @ self.change.T
        b: Array = np.zeros(terms) if start is None else np.asarray(np.linalg.solve(self.change.T, start), np.float64)
        loss, converged, inverse = np.nan, False, np.full((terms, terms), np.nan)
        for _ in range(_MOST_STEPS):
            predictor = self.offset + np.einsum("i,ij->j", b, self.basis)
            loss = self._loss(b, penalised)
            q, rest = scipy.special.expit(predictor), scipy.special.expit(-predictor)
            # As differences of rows and expectations these would round to 0 where predictions are all but certain.
            gradient = (self.basis * (self.misses * q - self.hits * rest)).sum(-1) + penalised @ b
            spread = (self.hits + self.misses) * q * rest
            inverse = _inverse(_gram(self.basis, spread) + penalised)
            step = inverse @ gradient
            decrement = float(gradient @ step)
            if not np.isfinite(decrement):
                break
            if decrement <= _LAST_STEP**2 * spread.sum():
                b, converged = b - step, True
                break
            size = 1.0
            while size > _SHORTEST and self._loss(b - size * step, penalised) > loss * (1 + _ROUNDING):
                size /= 2
            b = b - size * step
        covariance = self.change.T @ inverse @ self.change / self.total
        return LogisticFit(self.change.T @ b, covariance, loss, converged)

    def _loss(self, b: Array, penalised: Array) -> float:
        predictor = self.offset + np.einsum("i,ij->j", b, self.basis)
        of_rows = self.misses * np.logaddexp(0.0, predictor) + self.hits * np.logaddexp(0.0, -predictor)
        return float(of_rows.sum() + b @ penalised @ b / 2)


def _orthonormal(terms: Array, mass: Array) -> tuple[Array, Array]:
    """Combinations of the terms that are orthonormal under the mass (Gram and Schmidt, twice), and their matrix."""
    basis, change = np.empty_like(terms), np.eye(len(terms))
    for row, term in enumerate(terms):
        scale = np.abs(term).max()
        rest = term / scale if scale > 0 else term
        change[row] /= scale if scale > 0 else 1.0
        size = np.sqrt((mass * rest**2).sum())
        for _ in range(2):
            shares = (basis[:row] * (mass * rest)).sum(-1)
            rest = rest - np.einsum("i,ij->j", shares, basis[:row])
            change[row] -= shares @ change[:row]
        left = np.sqrt((mass * rest**2).sum())
        if not left > _COLLINEAR * size:
            raise Undetermined("scores that differ by more than rounding")
        basis[row] = rest / left
        change[row] /= left
    return basis, change


def _gram(basis: Array, mass: Array) -> Array:
    gram = np.empty((len(basis), len(basis)))
    for row, term in enumerate(basis):
        gram[row, : row + 1] = gram[: row + 1, row] = (basis[: row + 1] * (term * mass)).sum(-1)
    return gram


def _inverse(hessian: Array) -> Array:
    """The inverse of a positive definite matrix whose diagonal may span many orders; NaN where it is not definite."""
    with np.errstate(all="ignore"):
        scale = 1 / np.sqrt(np.diag(hessian))
        scaled = hessian * scale * scale[:, None]
    if not np.isfinite(scaled).all():
        return np.full_like(hessian, np.nan)
    values, vectors = np.linalg.eigh(scaled)
    if values[0] <= 0:
        return np.full_like(hessian, np.nan)
    return np.asarray((vectors / values) @ vectors.T * scale * scale[:, None])
