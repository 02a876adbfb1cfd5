"""Location of data: a local path or URL with its file system, and readable errors."""

import os
import platform
import re
import stat
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePosixPath
from typing import Any, Literal

import fsspec
from fsspec.implementations.local import LocalFileSystem

from calibdask.errors import Damaged, Unavailable
from calibdask.safe_text import HIDDEN, message, visible_address
from calibdask.storage.retry import is_outage, with_retries

# Advice about paths that a worker does not see.
SHARED_PATHS = (
    "Workers read data themselves: give a path in a folder that all machines share, or the URL of an object store such "
    "as s3://."
)
# Whether chunks that are not in a Zarr store are an error, or hold the fill value.
MissingChunks = Literal["error", "fill"]
# What to install where a package for a protocol is missing.
_INSTALL = {
    "s3": "pip install s3fs",
    "s3a": "pip install s3fs",
    "http": "pip install aiohttp",
    "https": "pip install aiohttp",
}
# Their file system takes a query for a part of the path.
WEB = ("http://", "https://")
# What addresses are made of; shorter words in the place of a credential are found by chance elsewhere.
_WORDS = re.compile(r"[:/@?&=;#,]+")
_SHORTEST_SECRET = 4
# An error of a library is quoted up to this length.
# How files of a format begin, whatever their name; what to call the format, and how such names end.
_STARTS: dict[bytes, tuple[str, tuple[str, ...]]] = {
    b"\x1f\x8b": ("gzip", (".gz",)),
    b"BZh": ("bzip2", (".bz2",)),
    b"\xfd7zXZ": ("xz", (".xz",)),
    b"\x28\xb5\x2f\xfd": ("Zstandard", (".zst",)),
    b"PK\x03\x04": ("a ZIP archive", (".zip", ".npz", ".zarr")),
    b"PAR1": ("Parquet", (".parquet", ".parq", ".pq")),
    b"ARROW1": ("Arrow", (".arrow", ".feather", ".ipc")),
    b"\x89HDF": ("netCDF or HDF5", (".nc", ".nc4", ".netcdf", ".cdf")),
    b"\x93NUMPY": ("an array of NumPy", (".npy",)),
    b"\xff\xfe": ("UTF-16", ()),
    b"\xfe\xff": ("UTF-16", ()),
}
_BINARY = (".parquet", ".parq", ".pq", ".arrow", ".feather", ".ipc", ".npz", ".npy")
_TO_UTF8 = "iconv -f UTF-16 -t UTF-8 converts it"
_LONGEST_START = 64
_LONGEST_QUOTE = 300


def is_endless(path: str | os.PathLike[str]) -> bool:
    """Whether this is there and neither a file nor a folder: reading a pipe, a socket or a device may never end.

    Examples
    --------
    >>> is_endless(os.devnull), is_endless("not-there")
    (True, False)
    """
    try:
        # Asked once: a file may be put there at any moment.
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


