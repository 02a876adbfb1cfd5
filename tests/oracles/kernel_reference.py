"""Slow oracles of kernel calibration errors and their tests: loops over pairs of rows, written from the formulas.

Never imported by the package. Scores are converted to float64 once, a vector p of P(y = 1) to the columns (1 - p, p).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats
from scipy.special import chdtrc, ndtr

from tests.oracles.reference import score_matrix

Array = NDArray[np.float64]
Profile = Literal["exponential", "gaussian"]
Metric = Literal["tv", "euclidean", "squared-euclidean"]


def truth(labels: ArrayLike) -> list[int]:
    return [int(label) for label in np.asarray(labels)]


# Settings and lenses: from (labels, scores) to (labels', scores') of fewer outcomes


def one_class(labels: ArrayLike, scores: ArrayLike, c: int = 1) -> tuple[NDArray[np.int64], Array]:
    """Class c against the rest, as the vectors (1 - p_c, p_c)."""
    p = score_matrix(scores)[:, c]
    return np.array([int(label == c) for label in truth(labels)], dtype=np.int64), np.column_stack([1.0 - p, p])


def largest(labels: ArrayLike, scores: ArrayLike, k: int = 1) -> tuple[NDArray[np.int64], Array]:
    """The k largest scores in decreasing order (ties: lower class first), then "another class" unless k = K."""
    matrix = score_matrix(scores)
    classes = matrix.shape[1]
    new_labels, new_scores = [], []
    for label, row in zip(truth(labels), matrix, strict=True):
        best = sorted(range(classes), key=lambda c: (-float(row[c]), c))[:k]
        values = [float(row[c]) for c in best]
        new_scores.append(values if k == classes else [*values, 1.0 - math.fsum(values)])
        new_labels.append(best.index(label) if label in best else k)
    return np.array(new_labels, dtype=np.int64), np.array(new_scores, dtype=np.float64)


def groups(labels: ArrayLike, scores: ArrayLike, members: Sequence[Sequence[int]]) -> tuple[NDArray[np.int64], Array]:
    """Scores summed in groups of classes; the label is the number of the true class's group."""
    new_scores = [[math.fsum(float(row[c]) for c in group) for group in members] for row in score_matrix(scores)]
    new_labels = [next(g for g, group in enumerate(members) if label in group) for label in truth(labels)]
    return np.array(new_labels, dtype=np.int64), np.array(new_scores, dtype=np.float64)


# Kernels


def distance(p: Array, q: Array, metric: Metric = "tv") -> float:
    """Total variation (L1 / 2), Euclidean or squared Euclidean distance of two score vectors."""
    gaps = [float(a) - float(b) for a, b in zip(p, q, strict=True)]
    if metric == "tv":
        return math.fsum(abs(gap) for gap in gaps) / 2
    square = math.fsum(gap * gap for gap in gaps)
    return square if metric == "squared-euclidean" else math.sqrt(square)


def profile_value(profile: Profile, d: float, bandwidth: float) -> float:
    return math.exp(-d / bandwidth) if profile == "exponential" else math.exp(-(d**2) / (2 * bandwidth**2))


@dataclass(frozen=True)
class Kernel:
    """k(p, q) = profile(distance(p, q)) times the matrix (None: the identity)."""

    profile: Profile = "exponential"
    metric: Metric = "tv"
    bandwidth: float = 1.0
    matrix: Any = None

    def scalar(self, p: Array, q: Array) -> float:
        return profile_value(self.profile, distance(p, q, self.metric), self.bandwidth)

    def form(self, left: Array, p: Array, q: Array, right: Array) -> float:
        """left' k(p, q) right."""
        classes = range(len(left))
        matrix = np.eye(len(left)) if self.matrix is None else np.asarray(self.matrix, dtype=np.float64)
        inner = math.fsum(float(left[a]) * float(matrix[a, b]) * float(right[b]) for a in classes for b in classes)
        return inner * self.scalar(p, q)

    def norm(self) -> float:
        """The supremum of the operator norm of k: the largest eigenvalue of the matrix."""
        return 1.0 if self.matrix is None else float(np.linalg.eigvalsh(np.asarray(self.matrix, dtype=np.float64))[-1])


Kernels = Kernel | Sequence[Kernel]


