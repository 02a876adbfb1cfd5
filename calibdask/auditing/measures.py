"""Numbers of segments from their cells: gaps, calibration errors with the size that chance gives them, slopes."""

import numpy as np
import numpy.typing as npt

from calibdask.auditing.evidence import SegmentCells, log_e_values, pvalues
from calibdask.estimators.scores.mean_gap import Means
from calibdask.statistics import exact
from calibdask.statistics.exact import Array
from calibdask.statistics.lattice.lattice_sums import LatticeState

# Segments that are computed at a time have about this many cells.
_CELLS = 1 << 20
_NEWTON_STEPS = 40
_CONVERGED = 1e-9
_MOST_SLOPE = 1e3

Columns = dict[str, Array]


def cells_of(state: LatticeState, segments: npt.NDArray[np.intp]) -> SegmentCells:
    """The sums of some segments as float64."""
    rows, events = (np.asarray(part[segments], np.float64) for part in (state.rows, state.hits))
    score, spread = exact.value(state.score[segments]), exact.value(state.spread[segments])
    if state.weight.size:
        sums = state.weight[segments], state.outcome[segments], score, rows, events, spread
        return SegmentCells(*sums, state.weight_square[segments], float(state.largest), weighted=True)
    return SegmentCells(rows, events, score, rows, events, spread, rows.sum(-1), 1.0, weighted=False)


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
    square = residual_square(cells)
    low, high = Means(mean, frequency, np.maximum(square / total - gap**2, 0.0), total**2 / cells.weight_square).ends(
        1 - alpha
    )
    path = np.cumsum(gaps, axis=-1) / total[:, None]
    return {
        "rows": cells.rows.sum(-1),
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
    """The expected sum over cells of |sum of w (o - s)| if scores are right; of few rows with rare outcomes at most."""
    mean = cells.mean
    variance = mean * (1 - mean)
    share = np.divide(cells.weight, cells.rows, out=np.zeros_like(cells.rows), where=cells.rows > 0)
    deviation = np.minimum(np.sqrt(2 / np.pi * cells.rows * variance), 2 * cells.rows * variance)
    return np.asarray((share * deviation).sum(-1))


def slopes(cells: SegmentCells) -> Array:
    """The slope b of logit P(o = 1) = a + b logit s, by maximum likelihood on the mean scores of cells.

    NaN where cells do not determine it: a single one, or outcomes that a threshold separates.
    """
    mean = np.clip(cells.mean, 1e-12, 1 - 1e-12)
    odds = np.log(mean) - np.log1p(-mean)
    a, b = np.zeros(len(odds)), np.ones(len(odds))
    step = np.full((2, len(odds)), np.inf)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        for _ in range(_NEWTON_STEPS):
            fitted = 1 / (1 + np.exp(-(a[:, None] + b[:, None] * odds)))
            residual = cells.outcome - cells.weight * fitted
            information = cells.weight * fitted * (1 - fitted)
            first, second, third = ((information * odds**power).sum(-1) for power in range(3))
            of_a, of_b = residual.sum(-1), (residual * odds).sum(-1)
            determinant = first * third - second**2
            step = np.stack([third * of_a - second * of_b, first * of_b - second * of_a]) / determinant
            step = np.clip(step, -2.0, 2.0)
            going = (np.abs(step) > _CONVERGED).any(0) & np.isfinite(step).all(0)
            if not going.any():
                break
            a, b = a + np.where(going, step[0], 0.0), b + np.where(going, step[1], 0.0)
        known = (np.abs(step) <= 1e-4).all(0) & (np.abs(b) < _MOST_SLOPE) & ((cells.rows > 0).sum(-1) > 1)
    return np.where(known, b, np.nan)
