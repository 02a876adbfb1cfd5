"""Notes on rows besides their numbers: how many were left out, and which labels count as negative.

Notes of parts merge into those of all rows. As text they travel with summaries, as arrays that add up with the states
of accumulators.
"""

import json
import os
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from calibdask.engine.label_sums import LabelSums
from calibdask.statistics.validity import ABSENT_LABEL

# Number of labels that a notice lists.
_SHOWN = 5
# Distinct texts that are kept for an error message, the first ones.
_MOST_STRAYS = 1000
# The count of the rows without a slice.
MISSING_SLICES = "missing_slices"
# The counts of rows that were left out, of the values that these lack, and of the rows without a slice.
EXCLUDED_ROWS = (
    *("rows_skipped", "cells_skipped", "rows_ignored", "missing_labels", "missing_scores", "missing_weights"),
    MISSING_SLICES,
)
# The labels that count as negative, where there are several.
NEGATIVE_LABELS = "negative_labels"


class OtherLabels(NamedTuple):
    """Labels of some rows besides the positive class; the number kept is bounded.

    Attributes
    ----------
    negative : tuple of str
        The first ones, in sorted order, of those that count as negative; one more than are shown.
    strays : tuple of (int, str)
        Labels that are no class, or texts among numbers, with the numbers in their place; in the order of rows.
    positive : str
        The positive class as text; empty where labels are not compared with one.
    occurs : bool
        Whether some row has it.
    classes : str
        The classes that labels are compared with, where these are named; strays are none of them.
    mend : str
        Advice for strays.
    """

    negative: tuple[str, ...] = ()
    strays: tuple[tuple[int, str], ...] = ()
    positive: str = ""
    occurs: bool = False
    classes: str = ""
    mend: str = ""

    @classmethod
    def of(
        cls,
        negative: Iterable[Any],
        strays: Iterable[tuple[int, str]] = (),
        positive: Any = None,
        *,
        occurs: bool = False,
    ) -> "OtherLabels":
        """These labels, as text.

        Examples
        --------
        >>> OtherLabels.of([10.0, 2, "auk"]).negative
        ('2', '10', "'auk'")
        """
        texts = cls.of_texts(map(label_text, negative)).negative
        return cls(texts, first_strays(strays), repr(positive), occurs)

    @classmethod
    def of_texts(cls, negative: Iterable[str]) -> "OtherLabels":
        """Labels that are texts already."""
        return cls(tuple(sorted({*negative}, key=_order)[: _SHOWN + 1]))

    def merged(self, other: "OtherLabels") -> "OtherLabels":
        """The labels of the rows of both; the rows of ``other`` come later."""
        if self == other:
            return self
        return OtherLabels(
            self.of_texts([*self.negative, *other.negative]).negative,
            first_strays([*self.strays, *other.strays]),
            self.positive or other.positive,
            self.occurs or other.occurs,
            self.classes or other.classes,
            self.mend or other.mend,
        )

    def refusal(self, number: int, count: int, rows: int, first: int) -> str:
        """The error for a label with this number in its place, the first of ``count``; empty if there is none."""
        if number == ABSENT_LABEL:
            return no_class(count, rows, first)
        text = dict(self.strays).get(number, "another label" if self.strays else "")
        if not text:
            return ""
        if self.classes:
            others = "" if count == 1 else f", the first of {count} of {rows} labels that are none of them"
            return f"y_true expects classes among {self.classes}, got {text} in row {first}{others}{self.mend}."
        differ = "is another text" if count == 1 else "are other texts"
        return (
            f"y_true expects labels that are numbers, as pos_label (--pos-label) is, but {count} of {rows} labels "
            f"{differ}; the first is row {first}, {text}. They would count as negative. Name both classes by "
            f"labels=... (--labels), the positive one last, and skip such rows by ignore_label={text} (--ignore-label)."
        )

    @property
    def listed(self) -> str:
        """The labels that count as negative, if there are several: one class is measured against the rest.

        Examples
        --------
        >>> OtherLabels.of(["tit", "auk"]).listed, OtherLabels.of(["tit"]).listed
        ("'auk', 'tit'", '')
        """
        if len(self.negative) < 2:
            return ""
        return ", ".join(self.negative[:_SHOWN]) + ", ..." * (len(self.negative) > _SHOWN)

    def check(self) -> None:
        """Warn if several labels count as negative.

        Raises
        ------
        ValueError
            If the positive class does not occur among several labels: a misspelt one would make all rows negative.
        """
        if self.listed and not self.occurs:
            raise ValueError(f"pos_label expects a class of y_true, such as {self.negative[0]}, got {self.positive}.")
        self.warn()

    def warn(self, *, of_summary: bool = False) -> None:
        """Warn if several labels count as negative, of rows or of a summary."""
        again = "summarize the rows again and " if of_summary else ""
        said = _said.get()
        if self.listed and (said is None or self.listed not in said):
            if said is not None:
                said.add(self.listed)
            warnings.warn(
                f"Several labels besides the positive one count as negative: {self.listed}. If one of them is no "
                f"class, {again}leave its rows out by ignore_label=... (--ignore-label); if only two are expected, "
                "name both by labels=... (--labels), the positive one last, and others are refused.",
                UserWarning,
                stacklevel=level_of_caller(),
            )


