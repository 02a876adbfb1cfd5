"""How features become a few values each: learnt from the rows, in as few passes as can be."""

import reprlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from calibdask.analyses.auditing.planning import segment_count
from calibdask.data.features import FeatureColumn
from calibdask.safe_text import check_labels, listed
from calibdask.statistics.exact import Counts
from calibdask.statistics.frozen import FrozenArray
from calibdask.statistics.lattice.coding import DATE_PARTS, MOST_VALUES, Categories, Coding, Cut
from calibdask.statistics.lattice.value_counts import (
    CELL_BITS,
    MOST_TEXTS,
    WHOLE,
    CodeCounts,
    TextCounts,
    ValueKeys,
    ValueKeysState,
)
from calibdask.statistics.lattice.whole_numbers import WholeNumbers
from calibdask.statistics.prefetch import Prefetch
from calibdask.statistics.request import Requests

# Bins of numbers.
BINS = 5
# Values of a category, where segments of all features are no more than so many.
_MOST_CATEGORIES, _MOST_SEGMENTS = 50, 100_000
_NUMERIC = ("number", "date")
# Where numbers differ by less than a millionth, a quantile need not tell them apart unless many rows have them.
_CLOSE_SHIFT = WHOLE[0] - CELL_BITS
_FEW = 1e-3
# Whole numbers of many rows, and of fewer rows each on average than this, are as those of identifiers.
_MANY, _REPEATED = 1000, 1.05
# So many rows that are pooled are worth a note.
_MUCH = 0.1
_SIGN = 0x7FFFFFFFFFFFFFFF

PLURALS: Mapping[str, str] = {"number": "numbers", "date": "dates", "category": "categories", "text": "texts"}


@dataclass(frozen=True)
class Learnt:
    """Codings of a column, warnings, and notes such as pooled values."""

    codings: tuple[Coding, ...]
    note: str = ""
    remark: str = ""

    @property
    def warning(self) -> str:
        """The note in a sentence; empty without one."""
        left_out = "" if self.codings else ": it defines no subgroup, and is ignored"
        return f"Feature {self.note}{left_out}." if self.note else ""


