"""Summaries to which each row contributes a function of all rows."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from calibdask.statistics.block import Block
from calibdask.statistics.request import Requests
from calibdask.statistics.statistic import Statistic, ViewedStatistic
from calibdask.statistics.views.view import View

if TYPE_CHECKING:
    from calibdask.statistics.schedule import Schedule

HeldT = TypeVar("HeldT")
StateT = TypeVar("StateT")


class TargetReduction(Statistic[StateT], Generic[HeldT, StateT]):
    """A summary to which each row contributes a function of all rows.

    A source takes a block of target rows, begins, folds every block of the data into what is held for it, once in each
    round, and finishes; the states of all blocks of targets merge like any others.
    """

    @property
    @abstractmethod
    def rounds(self) -> int:
        """How many times all rows are visited."""

    @abstractmethod
    def begin(self, target: Block) -> HeldT:
        """Initial accumulator for a block of target rows."""

    @abstractmethod
    def fold(self, held: HeldT, turn: int, target: Block, source: Block) -> HeldT:
        """Update the accumulator with one block of rows in round ``turn`` (from 0), without changing ``held``."""

    @abstractmethod
    def finish(self, held: HeldT, target: Block) -> StateT:
        """State of the target rows."""

    def from_block(self, block: Block) -> StateT:
        """State of the rows of a block that holds all rows."""
        held = self.begin(block)
        for turn in range(self.rounds):
            held = self.fold(held, turn, block, block)
        return self.finish(held, block)

    def add_to(self, schedule: "Schedule") -> None:
        """Schedule all blocks for each block of targets."""
        schedule.targets.append(self)

    def viewed_by(self, view: View) -> Requests[StateT]:
        """The reduction of the rows seen through the view."""
        return (yield from _ViewedTargetReduction(view, self))


@dataclass(frozen=True)
class _ViewedTargetReduction(ViewedStatistic[StateT], TargetReduction[HeldT, StateT]):
    statistic: TargetReduction[HeldT, StateT]

    @property
    def rounds(self) -> int:
        return self.statistic.rounds

    def begin(self, target: Block) -> HeldT:
        return self.statistic.begin(self.view.block(target))

    def fold(self, held: HeldT, turn: int, target: Block, source: Block) -> HeldT:
        return self.statistic.fold(held, turn, self.view.block(target), self.view.block(source))

    def finish(self, held: HeldT, target: Block) -> StateT:
        return self.statistic.finish(held, self.view.block(target))

    def from_block(self, block: Block) -> StateT:
        return TargetReduction.from_block(self, block)