@dataclass(frozen=True)
class RowNotes:
    """Notes on some rows.

    Attributes
    ----------
    excluded : mapping from str to int, or None
        Counts by `EXCLUDED_ROWS`, of those that were asked for; None where they are not known.
    others : OtherLabels
    rows : int
        Number of the rows, by which a sum or a selection of summaries is noticed.
    joint : mapping of str to mapping
        Further counts, and ``rows``, of periods that were added together, by their labels: some of these periods may be
        elsewhere.
    """

    excluded: Mapping[str, int] | None = field(default_factory=dict)
    others: OtherLabels = field(default_factory=OtherLabels)
    rows: int = 0
    joint: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    @classmethod
    def merged(cls, notes: Iterable["RowNotes"]) -> "RowNotes":
        """The notes on the rows of all.

        Examples
        --------
        >>> one, other = RowNotes({"rows_skipped": 1}, rows=5), RowNotes({"rows_skipped": 2}, rows=4)
        >>> RowNotes.merged([one, other]).excluded, RowNotes.merged([one, RowNotes(None)]).excluded
        ({'rows_skipped': 3}, None)
        """
        parts = [*notes]
        counts = None if any(note.excluded is None for note in parts) else _sums(note.excluded or {} for note in parts)
        others = reduce(OtherLabels.merged, (note.others for note in parts), OtherLabels())
        joint = {name: counted for note in parts for name, counted in note.joint.items()}
        return cls(counts, others, sum(note.rows for note in parts), joint)

    def times(self, parts: int) -> "RowNotes":
        """The notes on a sum of summaries with these notes each."""
        counts = None if self.excluded is None else {name: count * parts for name, count in self.excluded.items()}
        return replace(self, excluded=counts, rows=self.rows * parts)

    def of_periods(self, labels: Iterable[Any]) -> "RowNotes":
        """The notes on one of the periods that were added together, with the counts of all these periods."""
        if not any((self.excluded or {}).values()):
            return self
        counted = {"rows": self.rows, **(self.excluded or {})}
        return replace(self, excluded={}, rows=0, joint={", ".join(map(str, labels)): counted})

    def of_other_slices(self) -> "RowNotes":
        """The notes without the count of rows without a slice, which is that of all columns of slices together."""
        if self.excluded is None:
            return self
        return replace(self, excluded={name: count for name, count in self.excluded.items() if name != MISSING_SLICES})

    def of_rows(self, rows: int) -> "RowNotes":
        """The notes for this number of rows, without counts if these were made of another number of rows.

        Counts of 0 also hold for a selection of the rows.
        """
        whole = self._whole
        are_known = rows == whole.rows or not any((whole.excluded or {}).values())
        return replace(whole, excluded=whole.excluded if are_known else None, rows=rows)

    def stored_of_rows(self, rows: int) -> "RowNotes":
        """As `of_rows`, but counts of periods that were added together are kept until all of them are merged."""
        return self if self.joint and rows != self._whole.rows else self.of_rows(rows)

    @property
    def _whole(self) -> "RowNotes":
        """The notes where all periods that were added together are among the rows."""
        if self.excluded is None or not self.joint:
            return replace(self, joint={})
        sums = _sums([self.excluded, *self.joint.values()])
        return RowNotes(sums, self.others, self.rows + sum(counted["rows"] for counted in self.joint.values()))

    @property
    def attributes(self) -> dict[str, Any]:
        """Attributes of results."""
        negative = self.others.listed
        return ({NEGATIVE_LABELS: negative} if negative else {}) | dict((not self.joint and self.excluded) or {})

    def to_text(self) -> str:
        """The notes as JSON; where nothing was left out, summaries have the same text, which sums of xarray keep."""
        notes: dict[str, Any] = {"excluded": self.excluded}
        if self.joint or any((self.excluded or {}).values()):
            notes |= {"rows": self.rows, "joint": self.joint}
        if self.others.negative:
            others = self.others
            notes |= {"negative": others.negative, "positive": others.positive, "occurs": others.occurs}
        return json.dumps(notes)

    @classmethod
    def from_text(cls, text: str) -> "RowNotes":
        """The notes again; nothing is known of an empty text, or of one that no version writes."""
        try:
            known = {"rows": 0, "joint": {}, "negative": (), "positive": "", "occurs": False} | json.loads(text)
            excluded = known["excluded"]
            counts = None if excluded is None else {name: int(excluded[name]) for name in excluded}
            joint = {name: {"rows": 0} | {key: int(of[key]) for key in of} for name, of in known["joint"].items()}
            negative = tuple(map(str, known["negative"]))
            others = OtherLabels(negative, (), str(known["positive"]), bool(known["occurs"]))
            return cls(counts, others, int(known["rows"]), joint)
        except (ValueError, KeyError, TypeError, AttributeError):
            return cls(None)

    def to_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Integer arrays that can be added over processes: the sum represents the merged notes."""
        counts = [(self.excluded or {}).get(name, 0) for name in EXCLUDED_ROWS]
        asked = [name in (self.excluded or {}) for name in EXCLUDED_ROWS]
        numbers = np.array([self.excluded is None, self.others.occurs, *asked, *counts], np.int64)
        return {NOTES: numbers, LABELS: LabelSums.of(self.others.negative).sums}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]], pos_label: Any) -> "RowNotes":
        """The notes again, from sums of arrays; nothing is known without them, as in states of earlier versions.

        Raises
        ------
        ValueError
            If they are not of the shape and type that `to_arrays` returns.
        """
        if NOTES not in arrays and LABELS not in arrays:
            return cls(None)
        for name, expected in cls().to_arrays().items():
            if name not in arrays or (arrays[name].shape, arrays[name].dtype) != (expected.shape, expected.dtype):
                raise ValueError(
                    f"load_state_dict expects {name} of state_dict, int64 of shape {expected.shape}: the state is "
                    "damaged, or was made by hand."
                )
        unknown, occurs, *numbers = arrays[NOTES].tolist()
        asked, counts = numbers[: len(EXCLUDED_ROWS)], numbers[len(EXCLUDED_ROWS) :]
        excluded = {name: count for name, is_asked, count in zip(EXCLUDED_ROWS, asked, counts, strict=True) if is_asked}
        negative = OtherLabels.of_texts(LabelSums(arrays[LABELS]).labels).negative
        others = OtherLabels(negative, (), repr(pos_label), bool(occurs))
        return cls(None if unknown else excluded, others)


def _sums(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """The sums of counts of excluded rows, in one order."""
    parts = [*counts]
    return {name: sum(part.get(name, 0) for part in parts) for name in EXCLUDED_ROWS if any(name in p for p in parts)}


# Entries of state dictionaries: counts, and labels.
NOTES, LABELS = "row_notes", "negative_labels"
# The labels that were warned of already, where one call reads the rows several times.
_said: ContextVar[set[str] | None] = ContextVar("said", default=None)


@contextmanager
def warning_once() -> Iterator[None]:
    """Within this context, warn once of equal labels."""
    token = None if _said.get() is not None else _said.set(set())
    try:
        yield
    finally:
        if token is not None:
            _said.reset(token)


def level_of_caller() -> int:
    """Number of frames between a warning and the code that called the package."""
    folder = os.path.dirname(os.path.dirname(__file__)) + os.sep
    frame, level = sys._getframe(2), 2
    while frame.f_back is not None and frame.f_code.co_filename.startswith(folder):
        frame, level = frame.f_back, level + 1
    return level


def first_strays(strays: Iterable[tuple[int, str]]) -> tuple[tuple[int, str], ...]:
    """The first of these labels that differ; they are in the order of their rows."""
    return tuple(dict.fromkeys(strays))[:_MOST_STRAYS]


def label_text(label: Any) -> str:
    """A label as text; a whole number reads alike in all types."""
    label = label.item() if isinstance(label, np.generic) else label
    return repr(int(label) if isinstance(label, float) and label.is_integer() else label)


def no_class(count: int, rows: int, first: int) -> str:
    """The error for rows without a label."""
    lack = "lacks one" if count == 1 else "lack one"
    return (
        f"y_true expects a class in every row, but {count} of {rows} {lack}; the first is row {first}. Drop these "
        "rows, or leave them out by skip_missing=True (--skip-missing)."
    )


def _order(text: str) -> tuple[bool, float, str]:
    """Numbers come first, by their size."""
    try:
        return False, float(text), text
    except ValueError:
        return True, 0.0, text