@dataclass(frozen=True)
class Values:
    """How features are cut.

    Parameters
    ----------
    most : int
        Values of a number besides missing: bins of equal mass.
    categories : int or None
        Values of a category or text besides missing: the most frequent ones and ``other``. None: as many as suit.
    min_rows : int
        Categories of fewer rows are rare.
    edges : mapping from name to edges
        Edges that are given.
    """

    most: int
    categories: int | None
    min_rows: int
    edges: Mapping[str, Sequence[float]]

    @classmethod
    def of(cls, values: int | None, min_rows: int, edges: Mapping[str, Sequence[float]] | None) -> "Values":
        """How features are cut as the user has it; raises ValueError for edges that cut nothing."""
        if edges is not None and not isinstance(edges, Mapping):
            raise ValueError(
                "edges expects a mapping from names of features to their edges, such as {'age': [30, 60]}, got "
                f"{type(edges).__name__}."
            )
        checked = {name: checked_edges(name, given) for name, given in (edges or {}).items()}
        return cls(BINS if values is None else values, values, min_rows, checked)

    def suiting(self, columns: Sequence[FeatureColumn], depth: int) -> "Values":
        """Reduce the number of category values so that there are not too many segments.

        That depends on the columns alone, on no row and no machine.
        """
        if self.categories is not None:
            return self
        parts = {"date": len(DATE_PARTS)}
        numbers = [self.most + 1] * sum(parts.get(column.kind, 1) for column in columns if column.kind in _NUMERIC)
        others = sum(column.kind not in _NUMERIC for column in columns)
        fitting = (
            most
            for most in range(_MOST_CATEGORIES, BINS, -1)
            if segment_count([*numbers, *[most + 1] * others], depth) <= _MOST_SEGMENTS
        )
        return replace(self, categories=next(fitting, BINS))

    def check_features(self, columns: Sequence[FeatureColumn]) -> None:
        """Raise ValueError unless edges are of numbers that are among the features."""
        kinds = {column.name: column.kind for column in columns}
        for name in self.edges:
            if name not in kinds:
                raise ValueError(f"edges expects names of features, {listed(kinds)}, got {name!r}; correct the name.")
            if kinds[name] != "number":
                raise ValueError(
                    f"edges expects features of numbers, and {name!r} is one of {PLURALS[kinds[name]]}; leave out its "
                    "edges, or convert it to numbers."
                )

    def learn(self, column: FeatureColumn, number: int) -> Requests[Learnt]:
        """The values of a column, which is the feature of that number in blocks."""
        if column.kind == "number":
            return (yield from self._number(column.name, number, unit=column.unit))
        if column.kind == "date":
            return (yield from self._date(column.name, number))
        return (yield from self._category(column, number))

    def _date(self, name: str, number: int) -> Requests[Learnt]:
        for part in DATE_PARTS:
            yield from Prefetch(ValueKeys(number, part))
            yield from Prefetch(WholeNumbers(number, part))
        parts = []
        for part in DATE_PARTS:
            parts.append((yield from self._number(name, number, part)))  # noqa: PERF401  # comprehensions cannot ask
        codings = [coding for part in parts for coding in part.codings if isinstance(coding, Cut)]
        # A part that is the same in all rows tells no more than which dates are missing: one such is enough.
        telling = [coding for coding in codings if np.isfinite(coding.edges.values).all()] or codings[:1]
        return Learnt(tuple(telling), "" if codings else parts[0].note)

    def _number(self, name: str, number: int, part: str = "", unit: str = "") -> Requests[Learnt]:
        keys, different = ValueKeys(number, part), WholeNumbers(number, part)
        yield from Prefetch(different)
        state = yield keys
        whole = yield different
        present, missing = int(state.present), int(state.missing)
        if present == 0:
            return Learnt((), f"{name} has no values: all {missing:,} rows are missing")
        given, top = self.edges.get(name) if not part else None, None
        if given is not None:
            edges = np.array(given, np.float64)
        elif whole.whole and not whole.level and whole.numbers.size <= self.most:
            # Few different whole numbers are values of their own.
            edges = whole.numbers[:-1]
            # There will be further years.
            top = float(whole.numbers[-1]) if part != "year" else None
        else:
            edges = yield from self._quantiles(keys, state)
        if not edges.size and not missing:
            return Learnt((), f"{name} has the same value in all rows")
        if not edges.size:
            # What is missing may still differ from what is not.
            edges, top = np.array([np.inf]), None
        remark = ""
        if given is None and present >= _MANY and whole.counts.sum() < _REPEATED * whole.numbers.size:
            remark = (
                f"{name} has a whole number of its own in nearly every row, and is cut at quantiles; if it is an "
                "identifier, it describes no subgroup: leave it out"
            )
        return Learnt((Cut(name, number, FrozenArray(edges), missing > 0, part, unit, top),), remark=remark)

    def _quantiles(self, keys: ValueKeys, state: ValueKeysState) -> Requests[np.ndarray]:
        """Edges at the values of ranks i n / bins: exact, or within a millionth where few rows are so close."""
        rows = int(state.present)
        ranks = np.unique(-(-np.arange(1, self.most) * rows // self.most))
        cells = [_Cell.of(keys.of_window(state, 0), WHOLE, 0, rank) for rank in ranks.tolist()]
        while wide := sorted({cell.window for cell in cells if not cell.settled(rows)}):
            narrow = replace(keys, windows=tuple(wide), bits=CELL_BITS)
            state = yield narrow
            found = {window: narrow.of_window(state, number) for number, window in enumerate(wide)}
            cells = [
                cell if cell.settled(rows) else _Cell.of(found[cell.window], cell.window, cell.below, cell.rank)
                for cell in cells
            ]
        return np.unique([cell.edge for cell in cells if cell.below + cell.rows < rows])

    def _category(self, column: FeatureColumn, number: int) -> Requests[Learnt]:
        if column.labels is not None:
            codes = (yield CodeCounts(number, len(column.labels))).counts
            counts, missing = codes[:-1], int(codes[-1])
            values: Sequence[str] = column.labels
            mixed = False
        else:
            state = yield TextCounts(number)
            if state.too_many:
                return Learnt(
                    (),
                    f"{column.name} has more than {MOST_TEXTS:,} different values and seems to be an identifier",
                )
            counts, missing, values = state.counts, int(state.missing), state.values.tolist()
            mixed = bool((state.kinds > 0).all())
        most = self.categories or BINS
        order = np.argsort(-counts, kind="stable")
        present = [at for at in order.tolist() if counts[at]]
        if not present:
            return Learnt((), f"{column.name} has no values: all {missing:,} rows are missing")
        if len(present) + (missing > 0) < 2:
            return Learnt((), f"{column.name} has the same value in all rows")
        common = [at for at in present if counts[at] >= self.min_rows]
        if len(present) > 2 and not common:
            return Learnt(
                (),
                f"{column.name} has {len(present):,} different values, each in fewer than {self.min_rows} rows",
            )
        kept = present if len(present) <= most and len(common) == len(present) else common[: most - 1]
        kept = kept or present[:1]
        other = len(kept) < len(present)
        note = f"{column.name} mixes texts with other values, which count as their texts" if mixed else ""
        chosen = tuple(values[at] for at in sorted(kept))
        check_labels(f"features {column.name!r}", chosen)
        coding = Categories(column.name, number, chosen, other, missing > 0, column.labels)
        rare = sum(int(counts[at]) for at in present) - sum(int(counts[at]) for at in kept)
        pooled, share = len(present) - len(kept), rare / (int(counts.sum()) + missing)
        if share <= _MUCH:
            return Learnt((coding,), note)
        more = "more values of a feature (values)" if len(common) > len(kept) else "fewer rows a subgroup (min_rows)"
        return Learnt(
            (coding,),
            note,
            f"{column.name}: {pooled:,} of {len(present):,} values, {100 * share:.0f} % of the rows, "
            f"{'is' if pooled == 1 else 'are'} pooled as other; {more} tell more of them apart",
        )


@dataclass(frozen=True)
class _Cell:
    """The cell of keys that holds the row of a rank, counted from 1, how many rows are below it and in it, its keys."""

    rank: int
    below: int
    rows: int
    number: int
    shift: int
    low: int
    high: int

    @classmethod
    def of(cls, cells: tuple[Counts, ...], window: tuple[int, int], below: int, rank: int) -> "_Cell":
        """The cell in a window, with the number of rows below it."""
        numbers, counts, low, high = cells
        total = np.cumsum(counts)
        at = int(np.searchsorted(total, rank - below))
        here = int(counts[at])
        before = below + int(total[at]) - here
        return cls(rank, before, here, window[1] + int(numbers[at]), window[0], int(low[at]), int(high[at]))

    def settled(self, rows: int) -> bool:
        """Whether all values in the cell are equal, or close enough not to matter."""
        return self.low == self.high or (self.shift <= _CLOSE_SHIFT and self.rows <= _FEW * rows)

    @property
    def window(self) -> tuple[int, int]:
        """The window that consists of this cell."""
        shift = max(0, self.shift - CELL_BITS)
        return shift, self.number << (self.shift - shift)

    @property
    def edge(self) -> float:
        """The one value of the cell, or its largest."""
        pattern = self.high if self.high >= 0 else self.high ^ _SIGN
        return float(np.array(pattern, np.int64).view(np.float64))


def checked_edges(name: str, given: Any) -> tuple[float, ...]:
    """Edges of a feature as numbers; raises ValueError unless they are finite and increase.

    Examples
    --------
    >>> checked_edges("age", [30, 60])
    (30.0, 60.0)
    """
    try:
        edges = np.asarray(given, np.float64)
    except (TypeError, ValueError):
        edges = np.empty((0, 0))
    most = MOST_VALUES - 2
    if edges.ndim != 1 or not 1 <= edges.size <= most or not np.isfinite(edges).all() or (np.diff(edges) <= 0).any():
        raise ValueError(
            f"edges of {name!r} expects a list of 1 to {most} finite numbers, each larger than the one before, got "
            f"{reprlib.repr(given)}; sort them, and remove repeated and missing values."
        )
    return tuple(edges.tolist())


def is_whole(value: Any) -> bool:
    """Whether this is a whole number."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def check_values(values: int | None) -> None:
    """Raise ValueError unless features can have so many values."""
    if values is None:
        return
    if not is_whole(values) or not 2 <= values <= MOST_VALUES - 2:
        raise ValueError(f"values expects a whole number from 2 to {MOST_VALUES - 2}, got {values!r}.")
