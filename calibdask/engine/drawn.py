"""Values that estimators take in replicates of stored histograms."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from calibdask.engine.interval_ends import GROUPS, Method
from calibdask.engine.plan import run
from calibdask.engine.stored import StoredSource
from calibdask.estimators.estimator import Estimate, Estimator, Part
from calibdask.estimators.gridded import Gridded, SmoothedEstimator
from calibdask.statistics.exact import Array
from calibdask.statistics.grid import merged_cells

__all__ = ["Drawing", "Drawn"]

# Replicates of states are held so many bytes at a time.
_BYTES_AT_ONCE = 1 << 27

# By the name of the part, each (replicates, batch, groups, ...).
Values = dict[str, Array]


class Drawn(NamedTuple):
    """What an estimator says of the data, and in replicates.

    Those of the rows; of a calibrated model with the same scores, and of the rows without one group at a time, where
    the method of the intervals needs them. Of calibration errors those of all columns, which are yet to be pooled.
    """

    centre: Estimate
    values: Values
    chance: Values
    left_out: Values


@dataclass(frozen=True)
class Drawing:
    """How many replicates are drawn, and for which method.

    Replicates that are ``kept`` are those of the same cells for all estimators, so that they belong together.
    """

    method: Method | None
    n_boot: int
    seed: int
    kept: bool = False

    def of(self, asked: Sequence[Estimator], source: StoredSource) -> list[Drawn]:
        """Of each estimator; smoothed ones, which take a grid of their own, one by one."""
        if self.kept:
            return self._together(asked, source)
        others = iter(self._together([each for each in asked if not isinstance(each, SmoothedEstimator)], source))
        return [self._smoothed(each, source) if isinstance(each, SmoothedEstimator) else next(others) for each in asked]

    def _together(self, asked: Sequence[Estimator], source: StoredSource) -> list[Drawn]:
        """What some estimators say of the same replicates."""
        if not asked:
            return []
        outcome = run(asked, source)
        size = source.bytes_of_a_replicate(outcome.states, by_cells=self.kept or self.method == "bca")
        at_once = max(1, _BYTES_AT_ONCE // max(1, size))

        def rows(some: range) -> StoredSource:
            return source.resampled(self.seed, some, by_cells=self.kept)

        def labels(some: range) -> StoredSource:
            return source.resampled(self.seed, some, calibrated=True, by_cells=self.kept)

        def groups(some: range) -> StoredSource:
            return source.left_out(self.seed, some)

        none: list[Values] = [{} for _ in asked]
        errors = [each if each.is_error else None for each in asked]
        wanted = self.method in (None, "corrected") and any(each is not None for each in errors)
        return [
            Drawn(*each)
            for each in zip(
                outcome.estimates,
                _values(asked, rows, self.n_boot, at_once),
                _values(errors, labels, self.n_boot, at_once) if wanted else none,
                _values(asked, groups, GROUPS, at_once) if self.method == "bca" else none,
                strict=True,
            )
        ]

    def _smoothed(self, estimator: SmoothedEstimator, source: StoredSource) -> Drawn:
        """Of one (batch, group) after the other, each on the coarsest grid that tells it, whatever suits the others."""
        layout = source.layout
        (fine,) = estimator.histograms(layout)
        centre = run((estimator,), source).estimates[0]
        whole, drawn = source.state(fine), []
        for place in np.ndindex(layout.batch, layout.groups):
            state = whole.of(lambda sums: sums[place][None, None], whole)  # noqa: B023 - called at once
            bandwidth = estimator.chosen_bandwidths(Gridded(fine.setting, fine.grid, state))
            coarser = estimator.on_fewer_cells(float(bandwidth.min()), fine.grid.low)
            (coarse,) = coarser.histograms(layout)
            merged = merged_cells(state, fine.grid, coarse.grid)
            here = replace(layout, batch=1, groups=1)
            one = StoredSource({coarse: lambda: merged}, here, source.rows)  # noqa: B023 - called in this round
            drawn.append(_shifted(self._together((coarser,), one)[0], centre, place))
        kinds = zip(*((each.values, each.chance, each.left_out) for each in drawn), strict=True)
        values, chance, left_out = (_side_by_side(each, (layout.batch, layout.groups)) for each in kinds)
        return Drawn(centre, values, chance, left_out)


def _values(
    asked: Sequence[Estimator | None], make: Callable[[range], StoredSource], count: int, at_once: int
) -> list[Values]:
    """Values of each part of each estimator in so many replicates, some of them at a time."""
    some = [range(at, min(count, at + at_once)) for at in range(0, count, at_once)]
    found = [_values_of_some(asked, make(each), len(each)) for each in some]
    return [_joined([values[place] for values in found], 0) for place in range(len(asked))]


def _values_of_some(asked: Sequence[Estimator | None], source: StoredSource, replicates: int) -> list[Values]:
    estimates = iter(run([each for each in asked if each is not None], source).estimates)

    def values(estimate: Estimate) -> Values:
        return {name: _by_replicate(_of(part), replicates) for name, part in estimate.items() if _varies(part)}

    return [{} if each is None else values(next(estimates)) for each in asked]


def _of(part: Part) -> Array:
    return part.values if part.columns is None else part.columns


def _varies(part: Part) -> bool:
    return part.role in ("number", "curve")


def _by_replicate(values: Array, replicates: int) -> Array:
    return values.reshape(replicates, -1, *values.shape[1:])


def _shifted(drawn: Drawn, centre: Estimate, place: tuple[int, ...]) -> Drawn:
    """Values less what the coarser grid makes of the data themselves, and plus what the finer one does."""
    shift = {name: _of(centre[name])[place] - _of(part) for name, part in drawn.centre.items() if _varies(part)}
    limits = {name: part.limits for name, part in drawn.centre.items()}

    def moved(values: Values) -> Values:
        return {name: np.clip(each + shift[name], *limits[name]) for name, each in values.items()}

    # A calibrated model has another curve: what the grid makes of it is not what it makes of the data.
    return Drawn(centre, moved(drawn.values), drawn.chance, moved(drawn.left_out))


def _side_by_side(values: Sequence[Values], shape: tuple[int, int]) -> Values:
    """Values of all (batch, group) in one array."""
    return {name: each.reshape(len(each), *shape, *each.shape[3:]) for name, each in _joined(values, 1).items()}


def _joined(values: Sequence[Values], axis: int) -> Values:
    return {name: np.concatenate([each[name] for each in values], axis) for name in values[0]}
