"""Where the cells of a cube are, and which chunks it has to have.

The group of a cube says by one attribute under which folder its arrays are. Laying a cube out again makes another
folder, and then changes that attribute: who still computes cells of the old one writes into the old folder, never among
the new cells.
"""

import json
import math
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt
from zarr.codecs import Crc32cCodec
from zarr.errors import ContainsGroupError

from calibdask.errors import Damaged
from calibdask.storage.cell_hashes import CELL_HASHES, VARIABLES, ChunkCells, first_wrong
from calibdask.storage.checked_store import Chunks, GroupManifest, without_checksum
from calibdask.storage.location import Location
from calibdask.storage.manifest import MANIFEST, ArrayRecord, document_hash
from calibdask.storage.retry import with_retries
from calibdask.storage.writers import texts_settled

if TYPE_CHECKING:
    import xarray as xr
    from zarr.abc.store import Store
    from zarr.core.buffer import BufferPrototype

TODO, DONE, FAILED = 0, 1, 2
STATUS, ERROR = "status", "error"
# Attributes: of the group, the folder of its arrays; of that folder, whether all cells were done. A group of this name
# in that folder says so too.
LAYOUT, FINISHED = "layout", "finished"
# Groups in that folder whose names begin with the first: each records, in the attribute of the second, the versions and
# the BLAS kernels of processes that computed cells. One group for each record, so that none overwrites another.
_VERSIONS_GROUP, VERSIONS, _SINCE = "versions-", "versions", "since"
# The attribute of a finished cube with the names of these groups: none of them may be lost.
RECORDS = "records"
# Not compressed, so that a chunk of the status can be looked at as it is.
STATUS_CODECS = (Crc32cCodec(),)
_SUM_BYTES = 4


@dataclass(frozen=True)
class CellChunks(Chunks):
    """Chunks of a cube that must exist: of done cells, of errors of failed cells, and of all axes.

    Parameters
    ----------
    folder : str
        Of the arrays.
    axes : int
        Number of axes of cells.
    outputs : frozenset of str
        Variables of the cells.
    finished : bool, default False
        Whether all cells were done, which those whose status is missing then were too.
    hashed : bool, default False
        Whether the cells have hashes, which those of earlier versions have not.
    """

    mend: ClassVar[str] = "copy the cube again, or compute it again with overwrite=True (--overwrite)"

    folder: str
    axes: int
    outputs: frozenset[str]
    finished: bool = False
    hashed: bool = False
    _metadata: dict[str, Mapping[str, Any]] = field(default_factory=dict, compare=False, repr=False)

    async def is_due(self, store: "Store", key: str, prototype: "BufferPrototype") -> bool:
        """Whether a chunk that is not there should be."""
        array, _, numbers = key.removeprefix(f"{self.folder}/").partition("/c/")
        if array == STATUS or (self.finished and array in self.outputs):
            return self.finished
        if array not in self.outputs and array not in (ERROR, CELL_HASHES):
            return True
        cells = "/".join(numbers.split("/")[: self.axes])
        status = await store.get(f"{self.folder}/{STATUS}/c/{cells}", prototype)
        if status is None:
            # Nothing is due of cells to do, unless the cube was laid out anew since it was opened.
            return not await store.exists(f"{self.folder}/zarr.json")
        return (FAILED if array == ERROR else DONE) in status.to_bytes()[:-_SUM_BYTES]

    async def check(self, store: "Store", key: str, content: np.ndarray, prototype: "BufferPrototype") -> None:
        """Raise ValueError if the values of cells in a chunk are not those that were written for these cells."""
        array, _, numbers = key.removeprefix(f"{self.folder}/").partition("/c/")
        is_status = array == STATUS and self.finished
        if not is_status and not (self.hashed and (array in self.outputs or array == ERROR)):
            return
        cells = ChunkCells(await self._described(store, array, prototype), self.axes or len(numbers.split("/")))
        chunk = [int(number) for number in numbers.split("/")[: cells.axes]]
        if is_status:
            states = cells.values(content)
            # What no study writes is refused with its number (`check_status`).
            if any(states[place] in (TODO, FAILED) for place, _ in cells.numbers(chunk)):
                raise ValueError(f"the status of cells in {key} is not that of a finished cube")
            return
        due, expected = await self._hashes(store, array, "/".join(map(str, chunk)), prototype)
        wrong = first_wrong(self.folder, array, cells, chunk, content, due, expected)
        if wrong is not None:
            raise ValueError(f"the chunk {key} is not what was written for cell {wrong}")

    async def _described(self, store: "Store", array: str, prototype: "BufferPrototype") -> Mapping[str, Any]:
        if array not in self._metadata:
            content = await store.get(f"{self.folder}/{array}/zarr.json", prototype)
            if content is None:
                raise ValueError(f"{self.folder}/{array}/zarr.json is missing")
            self._metadata[array] = json.loads(content.to_bytes())
        return self._metadata[array]

    async def _hashes(
        self, store: "Store", array: str, chunk: str, prototype: "BufferPrototype"
    ) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.uint64]]:
        """Of the cells of a chunk: which have values of a variable, and their hashes."""
        hashed = ChunkCells(await self._described(store, CELL_HASHES, prototype), self.axes)
        names = hashed.metadata["attributes"][VARIABLES]
        # In this order: a cell has its hashes before its status.
        status = await store.get(f"{self.folder}/{STATUS}/c/{chunk}", prototype)
        hashes = await store.get(f"{self.folder}/{CELL_HASHES}/c/{chunk}/0", prototype)
        states = _checked(status)
        cells = math.prod(hashed.metadata["chunk_grid"]["configuration"]["chunk_shape"][: self.axes])
        state = FAILED if array == ERROR else DONE
        due = np.full(cells, self.finished and array != ERROR) if states is None else states.view(np.int8) == state
        stored = _checked(hashes)
        if stored is None:
            return due, np.zeros(cells, np.uint64)
        return due, stored.view("<u8").reshape(cells, len(names))[:, names.index(array)]


