"""Reading a cube, or any other dataset, in blocks of whole chunks."""

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import xarray as xr

from calibdask.storage.cube_layout import DONE, ERROR, FAILED, STATUS, check_status
from calibdask.storage.retry import with_retries
from calibdask.storage.writers import texts_settled

# Positions along axes; axes that are not named are taken whole.
Indexers = Mapping[str, np.ndarray]

_STATUS = "status"
# Size of a block of data without cells.
_BLOCK = 1 << 23


def cell_dims(dataset: xr.Dataset) -> tuple[str, ...]:
    """The axes of the cells of a cube; none for other datasets.

    Examples
    --------
    >>> cell_dims(xr.Dataset({"status": ("model", [1, 0]), "value": (("model", "metric"), [[0.1], [0.2]])}))
    ('model',)
    """
    return tuple(map(str, dataset[_STATUS].dims)) if _STATUS in dataset.data_vars else ()


def counts(dataset: xr.Dataset) -> tuple[int, int, int]:
    """Numbers of cells in all, done and failed; zeros for other datasets."""
    if not cell_dims(dataset):
        return 0, 0, 0
    status = check_status(str(dataset.attrs.get("study", "The cube")), dataset[_STATUS].values)
    return status.size, int((status == DONE).sum()), int((status == FAILED).sum())


def errors_of(cube: xr.Dataset) -> dict[int, str]:
    """Error messages of the failed cells of an open cube, by the number of the cell.

    Examples
    --------
    >>> cube = xr.Dataset({"status": ("cell", [DONE, FAILED]), "error": ("cell", ["", "ValueError: lost"])})
    >>> errors_of(cube)
    {1: 'ValueError: lost'}
    """
    failed = np.flatnonzero(cube[STATUS].values == FAILED)
    if not failed.size:
        return {}
    at = np.unravel_index(failed, cube[STATUS].shape)
    positions = {dim: ("failed", numbers) for dim, numbers in zip(cube[STATUS].dims, at, strict=True)}
    with texts_settled():
        # Chunks of these only: there may be as many as cells.
        texts = with_retries(
            lambda: cube[ERROR].variable.isel({d: xr.Variable(*p) for d, p in positions.items()}).values
        )
    return dict(zip(failed.tolist(), map(str, texts.tolist()), strict=True))


def is_done(dataset: xr.Dataset, indexers: Indexers) -> xr.DataArray | None:
    """Whether each of the selected cells is done; None for other datasets."""
    dims = cell_dims(dataset)
    if not dims:
        return None
    return dataset[_STATUS].isel({dim: indexers[dim] for dim in dims if dim in indexers}) == DONE


def block_dims(dataset: xr.Dataset, variable: str) -> tuple[str, ...]:
    """Axes along which a variable is read in blocks: the cell axes, or the first axes of a large variable."""
    cells = cell_dims(dataset)
    if cells:
        return tuple(dim for dim in cells if dim in dataset[variable].dims)
    dims, shape = list(map(str, dataset[variable].dims)), dataset[variable].shape
    split = next(at for at in range(len(dims) + 1) if math.prod(shape[at:]) <= _BLOCK or at == len(dims))
    return tuple(dims[:split])


def blocks(dataset: xr.Dataset, variable: str, only: Indexers) -> Iterator[dict[str, np.ndarray]]:
    """Positions of a variable along `block_dims`, by blocks of whole chunks; chunks without done cells are skipped.

    Parameters
    ----------
    dataset : xarray.Dataset
        A cube, or any other dataset.
    variable : str
    only : mapping from str to int array
        Selected positions, in order.
    """
    dims = block_dims(dataset, variable)
    runs = [_runs(_positions(dataset, dim, only), _chunk(dataset, variable, dim)) for dim in dims]
    for block in np.argwhere(_have_done_cells(dataset, dims, runs)):
        yield {dim: parts[at] for dim, parts, at in zip(dims, runs, block, strict=True)}


def _have_done_cells(dataset: xr.Dataset, dims: Sequence[str], runs: Sequence[Sequence[np.ndarray]]) -> np.ndarray:
    """Mask of the blocks with a done cell; all True in datasets without cells."""
    shape = tuple(len(parts) for parts in runs)
    if not cell_dims(dataset) or 0 in shape:
        return np.ones(shape, bool)
    done = (dataset[_STATUS] == DONE).transpose(*dims, ...).values
    # All blocks at once: there may be as many as cells.
    for axis, parts in enumerate(runs):
        starts = np.cumsum([0, *map(len, parts[:-1])])
        done = np.logical_or.reduceat(np.take(done, np.concatenate(parts), axis), starts, axis)
    return np.asarray(done.any(tuple(range(len(runs), done.ndim))))


def _positions(dataset: xr.Dataset, dim: str, only: Indexers) -> np.ndarray:
    return np.asarray(only[dim], int) if dim in only else np.arange(dataset.sizes[dim])


def _chunk(dataset: xr.Dataset, variable: str, dim: str) -> int:
    """Length of a chunk along an axis, as stored."""
    lengths = dataset[variable].encoding.get("preferred_chunks", {}).get(dim, 1)
    return int(lengths if isinstance(lengths, int) else max(lengths))


def _runs(positions: np.ndarray, chunk: int) -> Sequence[np.ndarray]:
    """Positions by chunk."""
    cuts = np.flatnonzero(np.diff(positions // chunk)) + 1
    return np.split(positions, cuts) if positions.size else []
