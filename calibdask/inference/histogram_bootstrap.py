"""The bootstrap of histograms: values of estimators in replicates, at a cost independent of the number of rows."""

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from calibdask.engine import workers
from calibdask.engine.plan import run
from calibdask.engine.sources.summary import SummarySource
from calibdask.estimators.interval import Estimating, FromHistograms
from calibdask.estimators.parts import Estimate, estimated
from calibdask.estimators.smooth.gridded import Gridded
from calibdask.inference.choice import IntervalChoice
from calibdask.inference.methods import NumberReplicates
from calibdask.statistics.bins.bin_sums import BinSums
from calibdask.statistics.bins.grid import GridState, merged_cells
from calibdask.statistics.exact import Array
from calibdask.statistics.replicates.bins import AT_ONCE
from calibdask.statistics.replicates.histograms import GROUPS

# Replicates of states are stored up to this number of bytes at a time, on all threads together, and on each of them up
# to a number that the caches of processors hold.
_BYTES_AT_ONCE = 1 << 27
_BYTES_OF_A_THREAD = 1 << 23

# Part name -> values (replicates, batch, groups, ...).
Values = Mapping[str, Array]


@dataclass(frozen=True)
class Replicates:
    """An estimate, and the values of its parts in replicates of the data, by the field of `NumberReplicates`.

    For calibration errors the values of all columns, before pooling.
    """

    centre: Estimate
    fields: Mapping[str, Values]

    def of(self, name: str) -> NumberReplicates:
        """The replicates of one part, pooled over columns."""
        number = estimated(self.centre)[name]
        pooled = {
            field: number.pooled(values[name])
            for field, values in self.fields.items()
            # Of estimators that resample histograms only calibration errors start at 0 by chance.
            if field != "by_chance" or number.kind == "error"
        }
        return NumberReplicates(centre=number.values, resampled="histogram", **pooled)


@dataclass(frozen=True)
class HistogramBootstrap:
    """Bootstrap of histograms; estimators share the resampled cells of kept replicates."""

    choice: IntervalChoice

    def of(
        self, records: Mapping[str, FromHistograms], source: SummarySource, by_chance: Set[str]
    ) -> dict[str, Replicates]:
        """The replicates of each estimator; those with a coarser grid of their own are computed separately."""
        if self.choice.keep:
            return self._together(records, source, by_chance)
        together = {name: record for name, record in records.items() if not record.coarsened}
        shared: dict[str, Replicates] = {}
        for some in _split_by_draws(together, source):
            shared |= self._together(some, source, by_chance)
        return {
            name: shared[name] if name in shared else self._coarsened(name, record, source, by_chance)
            for name, record in records.items()
        }

    def _together(
        self, records: Mapping[str, FromHistograms], source: SummarySource, by_chance: Set[str]
    ) -> dict[str, Replicates]:
        """Replicates of several estimators from shared draws; for ``by_chance`` also under calibration."""
        if not records:
            return {}
        estimators = {name: record.for_replicates for name, record in records.items()}
        outcome = run(estimators, source)
        size = source.bytes_of_a_replicate(outcome.states, by_cells=self.choice.keep)
        resampled = partial(source.resampled, self.choice.seed, by_cells=self.choice.keep)
        drawn = {"values": _values(estimators, resampled, self.choice.n_boot, size)}
        if self.choice.method in (None, "corrected"):
            errors = {
                name: record.by_chance(outcome.estimates[name]) for name, record in records.items() if name in by_chance
            }
            drawn["by_chance"] = _values(errors, partial(resampled, calibrated=True), self.choice.n_boot, size)
        if self.choice.method == "bca":
            size = source.bytes_of_a_replicate(outcome.states, by_cells=True)
            # Each call deals the rows of all cells to all groups: fewer calls.
            of_a_thread = _BYTES_AT_ONCE // (2 * workers.number_of_threads())
            left_out = partial(source.left_out, self.choice.seed)
            drawn["left_out"] = _values(estimators, left_out, GROUPS, size, of_a_thread)
        return {
            name: Replicates(estimate, {field: values[name] for field, values in drawn.items() if name in values})
            for name, estimate in outcome.estimates.items()
        }

    def _coarsened(self, name: str, record: FromHistograms, source: SummarySource, by_chance: Set[str]) -> Replicates:
        """Replicates of each (batch, group) separately, on the coarsest grid that suffices for it."""
        layout = source.layout
        (fine,) = record.histograms
        centre = run({"": record.for_replicates}, source).estimates[""]
        whole, replicates = source.state(fine), []
        assert record.coarsened is not None
        for position in np.ndindex(layout.batch, layout.groups):
            state = whole.part(tuple(slice(at, at + 1) for at in position))
            coarser = record.coarsened(Gridded(fine.setting, fine.grid, state))
            (coarse,) = coarser.histograms
            merged = merged_cells(state, fine.grid, coarse.grid)
            here = replace(layout, batch=1, groups=1)
            one = SummarySource({coarse: partial(GridState, *merged)}, here, source.rows)
            replicates.append(_shifted(self._together({name: coarser}, one, by_chance)[name], centre, position))
        shape = (layout.batch, layout.groups)
        fields = {
            field: _assembled([stratum.fields[field] for stratum in replicates], shape)
            for field in replicates[0].fields
        }
        return Replicates(centre, fields)


