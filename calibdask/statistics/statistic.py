"""The law that everything rests on: summaries of blocks merge into the summary of all rows."""

from abc import ABC, abstractmethod
from typing import Any

from calibdask.statistics.block import Block

__all__ = ["State", "Statistic"]

# A NamedTuple of float64 and int64 arrays whose size does not depend on the number of rows.
State = Any


class Statistic(ABC):
    """A frozen, hashable, picklable description of a mergeable summary.

    The law: ``from_block(A ++ B) == merge(from_block(A), from_block(B))``; an empty block gives the identity; merging
    commutes. Without weights it holds to the last bit. Equal descriptions are computed once.
    """

    @abstractmethod
    def from_block(self, block: Block) -> State:
        """Summary of the rows of one block."""

    @abstractmethod
    def merge(self, a: State, b: State) -> State:
        """Summary of the rows of both."""
