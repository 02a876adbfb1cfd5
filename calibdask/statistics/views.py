"""Views: data seen otherwise, block by block, by estimators that do not know it."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from typing import Any

from calibdask.statistics.block import Block
from calibdask.statistics.folds import RowFold
from calibdask.statistics.layout import Layout
from calibdask.statistics.pairs import PairStatistic
from calibdask.statistics.statistic import Asking, Derived, State, Statistic

__all__ = ["View", "seen_through"]


class View(ABC):
    """A frozen description of how one block of rows becomes another one."""

    # Whether it needs to know where rows are.
    ordered: bool = False

    @abstractmethod
    def layout(self, layout: Layout) -> Layout:
        """Shape of the data seen."""

    @abstractmethod
    def block(self, block: Block) -> Block:
        """The rows seen."""

    @property
    def copies(self) -> int:
        """How many replicates it makes that keep what is chosen from the scores of the data; 0 for none."""
        return 0

    def step(self, block: Block) -> int:
        """How many rows to look at together, so that memory stays bounded."""
        return max(1, block.rows)


def seen_through(view: View, asking: Asking) -> Asking:
    """The same questions, asked about the data as seen through the view."""
    answer: Any = None
    while True:
        try:
            request = asking.send(answer)
        except StopIteration as stop:
            return stop.value
        if isinstance(request, Layout):
            answer = view.layout((yield request))
        elif isinstance(request, Derived):
            answer = yield _SeenDerived(view, request)
        elif isinstance(request, PairStatistic):
            answer = yield _SeenPairs(view, request)
        elif isinstance(request, RowFold):
            answer = yield _SeenFold(view, request)
        else:
            answer = yield _Seen(view, request)


@dataclass(frozen=True)
class _SeenDerived(Derived):
    view: View
    derived: Derived

    def derive(self) -> Asking:
        if self.view.copies and self.derived.kept:
            return self.derived.repeated((yield self.derived), self.view.copies)
        return (yield from seen_through(self.view, self.derived.derive()))


class _SeenStatistic(Statistic):
    """What the statistics below share."""

    view: View
    statistic: Any

    @property
    def ordered(self) -> bool:
        return bool(self.view.ordered or self.statistic.ordered)

    def merge(self, a: State, b: State) -> State:
        return self.statistic.merge(a, b)

    def bytes(self, layout: Layout) -> int:
        return int(self.statistic.bytes(self.view.layout(layout)))


@dataclass(frozen=True)
class _Seen(_SeenStatistic):
    view: View
    statistic: Statistic

    def from_block(self, block: Block) -> State:
        return reduce(self.merge, (self.statistic.from_block(self.view.block(part)) for part in self._parts(block)))

    def _parts(self, block: Block) -> Iterator[Block]:
        step = self.view.step(block)
        if block.rows <= step:
            return iter((block,))
        return (block.part(start, start + step) for start in range(0, block.rows, step))


@dataclass(frozen=True)
class _SeenPairs(_SeenStatistic, PairStatistic):
    view: View
    statistic: PairStatistic

    def from_block(self, block: Block) -> State:
        return self.statistic.from_block(self.view.block(block))

    def from_pair(self, earlier: Block, later: Block) -> State:
        return self.statistic.from_pair(self.view.block(earlier), self.view.block(later))


@dataclass(frozen=True)
class _SeenFold(_SeenStatistic, RowFold):
    view: View
    statistic: RowFold

    @property
    def rounds(self) -> int:
        return self.statistic.rounds

    def begin(self, target: Block) -> Any:
        return self.statistic.begin(self.view.block(target))

    def fold(self, held: Any, turn: int, target: Block, source: Block) -> Any:
        return self.statistic.fold(held, turn, self.view.block(target), self.view.block(source))

    def finish(self, held: Any, target: Block) -> State:
        return self.statistic.finish(held, self.view.block(target))
