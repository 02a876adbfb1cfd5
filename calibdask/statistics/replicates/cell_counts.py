"""Numbers of rows by cell of one column in replicates; replicates do not depend on each other."""

import math

import numpy as np
import numpy.typing as npt

from calibdask.kernels import cell_draws
from calibdask.statistics.exact import Array, Counts

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
