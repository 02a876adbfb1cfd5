"""Sources answer requests for statistics; estimators cannot distinguish them."""

import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np

from calibdask.engine.axes import Axis
from calibdask.engine.one_hot import one_hot_fault
from calibdask.engine.row_filter import MISSING_LABEL
from calibdask.engine.row_notes import OtherLabels, level_of_caller
from calibdask.engine.workers import Workers, one_thread_for_products
from calibdask.errors import SuspectScoresWarning
from calibdask.statistics.bins.grid import Grid, GridHistogram
from calibdask.statistics.block import Block
from calibdask.statistics.derived import Derived
from calibdask.statistics.layout import Layout
from calibdask.statistics.pairs.pair_statistic import PairStatistic
from calibdask.statistics.pairs.target_reduction import TargetReduction
from calibdask.statistics.request import Requests
from calibdask.statistics.schedule import Schedule
from calibdask.statistics.settings import Setting
from calibdask.statistics.statistic import Statistic
from calibdask.statistics.validity import EXCLUDED, KINDS, Validity, ValidityState

if TYPE_CHECKING:
    from calibdask.engine.sources.summary import SummarySource


# Sums of so many rows are not 1 by chance, and so many sigmoids rarely lie between 0.5 and 0.74.
FEWEST_ROWS, _FEWEST_SIGMOIDS = 10, 100
# What the scores of a model can be.
_OF_SCORES = ("not finite", "out of range", "row sum")


def raise_if_invalid(
    state: ValidityState,
    checked: Validity,
    layout: Layout,
    row_of: Callable[[int], int] = lambda position: position,
    others: Callable[[], OtherLabels] = OtherLabels,
    batch: Sequence[Axis] = (),
) -> None:
    """Raise ValueError for invalid rows: the expectation, their number, the first row and its value.

    ``row_of`` turns the position noted in a state into a global row number; ``others`` finds the
    labels for which negative numbers stand; ``batch`` names the models.
    """
    if layout.logits:
        _check_logits(state, layout, batch)
    invalid = np.flatnonzero(state.invalid)
    if invalid.size:
        kind = int(invalid[np.argmin(state.first[invalid])])
        count, first, value = int(state.invalid[kind]), row_of(int(state.first[kind])), float(state.value[kind])
        more = sum(int(state.invalid[k]) for k in invalid if k != kind)
        is_coded = KINDS[kind].endswith("label") and not layout.one_hot and MISSING_LABEL < value < 0
        if is_coded and (refusal := others().refusal(int(value), count, int(state.rows), first)):
            raise ValueError(f"{refusal}{_more(more)}")
        of_model = _of_element(batch, int(state.element[kind])) if KINDS[kind] in _OF_SCORES else ""
        found = (count, f"{first}{of_model}", value)
        raise ValueError(_message(KINDS[kind], *found, checked, layout, int(state.rows), more))


def _check_logits(state: ValidityState, layout: Layout, batch: Sequence[Axis]) -> None:
    """Refuse logits of a model that all look like probabilities: their softmax would be that of another model.

    Values of P(y = 1) may lie between 0 and 1 by chance, so these give a warning.
    """
    rows = int(state.rows)
    suspect = np.flatnonzero(state.like_probabilities == rows)
    if not suspect.size or rows < (_FEWEST_SIGMOIDS if layout.vector else FEWEST_ROWS):
        return
    of_model = _of_element(batch, int(suspect[0]))
    mend = "give probabilities of all models and omit" if suspect.size < layout.batch else "omit"
    if layout.vector:
        warnings.warn(
            f"All {rows} logits{of_model} lie between 0 and 1; if they are probabilities, {mend} "
            "logits=True (--logits).",
            SuspectScoresWarning,
            stacklevel=level_of_caller(),
        )
        return
    raise ValueError(
        f"logits=True (--logits) expects logits, but all {rows} rows{of_model} lie in [0, 1] and sum to 1, like "
        f"probabilities; {mend} it."
    )


