"""Totals of each slice: rows, events, mean score and frequency."""

from dataclasses import dataclass

import numpy as np
from typing_extensions import override

from calibdask.estimators.about import Description, PartInfo
from calibdask.estimators.estimator import Estimator
from calibdask.estimators.interval import NoInterval
from calibdask.estimators.parts import Estimate, FixedPart
from calibdask.statistics import exact
from calibdask.statistics.column_sums import ColumnSums
from calibdask.statistics.counts import RowCount
from calibdask.statistics.layout import Layout
from calibdask.statistics.request import Requests

# The names of the coordinates of a result.
TOTALS = ("rows", "events", "mean_score", "frequency")


@dataclass(frozen=True)
class SliceTotals(Estimator):
    """Rows, events, mean score and frequency of each slice, in the setting that metrics have by default.

    The event is y = 1 for a vector of scores, and the mean score that of P(y = 1). For a matrix the event is that the
    class with the largest score is the right one, and the mean score is the mean confidence. With weights, events are
    the sum of their weights, and both means are weighted; rows are counted.

    ``rows_only``: for a summary without a histogram of that setting.
    """

    rows_only: bool = False

    @override
    def describe(self, layout: Layout) -> Description:
        setting = layout.setting(None)
        score, event = ("confidence", "right predictions") if setting.kind == "confidence" else ("score", "events")
        by_weight = ", by weight" if layout.weighted else ""
        return {
            "rows": PartInfo("rows of positive weight" if layout.weighted else "rows", "count"),
            "events": PartInfo(event + by_weight, "count"),
            "mean_score": PartInfo(f"mean {score}{by_weight}", "statistic"),
            "frequency": PartInfo(f"frequency of {event}{by_weight}", "statistic"),
        }

    @override
    def interval(self, layout: Layout) -> NoInterval:
        return NoInterval()

    @override
    def estimate(self) -> Requests[Estimate]:
        if self.rows_only:
            return {"rows": FixedPart((yield from RowCount()).rows)}
        layout = yield from Layout()
        setting = layout.setting(None)
        sums = yield from ColumnSums(setting)
        weight, outcome, score = map(exact.value, sums[1:])
        with np.errstate(divide="ignore", invalid="ignore"):
            means = score / weight, outcome / weight
        events = outcome if layout.weighted else outcome.astype(np.int64)
        if setting.per_class:
            parts = [FixedPart(sums.rows[..., 0]), *(FixedPart(values, ("class",)) for values in (events, *means))]
        else:
            parts = [FixedPart(values[..., 0]) for values in (sums.rows, events, *means)]
        return dict(zip(TOTALS, parts, strict=True))
