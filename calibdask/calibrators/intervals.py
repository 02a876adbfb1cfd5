"""Intervals of calibrated probabilities: a curve for each end, of every column or of the confidence."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted

from calibdask.calibrators.columns import ColumnCalibrator, ConfidenceMap, Curve
from calibdask.calibrators.fitted import Numbers
from calibdask.calibrators.mapping import RowMap, mapped_rows
from calibdask.statistics.exact import Array


class Interval(NamedTuple):
    """Ends of intervals, each of the shape of `Calibrator.predict_proba`."""

    low: Any
    high: Any


class IntervalCalibrator(ColumnCalibrator):
    """A calibrator of each column of scores that knows intervals for its probabilities."""

    def _interval(self, y_prob: Any, by: Any, *options: Any) -> Interval:
        """The ends of all rows, from the curves of `_end_curves`."""
        check_is_fitted(self)
        # Low ends of class 0 are what high ends of class 1 leave, so that both maps need both curves.
        ends = [self._end_curves(numbers, *options) for numbers in self._sliced.numbers_of_slices()]
        kind = _ConfidenceEnd if self.setting == "confidence" else _ColumnEnd
        sides = (tuple(kind(low, high) for low, high in ends), tuple(kind(high, low) for low, high in ends))
        codes, scores = self._sliced.codes(by), self._scores(y_prob, reset=False)
        maps = (RowMap(side, logits=self.logits) for side in sides)
        low, high = (mapped_rows(row_map, scores, y_prob, codes, self.classes_) for row_map in maps)
        return Interval(low, high)

    def _end_curves(self, numbers: Numbers, *options: Any) -> tuple[tuple[Curve, ...], tuple[Curve, ...]]:
        """The curves of the low and of the high ends of all columns."""
        raise NotImplementedError


@dataclass(frozen=True)
class _ColumnEnd:
    """One end of all classes, in columns; of class 0 of two it is what the other end of class 1 leaves."""

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
