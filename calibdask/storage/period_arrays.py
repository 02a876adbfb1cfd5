"""Variables of a summary whose periods lie in arrays of their own, each with the slices that the period has."""

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from calibdask.errors import Damaged, Unavailable
from calibdask.statistics.bins.sparse_grid import is_sparse
from calibdask.storage.checked_store import CheckedStore, Chunks, GroupManifest
from calibdask.storage.documents import parse_json
from calibdask.storage.location import Location
from calibdask.storage.manifest import ArrayRecord, content_hash
from calibdask.storage.period_log import Period
from calibdask.storage.slice_labels import Labels, positions
from calibdask.storage.sparse_cells import placed, settled
from calibdask.storage.sparse_files import has_lists
from calibdask.storage.summary import Summary
from calibdask.storage.zarr_files import StoredArray

# What is read at once, at most, unless a single slice is larger.
_BLOCK_BYTES = 8 << 20


def block_sizes(slices: Sequence[int], slice_bytes: int) -> tuple[int, ...]:
    """Slices, along their dimensions, that are stored and read together.

    Examples
    --------
    >>> block_sizes((300,), 1_560_000), block_sizes((40, 3), 156_000)
    ((5,), (10, 3))
    """
    sizes = [*slices]
    while sizes and max(sizes) > 1 and math.prod(sizes) * slice_bytes > _BLOCK_BYTES:
        longest = sizes.index(max(sizes))
        sizes[longest] = -(-sizes[longest] // 2)
    return tuple(sizes)


@dataclass(frozen=True, eq=False)
class PeriodArray:
    """A variable on all periods and slices, sliced like an array; slices that a period has not are zero.

    Parameters
    ----------
    location : Location
        Of the store.
    store : zarr.abc.store.Store
    root : str
        The path of the store in it.
    name : str
        Of the variable.
    periods : tuple of Period
    labels : mapping of str to array
        Of all slices, by dimension.
    models : tuple of int
        Sizes of dimensions before that of the periods.
    own : tuple of int
        Sizes of dimensions after those of slices.
    dtype : numpy.dtype
    manifests : Manifests
        Of the periods, read once for all variables.
    """

    location: Location
    store: Any
    root: str
    name: str
    periods: tuple[Period, ...]
    labels: Mapping[str, Labels]
    models: tuple[int, ...]
    value_shape: tuple[int, ...]
    dtype: np.dtype[Any]
    manifests: "Manifests"

    @property
    def shape(self) -> tuple[int, ...]:
        """Models, periods, slices, own dimensions."""
        return (*self.models, len(self.periods), *(len(labels) for labels in self.labels.values()), *self.value_shape)

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def chunks(self) -> tuple[Any, ...]:
        """One period, and blocks of slices."""
        slices = [len(labels) for labels in self.labels.values()]
        blocks = block_sizes(slices, math.prod(self.models) * math.prod(self.value_shape) * self.dtype.itemsize)
        return (*self.models, 1, *blocks, *self.value_shape)

    def lazy(self) -> Any:
        """The array of Dask."""
        import dask.array as da

        meta = np.empty((0,) * self.ndim, self.dtype)
        # A random name: the same address may hold something else the next time.
        return da.from_array(self, self.chunks, name=False, fancy=False, meta=meta)

    def __getitem__(self, key: tuple[slice, ...]) -> npt.NDArray[Any]:
        along = [np.arange(size)[part] for size, part in zip(self.shape, key, strict=True)]
        values = np.zeros([len(part) for part in along], self.dtype)
        first = len(self.models)
        last = first + 1 + len(self.labels)
        for number, position in enumerate(along[first]):
            period = self.periods[position]
            found = [
                _matches(positions(period.slices[name], labels), wanted)
                for (name, labels), wanted in zip(self.labels.items(), along[first + 1 : last], strict=True)
            ]
            if not all(own.size for own, _ in found):
                continue
            block = tuple(slice(own[0], own[-1] + 1) for own, _ in found)
            read = self._read(period, (*key[:first], slice(0, 1), *block, *key[last:]))
            read = np.moveaxis(read, first, 0)[0]
            inside, there = _places([own - own[0] for own, _ in found]), _places([at for _, at in found])
            before = (slice(None),) * first
            values[(*before, number, *there)] = read[(*before, *inside)]
        return values

    def _read(self, period: Period, key: tuple[slice, ...]) -> npt.NDArray[Any]:
        import zarr

        path = f"{self.root}{period.folder}/{self.name}"
        try:
            record = self.manifests.of(period)[self.name]
            checked = CheckedStore(self.store, self.location.url, {path: record}, Chunks())
            with self.location.reading("a store of periods"):
                array = zarr.open_array(checked, path=path, mode="r", zarr_format=3)
            return StoredArray(array, self.location.url, f"{self.name} of {period.label}")[key]
        except (Unavailable, PermissionError):
            raise
        except (ValueError, KeyError) as error:
            raise period.damaged(str(error).rstrip(".")) from error


def occupied_arrays(
    periods: Sequence[Period],
    labels: Mapping[str, Labels],
    last: Summary,
    read: Callable[[Period], xr.Dataset],
    manifests: "Manifests",
) -> dict[str, Any]:
    """The histograms on all periods and slices, in memory, empty unless a period lists its occupied cells.

    ``read`` reads the summary of a period; ``last`` is that of the last one.
    """
    names, before = last.histogram_variables, len(last.batch)
    if not any(_lists_cells(period, last, manifests) for period in periods):
        return {}
    parts: dict[str, list[Any]] = {name: [] for name in names}
    for number, period in enumerate(periods):
        dataset = read(period)
        at = [positions(period.slices[name], own) for name, own in labels.items()]
        for name in names:
            data = dataset.variables[name].data
            rest = data.ndim - before - 1 - len(at)
            parts[name].append((data, [*[None] * before, np.array([number]), *at, *[None] * rest]))
    sizes = len(periods), *(own.size for own in labels.values())
    arrays = {}
    for name in names:
        first = parts[name][0][0].shape
        shape = (*first[:before], *sizes, *first[before + len(sizes) :])
        arrays[name] = settled(placed(shape, parts.pop(name)), math.prod((*first[:before], *sizes)))
    return arrays


def _lists_cells(period: Period, last: Summary, manifests: "Manifests") -> bool:
    """Whether a period lists its occupied cells; with few slices none does, so their manifests are not read."""
    slices, axes = period.rows.size, last.dataset["rows"].ndim
    most = max((math.prod(last.dataset[name].shape[axes:]) for name in last.histogram_variables), default=0)
    if not is_sparse(0, slices * most, slices):
        return False
    # Corruption is reported when a period is read.
    with suppress(Damaged):
        return has_lists(manifests.of(period))
    return False


class Manifests:
    """The manifests of the periods of a store, each compared with its hash in the log when it is first needed."""

    def __init__(self, location: Location) -> None:
        self._location = location
        self._known: dict[str, Mapping[str, ArrayRecord]] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._location,)

    def of(self, period: Period) -> Mapping[str, ArrayRecord]:
        """Manifest records of the arrays of a period.

        Raises
        ------
        Damaged
            If it is missing, or not the one that the log names.
        """
        if period.folder not in self._known:
            self._known[period.folder] = self._read(period)
        return self._known[period.folder]

    def _read(self, period: Period) -> Mapping[str, ArrayRecord]:
        if not period.manifest:
            return {name: ArrayRecord(checksum) for name, checksum in period.sums.items()}
        place = self._location.child(f"{period.folder}/zarr.json")
        url = self._location.url
        try:
            content = place.content()
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            raise Damaged(f"{url} is incomplete: {period.folder}/zarr.json is missing") from None
        if content_hash(content) != period.manifest:
            raise Damaged(f"{url} is damaged: {period.folder}/zarr.json is not that of the period {period.label}")
        manifest = GroupManifest.of(url, parse_json(content)["attributes"])
        return {} if manifest is None else manifest.arrays


def _matches(at: npt.NDArray[np.intp], wanted: npt.NDArray[np.intp]) -> tuple[Any, Any]:
    """Requested slices that a period has, and their positions in the request."""
    own = np.flatnonzero(np.isin(at, wanted))
    return own, np.searchsorted(wanted, at[own])


def _places(positions: Sequence[npt.NDArray[np.intp]]) -> tuple[Any, ...]:
    """An index of increasing positions along several axes: slices where all are runs, which takes half of the time."""
    if all(along[-1] - along[0] + 1 == along.size for along in positions):
        return tuple(slice(along[0], along[-1] + 1) for along in positions)
    return np.ix_(*positions)


def chunk_sizes(summary: Summary) -> dict[str, tuple[int, ...]]:
    """The chunks of histograms: all cells of some slices."""
    dataset = summary.dataset
    first, last = len(summary.batch) + 1, dataset["rows"].ndim
    chunks = {}
    for name in summary.histogram_variables:
        shape = dataset[name].shape
        slice_bytes = math.prod(shape[:first]) * math.prod(shape[last:]) * dataset[name].dtype.itemsize
        chunks[name] = (*shape[:first], *block_sizes(shape[first:last], slice_bytes), *shape[last:])
    return chunks
