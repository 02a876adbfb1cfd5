"""Summaries in files: told from data by the coordinate that says their format, and opened."""

from typing import Any

import xarray as xr

from calibdask.engine import array_files
from calibdask.engine.location import Location, located
from calibdask.engine.readers import reader_of
from calibdask.engine.summaries import is_summary
from calibdask.engine.writers import texts_settled

__all__ = ["open_summary"]

# The coordinate that tells a summary, see `calibdask.engine.summaries`.
_MARK = "calibdask_summary"


def open_summary(url: str) -> xr.Dataset | None:
    """The summary in a Zarr group or a netCDF file, its numbers read when they are needed; None for anything else.

    Raises
    ------
    ValueError
        If there is no such file, the format is unknown or the file damaged.
    """
    location = located(url)
    reader = reader_of(location)
    if reader is array_files.read_netcdf:
        with location.reading("netCDF"):
            opened = xr.open_dataset(location.path if location.local else location.open(), chunks="auto")
    elif reader is array_files.read_zarr and _holds_summary(location):
        with location.reading("a summary"), texts_settled():
            opened = xr.open_zarr(location.path if location.local else location.url, consolidated=False)
    else:
        return None
    if is_summary(opened):
        return opened
    opened.close()
    return None


def _holds_summary(location: Location) -> bool:
    """Whether a Zarr group has the coordinate of summaries; other groups need not be datasets at all."""
    import zarr

    if not (location.exists or location.is_zarr):
        return False
    with location.reading("a Zarr group"):
        node: Any = zarr.open(location.path if location.local else location.url, mode="r")
        return isinstance(node, zarr.Group) and _MARK in node
