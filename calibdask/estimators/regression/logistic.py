"""Logistic regression on a few terms of one score, by Newton's method on the rows and outcomes at each score."""

from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import numpy as np

from calibdask.estimators.regression.column_points import ColumnPoints, Undetermined
from calibdask.estimators.sampling_variance import sandwich
from calibdask.statistics.exact import Array, Counts

# Where a maximum exists steps are few; where it is far (outcomes that hardly overlap), distances to it shrink by a
# constant factor a step at first.
_MOST_STEPS = 200
# The step that changes logits by less, in the root mean square, is the last; it leaves an error of about its square.
_LAST_STEP = 1e-9
# A step that promises to lower the loss by a smaller share of it is taken as it is: rounding of the loss hides whether
# it does. Where such steps no longer shrink, nothing but rounding is left.
_HIDDEN = 1e-12
# Terms of which less than this share is not a combination of the others cannot be told from these.
_COLLINEAR = 1e-11
# Steps are halved down to this share, until the loss falls, up to rounding.
_SHORTEST, _ROUNDING = 1e-12, 1e-14


# Of so few points all products are summed at once; of more, a term's at a time, in half of the time.
_FEW = 1024
# With more points the search starts from the fit to so many parts of them, which costs next to nothing.
_PARTS = 400


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


def covariance_of(fit: LogisticFit, terms: Array, points: ColumnPoints, offset: Array | float = 0.0) -> Array:
    """Sampling covariance of the coefficients of a fit to points.

    Without weights it is the inverse H of the Hessian. With weights the sandwich form H M2 H, with M2 = sum w**2 x x'
    r**2 over rows with r the residual without the row, relative to that of rows of weight 1, H M1 H with M1 = sum w x
    x' r**2 and plain residuals: C B C' with H = C C' and the matrices A1 = C' M1 C = L L' and B = L^-1 (C' M2 C) L'^-1.
    Equal weights give the inverse of the Hessian of unweighted rows. NaN where residuals do not determine it.
    """
    if points.has_equal_weights:
        return fit.covariance / points.information
    meats = _meats(terms, points, offset + np.einsum("i,ij->j", fit.coefficients, terms), fit.covariance)
    try:
        root = np.linalg.cholesky(fit.covariance)
        of_rows, of_weights = (root.T @ meat @ root for meat in meats)
        lower = np.linalg.inv(np.linalg.cholesky(of_rows))
    except np.linalg.LinAlgError:
        return np.full_like(fit.covariance, np.nan)
    return sandwich(root @ lower, of_weights)


def weight_inflation(terms: Array, points: ColumnPoints, predictor: Array) -> float:
    """Largest eigenvalue of M1^-1 M2, see `covariance_of`, at the predictor: 1 without weights; NaN if undetermined.

    Coefficients of no combination of the terms have a variance that weights make larger by more.
    """
    if points.has_equal_weights:
        return 1 / points.information
    of_rows, of_weights = _meats(terms, points, predictor, None)
    try:
        lower = np.linalg.inv(np.linalg.cholesky(of_rows))
    except np.linalg.LinAlgError:
        return np.nan
    return float(np.linalg.eigvalsh(lower @ of_weights @ lower.T)[-1])


def _meats(terms: Array, points: ColumnPoints, predictor: Array, inverse: Array | None) -> list[Array]:
    """Sums of w x x' r**2 and of w**2 x x' r**2 over the rows, with r the residual of the predictor.

    With the inverse of the Hessian, the residuals of the latter are those without the row itself, r / (1 - h) with h =
    w q (1 - q) x' H x its leverage, at most 1/2 here.
    """
    decay = np.exp(-np.abs(predictor))
    larger, smaller = 1 / (1 + decay), decay / (1 + decay)
    hit, miss = np.where(predictor > 0, smaller, larger) ** 2, np.where(predictor > 0, larger, smaller) ** 2
    of_rows, of_weights = (
        with_it * hit + np.maximum(all_rows - with_it, 0.0) * miss
        for all_rows, with_it in ((points.weight, points.outcome), (points.square, points.square_outcome))
    )
    if inverse is not None:
        unit = np.divide(points.square, points.weight, out=np.zeros_like(of_rows), where=points.weight > 0)
        leverage = unit * larger * smaller * np.einsum("ij,ik,kj->j", terms, inverse, terms)
        of_weights = of_weights / (1 - np.minimum(leverage, 0.5)) ** 2
    return [_gram(terms, of_rows), _gram(terms, of_weights)]


def standard_errors(fit: LogisticFit, terms: Array, points: ColumnPoints, offset: Array | float = 0.0) -> Array:
    """Standard errors of the coefficients."""
    return np.asarray(np.sqrt(np.diag(covariance_of(fit, terms, points, offset))))


