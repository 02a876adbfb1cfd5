"""Calibrators of one score: a curve for each column, of binary scores, of the confidence or of every class."""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from calibdask.calibrators.base import Calibrator
from calibdask.calibrators.fitted import Numbers, padded
from calibdask.calibrators.mapping import BlockMap
from calibdask.estimators.ordered.score_points import ScorePoints
from calibdask.estimators.regression.column_points import MOST_ROWS, ColumnPoints, Undetermined, column_points
from calibdask.statistics.exact import Array
from calibdask.statistics.layout import Layout
from calibdask.statistics.request import Requests
from calibdask.statistics.settings import Setting

# From scores (n,) to calibrated ones; picklable.
Curve = Callable[[Array], Array]
# Sums of a row up to this are what rounding leaves of 0.
_ZERO_SUM = 1e-9


class ColumnCalibrator(Calibrator):
    """A calibrator whose map is a curve for each column of scores.

    ``setting`` chooses the columns: ``"classwise"``, the default, each class by itself and rows divided by their sums
    (of two classes P(y = 1) alone); ``"confidence"``, the largest score, the others keeping their proportions.
    """

    by_column: ClassVar[bool] = True

    setting: Literal["classwise", "confidence"] | None

    def _setting(self, layout: Layout) -> Setting:
        if self.setting not in (None, "classwise", "confidence"):
            raise ValueError(f"setting expects 'classwise', 'confidence' or None, got {self.setting!r}.")
        if self.setting == "confidence" and not layout.vector:
            return layout.setting("confidence")
        if self.setting == "confidence":
            raise ValueError("setting='confidence' expects a matrix of scores, got a vector of P(y = 1).")
        return super()._setting(layout)

    @abstractmethod
    def _curve(self, numbers: Numbers) -> Curve:
        """The curve of one column."""

    def _map(self, numbers: Numbers) -> BlockMap:
        columns = len(next(iter(numbers.values())))
        curves = tuple(
            self._curve({name: values[column] for name, values in numbers.items()}) for column in range(columns)
        )
        known = next(iter(numbers.values())).reshape(columns, -1)
        curves = tuple(_unchanged if np.isnan(known[c]).all() else curve for c, curve in enumerate(curves))
        return ConfidenceMap(curves[0]) if self.setting == "confidence" else ColumnMap(curves)


class PointsCalibrator(ColumnCalibrator):
    """A calibrator of one score that is fitted to the rows and outcomes at each score."""

    # Whether the rows of a cell of a grid, where scores are not known one by one, are two points, one of each outcome.
    by_outcome: ClassVar[bool] = False

    @abstractmethod
    def _fit_points(self, points: ColumnPoints) -> dict[str, Any]:
        """The numbers of one column; arrays of one dimension may differ in length from column to column.

        Raises
        ------
        Undetermined
            If the rows do not determine the map; of slices, it is that of all rows then.
        """

    def _check(self) -> None:
        """Check the parameters."""

    def _requests(self) -> Requests[Numbers]:
        self._check()
        layout = yield from Layout()
        points = yield from ScorePoints(self._setting(layout), MOST_ROWS, self.by_outcome)
        clip = layout.smallest_normal
        fits = {}
        for index, at in points.strata():
            column = column_points(points, at, clip)
            if not 0 < column.outcome.sum() < column.weight.sum():
                continue
            try:
                fits[index] = {name: np.asarray(value, float) for name, value in self._fit_points(column).items()}
            except Undetermined as error:
                if layout.groups == 1:
                    raise ValueError(f"{type(self).__name__} expects {error}.") from None
        return _together(fits, points.shape)


def _together(fits: dict[Any, dict[str, Array]], shape: tuple[int, int, int]) -> Numbers:
    """Numbers by (slice, column, ...); NaN where there is no fit, lists of knots filled up by their last one.

    Without any fit there are none.
    """
    numbers: dict[str, Array] = {}
    for name in next(iter(fits.values()), ()):
        longest = np.max([fit[name].shape for fit in fits.values()], axis=0)
        values = np.full((*shape, *longest), np.nan)
        for index, fit in fits.items():
            values[index] = padded(fit[name], longest)
        numbers[name] = values[0]
    return numbers


def _unchanged(scores: Array) -> Array:
    return scores


@dataclass(frozen=True)
class ColumnMap:
    """A curve of P(y = 1), or one of each class, after which rows are divided by their sums (equal where that is 0)."""

    curves: tuple[Curve, ...]

    def __call__(self, scores: Array) -> Array:
        """Calibrated scores."""
        if len(self.curves) == 1:
            positive = self.curves[0](scores if scores.ndim == 1 else scores[:, 1])
            return positive if scores.ndim == 1 else np.stack([1 - positive, positive], -1)
        values = np.stack([curve(scores[:, c]) for c, curve in enumerate(self.curves)], -1)
        sums = values.sum(-1, keepdims=True)
        positive = sums > _ZERO_SUM
        return np.where(positive, values / np.where(positive, sums, 1.0), 1 / values.shape[-1])


@dataclass(frozen=True)
class ConfidenceMap:
    """A curve of the largest score (the lowest class of equal ones); the others share the rest in proportion."""

    curve: Curve

    def __call__(self, scores: Array) -> Array:
        """Calibrated scores."""
        rows, top = np.arange(len(scores)), scores.argmax(-1)
        confidence = scores[rows, top]
        calibrated = self.curve(confidence)
        rest = scores.sum(-1) - confidence
        values = scores * np.divide(1 - calibrated, rest, out=np.zeros_like(rest), where=rest > 0)[:, None]
        # Where the others are 0 they share the rest equally.
        alone = rest <= 0
        values[alone] = ((1 - calibrated[alone]) / (scores.shape[-1] - 1))[:, None]
        values[rows, top] = calibrated
        return values
