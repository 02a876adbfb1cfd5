"""The one place that opens a path, and decides whether it holds rows, a summary, the cube of a study or a result.

xarray and summaries are imported for formats that need them: of a file of columns, a name that is wrong is found
before, since importing them takes longer than reading a schema.
"""

import json
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import numpy as np

from calibdask.errors import Damaged
from calibdask.safe_text import data_without_credentials
from calibdask.storage.applied_manifest import intact_files
from calibdask.storage.array_files import ArrayFile
from calibdask.storage.column_files import ColumnFiles
from calibdask.storage.delta_files import delta_files
from calibdask.storage.file_sets import FileSet
from calibdask.storage.format_detection import format_of
from calibdask.storage.formats import COLUMN_FORMATS
from calibdask.storage.location import Location, MissingChunks, read_error
from calibdask.storage.manifest import IDENTITY
from calibdask.storage.netcdf_files import netcdf_reader, open_netcdf
from calibdask.storage.npz_files import NPZ, BareArrays
from calibdask.storage.readers import StoredRows
from calibdask.storage.row_table import RowTable
from calibdask.storage.standard_input import STANDARD_INPUT, standard_input
from calibdask.storage.writers import texts_settled

if TYPE_CHECKING:
    import xarray as xr

    from calibdask.storage.summary import Summary