def _of_element(batch: Sequence[Axis], number: int) -> str:
    """The name of a batch element, such as " of model 'new'"; empty where there is one."""
    if math.prod(axis.size for axis in batch) < 2:
        return ""
    places = np.unravel_index(number, [axis.size for axis in batch])
    return " of " + ", ".join(
        f"number {place} along {axis.name!r}"
        if axis.labels is None
        else f"{axis.name} {np.asarray(axis.labels)[place : place + 1].tolist()[0]!r}"
        for axis, place in zip(batch, places, strict=True)
    )


def raise_if_nothing(state: ValidityState, excluded: Mapping[str, int]) -> None:
    """Raise ValueError if there are no rows, or none of positive weight."""
    if state.rows == 0 and (gone := excluded.get("ignored", 0) + excluded.get("skipped", 0)):
        lacking = [f"{excluded[role]:,} lack a {role}" for role in ("label", "score", "weight") if excluded[role]]
        ignored = [f"{excluded['ignored']:,} have the ignored label"] if excluded["ignored"] else []
        raise ValueError(
            f"Expected at least one row of scores and labels, but no rows are left of {gone:,}: "
            f"{', '.join([*ignored, *lacking])}."
        )
    if state.rows == 0:
        raise ValueError("Expected at least one row of scores and labels, got none.")
    if state.positive == 0:
        raise ValueError(f"At least one sample weight must be positive, all {int(state.rows)} are zero.")


def _message(
    kind: str, count: int, first: str, value: float, checked: Validity, layout: Layout, rows: int, others: int
) -> str:
    shown = int(value) if kind == "label" and value.is_integer() and abs(value) < 2**53 else value
    what = {"row sum": "sum", "label": "label", "weight": "weight"}.get(kind, "logit" if layout.logits else "score")
    expected, mend = _expectation(kind, checked, layout)
    if value != value:
        mend = f"Drop the rows whose {what} is NaN, or leave them out by skip_missing=True (--skip-missing)."
    with_value = f"with {what} {shown}"
    if kind == "label" and layout.one_hot and value < 0:
        with_value = one_hot_fault(value)
    differ = "differs" if count == 1 else "differ"
    return (
        f"Expected {expected}, but {count} of {rows} rows {differ}; the first is row {first} {with_value}."
        f"{_more(others)} {mend}"
    )


def _more(others: int) -> str:
    rows = "1 more row is" if others == 1 else f"{others} more rows are"
    return f" {rows} invalid in other ways." if others else ""


def _expectation(kind: str, checked: Validity, layout: Layout) -> tuple[str, str]:
    """The expectation for a row, and advice for rows that fail it."""
    one_hot = layout.one_hot and kind == "label"
    return {
        "not finite": (
            "finite logits" if layout.logits else "finite scores",
            "Drop or repair the rows with NaN or infinity.",
        ),
        "out of range": (
            f"scores in [0, 1] (within {checked.tolerance:g})",
            "If they are logits, say so by logits=True (--logits); divide percentages by 100.",
        ),
        "row sum": (
            f"the scores of a row to sum to 1 (within {checked.sum_tolerance:g})",
            "If the columns are independent labels, say task='multilabel'; if they are several models, give them a "
            "dimension with a name, or task='binary' and the shape (models, n); if logits, logits=True; if they are "
            "rounded, a larger sum_tolerance.",
        ),
        "label": (
            "one-hot rows of labels, a single 1 and zeros"
            if one_hot
            else f"labels that are whole numbers from 0 to {layout.classes - 1}",
            "If every column is an independent label, say task='multilabel'."
            if one_hot
            else "Number the classes in the order of the score columns, or name them: "
            + ("pos_label=..." if layout.vector else "labels=...")
            + "; drop rows without a class by ignore_label=...; for shares, see soft_labels of evaluate or check.",
        ),
        "weight": (
            "finite, non-negative sample weights (0, or between 1e-100 and 1e100)",
            "Drop these rows or give them weight 0.",
        ),
    }[kind]


Answer = TypeVar("Answer")
StateT = TypeVar("StateT")

# A state of all slices is not larger than this.
_MOST_STATE_BYTES = 1 << 32
# Of several statistics, in their order.
States = tuple[Any, ...]


