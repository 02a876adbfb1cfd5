"""NumPy archives and bare arrays; several arrays are concatenated by rows."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from math import prod
from pathlib import PurePosixPath
from typing import Any

import numpy as np

from calibdask.storage.array_files import ArrayFile, ArrayReader, Arrays
from calibdask.storage.arrow_parts import ArrowParts
from calibdask.storage.columns import ColumnNames
from calibdask.storage.file_version import check_version, version_of
from calibdask.storage.location import Location, read_error
from calibdask.storage.retry import with_retries
from calibdask.storage.row_table import ColumnChoice, RowTable
from calibdask.storage.sizes import TARGET_BYTES

# How an archive begins, and a bare array.
_ZIP, _NPY = b"PK", b"\x93NUMPY"


def _archived(location: Location, choice: ColumnChoice) -> Arrays:
    """The arrays of an archive, in memory; others in the archive are not read."""
    version = version_of(location)
    with location.reading("a NumPy archive"), location.open() as file, open_archive(file) as archive:
        names = list(archive.files)

    def array(name: str, *, is_score: bool = False, is_used: bool = True) -> np.ndarray:
        with location.reading("a NumPy archive"), location.open() as file, open_archive(file) as archive:
            values: np.ndarray = archive[name]
        check_version(location, version)
        return values

    return Arrays(names, array, lambda name: location)


def open_archive(file: Any) -> Any:
    """The archive of NumPy in an open file."""
    start = file.read(len(_NPY))
    file.seek(0)
    if not start.startswith((_ZIP, _NPY)):
        raise ValueError("it is not a readable .npz archive.")
    archive = np.load(file, allow_pickle=False)
    if not isinstance(archive, np.lib.npyio.NpzFile):
        raise ValueError(
            "it holds one bare array; save labels and scores together by numpy.savez, or name both files: --label "
            "y.npy --score p.npy (label=, score=)."
        )
    return archive


NPZ = ArrayReader("a NumPy archive", "array", _archived)


@dataclass(frozen=True)
class NpyArray:
    """A bare NumPy array in a file; only requested rows are read.

    Attributes
    ----------
    location : Location
    shape : tuple of int
    dtype : numpy.dtype
    start : int
        Where its values begin.
    by_column : bool
        Whether values of a column are next to one another, as in Fortran.
    """

    location: Location
    shape: tuple[int, ...]
    dtype: Any
    start: int
    by_column: bool

    unit = None

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    def __getitem__(self, key: Any) -> np.ndarray:
        rows, *others = key if isinstance(key, tuple) else (key,)
        try:
            return np.asarray(with_retries(partial(self._rows, rows))[(slice(None), *others)])
        except Exception as error:
            raise read_error(self.location, error, "a NumPy array") from error

    def _rows(self, rows: slice) -> np.ndarray:
        with self.location.open() as file:
            if self.by_column:
                whole: np.ndarray = np.load(file, allow_pickle=False)
                return whole[rows]
            first, last, _ = rows.indices(self.shape[0])
            row = prod(self.shape[1:])
            file.seek(self.start + first * row * self.dtype.itemsize)
            content = file.read((last - first) * row * self.dtype.itemsize)
        return np.frombuffer(content, self.dtype).reshape(last - first, *self.shape[1:])


def _bare(location: Location, choice: ColumnChoice) -> Arrays:
    """The array in a file, and the arrays in the files of the choice, for shared rows."""

    def file(name: str) -> Location:
        return location if name == location.address else Location.parse(name)

    def array(name: str, *, is_score: bool = False, is_used: bool = True) -> Any:
        stored = npy_array(file(name))
        is_small = prod(stored.shape) * stored.dtype.itemsize <= TARGET_BYTES
        return stored[(slice(None),) * stored.ndim] if is_small and stored.ndim else stored

    named = [name for name in (choice.label, choice.score, *choice.further) if isinstance(name, str)]
    return Arrays(list(dict.fromkeys([location.address, *filter(is_bare, named)])), array, file)


def is_bare(name: str) -> bool:
    """Whether a name is that of a file of one bare array."""
    return PurePosixPath(name).suffix.lower() == ".npy"


_NPY_ARRAYS = ArrayReader("NumPy arrays", "array", _bare)


@dataclass(frozen=True)
class BareArrays:
    """Bare arrays that are rows together, each in a file of its own, whose path is the name of the array.

    Attributes
    ----------
    location : Location
        The scores, unless a choice names others.
    """

    location: Location

    def read(self, choice: ColumnChoice) -> RowTable:
        """The arrays that are chosen.

        Raises
        ------
        ValueError
            If no file of labels is named, or as `ArrayFile.read`.
        """
        if choice.label is None:
            raise ValueError(
                f"{self.location.url} is one bare array; with the scores in it, name the file of labels: --label y.npy "
                "(label=); or save both together by numpy.savez."
            )
        return self._file.read(self._with_scores(choice))

    def parts(self, choice: ColumnChoice) -> ArrowParts:
        """The arrays of scores and labels, by these names, and those that are named besides.

        Raises
        ------
        ValueError
            As `ArrayFile.parts`.
        """
        parts = self._file.parts(self._with_scores(choice))
        roles = {**dict.fromkeys(parts.names.labels, "labels"), **dict.fromkeys(parts.names.scores, "scores")}
        names = [roles.get(name, name) for name in parts.schema.names]
        columns = ColumnNames(("labels",) if parts.names.labels else (), ("scores",))
        schema = parts.load(parts.parts[0]).slice(0, 0).rename_columns(names).schema
        return replace(parts, schema=schema, names=columns, load=partial(_renamed, parts.load, names))

    @property
    def _file(self) -> ArrayFile:
        return ArrayFile(self.location, _NPY_ARRAYS)

    def _with_scores(self, choice: ColumnChoice) -> ColumnChoice:
        return replace(choice, score=self.location.address) if choice.score is None else choice


def _renamed(load: Callable[[Any], Any], names: list[str], part: Any) -> Any:
    return load(part).rename_columns(names)


def npy_array(location: Location) -> NpyArray:
    """The array in a file.

    Raises
    ------
    ValueError
        If it is none, or holds Python objects.
    """
    with location.reading("a NumPy array"):
        location.check_file()
        with location.open() as file:
            version = np.lib.format.read_magic(file)
            read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
            if version not in read:
                raise ValueError(
                    f"its format is {version}, but only 1.0 and 2.0 are supported; save it again by numpy.save."
                )
            shape, by_column, dtype = read[version](file)
            if dtype.hasobject:
                raise ValueError(
                    "it holds Python objects; save it again as numbers, numpy.save(path, array.astype(float)), or as "
                    "texts, numpy.save(path, array.astype(str))."
                )
            return NpyArray(location, shape, dtype, file.tell(), by_column and len(shape) > 1)
