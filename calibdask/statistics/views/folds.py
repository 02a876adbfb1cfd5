"""Folds for cross-fitting: rows of one fold, and complements merged from the states of the other folds."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, ClassVar, TypeVar

import numpy as np

from calibdask.kernels import keyed_random
from calibdask.statistics.block import NO_GROUPS, Block
from calibdask.statistics.derived import Derived
from calibdask.statistics.exact import Counts
from calibdask.statistics.frozen import FrozenArray
from calibdask.statistics.keyed_random import philox_key
from calibdask.statistics.layout import Layout
from calibdask.statistics.prefetch import together
from calibdask.statistics.request import Requests
from calibdask.statistics.statistic import Statistic, ViewedStatistic
from calibdask.statistics.views.view import View

StateT = TypeVar("StateT")

_PURPOSE = 5


def fold_numbers(numbers: Counts, count: int, seed: int) -> Counts:
    """The fold of rows, or of keys, with these numbers: a hash keyed by the seed."""
    priority = np.empty(numbers.size, np.int64)
    keyed_random.priorities(numbers, philox_key(seed, _PURPOSE), priority)
    return priority % count


@dataclass(frozen=True)
class Folds(ABC):
    """Assignment of rows to ``count`` folds."""

    count: int

    # Whether folds go by the position of rows.
    ordered: ClassVar[bool] = False

    @abstractmethod
    def of_rows(self, block: Block) -> Counts:
        """The fold of each row, (n,)."""

    def layout(self, layout: Layout) -> Layout:
        """Shape of the rows of a fold."""
        return replace(layout, rows=None)

    def memory_layout(self, layout: Layout) -> Layout:
        """Shape of the rows of a fold, with as many rows as it may have."""
        return replace(self.layout(layout), rows=layout.rows)

    def group(self, block: Block) -> Any:
        """The slice of each row, or an empty array where there is one."""
        return block.group


@dataclass(frozen=True)
class RowFolds(Folds):
    """Folds by a hash of the global row number, independent of chunking."""

    seed: int = 0
    ordered = True

    def of_rows(self, block: Block) -> Counts:
        """The fold of each row."""
        return fold_numbers(block.row_numbers, self.count, self.seed)

    def memory_layout(self, layout: Layout) -> Layout:
        """Folds of a hash are of about equal size."""
        rows = None if layout.rows is None else 2 * layout.rows // self.count + 1
        return replace(self.layout(layout), rows=rows)


@dataclass(frozen=True)
class KeyFolds(Folds):
    """Folds by a key: the slices of the data are its values, ``of_key`` (values,) their folds; one slice is left."""

    of_key: FrozenArray

    def of_rows(self, block: Block) -> Counts:
        """The fold of the key of each row."""
        of_key = np.asarray(self.of_key.values, np.int64)
        return of_key[block.group] if block.group.size else np.full(block.rows, of_key[0])

    def layout(self, layout: Layout) -> Layout:
        """One slice."""
        return replace(layout, rows=None, groups=1)

    def group(self, block: Block) -> Any:
        """None: keys are no slices."""
        return NO_GROUPS


@dataclass(frozen=True)
class FoldRows(View):
    """The rows of one fold."""

    folds: Folds
    fold: int

    @property
    def ordered(self) -> bool:  # type: ignore[override]  # a class attribute of other views
        """Whether folds go by the position of rows."""
        return self.folds.ordered

    def layout(self, layout: Layout) -> Layout:
        """Layout of the data, unchanged."""
        return self.folds.layout(layout)

    def memory_layout(self, layout: Layout) -> Layout:
        """With as many rows as a fold may have."""
        return self.folds.memory_layout(layout)

    def block(self, block: Block) -> Block:
        """The rows of the fold."""
        return _chosen(block, self.folds, self.folds.of_rows(block) == self.fold)


@dataclass(frozen=True)
class OtherFolds(View):
    """Complement of a fold; all rows for None.

    Each row is visited once for all folds: states of folds are merged into those of the others, exactly without
    weights.
    """

    folds: Folds
    left_out: int | None

    @property
    def ordered(self) -> bool:  # type: ignore[override]  # a class attribute of other views
        """Whether folds go by the position of rows."""
        return self.folds.ordered

    def layout(self, layout: Layout) -> Layout:
        """Layout of the data, unchanged."""
        return self.folds.layout(layout)

    def block(self, block: Block) -> Block:
        """The rows of the other folds."""
        return _chosen(block, self.folds, self.folds.of_rows(block) != self.left_out)

    def from_states(self, statistic: Statistic[StateT]) -> "_StateOfOthers[StateT]":
        """The merged states of the other folds."""
        return _StateOfOthers(self.folds, self.left_out, statistic)


def _chosen(block: Block, folds: Folds, chosen: Any) -> Block:
    index, group = np.flatnonzero(chosen), folds.group(block)
    return rows_at(block, folds.layout(block.layout), index, group[index] if group.size else NO_GROUPS)


def rows_at(block: Block, layout: Layout, index: Counts, group: Any) -> Block:
    """Some of the rows, which keep their numbers, and the slice of each."""
    return replace(
        block,
        layout=layout,
        scores=np.ascontiguousarray(block.scores[:, index]),
        labels=block.labels[:, index],
        weights=None if block.weights is None else block.weights[:, index],
        group=group,
        numbers=block.row_numbers[index],
        before=None,
        features=tuple(feature[index] for feature in block.features),
        clusters=None if block.clusters is None else block.clusters[index],
    )


@dataclass(frozen=True)
class _StateOfFolds(Derived[StateT]):
    """The state of consecutive folds, merged from halves of them, which many sets of other folds have in common."""

    folds: Folds
    first: int
    stop: int
    statistic: Statistic[StateT]

    def derive(self) -> Requests[StateT]:
        """Merge the states of both halves."""
        if self.stop - self.first == 1:
            return (yield from ViewedStatistic(FoldRows(self.folds, self.first), self.statistic))
        middle = (self.first + self.stop) // 2
        low = yield from replace(self, stop=middle)
        high = yield from replace(self, first=middle)
        return self.statistic.merge(low, high)


@dataclass(frozen=True)
class _StateOfOthers(Derived[StateT]):
    """The state of all folds but one."""

    folds: Folds
    left_out: int | None
    statistic: Statistic[StateT]

    def derive(self) -> Requests[StateT]:
        """Merge as few sets of consecutive folds as possible."""
        # The states of all folds are found in one pass.
        parts = (FoldRows(self.folds, fold) for fold in range(self.folds.count))
        yield from together(ViewedStatistic(part, self.statistic) for part in parts)
        ranges = _without(0, self.folds.count, self.left_out)
        states = yield from together(_StateOfFolds(self.folds, *ends, self.statistic) for ends in ranges)
        return reduce(self.statistic.merge, states)


def _without(first: int, stop: int, left_out: int | None) -> Iterator[tuple[int, int]]:
    """The largest ranges of the tree of halves that do not contain a fold."""
    if left_out is None or not first <= left_out < stop:
        yield first, stop
    elif stop - first > 1:
        middle = (first + stop) // 2
        yield from _without(first, middle, left_out)
        yield from _without(middle, stop, left_out)


@dataclass(frozen=True)
class OneModel(View):
    """One element of the batch."""

    element: int

    def layout(self, layout: Layout) -> Layout:
        """A batch of one."""
        return replace(layout, batch=1)

    def block(self, block: Block) -> Block:
        """Scores, labels and weights of the element."""

        def own(array: Any) -> Any:
            return array[self.element % len(array)][None]

        weights = None if block.weights is None else own(block.weights)
        scores, labels = own(block.scores), own(block.labels)
        return replace(block, layout=self.layout(block.layout), scores=scores, labels=labels, weights=weights)


@dataclass(frozen=True)
class OneSlice(View):
    """The rows of one slice."""

    slice: int

    def layout(self, layout: Layout) -> Layout:
        """One slice."""
        return replace(layout, groups=1, rows=None)

    def block(self, block: Block) -> Block:
        """The rows of the slice."""
        index = np.flatnonzero(block.group == self.slice) if block.group.size else np.arange(block.rows)
        return rows_at(block, self.layout(block.layout), index, NO_GROUPS)