def _split_by_draws(
    records: Mapping[str, FromHistograms], source: SummarySource
) -> tuple[Mapping[str, FromHistograms], ...]:
    """Split estimators into those that need only drawn bin sums and those that need drawn cells.

    Replicates of sums have fewer bytes and, as each is drawn after those before it, cost least many at a time.
    """
    if source.layout.weighted or len(records) < 2:
        return (records,)
    asked = {name: run({"": record.for_replicates}, source).states for name, record in records.items()}
    cells = {name for name, states in asked.items() if any(not isinstance(asked_for, BinSums) for asked_for in states)}
    return tuple({name: record for name, record in records.items() if (name in cells) == of} for of in (False, True))


def _values(
    estimators: Mapping[str, Estimating],
    make: Callable[[range], SummarySource],
    count: int,
    size: int,
    of_a_thread: int = _BYTES_OF_A_THREAD,
) -> dict[str, Values]:
    """Values of each part of each estimator in ``count`` replicates, whose states have ``size`` bytes each."""
    if not estimators:
        return {}
    together = _whole_parts(AT_ONCE, min(of_a_thread // max(1, size), -(-count // workers.number_of_threads())))
    ranges = [range(start, min(count, start + together)) for start in range(0, count, together)]
    jobs = (partial(_values_of_range, estimators, make, replicates) for replicates in ranges)
    pieces = workers.in_parallel(jobs, max(1, _BYTES_AT_ONCE // max(1, size * together)))
    return {name: _joined([piece[name] for piece in pieces], 0) for name in estimators}


def _whole_parts(of: int, most: int) -> int:
    """The largest number up to ``most`` that divides ``of``; 1 at least."""
    return next((number for number in range(min(of, most), 1, -1) if of % number == 0), 1)


def _values_of_range(
    estimators: Mapping[str, Estimating], make: Callable[[range], SummarySource], replicates: range
) -> dict[str, Values]:
    estimates = run(estimators, make(replicates)).estimates
    return {
        name: {
            part: number.resampled.reshape(len(replicates), -1, *number.resampled.shape[1:])
            for part, number in estimated(estimate).items()
        }
        for name, estimate in estimates.items()
    }


def _shifted(replicates: Replicates, centre: Estimate, position: tuple[int, ...]) -> Replicates:
    """Replicates shifted by the difference between the estimates on the finer and on the coarser grid."""
    parts, fine = estimated(replicates.centre), estimated(centre)
    shift = {name: fine[name].resampled[position] - part.resampled for name, part in parts.items()}

    def moved(values: Values) -> Values:
        return {name: np.clip(column + shift[name], *parts[name].limits) for name, column in values.items()}

    # Replicates of a calibrated model have a different curve, to which this difference does not apply.
    moves = {field: values if field == "by_chance" else moved(values) for field, values in replicates.fields.items()}
    return Replicates(centre, moves)


def _assembled(values: Sequence[Values], shape: tuple[int, int]) -> Values:
    """Values of all (batch, group) joined into one array."""
    joined = _joined(values, 1)
    return {name: column.reshape(len(column), *shape, *column.shape[3:]) for name, column in joined.items()}


def _joined(values: Sequence[Values], axis: int) -> Values:
    return {name: np.concatenate([piece[name] for piece in values], axis) for name in values[0]}
