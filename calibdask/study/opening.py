"""Cubes of studies, opened to be read."""

import xarray as xr

from calibdask.safe_text import visible_address
from calibdask.storage.open_store import StoredCube, open_store


def open_cube(store: str) -> xr.Dataset:
    """The cube of a study as a dataset: its variables on named axes, ``status`` and ``error`` of each cell.

    Values of cells that are not done are NaN (0 for integers); ``status`` is 0 for cells that have not been computed, 1
    for those that are done, 2 for those that failed. Values are loaded lazily.

    Parameters
    ----------
    store : str
        A path, or a URL that fsspec supports.

    Raises
    ------
    ValueError
        If there is no cube.

    Examples
    --------
    >>> import tempfile
    >>> from calibdask.study.example import Means
    >>> from calibdask.study.running import run
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = run(Means(replicates=2), folder + "/means.zarr")
    ...     cube = open_cube(folder + "/means.zarr").load()
    >>> cube.average.dims, int(cube.status.sum())
    (('rows', 'replicate'), 2)
    """
    return open_stored_cube(store).dataset


def open_stored_cube(store: str) -> StoredCube:
    """Open a study cube with its fingerprint.

    Raises
    ------
    ValueError
        If there is no cube.
    """
    opened = open_store(str(store))
    if not isinstance(opened, StoredCube):
        raise ValueError(
            f"{visible_address(store)} is not a study cube, which calibdask run creates; it is {opened.kind}."
        )
    return opened