def _checked(content: Any) -> npt.NDArray[np.uint8] | None:
    """The bytes of a chunk that is not compressed; None where it is not there."""
    if content is None:
        return None
    stored = without_checksum(np.asarray(content.as_numpy_array(), np.uint8))
    if stored is None:
        raise ValueError("the status or the hashes of cells are not what was written")
    return np.ascontiguousarray(stored)


def sealed(attributes: Mapping[str, Any], arrays: Mapping[str, ArrayRecord] | None = None) -> dict[str, Any]:
    """Attributes with a manifest: a hash of the attributes, and records of the arrays."""
    records = arrays or {}
    return GroupManifest(str(attributes.get(LAYOUT, "")), records).with_attributes(attributes)


@cache
def write_versions(address: str, layout: str, record: str) -> None:
    """Record, once in each process, the versions and the BLAS kernels (JSON) of who computes cells of a layout."""
    import zarr

    attributes = GroupManifest(layout, {}).with_attributes({VERSIONS: record, _SINCE: time.time()})
    name = f"{_VERSIONS_GROUP}{document_hash(json.loads(record))[:16]}"
    # Equal records have equal names. Not written over: that removes the folder while another process writes it.
    with suppress(ContainsGroupError), texts_settled():
        group = with_retries(lambda: zarr.open_group(address, path=layout, mode="r+", zarr_format=3))
        with_retries(lambda: group.create_group(name, attributes=attributes))


def recorded_versions(location: Location, folder: str, attributes: Mapping[str, Any]) -> list[dict[str, str]]:
    """Versions and BLAS kernels of the processes that computed the cells of a cube, each once, the first ones first.

    Parameters
    ----------
    location : Location
        The cube.
    folder : str
        Of its arrays; "" in cubes of earlier versions.
    attributes : mapping
        Of the group of the folder, where earlier versions recorded them.

    Raises
    ------
    Damaged
        If a record is not what was written, or one of a finished cube is missing.
    """
    GroupManifest.of(location.url, attributes)
    earlier: list[dict[str, str]] = json.loads(str(attributes.get(VERSIONS, "[]")))
    place = location.child(folder) if folder else location
    expected = {*attributes.get(RECORDS, ()), *_records_when_finished(location.url, place)}
    found = []
    for name in {*_names_of_records(location, folder)} | expected:
        try:
            content = place.child(f"{name}/zarr.json").content()
        except FileNotFoundError:
            # One that is being written has no file yet.
            if name in expected:
                problem = "a record of the versions that computed cells is missing"
                raise Damaged(f"{location.url} is damaged: {problem}; {CellChunks.mend}.") from None
            continue
        found.append(_record(location.url, folder, content))
    found.sort(key=lambda dated: (dated[0], json.dumps(dated[1])))
    records = [*earlier, *(record for _, record in found)]
    return [record for number, record in enumerate(records) if record not in records[:number]]


def mark_finished(group: Any, location: Location, folder: str) -> dict[str, Any]:
    """Mark a folder as that of a finished cube by a group in it, and return attributes for the folder.

    Both have the names of the records of versions, as attributes of the folder may be replaced by older ones.
    """
    records = with_retries(lambda: _names_of_records(location, folder))
    with suppress(ContainsGroupError):
        with_retries(lambda: group.create_group(FINISHED, attributes={RECORDS: records}))
    return {FINISHED: True, RECORDS: records}


def _records_when_finished(url: str, place: Location) -> list[str]:
    """Names of the records of versions in the group that marks a finished cube."""
    try:
        content = place.child(f"{FINISHED}/zarr.json").content()
    except FileNotFoundError:
        return []
    try:
        return list(json.loads(content)["attributes"].get(RECORDS, ()))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        problem = f"its group {FINISHED} is not what was written"
        raise Damaged(f"{url} is damaged: {problem}; {CellChunks.mend}.") from error


