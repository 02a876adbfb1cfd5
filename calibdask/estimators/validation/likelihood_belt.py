"""The lowest and the highest curve of a logistic regression within a likelihood region, score by score."""

import numpy as np
import scipy

from calibdask.estimators.regression.logistic import LogisticProblem
from calibdask.statistics.exact import Array, Counts

# More points are put together with those next to them.
_MOST_POINTS = 512
_MOST_STEPS = 60
# No step changes a predictor by more, so that none leaves the reach of the quadratic model by far.
_LONGEST = 2.0
# Steps end where the likelihood is met up to this share of its drop, and the best direction up to this share.
_CLOSE = 1e-10
# The frequency is 0 or 1 beyond.
_CERTAIN = 40.0


def belt(problem: LogisticProblem, coefficients: Array, targets: Array, drops: Array) -> tuple[Array, Array]:
    """Least and largest predictors at the targets, each (drops, targets), of fits that the likelihood does not exclude.

    Those of a mean loss of at most ``drops`` above the least. ``targets`` (targets, p) are the terms at scores. They
    are infinite where the region is not bounded: the likelihood then has hardly a maximum.

    Notes
    -----
    The largest c . b with loss(b) = least + drop is where c = m grad loss(b): Newton's method on b and m, from the
    ellipsoid that the second derivative of the loss would give.
    """
    small = _condensed(problem)
    best: Array = np.asarray(np.linalg.solve(problem.change.T, coefficients), np.float64)
    directions = np.concatenate([-targets, targets]) @ problem.change.T
    least = small.losses(best[None])[0]
    hessian = small.derivatives(best[None])[1][0]
    try:
        inverse = np.linalg.inv(hessian)
    except np.linalg.LinAlgError:
        inverse = np.full_like(hessian, np.nan)
    squares = np.einsum("mi,ij,mj->m", directions, inverse, directions)
    if not (squares > 0).all():
        # Singular, but for rounding perhaps.
        unbounded = np.full((len(drops), len(targets)), np.inf)
        return -unbounded, unbounded
    spread = np.sqrt(squares)
    ends = []
    for drop in drops:
        reach = np.sqrt(2 * drop)
        start = best + reach * np.einsum("ij,mj->mi", inverse, directions) / spread[:, None]
        found = small.farthest(directions, start, spread / reach, least + drop, drop)
        ends.append(np.where(np.abs(found) < _CERTAIN, found, np.inf))
    low, high = np.split(np.stack(ends), 2, -1)
    return -low, high


class _Points:
    """The loss at many coefficients (m, p) at once."""

    def __init__(self, basis: Array, hits: Array, misses: Array) -> None:
        self._basis, self._hits, self._misses = basis, hits, misses

    def predictors(self, b: Array) -> Array:
        return np.einsum("mi,ij->mj", b, self._basis)

    def losses(self, b: Array) -> Array:
        predictor = self.predictors(b)
        return (self._misses * np.logaddexp(0.0, predictor) + self._hits * np.logaddexp(0.0, -predictor)).sum(-1)

    def derivatives(self, b: Array) -> tuple[Array, Array]:
        """Gradients (m, p) and Hessians (m, p, p)."""
        predictor = self.predictors(b)
        q, rest = scipy.special.expit(predictor), scipy.special.expit(-predictor)
        gradient = np.einsum("mj,ij->mi", self._misses * q - self._hits * rest, self._basis)
        mass = (self._hits + self._misses) * q * rest
        p = len(self._basis)
        hessian = np.empty((len(b), p, p))
        for row in range(p):
            hessian[:, row] = np.einsum("mj,ij->mi", mass * self._basis[row], self._basis)
        return gradient, hessian

    def farthest(self, directions: Array, b: Array, multiplier: Array, loss: float, drop: float) -> Array:
        """The largest predictors, infinite where steps do not converge."""
        found = np.full(len(b), np.inf)
        active = np.arange(len(b))
        p = b.shape[1]
        for _ in range(_MOST_STEPS):
            c, at, m = directions[active], b[active], multiplier[active]
            gradient, hessian = self.derivatives(at)
            off, excess = c - m[:, None] * gradient, self.losses(at) - loss
            size = np.abs(off).max(-1) / np.abs(c).max(-1)
            done = (np.abs(excess) <= _CLOSE * drop) & (size <= np.sqrt(_CLOSE))
            found[active[done]] = np.einsum("mi,mi->m", c[done], at[done])
            active = active[~done]
            if not active.size:
                break
            system = np.zeros((active.size, p + 1, p + 1))
            system[:, :p, :p] = m[~done, None, None] * hessian[~done]
            system[:, :p, p] = gradient[~done]
            system[:, p, :p] = -gradient[~done]
            sides = np.concatenate([off[~done], excess[~done, None]], -1)
            solvable = np.isfinite(system).all((-1, -2)) & (np.abs(np.linalg.det(system)) > 0)
            active, system, sides = active[solvable], system[solvable], sides[solvable]
            if not active.size:
                break
            step = np.linalg.solve(system, sides[..., None])[..., 0]
            moved = np.abs(self.predictors(step[:, :p])).max(-1)
            share = np.minimum(1.0, _LONGEST / np.maximum(moved, 1e-300))
            b[active] += share[:, None] * step[:, :p]
            # The multiplier stays positive.
            multiplier[active] = np.maximum(multiplier[active] + share * step[:, p], multiplier[active] / 10)
        return found


def _condensed(problem: LogisticProblem) -> _Points:
    """The points, or groups of points next to one another at the mean of their terms if there are many."""
    basis, hits, misses = problem.basis, problem.hits, problem.misses
    if hits.size <= _MOST_POINTS:
        return _Points(basis, hits, misses)
    # The second term is linear in the logit.
    order = np.argsort(basis[1], kind="stable")
    mass, line = (hits + misses)[order], basis[1][order]
    by_mass = _cells(np.cumsum(mass) / mass.sum())
    by_width = _cells((line - line[0]) / np.ptp(line))
    first = np.flatnonzero(np.r_[True, (np.diff(by_mass) != 0) | (np.diff(by_width) != 0)])
    total = np.add.reduceat(mass, first)
    means = np.add.reduceat(basis[:, order] * mass, first, axis=-1) / total
    return _Points(means, np.add.reduceat(hits[order], first), np.add.reduceat(misses[order], first))


def _cells(share: Array) -> Counts:
    return np.minimum((share * (_MOST_POINTS // 2)).astype(np.int64), _MOST_POINTS // 2 - 1)
