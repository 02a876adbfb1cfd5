"""Sources: what answers requests for statistics. Estimators cannot tell one from another."""

from abc import ABC, abstractmethod

from calibdask.statistics.block import Block
from calibdask.statistics.layout import Layout
from calibdask.statistics.statistic import Asking, Derived, State, Statistic

__all__ = ["Source", "States", "merged", "states_of"]

States = tuple[State, ...]


class Source(ABC):
    """Answers requests for statistics, each call with one pass over the data.

    Attributes
    ----------
    layout : Layout
        Shape of the data, known without a pass.
    rows : int or None
        Number of rows, once a pass has counted them.
    """

    layout: Layout
    rows: int | None

    @abstractmethod
    def answer(self, statistics: tuple[Statistic, ...]) -> States:
        """The states of all statistics. The first pass also checks the data and raises ValueError."""

    def deriving(self, request: Derived) -> Asking:
        """How what follows from statistics is found here."""
        return request.derive()


def states_of(block: Block, statistics: tuple[Statistic, ...]) -> States:
    """States of one block."""
    return tuple(statistic.from_block(block) for statistic in statistics)


def merged(statistics: tuple[Statistic, ...], a: States, b: States) -> States:
    """States of the rows of both."""
    return tuple(s.merge(x, y) for s, x, y in zip(statistics, a, b, strict=True))
