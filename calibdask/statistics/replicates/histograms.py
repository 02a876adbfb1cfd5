"""Replicates of a data set drawn from its histograms, without its rows."""

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from calibdask.kernels import cell_draws
from calibdask.statistics.bins.grid import Grid, GridState, scores_of_cells
from calibdask.statistics.exact import Array, Counts
from calibdask.statistics.keyed_random import philox_key

Key = npt.NDArray[np.uint64]
# Standard deviations that Poisson counts are meant to fall short of the rows by.
_SHORT = 2.0
# Rows of a cell that take the time of a Poisson count to draw.
_MANY = 2
# So few rows that fewer than none would be meant.
_ALWAYS_ONE_BY_ONE = 16


class PoissonCounts:
    """Independent Poisson counts of positive means, of the cells with these numbers."""

    def __init__(self, means: Array, cells: Counts, key: Key) -> None:
        self._laws = np.empty((cell_draws.FIELDS, means.size))
        cell_draws.poisson_laws(means, self._laws)
        self._cells, self._key = cells, key

    def draw(self, replicates: range, stage: int = 0) -> Counts:
        """The counts, (replicates, cells)."""
        counts = np.empty((len(replicates), self._cells.size), np.int64)
        cell_draws.draw_counts(self._laws, self._cells, replicates.start, stage, self._key, counts)
        return counts


class BinomialCounts:
    """How many of the rows of each cell are positive, of these chances."""

    def __init__(self, rows: Counts, chances: Array, cells: Counts, key: Key) -> None:
        self._laws = np.empty((cell_draws.FIELDS, rows.size))
        cell_draws.binomial_laws(rows.astype(np.float64), np.minimum(chances, 1.0 - chances), self._laws)
        self._rows, self._rare, self._cells, self._key = rows, chances <= 0.5, cells, key

    def draw(self, replicates: range) -> Counts:
        """The counts, (replicates, cells)."""
        rarer = np.empty((len(replicates), self._cells.size), np.int64)
        cell_draws.draw_counts(self._laws, self._cells, replicates.start, 0, self._key, rarer)
        return np.where(self._rare, rarer, self._rows - rarer)


class MultinomialCounts:
    """Rows distributed over cells with these shares.

    Independent Poisson counts are multinomial given their sum. So Poisson counts whose sum is meant to be somewhat too
    small are drawn; where it is too large they are dropped and drawn again. What is missing is drawn in the same way,
    and the last rows one by one.
    """

    def __init__(self, rows: int, shares: Array, cells: Counts, key: Key) -> None:
        self._rows, self._shares, self._cells, self._key = rows, shares, cells, key
        self._cumulative = np.cumsum(shares)
        self._cumulative /= self._cumulative[-1:]
        self._guide = np.searchsorted(self._cumulative, np.arange(shares.size) / shares.size, "right")

    def draw(self, replicates: range) -> Counts:
        """The counts, (replicates, cells)."""
        if self._rows > self._one_by_one:
            counts = self._short_of(self._rows).draw(replicates)
        else:
            counts = np.zeros((len(replicates), self._cells.size), np.int64)
        for replicate, of_replicate in zip(replicates, counts, strict=True):
            self._complete(of_replicate, replicate)
        return counts

    def _complete(self, counts: Counts, replicate: int) -> None:
        """Add the rows that are missing from a replicate."""
        if counts.sum() > self._rows:
            counts[:] = 0
        missing, stage = self._rows - int(counts.sum()), 1
        while missing > self._one_by_one:
            drawn = self._short_of(missing).draw(range(replicate, replicate + 1), stage)[0]
            stage += 1
            if drawn.sum() <= missing:
                counts += drawn
                missing -= int(drawn.sum())
        cell_draws.add_categorical_draws(missing, self._cumulative, self._guide, replicate, stage, self._key, counts)

    def _short_of(self, rows: int) -> PoissonCounts:
        """Counts whose sum exceeds these rows in one of fifty replicates."""
        return PoissonCounts(self._shares * (rows - _SHORT * math.sqrt(rows)), self._cells, self._key)

    @property
    def _one_by_one(self) -> int:
        """Up to this number of rows it takes less time to draw them one by one."""
        return max(_MANY * self._cells.size, _ALWAYS_ONE_BY_ONE)


# Groups of rows that a jackknife leaves out.
GROUPS = 100


