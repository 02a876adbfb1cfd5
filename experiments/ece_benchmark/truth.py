"""The true calibration error of a model on a mixture: bracketed from below and from above.

The absolute gaps of bins on N rows are too large by what chance leaves in each (plug-in). With the sign of each gap
from one half of the rows and its value from the other (cross-fitted) they are too small instead, since signs are
sometimes wrong. The truth for these bins lies between both in the mean; few bins hide gaps of opposite sign in one.
"""

from typing import Any

import numba
import numpy as np
import numpy.typing as npt

from experiments.ece_benchmark.columns import confidences

NORMS = ("l1", "l2")
OUTCOMES = ("label", "posterior")
# Numbers of bins; all divide the last one.
BINS = (200, 500, 2000)
KINDS = ("plug-in", "cross-fit")
# Points of a curve; they divide the last number of bins too.
CURVE = 100

Floats = npt.NDArray[np.floating[Any]]
_compiled: Any = numba.njit(nogil=True, cache=True)


@_compiled
def _add(scores, labels, wanted, posterior, sums):
    """Add rows to sums (bins, 4): their number, scores, outcomes and posteriors. ``wanted`` is each row's class."""
    bins = sums.shape[0]
    for i in range(scores.size):
        index = min(int(scores[i] * bins), bins - 1)
        sums[index, 0] += 1.0
        sums[index, 1] += scores[i]
        sums[index, 2] += labels[i] == wanted[i]
        sums[index, 3] += posterior[i]


def histograms(scores: Floats, labels: npt.NDArray[np.uint8], posterior: Floats) -> Floats:
    """Sums over fine bins of [0, 1], (2 halves, 1 + K columns, bins, 4): of confidences, and for each class."""
    rows, classes = scores.shape
    sums = np.zeros((2, 1 + classes, BINS[-1], 4))
    for half, cut in enumerate((slice(0, rows // 2), slice(rows // 2, rows))):
        top, value = confidences(scores[cut])
        believed = np.take_along_axis(posterior[cut], top[:, None], 1)[:, 0]
        _add(value, labels[cut], top.astype(np.uint8), believed, sums[half, 0])
        for number in range(classes):
            wanted = np.full(len(top), number, np.uint8)
            columns = (np.ascontiguousarray(array[cut, number]) for array in (scores, posterior))
            column, belief = columns
            _add(column, labels[cut], wanted, belief, sums[half, 1 + number])
    return sums


def brackets(sums: Floats) -> Floats:
    """True errors by setting (confidence, class-wise), norm, outcome, number of bins and kind, from `histograms`."""
    values = np.empty((2, len(NORMS), len(OUTCOMES), len(BINS), len(KINDS)))
    for at, bins in enumerate(BINS):
        joined = sums.reshape(*sums.shape[:2], bins, -1, 4).sum(3)
        for outcome in range(len(OUTCOMES)):
            gaps = joined[..., 2 + outcome] - joined[..., 1]
            absolute, square = _absolute(gaps, joined[..., 0]), _root_mean_square(gaps, joined[..., 0])
            for norm, errors in enumerate((absolute, square)):
                values[0, norm, outcome, at] = errors[:, 0]
                values[1, norm, outcome, at] = errors[:, 1:].mean(1)
    return values


def curves(sums: Floats) -> Floats:
    """True reliability and density of scores, (2, 1 + K columns, `CURVE` bins), from `histograms`.

    The reliability is the centre of a bin plus the mean of posterior less score, so that a gap from the diagonal is the
    bin's own; NaN where there are no rows.
    """
    rows, scores, _, believed = np.moveaxis(sums.sum(0).reshape(sums.shape[1], CURVE, -1, 4).sum(2), -1, 0)
    with np.errstate(invalid="ignore"):
        gaps = (believed - scores) / rows
    return np.stack([(np.arange(CURVE) + 0.5) / CURVE + gaps, rows * CURVE / rows.sum(-1, keepdims=True)])


def _absolute(gaps: Floats, rows: Floats) -> Floats:
    """Plug-in and cross-fitted mean absolute gaps (2, columns) of summed residuals (2 halves, columns, bins)."""
    total = rows.sum((0, 2))
    plug_in = np.abs(gaps.sum(0)).sum(-1)
    crossed = (np.sign(gaps[0]) * gaps[1] + np.sign(gaps[1]) * gaps[0]).sum(-1)
    return np.stack([plug_in, crossed]) / total


def _root_mean_square(gaps: Floats, rows: Floats) -> Floats:
    """The same for root mean squares: the square of a gap, or the product of its two halves."""
    both = rows.sum(0)
    plug_in = (gaps.sum(0) ** 2 / np.maximum(both, 1)).sum(-1)
    product = gaps[0] * gaps[1] / np.maximum(rows[0] * rows[1], 1)
    crossed = (both * product).sum(-1)
    return np.sqrt(np.maximum(np.stack([plug_in, crossed]) / both.sum(-1), 0.0))
