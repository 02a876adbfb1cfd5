"""Scored rows from files and stores: one function that looks at the name and hands on to the format's reader."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

import numpy as np

from calibdask.engine import array_files, column_files
from calibdask.engine.location import Location, Wanted, located, unreadable

__all__ = ["Table", "read_rows", "reader_of"]


@dataclass(frozen=True)
class Table:
    """Arrays of scored rows, NumPy or Dask, as `calibdask.evaluate` takes them.

    Parameters
    ----------
    labels : array of shape (n,)
    scores : array of shape (n,) or (n, K)
    weights : array of shape (n,), optional
    by : mapping from name to array of shape (n,)
    """

    labels: Any
    scores: Any
    weights: Any
    by: dict[str, Any]

    @property
    def vector(self) -> bool:
        """Whether the scores are a vector of P(y = 1)."""
        return bool(self.scores.ndim == self.labels.ndim)

    @property
    def classes(self) -> int:
        """Number of classes: 2 for a vector."""
        return 2 if self.vector else int(self.scores.shape[-1])


_Reader = Callable[[Location, Wanted], dict[str, Any]]

_READERS: dict[str, _Reader] = {
    ".npz": array_files.read_npz,
    ".zarr": array_files.read_zarr,
    ".nc": array_files.read_netcdf,
    ".parquet": column_files.read_parquet,
    ".csv": column_files.read_csv,
}
_COMPRESSIONS = (".gz", ".bz2", ".xz", ".zst", ".zip")


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
    if chunk_rows is not None and chunk_rows < 1:
        raise ValueError(f"chunk_rows expects a positive number of rows, got {chunk_rows}.")
    location = located(url)
    reader = reader_of(location)
    wanted = Wanted(label, score, tuple(dict.fromkeys(by)), weight, chunk_rows)
    try:
        found = reader(location, wanted)
    except (OSError, RuntimeError, ImportError) as error:
        raise unreadable(url, error) from error
    if found["scores"].shape[0] == 0:
        raise ValueError(f"{url} holds no rows.")
    columns = reader in (column_files.read_csv, column_files.read_parquet)
    kind, plural = ("column", "") if columns else ("array", "s")
    roles = {"labels": label or f"label{plural}", "scores": score or f"score{plural}", "weights": weight}
    for role, name in roles.items():
        if role in found:
            _check_numbers(url, f"{kind} {name!r}", found[role])
    return Table(found["labels"], found["scores"], found.get("weights"), found["by"])


def _check_numbers(url: str, what: str, array: Any) -> None:
    """Refuse texts and dates; the row is named where the array is in memory."""
    if array.dtype.kind not in "OUSTMm":
        return
    row = next((i for i, value in enumerate(array) if not _is_number(value)), 0) if _in_memory(array) else None
    where = "" if row is None else f" in row {row}, {str(array[row])!r}"
    raise ValueError(
        f"{url}: {what} expects numbers, got {'dates' if array.dtype.kind in 'Mm' else 'text'}{where}; "
        "class names are to be encoded as 0, 1, ..., in the order of the scores."
    )


def _in_memory(array: Any) -> bool:
    return isinstance(array, np.ndarray) and array.ndim == 1


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True


def reader_of(location: Location) -> _Reader:
    """The reader for a name; for a name that says nothing, for what the folder holds."""
    path = PurePosixPath(location.path)
    suffixes = [part.lower() for part in path.suffixes]
    while suffixes and suffixes[-1] in _COMPRESSIONS and ".csv" in suffixes[:-1]:
        suffixes.pop()
    is_known = suffixes and suffixes[-1] in _READERS
    if not is_known and any(part.lower().endswith(".zarr") for part in path.parts):
        return array_files.read_zarr
    if not is_known and location.is_zarr:
        return array_files.read_zarr
    if not location.exists:
        raise ValueError(f"{location.url} does not exist.")
    if is_known:
        return _READERS[suffixes[-1]]
    if location.holds(".parquet"):
        return column_files.read_parquet
    known = ", ".join(_READERS)
    if location.fs.isdir(location.path):
        raise ValueError(
            f"{location.url} is a folder of no known format; it expects a name that ends in one of {known}, "
            "a Zarr store, or a folder of .parquet files."
        )
    raise ValueError(f"{location.url} expects a name that ends in one of {known}, or a folder of a Zarr store.")
