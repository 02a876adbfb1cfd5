"""Where the cells of a cube are, and which chunks it has to have.

The group of a cube says by one attribute under which folder its arrays are. Laying a cube out again makes another
folder, and then changes that attribute: who still computes cells of the old one writes into the old folder, never among
the new cells.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt
from zarr.codecs import Crc32cCodec

from calibdask.errors import Damaged
from calibdask.storage.checked_store import Chunks, GroupManifest
from calibdask.storage.manifest import MANIFEST, ArrayRecord, content_hash

if TYPE_CHECKING:
    import xarray as xr
    from zarr.abc.store import Store
    from zarr.core.buffer import BufferPrototype

TODO, DONE, FAILED = 0, 1, 2
STATUS, ERROR = "status", "error"
# Attributes: of the group, the folder of its arrays; of that folder, whether all cells were done.
LAYOUT, FINISHED = "layout", "finished"
# Not compressed, so that a chunk of the status can be looked at as it is.
STATUS_CODECS = (Crc32cCodec(),)
_SUM_BYTES = 4


@dataclass(frozen=True)
class CellChunks(Chunks):
    """The chunks of a cube: those of cells that are done, of errors of cells that failed, and of all axes.

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
    """

    mend: ClassVar[str] = "copy the cube again, or compute it again with overwrite=True (--overwrite)"

    folder: str
    axes: int
    outputs: frozenset[str]
    finished: bool = False

    async def is_due(self, store: "Store", key: str, prototype: "BufferPrototype") -> bool:
        """Whether a chunk that is not there should be."""
        array, _, numbers = key.removeprefix(f"{self.folder}/").partition("/c/")
        if array == STATUS or (self.finished and array in self.outputs):
            return self.finished
        if array not in self.outputs and array != ERROR:
            return True
        cells = "/".join(numbers.split("/")[: self.axes])
        status = await store.get(f"{self.folder}/{STATUS}/c/{cells}", prototype)
        if status is None:
            # Nothing is due of cells to do, unless the cube was laid out anew since it was opened.
            return not await store.exists(f"{self.folder}/zarr.json")
        return (FAILED if array == ERROR else DONE) in status.to_bytes()[:-_SUM_BYTES]


def sealed(attributes: Mapping[str, Any], arrays: Mapping[str, bytes] | None = None) -> dict[str, Any]:
    """Attributes with a manifest: a hash of them, and of the metadata of arrays."""
    records = {path: ArrayRecord(content_hash(content)) for path, content in (arrays or {}).items()}
    return GroupManifest(str(attributes.get(LAYOUT, "")), records).with_attributes(attributes)


def cube_dataset(url: str, group: Any, known: Mapping[str, Any]) -> "xr.Dataset":
    """The variables of a cube, checked as they are read; of one without a layout, those of the group.

    Parameters
    ----------
    url : str
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

    attributes = {name: value for name, value in group.attrs.items() if name not in (MANIFEST, LAYOUT)}
    folder = group.attrs.get(LAYOUT)
    if folder is None:
        return xr.open_zarr(group.store.unchecked, group=group.path or None, consolidated=False, chunks=None)
    own = dict(group[folder].attrs)
    if MANIFEST not in group.attrs or GroupManifest.of(url, own) is None:
        raise Damaged(f"{url} is damaged: it has lost its manifest; {CellChunks.mend}.")
    rule = CellChunks(folder, len(known["cells"]), frozenset(known["outputs"]), bool(own.get(FINISHED)))
    dataset = xr.open_zarr(group.store.with_chunks(rule), group=folder, consolidated=False, chunks=None)
    check_cube(url, dataset, known)
    attributes |= {name: value for name, value in own.items() if name not in (MANIFEST, FINISHED)}
    return dataset.drop_attrs(deep=False).assign_attrs(attributes)


def check_cube(url: str, dataset: "xr.Dataset", known: Mapping[str, Any]) -> None:
    """Raise ValueError unless axes and variables are those of the study.

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
        f"{url}: {name} of a cube expects {expected}, got {found}, which no study writes: it is damaged, or made by "
        f"hand. {CellChunks.mend[0].upper()}{CellChunks.mend[1:]}."
    )
