"""Arrays of Zarr that hold codes in place of values, by the conventions of CF: scores are decoded, others refused."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from calibdask.safe_text import listed
from calibdask.storage.location import Location

# Attributes of the CF conventions that say how values are made of codes.
_FILLS = ("_FillValue", "missing_value")
_ATTRIBUTES = ("scale_factor", "add_offset", "_Unsigned", *_FILLS)


@dataclass(frozen=True)
class Packing:
    """How values are made of codes: value = code * scale + offset, and NaN where the code is one of ``fills``.

    Parameters
    ----------
    scale, offset : float
    fills : tuple of int
        Codes of missing values.

    Examples
    --------
    >>> Packing(scale=1 / 255).decoded(np.array([0, 51, 255], np.uint8)).tolist()
    [0.0, 0.2, 1.0]
    """

    scale: float = 1.0
    offset: float = 0.0
    fills: tuple[int, ...] = ()

    def decoded(self, codes: np.ndarray) -> np.ndarray:
        """Decoded values as float64, equal to xarray's to the last bit."""
        values = codes.astype(np.float64)
        values *= self.scale
        values += self.offset
        for fill in self.fills:
            values[codes == fill] = np.nan
        return values


def packing_of_scores(location: Location, name: str, array: Any) -> Packing | None:
    """How scores are made of whole numbers, None where they are stored as they are.

    Raises
    ------
    ValueError
        If the attributes are none of whole numbers with a scale or an offset.
    """
    given = _packing(array)
    numbers = (float, int)
    whole = array.dtype.kind in "iu" and "_Unsigned" not in given
    if whole and given.keys() & {"scale_factor", "add_offset"} and all(type(one) in numbers for one in given.values()):
        fills = [given[key] for key in _FILLS if key in given]
        # The second format of Zarr has no other place for the code of what is missing, and xarray reads it as that.
        if array.metadata.zarr_format == 2 and array.fill_value is not None:
            fills.append(int(array.fill_value))
        return Packing(float(given.get("scale_factor", 1)), float(given.get("add_offset", 0)), tuple(fills))
    check_unpacked(location, name, array)
    return None


def check_unpacked(location: Location, name: str, array: Any) -> None:
    """Raise ValueError if an array of Zarr holds codes, which its attributes say how to turn into values."""
    packing = _packing(array)
    if packing:
        shown = listed(f"{key}={value}" for key, value in packing.items())
        raise ValueError(
            f"{location.url}: array {name!r} expects values as they are, got packed ones ({shown}); decode them and "
            "store them again by xarray (open_zarr(...).load().drop_encoding().to_zarr(...)), or as netCDF."
        )


def _packing(array: Any) -> Mapping[str, Any]:
    """Packing attributes of an array, except NaN as fill value."""
    packing = {key: array.attrs[key] for key in _ATTRIBUTES if key in array.attrs}
    for key in _FILLS:
        if key in packing and array.dtype.kind == "f" and _is_nan(packing[key], array.dtype):
            del packing[key]
    return packing


def _is_nan(fill: Any, dtype: Any) -> bool:
    """Whether the fill value is NaN; xarray stores it as Base64."""
    from xarray.backends.zarr import FillValueCoder

    value = FillValueCoder.decode(fill, dtype) if isinstance(fill, str) and fill != "NaN" else fill
    return bool(np.isnan(float(value)))
