"""Fitting softmax(W z + b): each evaluation is one pass, in which the searches of all slices go on together."""

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from calibdask.calibrators.fitted import Marks
from calibdask.calibrators.softmax.searches import NewtonPoint, Search, newton_search, quasi_newton_search
from calibdask.statistics import exact
from calibdask.statistics.exact import Array
from calibdask.statistics.frozen import FrozenArray
from calibdask.statistics.layout import Layout
from calibdask.statistics.request import Requests
from calibdask.statistics.softmax import NO_TEMPERING, SoftmaxState, SoftmaxSums, depth_scale, values_of_terms

# With more classes the Hessian of all parameters is not summed.
MOST_PAIRS = 32
# Eigenvalues of the Hessian, its diagonal scaled to 1, below this count as 0.
_SINGULAR = 1e-9
# Conjugate gradients end when the squared residual is this share of the first one.
_MOST_GRADIENTS, _GRADIENT_RATIO = 300, 1e-12
# Below this sum over rows of the logarithmic score classes are separated.
_SEPARATED = 1e-3


class SoftmaxFit(NamedTuple):
    """By slice: coefficients, intercepts, their variances (NaN where they are not known), and how it ended.

    ``passes`` is the number of evaluations; ``separated`` whether the logarithmic score is as good as 0.
    """

    coefficients: Array
    intercepts: Array
    coefficient_variances: Array
    intercept_variances: Array
    converged: Array
    separated: Array
    passes: int


@dataclass(frozen=True, eq=False)
class SoftmaxProblem:
    """The parameters of all slices, W's and then b's, and the penalty: their squares, each with a weight.

    Parameters
    ----------
    layout : Layout
    start : ndarray of shape (slices, K + K) or (slices, K * K + K)
        Where W has only a diagonal, or all its entries; NaN in slices that are left out.
    offset : ndarray of shape (K,) or (K * K,)
        What is added to the parameters to get the coefficients.
    penalty : ndarray of the shape of ``start``
        Of the mean over rows.
    held : ndarray of bool, of the shape of ``start``
        Parameters that stay where they start.
    tempering : FrozenArray
        See `SoftmaxSums`.
    tolerance : float
        How far from the minimum parameters may be, in standard errors.
    max_passes : int
    """

    layout: Layout
    start: Array
    offset: Array
    penalty: Array
    held: Marks
    tempering: FrozenArray = NO_TEMPERING
    tolerance: float = 1e-4
    max_passes: int = 200

    @property
    def _is_matrix(self) -> bool:
        return self.start.shape[1] > 2 * self.layout.classes

    @property
    def _pairs(self) -> bool:
        return not self._is_matrix and self.layout.classes <= MOST_PAIRS

    def solved(self) -> Requests[SoftmaxFit]:
        """The fit, one pass for each evaluation."""
        points, variances = np.nan_to_num(self.start), np.full(self.start.shape, np.nan)
        converged, separated = np.zeros(len(points)), np.zeros(len(points))
        searches: dict[int, Search] = {}
        for g in np.flatnonzero(~np.isnan(self.start).any(1)).tolist():
            searches[g] = (newton_search if self._pairs else quasi_newton_search)(points[g].copy(), self.tolerance)
            next(searches[g])
        passes = 0
        while searches and passes < self.max_passes:
            state = yield from self._sums(points)
            passes += 1
            for g, search in tuple(searches.items()):
                evaluation = self._evaluation(state, g, points[g])
                separated[g] = float(exact.value(state.loss)[0, g]) < _SEPARATED
                if self._pairs:
                    variances[g] = np.diag(evaluation.solve(np.eye(points.shape[1])))
                try:
                    points[g] = search.send(evaluation)
                except StopIteration as stop:
                    points[g], converged[g] = stop.value
                    del searches[g]
        points[np.isnan(self.start).any(1)] = np.nan
        classes = self.layout.classes
        return SoftmaxFit(
            points[:, :-classes] + self.offset,
            points[:, -classes:],
            variances[:, :-classes],
            variances[:, -classes:],
            converged,
            separated,
            passes,
        )

    def _sums(self, points: Array) -> Requests[SoftmaxState]:
        classes = self.layout.classes
        coefficients = points[:, :-classes] + self.offset
        if self._is_matrix:
            coefficients = coefficients.reshape(-1, classes, classes)
        intercepts = FrozenArray(points[:, -classes:])
        return (yield from SoftmaxSums(FrozenArray(coefficients), intercepts, self._pairs, self.tempering))

    def _evaluation(self, state: SoftmaxState, g: int, point: Array) -> NewtonPoint:
        """Sums over the rows of a slice; with weights, over as many rows as these are worth."""
        weight, square = exact.value(state.weight)[0, g], exact.value(state.square)[0, g]
        rows = weight**2 / square
        scale, classes = rows / weight, self.layout.classes
        penalty = rows * self.penalty[g]
        terms = values_of_terms(state.terms[0, g]) * scale
        depth = -depth_scale(self.layout)
        residual, rest = terms[:classes], terms[classes:]
        slopes, rest = rest[: point.size - classes] * depth, rest[point.size - classes :]
        gradient = np.append(slopes, residual) + 2 * penalty * point
        level = self._level(g)
        gradient[self.held[g]] = 0.0
        gradient -= level * (level @ gradient)
        value = float(exact.value(state.loss)[0, g] * scale + penalty @ point**2)
        if self._is_matrix:
            factors = _factors(rest, depth, rows)
            return NewtonPoint(value, gradient, partial(_solved_by_factors, *factors, 2 * penalty))
        blocks = rest[: 3 * classes].reshape(3, classes) * np.array([[1.0], [depth], [depth**2]])
        if not self._pairs:
            return NewtonPoint(value, gradient, partial(_solved_by_class, blocks, 2 * penalty, self.held[g], level))
        hessian = _hessian(blocks, rest[3 * classes :], depth) + np.diag(2 * penalty)
        return NewtonPoint(value, gradient, partial(np.matmul, _inverse(hessian, self.held[g], level)))

    def _level(self, g: int) -> Array:
        """The direction of unit length that is kept: without a penalty, the mean of the intercepts that are not held.

        To add a number to all intercepts changes nothing; to those of the classes with rows, as it grows, it only takes
        the probability of the others away.
        """
        level = np.zeros(self.start.shape[1])
        if not self.penalty[g].any():
            level[-self.layout.classes :] = ~self.held[g, -self.layout.classes :]
            level /= np.sqrt(level.sum())
        return level