class Source(ABC):
    """Answers requests for statistics in one pass per call; statistics of pairs take more.

    Attributes
    ----------
    layout : Layout
        Shape of the data, known without a pass.
    rows : int or None
        Number of rows, once a pass has counted them.
    passes : int
        How often the data have been read so far.
    excluded : mapping from str to int
        Rows that were left out, by `calibdask.statistics.validity.EXCLUDED`, once a pass has counted them.
    has_rows : bool
        Whether any statistic can be computed; a summary has those of its histograms only.
    other_labels : OtherLabels
        Labels besides the positive one, once a pass has found them.
    scores : function or None
        Reads the stored sums of proper scores; None with rows, and where none are stored.
    """

    has_rows: ClassVar[bool] = True
    layout: Layout
    rows: int | None
    passes: int = 0
    excluded: Mapping[str, int] = MappingProxyType({})
    other_labels: OtherLabels = OtherLabels()
    scores: Callable[[], Any] | None = None

    @abstractmethod
    def answer(self, statistics: tuple[Statistic[Any], ...]) -> States:
        """The states of all statistics. The first pass also checks the data and raises ValueError."""

    @property
    def workers(self) -> Workers | None:
        """Who computes the states of blocks; None if this process does."""
        return None

    @property
    def step(self) -> float | None:
        """Width of the cells of the finest stored grid; None with rows, which have none."""
        return None

    @property
    def histograms_to_resample(self) -> "SummarySource | None":
        """The source whose stored histograms stand for the rows in replicates; None with rows."""
        return None

    def has_histogram(self, setting: Setting) -> bool:
        """Whether a histogram of this setting can be computed, or is stored."""
        return True

    def has_score_sums(self, setting: Setting) -> bool:
        """Whether the sums of scores and outcomes of this setting can be computed, or follow from stored states."""
        return self.has_histogram(setting)

    def finest(self, setting: Setting) -> GridHistogram:
        """The histogram of this setting with the most cells."""
        return GridHistogram(setting, Grid(refined=True))

    def derivation(self, request: Derived[Answer]) -> Requests[Answer]:
        """How this source derives what follows from statistics."""
        return request.derive()


class RowSource(Source):
    """A source that has the rows: it checks them in the first pass, and it can visit pairs of their blocks."""

    def __init__(self, layout: Layout, validity: Validity) -> None:
        self.layout = layout
        self.rows: int | None = None
        self._validity = validity
        # The models, for error messages.
        self.batch: Sequence[Axis] = ()
        # Where rows were left out: the number in the whole of one that is left.
        self.original_row: Callable[[int], int] = int

    def answer(self, statistics: tuple[Statistic[Any], ...]) -> States:
        """One pass that shows each block by itself, then visits to pairs of blocks."""
        schedule = Schedule.of(statistics)
        _check_memory(schedule.blocks, self._memory_layout)
        pairs = tuple(schedule.pairs)
        known: dict[Statistic[Any], Any] = {}
        if schedule.blocks or self.rows is None:
            known.update(self._states(schedule.blocks))
        # Blocks are visited in parallel; products of matrices must not start threads of their own.
        with one_thread_for_products() if pairs else nullcontext():
            if pairs:
                known.update(zip(pairs, self._pairs(pairs), strict=True))
            for reduction in schedule.targets:
                known[reduction] = self._targets(reduction)
        return tuple(known[statistic] for statistic in statistics)

    @property
    def _memory_layout(self) -> Layout:
        """The layout with as many rows as there may be, for estimates of memory."""
        return replace(self.layout, rows=self.layout.most_rows if self.rows is None else self.rows)

    def part(self, statistics: Sequence[Statistic[Any]]) -> tuple[States, ValidityState]:
        """The states from one pass that checks each row, and how many rows there are: none, perhaps.

        Raises
        ------
        ValueError
            If rows are invalid.
        """
        self.passes += 1
        needed, following = apart(statistics)
        *states, checked = self._pass((*needed, self._validity))
        raise_if_invalid(checked, self._validity, self.layout, self._original_row, self.find_labels, self.batch)
        self.excluded = dict(zip(EXCLUDED, checked.excluded.tolist(), strict=True))
        check_states(needed, states)
        return _in_order(statistics, needed, states, following), checked

    def _states(self, statistics: Sequence[Statistic[Any]]) -> dict[Statistic[Any], Any]:
        """States from one pass, in which what follows from others is not computed again; the first checks the data."""
        if self.rows is None:
            states, checked = self.part(statistics)
            raise_if_nothing(checked, self.excluded)
            self.other_labels.check()
            self.rows = int(checked.rows)
        else:
            self.passes += 1
            needed, following = apart(statistics)
            computed = self._pass(needed)
            check_states(needed, computed)
            states = _in_order(statistics, needed, computed, following)
        return dict(zip(statistics, states, strict=True))

    def take_other_labels(self, others: Any, unknown: Callable[[], Any] | None = None) -> None:
        """Set the labels besides the positive one; a collection of Dask is computed in the first pass.

        ``unknown`` makes a collection of Dask that is computed only if labels are no class.
        """
        self.other_labels = others

    def find_labels(self) -> OtherLabels:
        """The labels besides the positive one, or besides the named classes, for an error message."""
        return self.other_labels

    @abstractmethod
    def _pass(self, statistics: tuple[Statistic[Any], ...]) -> States:
        """States of all rows, merged from blocks."""

    @abstractmethod
    def _pairs(self, statistics: tuple[PairStatistic[Any], ...]) -> States:
        """States of all pairs of rows."""

    @abstractmethod
    def _targets(self, reduction: TargetReduction[Any, StateT]) -> StateT:
        """State of all target rows, each reduced over all source rows."""

    def _original_row(self, position: int) -> int:
        """Number of a row in the data as they were given."""
        return self.original_row(self._row_of(position))

    def _row_of(self, position: int) -> int:
        """Global row number of a position that a block had for its start."""
        return position


