"""Rows with calibrated scores as a Zarr group: arrays that grow chunk by chunk."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from calibdask.engine.axes import MISSING
from calibdask.storage.applied_output import MARK, AppliedFile, ChunkRecord, check_free, scores_of
from calibdask.storage.arrow_columns import dtype_of, list_width, to_numpy
from calibdask.storage.atomic_replace import write_whole
from calibdask.storage.column_blocks import stacked
from calibdask.storage.manifest import content_hash
from calibdask.storage.writers import texts_settled

# Arrays have room for more rows than can be read; when all are written they get their size.
_ROOM = 10**12


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
                        f"Column {name!r} has missing values from row {start:,} on, and none before, which an array of "
                        "whole numbers cannot hold; write to .parquet."
                    )
                missing = self.chunk_rows - len(values)
                filling = np.full((missing, *values.shape[1:]), "" if values.dtype.kind == "O" else 0, values.dtype)
                array[start : start + self.chunk_rows] = np.concatenate([values, filling]) if missing else values
                hashes[name] = content_hash(self.place(number, name).read_bytes())
        return hashes

    def seal(self, mark: Mapping[str, Any], chunks: Sequence[ChunkRecord]) -> None:
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
        group["attributes"][MARK] = dict(mark)
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
            check_free(["scores"], arrays)
            arrays["scores"] = scores_of(table, self.names)
        others = [name for name in table.column_names if name not in own and self._is_kept(name)]
        check_free(others, arrays)
        return arrays | {name: _values(table.column(name)) for name in others}


def _values(column: Any) -> np.ndarray:
    """A column as an array; missing texts are called what their slice is."""
    values = to_numpy(column)
    if values.dtype.kind != "O":
        return values
    texts = np.empty(len(values), object)
    texts[:] = [MISSING if value is None else str(value) for value in values.tolist()]
    return texts
