"""Noise floors of rows whose labels are shares: errors of calibrated models with shares of equal variance."""

from collections.abc import Mapping
from dataclasses import fields, replace

import numpy as np
import numpy.typing as npt
import xarray as xr

from calibdask.data.input import Input
from calibdask.data.soft_labels import SoftRows
from calibdask.engine.plan import run_requests
from calibdask.estimators.binned.ece import ECE
from calibdask.estimators.estimator import Estimator
from calibdask.estimators.hypothesis_tests.noise_floor import NoiseFloor
from calibdask.estimators.ordered.cutoff import CutoffError
from calibdask.estimators.smooth.smooth_ece import SmoothECE
from calibdask.results.build import DatasetBuilder
from calibdask.results.cautions import TOO_FEW_IN_A_SLICE
from calibdask.results.format import counted
from calibdask.statistics.exact import Array
from calibdask.statistics.frozen import FrozenArray
from calibdask.statistics.views.drawn_shares import LEAST, DrawnShares

# Rows that share a gap, and rows that share a variance, of a slice; at most so many cells of the latter.
_GAP_ROWS, _SPREAD_ROWS, _MOST_CELLS = 40, 200, 8
# Replicates of errors of a panel, whose means are then known within 2 %; of very many rows fewer.
_REPLICATES: dict[type, int] = {ECE: 500, CutoffError: 200, SmoothECE: 100}
_MOST_DRAWS, _FEWEST = 5_000_000, 50
# Parts of rows of all replicates that are sorted by score.
_MOST_SORTED = 1 << 21
# Steps of smoothed errors of replicates of n rows of a slice, over 1 / sqrt(n): the less noise, the smaller bandwidths.
_STEP, _COARSEST = 0.1, 1 / 300
_FLOOR = "floor"


def with_floors(panel: Mapping[str, Estimator], soft: SoftRows) -> dict[str, Estimator]:
    """A panel with the noise floor of each error behind it."""
    rows, largest = len(soft.group), int(soft.row_counts.max(initial=0))
    both: dict[str, Estimator] = {}
    for name, metric in panel.items():
        both[name] = metric
        replicates = _REPLICATES.get(type(metric))
        if replicates is not None:
            few = max(_FEWEST, min(replicates, _MOST_DRAWS // max(1, rows)))
            statistic = metric
            if isinstance(metric, SmoothECE):
                step = max(metric.step, min(_COARSEST, _STEP / max(1, largest) ** 0.5))
                statistic = replace(metric, step=step)
            both[f"{name}_{_FLOOR}"] = NoiseFloor(statistic=statistic, resamples=few)
    return both


def floors(rows: SoftRows, chosen: Mapping[str, NoiseFloor], read: Input, class_dim: str) -> Mapping[str, xr.Variable]:
    """The variables of noise floors; ``read`` has the axes of the result."""
    if not chosen:
        return {}
    only_top = all(floor.measured_setting(read.source.layout) == "confidence" for floor in chosen.values())
    scores = _probabilities(rows)
    row, label, low, high = _intervals(scores, only_top=only_top)
    spread, shared = _null_spread(rows, scores)
    n = len(rows.group)
    clusters = np.zeros(n, np.int64) if rows.clusters is None else rows.clusters
    weights = np.ones(n) if rows.weights is None else rows.weights
    of_parts = [
        FrozenArray(of) for of in (row, clusters[row], low, high, spread[row], weights[row], shared[rows.group][row])
    ]
    source = rows.rows_of(row, label, None).read().source
    requests = {
        name: _by_scores(floor, len(row)).of_view(DrawnShares(floor.resamples, floor.seed, *of_parts))
        for name, floor in chosen.items()
    }
    estimates = run_requests(requests, source).estimates
    builder = DatasetBuilder(read, class_dim)
    assumed = [] if rows.clusters is None else ["rows of different clusters are independent"]
    filled = rows.row_counts[rows.row_counts > 0]
    if few := int((filled < TOO_FEW_IN_A_SLICE).sum()):
        of_slices = f" in {few} of {counted(filled.size, 'slice')}" if rows.axes else ""
        assumed.append(f"the variance of the shares is that of fewer than {TOO_FEW_IN_A_SLICE} rows{of_slices}")
    assumes = {"assumes": "; ".join(assumed)} if assumed else {}
    for name, floor in chosen.items():
        parts = {part: replace(values, notes={**values.notes, **assumes}) for part, values in estimates[name].items()}
        builder.add(name, floor, parts, {}, (*read.batch, *read.by))
    return builder.variables


class _CutoffByScores(CutoffError):
    """The error from scores, however many rows there are."""

    _most_rows = None


def _by_scores(floor: NoiseFloor, parts: int) -> NoiseFloor:
    """The floor, whose replicates are sorted unless they are many: a grid for each of them takes far more memory."""
    statistic = floor.statistic
    if not isinstance(statistic, CutoffError) or parts * floor.resamples > _MOST_SORTED:
        return floor
    by_scores = _CutoffByScores(**{field.name: getattr(statistic, field.name) for field in fields(statistic)})
    return replace(floor, statistic=by_scores)


def _intervals(scores: Array, *, only_top: bool) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], Array, Array]:
    """Row and class of each part, and the random numbers between which it is drawn, of the largest scores first.

    With ``only_top`` the second class stands for all others, as they are alike for what measures the largest score.
    """
    every = np.stack([1 - scores, scores], -1).clip(0, 1) if scores.ndim == 1 else scores.clip(0, 1)
    every = every / every.sum(-1, keepdims=True)
    # Of a vector the outcome has the smallest numbers, whatever its score.
    order = np.argsort(-every, axis=-1, kind="stable") if scores.ndim == 2 else np.array([[1, 0]]).repeat(len(every), 0)
    sizes = np.take_along_axis(every, order, -1)
    if only_top:
        order, sizes = order[:, :2], np.stack([sizes[:, 0], sizes[:, 1:].sum(-1)], -1)
    ends = np.cumsum(sizes, -1)
    row, place = (places.astype(np.int64) for places in np.nonzero(sizes > LEAST))
    return row, order[row, place], (ends - sizes)[row, place], ends[row, place]


