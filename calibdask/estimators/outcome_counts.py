"""How many rows of either outcome there are: what gates ask before intervals decide anything."""

from dataclasses import dataclass

import numpy as np
from typing_extensions import override

from calibdask.estimators.about import Description, PartInfo
from calibdask.estimators.columns import ColumnEstimator
from calibdask.estimators.estimator import Estimator
from calibdask.estimators.interval import NoInterval
from calibdask.estimators.parts import Estimate, FixedPart
from calibdask.estimators.sampling_variance import rarer_rows, rest_of, rows_for_each, rows_of_weight
from calibdask.statistics import exact
from calibdask.statistics.bins.bin_sums import BinSums
from calibdask.statistics.bins.binnings import BinEdges, Uniform
from calibdask.statistics.exact import Array
from calibdask.statistics.layout import Layout
from calibdask.statistics.outcome_sums import OutcomeRows
from calibdask.statistics.prefetch import Prefetch
from calibdask.statistics.request import Requests
from calibdask.statistics.settings import Setting
from calibdask.statistics.square_sums import with_squares

# So many rows of an outcome for each effective one, or so few of unequal weight that carry it: the largest weights
# decide the numbers, and other data sets lack them. At 90 % formulas held .65 to .86 above the first.
MOST_UNEVEN = 8
FEWEST_EFFECTIVE, _UNEQUAL = 4, 1.5
# Beyond these, data cannot show whether there are larger weights that they lack. Intervals of O:E at 90 %, with weights
# of events that have tails of index 1.2, 1.5 and 2, missed in up to .49, .21 and .12 of data sets; without a note in
# .06, .14 and .09 from 20 expected events on.
_EVEN, _MANY_EFFECTIVE, _ALIKE = 2.0, 20, 1.1


@dataclass(frozen=True, kw_only=True)
class OutcomeCounts(ColumnEstimator):
    """Rows of the rarer outcome, and the weight of a row of the heavier one.

    Parts: ``rarer``, rows with the outcome or without it, whichever are fewer, with weights as many as carry their
    information, which are never more; ``rows``, how many rows of the mean weight sum w**2 / sum w of the heavier
    outcome make the sum of the weights: without weights all rows; and ``unevenness``, how many rows of an outcome there
    are for each that carries its information, of the outcome where there are more: 1 where the rows of each outcome
    have equal weights, and infinite where a few of unequal weight carry the outcome; and ``doubtful``, 1 where weights
    of an outcome are so unequal, or so few, that larger ones may be missing. With several columns the worst of each.
    """

    @override
    def describe(self, layout: Layout) -> Description:
        return {
            "rarer": PartInfo("rows of the rarer outcome", "count"),
            "rows": PartInfo("rows of the heavier outcome that weigh as much as all rows", "count"),
            "unevenness": PartInfo("rows for each effective row of their outcome", "statistic"),
            "doubtful": PartInfo("whether larger weights may be missing", "count"),
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
    request = BinSums(setting, edges)
    yield from Prefetch(OutcomeRows(setting))
    sums, squares = yield from with_squares(request)
    counts = yield from OutcomeRows(setting)
    weight, square, outcome, square_outcome = (
        exact.value(of)[..., 0] for of in (sums.weight, squares.weight, sums.outcome, squares.outcome)
    )
    kinds = (outcome, square_outcome), (rest_of(weight, outcome), rest_of(square, square_outcome))
    rows = np.fmin(*(rows_of_weight(weight, *kind) for kind in kinds))
    rarer, (counted, events) = rarer_rows(weight, square, outcome, square_outcome), map(exact.value, counts)
    numbers = events, counted - events
    unevenness, doubtful = zip(*(_weights(*of) for of in zip(numbers, kinds, strict=True)), strict=True)
    return {
        "rarer": FixedPart(rarer.min(-1)),
        "rows": FixedPart(rows.min(-1)),
        "unevenness": FixedPart(np.asarray(np.fmax(*unevenness).max(-1))),
        "doubtful": FixedPart(np.asarray(np.fmax(*doubtful).max(-1))),
    }


def _weights(rows: Array, sums: tuple[Array, Array]) -> tuple[Array, Array]:
    """The unevenness of the weights of one outcome, and 1 where larger ones may be missing, else 0."""
    unevenness = rows_for_each(rows, *sums)
    with np.errstate(divide="ignore", invalid="ignore"):
        effective = rows / unevenness
        is_carried_by_few = (unevenness > _UNEQUAL) & (effective < FEWEST_EFFECTIVE)
        doubtful = (unevenness > _EVEN) | ((unevenness > _ALIKE) & (effective < _MANY_EFFECTIVE))
    return np.where(is_carried_by_few, np.inf, unevenness), np.asarray(doubtful, np.float64)
