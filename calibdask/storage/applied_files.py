"""Rows with calibrated scores, written chunk by chunk: a Zarr group, a folder of Parquet files, or a CSV file."""

import csv
import io
import json
import os
import shutil
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, TypedDict

import numpy as np

from calibdask.engine.axes import MISSING
from calibdask.errors import Damaged
from calibdask.safe_text import listed, visible
from calibdask.storage.applied_manifest import manifest_text
from calibdask.storage.arrow_columns import dtype_of, list_width, to_numpy
from calibdask.storage.atomic_replace import write_whole
from calibdask.storage.column_blocks import stacked
from calibdask.storage.columns import ColumnNames
from calibdask.storage.documents import parse_json
from calibdask.storage.manifest import HASH, IDENTITY, content_hash, file_hash, is_intact
from calibdask.storage.writers import APPLIED, texts_settled

# The attribute of a Zarr group that says what it is.
_MARK = "calibdask_applied"
# Arrays have room for more rows than can be read; when all are written they get their size.
_ROOM = 10**12


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
                with path.open("rb") as file:
                    if file_hash(file) != expected:
                        raise ValueError(f"{str(path)!r} is not what was written")
        for path_in_part, text in state.get("layout", {}).items():
            (self.part / path_in_part).write_text(text, encoding="utf-8")

    @abstractmethod
    def seal(self, mark: Mapping[str, Any], chunks: Sequence["ChunkRecord"]) -> None:
        """Write the manifest last: the inputs of the output, and all chunks."""

    @property
    @abstractmethod
    def left_out(self) -> tuple[str, ...]:
        """Columns that it cannot hold."""


def mark_of(folder: Path) -> dict[str, Any]:
    """The mark of a whole output; empty without, and if it is not what was written."""
    from calibdask.storage.checked_store import GroupManifest

    try:
        if (folder / APPLIED).exists():
            mark = parse_json((folder / APPLIED).read_text(encoding="utf-8"))
            return dict(mark) if is_intact(mark) or HASH not in mark else {}
        attributes = parse_json((folder / "zarr.json").read_text(encoding="utf-8"))["attributes"]
        GroupManifest.of(str(folder), attributes)
        return dict(attributes[_MARK])
    except (OSError, ValueError, KeyError, TypeError):
        return {}


@dataclass(frozen=True)
class AppliedParquet(AppliedFile):
    """A folder of Parquet files, one for each chunk, with all columns."""

    suffix: ClassVar[str] = ".parquet"

    def lay_out(self, table: Any, calibrated: np.ndarray) -> dict[str, str]:
        """Make the folder."""
        self.part.mkdir()
        return {}

    def place(self, number: int, name: str) -> Path:
        """The Parquet file."""
        return self.part / name

    def write(self, number: int, table: Any, calibrated: np.ndarray) -> dict[str, str]:
        """Write a file, which appears whole and has the identity of the output."""
        from pyarrow import parquet

        begun = self.part / f".part-{number:05d}.parquet"
        written = self._table(table, calibrated).replace_schema_metadata({IDENTITY: self.store})
        parquet.write_table(written, begun, compression="zstd", write_page_checksum=True)
        name = begun.name.removeprefix(".")
        with begun.open("rb") as file:
            found = file_hash(file)
        os.replace(begun, self.part / name)
        return {name: found}

    def seal(self, mark: Mapping[str, Any], chunks: Sequence["ChunkRecord"]) -> None:
        """Write the manifest."""
        members = [
            {"name": name, "rows": chunk["rows"], "hash": found}
            for chunk in chunks
            for name, found in chunk["hashes"].items()
        ]
        for member in members:
            if not (self.part / str(member["name"])).is_file():
                raise Damaged(f"{self.part / str(member['name'])} was removed while the rows were written; begin anew.")
        (self.part / APPLIED).write_text(manifest_text(mark, self.store, members), encoding="utf-8")

    @property
    def left_out(self) -> tuple[str, ...]:
        """None: they are copied as they are."""
        return ()

    def _table(self, table: Any, calibrated: np.ndarray) -> Any:
        import pyarrow

        new = self._calibrated(calibrated)
        columns: dict[str, Any] = {}
        for name in table.column_names:
            if name not in self.names.scores:
                columns[self._column_name(name)] = table.column(name)
            elif self.score_name is not None:
                columns |= self._kept_scores(name, table.column(name))
            elif name == self.names.scores[0]:
                columns |= new
        if self.score_name is not None:
            _check_free(new, columns)
            columns |= new
        return pyarrow.table(columns)

    def _column_name(self, name: str) -> str:
        """Arrays of many rows become columns of one."""
        if not self.of_arrays:
            return name
        return {"labels": "label", "scores": "score"}.get(name, name)

    def _kept_scores(self, name: str, column: Any) -> dict[str, Any]:
        if not self.of_arrays and (self.is_folder or list_width(column.type) is None):
            return {name: column}
        values = to_numpy(column)
        return {self._column_name(name): column} if values.ndim == 1 else _numbered(self._column_name(name), values)

    def _calibrated(self, values: np.ndarray) -> dict[str, Any]:
        import pyarrow

        names = self.names.scores
        if values.ndim == 1:
            return {self.score_name or self._column_name(names[0]): pyarrow.array(values)}
        if self.score_name is None and len(names) > 1:
            return {name: pyarrow.array(values[:, k]) for k, name in enumerate(names)}
        if self.of_arrays or len(names) > 1 or not self.is_folder:
            return _numbered(self.score_name or self._column_name(names[0]), values)
        lists = pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(values.reshape(-1)), values.shape[1])
        return {self.score_name or names[0]: lists}


