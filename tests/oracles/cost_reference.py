"""Slow oracles of costs of decisions, comparisons and their p-values, as plain loops over the formulas.

Never imported by the package. Sums of costs over classes are float64, in the order of the classes.
"""

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibdask.engine.rows import Rows, make_block
from calibdask.statistics.layout import Layout
from calibdask.statistics.views.poisson import PoissonWeights
from tests.oracles.reference import bin_index, equal_mass_edges, row_weights, score_matrix

Array = NDArray[np.float64]
PARTS = ("", "_realised", "_promised", "_calibrated")


def cost_table(costs: Any, classes: int) -> list[list[float]]:
    """Costs of actions, 0/1 where none are given."""
    if costs is None:
        return [[float(a != y) for y in range(classes)] for a in range(classes)]
    return [[float(c) for c in row] for row in costs]


def expected_cost(row: Sequence[float], shares: Sequence[float]) -> float:
    """Sum over classes in their order, in float64."""
    total = 0.0
    for c, p in zip(row, shares, strict=True):
        total = total + c * float(p)
    return total


def best_action(costs: list[list[float]], shares: Sequence[float]) -> int:
    """The cheapest action, of those equally cheap but for rounding the first."""
    chosen, least = 0, expected_cost(costs[0], shares)
    for action, row in enumerate(costs):
        value = expected_cost(row, shares)
        if value < least - 1e-12 * abs(least):
            chosen, least = action, value
    return chosen


def uniform_bin(score: float, bins: int) -> int:
    """Number of edges j / bins below the score."""
    return sum(j / bins < score for j in range(1, bins))


def excess_cost(
    labels: ArrayLike,
    scores: ArrayLike,
    costs: Any = None,
    calibration: str = "multiclass",
    bins: int = 10,
    binning: str = "uniform",
    weights: ArrayLike | None = None,
) -> dict[str, float]:
    """The four numbers, by what follows the name of the variable."""
    truth = np.asarray(labels).astype(int)
    matrix, weight = score_matrix(scores), row_weights(weights, len(truth))
    kept = weight > 0
    truth, matrix, weight = truth[kept], matrix[kept], weight[kept]
    table = cost_table(costs, matrix.shape[1])
    taken = [best_action(table, row) for row in matrix]
    mass = math.fsum(weight)
    rows = list(zip(taken, truth, matrix, weight, strict=True))
    realised = math.fsum(w * table[a][y] for a, y, _, w in rows) / mass
    promised = math.fsum(w * expected_cost(table[a], p) for a, _, p, w in rows) / mass
    if calibration == "multiclass":
        calibrated = multiclass_calibrated(table, rows, bins) / mass
    else:
        calibrated = classwise_calibrated(table, truth, matrix, weight, weights is not None, bins, binning) / mass
    return {"": realised - calibrated, "_realised": realised, "_promised": promised, "_calibrated": calibrated}


def multiclass_calibrated(table: list[list[float]], rows: list[tuple[int, int, Array, float]], bins: int) -> float:
    """Sum over cells of the cost of the best action for the classes that are in them."""
    classes = len(table[0])
    cells: dict[tuple[int, ...], list[list[float]]] = defaultdict(lambda: [[] for _ in range(classes)])
    for a, y, p, w in rows:
        cells[(a, *(uniform_bin(float(s), bins) for s in p))][y].append(float(w))
    return math.fsum(
        min(math.fsum(row[y] * math.fsum(cell[y]) for y in range(classes)) for row in table) for cell in cells.values()
    )


def classwise_calibrated(
    table: list[list[float]],
    truth: NDArray[np.int64],
    matrix: Array,
    weight: Array,
    weighted: bool,
    bins: int,
    binning: str,
) -> float:
    """Sum over rows of the cost of acting on one map for each class."""
    mapped = np.empty_like(matrix)
    for k in range(matrix.shape[1]):
        if binning == "uniform":
            place = [uniform_bin(float(s), bins) for s in matrix[:, k]]
        else:
            edges = equal_mass_edges(matrix[:, k], bins, weight if weighted else None)
            place = [bin_index(float(s), edges) for s in matrix[:, k]]
        for b in set(place):
            rows = [i for i in range(len(truth)) if place[i] == b]
            hits = math.fsum(weight[i] for i in rows if truth[i] == k)
            mapped[rows, k] = hits / math.fsum(weight[rows])
    return math.fsum(w * table[best_action(table, f)][y] for f, y, w in zip(mapped, truth, weight, strict=True))


def poisson_counts(rows: int, n_boot: int, seed: int) -> Array:
    """How often each row counts in each replicate, (n_boot, rows)."""
    scores, labels = np.zeros(rows), np.zeros(rows, np.int64)
    block = make_block(Rows(scores[None, :, None], labels[None]), Layout(), 0)
    counts = PoissonWeights(n_boot, seed).block(block).weights
    assert counts is not None
    return counts


def percentile_ends(replicates: ArrayLike, ci: float) -> tuple[float, float]:
    """Quantiles of replicates of rank q (R + 1), with linear interpolation, written out."""
    ordered = sorted(float(v) for v in np.asarray(replicates))

    def quantile(q: float) -> float:
        place = min(max(q * (len(ordered) + 1) - 1, 0.0), len(ordered) - 1.0)
        low = min(math.floor(place), len(ordered) - 2)
        return ordered[low] + (place - low) * (ordered[low + 1] - ordered[low])

    return quantile((1 - ci) / 2), quantile((1 + ci) / 2)


def pvalue(replicates: ArrayLike) -> float:
    """Two-sided, from how many replicates are on either side of 0."""
    values = [float(v) for v in np.asarray(replicates)]
    fewer = min(sum(v <= 0 for v in values), sum(v >= 0 for v in values))
    return min(1.0, 2 * (1 + fewer) / (len(values) + 1))


def holm(pvalues: ArrayLike) -> Array:
    """Holm's adjusted p-values of an array of any shape; NaN stays out."""
    flat = np.asarray(pvalues, np.float64).ravel()
    known = sorted((p, i) for i, p in enumerate(flat) if not math.isnan(p))
    result = np.full(flat.size, np.nan)
    for i in range(len(known)):
        result[known[i][1]] = min(1.0, max((len(known) - j) * known[j][0] for j in range(i + 1)))
    return result.reshape(np.shape(pvalues))


def benjamini_hochberg(pvalues: ArrayLike) -> Array:
    """Benjamini and Hochberg's adjusted p-values of an array of any shape; NaN stays out."""
    flat = np.asarray(pvalues, np.float64).ravel()
    known = sorted((p, i) for i, p in enumerate(flat) if not math.isnan(p))
    m, result = len(known), np.full(flat.size, np.nan)
    for i in range(m):
        result[known[i][1]] = min(1.0, *(m / (j + 1) * known[j][0] for j in range(i, m)))
    return result.reshape(np.shape(pvalues))
