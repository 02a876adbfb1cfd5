"""Where no outcome is unexpected, or all are equal: what resampled rows cannot show."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from typing_extensions import override

from calibdask.estimators.columns import SettingEstimator
from calibdask.estimators.estimator import Estimator
from calibdask.estimators.interval import NoInterval
from calibdask.estimators.parts import Estimate, FixedPart
from calibdask.estimators.without_interval import bare
from calibdask.statistics import exact
from calibdask.statistics.bins.bin_sums import BinSums
from calibdask.statistics.bins.edges import Edges
from calibdask.statistics.column_sums import ColumnSums
from calibdask.statistics.frozen import FrozenArray
from calibdask.statistics.layout import Layout
from calibdask.statistics.request import Requests
from calibdask.statistics.settings import Setting

# A score of exactly 1/2 is on neither side; in a histogram it is in the cell below.
_SIDES = Edges(FrozenArray(np.array([[[[0.0, np.nextafter(0.5, 0), 0.5, 1.0]]]])), uniform=False)
_HALVES = Edges(FrozenArray(np.array([[[[0.0, 0.5, 1.0]]]])), uniform=True)


def setting_of(metric: Estimator, layout: Layout) -> Setting:
    """The columns that a metric measures; of vectors of scores, or without a setting, the usual ones."""
    metric = bare(metric)
    setting = metric.measured(layout) if isinstance(metric, SettingEstimator) else layout.setting(None)
    return layout.setting(None) if setting.kind == "multiclass" else setting


@dataclass(frozen=True)
class ConstantOutcomes(Estimator):
    """Where resampled rows cannot show the outcomes that did not occur, by (batch, group, column).

    ``alike``: all outcomes are equal. ``right``: they differ, but no score is on the wrong side of 1/2. ``rows``: those
    of each slice, NaN with weights, as an outcome that did not occur may weigh anything.

    Parameters
    ----------
    setting : Setting
    sides : {"rows", "cells", "unknown"}
        What the sums on the sides of 1/2 are computed from; ``right`` is false if that is unknown.
    """

    setting: Setting
    sides: Literal["rows", "cells", "unknown"] = "rows"

    @override
    def interval(self, layout: Layout) -> NoInterval:
        return NoInterval()

    @override
    def estimate(self) -> Requests[Estimate]:
        layout = yield from Layout()
        is_known = self.sides != "unknown"
        if is_known:
            halves = yield from BinSums(self.setting, _SIDES if self.sides == "rows" else _HALVES)
            weight, outcome = exact.value(halves.weight), exact.value(halves.outcome)
            rows = np.asarray(halves.rows.sum(-1)[..., 0], np.float64)
        else:
            sums = yield from ColumnSums(self.setting)
            weight, outcome = (exact.value(of)[..., None] for of in (sums.weight, sums.outcome))
            rows = np.asarray(sums.rows[..., 0], np.float64)
        without, only = outcome <= 0, outcome >= weight
        has_rows = (weight > 0).any(-1)
        alike = np.asarray(has_rows & (without.all(-1) | only.all(-1)))
        has_sides = (weight[..., 0] > 0) | (weight[..., -1] > 0)
        is_right = has_sides & without[..., 0] & only[..., -1] if is_known else np.zeros_like(alike)
        return {
            "alike": FixedPart(alike, ("column",)),
            "right": FixedPart(np.asarray(is_right & ~alike), ("column",)),
            "rows": FixedPart(np.full(rows.shape, np.nan) if layout.weighted else rows),
        }
