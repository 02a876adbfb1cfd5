"""The one place that opens a path, and decides whether it holds rows, a summary, the cube of a study or a result.

xarray and summaries are imported for formats that need them: of a file of columns, a name that is wrong is found
before, since importing them takes longer than reading a schema.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

import numpy as np

from calibdask.storage import array_files, column_files
from calibdask.storage.location import Location
from calibdask.storage.readers import StoredRows, Table
from calibdask.storage.writers import texts_settled

if TYPE_CHECKING:
    import xarray as xr

    from calibdask.storage.summary import Summary

__all__ = ["CUBE_BEGUN", "CUBE_MARK", "Store", "StoredCube", "StoredResult", "open_store", "read_rows"]

# The attribute of the cube of a study: its fingerprint; while it is laid out, `CUBE_BEGUN`.
CUBE_MARK, CUBE_BEGUN = "calibdask_study", ""
# The attribute that every version writes with a result; summaries have it too.
_RESULT_MARK = "calibdask_version"
_Format = Literal[".npz", ".zarr", ".nc", ".parquet", ".csv"]
_FORMATS: tuple[_Format, ...] = (".npz", ".zarr", ".nc", ".parquet", ".csv")
_NETCDF = {".nc4", ".netcdf", ".cdf"}
_COMPRESSIONS = (".gz", ".bz2", ".xz", ".zst", ".zip")


@dataclass(frozen=True, eq=False)
class StoredCube:
    """The cube of a study: its variables on named axes, read when they are needed, and its fingerprint."""

    kind: ClassVar[str] = "the cube of a study"
    mend: ClassVar[str] = "look at it by calibdask explore, or calibdask report"

    url: str
    dataset: "xr.Dataset"
    fingerprint: dict[str, Any]


@dataclass(frozen=True, eq=False)
class StoredResult:
    """A result of calibdask: numbers on named axes, read when they are needed."""

    kind: ClassVar[str] = "a result of calibdask"
    mend: ClassVar[str] = "look at it by calibdask explore, or open it by xarray"

    url: str
    dataset: "xr.Dataset"


Store: TypeAlias = "StoredRows | Summary | StoredCube | StoredResult"


def open_store(url: str) -> Store:
    """Open a file or a store, and say what it is.

    A mark in the store says that it is a summary, the cube of a study or a result; what has none may hold scored rows,
    under whatever names. No numbers are read but the axes.

    Parameters
    ----------
    url : str
        A local path or any URL that fsspec knows.

    Returns
    -------
    StoredRows, Summary, StoredCube or StoredResult

    Raises
    ------
    ValueError
        If there is no such file, the format is unknown or the file damaged; if it is a summary of another format, or a
        cube that was not laid out to its end.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "holdout.npz")
    ...     np.savez(path, labels=[0, 1, 1], scores=[0.2, 0.7, 0.9])
    ...     type(open_store(path)).__name__
    'StoredRows'
    """
    location = Location.parse(url)
    match _format_of(location):
        case ".zarr":
            return _open_zarr(location)
        case ".nc":
            return _open_netcdf(location)
        case ".npz":
            return StoredRows(location, partial(array_files.read_npz, location))
        case ".parquet":
            return StoredRows(location, partial(column_files.read_parquet, location), "column")
        case ".csv":
            return StoredRows(location, partial(column_files.read_csv, location), "column")


def read_rows(
    url: str,
    *,
    label: str | None = None,
    score: str | None = None,
    by: Sequence[str] = (),
    weight: str | None = None,
    chunk_rows: int | None = None,
) -> Table:
    """Open a file or store of scored rows; what does not fit in one block is read lazily, by Dask.

    =====================  ============================================================  ==========================
    name                   what is in it                                                 how it is read
    =====================  ============================================================  ==========================
    ``.npz``               arrays ``labels`` (n,) and ``scores`` (n,) or (n, K)          into memory
    ``.zarr``              a group with arrays ``labels`` and ``scores``                 in chunks of the store
    ``.nc``                variables ``labels`` and ``scores``                           in chunks of the file
    ``.parquet``           columns ``label``; ``score``, or ``score_0 ... score_{K-1}``  in row groups
    ``.csv``, ``.csv.gz``  the same columns                                              in blocks of 64 MB; smaller or
                                                                                         compressed ones into memory
    =====================  ============================================================  ==========================

    A folder inside a Zarr store is a Zarr group, a folder of ``.parquet`` files a Parquet data set.

    Parameters
    ----------
    url : str
        A local path or any URL that fsspec knows.
    label, score : str, optional
        Names of the arrays, variables or columns where they are not those above; score columns of several classes are
        ``<score>_0``, ``<score>_1``, ...
    by : sequence of str
        Names of further arrays or columns with one value for each row, to slice by.
    weight : str, optional
        Name of the array or column of sample weights.
    chunk_rows : int, optional
        About how many rows a block holds, for ``.zarr``, ``.nc`` and ``.parquet``. None: as stored, small ones taken
        together.

    Returns
    -------
    Table

    Raises
    ------
    ValueError
        If there is no such file, the format is unknown or the file damaged, a name is missing, score columns are not
        numbered from 0 without gaps, or there are no rows. Values are checked by `calibdask.evaluate`.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "holdout.npz")
    ...     np.savez(path, labels=[0, 1, 1], scores=[0.2, 0.7, 0.9])
    ...     read_rows(path).scores
    array([0.2, 0.7, 0.9])
    """
    store = open_store(url)
    if not isinstance(store, StoredRows):
        raise ValueError(f"{url} is {store.kind}, which holds no scored rows; {store.mend}.")
    return store.read(label=label, score=score, by=by, weight=weight, chunk_rows=chunk_rows)


def _format_of(location: Location) -> _Format:
    """The format that a name tells; of a name that says nothing, that of what the folder holds."""
    path = PurePosixPath(location.path)
    suffixes = [part.lower() for part in path.suffixes]
    while suffixes and suffixes[-1] in _COMPRESSIONS and ".csv" in suffixes[:-1]:
        suffixes.pop()
    suffix = ".nc" if suffixes and suffixes[-1] in _NETCDF else "".join(suffixes[-1:])
    named = next((name for name in _FORMATS if name == suffix), None)
    # A folder inside a store, or a store under any name.
    if named == ".zarr" or (
        named is None and (any(part.lower().endswith(".zarr") for part in path.parts) or location.is_zarr)
    ):
        return ".zarr"
    if not location.exists:
        raise ValueError(f"{location.url} does not exist.")
    if named is not None:
        return named
    if location.holds(".parquet"):
        return ".parquet"
    known = ", ".join(_FORMATS)
    if location.fs.isdir(location.path):
        raise ValueError(
            f"{location.url} is a folder of no known format; it expects a name that ends in one of {known}, "
            "a Zarr store, or a folder of .parquet files."
        )
    raise ValueError(f"{location.url} expects a name that ends in one of {known}, or a folder of a Zarr store.")


def _open_zarr(location: Location) -> Store:
    from calibdask.storage.summary import Summary
    from calibdask.storage.summary_format import MARK

    node = array_files.open_group(location)

    def dataset(**chunks: Any) -> "xr.Dataset":
        import xarray as xr

        with location.reading("a Zarr group of variables on named axes"), texts_settled():
            return xr.open_zarr(node.store, group=node.path or None, consolidated=False, **chunks)

    if CUBE_MARK in node.attrs:
        return _cube(location.url, node.attrs[CUBE_MARK], partial(dataset, chunks=None))
    with location.reading("a Zarr group"):
        is_marked = MARK in node
    if is_marked:
        # In chunks of the store: slices are added up without ever being in memory together.
        return Summary.of(dataset(), location.url)
    if _RESULT_MARK in node.attrs:
        return StoredResult(location.url, dataset(chunks=None))
    reader = partial(array_files.read_zarr, location, node)
    return StoredRows(location, reader, labelled=partial(dataset, chunks=None))


def _open_netcdf(location: Location) -> Store:
    from calibdask.storage.summary import Summary, is_summary

    dataset = array_files.open_netcdf(location)
    if is_summary(dataset):
        return Summary.of(dataset.chunk("auto"), location.url)
    if _RESULT_MARK in dataset.attrs:
        return StoredResult(location.url, dataset)
    return StoredRows(location, partial(array_files.read_netcdf, location, dataset), labelled=lambda: dataset)


def _cube(url: str, fingerprint: Any, open_dataset: "Callable[[], xr.Dataset]") -> StoredCube:
    if fingerprint == CUBE_BEGUN:
        raise ValueError(
            f"{url} is a cube that was stopped while it was laid out; run its study again with overwrite=True "
            "(--overwrite)."
        )
    known, dataset = json.loads(str(fingerprint)), open_dataset()
    # Texts of any length are a type of NumPy that not all of xarray knows yet.
    texts = {
        name: (axis.dims, np.array(axis.values.tolist()))
        for name, axis in dataset.coords.items()
        if axis.dtype.kind in "TO"
    }
    return StoredCube(url, dataset.assign_coords(texts).assign_attrs(study=known["study"]), known)