def _probabilities(rows: SoftRows) -> Array:
    """The scores in float64, of logits their probabilities."""
    scores = np.asarray(rows.scores, np.float64)
    if not rows.data.options.logits:
        return scores
    from scipy import special  # slow to import, and seldom needed

    return np.asarray(special.expit(scores) if scores.ndim == 1 else special.softmax(scores, axis=-1))


def _null_spread(rows: SoftRows, scores: Array) -> tuple[Array, Array]:
    """Standard deviation of the shares over that of a label, by row, and the share of common numbers, by slice.

    Of the class with the largest score, or of y = 1. Neighbours by score in a slice share a gap, and more of them a
    variance around it; rows of weight 0 have no part in it. One row alone shows no variance, and has that of a label.
    """
    if scores.ndim == 1:
        score, share = scores, rows.shares[:, 0]
    else:
        top = scores.argmax(-1)
        score, share = (values[np.arange(len(top)), top] for values in (scores, rows.shares))
    spread = np.ones(len(score))
    shared = np.zeros(int(rows.group.max(initial=0)) + 1)
    has_weight = np.ones(len(score), np.bool_) if rows.weights is None else np.asarray(rows.weights) > 0
    for g in np.unique(rows.group).tolist():
        at = np.flatnonzero((rows.group == g) & has_weight)
        if at.size < 2:
            continue
        # Equal rows in any order.
        at = at[np.lexsort((share[at], score[at]))]
        error = share[at] - score[at]
        gaps = _cells(at.size, max(1, at.size // _GAP_ROWS))
        cells = _cells(at.size, max(1, min(_MOST_CELLS, at.size // _SPREAD_ROWS)))
        count = np.bincount(gaps)
        mean = (np.bincount(gaps, error) / count)[gaps]
        variance = (error - mean) ** 2 * (count / np.maximum(count - 1, 1))[gaps]
        rate = np.clip(score[at] + mean, 0.0, 1.0)
        # The variance of a label; that of the mean gap is added, since deviations from the mean lack it.
        of_label = rate * (1 - rate) + variance / count[gaps]
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.bincount(cells, variance) / np.bincount(cells, of_label)
        spread[at] = np.sqrt(np.clip(np.nan_to_num(ratio, nan=1.0), 0.0, 1.0))[cells]
        if rows.clusters is not None:
            shared[g] = _common(rows.clusters[at], error - mean, rate, spread[at])
    return spread, shared


def _cells(rows: int, cells: int) -> npt.NDArray[np.int64]:
    """Numbers of cells of equally many neighbours."""
    return np.arange(rows) * cells // max(1, rows)


def _common(cluster: npt.NDArray[np.int64], error: Array, rate: Array, spread: Array) -> float:
    """How often rows draw with the number of their cluster, such that errors of pairs have the observed covariance."""
    observed = _pairs(cluster, error)
    # Rows in order of their rate: of a pair with one number the covariance is c c' (min(p, p') - p p').
    order = np.lexsort((rate, cluster))
    cluster, rate, spread = cluster[order], rate[order], spread[order]
    after = np.cumsum(spread[::-1])[::-1]
    last = np.searchsorted(cluster, cluster, side="right")
    behind = np.append(after, 0.0)
    of_minima = (rate * spread * (after - spread - behind[last])).sum()
    most = of_minima - _pairs(cluster, spread * rate)
    return float(np.sqrt(np.clip(observed / most, 0.0, 1.0))) if most > 0 else 0.0


def _pairs(cluster: npt.NDArray[np.int64], values: Array) -> float:
    """Sum of the products of all pairs within clusters."""
    inverse = np.unique(cluster, return_inverse=True)[1]
    sums = np.bincount(inverse, values)
    return float(((sums**2).sum() - (values**2).sum()) / 2)
