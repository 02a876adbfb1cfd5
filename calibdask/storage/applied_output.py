"""The interface of an output of calibrated rows, and the mark of a complete one."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, TypedDict

import numpy as np

from calibdask.safe_text import listed, visible
from calibdask.storage.arrow_columns import to_numpy
from calibdask.storage.column_blocks import stacked
from calibdask.storage.columns import ColumnNames
from calibdask.storage.documents import parse_json
from calibdask.storage.manifest import HASH, is_intact, path_hash
from calibdask.storage.writers import APPLIED

# Attribute that marks a Zarr group as an output of calibrated rows.
MARK = "calibdask_applied"


class ChunkRecord(TypedDict):
    """Record of a written chunk: its rows, and the hashes of its files."""

    rows: int
    hashes: dict[str, str]


def scores_of(table: Any, names: ColumnNames) -> np.ndarray:
    """The scores in a table of Arrow, (n,) or (n, K)."""
    columns = {name: to_numpy(table.column(name)) for name in names.scores}
    scores = stacked(columns, names.scores)
    return scores[:, 0] if scores.ndim == 2 and scores.shape[1] == 1 else scores


@dataclass(frozen=True)
class AppliedFile(ABC):
    """An output that grows by chunks of rows, in their order.

    Parameters
    ----------
    part : Path
        The folder or file to write to.
    schema : pyarrow.Schema
    names : ColumnNames
        Those of the scores and labels.
    of_arrays : bool
        Whether the columns were whole arrays.
    chunk_rows : int
        Rows of each chunk but the last.
    score_name : str or None
        What calibrated scores are called that stand beside the scores; None: they take their place.
    store : str
        The identity of the output.
    """

    part: Path
    schema: Any
    names: ColumnNames
    of_arrays: bool
    chunk_rows: int
    score_name: str | None
    store: str

    suffix: ClassVar[str]
    is_folder: ClassVar[bool] = True
    # Whether texts are written as they came, whatever numbers they stand for.
    keeps_texts: ClassVar[bool] = False

    @abstractmethod
    def lay_out(self, table: Any, calibrated: np.ndarray) -> dict[str, str]:
        """Create the folder, with column types from the first chunk; texts of the files in it, by their paths."""

    @abstractmethod
    def write(self, number: int, table: Any, calibrated: np.ndarray) -> dict[str, str]:
        """Write the chunk of this number, again if need be; the hashes of its files, by file or array."""

    @abstractmethod
    def place(self, number: int, name: str) -> Path:
        """The file of a chunk that has this name in its record."""

    def check(self, state: Mapping[str, Any]) -> None:
        """Raise ValueError unless the chunks of a saved state are those that were written; restore the layout.

        All are read once more: a run that goes on vouches for what an earlier one has written.
        """
        for number, chunk in enumerate(state.get("records", ())):
            for name, expected in chunk["hashes"].items():
                path = self.place(number, name)
                if not path.is_file():
                    raise ValueError(f"{str(path)!r} is missing")
                if path_hash(path) != expected:
                    raise ValueError(f"{str(path)!r} is not what was written")
        for path_in_part, text in state.get("layout", {}).items():
            (self.part / path_in_part).write_text(text, encoding="utf-8")

    @abstractmethod
    def seal(self, mark: Mapping[str, Any], chunks: Sequence[ChunkRecord]) -> None:
        """Write the manifest last: the inputs of the output, and all chunks."""

    @property
    @abstractmethod
    def left_out(self) -> tuple[str, ...]:
        """Columns that it cannot hold."""


def mark_of(folder: Path) -> dict[str, Any]:
    """The mark of a complete output; empty if it is missing or corrupted."""
    from calibdask.storage.checked_store import GroupManifest

    try:
        if (folder / APPLIED).exists():
            mark = parse_json((folder / APPLIED).read_text(encoding="utf-8"))
            return dict(mark) if is_intact(mark) or HASH not in mark else {}
        attributes = parse_json((folder / "zarr.json").read_text(encoding="utf-8"))["attributes"]
        GroupManifest.of(str(folder), attributes)
        return dict(attributes[MARK])
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def check_free(names: Any, taken: Any) -> None:
    """Raise ValueError if two columns of the output would have one name."""
    both = [visible(name) for name in names if name in taken]
    if both:
        raise ValueError(
            f"There would be two columns called {listed(both)}; give the calibrated scores another name (--score-name)."
        )