def summands(kernels: Kernels) -> list[Kernel]:
    return [kernels] if isinstance(kernels, Kernel) else list(kernels)


def median_bandwidth(scores: ArrayLike, metric: Metric = "tv") -> float:
    """Median of the distances of pairs i < j; of an even number, the mean of the two in the middle."""
    p = score_matrix(scores)
    return middle([distance(p[i], p[j], metric) for i in range(len(p)) for j in range(i + 1, len(p))])


def full_median_bandwidth(scores: ArrayLike, metric: Metric = "tv") -> float:
    """Median of the whole n x n matrix of distances, its zero diagonal included."""
    p = score_matrix(scores)
    return middle([distance(a, b, metric) for a in p for b in p])


def middle(values: Sequence[float]) -> float:
    ordered, half = sorted(values), len(values) // 2
    return ordered[half] if len(values) % 2 else (ordered[half - 1] + ordered[half]) / 2


# Squared kernel calibration error


def residuals(labels: ArrayLike, scores: ArrayLike) -> Array:
    """e_y - p of each row."""
    p = score_matrix(scores)
    rows = zip(truth(labels), p, strict=True)
    return np.array([[float(label == c) - row[c] for c in range(len(row))] for label, row in rows])


def pair_terms(labels: ArrayLike, scores: ArrayLike, kernels: Kernels) -> list[list[float]]:
    """h_ij = (e_{y_i} - p_i)' k(p_i, p_j) (e_{y_j} - p_j) of all pairs."""
    p, e = score_matrix(scores), residuals(labels, scores)
    rows = range(len(p))
    return [
        [math.fsum(kernel.form(e[i], p[i], p[j], e[j]) for kernel in summands(kernels)) for j in rows] for i in rows
    ]


def biased(labels: ArrayLike, scores: ArrayLike, kernels: Kernels, weights: ArrayLike | None = None) -> float:
    """Mean of h_ij over all i and j; with weights sum w_i w_j h_ij / (sum w)^2."""
    h = pair_terms(labels, scores, kernels)
    rows = range(len(h))
    w = [1.0] * len(h) if weights is None else [float(weight) for weight in np.asarray(weights)]
    return math.fsum(w[i] * w[j] * h[i][j] for i in rows for j in rows) / math.fsum(w) ** 2


def unbiased(labels: ArrayLike, scores: ArrayLike, kernels: Kernels, weights: ArrayLike | None = None) -> float:
    """Mean of h_ij over i < j; with weights sum_{i != j} w_i w_j h_ij / ((sum w)^2 - sum w^2)."""
    h = pair_terms(labels, scores, kernels)
    rows = range(len(h))
    if weights is None:
        upper = [h[i][j] for i in rows for j in rows if i < j]
        return math.fsum(upper) / len(upper)
    w = [float(weight) for weight in np.asarray(weights)]
    above = math.fsum(w[i] * w[j] * h[i][j] for i in rows for j in rows if i != j)
    return above / math.fsum(w[i] * w[j] for i in rows for j in rows if i != j)


