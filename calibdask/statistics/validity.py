"""Counts of invalid rows, taken in the pass of the other statistics."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from calibdask.kernels import checks
from calibdask.statistics.block import Block
from calibdask.statistics.exact import Array, Counts
from calibdask.statistics.layout import Layout
from calibdask.statistics.observed_labels import ObservedLabels
from calibdask.statistics.statistic import Statistic

# The first four are the kernel's.
KINDS = ("not finite", "out of range", "row sum", "label", "weight", "absent label")
_WEIGHT, _ABSENT = 4, 5
# The number of rows without a label among class numbers, where none may be missing.
ABSENT_LABEL = -(2**31) + 2
# Counts of rows that a source leaves out: with a label to be ignored, with missing values, and what the latter lack;
# and of rows that stay without a value of a slice.
EXCLUDED = ("ignored", "skipped", "label", "score", "weight", "slice")
# Beyond, squares of weights leave the range of float64.
_LARGEST_WEIGHT = 1e100
_NEVER = np.iinfo(np.int64).max


class ValidityState(NamedTuple):
    """Number of rows; rows of positive weight; for each of `KINDS` the invalid rows, the first one and its value.

    ``element`` is the batch element of the first ones. ``excluded`` counts the rows that were left out before, by
    `EXCLUDED`; ``like_probabilities``, for each batch element, the logits that look like probabilities.
    """

    rows: Counts
    positive: Counts
    invalid: Counts
    first: Counts
    value: Array
    element: Counts
    excluded: Counts
    like_probabilities: Counts


@dataclass(frozen=True)
class Validity(Statistic[ValidityState]):
    """Counts of rows whose scores, labels or weights are invalid.

    Parameters
    ----------
    tolerance : float
        How far outside [0, 1] a score may lie by rounding.
    sum_tolerance : float
        How far the sum of a row of scores may differ from 1.
    """

    tolerance: float = 1e-6
    sum_tolerance: float = 1e-3

    def __post_init__(self) -> None:
        for field in ("tolerance", "sum_tolerance"):
            value = getattr(self, field)
            if not isinstance(value, int | float | np.floating) or not value >= 0:
                raise ValueError(f"{field} expects a number of at least 0, got {value!r}.")

    def from_block(self, block: Block) -> ValidityState:
        """Check one block; rows are skipped where the extremes that the block has collected prove all of them valid."""
        layout = block.layout
        count = np.zeros(len(KINDS), np.int64)
        # Marks keep a row that is invalid in several batch elements from counting more than once. They are made for the
        # first doubtful row: where all are valid they would take a tenth of the time of a binary calibration error.
        marks: npt.NDArray[np.bool_] | None = None
        first = np.full(len(KINDS), _NEVER)
        value = np.zeros(len(KINDS))
        element = np.zeros(len(KINDS), np.int64)
        # Fractions and missing labels are no integers: they count as a class that does not exist.
        labels = block.observed
        if not _are_integers(block.labels):
            labels = ObservedLabels(np.where(_are_whole(block.labels), block.codes, -1))
        certain = self._certain(block.scores.dtype, layout)
        for b in () if _are_integers(block.labels) and self._proven(block) else range(layout.batch):
            scores, packed = block.scores_of(b), labels.packed_of(b)
            tile = checks.tile_rows(block.scores.shape[-1])
            limits = self.tolerance, self.sum_tolerance, not layout.vector
            begin = 0
            while (begin := checks.first_doubtful(scores, packed, layout.classes, *certain, begin, tile)) < block.rows:
                if marks is None:
                    marks = np.zeros((len(KINDS), block.rows), np.bool_)
                end = min(block.rows, begin + tile)
                rows = scores, labels.of(b), block.weights_of(b)
                earlier = first.copy()
                checks.inspect_rows(*rows, begin, end, layout.classes, *limits, marks, count, first, value)
                element[first < earlier] = b
                begin = end
        if marks is not None and count[checks.LABEL]:
            wrong = marks[checks.LABEL]
            absent = wrong & (block.labels == ABSENT_LABEL).any(0)
            for kind, rows_of_kind in ((checks.LABEL, wrong & ~absent), (_ABSENT, absent)):
                count[kind], first[kind] = rows_of_kind.sum(), rows_of_kind.argmax()
            value[checks.LABEL] = _label(block, int(first[checks.LABEL])) if count[checks.LABEL] else 0
            value[_ABSENT] = ABSENT_LABEL
        positive = block.rows
        if block.weights is not None:
            positive = int((block.weights > 0).any(0).sum())
            bad = ~(
                (block.weights == 0) | ((block.weights >= 1 / _LARGEST_WEIGHT) & (block.weights <= _LARGEST_WEIGHT))
            )
            if bad.any():
                count[_WEIGHT] = bad.any(0).sum()
                first[_WEIGHT] = row = int(bad.any(0).argmax())
                value[_WEIGHT] = block.weights[bad[:, row].argmax(), row]
        first = np.where(count > 0, first + block.start, _NEVER)
        excluded = np.zeros(len(EXCLUDED), np.int64) if block.excluded is None else block.excluded
        like_probabilities = np.zeros(layout.batch, np.int64)
        if block.like_probabilities is not None:
            like_probabilities += block.like_probabilities
        return ValidityState(
            np.array(block.rows), np.array(positive), count, first, value, element, excluded, like_probabilities
        )

    def _proven(self, block: Block) -> bool:
        """Whether the extremes that the block has collected prove all rows valid."""
        extremes = block.extremes
        if extremes is None or block.layout.vector or not extremes.regular:
            return False
        slack = self._slack(block.scores.dtype, block.layout.classes)
        fits = -self.tolerance <= float(extremes.lowest) and float(extremes.highest) <= 1 + self.tolerance
        return fits and float(extremes.furthest) <= self.sum_tolerance - slack

    @staticmethod
    def _slack(dtype: np.dtype[np.floating], classes: int) -> float:
        """Largest rounding error of the sum of a row, whose partial sums are at most about 1.

        Pieces of the row are added in the type of the scores, and sums of pieces as doubles.
        """
        piece, pieces = min(classes, checks.PIECE), -(-classes // checks.PIECE)
        return 2 * (piece + 2) * float(np.finfo(dtype).eps) + 2 * pieces * float(np.finfo(np.float64).eps)

    def _certain(self, dtype: np.dtype[np.floating], layout: Layout) -> tuple[np.floating | None, ...]:
        """Limits within which a quick check, in the type of the scores, proves rows valid; and a zero.

        Of scores, and of the difference of the sum of a row from 1, where there is one.
        """
        low, high = dtype.type(-self.tolerance), dtype.type(1 + self.tolerance)
        # Compared as Python floats: a comparison with float32 would round the other side too.
        low = low if float(low) >= -self.tolerance else np.nextafter(low, dtype.type(0))
        high = high if float(high) <= 1 + self.tolerance else np.nextafter(high, dtype.type(0))
        if layout.vector:
            return low, high, None, None
        # float32 is too coarse for a small tolerance.
        rough = self._slack(dtype, layout.classes) < self.sum_tolerance / 4
        total = np.dtype(dtype if rough else np.float64)
        return low, high, total.type(self.sum_tolerance - self._slack(total, layout.classes)), total.type(0)

    def merge(self, a: ValidityState, b: ValidityState) -> ValidityState:
        """Counts of both; the earlier first row."""
        earlier = a.first <= b.first
        return ValidityState(
            a.rows + b.rows,
            a.positive + b.positive,
            a.invalid + b.invalid,
            np.where(earlier, a.first, b.first),
            np.where(earlier, a.value, b.value),
            np.where(earlier, a.element, b.element),
            a.excluded + b.excluded,
            a.like_probabilities + b.like_probabilities,
        )


def _are_integers(labels: npt.NDArray[np.generic]) -> bool:
    return labels.dtype.kind in "biu"


def _are_whole(labels: npt.NDArray[np.generic]) -> npt.NDArray[np.bool_]:
    return np.asarray(labels == np.floor(labels))


def _label(block: Block, row: int) -> float:
    """The label that is no class, of the first batch element in which this row has one."""
    for b in range(block.layout.batch):
        weights, label = block.weights_of(b), float(block.labels[b % len(block.labels), row])
        counts = not (weights.size and weights[row] == 0.0)
        if counts and not (0 <= label < block.layout.classes and label == np.floor(label)):
            return label
    raise AssertionError("A row with an invalid label has one.")