def _hessian(blocks: Array, pairs: Array, depth: float) -> Array:
    """Second derivatives in (w, b) from the sums by class and by pairs of classes."""
    classes = blocks.shape[1]
    hessian = np.zeros((2, classes, 2, classes))
    here = np.arange(classes)
    hessian[1, here, 1, here] = blocks[0]
    hessian[0, here, 1, here] = hessian[1, here, 0, here] = blocks[1]
    hessian[0, here, 0, here] = blocks[2]
    i, j = np.triu_indices(classes, 1)
    of_intercepts, first, second, of_both = pairs.reshape(-1, 4).T * -np.array([[1.0], [depth], [depth], [depth**2]])
    for left, right, values in ((1, 1, of_intercepts), (0, 1, first), (1, 0, second), (0, 0, of_both)):
        hessian[left, i, right, j] = hessian[right, j, left, i] = values
    return hessian.reshape(2 * classes, 2 * classes)


def _inverse(hessian: Array, held: Marks, level: Array) -> Array:
    """The pseudo-inverse, zero for parameters that are held and along a direction that is kept."""
    hessian = _projected(_projected(hessian, level).T, level)
    scale = np.sqrt(np.diag(hessian))
    known = (scale > 0) & ~held
    scale = np.where(known, 1 / np.where(scale > 0, scale, 1.0), 0.0)
    values, vectors = np.linalg.eigh(hessian * scale[:, None] * scale)
    large = values > _SINGULAR
    return scale[:, None] * (vectors[:, large] / values[large] @ vectors[:, large].T) * scale


def _projected(values: Array, level: Array) -> Array:
    """Without the part along a direction, of the last axis."""
    return np.asarray(values - np.multiply.outer(values @ level, level))


def _solved_by_class(blocks: Array, diagonal: Array, held: Marks, level: Array, gradient: Array) -> Array:
    """The solution for the Hessian without the products of different classes: one of two parameters for each."""
    classes = blocks.shape[1]
    of_w, of_b = np.split(_projected(gradient, level), 2)
    # A little more on the diagonal where all log scores of a class are alike.
    ww, bb = blocks[2] * (1 + 1e-9) + diagonal[:classes], blocks[0] * (1 + 1e-9) + diagonal[classes:]
    wb = blocks[1]
    determinant = ww * bb - wb * wb
    over = np.divide(1.0, determinant, out=np.zeros_like(determinant), where=determinant > 0)
    solution = np.append((bb * of_w - wb * of_b) * over, (ww * of_b - wb * of_w) * over)
    return _projected(np.where(held, 0.0, solution), level)


def _factors(rest: Array, depth: float, rows: float) -> tuple[Array, Array]:
    """Sum of diag(q) - q q', and mean of z z' with an entry 1 for the intercept."""
    of_scores, of_depths = np.split(rest, 2)
    mean, products = _symmetric(of_scores)
    means, squares = _symmetric(of_depths / rows)
    second = np.ones((len(means) + 1, len(means) + 1))
    second[:-1, :-1], second[-1, :-1], second[:-1, -1] = squares * depth**2, means * depth, means * depth
    return np.diag(mean) - products, second


def _symmetric(terms: Array) -> tuple[Array, Array]:
    """Numbers by class, and a symmetric matrix from its upper triangle."""
    classes = round((np.sqrt(9 + 8 * terms.size) - 3) / 2)
    matrix = np.zeros((classes, classes))
    above = np.triu_indices(classes)
    matrix[above] = matrix.T[above] = terms[classes:]
    return terms[:classes], matrix


def _solved_by_factors(of_scores: Array, of_depths: Array, penalty: Array, gradient: Array) -> Array:
    """The solution for the Hessian as the product of both factors plus that of the penalty, by conjugate gradients."""
    classes = len(of_scores)

    def arranged(values: Array) -> Array:
        return np.concatenate([values[:-classes].reshape(classes, classes), values[-classes:, None]], 1)

    added, residual = arranged(penalty), arranged(gradient)
    diagonal = np.multiply.outer(np.diag(of_scores), np.diag(of_depths)) + added
    solution, scaled = np.zeros(residual.shape), residual / diagonal
    direction, size = scaled, float((residual * scaled).sum())
    enough = size * _GRADIENT_RATIO
    for _ in range(_MOST_GRADIENTS):
        if size <= enough:
            break
        image = of_scores @ direction @ of_depths + added * direction
        length = size / float((direction * image).sum())
        solution, residual = solution + length * direction, residual - length * image
        scaled = residual / diagonal
        before, size = size, float((residual * scaled).sum())
        direction = scaled + (size / before) * direction
    return np.append(solution[:, :-1].ravel(), solution[:, -1])
