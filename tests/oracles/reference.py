"""Slow oracles, written straight from the formulas; sections: 0 settings, 1 bins, 3 cells of the simplex, 4 scores.

Never imported by the package. Scores are converted to float64 once, before anything else (also 1 - p of a vector),
and are neither clipped nor normalised.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]
Column = tuple[Array, Array]
Setting = Literal["binary", "classwise", "confidence", "top-k"] | int
Mapping = Literal["hard", "convex", "inverted"]
Closed = Literal["right", "left"]
Norm = Literal["l1", "l2", "max"]
Remainder = Literal["spread", "last"]
Distance = Literal["tv", "euclidean", "squared-euclidean"]


def score_matrix(scores: ArrayLike) -> Array:
    """Scores as (n, K) float64, a vector p of P(y = 1) as the columns (1 - p, p); sections 0 and 3."""
    values = np.asarray(scores, dtype=np.float64)
    return np.column_stack([1.0 - values, values]) if values.ndim == 1 else values


def row_weights(weights: ArrayLike | None, rows: int) -> Array:
    """The weights w, 1 for every row when none are given; section 0."""
    return np.ones(rows) if weights is None else np.asarray(weights, dtype=np.float64)


def classes_by_score(row: Array) -> list[int]:
    """The classes of one row from the largest score down, ties by the lowest class; section 0."""
    return sorted(range(len(row)), key=lambda c: (-float(row[c]), c))


def columns(labels: ArrayLike, scores: ArrayLike, setting: Setting, k: int | None = None) -> list[Column]:
    """The (score, outcome) columns of a setting; the table of section 0."""
    matrix, truth = score_matrix(scores), [int(label) for label in np.asarray(labels)]
    if setting == "classwise":
        return [columns(labels, scores, c)[0] for c in range(matrix.shape[1])]
    if setting == "confidence":
        setting, k = "top-k", 1
    if setting == "top-k":
        if k is None:
            raise ValueError("the top-k setting needs k")
        winners = [classes_by_score(row)[:k] for row in matrix]
        s = [min(1.0, math.fsum(float(row[c]) for c in best)) for row, best in zip(matrix, winners, strict=True)]
        o = [float(label in best) for label, best in zip(truth, winners, strict=True)]
        return [(np.array(s, dtype=np.float64), np.array(o, dtype=np.float64))]
    chosen = 1 if setting == "binary" else int(setting)
    return [(matrix[:, chosen].copy(), np.array([float(label == chosen) for label in truth], dtype=np.float64))]


def uniform_edges(bins: int, low: float = 0.0, high: float = 1.0) -> Array:
    """Edges low + (i / B)(high - low), by that division, both ends exact; section 1."""
    return np.array([low] + [low + (i / bins) * (high - low) for i in range(1, bins)] + [high])


def equal_mass_edges(
    scores: ArrayLike, bins: int, weights: ArrayLike | None = None, remainder: Remainder = "spread"
) -> Array:
    """Equal-mass edges of one column of scores, with the authors' rule as remainder="last"; section 1, Adaptive."""
    values = [float(value) for value in np.asarray(scores, dtype=np.float64)]
    if remainder == "last":
        if weights is not None:
            raise ValueError("the authors' rule has no weights")
        inner = [rank_edge(sorted(values), i * (len(values) // bins)) for i in range(1, bins)]
        return np.array([0.0] + [edge for edge in inner if edge is not None] + [1.0])
    if weights is None:
        inner = [rank_edge(sorted(values), (i * len(values)) // bins) for i in range(1, bins)]
    else:
        groups = mass_groups(values, [float(weight) for weight in np.asarray(weights, dtype=np.float64)])
        inner = [mass_edge(groups, i, bins) for i in range(1, bins)]
    kept = {edge for edge in inner if edge is not None} - {0.0, 1.0}
    return np.array([0.0, *sorted(kept), 1.0])


def rank_edge(ordered: Sequence[float], rank: int) -> float | None:
    """The midpoint of sorted score number `rank` (from 1) and the next one, none at rank 0; section 1, Adaptive."""
    return (ordered[rank - 1] + ordered[rank]) / 2 if rank > 0 else None


def mass_groups(values: Sequence[float], weights: Sequence[float]) -> list[tuple[float, list[Fraction]]]:
    """Runs of equal scores in order with the weights of their rows, zero weights left out; sections 1, 5."""
    pairs = [(v, Fraction(w)) for v, w in zip(values, weights, strict=True) if w > 0]
    return [(value, [w for v, w in pairs if v == value]) for value in sorted({v for v, _ in pairs})]


def mass_edge(groups: Sequence[tuple[float, list[Fraction]]], i: int, bins: int) -> float | None:
    """Edge i of equal-mass bins of weighted rows, those of whole weights repeated; section 1, Adaptive."""
    weights = [w for _, members in groups for w in members]
    total = sum(weights, Fraction(0))
    whole = all(w.denominator == 1 for w in weights)
    unit = Fraction(1) if whole else total / len(weights)
    target, tolerance = (i * int(total / unit) // bins) * unit, 0 if whole else total / 10**12
    if not target:
        return None
    up_to = list(itertools.accumulate(sum(members, Fraction(0)) for _, members in groups))
    low = next(g for g, mass in enumerate(up_to) if mass >= target - tolerance)
    high = next(g for g, mass in enumerate(up_to) if mass > target + tolerance)
    return (groups[low][0] + groups[high][0]) / 2


def bin_index(s: float, edges: ArrayLike, closed: Closed = "right") -> int:
    """The bin of one score, by comparing it with the edges; nothing falls outside; section 1, first point."""
    borders = np.asarray(edges, dtype=np.float64).tolist()
    last = len(borders) - 2
    if closed == "right":
        return next((j for j in range(last) if s <= borders[j + 1]), last)
    return next((j for j in range(last, 0, -1) if s >= borders[j]), 0)


def mapping_weights(s: ArrayLike, edges: ArrayLike, mapping: Mapping = "hard", closed: Closed = "right") -> Array:
    """The mapping weights W_ij as an (n, B) matrix with rows that sum to 1; section 1, Convex mapping."""
    scores = [float(value) for value in np.asarray(s, dtype=np.float64)]
    borders = [float(edge) for edge in np.asarray(edges, dtype=np.float64)]
    centres = [(low + high) / 2 for low, high in itertools.pairwise(borders)]
    result = np.zeros((len(scores), len(centres)))
    for i, score in enumerate(scores):
        if mapping == "hard":
            result[i, bin_index(score, borders, closed)] = 1.0
        elif score <= centres[0]:
            result[i, 0] = 1.0
        elif score > centres[-1]:
            result[i, -1] = 1.0
        else:
            j = next(j for j in range(1, len(centres)) if score <= centres[j])
            width = centres[j] - centres[j - 1]
            to_left, to_right = (centres[j] - score) / width, (score - centres[j - 1]) / width
            result[i, j - 1], result[i, j] = (to_left, to_right) if mapping == "convex" else (to_right, to_left)
    return result


def effective_size(weights: Sequence[float]) -> Fraction:
    """Kish's effective number of rows, (sum w)^2 / sum w^2, exactly; 0 without rows."""
    exact = [Fraction(weight) for weight in weights]
    return sum(exact, Fraction(0)) ** 2 / sum((weight**2 for weight in exact), Fraction(0)) if exact else Fraction(0)


def leave_one_out(weights: Sequence[float], outcomes: Sequence[float]) -> tuple[float, Fraction]:
    """Jackknife variance of a weighted share, and the rows: those of an outcome all have their own mean weight."""
    kinds = [[w for w, o in zip(weights, outcomes, strict=True) if o == value] for value in (0, 1)]
    counts = [effective_size(kind) for kind in kinds]
    if sum(counts) < 2 or not all(kinds):
        return 0.0, Fraction(sum(counts))
    masses = [sum(map(Fraction, kind), Fraction(0)) for kind in kinds]
    units = [mass / count for mass, count in zip(masses, counts, strict=True)]
    total, variance = sum(masses), Fraction(0)
    share = masses[1] / total
    for value, (count, unit) in enumerate(zip(counts, units, strict=True)):
        if unit >= total:
            return 0.5, Fraction(sum(counts))
        variance += count * ((masses[1] - unit * value) / (total - unit) - share) ** 2
    return float(min(variance * (1 - 1 / sum(counts)), Fraction(1, 2))), Fraction(sum(counts))


def ece(
    s: ArrayLike,
    o: ArrayLike,
    edges: ArrayLike,
    mapping: Mapping = "hard",
    closed: Closed = "right",
    norm: Norm = "l1",
    weights: ArrayLike | None = None,
    debias: bool = False,
) -> float:
    """ECE (l1), MCE (max) or L2 calibration error of one column; section 1, Binned estimators and Debiased L2."""
    if debias and norm != "l2":
        raise ValueError("only the l2 norm is debiased")
    score, outcome = np.asarray(s, dtype=np.float64), np.asarray(o, dtype=np.float64)
    row_weight = row_weights(weights, len(score))
    shares = mapping_weights(score, edges, mapping, closed)
    total = math.fsum(row_weight)
    terms: list[float] = []
    for j in range(shares.shape[1]):
        mass = row_weight * shares[:, j]
        size = math.fsum(mass)
        if size == 0:
            continue
        gap = math.fsum(mass * (outcome - score)) / size
        if norm == "l1":
            terms.append(size / total * abs(gap))
        elif norm == "max":
            terms.append(abs(gap))
        elif not debias:
            terms.append(size / total * gap**2)
        else:
            held = mass > 0
            variance, count = leave_one_out(mass[held].tolist(), outcome[held].tolist())
            terms += [size / total * (gap**2 - variance)] if count >= 2 else []
    if norm == "max":
        return max(terms)
    return math.fsum(terms) if norm == "l1" else math.sqrt(max(math.fsum(terms), 0.0))


def ece_of(
    labels: ArrayLike,
    scores: ArrayLike,
    setting: Setting,
    edges: ArrayLike | Callable[[Array], Array],
    mapping: Mapping = "hard",
    closed: Closed = "right",
    norm: Norm = "l1",
    weights: ArrayLike | None = None,
    debias: bool = False,
    k: int | None = None,
) -> float:
    """`ece` of a setting, mean over columns (norm "max": max); edges may be a function of a column; section 0."""
    values = []
    for s, o in columns(labels, scores, setting, k):
        borders = edges(s) if callable(edges) else edges
        values.append(ece(s, o, borders, mapping, closed, norm, weights, debias))
    return max(values) if norm == "max" else math.fsum(values) / len(values)


def brier_decomposition(
    s: ArrayLike, o: ArrayLike, edges: ArrayLike, closed: Closed = "right", weights: ArrayLike | None = None
) -> dict[str, float]:
    """REL, RES, UNC, WBV and WBC of one column (Stephenson et al. 2008) in rational arithmetic; section 4."""
    score = [Fraction(float(value)) for value in np.asarray(s, dtype=np.float64)]
    outcome = [Fraction(float(value)) for value in np.asarray(o, dtype=np.float64)]
    weight = [Fraction(float(value)) for value in row_weights(weights, len(score))]
    total = sum(weight, Fraction(0))
    frequency = exact_mean(weight, outcome)
    reliability = resolution = variance = covariance = Fraction(0)
    place = [bin_index(float(value), edges, closed) for value in score]
    for j in sorted(set(place)):
        rows = [i for i in range(len(score)) if place[i] == j and weight[i] > 0]
        if not rows:
            continue
        size = sum((weight[i] for i in rows), Fraction(0))
        mean_score = exact_mean([weight[i] for i in rows], [score[i] for i in rows])
        mean_outcome = exact_mean([weight[i] for i in rows], [outcome[i] for i in rows])
        reliability += size * (mean_score - mean_outcome) ** 2
        resolution += size * (mean_outcome - frequency) ** 2
        variance += sum(weight[i] * (score[i] - mean_score) ** 2 for i in rows)
        covariance += 2 * sum(weight[i] * (outcome[i] - mean_outcome) * (score[i] - mean_score) for i in rows)
    return {
        "score": float(exact_mean(weight, [(a - b) ** 2 for a, b in zip(score, outcome, strict=True)])),
        "reliability": float(reliability / total),
        "resolution": float(resolution / total),
        "uncertainty": float(frequency * (1 - frequency)),
        "within_variance": float(variance / total),
        "within_covariance": float(covariance / total),
    }


def exact_mean(weights: Sequence[Fraction], values: Sequence[Fraction]) -> Fraction:
    """Exact weighted mean."""
    return sum((w * v for w, v in zip(weights, values, strict=True)), Fraction(0)) / sum(weights, Fraction(0))


def cell_distance(labels: Sequence[int], cell: Array, distance: Distance) -> float:
    """Distance between the mean prediction of a cell and its label frequencies; section 3, Multiclass ECE."""
    gaps = [math.fsum(cell[:, c] - np.array([y == c for y in labels])) / len(labels) for c in range(cell.shape[1])]
    if distance == "tv":
        return math.fsum(abs(gap) for gap in gaps) / 2
    square = math.fsum(gap**2 for gap in gaps)
    return square if distance == "squared-euclidean" else math.sqrt(square)


def average_over_cells(labels: ArrayLike, matrix: Array, cells: Sequence[Sequence[int]], distance: Distance) -> float:
    """Average of the cells' distances weighted by cell size; section 3, Multiclass ECE."""
    truth = [int(label) for label in np.asarray(labels)]
    terms = [len(rows) * cell_distance([truth[i] for i in rows], matrix[list(rows)], distance) for rows in cells]
    return math.fsum(terms) / len(truth)


def multiclass_ece_uniform(labels: ArrayLike, scores: ArrayLike, bins: int, distance: Distance = "tv") -> float:
    """Multiclass ECE over uniform cells, ceil(B p) in each dimension, by comparing with i / B; section 3."""
    matrix, edges = score_matrix(scores), uniform_edges(bins)
    cells: dict[tuple[int, ...], list[int]] = {}
    for i, row in enumerate(matrix):
        cells.setdefault(tuple(bin_index(float(p), edges) for p in row), []).append(i)
    return average_over_cells(labels, matrix, list(cells.values()), distance)


def exact_variance(values: Sequence[Fraction]) -> Fraction:
    """Sample variance with divisor n - 1 as an exact fraction (0 for one row); section 3, median-variance."""
    centre = sum(values, Fraction(0)) / len(values)
    return sum(((value - centre) ** 2 for value in values), Fraction(0)) / max(len(values) - 1, 1)


def median_variance_cells(scores: ArrayLike, min_size: int) -> list[list[int]]:
    """Rows of each cell of the median-variance partition, a vector's two variances being equal; section 3."""
    if min_size < 1:
        raise ValueError("min_size must be at least 1")
    matrix, vector = score_matrix(scores), np.ndim(scores) == 1
    exact = [[Fraction(float(p)) for p in row] for row in matrix]
    # Without splitting limits the order in which sets are taken cannot change the cells, so any order does.
    waiting = [list(range(len(matrix)))]
    cells: list[list[int]] = []
    while waiting:
        rows = waiting.pop()
        variances = [exact_variance([exact[i][c] for i in rows]) for c in range(matrix.shape[1])]
        widest = 0 if vector else variances.index(max(variances))
        median = sorted(exact[i][widest] for i in rows)[len(rows) // 2]
        left = [i for i in rows if exact[i][widest] < median]
        right = [i for i in rows if exact[i][widest] >= median]
        if min(len(left), len(right)) < min_size:
            cells.append(rows)
        else:
            waiting += [left, right]
    return cells


def multiclass_ece_median_variance(
    labels: ArrayLike, scores: ArrayLike, min_size: int, distance: Distance = "tv"
) -> float:
    """Multiclass ECE over the cells of the median-variance partition; section 3."""
    return average_over_cells(labels, score_matrix(scores), median_variance_cells(scores, min_size), distance)
