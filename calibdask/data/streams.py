"""Rows that come in batches of Arrow - lazy frames, relations, data sets, readers - read anew in each pass."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from calibdask.data import slices
from calibdask.data.clusters import cluster_numbers
from calibdask.data.slices import SliceCodes
from calibdask.engine.arrays import refuse_strays
from calibdask.engine.axes import Axis
from calibdask.storage.arrow_columns import dtype_of, list_width, to_numpy
from calibdask.storage.column_types import is_text
from calibdask.storage.columns import ColumnNames

# Batches are taken together up to about this many scores, and at least this many rows.
_SCORES, _FEWEST_ROWS = 1 << 22, 1 << 15

Columns = dict[Any, np.ndarray]


@dataclass(frozen=True)
class Batches:
    """A container that gives its rows batch by batch.

    Attributes
    ----------
    schema : pyarrow.Schema
    read : function
        From names of columns to an iterator of record batches of these columns.
    once : bool
        Whether it can be read a single time.
    """

    schema: Any
    read: Callable[[Sequence[Any]], Iterator[Any]]
    once: bool = False


class Piece(NamedTuple):
    """Rows of several batches: labels (n,) or (n, K), scores of each model (n,) or (n, K), weights and slices (n,)."""

    labels: np.ndarray
    scores: tuple[np.ndarray, ...]
    weights: np.ndarray | None
    group: np.ndarray | None
    clusters: np.ndarray | None = None


@dataclass
class _Count:
    """Counters of the passes."""

    passes: int = 0


@dataclass(frozen=True)
class RowStream:
    """Labels, scores, weights and slices in batches.

    Attributes
    ----------
    batches : Batches
    names : ColumnNames
    weight : name of a column, optional
    by : mapping from name of a slicing variable to its column
    models : mapping from name of a model to its columns of scores
        Empty for one model, whose scores are those of ``names``.
    groups : name of the column of clusters, optional
    """

    batches: Batches
    names: ColumnNames
    weight: Any = None
    by: Mapping[Any, Any] = field(default_factory=dict)
    models: Mapping[Any, ColumnNames] = field(default_factory=dict)
    groups: Any = None
    _count: _Count = field(default_factory=_Count, compare=False)
    _widths: dict[tuple[Any, ...], int | None] = field(default_factory=dict, compare=False)

    @property
    def label_columns(self) -> int | None:
        """How many columns of labels there are; None for one label a row."""
        return self._width(self.names.labels)

    @property
    def score_columns(self) -> int | None:
        """How many columns of scores a model has; None for a vector of P(y = 1)."""
        return self._width(self.names.scores)

    @property
    def label_type(self) -> np.dtype[Any]:
        """The type of the labels as they come."""
        return np.result_type(*map(self._type, self.names.labels))

    @property
    def labels(self) -> Iterator[np.ndarray]:
        """The labels, batch by batch."""
        return (to_numpy(batch.column(0)) for batch in self.batches.read(self.names.labels))

    @property
    def score_type(self) -> np.dtype[Any]:
        """Type of the scores of all models."""
        return np.result_type(*self.empty.scores)

    @property
    def _score_names(self) -> list[tuple[Any, ...]]:
        """The columns of scores of each model."""
        return [one.scores for one in self.models.values()] or [self.names.scores]

    @property
    def _columns(self) -> list[Any]:
        """The columns of labels, scores and weights."""
        return [*self.names.labels, *(name for names in self._score_names for name in names), *self._weights]

    def check_types(self) -> None:
        """Raise ValueError for columns that cannot be scores, one-hot labels or weights."""
        scores = [name for names in self._score_names for name in names]
        roles = dict.fromkeys(scores, "scores") | ({} if self.weight is None else {self.weight: "weights"})
        if self.label_columns is not None:
            roles |= dict.fromkeys(self.names.labels, "0 or 1")
        for name, role in roles.items():
            if self._type(name).kind not in "fiub":
                kind = self.batches.schema.field(str(name)).type
                if is_text(kind):
                    column = (to_numpy(batch.column(0)) for batch in self.batches.read((name,)))
                    refuse_strays(f"column {name!r}", column)
                raise ValueError(f"Column {name!r} expects {role}, got {kind}; convert it, or name another column.")

    def pieces(self, coding: Callable[[Columns], np.ndarray] | None) -> Iterator[Piece]:
        """Rows of one pass, at least one piece; ``coding`` gives the slice of each."""
        empty = True
        for columns in self._read([*self._columns, *self.by.values(), *self._clusters]):
            empty = False
            yield self._piece(columns, None if coding is None else coding(columns))
        if empty:
            yield self.empty._replace(group=None if coding is None else np.empty(0, np.int32))

    def _piece(self, columns: Columns, group: np.ndarray | None) -> Piece:
        return Piece(
            self._matrix(columns, self.names.labels, self.label_columns),
            tuple(self._matrix(columns, names, self._width(names)) for names in self._score_names),
            None if self.weight is None else columns[self.weight],
            group,
            None if self.groups is None or self.groups not in columns else cluster_numbers(columns[self.groups]),
        )

    @property
    def empty(self) -> Piece:
        """No rows, in the types and with the columns of all."""
        labels = np.empty(self._shape(0, self.label_columns), self.label_type)
        scores = tuple(
            np.empty(self._shape(0, self._width(names)), np.result_type(*map(self._type, names)))
            for names in self._score_names
        )
        clusters = None if self.groups is None else np.empty(0, np.int64)
        return Piece(labels, scores, None if self.weight is None else np.empty(0), None, clusters)

    def slices(
        self, keep: Callable[[Piece], np.ndarray] | None = None
    ) -> tuple[Callable[[Columns], np.ndarray] | None, tuple[Axis, ...]]:
        """The function from columns to slices, and the axes; one pass finds the distinct values.

        Values that only rows have which ``keep`` does not mark make no slices.
        """
        if not self.by:
            return None, ()
        import pandas as pd

        distinct: dict[Any, np.ndarray] = {}
        needed = [] if keep is None else self._columns
        for columns in self._read([*self.by.values(), *needed]):
            kept = slice(None) if keep is None else keep(self._piece(columns, None))
            for name in self.by.values():
                known = [distinct[name]] if name in distinct else []
                distinct[name] = pd.unique(np.concatenate([*known, columns[name][kept]]))
        lookups, axes = [], []
        for name, column in self.by.items():
            values = distinct.get(column, np.empty(0, object))
            codes, (axis,) = slices.coded({name: values}, len(values), "sample")
            lookups.append((column, pd.Index(values), codes, axis.size))
            axes.append(SliceCodes(np.empty(0, np.int32), axis.labels))
        # Checks the number of all combinations.
        return _Coding(lookups, keep is None), slices.coded(dict(zip(self.by, axes, strict=True)), 0, "sample")[1]

    @property
    def _weights(self) -> list[Any]:
        return [] if self.weight is None else [self.weight]

    @property
    def _clusters(self) -> list[Any]:
        return [] if self.groups is None else [self.groups]

    def _type(self, name: Any) -> np.dtype[Any]:
        return dtype_of(self.batches.schema.field(str(name)).type)

    def _width(self, names: tuple[Any, ...]) -> int | None:
        """Columns of a matrix that columns are side by side, or the lists of one; None for a vector."""
        if names not in self._widths:
            self._widths[names] = self._found_width(names)
        return self._widths[names]

    def _found_width(self, names: tuple[Any, ...]) -> int | None:
        if len(names) > 1:
            return len(names)
        width = list_width(self.batches.schema.field(str(names[0])).type)
        if width != -1:
            return width
        if self.batches.once:
            raise ValueError(
                f"Column {names[0]!r} holds lists of undeclared length, and this reader can be read only once: cast it "
                "to a list of fixed size, or give a function that returns a new reader, or a table."
            )
        rows = (to_numpy(batch.column(0)) for batch in self.batches.read(names) if batch.num_rows)
        return int(next(rows, np.empty((0, 0))).shape[1])

    @staticmethod
    def _shape(rows: int, columns: int | None) -> tuple[int, ...]:
        return (rows,) if columns is None else (rows, columns)

    def _matrix(self, columns: Columns, names: Sequence[Any], width: int | None) -> np.ndarray:
        """One column, or the matrix of several, or of lists."""
        array = columns[names[0]] if len(names) == 1 else np.stack([columns[name] for name in names], axis=1)
        if array.shape != self._shape(len(array), width):
            raise ValueError(
                f"Column {names[0]!r} expects {width} values in every list, as in its first row, got lists of "
                f"{array.shape[1]}."
            )
        return array

    def _read(self, names: Sequence[Any]) -> Iterator[Columns]:
        """Columns of several batches at a time."""
        self._count.passes += 1
        if self.batches.once and self._count.passes > 1:
            raise ValueError(
                "These metrics or slices need several passes, but the reader is exhausted; give a function that "
                "returns a new reader, or a table."
            )
        wanted = list(dict.fromkeys(names))
        for table in self._tables(wanted):
            yield {name: to_numpy(table.column(number)) for number, name in enumerate(wanted)}

    def _tables(self, names: Sequence[Any]) -> Iterator[Any]:
        import pyarrow

        target = max(_FEWEST_ROWS, _SCORES // max(1, (self.score_columns or 1) * len(self._score_names)))
        held: list[Any] = []
        for batch in self.batches.read(names):
            held.append(batch)
            if sum(part.num_rows for part in held) >= target:
                yield pyarrow.Table.from_batches(held)
                held = []
        if held:
            yield pyarrow.Table.from_batches(held)


@dataclass(frozen=True)
class _Coding:
    """Slices of rows: for each variable its column, the distinct values, their codes, and how many there are."""

    lookups: list[tuple[Any, Any, np.ndarray, int]]
    # Whether values that are not known belong to rows that are left out.
    all_known: bool

    def __call__(self, columns: Columns) -> np.ndarray:
        group = np.zeros(1, np.int64)
        for column, index, codes, size in self.lookups:
            positions = index.get_indexer(columns[column])
            if self.all_known and (positions < 0).any():
                raise ValueError("by expects the same values in every pass over the data; they changed between two.")
            group = group * size + (codes[positions] if len(codes) else 0)
        return group
