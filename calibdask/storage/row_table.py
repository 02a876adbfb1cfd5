"""The columns that are chosen from stored rows, and the rows that they make."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from calibdask.storage.columns import ColumnNames
from calibdask.storage.location import MissingChunks


@dataclass(frozen=True)
class RowTable:
    """Arrays of scored rows, NumPy or Dask, as `calibdask.evaluate` takes them.

    Parameters
    ----------
    labels : array of shape (n,), or (n, K)
    scores : array of shape (n,) or (n, K)
        With a coordinate where the columns have names of classes.
    weights : array of shape (n,), optional
    by : mapping from name to array of shape (n,)
    names : ColumnNames
        The columns or arrays of the labels and scores.
    skip_missing : bool
        Whether analyses leave out rows without a label, a score or a weight; the arrays have all rows.
    groups : array of shape (n,), optional
        The cluster of each row.
    groups_name : str
        The name of their column.
    identifiers : mapping from name to array of shape (n,)
        Columns that are checked for dependent rows.
    """

    labels: Any
    scores: Any
    weights: Any
    by: dict[str, Any]
    names: ColumnNames
    skip_missing: bool = False
    groups: Any = None
    groups_name: str = ""
    identifiers: Mapping[str, Any] = field(default_factory=dict)

    @property
    def vector(self) -> bool:
        """Whether the scores are a vector of P(y = 1)."""
        return bool(self.scores.ndim == self.labels.ndim == 1)

    @property
    def in_memory(self) -> bool:
        """Whether the arrays are NumPy's; otherwise Dask reads all of them."""
        return isinstance(self.labels, np.ndarray)

    @property
    def classes(self) -> int:
        """Number of classes: 2 for a vector."""
        return 2 if self.vector else int(self.scores.shape[-1])


@dataclass(frozen=True)
class ColumnChoice:
    """Columns to read (None: names of the format), rows per block, and treatment of missing chunks.

    Texts of the columns of ``by``, slices, stay what they are; those of ``features`` are numbers wherever they can be.
    Texts that are times with offsets are the times on the clock there; those of ``instants`` are times of UTC.
    Columns of ``text`` are texts, whatever their values are.
    """

    label: str | Sequence[str] | None
    score: str | Sequence[str] | None
    by: tuple[str, ...]
    weight: str | None
    chunk_rows: int | None
    missing_chunks: MissingChunks = "error"
    features: tuple[str, ...] = ()
    instants: tuple[str, ...] = ()
    text: tuple[str, ...] = ()

    @property
    def text_types(self) -> dict[str, Any]:
        """Types of the columns that are kept as text."""
        if not self.text:
            return {}
        import pyarrow

        return dict.fromkeys(self.text, pyarrow.string())

    @property
    def slicing(self) -> tuple[str, ...]:
        """Names of slices and features, each once."""
        return tuple(dict.fromkeys((*self.by, *self.features)))

    @property
    def further(self) -> tuple[str, ...]:
        """Names besides labels and scores, each once."""
        return tuple(dict.fromkeys((*self.slicing, *(() if self.weight is None else (self.weight,)))))

    def collect(
        self, names: ColumnNames, together: Callable[[tuple[str, ...]], Any], array: Callable[[str], Any]
    ) -> RowTable:
        """The rows: ``together`` joins columns to one array, ``array`` gives one by its name."""
        weights = None if self.weight is None else array(self.weight)
        slices = {name: array(name) for name in self.slicing}
        return RowTable(together(names.labels), together(names.scores), weights, slices, names)
