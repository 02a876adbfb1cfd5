"""Replicates of a data set drawn from its histograms, without its rows."""

from typing import Any

import numpy as np

from calibdask.engine.interval_ends import GROUPS
from calibdask.statistics.exact import Array
from calibdask.statistics.grid import Grid, GridState, scores_of_cells

__all__ = ["left_out", "resampled"]


def resampled(state: GridState, grid: Grid, seed: int, replicates: range, *, calibrated: bool = False) -> GridState:
    """Replicates of a state along its first axis: number r * batch + b for batch element b.

    Rows drawn with replacement are one multinomial draw over (cell, outcome); positions within become the mean of the
    cell. With weights: a Poisson number of rows in each (cell, outcome), all of one weight, such that the mean and the
    variance of their total are those of a Poisson bootstrap of the rows. Replicates that are ``calibrated`` have the
    same rows in each cell as the state, and outcomes drawn with the mean score of the cell for their probability.

    Random numbers are keyed by the seed, the replicate and the column alone: a model or a slice has the same interval
    in any company, for any chunking and any number of replicates at a time.
    """
    shape = (len(replicates), *state.mass.shape)
    mass, rows = np.zeros(shape, state.mass.dtype), np.zeros((len(replicates), *state.rows.shape), np.int64)
    offset, square = np.zeros(shape), np.zeros((len(replicates), *state.square.shape))
    for place in np.ndindex(state.mass.shape[:3]):
        column = _Column(GridState.of(lambda sums: sums[place], state), grid, calibrated)  # noqa: B023 - called at once
        for number, replicate in enumerate(replicates):
            at = (number, *place)
            drawn = column.draw(_generator(seed, (replicate, place[2], int(calibrated))))
            mass[at][column.filled] = drawn * column.unit if state.weighted else drawn
            offset[at][column.filled] = drawn * column.unit * column.position
            if state.weighted:
                square[at][column.filled] = drawn * column.unit**2
                rows[at][column.filled] = drawn
    return GridState.of(
        lambda each: each.reshape(each.shape[0] * each.shape[1], *each.shape[2:]), (mass, offset, square, rows)
    )


def left_out(state: GridState, seed: int, groups: range, of: int = GROUPS) -> GridState:
    """The state without one of ``of`` random groups of rows each, along the first axis as in `resampled`.

    The rows of a (cell, outcome) are dealt out to the groups at random; each takes its share of the sums along.
    """
    shape = (len(groups), *state.mass.shape)
    shares = np.zeros(shape)
    rows = np.asarray(state.rows if state.weighted else state.mass, np.int64)
    for place in np.ndindex(rows.shape[:3]):
        filled = np.nonzero(rows[place])
        dealt = _generator(seed, (place[2], 2)).multinomial(rows[place][filled], np.full(of, 1 / of))
        for number, group in enumerate(groups):
            shares[(number, *place)][filled] = dealt[:, group] / rows[place][filled]

    def kept(sums: Any) -> Any:
        left = sums - shares * sums if sums.shape[3] else np.zeros((len(groups), *sums.shape))
        if sums.dtype == np.int64:
            left = np.rint(left).astype(np.int64)
        return left.reshape(left.shape[0] * left.shape[1], *left.shape[2:])

    return GridState.of(kept, state)


class _Column:
    """The categories of one column that hold rows: cells by outcome, or cells whose outcome is drawn."""

    def __init__(self, state: GridState, grid: Grid, calibrated: bool) -> None:
        offset = state.distance
        self._weighted = state.weighted
        self._chance: Array | None = None
        mass, square = state.mass, state.square
        if calibrated:
            total, offset = mass.sum(-1), offset.sum(-1)
            filled = np.flatnonzero(total)
            self._chance = scores_of_cells(grid, offset / np.maximum(total, np.finfo(float).tiny))[filled]
            # Both outcomes of each cell, side by side.
            self.filled: tuple[Any, ...] = (np.r_[filled, filled], np.r_[filled * 0, filled * 0 + 1])
            mass, offset = np.tile(total[filled], 2), np.tile(offset[filled], 2)
            square = np.tile(square.sum(-1)[filled], 2) if state.weighted else square
        else:
            self.filled = np.nonzero(mass)
            mass, offset = mass[self.filled], offset[self.filled]
            square = square[self.filled] if state.weighted else square
        self._mass = mass
        self.position = offset / mass
        self.unit = square / mass if state.weighted else np.ones(mass.size)

    def draw(self, generator: np.random.Generator) -> Any:
        """Number of rows in each category."""
        if self._chance is not None:
            half = self._mass.size // 2
            there = np.rint(self._mass[:half] / self.unit[:half]).astype(np.int64)
            positive = generator.binomial(np.maximum(there, 1), self._chance)
            return np.r_[np.maximum(there, 1) - positive, positive]
        if self._weighted:
            return generator.poisson(self._mass / self.unit)
        rows = int(self._mass.sum())
        return generator.multinomial(rows, self._mass / rows) if rows else self._mass


def _generator(seed: int, coordinates: tuple[int, ...]) -> np.random.Generator:
    """The random numbers that belong to these coordinates."""
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=coordinates)))
