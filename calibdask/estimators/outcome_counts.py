"""How many rows of either outcome there are: what gates ask before intervals decide anything."""

from dataclasses import dataclass

import numpy as np
from typing_extensions import override

from calibdask.estimators.about import Description, PartInfo
from calibdask.estimators.columns import ColumnEstimator
from calibdask.estimators.estimator import Estimator
from calibdask.estimators.interval import NoInterval
from calibdask.estimators.parts import Estimate, FixedPart
from calibdask.estimators.sampling_variance import effective_rows_of_kinds, rarer_rows, rows_of_weight
from calibdask.statistics import exact
from calibdask.statistics.bins.bin_sums import BinSums
from calibdask.statistics.bins.binnings import BinEdges, Uniform
from calibdask.statistics.layout import Layout
from calibdask.statistics.request import Requests
from calibdask.statistics.settings import Setting
from calibdask.statistics.square_sums import with_squares

# So many rows for each effective one: weights have so long a tail that most data sets lack its largest rows, and with
# them the variance. At 90 % formulas held .80 to .86, of some weights .65; below that .84 or more where the weights of
# both outcomes are alike. Of uneven weights of the rarer outcome alone the rule knows nothing.
MOST_UNEVEN = 8


@dataclass(frozen=True, kw_only=True)
class OutcomeCounts(ColumnEstimator):
    """Rows of the rarer outcome, and the weight of a row of the heavier one.

    Parts: ``rarer``, rows with the outcome or without it, whichever are fewer, with weights as many as carry their
    information, which are never more; ``rows``, how many rows of the mean weight sum w**2 / sum w of the heavier
    outcome make the sum of the weights: without weights all rows; and ``unevenness``, how many rows there are for each
    that carries its information, 1 where the rows of each outcome have equal weights. With several columns the worst of
    each.
    """

    @override
    def describe(self, layout: Layout) -> Description:
        return {
            "rarer": PartInfo("rows of the rarer outcome", "count"),
            "rows": PartInfo("rows of the heavier outcome that weigh as much as all rows", "count"),
            "unevenness": PartInfo("rows for each effective row of their outcome", "statistic"),
        }

    @override
    def interval(self, layout: Layout) -> NoInterval:
        return NoInterval()

    @override
    def estimate(self) -> Requests[Estimate]:
        return (yield from outcome_counts(self.measured((yield from Layout()))))


@dataclass(frozen=True)
class SettingOutcomeCounts(Estimator):
    """The parts of `OutcomeCounts` for the columns of a setting."""

    setting: Setting

    @override
    def interval(self, layout: Layout) -> NoInterval:
        return NoInterval()

    @override
    def estimate(self) -> Requests[Estimate]:
        return outcome_counts(self.setting)


def outcome_counts(setting: Setting) -> Requests[Estimate]:
    """The parts of `OutcomeCounts` for the columns of a setting."""
    edges = yield from BinEdges(Uniform(1), setting)
    sums, squares = yield from with_squares(BinSums(setting, edges))
    weight, square, outcome, square_outcome = (
        exact.value(of)[..., 0] for of in (sums.weight, squares.weight, sums.outcome, squares.outcome)
    )
    kinds = (outcome, square_outcome), (weight - outcome, square - square_outcome)
    rows = np.fmin(*(rows_of_weight(weight, *kind) for kind in kinds))
    rarer, effective = rarer_rows(weight, square, outcome, square_outcome), effective_rows_of_kinds(*kinds)
    with np.errstate(divide="ignore", invalid="ignore"):
        unevenness = sums.rows[..., 0] / effective
    return {
        "rarer": FixedPart(rarer.min(-1)),
        "rows": FixedPart(rows.min(-1)),
        "unevenness": FixedPart(np.asarray(unevenness.max(-1))),
    }