@dataclass(frozen=True)
class Location:
    """An address as it was given, its file system and the path there."""

    address: str
    fs: Any
    path: str

    def __str__(self) -> str:
        return self.url

    @property
    def url(self) -> str:
        """The address as messages show it: without credentials, and with signs that do not show written out."""
        return visible_address(self.address)

    @property
    def suffix(self) -> str:
        """The last suffix of the name, such as ``.zarr``."""
        return PurePosixPath(self.named).suffix

    @property
    def named(self) -> str:
        """The path that names the file: of addresses of the web without a query, which may sign it, and a fragment."""
        return re.split("[?#]", self.path, maxsplit=1)[0] if self.path.startswith(WEB) else self.path

    @property
    def local(self) -> bool:
        """Whether this is a path of this machine."""
        return isinstance(self.fs, LocalFileSystem)

    @cached_property
    def exists(self) -> bool:
        """Whether there is a file or a folder."""
        with self.reading():
            return bool(self.fs.exists(self.path))

    def check_file(self) -> None:
        """Raise ValueError if the file, or one in the folder, may never end, such as a pipe."""
        if not self.local:
            return
        if os.path.isdir(self.path):
            with os.scandir(self.path) as entries:
                unusual = [entry.name for entry in entries if not (entry.is_file() or entry.is_dir())]
            endless = [name for name in unusual if is_endless(os.path.join(self.path, name))]
        else:
            endless = [""] if is_endless(self.path) else []
        for name in endless[:1]:
            place = self.child(name) if name else self
            raise ValueError(f"{place.url} is a pipe, a socket or a device; copy its contents to a file first.")

    @cached_property
    def is_zarr(self) -> bool:
        """Whether this is a folder of a Zarr store."""
        with self.reading():
            return any(self.fs.exists(f"{self.path}/{name}") for name in ("zarr.json", ".zgroup", ".zarray"))

    @cached_property
    def is_folder(self) -> bool:
        """Whether this is a folder."""
        with self.reading():
            return bool(self.fs.isdir(self.path))

    def has(self, name: str) -> bool:
        """Whether there is a file or folder of this name in the folder."""
        with self.reading():
            return bool(self.fs.exists(f"{self.path.rstrip('/')}/{name}"))

    def holds(self, suffix: str) -> bool:
        """Whether this is a folder with files of this suffix in it."""
        with self.reading():
            return bool(self.fs.isdir(self.path)) and any(name.endswith(suffix) for name in self.fs.find(self.path))

    def child(self, name: str) -> "Location":
        """Location of a file or folder inside this folder."""
        return Location(f"{self.address.rstrip('/')}/{name}", self.fs, f"{self.path.rstrip('/')}/{name}")

    def open(self) -> Any:
        """The file, opened for reading bytes."""
        return self.fs.open(self.path, "rb")

    def content(self) -> bytes:
        """The content of a small file, such as one of metadata, now.

        Raises
        ------
        ValueError
            If it is a pipe or a device, which may never end.
        OSError
            If it cannot be read.
        """
        self.check_file()
        return bytes(with_retries(lambda: self.fs.cat_file(self.path)))

    @contextmanager
    def reading(self, what: str = "") -> Iterator[None]:
        """Turn whatever a library raises into one clear error: damaged files make them raise anything."""
        try:
            yield
        except (Damaged, Unavailable):
            raise
        except Exception as error:
            if not self.local and is_outage(error):
                raise Unavailable(
                    f"The store does not respond: {self.url} cannot be read ({self.quoted(error)})."
                ) from error
            raise read_error(self, error, what) from error

    @contextmanager
    def warning(self) -> Iterator[None]:
        """Warnings of a library without the credentials of the address, as errors are (`quoted`)."""
        with warnings.catch_warnings(record=True) as given:
            yield
        for one in given:
            warnings.warn(self.quoted(one.message), one.category, stacklevel=3)

    def quoted(self, error: Warning | BaseException | str) -> str:
        """Text of a library's error; it may name a part of the path, but hides the rest of the address."""
        text = message(error)
        hidden = {*_WORDS.split(self.address)} - {*_WORDS.split(self.url)}
        for word in sorted(hidden, key=len, reverse=True):
            text = text.replace(word, HIDDEN) if len(word) >= _SHORTEST_SECRET else text
        return text

    @classmethod
    def parse(cls, url: str) -> "Location":
        """The location that a URL names, with its file system.

        Raises
        ------
        ValueError
            If no installed package speaks that protocol.
        """
        try:
            fs, path = fsspec.core.url_to_fs(url)
        except ImportError as error:
            protocol = url.rpartition("::")[2].partition("://")[0]
            if protocol not in _INSTALL:
                raise read_error(url, error) from error
            raise ValueError(
                f"{visible_address(url)} requires a package that is not installed; install it: {_INSTALL[protocol]}"
            ) from error
        except (ValueError, OSError) as error:
            raise read_error(url, error) from error
        return cls(url, fs, path)


def absent_on_worker(place: Location | str) -> str:
    """That a worker of a cluster lacks a path which the command sees; "" if it does not, or this process is no worker.

    Workers read data themselves, and a path of the machine where a command runs may not exist on theirs.
    """
    worker = _worker()
    path = place.path if isinstance(place, Location) else place
    is_local = place.local if isinstance(place, Location) else "://" not in place
    if worker is None or not is_local or os.path.exists(path):
        return ""
    return (
        f"{visible_address(str(place))} does not exist on the worker {worker.name} ({platform.node()}). {SHARED_PATHS}"
    )


def _worker() -> Any:
    """The worker of Dask whose task this thread runs; None elsewhere."""
    module = sys.modules.get("distributed.worker")
    try:
        return None if module is None else module.get_worker()
    except ValueError:
        return None


def read_error(place: Location | str, error: BaseException, what: str = "") -> ValueError:
    """One sentence from whatever a library had to say about a location, or an address."""
    if absent := absent_on_worker(place):
        return ValueError(absent)
    quoted = (place.quoted(error) if isinstance(place, Location) else message(error)) or type(error).__name__
    if len(quoted) > _LONGEST_QUOTE:
        quoted = quoted[:_LONGEST_QUOTE].rstrip() + " ..."
    hint = _other_content(place) if what and isinstance(place, Location) else ""
    quoted += "." if hint and not quoted.endswith(".") else ""
    return ValueError(f"{visible_address(str(place))} cannot be read{f' as {what}' if what else ''}: {quoted}{hint}")


def _other_content(place: Location) -> str:
    """A sentence for a file whose name ends as another format does than the one it begins like."""
    try:
        with place.open() as file:
            start = bytes(file.read(_LONGEST_START))
    except Exception:
        return ""
    found = next((known for known in _STARTS.items() if start.startswith(known[0])), None)
    name = place.named.lower()
    if found is None:
        is_binary = name.endswith(_BINARY) and start.isascii() and b"\0" not in start and start
        return " It begins like a text, such as CSV: rename it." if is_binary else ""
    title, suffixes = found[1]
    if name.endswith(suffixes):
        return ""
    return f" It begins like {title}: {f'its name should end in {suffixes[0]}' if suffixes else _TO_UTF8}."
