"""Summaries of rows each of which needs all others first."""

from abc import abstractmethod
from typing import Any

from calibdask.statistics.block import Block
from calibdask.statistics.statistic import State, Statistic

__all__ = ["RowFold"]


class RowFold(Statistic):
    """A summary of what each row makes of all rows.

    A source takes a block of target rows, begins, folds every block of the data into what is held for it, as many
    times as there are rounds, and finishes; the states of all blocks of targets merge like any others.
    """

    @property
    @abstractmethod
    def rounds(self) -> int:
        """How many times all rows are gone through."""

    @abstractmethod
    def begin(self, target: Block) -> Any:
        """What is held for a block of target rows at first."""

    @abstractmethod
    def fold(self, held: Any, turn: int, target: Block, source: Block) -> Any:
        """What is held after a block of rows, in a round counted from 0; does not change ``held``."""

    @abstractmethod
    def finish(self, held: Any, target: Block) -> State:
        """Summary of the target rows."""

    def from_block(self, block: Block) -> State:
        """Summary of the rows of one block that is all there is."""
        held = self.begin(block)
        for turn in range(self.rounds):
            held = self.fold(held, turn, block, block)
        return self.finish(held, block)
