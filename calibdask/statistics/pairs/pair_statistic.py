"""Summaries of all pairs of rows."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from calibdask.statistics.block import Block
from calibdask.statistics.request import Requests
from calibdask.statistics.statistic import SumStatistic, ViewedStatistic
from calibdask.statistics.views.view import View

if TYPE_CHECKING:
    from calibdask.statistics.schedule import Schedule

StateT = TypeVar("StateT")


class PairStatistic(SumStatistic[StateT]):
    """Sums over all pairs of rows, including each row paired with itself.

    The law: ``from_block(A ++ B) == merge(from_block(A), from_block(B), from_pair(A, B))``. A source visits every pair
    of its blocks once, the earlier block first.
    """

    @abstractmethod
    def from_pair(self, earlier: Block, later: Block) -> StateT:
        """State of the pairs of a row of one block and a row of the other."""

    def add_to(self, schedule: "Schedule") -> None:
        """Schedule all pairs of blocks."""
        schedule.pairs.append(self)

    def viewed_by(self, view: View) -> Requests[StateT]:
        """The statistic of pairs of the rows seen through the view."""
        return (yield from _ViewedPairStatistic(view, self))


@dataclass(frozen=True)
class _ViewedPairStatistic(ViewedStatistic[StateT], PairStatistic[StateT]):
    statistic: PairStatistic[StateT]

    def from_block(self, block: Block) -> StateT:
        return self.statistic.from_block(self.view.block(block))

    def from_pair(self, earlier: Block, later: Block) -> StateT:
        return self.statistic.from_pair(self.view.block(earlier), self.view.block(later))
