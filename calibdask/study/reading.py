"""Reading a cube, or any other numbers on named axes, by blocks of whole chunks."""

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import xarray as xr

from calibdask.study.cube import DONE, FAILED

__all__ = ["Places", "block_dims", "blocks", "cell_dims", "counts", "is_done"]

# Where labels stand along axes; axes that are not named are whole.
Places = Mapping[str, np.ndarray]

_STATUS = "status"
# Of data without cells: numbers of a block.
_BLOCK = 1 << 23


def cell_dims(dataset: xr.Dataset) -> tuple[str, ...]:
    """The axes of the cells of a cube; none for what is no cube.

    Examples
    --------
    >>> cell_dims(xr.Dataset({"status": ("model", [1, 0]), "value": (("model", "metric"), [[0.1], [0.2]])}))
    ('model',)
    """
    return tuple(map(str, dataset[_STATUS].dims)) if _STATUS in dataset.data_vars else ()


def counts(dataset: xr.Dataset) -> tuple[int, int, int]:
    """How many cells there are, are done, and have failed; zeros for what is no cube."""
    if not cell_dims(dataset):
        return 0, 0, 0
    status = dataset[_STATUS].values
    return status.size, int((status == DONE).sum()), int((status == FAILED).sum())


def is_done(dataset: xr.Dataset, places: Places) -> xr.DataArray | None:
    """Whether each of some cells is done; None for what is no cube."""
    dims = cell_dims(dataset)
    if not dims:
        return None
    return dataset[_STATUS].isel({dim: places[dim] for dim in dims if dim in places}) == DONE


def block_dims(dataset: xr.Dataset, variable: str) -> tuple[str, ...]:
    """The axes that a variable is read in parts along: those of cells, or else the first ones of a large variable."""
    cells = cell_dims(dataset)
    if cells:
        return tuple(dim for dim in cells if dim in dataset[variable].dims)
    dims, shape = list(map(str, dataset[variable].dims)), dataset[variable].shape
    split = next(at for at in range(len(dims) + 1) if math.prod(shape[at:]) <= _BLOCK or at == len(dims))
    return tuple(dims[:split])


def blocks(dataset: xr.Dataset, variable: str, only: Places) -> Iterator[dict[str, np.ndarray]]:
    """Places of a variable along `block_dims`, a block of whole chunks at a time; chunks without a done cell are left.

    Parameters
    ----------
    dataset : xarray.Dataset
        A cube, or anything else.
    variable : str
    only : mapping from str to int array
        Places that are wanted, in order.
    """
    dims = block_dims(dataset, variable)
    runs = [_runs(_wanted(dataset, dim, only), _chunk(dataset, variable, dim)) for dim in dims]
    for place in np.argwhere(_begun(dataset, dims, runs)):
        yield {dim: parts[at] for dim, parts, at in zip(dims, runs, place, strict=True)}


def _begun(dataset: xr.Dataset, dims: Sequence[str], runs: Sequence[Sequence[np.ndarray]]) -> np.ndarray:
    """Which blocks have a done cell: all where there are no cells."""
    shape = tuple(len(parts) for parts in runs)
    if not cell_dims(dataset) or 0 in shape:
        return np.ones(shape, bool)
    done = (dataset[_STATUS] == DONE).transpose(*dims, ...).values
    # At once for all blocks: there may be as many as cells.
    for axis, parts in enumerate(runs):
        starts = np.cumsum([0, *map(len, parts[:-1])])
        done = np.logical_or.reduceat(np.take(done, np.concatenate(parts), axis), starts, axis)
    return np.asarray(done.any(tuple(range(len(runs), done.ndim))))


def _wanted(dataset: xr.Dataset, dim: str, only: Places) -> np.ndarray:
    return np.asarray(only[dim], int) if dim in only else np.arange(dataset.sizes[dim])


def _chunk(dataset: xr.Dataset, variable: str, dim: str) -> int:
    """Places of one chunk along an axis, as the store has them."""
    told = dataset[variable].encoding.get("preferred_chunks", {}).get(dim, 1)
    return int(told if isinstance(told, int) else max(told))


def _runs(places: np.ndarray, chunk: int) -> Sequence[np.ndarray]:
    """Places by the chunk that they are in."""
    cuts = np.flatnonzero(np.diff(places // chunk)) + 1
    return np.split(places, cuts) if places.size else []
