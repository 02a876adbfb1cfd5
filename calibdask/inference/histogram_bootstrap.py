"""The bootstrap of histograms: values of estimators in replicates, at a cost independent of the number of rows."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from calibdask.engine.plan import run
from calibdask.engine.sources.summary import SummarySource
from calibdask.estimators.estimator import Estimator
from calibdask.estimators.interval import FromHistograms
from calibdask.estimators.parts import Curve, Estimate, Number
from calibdask.estimators.smooth.gridded import Gridded
from calibdask.inference.methods import Method, NumberReplicates
from calibdask.statistics.bins.grid import merged_cells
from calibdask.statistics.exact import Array
from calibdask.statistics.replicates.histograms import GROUPS

__all__ = ["HistogramBootstrap", "Replicates"]

# Replicates of states are stored up to this number of bytes at a time.
_BYTES_AT_ONCE = 1 << 27

# Part name -> values (replicates, batch, groups, ...).
Values = Mapping[str, Array]


@dataclass(frozen=True)
class Replicates:
    """An estimate, and the values of its parts in replicates of the data.

    ``values`` of resampled rows; ``by_chance`` of a calibrated model with the same scores, and ``left_out`` of the rows
    without one group at a time, where the method of the intervals needs them. For calibration errors the values
    of all columns, before pooling.
    """

    centre: Estimate
    values: Values
    by_chance: Values = field(default_factory=dict)
    left_out: Values = field(default_factory=dict)

    def of(self, name: str) -> NumberReplicates:
        """The replicates of one part, pooled over columns."""
        part = self.centre[name]
        # Among estimators that resample histograms only calibration errors have columns to pool.
        by_chance = self.by_chance.get(name) if part.resampled is not part.values else None
        left_out = self.left_out.get(name)
        return NumberReplicates(
            part.pooled(self.values[name]),
            part.values,
            "histogram",
            None if by_chance is None else part.pooled(by_chance),
            None if left_out is None else part.pooled(left_out),
        )


@dataclass(frozen=True)
class HistogramBootstrap:
    """The number of replicates, their seed, and the method of the intervals.

    With ``kept``, all estimators share the same resampled cells, so that their replicates are paired.
    """

    method: Method | None
    n_boot: int
    seed: int
    kept: bool = False

    def of(self, records: Mapping[str, FromHistograms], source: SummarySource) -> dict[str, Replicates]:
        """The replicates of each estimator; those with a coarser grid of their own are computed separately."""
        if self.kept:
            return self._together(records, source)
        shared = self._together({name: record for name, record in records.items() if not record.coarsened}, source)
        return {
            name: shared[name] if name in shared else self._coarsened(record, source)
            for name, record in records.items()
        }

    def _together(self, records: Mapping[str, FromHistograms], source: SummarySource) -> dict[str, Replicates]:
        """The values of several estimators in the same replicates."""
        if not records:
            return {}
        estimators = {name: record.for_replicates for name, record in records.items()}
        outcome = run(estimators, source)
        size = source.bytes_of_a_replicate(outcome.states, by_cells=self.kept or self.method == "bca")
        batch_size = max(1, _BYTES_AT_ONCE // max(1, size))

        def rows(replicates: range) -> SummarySource:
            return source.resampled(self.seed, replicates, by_cells=self.kept)

        def labels(replicates: range) -> SummarySource:
            return source.resampled(self.seed, replicates, calibrated=True, by_cells=self.kept)

        def groups(numbers: range) -> SummarySource:
            return source.left_out(self.seed, numbers)

        errors = {name: estimators[name] for name, record in records.items() if record.by_chance}
        values = _values(estimators, rows, self.n_boot, batch_size)
        by_chance = _values(errors, labels, self.n_boot, batch_size) if self.method in (None, "corrected") else {}
        left_out = _values(estimators, groups, GROUPS, batch_size) if self.method == "bca" else {}
        return {
            name: Replicates(estimate, values[name], by_chance.get(name, {}), left_out.get(name, {}))
            for name, estimate in outcome.estimates.items()
        }

    def _coarsened(self, record: FromHistograms, source: SummarySource) -> Replicates:
        """Replicates of each (batch, group) separately, on the coarsest grid that suffices for it."""
        layout = source.layout
        (fine,) = record.histograms
        centre = run({"": record.for_replicates}, source).estimates[""]
        whole, replicates = source.state(fine), []
        for position in np.ndindex(layout.batch, layout.groups):
            state = whole.of(lambda sums: sums[position][None, None], whole)  # noqa: B023 - called at once
            assert record.coarsened is not None
            coarser = record.coarsened(Gridded(fine.setting, fine.grid, state))
            (coarse,) = coarser.histograms
            merged = merged_cells(state, fine.grid, coarse.grid)
            here = replace(layout, batch=1, groups=1)
            one = SummarySource({coarse: lambda: merged}, here, source.rows)  # noqa: B023 - called in this round
            replicates.append(_shifted(self._together({"": coarser}, one)[""], centre, position))
        shape = (layout.batch, layout.groups)
        return Replicates(
            centre,
            _assembled([stratum.values for stratum in replicates], shape),
            _assembled([stratum.by_chance for stratum in replicates], shape),
            _assembled([stratum.left_out for stratum in replicates], shape),
        )


def _values(
    estimators: Mapping[str, Estimator], make: Callable[[range], SummarySource], count: int, batch_size: int
) -> dict[str, Values]:
    """Values of each part of each estimator in ``count`` replicates, computed in batches."""
    if not estimators:
        return {}
    ranges = [range(start, min(count, start + batch_size)) for start in range(0, count, batch_size)]
    pieces = [_values_of_range(estimators, make(replicates), len(replicates)) for replicates in ranges]
    return {name: _joined([piece[name] for piece in pieces], 0) for name in estimators}


def _values_of_range(estimators: Mapping[str, Estimator], source: SummarySource, replicates: int) -> dict[str, Values]:
    estimates = run(estimators, source).estimates
    return {
        name: {
            part_name: part.resampled.reshape(replicates, -1, *part.resampled.shape[1:])
            for part_name, part in estimate.items()
            if part.is_estimated
        }
        for name, estimate in estimates.items()
    }


def _shifted(replicates: Replicates, centre: Estimate, position: tuple[int, ...]) -> Replicates:
    """Replicates shifted by the difference between the estimates on the finer and on the coarser grid."""
    parts = {name: part for name, part in replicates.centre.items() if isinstance(part, Number | Curve)}
    shift = {name: centre[name].resampled[position] - part.resampled for name, part in parts.items()}

    def moved(values: Values) -> Values:
        return {name: np.clip(column + shift[name], *parts[name].limits) for name, column in values.items()}

    # Replicates of a calibrated model have a different curve, to which this difference does not apply.
    return Replicates(centre, moved(replicates.values), replicates.by_chance, moved(replicates.left_out))


def _assembled(values: Sequence[Values], shape: tuple[int, int]) -> Values:
    """Values of all (batch, group) joined into one array."""
    joined = _joined(values, 1)
    return {name: column.reshape(len(column), *shape, *column.shape[3:]) for name, column in joined.items()}


def _joined(values: Sequence[Values], axis: int) -> Values:
    return {name: np.concatenate([piece[name] for piece in values], axis) for name in values[0]}