def block_values(labels: ArrayLike, scores: ArrayLike, kernels: Kernels, block: int) -> list[float]:
    """The unbiased estimate of each block of consecutive rows; the incomplete tail is dropped."""
    y, p = np.asarray(labels), score_matrix(scores)
    starts = [b * block for b in range(len(p) // block)]
    return [unbiased(y[start : start + block], p[start : start + block], kernels) for start in starts]


def blockwise(labels: ArrayLike, scores: ArrayLike, kernels: Kernels, block: int = 2) -> float:
    """The mean over blocks; blocks of 2 are the linear estimator."""
    values = block_values(labels, scores, kernels, block)
    return math.fsum(values) / len(values)


def skce(
    labels: ArrayLike, scores: ArrayLike, kernels: Kernels, estimator: str = "unbiased", block: int | None = None
) -> float:
    if estimator in ("biased", "unbiased"):
        return (biased if estimator == "biased" else unbiased)(labels, scores, kernels)
    return blockwise(labels, scores, kernels, 2 if block is None else block)


# Tests of calibration


def kernel_bound(kernels: Kernels) -> float:
    """B = 2 sup |k|, at most the sum of that of the summands."""
    return 2 * math.fsum(kernel.norm() for kernel in summands(kernels))


def biased_bound(n: int, estimate: float, bound: float) -> float:
    """exp(-max(0, sqrt(n t / B) - 1)^2 / 2)."""
    return math.exp(-(max(0.0, math.sqrt(max(0.0, n * estimate / bound)) - 1.0) ** 2) / 2)


def blockwise_bound(n: int, estimate: float, bound: float, block: int = 2) -> float:
    """exp(-floor(n / m) t^2 / (2 B^2)) if t > 0, else 1; blocks of 2 for the unbiased and the linear estimator."""
    return math.exp(-(n // block) * estimate**2 / (2 * bound**2)) if estimate > 0 else 1.0


def equivalence_bound(n: int, estimate: float, bound: float, delta: float, block: int = 2) -> float:
    """p-value of the hypothesis SKCE >= delta: exp(-floor(n / m) (delta - t)^2 / (2 B^2)) if t < delta, else 1."""
    return math.exp(-(n // block) * (delta - estimate) ** 2 / (2 * bound**2)) if estimate < delta else 1.0


def equivalence_limit(n: int, estimate: float, bound: float, level: float, block: int = 2) -> float:
    """The delta whose p-value is 1 - level."""
    return estimate + bound * math.sqrt(2 * math.log(1 / (1 - level)) / (n // block))


def standard_error(values: Sequence[float], ddof: int = 1) -> float:
    """sd / sqrt(B), sd with divisor B - ddof."""
    mean = math.fsum(values) / len(values)
    return math.sqrt(math.fsum((v - mean) ** 2 for v in values) / (len(values) - ddof)) / math.sqrt(len(values))


def z_test(values: Sequence[float], ddof: int = 1) -> tuple[float, float]:
    """z = mean / (sd / sqrt(B)) and 1 - Phi(z)."""
    z = math.fsum(values) / len(values) / standard_error(values, ddof)
    return z, float(ndtr(-z))


def block_equivalence(
    values: Sequence[float], block: int, most: float, delta: float, level: float = 0.95, ddof: int = 1
) -> tuple[float, float]:
    """p-value of a mean of at least delta, and upper limit, of blocks that count as pairs of rows within +-most.

    Of two values, one of them the largest, with the mean and the variance of the pairs; their share is limited by
    quantiles of its beta distribution, at the level that Student's distribution has there.
    """
    blocks, pairs = len(values), block // 2
    mean = math.fsum(values) / blocks
    variance = pairs * math.fsum((v - mean) ** 2 for v in values) / (blocks - ddof)
    other = mean - variance / (most - mean)
    share = variance / (variance + (most - mean) ** 2)
    rows = blocks * pairs
    law = stats.beta(rows * share + 1, rows * (1 - share))
    tail = float(law.sf((delta - other) / (most - other)))
    pvalue = float(stats.t(blocks - 1).cdf(stats.norm.ppf(tail)))
    reach = float(law.isf(stats.norm.sf(stats.t(blocks - 1).ppf(level))))
    return pvalue, other + (most - other) * reach


def quadratic_statistic(labels: ArrayLike, scores: ArrayLike, kernels: Kernels) -> float:
    """n / (n - 1) SKCE_uq - SKCE_b."""
    n = len(np.asarray(labels))
    return n / (n - 1) * unbiased(labels, scores, kernels) - biased(labels, scores, kernels)


def quadratic_draws(h: Sequence[Sequence[float]], draws: int, seed: int = 0) -> Array:
    """n^-2 sum_i C_i sum_j (n / (n - 1) (C_j - 1[i = j]) - 2) h_ij with multinomial counts C."""
    terms = np.array(h)
    n = len(terms)
    counts = np.random.default_rng(seed).multinomial(n, np.full(n, 1 / n), size=draws).astype(np.float64)
    result = []
    for c in counts:
        factors = n / (n - 1) * (c[None, :] - np.eye(n)) - 2
        result.append(float((c[:, None] * factors * terms).sum()) / n**2)
    return np.array(result)


def cme(
    labels: ArrayLike, scores: ArrayLike, locations: tuple[ArrayLike, ArrayLike], kernels: Kernels
) -> tuple[float, float]:
    """n zbar' S^-1 zbar of z_ij = k(p_i, q_j) (1[y_i = l_j] - p_i[l_j]), and its p-value."""
    p, y = score_matrix(scores), truth(labels)
    q, places = score_matrix(locations[0]), truth(locations[1])
    z = np.zeros((len(p), len(q)))
    for i, row in enumerate(p):
        for j, (where, c) in enumerate(zip(q, places, strict=True)):
            weight = math.fsum(kernel.scalar(row, where) for kernel in summands(kernels))
            z[i, j] = weight * (float(y[i] == c) - row[c])
    mean = z.sum(axis=0) / len(p)
    covariance = sum(np.outer(row - mean, row - mean) for row in z) / (len(p) - 1)
    statistic = float(len(p) * mean @ np.linalg.solve(covariance, mean))
    return statistic, float(chdtrc(len(q), statistic))


def spiegelhalter(s: ArrayLike, o: ArrayLike) -> tuple[float, float]:
    """z = sum (o - s)(1 - 2 s) / sqrt(sum (1 - 2 s)^2 s (1 - s)) of a column, and the two-sided p-value."""
    pairs = [(float(a), float(b)) for a, b in zip(np.asarray(s, dtype=np.float64), np.asarray(o), strict=True)]
    above = math.fsum((b - a) * (1 - 2 * a) for a, b in pairs)
    z = above / math.sqrt(math.fsum((1 - 2 * a) ** 2 * a * (1 - a) for a, _ in pairs))
    return z, 2 * float(ndtr(-abs(z)))


def resampled_share(
    statistic: Callable[[NDArray[np.int64], Array], float], scores: ArrayLike, least: float, draws: int, rows: bool
) -> float:
    """Share of data sets with labels drawn from the predictions (``rows``: resampled) whose statistic is >= least."""
    p, rng, hits = score_matrix(scores), np.random.default_rng(5), 0
    for _ in range(draws):
        q = p[rng.integers(0, len(p), len(p))] if rows else p
        below = rng.random(len(q))[:, None] > np.cumsum(q, axis=1)[:, :-1]
        hits += statistic(below.sum(axis=1).astype(np.int64), q) >= least
    return hits / draws


# Other errors with kernels


def mmce(s: ArrayLike, o: ArrayLike, bandwidth: float = 0.4) -> float:
    """sqrt((1 / n^2) sum_ij (o_i - s_i)(o_j - s_j) exp(-|s_i - s_j| / bandwidth))."""
    pairs = [(float(a), float(b)) for a, b in zip(np.asarray(s, dtype=np.float64), np.asarray(o), strict=True)]
    terms = [(b - a) * (d - c) * math.exp(-abs(a - c) / bandwidth) for a, b in pairs for c, d in pairs]
    return math.sqrt(math.fsum(terms)) / len(pairs)


def log_dirichlet(p: Array, powers: Array) -> float:
    """Logarithm of the density of Dirichlet(powers + 1) at p, with 0^0 = 1."""
    if any(x == 0 and a > 0 for x, a in zip(p, powers, strict=True)):
        return -math.inf
    logs = math.fsum(a * math.log(x) for x, a in zip(p, powers, strict=True) if a > 0)
    return math.lgamma(math.fsum(powers) + len(powers)) - math.fsum(math.lgamma(a + 1) for a in powers) + logs


def kernel_canonical_ece(
    labels: ArrayLike, scores: ArrayLike, bandwidth: float, metric: Metric = "tv"
) -> tuple[float, int]:
    """Mean distance of p_j and its leave-one-out estimate of frequencies; the number of rows left out.

    Kernels are densities of Dirichlet(p_i / h + 1) at p_j.
    """
    p, y = score_matrix(scores), truth(labels)
    distances, alone = [], 0
    for j, row in enumerate(p):
        logs = {i: log_dirichlet(row, other / bandwidth) for i, other in enumerate(p) if i != j}
        top = max(logs.values())
        if top == -math.inf:
            alone += 1
            continue
        # Densities may be huge: a factor common to all cancels in the ratio.
        weights = {i: math.exp(value - top) for i, value in logs.items()}
        total = math.fsum(weights.values())
        estimate = [math.fsum(w for i, w in weights.items() if y[i] == c) / total for c in range(len(row))]
        distances.append(distance(np.array(estimate), row, metric))
    return math.fsum(distances) / len(distances), alone
