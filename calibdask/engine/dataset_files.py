"""Datasets of xarray in files: numbers on named axes, such as results."""

import xarray as xr

from calibdask.engine.location import Location, located
from calibdask.engine.writers import texts_settled

__all__ = ["open_dataset"]

_NETCDF = {".nc", ".nc4", ".netcdf", ".cdf"}


def open_dataset(url: str) -> xr.Dataset:
    """The dataset in a Zarr group or a netCDF file, its numbers read when they are needed.

    Raises
    ------
    ValueError
        If there is no such file, it is neither, or damaged.
    """
    location = located(url)
    if not location.exists:
        raise ValueError(f"{url} does not exist.")
    if location.is_zarr:
        with location.reading("a Zarr group"), texts_settled():
            return xr.open_zarr(_place(location), consolidated=False, chunks=None)
    if location.suffix.lower() in _NETCDF:
        with location.reading("netCDF"):
            return xr.open_dataset(location.path if location.local else location.open(), chunks=None, cache=False)
    raise ValueError(f"{url} is neither a Zarr group nor a netCDF file.")


def _place(location: Location) -> str:
    return location.path if location.local else location.url