@dataclass(frozen=True)
class AppliedCsv(AppliedParquet):
    """A CSV file, put together at the end from one for each chunk; texts are those that were read."""

    suffix: ClassVar[str] = ".csv"
    is_folder: ClassVar[bool] = False
    keeps_texts: ClassVar[bool] = True

    @property
    def _chunks(self) -> Path:
        return self.part.with_name("chunks")

    def lay_out(self, table: Any, calibrated: np.ndarray) -> dict[str, str]:
        """Make the folder of the chunks."""
        shutil.rmtree(self._chunks, ignore_errors=True)
        self._chunks.mkdir()
        return {}

    def place(self, number: int, name: str) -> Path:
        """The file of rows."""
        return self._chunks / name

    def write(self, number: int, table: Any, calibrated: np.ndarray) -> dict[str, str]:
        """Write the rows of a chunk, of the first one with the names of the columns."""
        written = self._table(table.drop_columns([*self.left_out]), calibrated)
        path = self._chunks / f"{number:05d}.csv"
        begun = path.with_suffix(".new")
        _write_csv(written, begun, has_names=number == 0)
        with begun.open("rb") as file:
            found = file_hash(file)
        os.replace(begun, path)
        return {path.name: found}

    def seal(self, mark: Mapping[str, Any], chunks: Sequence["ChunkRecord"]) -> None:
        """Concatenate the chunks after checking their hashes; a single file needs no manifest."""
        members = [(self._chunks / name, found) for chunk in chunks for name, found in chunk["hashes"].items()]
        with self.part.open("wb") as whole:
            for path, expected in members:
                if not path.is_file():
                    raise Damaged(f"{path} was removed while the rows were written; begin anew.")
                with path.open("rb") as part:
                    if file_hash(part) != expected:
                        raise Damaged(f"{path} was changed while the rows were written; begin anew.")
                    part.seek(0)
                    shutil.copyfileobj(part, whole)

    @property
    def left_out(self) -> tuple[str, ...]:
        """Nested values, but lists of scores."""
        from pyarrow import types

        return tuple(
            name
            for name, kind in zip(self.schema.names, self.schema.types, strict=True)
            if types.is_nested(kind) and name not in self.names.columns
        )


def _write_csv(table: Any, path: Path, *, has_names: bool) -> None:
    """Values between commas, in quotation marks only where they need them."""
    import pyarrow
    from pyarrow import csv as arrow

    options = arrow.WriteOptions(include_header=False, quoting_style="none")
    with path.open("wb") as file:
        if has_names:
            names = io.StringIO(newline="")
            csv.writer(names, lineterminator="\n").writerow(table.column_names)
            file.write(names.getvalue().encode())
        start = file.tell()
        try:
            arrow.write_csv(table, file, options)
        except pyarrow.ArrowInvalid:
            # Some need them; Arrow would put all texts between them.
            file.seek(start)
            file.truncate()
            texts = table.cast(pyarrow.schema([(name, pyarrow.string()) for name in table.column_names]))
            with io.TextIOWrapper(file, encoding="utf-8", newline="") as stream:
                rows = zip(*(column.to_pylist() for column in texts.columns), strict=True)
                csv.writer(stream, lineterminator="\n").writerows(rows)


