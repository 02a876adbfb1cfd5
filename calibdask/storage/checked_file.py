"""Files that end in a hash of what comes before it, checked when they are opened: netCDF, which has room behind."""

import hashlib
from pathlib import Path
from typing import Any

from calibdask.errors import Damaged

# HDF5 knows where its data end, and reads nothing behind.
_MARK = b"\ncalibdask hash:"
_HASH_BYTES = 16
_TRAILER = len(_MARK) + _HASH_BYTES
_BLOCK = 1 << 20


def seal_file(path: Path) -> None:
    """Write the hash behind the data."""
    with path.open("r+b") as file:
        size = file.seek(0, 2)
        found = _hash(file, size)
        file.seek(size)
        file.write(_MARK + found)


def check_file(url: str, file: Any) -> None:
    """Raise Damaged if a file with a hash is corrupted; files without a hash are not read.

    Examples
    --------
    >>> import io
    >>> check_file("of-others.nc", io.BytesIO(b"whatever"))
    """
    size = file.seek(0, 2)
    if size < _TRAILER:
        return
    file.seek(size - _TRAILER)
    trailer = file.read(_TRAILER)
    if trailer.startswith(_MARK) and _hash(file, size - _TRAILER) != trailer[len(_MARK) :]:
        raise Damaged(f"{url} is damaged: it is not what was written; copy the file again, or compute it again.")


def _hash(file: Any, size: int) -> bytes:
    """Hash of the first bytes of a file."""
    file.seek(0)
    found = hashlib.blake2b(digest_size=_HASH_BYTES)
    while size > 0 and (block := file.read(min(_BLOCK, size))):
        found.update(block)
        size -= len(block)
    return found.digest()
