"""Values of features as small numbers: numbers that are cut, and categories; missing is a value of its own."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from calibdask.kernels.lattice import cut_codes
from calibdask.statistics.block import Block
from calibdask.statistics.exact import Array
from calibdask.statistics.frozen import FrozenArray, read_only

Codes = npt.NDArray[np.uint8]

# The parts of a date, and what they are called in texts.
DATE_PARTS = ("year", "month", "weekday", "hour")
# Their smallest and largest values; years have none.
_RANGES = {"month": (1, 12), "weekday": (1, 7), "hour": (0, 23)}
# Values are numbers of eight bits.
MOST_VALUES = 255
# Significant digits of edges in texts; with the most of them float64 are themselves.
_FEWEST_DIGITS, _MOST_DIGITS = 6, 17
# Types of numbers that kernels are compiled for; they compare them as float64.
_AS_THEY_ARE = tuple(map(np.dtype, ("i1", "i4", "i8", "f4", "f8")))


def numbers(block: Block, column: int, part: str = "") -> npt.NDArray[Any]:
    """A column of numbers, or a part of its dates, which rise from 1970: NaN where there is none.

    Weekdays are 1 (Monday) to 7. Dates may come as seconds.
    """
    key = ("numbers", column, part)
    if key not in block.prepared:
        block.prepared[key] = read_only(as_numbers(block.features[column], part))
    known: npt.NDArray[Any] = block.prepared[key]
    return known


def as_numbers(values: npt.NDArray[Any], part: str = "") -> npt.NDArray[Any]:
    """Numbers, dates or durations, or a part of dates: as float64 unless kernels take them as they are."""
    if part:
        return _part(values, part)
    if values.dtype in _AS_THEY_ARE:
        return np.ascontiguousarray(values)
    if values.dtype.kind == "m":
        return np.where(np.isnat(values), np.nan, values / np.timedelta64(1, "s"))
    return np.ascontiguousarray(values, np.float64)


def _part(values: npt.NDArray[Any], part: str) -> Array:
    if values.dtype.kind == "f":
        seconds = np.full(values.shape, np.iinfo(np.int64).min)
        seconds[np.isfinite(values)] = values[np.isfinite(values)].astype(np.int64)
        values = seconds.view("M8[s]")
    unit = {"year": "Y", "month": "M", "weekday": "D", "hour": "h"}[part]
    count = values.astype(f"M8[{unit}]").astype(np.int64)
    known = {"year": count + 1970, "month": count % 12 + 1, "weekday": (count + 3) % 7 + 1, "hour": count % 24}[part]
    return np.where(np.isnat(values), np.nan, known.astype(np.float64))


@dataclass(frozen=True)
class Cut:
    """A number, or a part of a date, cut at edges: value i counts the edges below; an edge itself belongs below.

    Parameters
    ----------
    name : str
    column : int
        Among the features of blocks.
    edges : FrozenArray
        Increasing.
    missing : bool
        Whether rows without a value are its last value.
    part : str
        Of dates, one of `DATE_PARTS`.
    unit : str
        Of durations, for texts.
    top : float, optional
        The number above the last edge, where every bin had a single whole number: texts name these.
    """

    name: str
    column: int
    edges: FrozenArray
    missing: bool
    part: str = ""
    unit: str = ""
    top: float | None = None

    @property
    def size(self) -> int:
        """How many values there are."""
        return self.edges.values.size + 1 + self.missing

    @property
    def texts(self) -> tuple[str, ...]:
        """The values as conditions."""
        name, values = name_of(self), self.edges.values.tolist()
        unit = f" {self.unit}" if self.unit else ""
        edges = [f"{text}{unit}" for text in different_texts(values)]
        inner = [f"{low} < {name} <= {high}" for low, high in pairwise(edges)]
        # Of dates all parts are missing at a time.
        last = [f"{self.name} missing"] if self.missing else []
        if self.top is not None:
            return (*(f"{name} = {number:.0f}{unit}" for number in (*values, self.top)), *last)
        if values == [np.inf]:
            # One value in all rows but those without any.
            return (f"{self.name} present", f"{self.name} above", *last)
        texts = [f"{name} <= {edges[0]}", *inner, f"{name} > {edges[-1]}"]
        return (*self._of_single_values(texts), *last)

    def _of_single_values(self, texts: list[str]) -> list[str]:
        """The texts, of parts of dates such that bins of a single value are called by it."""
        if not self.part:
            return texts
        first, last = _RANGES.get(self.part, (-np.inf, np.inf))
        ends = pairwise((first - 1, *self.edges.values.tolist(), last))
        return [
            f"{name_of(self)} = {high:.0f}" if high - low == 1 else text
            for text, (low, high) in zip(texts, ends, strict=True)
        ]

    def codes(self, block: Block) -> Codes:
        """The value of each row."""
        return self.codes_of(numbers(block, self.column, self.part))

    def codes_of(self, values: npt.NDArray[Any]) -> Codes:
        """Integer code of each number; missing numbers get the last code, or one more if none was missing before."""
        codes = np.empty(values.size, np.uint8)
        cut_codes(read_only(values), self.edges.values, self.edges.values.size + 1, codes)
        return codes


@dataclass(frozen=True)
class Categories:
    """A category; rare ones are one value, ``other``.

    Parameters
    ----------
    name : str
    column : int
    kept : tuple of str
        The texts of the values that stand for themselves.
    other, missing : bool
        Whether there are rows with further values, and rows without.
    labels : tuple of str, optional
        What numbers stand for, where the column holds numbers of categories, -1 for none.
    """

    name: str
    column: int
    kept: tuple[str, ...]
    other: bool
    missing: bool
    labels: tuple[str, ...] | None = None

    @property
    def size(self) -> int:
        """How many values there are."""
        return len(self.kept) + self.other + self.missing

    @property
    def texts(self) -> tuple[str, ...]:
        """The values as conditions."""
        further = [f"{self.name} other"] if self.other else []
        return (
            *(f"{self.name} = {value}" for value in self.kept),
            *further,
            *([f"{self.name} missing"] if self.missing else []),
        )

    @cached_property
    def _codes(self) -> dict[str, int]:
        return {value: code for code, value in enumerate(self.kept)}

    def codes(self, block: Block) -> Codes:
        """The value of each row; a row of weight 0 may have one that nobody has seen, and counts as the first."""
        values = block.features[self.column]
        unseen = len(self.kept) if self.other else 0
        missing = len(self.kept) + self.other if self.missing else 0
        if self.labels is not None:
            table = np.array([*(self._codes.get(label, unseen) for label in self.labels), missing], np.uint8)
            return np.asarray(table[category_numbers(values)], np.uint8)
        given = values.tolist()
        known = {
            value: missing if is_absent(value) else self._codes.get(str(value), unseen)
            for value in dict.fromkeys(given)
        }
        return np.fromiter(map(known.__getitem__, given), np.uint8, len(given))


Coding: TypeAlias = Cut | Categories


def name_of(coding: Coding) -> str:
    """The name of a feature, of dates with the part."""
    return f"{coding.name}.{coding.part}" if isinstance(coding, Cut) and coding.part else coding.name


def check_names(codings: Sequence[Coding]) -> None:
    """Raise ValueError where a column is called like a part of the dates of another one."""
    names = [name_of(coding) for coding in codings]
    if same := next((name for name in names if names.count(name) > 1), None):
        raise ValueError(
            f"audit expects features of different names, got two that are called {same}: a column, and a part of the "
            "dates of another one; rename one of these columns."
        )


def missing_again(features: Sequence[Coding]) -> tuple[int, ...]:
    """The features that are missing in the rows of an earlier one: all parts of a date but the first.

    Examples
    --------
    >>> year, month = (Cut("since", 0, FrozenArray(np.array([6.0])), True, part) for part in ("year", "month"))
    >>> missing_again([year, month]), year.texts[-1] == month.texts[-1]
    ((1,), True)
    """
    dated = [(at, coding.name) for at, coding in enumerate(features) if isinstance(coding, Cut) and coding.part]
    first = {name: at for at, name in reversed(dated)}
    return tuple(at for at, name in dated if at != first[name] and features[at].missing)


def codes_of(features: tuple[Coding, ...], block: Block) -> Codes:
    """Values of all features, (features, n); computed once a block, for all statistics of a pass."""
    if features not in block.prepared:
        codes = [feature.codes(block) for feature in features]
        block.prepared[features] = np.stack(codes) if codes else np.zeros((0, block.rows), np.uint8)
    known: Codes = block.prepared[features]
    return known


def different_texts(edges: Sequence[float]) -> list[str]:
    """Format numbers with six digits, or with as many more as are needed to keep them distinct.

    Examples
    --------
    >>> different_texts([0.25, 1234567.0]), different_texts([1700000210.0, 1700000430.0])
    (['0.25', '1.23457e+06'], ['1.7000002e+09', '1.7000004e+09'])
    """
    for digits in range(_FEWEST_DIGITS, _MOST_DIGITS):
        texts = [f"{edge:.{digits}g}" for edge in edges]
        if len(set(texts)) == len(edges):
            return texts
    return [f"{edge:.{_MOST_DIGITS}g}" for edge in edges]


def category_numbers(values: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Numbers of categories, -1 for none: booleans of files that are missing are NaN or None."""
    if values.dtype.kind == "f":
        values = np.where(np.isnan(values), -1, values)
    if values.dtype.kind == "O":
        is_none = np.array([value is None for value in values.tolist()], bool)
        values = np.where(is_none, -1, values)
    return values.astype(np.int64)


def is_absent(value: Any) -> bool:
    """Whether this is None, NaN or NaT."""
    return value is None or bool(value != value)
