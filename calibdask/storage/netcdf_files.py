"""netCDF: variables on named dimensions."""

from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from calibdask.extras import check_extra
from calibdask.storage.array_files import ArrayReader, Arrays
from calibdask.storage.checked_file import check_file
from calibdask.storage.location import Location
from calibdask.storage.row_table import ColumnChoice

if TYPE_CHECKING:
    import xarray as xr

# How files of HDF5 begin.
_HDF5 = b"\x89HDF\r\n\x1a\n"
# Files that a process that works for others keeps open.
_OPEN_FILES = 8


def open_netcdf(location: Location) -> "xr.Dataset":
    """The dataset in a netCDF file, its numbers read when they are needed.

    Raises
    ------
    ValueError
        If it cannot be read.
    """
    import xarray as xr

    check_extra("netcdf")
    with location.reading("netCDF"):
        _check_links(location)
        with location.open() as file:
            check_file(location.url, file)
        return xr.open_dataset(location.path if location.local else location.open(), chunks=None, cache=False)


def _check_links(location: Location) -> None:
    """Raise ValueError if an HDF5 file links to other files, as its author could then choose the files to read."""
    import h5py

    with location.open() as stream:
        if stream.read(len(_HDF5)) != _HDF5:
            return
        stream.seek(0)
        outside: list[str] = []
        with h5py.File(stream, "r") as file:

            def note(name: str, link: Any) -> None:
                array = file.get(name) if isinstance(link, h5py.HardLink) else None
                if isinstance(link, h5py.ExternalLink) or (isinstance(array, h5py.Dataset) and _is_elsewhere(array)):
                    outside.append(name)

            file.visititems_links(note)
    if outside:
        raise ValueError(f"{outside[0]!r} is a link to another file; copy its numbers into this one.")


def _is_elsewhere(array: Any) -> bool:
    """Whether numbers of an array of HDF5 are in other files."""
    virtual = array.is_virtual and any(part.file_name != "." for part in array.virtual_sources())
    return virtual or bool(array.external)


class NetcdfVariable:
    """A variable that is read when it is sliced; elsewhere its file is opened there, when that is needed."""

    def __init__(
        self, location: Location, name: str, shape: tuple[int, ...], dtype: Any, dims: tuple[str, ...], live: Any = None
    ) -> None:
        self.location, self.name, self.shape, self.dtype, self.dims = location, name, shape, dtype, dims
        self.ndim, self._live = len(shape), live

    def __reduce__(self) -> tuple[Any, ...]:
        return NetcdfVariable, (self.location, self.name, self.shape, self.dtype, self.dims)

    def __getitem__(self, key: Any) -> np.ndarray:
        with self.location.reading(f"netCDF, variable {self.name!r}"):
            live = _kept(self.location).variables[self.name] if self._live is None else self._live
            return np.asarray(live.transpose(*self.dims)[key].values)

    def in_order(self, dims: tuple[str, ...]) -> "NetcdfVariable":
        """The variable with its dimensions in another order."""
        sizes = dict(zip(self.dims, self.shape, strict=True))
        shape = tuple(sizes[dim] for dim in dims)
        return NetcdfVariable(self.location, self.name, shape, self.dtype, dims, self._live)

    def along(self, dim: str) -> "NetcdfVariable":
        """The variable with this dimension first."""
        return self.in_order((dim, *(other for other in self.dims if other != dim)))

    @property
    def unit(self) -> tuple[int, ...] | None:
        """Its chunks; None without: any part of it can be read alone."""
        chunks = self._live.encoding.get("chunksizes")
        sizes = dict(zip(self._live.dims, chunks or (), strict=False))
        return tuple(sizes[dim] for dim in self.dims) if chunks else None


@lru_cache(_OPEN_FILES)
def _kept(location: Location) -> "xr.Dataset":
    return open_netcdf(location)


def netcdf_reader(dataset: "xr.Dataset") -> ArrayReader:
    """How the variables of an open dataset are read."""
    return ArrayReader("netCDF", "variable", partial(_arrays, dataset))


def _arrays(dataset: "xr.Dataset", location: Location, choice: ColumnChoice) -> Arrays:
    def array(name: str, *, is_score: bool = False, is_used: bool = True) -> NetcdfVariable:
        variable = dataset.variables[name]
        dims = tuple(map(str, variable.dims))
        return NetcdfVariable(location, name, variable.shape, variable.dtype, dims, variable)

    def coordinates(name: str) -> dict[str, Any]:
        return {str(key): value for key, value in dataset[name].coords.items()}

    return Arrays(list(map(str, dataset.variables)), array, lambda name: location, coordinates)