def robust_errors(fit: LogisticFit, terms: Array, points: ColumnPoints, offset: Array | float = 0.0) -> Array:
    """Standard errors of the sandwich form alone, H M2 H of `covariance_of`, which hold where the model is wrong."""
    _, meat = _meats(terms, points, offset + np.einsum("i,ij->j", fit.coefficients, terms), fit.covariance)
    return np.asarray(np.sqrt(np.diag(sandwich(fit.covariance, meat))))


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

    def fit(
        self, penalty: Array | None = None, start: Array | None = None, last_step: float = _LAST_STEP
    ) -> LogisticFit:
        """Newton's method from ``start`` (p,) on the loss plus b @ penalty @ b / 2, penalty positive semi-definite.

        Notes
        -----
        Steps that do not lower the loss are halved. Converged is a step that changes logits by less than ``last_step``,
        in the root mean square over rows weighted by q (1 - q): it is still taken, and as convergence is quadratic an
        error of about its square remains, by default nothing but rounding. The covariance is that before it.
        """
        terms = len(self.basis)
        penalised = np.zeros((terms, terms)) if penalty is None else self.change @ penalty @ self.change.T
        inverse, converged = np.full((terms, terms), np.nan), False
        at, previous = self._at(self._start(penalty, start), penalised), np.inf
        loss = at.loss
        for _ in range(_MOST_STEPS):
            loss = at.loss
            q, rest = at.probabilities()
            # As differences of rows and expectations these would round to 0 where predictions are all but certain.
            gradient = (self.basis * (self.misses * q - self.hits * rest)).sum(-1) + penalised @ at.b
            spread = (self.hits + self.misses) * q * rest
            inverse = _inverse(_gram(self.basis, spread) + penalised)
            step = inverse @ gradient
            decrement = float(gradient @ step)
            if not np.isfinite(decrement):
                break
            hidden = decrement <= _HIDDEN * loss
            if decrement <= last_step**2 * spread.sum() or (hidden and decrement > previous / 2):
                at, converged = at._replace(b=at.b - step), True
                break
            size, before, previous = 1.0, at, decrement
            at = self._at(before.b - step, penalised)
            while not hidden and size > _SHORTEST and at.loss > loss * (1 + _ROUNDING):
                size /= 2
                at = self._at(before.b - size * step, penalised)
        covariance = self.change.T @ inverse @ self.change / self.total
        return LogisticFit(self.change.T @ at.b, covariance, loss, converged)

    def _start(self, penalty: Array | None, start: Array | None) -> Array:
        """Where the search starts, in coefficients of the basis: near the end, of many points."""
        if start is None and len(self.hits) > 2 * _PARTS:
            coarse = self._in_parts().fit(penalty)
            start = coarse.coefficients if coarse.converged else None
        if start is None:
            return np.zeros(len(self.basis))
        return np.asarray(np.linalg.solve(self.change.T, start), np.float64)

    def _in_parts(self) -> Self:
        """Neighbouring points together, in parts of about equal mass, at the means of their terms."""
        mass = self.hits + self.misses
        starts = starts_of_parts(mass, _PARTS)
        basis = np.add.reduceat(self.basis * mass, starts, axis=-1) / np.add.reduceat(mass, starts)
        hits, misses = (np.add.reduceat(part, starts) for part in (self.hits, self.misses))
        offset = np.add.reduceat(self.offset * mass, starts) / np.add.reduceat(mass, starts)
        return replace(self, basis=basis, hits=hits, misses=misses, offset=offset)

    def _at(self, b: Array, penalised: Array) -> "_Evaluated":
        predictor = self.offset + np.einsum("i,ij->j", b, self.basis)
        decay = np.exp(-np.abs(predictor))
        wrong = self.misses * np.maximum(predictor, 0.0) - self.hits * np.minimum(predictor, 0.0)
        of_rows = (self.hits + self.misses) * np.log1p(decay) + wrong
        return _Evaluated(b, predictor, decay, float(of_rows.sum() + b @ penalised @ b / 2))


class _Evaluated(NamedTuple):
    """Coefficients of the basis with the logits x of the points, exp(-abs(x)) and the loss."""

    b: Array
    predictor: Array
    decay: Array
    loss: float

    def probabilities(self) -> tuple[Array, Array]:
        """Probabilities of outcome 1 and of outcome 0."""
        larger = 1 / (1 + self.decay)
        smaller, rising = self.decay * larger, self.predictor > 0
        return np.where(rising, larger, smaller), np.where(rising, smaller, larger)


def starts_of_parts(mass: Array, parts: int) -> Counts:
    """Numbers of the first points of so many parts of neighbouring points, of about equal mass."""
    cumulated = np.cumsum(mass)
    part = np.floor(parts * (cumulated - mass / 2) / cumulated[-1])
    return np.flatnonzero(np.r_[True, np.diff(part) > 0])


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
    """Products of the terms, summed over points; steps need them to fewer digits than the gradient."""
    if len(mass) <= _FEW:
        return np.einsum("ik,jk->ij", basis * mass, basis)
    gram = np.empty((len(basis), len(basis)))
    for row, term in enumerate(basis):
        gram[row, : row + 1] = gram[: row + 1, row] = np.einsum("j,ij->i", term * mass, basis[: row + 1])
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