def _names_of_records(location: Location, folder: str) -> list[str]:
    """Names of the groups in a folder of a cube that record versions."""
    place = location.child(folder) if folder else location
    # Other processes may have added some since it was listed.
    place.fs.invalidate_cache(place.path)
    names = [path.rstrip("/").rpartition("/")[2] for path in map(str, place.fs.ls(place.path, detail=False))]
    return sorted(name for name in names if name.startswith(_VERSIONS_GROUP))


def _record(url: str, folder: str, content: bytes) -> tuple[float, dict[str, str]]:
    """When the first of the processes began, and their versions."""
    try:
        attributes = json.loads(content)["attributes"]
        manifest = GroupManifest.of(url, attributes)
        if manifest is None or manifest.store != folder:
            raise ValueError
        return float(attributes[_SINCE]), dict(json.loads(attributes[VERSIONS]))
    except Damaged:
        raise
    except (ValueError, KeyError, TypeError) as error:
        problem = "a record of the versions that computed cells is not what was written"
        raise Damaged(f"{url} is damaged: {problem}; {CellChunks.mend}.") from error


def cube_dataset(location: Location, group: Any, known: Mapping[str, Any]) -> "xr.Dataset":
    """Variables of a cube, checked while they are read; a cube without layout uses its root group.

    Parameters
    ----------
    location : Location
    group : zarr.Group
        In a `CheckedStore`.
    known : mapping
        The fingerprint.

    Raises
    ------
    ValueError
        If arrays are missing, or others than those of the study.
    """
    import xarray as xr

    url = location.url
    attributes = {name: value for name, value in group.attrs.items() if name not in (MANIFEST, LAYOUT)}
    folder = group.attrs.get(LAYOUT)
    if folder is None:
        recorded = {VERSIONS: json.dumps(recorded_versions(location, "", attributes))}
        dataset = xr.open_zarr(group.store.unchecked, group=group.path or None, consolidated=False, chunks=None)
        return dataset.assign_attrs(recorded)
    own = dict(group[folder].attrs)
    if MANIFEST not in group.attrs or GroupManifest.of(url, own) is None:
        raise Damaged(f"{url} is damaged: its manifest is missing; {CellChunks.mend}.")
    within = f"{group.path}/{folder}" if group.path else folder
    hashed = f"{within}/{CELL_HASHES}" in group.store.arrays
    outputs = frozenset(known["outputs"])
    finished = bool(own.get(FINISHED)) or FINISHED in group[folder]
    rule = CellChunks(folder, len(known["cells"]), outputs, finished, hashed)
    store = group.store.with_chunks(rule)
    dataset = xr.open_zarr(store, group=folder, consolidated=False, chunks=None, drop_variables=[CELL_HASHES])
    check_cube(url, dataset, known)
    attributes |= {name: value for name, value in own.items() if name not in (MANIFEST, FINISHED, RECORDS)}
    attributes[VERSIONS] = json.dumps(recorded_versions(location, folder, own))
    return dataset.drop_attrs(deep=False).assign_attrs(attributes)


def check_cube(url: str, dataset: "xr.Dataset", known: Mapping[str, Any]) -> None:
    """Raise ValueError unless axes and variables match the study.

    Parameters
    ----------
    url : str
    dataset : xarray.Dataset
    known : mapping
        The fingerprint.
    """
    axes = known["cells"] | known["inside"]
    expected = {name: (name,) for name in axes} | dict.fromkeys((STATUS, ERROR), tuple(known["cells"]))
    expected |= {name: (*known["cells"], *dims) for name, dims in known["outputs"].items()}
    for name, dims in expected.items():
        sizes = {dim: len(axes[dim]) for dim in dims}
        found = dict(dataset[name].sizes) if name in dataset.variables else None
        if found != sizes:
            _refuse(url, name, f"the axes {json.dumps(sizes)}", "nothing" if found is None else json.dumps(found))
    for name in known["outputs"]:
        kind = np.dtype(known["types"].get(name, "float64"))
        if dataset[name].dtype != kind:
            _refuse(url, name, f"the type {kind}", str(dataset[name].dtype))
    if dataset[STATUS].dtype != np.int8:
        _refuse(url, STATUS, "the type int8", str(dataset[STATUS].dtype))


def check_status(url: str, status: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The status of cells, if each is one that cells have.

    Raises
    ------
    ValueError
        If it is not.

    Examples
    --------
    >>> check_status("cube.zarr", np.array([0, 1, 2]))
    array([0, 1, 2])
    """
    if status.dtype.kind not in "iu" or (wrong := (status < TODO) | (status > FAILED)).any():
        shown = f"the type {status.dtype}" if status.dtype.kind not in "iu" else str(status[wrong].ravel()[0])
        _refuse(url, STATUS, "0, 1 or 2", shown)
    return status


def _refuse(url: str, name: str, expected: str, found: str) -> None:
    raise Damaged(
        f"{url}: {name} of a cube expects {expected}, got {found}, which calibdask never writes: it is damaged, or "
        f"made by hand. {CellChunks.mend[0].upper()}{CellChunks.mend[1:]}."
    )
