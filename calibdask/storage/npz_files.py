"""NumPy archives and bare arrays; several arrays are concatenated by rows."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any

import numpy as np

from calibdask.storage.array_files import ArrayReader, Arrays
from calibdask.storage.file_version import check_version, version_of
from calibdask.storage.location import ColumnChoice, Location, read_error
from calibdask.storage.retry import with_retries
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


def npy_reader(files: Mapping[str, Location]) -> ArrayReader:
    """How bare arrays are read that are rows together, each in a file of its own, by the name of the array."""
    return ArrayReader("NumPy arrays", "array", partial(_bare, files))


def _bare(files: Mapping[str, Location], location: Location, choice: ColumnChoice) -> Arrays:
    def array(name: str, *, is_score: bool = False, is_used: bool = True) -> Any:
        stored = npy_array(files[name])
        is_small = prod(stored.shape) * stored.dtype.itemsize <= TARGET_BYTES
        return stored[(slice(None),) * stored.ndim] if is_small and stored.ndim else stored

    return Arrays(list(files), array, files.__getitem__)


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
                raise ValueError(f"its format is {version}, and 1.0 and 2.0 are read; save it again by numpy.save.")
            shape, by_column, dtype = read[version](file)
            if dtype.hasobject:
                raise ValueError("it holds Python objects; convert them to numbers or texts: array.astype(float).")
            return NpyArray(location, shape, dtype, file.tell(), by_column and len(shape) > 1)