@dataclass(frozen=True)
class AppliedZarr(AppliedFile):
    """A Zarr group with arrays of labels, scores and all else that has a place in arrays."""

    suffix: ClassVar[str] = ".zarr"

    def lay_out(self, table: Any, calibrated: np.ndarray) -> dict[str, str]:
        """Make the arrays, with room for all rows."""
        import zarr

        from calibdask.storage.checked_store import CHUNK_CODECS

        arrays = self._arrays(table, calibrated)
        with texts_settled():
            group = zarr.open_group(self.part, mode="w-", zarr_format=3)
            for name, values in arrays.items():
                columns = ("class",) if name in self._by_class else (f"{name}_column",)
                group.create_array(
                    name,
                    shape=(_ROOM, *values.shape[1:]),
                    chunks=(self.chunk_rows, *values.shape[1:]),
                    dtype=str if values.dtype.kind == "O" else values.dtype,
                    compressors=CHUNK_CODECS,
                    dimension_names=("sample", *columns[: values.ndim - 1]),
                )
        paths = sorted(self.part.rglob("zarr.json"))
        return {path.relative_to(self.part).as_posix(): path.read_text(encoding="utf-8") for path in paths}

    def place(self, number: int, name: str) -> Path:
        """The chunk of an array."""
        path = self.part / name / "c" / str(number)
        while path.is_dir():
            path /= "0"
        return path

    def write(self, number: int, table: Any, calibrated: np.ndarray) -> dict[str, str]:
        """Write a chunk of each array, whole: what a kill has left of it is not read."""
        import zarr

        hashes: dict[str, str] = {}

        start = number * self.chunk_rows
        with texts_settled(), zarr.config.set({"array.write_empty_chunks": True}):
            group: Any = zarr.open_group(self.part, mode="r+")
            for name, given in self._arrays(table, calibrated).items():
                array, values = group[name], given
                if values.dtype.kind in "iub" and array.dtype == np.float64:
                    # Other chunks have missing values.
                    values = values.astype(np.float64)
                elif values.dtype.kind != "O" and values.dtype != array.dtype:
                    raise ValueError(
                        f"Column {name!r} has missing values from row {start:,} on, and none before, so that it has no "
                        "place in an array of whole numbers; write to .parquet."
                    )
                missing = self.chunk_rows - len(values)
                filling = np.full((missing, *values.shape[1:]), "" if values.dtype.kind == "O" else 0, values.dtype)
                array[start : start + self.chunk_rows] = np.concatenate([values, filling]) if missing else values
                hashes[name] = content_hash(self.place(number, name).read_bytes())
        return hashes

    def seal(self, mark: Mapping[str, Any], chunks: Sequence["ChunkRecord"]) -> None:
        """Give the arrays their size and the group its mark, and write the manifest."""
        from calibdask.storage.checked_store import seal

        # What Zarr has begun and not named.
        for path in self.part.rglob("*.partial"):
            path.unlink()
        for path in self.part.glob("*/zarr.json"):
            metadata = json.loads(path.read_text(encoding="utf-8"))
            metadata["shape"][0] = mark["rows"]
            write_whole(path, json.dumps(metadata, indent=2).encode())
        own = self.part / "zarr.json"
        group = json.loads(own.read_text(encoding="utf-8"))
        group["attributes"][_MARK] = dict(mark)
        write_whole(own, json.dumps(group, indent=2).encode())
        names = chunks[0]["hashes"] if chunks else {}
        seal(self.part, self.store, {name: "".join(chunk["hashes"][name] for chunk in chunks) for name in names})

    @property
    def left_out(self) -> tuple[str, ...]:
        """Nested values, times of day and what else arrays do not hold."""
        own = (*self.names.columns,)
        return tuple(name for name in self.schema.names if name not in own and not self._is_kept(name))

    def _is_kept(self, name: str) -> bool:
        from pyarrow import types

        given = self.schema.field(name).type
        value = given.value_type if types.is_dictionary(given) else given
        is_text = types.is_string(value) or types.is_large_string(value) or types.is_string_view(value)
        width = list_width(given)
        return "/" not in name and (is_text or dtype_of(given).kind in "fiubM") and width != -1

    @property
    def _by_class(self) -> set[str]:
        return {"scores", "labels", self.score_name or "scores"}

    def _arrays(self, table: Any, calibrated: np.ndarray) -> dict[str, np.ndarray]:
        """All columns by the names of the arrays."""
        arrays = {self.score_name or "scores": calibrated}
        own = (*self.names.columns,)
        if self.names.labels:
            columns = {name: _values(table.column(name)) for name in self.names.labels}
            arrays["labels"] = stacked(columns, self.names.labels)
        if self.score_name is not None:
            _check_free(["scores"], arrays)
            arrays["scores"] = scores_of(table, self.names)
        others = [name for name in table.column_names if name not in own and self._is_kept(name)]
        _check_free(others, arrays)
        return arrays | {name: _values(table.column(name)) for name in others}


def _values(column: Any) -> np.ndarray:
    """A column as an array; missing texts are called what their slice is."""
    values = to_numpy(column)
    if values.dtype.kind != "O":
        return values
    texts = np.empty(len(values), object)
    texts[:] = [MISSING if value is None else str(value) for value in values.tolist()]
    return texts


def _numbered(stem: str, values: np.ndarray) -> dict[str, Any]:
    import pyarrow

    return {f"{stem}_{k}": pyarrow.array(np.ascontiguousarray(values[:, k])) for k in range(values.shape[1])}


def _check_free(names: Any, taken: Any) -> None:
    both = [visible(name) for name in names if name in taken]
    if both:
        raise ValueError(
            f"There would be two columns called {listed(both)}; give the calibrated scores another name (--score-name)."
        )


FORMATS: dict[str, type[AppliedFile]] = {kind.suffix: kind for kind in (AppliedZarr, AppliedParquet, AppliedCsv)}
FOLDERS = tuple(suffix for suffix, kind in FORMATS.items() if kind.is_folder)
