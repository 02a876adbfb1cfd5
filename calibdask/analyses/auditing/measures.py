"""Numbers of segments from their cells: gaps, calibration errors with the size that chance gives them, slopes."""

import numpy as np
import numpy.typing as npt

from calibdask.analyses.auditing.evidence import SegmentCells, chernoff_ends, log_e_values, pvalues
from calibdask.estimators.scores.mean_gap import GapMeans
from calibdask.statistics import exact
from calibdask.statistics.exact import Array
from calibdask.statistics.lattice.lattice_sums import LatticeState

# Segments that are computed at a time have about this many cells.
_CELLS = 1 << 20
_NEWTON_STEPS, _LONGEST_STEP = 25, 2.0
_CONVERGED = 1e-8
_MOST_SLOPE = 1e3

Columns = dict[str, Array]


def cells_of(state: LatticeState, segments: npt.NDArray[np.intp], *, clustered: bool = False) -> SegmentCells:
    """Return the sums of the given segments as float64; if ``clustered``, with the weights of `ClusterExponents`."""
    rows, events = (np.asarray(part[segments], np.float64) for part in (state.rows, state.hits))
    score, spread = exact.value(state.score[segments]), exact.value(state.spread[segments])
    if clustered:
        return SegmentCells.of_clusters(state.weight[segments], state.outcome[segments], score, rows, events)
    if state.weight.size:
        sums = state.weight[segments], state.outcome[segments], score, rows, events, spread
        squares = state.weight_square[segments], state.outcome_square[segments]
        return SegmentCells(*sums, *squares, float(state.largest), weighted=True)
    return SegmentCells(rows, events, score, rows, events, spread, rows.sum(-1), events.sum(-1), 1.0, weighted=False)


def measured(cells: SegmentCells, alpha: float) -> Columns:
    """All numbers of segments that are computed from each alone."""
    count, size = cells.rows.shape
    step = max(1, _CELLS // size)
    parts = [_measured(cells.at(slice(start, start + step)), alpha) for start in range(0, max(1, count), step)]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _measured(cells: SegmentCells, alpha: float) -> Columns:
    total = cells.weight.sum(-1)
    gaps = cells.outcome - cells.score
    mean, frequency = cells.score.sum(-1) / total, cells.outcome.sum(-1) / total
    gap = gaps.sum(-1) / total
    if cells.clustered:
        low, high = chernoff_ends(cells, alpha)
    else:
        variance = np.maximum(residual_square(cells) / total - gap**2, 0.0)
        low, high = GapMeans(mean, frequency, variance, cells.effective_rows).ends(1 - alpha)
    path = np.cumsum(gaps, axis=-1) / total[:, None]
    return {
        "rows": cells.rows.sum(-1),
        **({"cluster_weight": total} if cells.clustered else {}),
        "events": cells.events.sum(-1),
        "mean_score": mean,
        "frequency": frequency,
        "gap": gap,
        "gap_low": low,
        "gap_high": high,
        "ece": np.abs(gaps).sum(-1) / total,
        "ece_chance": _chance(cells) / total,
        "ecce": np.maximum(path.max(-1), 0.0) - np.minimum(path.min(-1), 0.0),
        "sigma": np.sqrt(cells.spread) / total,
        "slope": slopes(cells),
        "pvalue": pvalues(cells),
        "log_e": log_e_values(cells),
    }


def residual_square(cells: SegmentCells) -> Array:
    """Sums of w (o - s)**2 by segment, with the scores of a cell at their mean."""
    mean = cells.mean
    return np.asarray((cells.outcome * (1 - 2 * mean) + cells.weight * mean**2).sum(-1))


def _chance(cells: SegmentCells) -> Array:
    """The expected sum over cells of |sum of w (o - s)| if scores are right; of few rows with rare outcomes at most.

    Of clusters an upper bound whatever the dependence, sqrt(E X**2) with E X**2 <= sum w s (1 - s).
    """
    mean = cells.mean
    variance = mean * (1 - mean)
    rows = cells.weight if cells.clustered else cells.rows
    share = np.divide(cells.weight, rows, out=np.zeros_like(rows), where=rows > 0)
    # The mean of the absolute value of a normal variable, relative to its standard deviation.
    factor = 1.0 if cells.clustered else 2 / np.pi
    deviation = np.minimum(np.sqrt(factor * rows * variance), 2 * rows * variance)
    return np.asarray((share * deviation).sum(-1))


def slopes(cells: SegmentCells) -> Array:
    """The slope b of logit P(o = 1) = a + b logit s, by maximum likelihood on the mean scores of cells.

    NaN where cells do not determine it: a single one, or outcomes that a threshold separates.
    """
    mean = np.clip(cells.mean, 1e-12, 1 - 1e-12)
    odds = np.log(mean) - np.log1p(-mean)
    several = np.flatnonzero((cells.rows > 0).sum(-1) > 1)
    found = np.full(len(odds), np.nan)
    found[several] = _newton(cells.at(several), odds[several], np.array([[0.0], [1.0]]))
    # Outcomes where scores are 0 or 1 lead far away from that start; the line without a slope is closer.
    again = several[np.isnan(found[several])]
    share = np.clip(cells.outcome[again].sum(-1) / cells.weight[again].sum(-1), 1e-12, 1 - 1e-12)
    found[again] = _newton(cells.at(again), odds[again], np.stack([np.log(share) - np.log1p(-share), 0 * share]))
    return found


def _newton(cells: SegmentCells, odds: Array, start: Array) -> Array:
    """Slopes by Newton's method from lines (a, b) to start at, (2, segments) or (2, 1); NaN where it does not end."""
    fit, step = np.zeros((2, len(odds))) + start, np.full((2, len(odds)), np.inf)
    # Each segment stops by itself.
    going = np.arange(len(odds))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        for _ in range(_NEWTON_STEPS):
            a, b = fit[:, going, None]
            z, weight = odds[going], cells.weight[going]
            fitted = 1 / (1 + np.exp(-(a + b * z)))
            residual, information = cells.outcome[going] - weight * fitted, weight * fitted * (1 - fitted)
            first, second, third = information.sum(-1), (information * z).sum(-1), (information * z * z).sum(-1)
            of_a, of_b = residual.sum(-1), (residual * z).sum(-1)
            moved = np.stack([third * of_a - second * of_b, first * of_b - second * of_a]) / (first * third - second**2)
            step[:, going] = moved
            moves = np.isfinite(moved).all(0)
            fit[:, going[moves]] += np.clip(moved[:, moves], -_LONGEST_STEP, _LONGEST_STEP)
            going = going[moves & (np.abs(moved) > _CONVERGED).any(0)]
            if not going.size:
                break
    known = (np.abs(step) <= _CONVERGED).all(0) & (np.abs(fit[1]) < _MOST_SLOPE)
    return np.where(known, fit[1], np.nan)