# The attribute of the cube of a study: its fingerprint; while it is laid out, `CUBE_BEGUN`.
CUBE_MARK, CUBE_BEGUN = "calibdask_study", ""
# What its study recommends to look at first, as JSON.
VIEWS = "views"
# The attribute of a store of periods, with the version of its layout.
PERIODS = "calibdask_periods"
# The attribute that every version writes with a result; summaries have it too.
_RESULT_MARK = "calibdask_version"


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
    """Open a file or a store, and detect its kind.

    A mark in the store identifies a summary, the cube of a study or a result; a store without a mark may hold scored
    rows, under any names. Only the axes are read.

    Parameters
    ----------
    url : str
        A local path or any URL that fsspec knows; ``-`` for standard input.

    Returns
    -------
    StoredRows, Summary, StoredCube or StoredResult

    Raises
    ------
    ValueError
        If there is no such file, the format is unknown or the file damaged; if it is a summary of another format, or a
        cube whose layout was interrupted.

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
    location = standard_input() if url == STANDARD_INPUT else Location.parse(url)
    kind = format_of(location)
    match kind:
        case ".zarr":
            return _open_zarr(location)
        case ".nc":
            return _open_netcdf(location)
        case ".npz":
            arrays = ArrayFile(location, NPZ)
            return StoredRows(location, arrays.read, arrays.parts)
        case ".npy":
            bare = BareArrays(location)
            return StoredRows(location, bare.read, bare.parts)
        case "delta":
            columns = ColumnFiles(delta_files(location), COLUMN_FORMATS[".parquet"])
        case _:
            files = FileSet.of(location)
            columns = ColumnFiles(files, COLUMN_FORMATS[kind])
            if kind == ".parquet":
                # Once, when rows are read, whichever way comes first.
                intact = cache(lambda: ColumnFiles(intact_files(files), COLUMN_FORMATS[kind]))
                return StoredRows(
                    location, lambda choice: intact().read(choice), lambda choice: intact().parts(choice), "column"
                )
    return StoredRows(location, columns.read, columns.parts, "column")


def open_summary(url: str | os.PathLike[str]) -> "xr.Dataset":
    """Open a stored summary, written as a whole or period by period; its numbers are read lazily.

    Parameters
    ----------
    url : str or path
        A ``.zarr`` or ``.nc`` written by ``calibdask summarize``, `calibdask.append` or xarray.

    Returns
    -------
    xarray.Dataset
        Of Dask arrays. The periods are the current ones, in the order of their labels; the attribute ``history``, a
        JSON text, lists replaced and merged periods: ``date``, ``action``, ``reason``, ``removed`` and ``added``.

    Raises
    ------
    ValueError
        If it is not a summary, or is damaged.

    Examples
    --------
    >>> import os, tempfile
    >>> import calibdask as cd
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "summary.nc")
    ...     cd.summarize([0, 1], [0.2, 0.4], settings=["binary"]).to_netcdf(path, engine="h5netcdf")
    ...     with open_summary(path) as summary:
    ...         int(summary.rows)
    2
    """
    from calibdask.storage.summary import Summary

    store = open_store(os.fspath(url))
    if not isinstance(store, Summary):
        raise ValueError(f"{url} is {store.kind}, not a summary; make one by calibdask.summarize.")
    return store.dataset


def read_rows(
    url: str | os.PathLike[str],
    *,
    label: str | Sequence[str] | None = None,
    score: str | Sequence[str] | None = None,
    by: Sequence[str] = (),
    weight: str | None = None,
    chunk_rows: int | None = None,
    skip_missing: bool = False,
    missing_chunks: MissingChunks = "error",
    groups: str | None = None,
    text: Sequence[str] = (),
) -> RowTable:
    """Open a file or store of scored rows; data larger than one block are read lazily, by Dask.

    ======================  ============================================================  ==========================
    name                    contents                                                      reading
    ======================  ============================================================  ==========================
    ``.npz``                arrays ``labels`` (n,) and ``scores`` (n,) or (n, K)          into memory
    ``.zarr``               a group with arrays ``labels`` and ``scores``                 in chunks of the store
    ``.nc``                 variables ``labels`` and ``scores``                           in chunks of the file
    ``.parquet``            columns ``label``; ``score``, or ``score_0 ... score_{K-1}``  in row groups
    ``.csv``, ``.csv.gz``   the same columns; also ``.tsv``, ``.bz2``, ``.xz``, ``.zst``  in blocks of 64 MB; smaller or
                                                                                          compressed files into memory
    ``.jsonl``              the same as keys of objects, one per line; also               in blocks of 64 MB; compressed
                            ``.ndjson``, and compressed as CSV                            ones into memory
    ``.arrow``              the same columns; also ``.feather``, ``.ipc``                 in record batches; streams
                                                                                          into memory
    a folder, a pattern     files of one of the last four, such as ``data/*.parquet``     as these
    a folder of Delta Lake  latest version; requires ``pip install "calibdask[delta]"``   in row groups
    ======================  ============================================================  ==========================

    ``-`` is standard input: CSV, JSON Lines, Parquet or Arrow, detected from its content.

    A folder inside a Zarr store is a Zarr group. Several files are read in the order of their names, and folders named
    like ``day=1`` become columns. A CSV file of more than 64 MB is first read once to find the ends of its rows, as
    quoted texts may contain line breaks. Columns of ``by`` in it are texts unless every text can be recovered from its
    number: ``1.10``, ``01`` and identifiers of 20 digits are texts. Several files have the union of their columns; if a
    file lacks a column, or has only missing values in it, its values are missing.

    Without ``label`` and ``score`` columns of other common names (``y_true``, ``target``, ``y``; ``y_prob``, ``prob``,
    ``p``) are used if there is exactly one of each, with a warning that names them.

    Parameters
    ----------
    url : str or path
        A local path or any URL that fsspec knows.
    label : str or sequence of str, optional
        Name of the array, variable or column of labels; for one-hot or multilabel columns as for ``score``.
    score : str or sequence of str, optional
        Name of the scores: the column of P(y = 1), or of lists of K scores; or the first part of columns ``<score>_0``,
        ``<score>_1``, ...; or a column for each class, in their order, named after the classes; or a pattern such as
        ``"prob_*"``, whose ``*`` matches the class names.
    by : sequence of str
        Names of further arrays or columns with one value for each row, to slice by.
    weight : str, optional
        Name of the array or column of sample weights.
    chunk_rows : int, optional
        Approximate number of rows per block, for ``.zarr``, ``.nc`` and ``.parquet``. None: as stored, with small
        blocks combined.
    skip_missing : bool, default False
        Analyses of the table leave out rows without a label, a score or a weight; its arrays have all rows.
    missing_chunks : {"error", "fill"}, default "error"
        How to treat chunks that are missing in a Zarr store. Zarr leaves out chunks that hold nothing but the fill
        value, unless ``write_empty_chunks`` is set, so they cannot be distinguished from lost chunks.
    groups : str, optional
        Name of the array or column with the cluster of each row, such as a patient.
    text : sequence of str
        Columns to keep as text, such as codes that are numbers in some files or rows and texts in others.

    Returns
    -------
    Table

    Raises
    ------
    ValueError
        If there is no such file, the format is unknown or the file damaged, a name is missing, columns are not
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
    store = open_store(os.fspath(url))
    if not isinstance(store, StoredRows):
        raise ValueError(f"{url} is {store.kind}, which holds no scored rows; {store.mend}.")
    return store.read(
        label=label,
        score=score,
        by=by,
        weight=weight,
        chunk_rows=chunk_rows,
        skip_missing=skip_missing,
        missing_chunks=missing_chunks,
        groups=groups,
        text=text,
    )


def _open_zarr(location: Location) -> Store:
    from calibdask.storage.checked_store import AnyChunks
    from calibdask.storage.period_head import check_mark
    from calibdask.storage.summary import Summary
    from calibdask.storage.summary_format import MARK
    from calibdask.storage.zarr_files import open_group, zarr_reader

    node = open_group(location)

    def dataset(store: Any, **chunks: Any) -> "xr.Dataset":
        import xarray as xr

        with location.reading("a Zarr group of variables on named axes"), location.warning(), texts_settled():
            return xr.open_zarr(store, group=node.path or None, consolidated=False, **chunks)

    if CUBE_MARK in node.attrs:
        return _cube(location, node)
    if PERIODS in node.attrs:
        from calibdask.storage.period_store import PeriodStore

        return PeriodStore(location).summary(node)
    if not node.store.arrays:
        _check_members(location)
        check_mark(location)
    # What xarray wrote by itself has no manifest, and no chunks that hold nothing but the fill value.
    store = node.store if node.store.arrays else node.store.with_chunks(AnyChunks())
    with location.reading("a Zarr group"), location.warning():
        is_marked = MARK in node
    if is_marked:
        # In chunks of the store: slices are added up without ever being in memory together.
        return Summary.of(dataset(store), location.url)
    if _RESULT_MARK in node.attrs:
        return StoredResult(location.url, dataset(store, chunks=None))
    arrays = ArrayFile(location, zarr_reader(node))
    # Numbers of others that are no rows may well leave out chunks.
    labelled = partial(dataset, node.store.unchecked, chunks=None)
    return StoredRows(location, arrays.read, arrays.parts, labelled=labelled)


def _open_netcdf(location: Location) -> Store:
    from calibdask.storage.summary import Summary, is_summary

    dataset = open_netcdf(location)
    if is_summary(dataset):
        return Summary.of(dataset.chunk("auto"), location.url)
    if _RESULT_MARK in dataset.attrs:
        return StoredResult(location.url, dataset)
    arrays = ArrayFile(location, netcdf_reader(dataset))
    return StoredRows(location, arrays.read, arrays.parts, labelled=lambda: dataset)


def read_fingerprint(url: str, text: str) -> dict[str, Any]:
    """The fingerprint that a cube keeps as JSON, without credentials that earlier versions have left in it.

    Raises
    ------
    ValueError
        If it is none.
    """
    try:
        known: Any = data_without_credentials(json.loads(text))
    except (ValueError, RecursionError) as error:
        raise read_error(url, error, "the cube of a study") from error
    if not isinstance(known, dict) or "study" not in known:
        raise ValueError(f"{url} expects the fingerprint of a study in its attributes, got other data; it is damaged.")
    fields: dict[str, Any] = known
    return fields


def _cube(location: Location, node: Any) -> StoredCube:
    from calibdask.storage.cube_layout import cube_dataset

    url, fingerprint = location.url, node.attrs[CUBE_MARK]
    if fingerprint == CUBE_BEGUN:
        raise ValueError(
            f"{url} is an incomplete cube, whose creation was interrupted; run its study again with overwrite=True "
            "(--overwrite)."
        )
    known = read_fingerprint(url, str(fingerprint))
    with location.reading("a cube"), texts_settled():
        dataset = cube_dataset(location, node, known)
    # Texts of any length are a type of NumPy that not all of xarray knows yet.
    texts = {
        name: (axis.dims, np.array(axis.values.tolist()))
        for name, axis in dataset.coords.items()
        if axis.dtype.kind in "TO"
    }
    about = {"study": known["study"], **({VIEWS: node.attrs[VIEWS]} if VIEWS in node.attrs else {})}
    return StoredCube(url, dataset.assign_coords(texts).assign_attrs(about), known)


def _check_members(location: Location) -> None:
    """Raise Damaged if a group without a manifest has an array of a store with one."""
    with location.reading(), suppress(FileNotFoundError, NotImplementedError):
        for path in sorted(map(str, location.fs.ls(location.path, detail=False))):
            metadata = location.child(f"{path.rstrip('/').rpartition('/')[2]}/zarr.json")
            with suppress(OSError):
                if IDENTITY.encode() in metadata.content():
                    raise Damaged(
                        f"{location.url} is damaged: its manifest is missing; copy the store again, or compute it "
                        "again."
                    )
                # All arrays are of one store.
                return
