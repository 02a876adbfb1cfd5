"""Distinct whole numbers of a column with their numbers of rows, exactly or from a sample."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from calibdask.kernels.lattice import sample_whole
from calibdask.statistics.block import Block
from calibdask.statistics.exact import Array, Counts
from calibdask.statistics.frozen import read_only
from calibdask.statistics.lattice.coding import numbers
from calibdask.statistics.lattice.value_counts import counted_rows, distinct
from calibdask.statistics.statistic import Statistic

_PLACES_EACH = 4


class WholeNumbersState(NamedTuple):
    """Different numbers, increasing, and their rows: those whose hash ends in ``level`` zeros.

    ``whole``: whether all numbers are whole.
    """

    numbers: Array
    counts: Counts
    level: Counts
    whole: Counts


@dataclass(frozen=True)
class WholeNumbers(Statistic[WholeNumbersState]):
    """Rows by whole number, where no more than ``most`` differ; of more numbers a sample that hashes draw.

    Parameters
    ----------
    column : int
    part : str
        Of dates, see `calibdask.statistics.lattice.coding`.
    most : int

    Notes
    -----
    A sample has all rows of each of its numbers, and depends on the numbers alone: it is the same for any chunks.
    """

    column: int
    part: str
    most: int = 1024

    def from_block(self, block: Block) -> WholeNumbersState:
        """Numbers of one block."""
        values, repeats = distinct(numbers(block, self.column, self.part)[counted_rows(block)])
        return self._sampled(values, repeats, 0)

    def merge(self, a: WholeNumbersState, b: WholeNumbersState) -> WholeNumbersState:
        """Numbers of both."""
        if not (a.whole and b.whole):
            return _NONE
        values, repeats = np.concatenate([a.numbers, b.numbers]), np.concatenate([a.counts, b.counts])
        return self._sampled(values, repeats, int(max(a.level, b.level)))

    def _sampled(self, values: Array, repeats: Counts, level: int) -> WholeNumbersState:
        places = 1 << (_PLACES_EACH * self.most - 1).bit_length()
        known, counts, found = np.zeros(places), np.zeros(places, np.int64), np.array([level, 1])
        sample_whole(read_only(values), repeats, self.most, known, counts, found)
        if not found[1]:
            return _NONE
        there = np.flatnonzero(counts)
        order = there[np.argsort(known[there])]
        return WholeNumbersState(known[order], counts[order], np.asarray(found[0]), np.asarray(1))


_NONE = WholeNumbersState(np.zeros(0), np.zeros(0, np.int64), np.asarray(0), np.asarray(0))
