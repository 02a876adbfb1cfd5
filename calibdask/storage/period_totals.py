"""Totals over slices for each period, in a small file, so that analyses of all rows skip the slices.

A thousand days of 300 slices are a thousand such files instead of a hundred gigabytes of histograms, zeros for the most
part. Only whole numbers are summed so, which come to the same in any order.
"""

import io
import struct
import zipfile
import zlib
from collections.abc import Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from calibdask.errors import Unavailable
from calibdask.storage.location import Location, is_endless
from calibdask.storage.manifest import content_hash
from calibdask.storage.period_log import Period
from calibdask.storage.retry import with_retries
from calibdask.storage.summary_totals import TOTALS

# Small files of an object store are read side by side, and so many periods at a time.
_AT_ONCE, _PERIODS = 16, 128
_OWN = ("rows", *TOTALS)
# The signature of a member of an archive, its method, and the lengths of its name and of what follows it.
_HEADER = struct.Struct("<4s4xH16xHH")


def summed(summary: xr.Dataset, slices: Sequence[Hashable]) -> tuple[bytes, dict[str, str]] | None:
    """The content of such a file, and the hashes of its variables.

    None where sums depend on their order, or there are no slices.
    """
    sums = {str(name): variable for name, variable in summary.data_vars.items() if name not in _OWN}
    if not slices or any(variable.dtype.kind != "i" for variable in sums.values()):
        return None
    content, hashes = io.BytesIO(), {}
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, variable in sums.items():
            values = variable.sum(slices).values.astype("<i8").tobytes()
            archive.writestr(name, values)
            hashes[name] = content_hash(values)
    return content.getvalue(), hashes


@dataclass(frozen=True, eq=False)
class PeriodSumsArray:
    """A variable on all periods, summed over the slices, sliced like an array.

    Parameters
    ----------
    location : Location
        Of the store.
    name : str
        Of the variable.
    periods : tuple of Period
    models : tuple of int
        Sizes of dimensions before that of the periods.
    own : tuple of int
        Sizes of dimensions after it.
    members : Members
        Of all variables together.
    """

    location: Location
    name: str
    periods: tuple[Period, ...]
    models: tuple[int, ...]
    value_shape: tuple[int, ...]
    members: "ArchiveMembers"
    dtype = np.dtype(np.int64)

    @property
    def shape(self) -> tuple[int, ...]:
        """Models, periods, own dimensions."""
        return (*self.models, len(self.periods), *self.value_shape)

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    def lazy(self) -> Any:
        """The array of Dask."""
        import dask.array as da

        chunks = (*self.models, min(_PERIODS, len(self.periods)), *self.value_shape)
        meta = np.empty((0,) * self.ndim, self.dtype)
        return da.from_array(self, chunks, name=False, fancy=False, meta=meta)

    def __getitem__(self, key: tuple[slice, ...]) -> npt.NDArray[np.int64]:
        periods = self.periods[key[len(self.models)]]
        if self.location.local:
            read = [*map(self._of_period, periods)]
        else:
            with ThreadPoolExecutor(_AT_ONCE) as pool:
                read = [*pool.map(self._of_period, periods)]
        axis = len(self.models)
        values = np.stack(read, axis) if read else np.empty((*self.models, 0, *self.value_shape), np.int64)
        return values[(*key[:axis], slice(None), *key[axis + 1 :])]

    def _of_period(self, period: Period) -> npt.NDArray[np.int64]:
        place = self.location.child(period.totals)
        try:
            if place.local:
                content = self.members.read(place.path, self.name)
            else:
                file = io.BytesIO(with_retries(partial(place.fs.cat_file, place.path)))
                with zipfile.ZipFile(file) as archive:
                    content = archive.read(self.name)
            if period.totals_hashes and content_hash(content) != period.totals_hashes[self.name]:
                raise zipfile.BadZipFile(f"{self.name} belongs to another period.")
            return np.frombuffer(content, "<i8").reshape((*self.models, *self.value_shape))
        except (Unavailable, PermissionError):
            raise
        except Exception as error:
            # Each byte of a file that has changed raises another one.
            raise period.damaged(
                f"{self.location.url} is damaged: {period.totals} is not there, or not what was written"
            ) from error


class ArchiveMembers:
    """Where the members of archives on this machine are: looked up once, as listing takes as long as reading one.

    Archives are never changed once they are written, and are checked as they are read.
    """

    def __init__(self) -> None:
        self._known: dict[str, dict[str, zipfile.ZipInfo]] = {}

    def read(self, path: str, name: str) -> bytes:
        """Content of an archive member; raises one of many exceptions if it is corrupted."""
        if is_endless(path):
            raise zipfile.BadZipFile(f"{path} is not a file.")
        with open(path, "rb") as file:
            if path not in self._known:
                with zipfile.ZipFile(file) as archive:
                    self._known[path] = archive.NameToInfo
            info = self._known[path][name]
            file.seek(info.header_offset)
            header = file.read(_HEADER.size)
            signature, method, name_bytes, extra_bytes = _HEADER.unpack(header)
            own_name = file.read(name_bytes)
            file.seek(extra_bytes, io.SEEK_CUR)
            packed = file.read(info.compress_size)
        if (signature, method, own_name) != (b"PK\x03\x04", zipfile.ZIP_DEFLATED, name.encode()):
            raise zipfile.BadZipFile(f"The header of {name} is not what was written.")
        content = zlib.decompress(packed, -zlib.MAX_WBITS, info.file_size)
        if len(content) != info.file_size or zlib.crc32(content) != info.CRC:
            raise zipfile.BadZipFile(f"{name} is not what was written.")
        return content
