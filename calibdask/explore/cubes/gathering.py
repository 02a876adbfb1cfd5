"""Passes over a cube: read by whole chunks, aggregated there, and only what is left is kept."""

import os
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import xarray as xr

from calibdask.explore.cubes.aggregates import Step, aggregated
from calibdask.explore.cubes.views import Reference, places_of
from calibdask.explore.latest import Stopped, Watch
from calibdask.study.reading import Places, block_dims, blocks, cell_dims, is_done

__all__ = ["Gathering", "gathered"]

# Blocks are read side by side; more of them than this would only take memory.
_MOST_THREADS = 4


@dataclass(frozen=True)
class Gathering:
    """What a pass gathers: values, compared and aggregated within each block.

    Parameters
    ----------
    variable : str
    reference : Reference or None
    steps : tuple of Step
        Over dimensions that blocks have whole.
    """

    variable: str
    reference: Reference | None = None
    steps: tuple[Step, ...] = ()


def gathered(dataset: xr.Dataset, what: Gathering, only: Places, watch: Watch | None = None) -> xr.DataArray:
    """Values of all blocks; NaN for cells that are not done.

    Parameters
    ----------
    dataset : xarray.Dataset
    what : Gathering
    only : mapping from str to int array
        Places that are wanted, in order, by dimension.
    watch : Watch, optional

    Raises
    ------
    Stopped
        If the watch says so.

    Examples
    --------
    >>> cube = xr.Dataset({"status": ("model", [1, 0]), "value": (("model", "draw"), [[1.0, 3.0], [0.0, 0.0]])})
    >>> gathered(cube, Gathering("value", steps=(Step("mean", ("draw",)),)), {}).values
    array([ 2., nan])
    """
    watch = watch or Watch()
    split = block_dims(dataset, what.variable)
    places = list(blocks(dataset, what.variable, only))
    found = _empty(dataset, what, only)
    where = {dim: np.asarray(only[dim]) if dim in only else np.arange(dataset.sizes[dim]) for dim in split}
    inside = {dim: wanted for dim, wanted in only.items() if dim not in split}
    read = _side_by_side(lambda block: _block(dataset, what, {**inside, **block}), places, watch)
    for number, (block, values) in enumerate(zip(places, read, strict=True)):
        spots = {dim: np.searchsorted(where[dim], block[dim]) for dim in split}
        place = tuple(_run(spots[dim]) if dim in spots else slice(None) for dim in map(str, found.dims))
        found.values[place] = values.transpose(*found.dims).values
        watch.tell((number + 1) / len(places))
    return found


def _run(spots: np.ndarray) -> slice:
    """Places of a block among those that are wanted: neighbours."""
    return slice(int(spots[0]), int(spots[-1]) + 1)


def _empty(dataset: xr.Dataset, what: Gathering, only: Places) -> xr.DataArray:
    """Room for what is gathered."""
    left = [dim for dim in map(str, dataset[what.variable].dims) if all(dim not in step.dims for step in what.steps)]
    chosen = {dim: only[dim] for dim in left if dim in only}
    coords = {
        dim: dataset[dim].isel({dim: chosen[dim]} if dim in chosen else {}) for dim in left if dim in dataset.coords
    }
    shape = [len(chosen[dim]) if dim in chosen else dataset.sizes[dim] for dim in left]
    return xr.DataArray(np.full(shape, np.nan), coords, left)


def _block(dataset: xr.Dataset, what: Gathering, places: Places) -> xr.DataArray:
    """One block: read, compared, aggregated."""
    values = _read(dataset, what.variable, places)
    if what.reference is not None:
        values = _compared(dataset, values, what.reference, places)
    done = is_done(dataset, {dim: places[dim] for dim in cell_dims(dataset) if dim in places})
    if done is not None:
        values = values.where(done)
    for step in what.steps:
        values = aggregated(values, step)
    return values


def _read(dataset: xr.Dataset, variable: str, places: Mapping[str, Any]) -> xr.DataArray:
    values = dataset[variable]
    chosen = {dim: _plain(places[dim]) for dim in map(str, values.dims) if dim in places}
    # A new array: xarray keeps what it has read, and would keep the whole cube.
    return values.isel(chosen).astype(np.float64)


def _plain(places: Any) -> Any:
    """Consecutive places as a slice, which stores read at once."""
    whole = len(places) and places[-1] - places[0] + 1 == len(places)
    return slice(int(places[0]), int(places[-1]) + 1) if whole else places


def _compared(dataset: xr.Dataset, values: xr.DataArray, reference: Reference, places: Places) -> xr.DataArray:
    at = places_of(dataset, {dim: (label,) for dim, label in reference.at})
    other = _read(dataset, reference.variable, {**places, **at}).isel(dict.fromkeys(at, 0), drop=True)
    ordered = other.transpose(*(dim for dim in values.dims if dim in other.dims))
    shape = [values.sizes[dim] if dim in other.dims else 1 for dim in values.dims]
    return values.copy(data=reference.compared(values.values, ordered.values.reshape(shape)))


def _side_by_side(read: Callable[[Any], Any], places: Sequence[Any], watch: Watch) -> Iterator[Any]:
    """Results in order; few blocks are held at a time."""
    threads = min(_MOST_THREADS, os.cpu_count() or 1)

    def one(block: Any) -> Any:
        if watch.is_stopped():
            raise Stopped
        return read(block)

    with ThreadPoolExecutor(threads) as pool:
        rest = iter(places)
        running: deque[Future[Any]] = deque(pool.submit(one, block) for block in islice(rest, threads + 1))
        try:
            while running:
                yield running.popleft().result()
                running.extend(pool.submit(one, block) for block in islice(rest, 1))
        finally:
            for each in running:
                each.cancel()