def check_states(statistics: Iterable[Statistic[Any]], states: Iterable[Any]) -> None:
    """Raise ValueError where there are more rows than a state can hold."""
    for statistic, state in zip(statistics, states, strict=True):
        statistic.check(state)


def _check_memory(statistics: Sequence[Statistic[Any]], layout: Layout) -> None:
    """Raise ValueError if states would be too large; every thread has one of its own."""
    size = sum(statistic.bytes(layout) for statistic in apart(statistics)[0])
    if size > _MOST_STATE_BYTES:
        counts = [(layout.groups, "slices"), (layout.batch, "models"), (layout.classes, "classes")]
        what = ", ".join(f"{count:,} {words}" for count, words in counts if count > 1)
        raise ValueError(
            f"{what} expect {size / 1e9:,.1f} GB of memory for their histograms and sums, and at most "
            f"{_MOST_STATE_BYTES / 1e9:.1f} GB are allowed: use fewer slices (group their values first), settings or "
            "metrics at a time, or a larger step."
        )


def apart(
    statistics: Sequence[Statistic[Any]],
) -> tuple[tuple[Statistic[Any], ...], dict[Statistic[Any], Statistic[Any]]]:
    """Statistics that have to be computed, and for each of the others one of these that it follows from."""
    needed = tuple(statistic for statistic in statistics if not any(map(statistic.follows_from, statistics)))
    following = [statistic for statistic in statistics if statistic not in needed]
    return needed, {statistic: next(filter(statistic.follows_from, needed)) for statistic in following}


def _in_order(
    statistics: Sequence[Statistic[Any]],
    needed: Sequence[Statistic[Any]],
    states: Sequence[Any],
    following: Mapping[Statistic[Any], Statistic[Any]],
) -> States:
    """The states of all statistics, from those that were needed."""
    known = dict(zip(needed, states, strict=True))
    return tuple(
        known[statistic] if statistic in known else statistic.extracted_from(known[following[statistic]])
        for statistic in statistics
    )


def states_of(block: Block, statistics: tuple[Statistic[Any], ...]) -> States:
    """States of one block."""
    return tuple(statistic.from_block(block) for statistic in statistics)


def merged(statistics: tuple[Statistic[Any], ...], a: States, b: States) -> States:
    """States of the rows of both."""
    return tuple(s.merge(x, y) for s, x, y in zip(statistics, a, b, strict=True))