def resampled(
    state: GridState, grid: Grid, seed: int, replicates: range, *, calibrated: bool = False, first_column: int = 0
) -> GridState:
    """Replicates of a state along its first axis: number r * batch + b for batch element b.

    ``first_column`` is the number of its first column among those that are stored together.

    Rows drawn with replacement are one multinomial draw over (cell, outcome); positions within become the mean of the
    cell. With weights: a Poisson number of rows in each (cell, outcome), all of one weight, such that the mean and the
    variance of their total are those of a Poisson bootstrap of the rows. Replicates that are ``calibrated`` have the
    same rows in each cell as the state, and outcomes drawn with the mean score of the cell for their probability. With
    weights, which may depend on the outcome, a row gets the weight that it would have with the drawn one: with v the
    mean weight of the rows of an outcome, odds are those of the score times v of the others over v of the outcome, and
    the weight is in proportion to v. So the weighted rows have the outcome with the probability of the score.

    Random numbers are keyed by the seed, the replicate and the column alone: a model or a slice has the same interval
    whatever it is computed with, for any chunking and any number of replicates at a time.
    """
    shape = (len(replicates), *state.mass.shape)
    mass, rows = np.zeros(shape, state.mass.dtype), np.zeros((len(replicates), *state.rows.shape), np.int64)
    offset, square = np.zeros(shape), np.zeros((len(replicates), *state.square.shape))
    for stratum in np.ndindex(state.mass.shape[:3]):
        key = philox_key(seed, first_column + stratum[2], int(calibrated))
        column = _Column(state.part(stratum), grid, key, calibrated=calibrated)
        drawn = column.draw(replicates)
        at = (slice(None), *stratum)
        if state.weighted:
            rows[at] = drawn
            np.multiply(drawn, column.unit, out=mass[at])
            np.multiply(mass[at], column.unit, out=square[at])
        else:
            mass[at] = drawn
        np.multiply(mass[at], column.position, out=offset[at])
    return GridState.of(
        lambda sums: sums.reshape(sums.shape[0] * sums.shape[1], *sums.shape[2:]), (mass, offset, square, rows)
    )


def left_out(state: GridState, seed: int, groups: range, of: int = GROUPS, *, first_column: int = 0) -> GridState:
    """The state without one of ``of`` random groups of rows each, along the first axis as in `resampled`.

    The rows of a (cell, outcome) are distributed over the groups at random, and with them their share of the sums.
    """
    shape = (len(groups), *state.mass.shape)
    shares = np.zeros(shape)
    rows = np.asarray(state.rows if state.weighted else state.mass, np.int64)
    for stratum in np.ndindex(rows.shape[:3]):
        filled = np.nonzero(rows[stratum])
        dealt = generator(seed, (first_column + stratum[2], 2)).multinomial(rows[stratum][filled], np.full(of, 1 / of))
        for number, group in enumerate(groups):
            shares[(number, *stratum)][filled] = dealt[:, group] / rows[stratum][filled]

    def kept(sums: Any) -> Any:
        left = sums - shares * sums if sums.shape[3] else np.zeros((len(groups), *sums.shape))
        if sums.dtype == np.int64:
            left = np.rint(left).astype(np.int64)
        return left.reshape(left.shape[0] * left.shape[1], *left.shape[2:])

    return GridState.of(kept, state)


class _Column:
    """The categories of one column that hold rows: cells by outcome, or cells whose outcome is drawn.

    ``position`` and ``unit``, the weight of a row, are by (cell, outcome).
    """

    def __init__(self, state: GridState, grid: Grid, key: Key, *, calibrated: bool) -> None:
        mass, offset, square = state.mass, state.distance, state.square
        self._shape = mass.shape
        relative = _relative_weights(state) if calibrated and state.weighted else None
        if relative is not None:
            mass, offset, square = mass / relative, offset / relative, square / relative**2
        if calibrated:
            mass, offset, square = (sums.sum(-1, keepdims=True) for sums in (mass, offset, square))
        self._filled = np.flatnonzero(mass)
        filled = mass > 0
        # Where outcomes are drawn, both are at the mean of the cell.
        self.position = np.divide(offset, mass, out=np.zeros(mass.shape), where=filled)
        unit = np.divide(square, mass, out=np.ones(mass.shape), where=filled) if state.weighted else np.ones(mass.shape)
        self.unit = unit if relative is None else unit * relative
        rows = mass.ravel()[self._filled] / unit.ravel()[self._filled]
        self._whole = np.maximum(np.rint(rows).astype(np.int64), 1) if calibrated else None
        self._counts: PoissonCounts | BinomialCounts | MultinomialCounts
        if self._whole is not None:
            chance = scores_of_cells(grid, self.position[..., 0])[self._filled]
            if relative is not None:
                chance = chance / (chance + (1 - chance) * relative[1])
            self._counts = BinomialCounts(self._whole, chance, self._filled, key)
        elif state.weighted:
            self._counts = PoissonCounts(rows, self._filled, key)
        else:
            self._counts = MultinomialCounts(int(rows.sum()), rows / max(rows.sum(), 1.0), self._filled, key)

    def draw(self, replicates: range) -> Counts:
        """Number of rows by replicate, cell and outcome."""
        counts = self._counts.draw(replicates)
        drawn = np.zeros((len(replicates), *self._shape), np.int64)
        if self._whole is None:
            drawn.reshape(len(replicates), -1)[:, self._filled] = counts
        else:
            drawn[:, self._filled, 0], drawn[:, self._filled, 1] = self._whole - counts, counts
        return drawn


def _relative_weights(state: GridState) -> Array:
    """Mean weight of the rows without and with the outcome, relative to the former; 1 where an outcome is missing."""
    mass, rows = state.mass.sum(0), state.rows.sum(0)
    if not rows.all():
        return np.ones(2)
    mean = mass / rows
    return np.array([1.0, mean[1] / mean[0]])


def generator(seed: int, coordinates: tuple[int, ...]) -> np.random.Generator:
    """The random numbers that belong to these coordinates."""
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=coordinates)))
