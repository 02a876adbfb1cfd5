"""The law that everything rests on: summaries of blocks merge into the summary of all rows."""

from abc import ABC, abstractmethod
from collections.abc import Generator
from typing import Any

from calibdask.statistics.block import Block
from calibdask.statistics.layout import Layout

__all__ = ["Asking", "Derived", "State", "Statistic"]

# A NamedTuple of float64 and int64 arrays whose size does not depend on the number of rows.
State = Any
# Yields requests - a Statistic, a Derived, a Layout - and is sent the answers.
Asking = Generator[Any, Any, Any]


class Statistic(ABC):
    """A frozen, hashable, picklable description of a mergeable summary.

    The law: ``from_block(A ++ B) == merge(from_block(A), from_block(B))``; an empty block gives the identity; merging
    commutes. Without weights it holds to the last bit. Equal descriptions are computed once.
    """

    @property
    def ordered(self) -> bool:
        """Whether it needs to know where rows are: their global number and, in each slice, their rank."""
        return False

    @abstractmethod
    def from_block(self, block: Block) -> State:
        """Summary of the rows of one block."""

    @abstractmethod
    def merge(self, a: State, b: State) -> State:
        """Summary of the rows of both."""

    def follows_from(self, other: "Statistic") -> bool:
        """Whether the state of another statistic of the same rows tells the state of this one, to the last bit."""
        return False

    def taken_from(self, state: State) -> State:
        """The state, out of that of a statistic that it follows from."""
        raise NotImplementedError

    def bytes(self, layout: Layout) -> int:
        """Memory of a state, where that is large enough to matter."""
        return 0


class Derived(ABC):
    """A frozen, hashable description of what follows from statistics, such as edges of bins.

    Asked for like a statistic. Equal descriptions are derived once; a source that knows the answer otherwise, such as a
    stored summary, may give it.
    """

    @abstractmethod
    def derive(self) -> Asking:
        """Ask for statistics by ``yield`` and return the answer."""

    def repeated(self, answer: Any, times: int) -> Any:
        """The answer for so many replicates with the same choice, one after the other along the batch axis.

        For those that are ``kept``: choices made from the scores, such as bandwidths, that replicates do not make anew.
        """
        raise NotImplementedError

    @property
    def kept(self) -> bool:
        """Whether replicates keep the answer for the data."""
        return False
