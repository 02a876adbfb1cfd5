"""Numbers fitted to the rows of each column of scores, slice by slice, with the reasons where there are none."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from calibdask.estimators.ordered.score_points import ScorePoints
from calibdask.estimators.regression.column_points import MOST_ROWS, ColumnPoints, Undetermined, column_points
from calibdask.statistics.exact import Array
from calibdask.statistics.layout import Layout
from calibdask.statistics.request import Requests
from calibdask.statistics.settings import Setting

ALIKE = "all outcomes are equal"
SEPARATED = "a score separates the outcomes, so that the likelihood has no maximum"

# Numbers of one column by name, and why some are missing, if they are.
Fit = Callable[[ColumnPoints], tuple[Mapping[str, Any], str]]


class ColumnNumbers(NamedTuple):
    """Numbers by (batch, group, column, ...), NaN where there are none, and notes on them."""

    values: Mapping[str, Array]
    notes: Mapping[str, Any]


def column_numbers(setting: Setting, shapes: Mapping[str, tuple[int, ...]], fit: Fit) -> Requests[ColumnNumbers]:
    """The numbers of ``fit``, of these shapes, for the rows of each column.

    Beside them it returns why some are missing, which becomes the note ``undefined``; ``clipped_logits`` is the weight
    of the rows whose logits are clipped.
    """
    layout = yield from Layout()
    points = yield from ScorePoints(setting, MOST_ROWS, by_outcome=True)
    values = {name: np.full((*points.shape, *shape), np.nan) for name, shape in shapes.items()}
    reasons: dict[str, int] = {}
    clipped = 0.0
    for index, at in points.strata():
        column = column_points(points, at, layout.smallest_normal)
        clipped += column.clipped
        numbers, reason = _fitted(column, fit)
        for name, value in numbers.items():
            values[name][index] = value
        if reason:
            reasons[reason] = reasons.get(reason, 0) + 1
    notes = {**points.notes, **undefined(reasons, int(np.prod(points.shape)))}
    if clipped:
        notes["clipped_logits"] = clipped
    return ColumnNumbers(values, notes)


def _fitted(column: ColumnPoints, fit: Fit) -> tuple[Mapping[str, Any], str]:
    if not 0 < column.outcome.sum() < column.weight.sum():
        return {}, ALIKE
    try:
        return fit(column)
    except Undetermined:
        return {}, "scores differ by no more than rounding"


def undefined(reasons: Mapping[str, int], columns: int, noun: str = "columns of scores") -> dict[str, str]:
    """Note that explains missing numbers, and in how many columns (or ``noun``) they are missing.

    Examples
    --------
    >>> undefined({"all outcomes are equal": 1}, 1), undefined({"all outcomes are equal": 2}, 5), undefined({}, 1)
    ({'undefined': 'all outcomes are equal'}, {'undefined': 'all outcomes are equal (2 of 5 columns of scores)'}, {})
    """
    if not reasons:
        return {}
    counted = (
        reason + (f" ({count} of {columns} {noun})" if columns > 1 else "") for reason, count in sorted(reasons.items())
    )
    return {"undefined": "; ".join(counted)}
