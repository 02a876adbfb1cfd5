"""Passes over a cube: whole chunks are read and aggregated, and only the result is kept."""

import os
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import xarray as xr

from calibdask.explore.cancellation import Cancelled, CancelToken
from calibdask.explore.cubes.aggregates import Step, aggregated
from calibdask.explore.cubes.views import Reference, positions_of
from calibdask.study.reading import Indexers, block_dims, blocks, cell_dims, is_done

# Blocks are read in parallel; more of them than this would only take memory.
_MOST_THREADS = 4


@dataclass(frozen=True)
class BlockReduction:
    """Computation of one pass: values, compared and aggregated within each block.

    Parameters
    ----------
    variable : str
    reference : Reference or None
    steps : tuple of Step
        Over dimensions that are whole in each block.
    """

    variable: str
    reference: Reference | None = None
    steps: tuple[Step, ...] = ()


def reduced_blocks(
    dataset: xr.Dataset, what: BlockReduction, only: Indexers, token: CancelToken | None = None
) -> xr.DataArray:
    """Values of all blocks; NaN for cells that are not done.

    Parameters
    ----------
    dataset : xarray.Dataset
    what : BlockReduction
    only : mapping from str to int array
        Selected positions by dimension, in order.
    token : CancelToken, optional

    Raises
    ------
    Cancelled
        If the token says so.

    Examples
    --------
    >>> cube = xr.Dataset({"status": ("model", [1, 0]), "value": (("model", "draw"), [[1.0, 3.0], [0.0, 0.0]])})
    >>> reduced_blocks(cube, BlockReduction("value", steps=(Step("mean", ("draw",)),)), {}).values
    array([ 2., nan])
    """
    token = token or CancelToken()
    split = block_dims(dataset, what.variable)
    block_indexers = list(blocks(dataset, what.variable, only))
    result = _empty(dataset, what, only)
    selected = {dim: np.asarray(only[dim]) if dim in only else np.arange(dataset.sizes[dim]) for dim in split}
    inside = {dim: positions for dim, positions in only.items() if dim not in split}
    reduced = _in_parallel(lambda block: _block(dataset, what, {**inside, **block}), block_indexers, token)
    for number, (block, values) in enumerate(zip(block_indexers, reduced, strict=True)):
        # The positions of a block are neighbours among those selected.
        target = {dim: _as_slice(np.searchsorted(selected[dim], block[dim])) for dim in split}
        result.values[tuple(target.get(dim, slice(None)) for dim in map(str, result.dims))] = values.transpose(
            *result.dims
        ).values
        token.report((number + 1) / len(block_indexers))
    return result


def _empty(dataset: xr.Dataset, what: BlockReduction, only: Indexers) -> xr.DataArray:
    """The result of a pass, all NaN."""
    left = [dim for dim in map(str, dataset[what.variable].dims) if all(dim not in step.dims for step in what.steps)]
    chosen = {dim: only[dim] for dim in left if dim in only}
    coords = {
        dim: dataset[dim].isel({dim: chosen[dim]} if dim in chosen else {}) for dim in left if dim in dataset.coords
    }
    shape = [len(chosen[dim]) if dim in chosen else dataset.sizes[dim] for dim in left]
    return xr.DataArray(np.full(shape, np.nan), coords, left)


def _block(dataset: xr.Dataset, what: BlockReduction, indexers: Indexers) -> xr.DataArray:
    """One block: read, compared, aggregated."""
    values = _read(dataset, what.variable, indexers)
    if what.reference is not None:
        values = _compared(dataset, values, what.reference, indexers)
    done = is_done(dataset, {dim: indexers[dim] for dim in cell_dims(dataset) if dim in indexers})
    if done is not None:
        values = values.where(done)
    for step in what.steps:
        values = aggregated(values, step)
    return values


def _read(dataset: xr.Dataset, variable: str, indexers: Mapping[str, Any]) -> xr.DataArray:
    values = dataset[variable]
    chosen = {dim: _run_or_all(indexers[dim]) for dim in map(str, values.dims) if dim in indexers}
    # A new array: xarray keeps what it has read, and would keep the whole cube.
    return values.isel(chosen).astype(np.float64)


def _run_or_all(positions: Any) -> Any:
    """Consecutive positions as a slice, which stores read at once; others as they are."""
    is_run = len(positions) and positions[-1] - positions[0] + 1 == len(positions)
    return _as_slice(positions) if is_run else positions


def _as_slice(positions: Any) -> slice:
    return slice(int(positions[0]), int(positions[-1]) + 1)


def _compared(dataset: xr.Dataset, values: xr.DataArray, reference: Reference, indexers: Indexers) -> xr.DataArray:
    at = positions_of(dataset, {dim: (label,) for dim, label in reference.at})
    other = _read(dataset, reference.variable, {**indexers, **at}).isel(dict.fromkeys(at, 0), drop=True)
    ordered = other.transpose(*(dim for dim in values.dims if dim in other.dims))
    shape = [values.sizes[dim] if dim in other.dims else 1 for dim in values.dims]
    return values.copy(data=reference.compared(values.values, ordered.values.reshape(shape)))


def _in_parallel(reduce: Callable[[Any], Any], block_indexers: Sequence[Any], token: CancelToken) -> Iterator[Any]:
    """Results of all blocks in order; few blocks are held at a time."""
    threads = min(_MOST_THREADS, os.cpu_count() or 1)

    def reduced(block: Any) -> Any:
        if token.is_cancelled():
            raise Cancelled
        return reduce(block)

    with ThreadPoolExecutor(threads) as pool:
        rest = iter(block_indexers)
        running: deque[Future[Any]] = deque(pool.submit(reduced, block) for block in islice(rest, threads + 1))
        try:
            while running:
                yield running.popleft().result()
                running.extend(pool.submit(reduced, block) for block in islice(rest, 1))
        finally:
            for future in running:
                future.cancel()
