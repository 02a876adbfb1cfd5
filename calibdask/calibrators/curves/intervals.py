"""Intervals of calibrated probabilities: a curve for each end, of every column or of the confidence."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted

from calibdask.calibrators.curves.columns import ColumnCalibrator, ConfidenceMap, Curve
from calibdask.calibrators.fitted import Numbers
from calibdask.calibrators.mapping import RowMap, mapped_rows
from calibdask.statistics.exact import Array


class Interval(NamedTuple):
    """Ends of intervals, each of the shape of `Calibrator.predict_proba`."""

    low: Any
    high: Any


# The curves of the low and of the high ends of all columns.
EndCurves = tuple[tuple[Curve, ...], tuple[Curve, ...]]


def predicted_interval(
    calibrator: ColumnCalibrator, y_prob: Any, by: Any, curves: Callable[[Numbers], EndCurves]
) -> Interval:
    """Interval ends of all rows; ``curves`` computes the end curves of one slice from its numbers."""
    check_is_fitted(calibrator)
    ends = [curves(numbers) for numbers in calibrator._sliced.numbers_of_slices()]
    kind = _ConfidenceEnd if calibrator.setting == "confidence" else _ColumnEnd
    sides = (tuple(kind(low, high) for low, high in ends), tuple(kind(high, low) for low, high in ends))
    scores = calibrator._scores(y_prob, reset=False)
    codes = calibrator._sliced.codes(by, scores.shape[0])
    maps = (RowMap(side, logits=calibrator.logits) for side in sides)
    low, high = (mapped_rows(row_map, scores, y_prob, codes, calibrator.classes_) for row_map in maps)
    return Interval(low, high)


@dataclass(frozen=True)
class _ColumnEnd:
    """One end for all classes, in columns; class 0 of two gets 1 minus the other end of class 1."""

    curves: tuple[Curve, ...]
    others: tuple[Curve, ...]

    def __call__(self, scores: Array) -> Array:
        if len(self.curves) > 1:
            return np.stack([curve(scores[:, c]) for c, curve in enumerate(self.curves)], -1)
        positive = scores if scores.ndim == 1 else scores[:, 1]
        return np.stack([1 - self.others[0](positive), self.curves[0](positive)], -1)


@dataclass(frozen=True)
class _ConfidenceEnd:
    """One end of the largest score; the other classes share what its other end leaves."""

    curves: tuple[Curve, ...]
    others: tuple[Curve, ...]

    def __call__(self, scores: Array) -> Array:
        rows, top = np.arange(len(scores)), scores.argmax(-1)
        values = ConfidenceMap(self.others[0])(scores)
        values[rows, top] = self.curves[0](scores[rows, top])
        return values
