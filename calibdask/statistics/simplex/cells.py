"""Sums of whole rows by occupied cell of a partition of the simplex."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from calibdask.kernels import cells
from calibdask.statistics import exact
from calibdask.statistics.block import Block
from calibdask.statistics.exact import Array, Counts, Sums
from calibdask.statistics.statistic import Statistic


class CellMembers(NamedTuple):
    """Keys (cells, words) in increasing order, and the cell of each row, -1 for rows of weight 0 or in no cell."""

    key: Counts
    cell: Counts


class Partition(ABC):
    """A frozen description of cells, each with a key: a row of int64, not negative."""

    @abstractmethod
    def members(self, block: Block, b: int) -> CellMembers:
        """The cells that hold a row of batch element b of the block; their keys increase with b."""


@dataclass(frozen=True)
class UniformCells(Partition):
    """Cells of the rows whose scores share a uniform right-closed bin in every class.

    The key is the stratum (batch * groups + group) and the bins of all classes, packed into as few words as possible.
    """

    bins: int

    def members(self, block: Block, b: int) -> CellMembers:
        """The occupied cells of batch element b."""
        distinct = len(block.scores) if block.weights is None else block.layout.batch
        if distinct == block.layout.batch:
            return self._members(block, b)
        # Replicates of labels have the cells of the same scores, in other strata.
        first = b % distinct
        members = block.prepared.get((self, first))
        if members is None:
            members = block.prepared[self, first] = self._members(block, first)
        key = members.key.copy()
        key[:, 0] += (b - first) * block.layout.groups
        return CellMembers(key, members.cell)

    def _members(self, block: Block, b: int) -> CellMembers:
        digit_bits = max(1, (self.bins - 1).bit_length())
        number = np.empty(block.rows, np.int64)
        options = (block.weights_of(b), block.group, self.bins, digit_bits, number)
        key: Counts = cells.number_cells(block.matrix_of(b), *options)
        key[:, 0] += b * block.layout.groups
        order = np.argsort(_comparable(key), kind="stable")
        # One more element for -1, the number of rows in no cell.
        rank = np.full(len(order) + 1, -1)
        rank[order] = np.arange(len(order))
        return CellMembers(key[order], rank[number])


class CellSumsState(NamedTuple):
    """Sums of rows by occupied cell, in increasing order of keys.

    ``key`` (cells, words); ``rows`` (cells,) of positive weight; ``weight`` (cells,) sums of w; ``outcome``
    (cells, K) sums of w * 1[y = c], plain counts without weights; ``score`` (cells, K) sums of w * p_c; ``second``
    (cells, K), or (cells, 0) unless ``squares`` are asked for: with weights the sums of w * (p_c - mean)**2, without
    them the exact sums of p_c**2 as two sums, the second one in units of 2**-52. For the type of sums see
    `calibdask.statistics.exact`.
    """

    key: Counts
    rows: Counts
    weight: Sums
    outcome: Counts | Array
    score: Sums
    second: Sums

    def part(self, chosen: Any) -> "CellSumsState":
        """The sums of some of the cells: a slice, numbers or a mask."""
        return CellSumsState(*(field[chosen] for field in self))

    def gaps(self) -> Array:
        """Sums of w * (1[y = c] - p_c), each rounded once; shape (cells, K)."""
        if self.score.dtype == np.int64:
            return exact.value(exact.subtract(exact.from_counts(np.asarray(self.outcome, np.int64)), self.score))
        return np.asarray(self.outcome - self.score, np.float64)

    def deviations(self) -> Array:
        """Standard deviations of scores (divisor n or sum of weights), from ``second``; shape (cells, K)."""
        if self.second.dtype == np.float64:
            return np.sqrt(self.second / self.weight[:, None])
        deviation = np.empty(self.outcome.shape)
        cells.deviations(self.rows, self.score, self.second, deviation)
        return deviation


@dataclass(frozen=True)
class CellSums(Statistic[CellSumsState]):
    """Count, outcomes and scores of all classes by cell of a partition.

    Parameters
    ----------
    partition : Partition
        The cells.
    squares : bool
        Whether second moments are summed too.

    Notes
    -----
    One pass. Memory for each occupied cell: 24 bytes, 8 for each word of its key and 24 for each class (with
    ``squares`` 56; with weights 16 and 24).
    """

    partition: Partition
    squares: bool = False

    def from_block(self, block: Block) -> CellSumsState:
        """Sums of one block."""
        parts = [self._sums(block, b) for b in range(block.layout.batch)]
        sums = parts[0] if len(parts) == 1 else CellSumsState(*map(np.concatenate, zip(*parts, strict=True)))
        return sums._replace(weight=exact.from_counts(sums.rows)) if block.weights is None else sums

    def _sums(self, block: Block, b: int) -> CellSumsState:
        """Of one batch element; without weights the sums of weights are filled in later from the rows."""
        key, cell = self.partition.members(block, b)
        shape = (len(key), block.layout.classes)
        second_shape = shape if self.squares else (len(key), 0)
        scores, labels = block.matrix_of(b), block.labels_of(b)
        rows = np.zeros(len(key), np.int64)
        if block.weights is None:
            counts = np.zeros(shape, np.int64)
            words, squares = np.zeros((*shape, 2), np.int64), np.zeros((*second_shape, 2, 2), np.int64)
            cells.cell_sums(scores, labels, cell, rows, counts, words, squares)
            return CellSumsState(key, rows, rows, counts, words, squares)
        weight, outcome, score, spread = (np.zeros(size) for size in (len(key), shape, shape, second_shape))
        cells.weighted_cell_sums(scores, labels, block.weights_of(b), cell, rows, weight, outcome, score, spread)
        return CellSumsState(key, rows, weight, outcome, score, spread)

    def merge(self, a: CellSumsState, b: CellSumsState) -> CellSumsState:
        """Sums of both, over the union of their cells."""
        union = _union(a.key, b.key)
        second = union.sums(a.second, b.second)
        if self.squares and second.dtype == np.float64:
            shared_a, shared_b = union.shared()
            second[union.in_b[shared_b]] += _between(a.part(shared_a), b.part(shared_b))
        return CellSumsState(
            union.key,
            union.plain(a.rows, b.rows),
            union.sums(a.weight, b.weight),
            union.plain(a.outcome, b.outcome),
            union.sums(a.score, b.score),
            second,
        )


class _Union(NamedTuple):
    """Sorted union of the keys of two states, with the positions of each state's keys in it."""

    key: Counts
    in_a: Counts
    in_b: Counts

    def plain(self, a: Any, b: Any) -> Any:
        """Counts or weighted sums of both."""
        total = np.zeros((len(self.key), *a.shape[1:]), a.dtype)
        total[self.in_a] = a
        total[self.in_b] += b
        return total

    def sums(self, a: Any, b: Any) -> Any:
        """Exact or weighted sums of both."""
        if a.dtype != np.int64:
            return self.plain(a, b)
        total = np.zeros((len(self.key), *a.shape[1:]), np.int64)
        total[self.in_a] = a
        words = (math.prod(a.shape[1:-1]), 2)
        cells.add_words(b.reshape(len(b), *words), self.in_b, total.reshape(len(total), *words))
        return total

    def shared(self) -> tuple[Counts, Counts]:
        """Positions, in either state, of the keys that both have."""
        position = np.full(len(self.key), -1)
        position[self.in_a] = np.arange(len(self.in_a))
        in_b = np.flatnonzero(position[self.in_b] >= 0)
        return position[self.in_b[in_b]], in_b


def _comparable(key: Counts) -> np.ndarray:
    """Sortable scalar for each key: its number, or its words as a big-endian byte string."""
    words = key.shape[1]
    return key[:, 0] if words == 1 else np.ascontiguousarray(key, ">i8").view(f"S{8 * words}")[:, 0]


def _union(a: Counts, b: Counts) -> _Union:
    if np.array_equal(a, b):
        positions = np.arange(len(a))
        return _Union(a, positions, positions)
    keys = np.concatenate([a, b])
    _, first, positions = np.unique(_comparable(keys), return_index=True, return_inverse=True)
    return _Union(keys[first], positions[: len(a)], positions[len(a) :])


def _between(a: CellSumsState, b: CellSumsState) -> Array:
    """Contribution of the distance of the means to the second moments of the union (Chan, Golub & LeVeque 1979)."""
    weight_a, weight_b = a.weight[:, None], b.weight[:, None]
    distance = a.score / weight_a - b.score / weight_b
    return np.asarray(distance**2 * (weight_a / (weight_a + weight_b) * weight_b), np.float64)
