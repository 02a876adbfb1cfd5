"""Sources: what answers requests for statistics. Estimators cannot tell one from another."""

from abc import ABC, abstractmethod
from contextlib import nullcontext

from threadpoolctl import threadpool_limits

from calibdask.engine.verdict import raise_if_invalid
from calibdask.statistics.block import Block
from calibdask.statistics.folds import RowFold
from calibdask.statistics.layout import Layout
from calibdask.statistics.pairs import PairStatistic
from calibdask.statistics.statistic import Asking, Derived, State, Statistic
from calibdask.statistics.validity import Validity

__all__ = ["RowSource", "Source", "States", "apart", "merged", "states_of"]

States = tuple[State, ...]


class Source(ABC):
    """Answers requests for statistics, each call with one pass over the data; those of pairs of rows take more.

    Attributes
    ----------
    layout : Layout
        Shape of the data, known without a pass.
    rows : int or None
        Number of rows, once a pass has counted them.
    passes : int
        How often the data have been read so far.
    """

    layout: Layout
    rows: int | None
    passes: int = 0

    @abstractmethod
    def answer(self, statistics: tuple[Statistic, ...]) -> States:
        """The states of all statistics. The first pass also checks the data and raises ValueError."""

    def deriving(self, request: Derived) -> Asking:
        """How what follows from statistics is found here."""
        return request.derive()


class RowSource(Source):
    """A source that has the rows: it checks them in the first pass, and it can visit pairs of their blocks."""

    def __init__(self, layout: Layout, validity: Validity) -> None:
        self.layout = layout
        self.rows: int | None = None
        self._validity = validity

    def answer(self, statistics: tuple[Statistic, ...]) -> States:
        """One pass for all that blocks tell one by one, then visits to pairs of blocks."""
        pairs = tuple(each for each in statistics if isinstance(each, PairStatistic))
        folds = tuple(each for each in statistics if isinstance(each, RowFold))
        plain = tuple(each for each in statistics if not isinstance(each, PairStatistic | RowFold))
        known: dict[Statistic, State] = {}
        if plain or self.rows is None:
            known.update(self._told(plain))
        # Blocks are visited side by side; products of matrices must not start threads of their own.
        with threadpool_limits(1) if pairs else nullcontext():
            if pairs:
                known.update(zip(pairs, self._pairs(pairs), strict=True))
            for fold in folds:
                known[fold] = self._fold(fold)
        return tuple(known[each] for each in statistics)

    def _told(self, statistics: tuple[Statistic, ...]) -> dict[Statistic, State]:
        """States from one pass, in which what follows from others is not computed again."""
        needed, following = apart(statistics)
        known = dict(zip(needed, self._checked(needed), strict=True))
        return known | {each: each.taken_from(known[other]) for each, other in following.items()}

    def _checked(self, statistics: tuple[Statistic, ...]) -> States:
        """One pass; the first one checks the data too."""
        self.passes += 1
        if self.rows is not None:
            return self._pass(statistics)
        *states, verdict = self._pass((*statistics, self._validity))
        raise_if_invalid(verdict, self._validity, self.layout, self._row_of)
        self.rows = int(verdict.rows)
        return tuple(states)

    @abstractmethod
    def _pass(self, statistics: tuple[Statistic, ...]) -> States:
        """States of all rows, merged from those of blocks."""

    @abstractmethod
    def _pairs(self, statistics: tuple[PairStatistic, ...]) -> States:
        """States of all pairs of rows."""

    @abstractmethod
    def _fold(self, statistic: RowFold) -> State:
        """State of all rows, each of which has seen all others."""

    def _row_of(self, position: int) -> int:
        """Global row number of a position that a block had for its start."""
        return position


def apart(statistics: tuple[Statistic, ...]) -> tuple[tuple[Statistic, ...], dict[Statistic, Statistic]]:
    """Statistics that have to be computed, and for each of the others one of these that it follows from."""
    found = {each: next(filter(each.follows_from, statistics), None) for each in statistics}
    following = {each: other for each, other in found.items() if other is not None}
    return tuple(each for each in statistics if each not in following), following


def states_of(block: Block, statistics: tuple[Statistic, ...]) -> States:
    """States of one block."""
    return tuple(statistic.from_block(block) for statistic in statistics)


def merged(statistics: tuple[Statistic, ...], a: States, b: States) -> States:
    """States of the rows of both."""
    return tuple(s.merge(x, y) for s, x, y in zip(statistics, a, b, strict=True))
