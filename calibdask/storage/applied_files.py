"""Rows with calibrated scores, written chunk by chunk as Parquet or CSV, and the formats of such outputs."""

import csv
import io
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from calibdask.errors import Damaged
from calibdask.storage.applied_manifest import manifest_text
from calibdask.storage.applied_output import AppliedFile, ChunkRecord, check_free
from calibdask.storage.applied_zarr import AppliedZarr
from calibdask.storage.arrow_columns import list_width, to_numpy
from calibdask.storage.manifest import IDENTITY, file_hash, path_hash
from calibdask.storage.writers import APPLIED


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
        # Arrow takes no names that are not UTF-8.
        with begun.open("wb") as file:
            parquet.write_table(written, file, compression="zstd", write_page_checksum=True)
        name = begun.name.removeprefix(".")
        found = path_hash(begun)
        os.replace(begun, self.part / name)
        return {name: found}

    def seal(self, mark: Mapping[str, Any], chunks: Sequence[ChunkRecord]) -> None:
        """Write the manifest."""
        members = [
            {"name": name, "rows": chunk["rows"], "hash": found}
            for chunk in chunks
            for name, found in chunk["hashes"].items()
        ]
        for member in members:
            if not (self.part / str(member["name"])).is_file():
                raise Damaged(f"{self.part / str(member['name'])} was removed while the rows were written; start over.")
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
            check_free(new, columns)
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

        # Rows without a score have null; lists of numbers hold NaN.
        names = self.names.scores
        if values.ndim == 1:
            return {self.score_name or self._column_name(names[0]): pyarrow.array(values, from_pandas=True)}
        if self.score_name is None and len(names) > 1:
            return {name: pyarrow.array(values[:, k], from_pandas=True) for k, name in enumerate(names)}
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
        found = path_hash(begun)
        os.replace(begun, path)
        return {path.name: found}

    def seal(self, mark: Mapping[str, Any], chunks: Sequence[ChunkRecord]) -> None:
        """Concatenate the chunks after checking their hashes; a single file needs no manifest."""
        members = [(self._chunks / name, found) for chunk in chunks for name, found in chunk["hashes"].items()]
        with self.part.open("wb") as whole:
            for path, expected in members:
                if not path.is_file():
                    raise Damaged(f"{path} was removed while the rows were written; start over.")
                with path.open("rb") as part:
                    if file_hash(part) != expected:
                        raise Damaged(f"{path} was changed while the rows were written; start over.")
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


def _numbered(stem: str, values: np.ndarray) -> dict[str, Any]:
    import pyarrow

    return {f"{stem}_{k}": pyarrow.array(values[:, k].copy(), from_pandas=True) for k in range(values.shape[1])}


FORMATS: dict[str, type[AppliedFile]] = {kind.suffix: kind for kind in (AppliedZarr, AppliedParquet, AppliedCsv)}
FOLDERS = tuple(suffix for suffix, kind in FORMATS.items() if kind.is_folder)
