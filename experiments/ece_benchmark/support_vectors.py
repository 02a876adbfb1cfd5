"""Probabilities of a support vector machine on many rows at once: those of libsvm, several times faster.

libsvm couples the probabilities of pairs of classes by an iteration that it stops early, so its result depends on the
start, the order of the updates and the rule for stopping; all three are kept.
"""

from dataclasses import dataclass
from typing import Any

import numba
import numpy as np
import numpy.typing as npt

from calibdask.kernels.compiled import compiled
from calibdask.kernels.exponential import exp_64

Doubles = npt.NDArray[np.float64]

# Rows whose kernel values stay in the cache.
_ROWS = 512
# Rows whose matrices of the coupling do; they go on until the last of them has settled.
_COUPLED = 128
# Constants of libsvm: probabilities of pairs are clipped; the coupling ends where no gradient exceeds _TOLERANCE / K.
_LEAST, _MOST = 1e-7, 1 - 1e-7
_TOLERANCE, _ITERATIONS = 0.005, 100


@dataclass(frozen=True)
class SupportVectorScorer:
    """Numbers of a fitted SVC with the Gaussian kernel. Build it with `SupportVectorScorer.of`.

    Parameters
    ----------
    classes : int
    exponents : float64 array (vectors, d + 2)
        Times (x, 1, |x|^2) the exponents -gamma |x - s|^2 of the kernel.
    coefficients : tuple of float64 arrays (K - 1, vectors of a class)
        Of the vectors of each class against every other class.
    slopes, offsets : float64 arrays (pairs, 1)
        Times and plus the decisions, less their intercepts, the logits of Platt's sigmoid.
    """

    classes: int
    exponents: Doubles
    coefficients: tuple[Doubles, ...]
    slopes: Doubles
    offsets: Doubles

    @classmethod
    def of(cls, model: Any) -> "SupportVectorScorer":
        """The numbers of a fitted SVC(probability=True).

        They are private names of scikit-learn's: the public ones have other signs for two classes, or are deprecated.
        """
        vectors, gamma = model.support_vectors_, model._gamma
        exponents = np.column_stack([2 * gamma * vectors, -gamma * (vectors**2).sum(1), np.full(len(vectors), -gamma)])
        by_class = np.split(model._dual_coef_, np.cumsum(model._n_support)[:-1], axis=1)
        coefficients = tuple(np.ascontiguousarray(block) for block in by_class)
        slopes = model._probA[:, None]
        offsets = model._intercept_[:, None] * slopes + model._probB[:, None]
        return cls(len(by_class), exponents, coefficients, slopes, offsets)

    def __call__(self, features: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Scores (rows, classes) of features (rows, d)."""
        scores = np.empty((len(features), self.classes), np.float32)
        for start in range(0, len(features), _ROWS):
            here = slice(start, start + _ROWS)
            _couple(self._pairwise(features[here]), scores[here])
        return scores

    def _pairwise(self, features: npt.NDArray[np.float32]) -> Doubles:
        """Probabilities (pairs, rows) of the first class of each pair, clipped."""
        logits = self._decisions(features) * self.slopes + self.offsets
        small = -np.abs(logits)
        _exponentiate(small)
        return np.clip(np.where(logits >= 0, small, 1) / (1 + small), _LEAST, _MOST)

    def _decisions(self, features: npt.NDArray[np.float32]) -> Doubles:
        """Decisions (pairs, rows) between classes, without intercepts."""
        x = features.T.astype(np.float64)
        kernel = self.exponents @ np.vstack([x, np.ones((1, x.shape[1])), (x**2).sum(0)])
        _exponentiate(kernel)
        by_class = np.split(kernel, np.cumsum([block.shape[1] for block in self.coefficients])[:-1])
        parts = [block @ values for block, values in zip(self.coefficients, by_class, strict=True)]
        pairs = [(i, j) for i in range(self.classes) for j in range(i + 1, self.classes)]
        # Among the others of class i, a later class j comes at j - 1.
        return np.stack([parts[i][j - 1] + parts[j][i] for i, j in pairs])


# It inlines a function of calibdask, so it is kept where a change of that function is noticed.
@compiled
def _exponentiate(exponents: Any) -> None:
    """Replace each number, none of which is positive but for rounding, by its exponential."""
    for row in range(exponents.shape[0]):
        line = exponents[row]
        for i in range(line.size):
            line[i] = exp_64(line[i])


# Division is IEEE's: the check that Python's needs keeps loops from becoming vector instructions.
_compiled: Any = numba.njit(nogil=True, cache=True, error_model="numpy")


@_compiled
def _products(pairwise: Any, start: int, q: Any) -> None:
    """The matrix Q (K, K, rows) of the coupling of some rows: sum_j r_ji^2, and -r_ji r_ij beside the diagonal."""
    classes, rows = q.shape[0], q.shape[2]
    q[:] = 0.0
    pair = 0
    for i in range(classes):
        for j in range(i + 1, classes):
            r = pairwise[pair, start : start + rows]
            both, own, other = q[i, j], q[i, i], q[j, j]
            for k in range(rows):
                both[k] = -r[k] * (1.0 - r[k])
                own[k] += (1.0 - r[k]) ** 2
                other[k] += r[k] ** 2
            q[j, i] = both
            pair += 1


@_compiled
def _is_settled(q: Any, p: Any, qp: Any, pqp: Any, moving: Any) -> bool:
    """Q p and p' Q p of each row, which rows (1 or 0) still move, and whether none does."""
    classes, rows = p.shape
    pqp[:] = 0.0
    for i in range(classes):
        line, mine = qp[i], p[i]
        line[:] = 0.0
        for j in range(classes):
            factor, other = q[i, j], p[j]
            for k in range(rows):
                line[k] += factor[k] * other[k]
        for k in range(rows):
            pqp[k] += mine[k] * line[k]
    moving[:] = 0.0
    for i in range(classes):
        line = qp[i]
        for k in range(rows):
            moving[k] = max(moving[k], abs(line[k] - pqp[k]))
    count = 0
    for k in range(rows):
        moving[k] = 0.0 if moving[k] < _TOLERANCE / classes else 1.0
        count += moving[k] > 0.0
    return count == 0


@_compiled
def _sweep(q: Any, p: Any, qp: Any, pqp: Any, moving: Any, scale: Any, change: Any) -> None:
    """Update the probability of one class after the other in rows that move.

    libsvm divides p, Q p and p' Q p by their new sum after each update; here they are multiples of what they stand for,
    by the same ``scale`` (its square for p' Q p), and p is divided at the end.
    """
    classes, rows = p.shape
    scale[:] = 1.0
    for i in range(classes):
        diagonal, line, mine = q[i, i], qp[i], p[i]
        for k in range(rows):
            change[k] = moving[k] * (pqp[k] / scale[k] - line[k]) / diagonal[k]
            pqp[k] += change[k] * (change[k] * diagonal[k] + 2.0 * line[k])
            mine[k] += change[k]
            scale[k] += change[k]
        for j in range(classes):
            factor, other = q[i, j], qp[j]
            for k in range(rows):
                other[k] += change[k] * factor[k]
    for i in range(classes):
        mine = p[i]
        for k in range(rows):
            mine[k] /= scale[k]


@_compiled
def _couple(pairwise: Any, scores: Any) -> None:
    """Probabilities of classes from those of pairs: the second method of Wu, Lin and Weng, as libsvm iterates it."""
    total, classes = scores.shape
    for start in range(0, total, _COUPLED):
        rows = min(_COUPLED, total - start)
        q = np.empty((classes, classes, rows))
        p, qp = np.full((classes, rows), 1.0 / classes), np.empty((classes, rows))
        pqp, moving, scale, change = np.empty((4, rows))
        _products(pairwise, start, q)
        for _ in range(max(_ITERATIONS, classes)):
            if _is_settled(q, p, qp, pqp, moving):
                break
            _sweep(q, p, qp, pqp, moving, scale, change)
        for i in range(rows):
            for j in range(classes):
                scores[start + i, j] = p[j, i]
