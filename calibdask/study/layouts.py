"""Layouts of cubes: the arrays of a study, and leftovers of replaced or killed runs."""

import json
import math
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import zarr

from calibdask.safe_text import data_without_credentials
from calibdask.storage.atomic_replace import is_abandoned
from calibdask.storage.cell_hashes import CELL_HASHES, HASHED, VARIABLES
from calibdask.storage.checked_store import CHUNK_CODECS, chunk_numbers, grid_of
from calibdask.storage.cube_layout import ERROR, LAYOUT, STATUS, STATUS_CODECS, TODO
from calibdask.storage.location import Location
from calibdask.storage.manifest import ArrayRecord, content_hash
from calibdask.storage.open_store import CUBE_BEGUN, CUBE_MARK
from calibdask.storage.retry import with_retries
from calibdask.study.study import Study

# How Zarr calls a file while it writes it; nobody writes one for that long.
_PARTIAL = ".partial"
_LONGEST_WRITE = 3600.0


def make_arrays(group: zarr.Group, study: Study) -> list[str]:
    """The axes and the empty variables of a study; their names."""
    cells, inside = study.cells(), study.inside()
    for name, values in {**cells, **inside}.items():
        _write_axis(group, name, np.asarray(data_without_credentials(list(values))))
    shape = tuple(len(values) for values in cells.values())
    # Cheap cells share chunks along the last axis; every chunk belongs to exactly one task.
    chunks = (*[1] * (len(shape) - 1), max(1, min(study.batch, shape[-1])))
    for variable, dims in study.outputs.items():
        sizes = tuple(len(inside[dim]) for dim in dims)
        kind = study.type_of(variable)
        _make_array(
            group,
            variable,
            shape=shape + sizes,
            chunks=chunks + tuple(max(1, size) for size in sizes),
            dtype=kind,
            fill_value=math.nan if kind.kind == "f" else 0,
            dimension_names=(*cells, *dims),
        )
    options = {"shape": shape, "chunks": chunks, "dimension_names": tuple(cells)}
    _make_array(group, STATUS, dtype=np.int8, fill_value=TODO, compressors=STATUS_CODECS, **options)
    _make_array(group, ERROR, dtype=str, fill_value="", **options)
    variables = [*study.outputs, ERROR]
    _make_array(
        group,
        CELL_HASHES,
        shape=(*shape, len(variables)),
        chunks=(*chunks, len(variables)),
        dtype=np.uint64,
        fill_value=0,
        compressors=STATUS_CODECS,
        dimension_names=(*cells, HASHED),
        attributes={VARIABLES: variables},
    )
    return [*cells, *inside, *study.outputs, STATUS, ERROR, CELL_HASHES]


def _write_axis(group: zarr.Group, name: str, values: np.ndarray) -> None:
    kind: Any = str if values.dtype.kind in "UO" else values.dtype
    array = _make_array(group, name, shape=values.shape, dtype=kind, dimension_names=(name,))
    array = array.with_config({"write_empty_chunks": True})
    with_retries(lambda: array.__setitem__(..., values.astype(object) if kind is str else values))


def _make_array(group: zarr.Group, name: str, **options: Any) -> Any:
    """A new array, which replaces the remains of a failed attempt."""
    options = {"compressors": CHUNK_CODECS} | options
    return with_retries(lambda: group.create_array(name, overwrite=True, **options))


def records_of(location: Location, layout: str, names: Iterable[str], axes: Collection[str]) -> dict[str, ArrayRecord]:
    """Manifest records of the arrays of a layout by path; the chunks of axes must be written."""

    def content(name: str) -> bytes:
        return location.child(f"{layout}/{name}").content()

    records = {}
    for name in names:
        metadata, chunks = content(f"{name}/zarr.json"), None
        if name in axes:
            numbers = chunk_numbers(grid_of(json.loads(metadata)))
            chunks = "".join(content_hash(content("/".join((name, "c", *number)))) for number in numbers)
        records[f"{layout}/{name}"] = ArrayRecord(content_hash(metadata), chunks)
    return records


def holds_nothing(location: Location) -> bool:
    """Whether there is nothing, or a folder with nothing but files that were being written when somebody was killed."""
    if not location.exists:
        return True
    return location.fs.isdir(location.path) and all(
        name.endswith(_PARTIAL) for name in location.fs.ls(location.path, detail=False)
    )


def arrays_of(attributes: Mapping[str, Any]) -> list[str]:
    """The folders of a cube with these attributes."""
    if LAYOUT in attributes:
        return [str(attributes[LAYOUT])]
    mark = attributes.get(CUBE_MARK, CUBE_BEGUN)
    known = {} if mark == CUBE_BEGUN else json.loads(str(mark))
    names = [name for part in ("cells", "inside", "outputs") for name in known.get(part, {})]
    return [*names, STATUS, ERROR] if known else []


def remove(location: Location, name: str) -> None:
    """Remove a folder of a cube; what others write into it meanwhile is swept later."""
    with suppress(OSError):
        location.fs.rm(f"{location.path}/{name}", recursive=True)


def sweep(location: Location, current: Callable[[], str]) -> None:
    """Remove layouts other than the current one whose processes have ended, and files that were never written."""
    names = [path.rstrip("/").rpartition("/")[2] for path in location.fs.ls(location.path, detail=False)]
    for name in names:
        # In this order: what its process, which has ended, has not made the current one never will be.
        if is_abandoned(name, location.child(name)) and name != current():
            remove(location, name)
    if location.local:
        for part in Path(location.path).rglob(f"*{_PARTIAL}"):
            with suppress(FileNotFoundError):
                if time.time() - part.stat().st_mtime > _LONGEST_WRITE:
                    part.unlink()
