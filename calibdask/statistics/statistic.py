"""The law that everything rests on: the states of blocks merge into the state of all rows."""

from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast

from calibdask.statistics import exact
from calibdask.statistics.bins.histograms import Histograms
from calibdask.statistics.block import Block
from calibdask.statistics.layout import Layout
from calibdask.statistics.request import Plan, Request, Requests
from calibdask.statistics.views.view import View

if TYPE_CHECKING:
    from calibdask.statistics.schedule import Schedule

# A NamedTuple of float64 and int64 arrays whose size does not depend on the number of rows.
StateT = TypeVar("StateT")
# See `Statistic.reweighted`.
Weigh = Callable[[Any, int, int], Any]


class Statistic(Request[StateT]):
    """A frozen, hashable, picklable description of a mergeable state.

    The law: ``from_block(A ++ B) == merge(from_block(A), from_block(B))``; an empty block gives the identity; merging
    commutes. Without weights it holds to the last bit. Equal descriptions are computed once.
    """

    @property
    def ordered(self) -> bool:
        """Whether it needs the position of rows: their global number and, in each slice, their rank."""
        return False

    @property
    def adds(self) -> bool:
        """Whether states are arrays of one shape that merge by addition, up to the carry of exact sums."""
        return False

    @abstractmethod
    def from_block(self, block: Block) -> StateT:
        """State of the rows of one block."""

    @abstractmethod
    def merge(self, a: StateT, b: StateT) -> StateT:
        """State of the rows of both."""

    def check(self, state: StateT) -> None:
        """Raise ValueError for the state of more rows than it can hold."""

    def follows_from(self, other: "Statistic[Any]") -> bool:
        """Whether this state can be extracted exactly from the state of another statistic."""
        return False

    def extracted_from(self, state: StateT) -> StateT:
        """The state, extracted from that of a statistic that it follows from."""
        raise NotImplementedError

    def from_histograms(self, histograms: Histograms) -> StateT:
        """The state, computed from histograms on a grid that stand for the rows.

        Raises
        ------
        ValueError
            If histograms do not determine it.
        """
        raise ValueError(
            f"A metric needs {self.display_name}, which cannot be computed from a summary; "
            "evaluate the data themselves for this metric."
        )

    @property
    def is_reweighted(self) -> bool:
        """Whether the state of weighted rows is the weighted sum of the states of parts, see `reweighted`."""
        return self.weighting is not None

    # Of each field of the state, where it adds up: the axis of its batch, and the power of the weights that it sums; 0
    # for a number of rows, which count if their weight is positive.
    weighting: ClassVar[tuple[tuple[int, int], ...] | None] = None

    def reweighted(self, state: StateT, weigh: "Weigh") -> StateT:
        """The state of rows with weights, from that of parts which have one weight each.

        ``weigh`` maps sums of the parts, the axis of their batch and the power of the weights to weighted sums.
        """
        if self.weighting is None:
            raise NotImplementedError
        fields: Any = zip(cast("tuple[Any, ...]", state), self.weighting, strict=True)
        weighed = (weigh(exact.value(sums) if power else sums, axis, power) for sums, (axis, power) in fields)
        return cast("Any", type(state))(*weighed)

    # Whether `as_calibrated` gives the state of a calibrated model.
    has_calibrated_form: ClassVar[bool] = False

    def as_calibrated(
        self, state: StateT, total: Callable[[Any, int], Any], noise: Callable[[Any, int], Any]
    ) -> StateT:
        """The state of rows whose outcomes add up to their scores, plus noise.

        ``total`` maps sums of parts and the axis of their batch to their total; ``noise`` to a random sum of mean 0.
        """
        raise NotImplementedError

    @property
    def display_name(self) -> str:
        """Its name in messages."""
        return type(self).__name__

    def bytes(self, layout: Layout) -> int:
        """Memory of a state, where that is large enough to matter."""
        return 0

    def add_to(self, schedule: "Schedule") -> None:
        """Schedule the blocks of the data, each by itself."""
        schedule.blocks.append(self)

    def submit(self, plan: Plan) -> None:
        """Ask for a pass over the data."""
        plan.compute(self)

    def viewed_by(self, view: View) -> Requests[StateT]:
        """The statistic of the rows seen through the view."""
        return (yield from view.from_states(self) or ViewedStatistic(view, self))


class SumStatistic(Statistic[StateT]):
    """A statistic whose states merge by addition."""

    # How many fields of the state, the first ones, are plain counts; the others are exact or weighted sums.
    counts: ClassVar[int] = 1

    @property
    def adds(self) -> bool:
        """Whether states merge by addition: True."""
        return True

    def merge(self, a: StateT, b: StateT) -> StateT:
        """Sums of both."""
        pairs: Any = list(zip(cast("tuple[Any, ...]", a), cast("tuple[Any, ...]", b), strict=True))
        added = [x + y for x, y in pairs[: self.counts]], [exact.add(x, y) for x, y in pairs[self.counts :]]
        return cast("Any", type(a))(*added[0], *added[1])


@dataclass(frozen=True)
class ViewedStatistic(Statistic[StateT]):
    """A statistic of the rows as seen through a view."""

    view: View
    statistic: Statistic[StateT]

    @property
    def ordered(self) -> bool:
        """Whether the view or the statistic is."""
        return self.view.ordered or self.statistic.ordered

    @property
    def adds(self) -> bool:
        """Whether the statistic does."""
        return self.statistic.adds

    def from_block(self, block: Block) -> StateT:
        """State of one block, viewed a few rows at a time so that memory stays bounded."""
        return reduce(self.merge, (self.statistic.from_block(self.view.block(part)) for part in self._parts(block)))

    def _parts(self, block: Block) -> Iterator[Block]:
        step = self.view.step(block)
        if block.rows <= step:
            return iter((block,))
        return (block.part(start, start + step) for start in range(0, block.rows, step))

    def merge(self, a: StateT, b: StateT) -> StateT:
        """State of the rows of both."""
        return self.statistic.merge(a, b)

    @property
    def is_reweighted(self) -> bool:
        """Whether a view of each row by itself keeps that of the statistic."""
        return self.view.power > 0 and self.statistic.is_reweighted

    def reweighted(self, state: StateT, weigh: Weigh) -> StateT:
        """As for the rows themselves, with the power of the weights that the view shows."""
        return self.statistic.reweighted(state, lambda sums, axis, power: weigh(sums, axis, power * self.view.power))

    def follows_from(self, other: Statistic[Any]) -> bool:
        """Whether the wrapped statistic follows exactly from a larger one of its own type under one view."""
        if not isinstance(other, ViewedStatistic) or other.view != self.view:
            return False
        return type(other.statistic) is type(self.statistic) and self.statistic.follows_from(other.statistic)

    def extracted_from(self, state: StateT) -> StateT:
        """Extract the state of the wrapped statistic."""
        return self.statistic.extracted_from(state)

    def check(self, state: StateT) -> None:
        """Check the state of the wrapped statistic."""
        self.statistic.check(state)

    def bytes(self, layout: Layout) -> int:
        """Memory of a state."""
        return self.statistic.bytes(self.view.memory_layout(layout))

    def from_histograms(self, histograms: Histograms) -> StateT:
        """From histograms of the rows as seen through the view."""
        seen = histograms.seen_through(self.view)
        return super().from_histograms(histograms) if seen is None else self.statistic.from_histograms(seen)

    @property
    def display_name(self) -> str:
        """Name of the wrapped statistic in messages."""
        return self.statistic.display_name
