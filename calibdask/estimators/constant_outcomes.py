"""Where all rows have the outcome, or none: what resampled rows cannot show."""

from dataclasses import dataclass

import numpy as np
from typing_extensions import override

from calibdask.estimators.columns import SettingEstimator
from calibdask.estimators.estimator import Estimator
from calibdask.estimators.interval import NoInterval
from calibdask.estimators.parts import Estimate, FixedPart
from calibdask.estimators.without_interval import bare
from calibdask.statistics import exact
from calibdask.statistics.column_sums import ColumnSums
from calibdask.statistics.layout import Layout
from calibdask.statistics.request import Requests
from calibdask.statistics.settings import Setting


def setting_of(metric: Estimator, layout: Layout) -> Setting:
    """The columns that a metric measures; of vectors of scores, or without a setting, the usual ones."""
    metric = bare(metric)
    setting = metric.measured(layout) if isinstance(metric, SettingEstimator) else layout.setting(None)
    return layout.setting(None) if setting.kind == "multiclass" else setting


@dataclass(frozen=True)
class ConstantOutcomes(Estimator):
    """Whether all outcomes of each column are alike, and the rows of each slice, NaN with weights.

    With weights the outcome that did not occur may weigh anything.
    """

    setting: Setting

    @override
    def interval(self, layout: Layout) -> NoInterval:
        return NoInterval()

    @override
    def estimate(self) -> Requests[Estimate]:
        layout = yield from Layout()
        sums = yield from ColumnSums(self.setting)
        weight, outcome = exact.value(sums.weight), exact.value(sums.outcome)
        rows = np.asarray(sums.rows[..., 0], np.float64)
        alike = (weight > 0) & ((outcome <= 0) | (outcome >= weight))
        return {
            "alike": FixedPart(alike, ("column",)),
            "rows": FixedPart(np.full(rows.shape, np.nan) if layout.weighted else rows),
        }
