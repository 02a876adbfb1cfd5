"""Standard input in the place of a file: kept in a file of this machine, since rows are read more than once."""

import atexit
import os
import shutil
import sys
import tempfile
from functools import lru_cache
from typing import Any

from fsspec.implementations.local import LocalFileSystem

from calibdask.storage.location import Location

# How people name standard input, and how messages do.
STANDARD_INPUT, _SHOWN = "-", "standard input"
_BEGINNING = 1 << 12
# How files of a format begin, compressed ones among them.
_BEGINNINGS = {
    b"PAR1": ".parquet",
    b"ARROW1": ".arrow",
    b"\xff\xff\xff\xff": ".arrow",
}
_COMPRESSED = {b"\x1f\x8b": ".gz", b"BZh": ".bz2", b"\xfd7zXZ": ".xz", b"\x28\xb5\x2f\xfd": ".zst"}


def standard_input() -> Location:
    """Standard input as a file with the suffix of its format: Parquet, Arrow, JSON Lines or CSV.

    Raises
    ------
    ValueError
        If nothing is piped in, or what comes is compressed.
    """
    return _spooled(sys.stdin.buffer)


@lru_cache(1)
def _spooled(stream: Any) -> Location:
    """File with the content of a stream; reused if the stream is read again."""
    if stream.isatty():
        raise ValueError("'-' means standard input, but nothing is piped into it; pipe rows, or name a file.")
    beginning = stream.read(_BEGINNING)
    suffix = _suffix_of(beginning)
    number, path = tempfile.mkstemp(suffix, "calibdask-")
    atexit.register(_remove, path)
    with os.fdopen(number, "wb") as file:
        file.write(beginning)
        shutil.copyfileobj(stream, file, 1 << 20)
    return Location(_SHOWN, LocalFileSystem(), path)


def _suffix_of(beginning: bytes) -> str:
    if not beginning.strip():
        raise ValueError(f"{_SHOWN} is empty; it expects rows as CSV, JSON Lines, Parquet or Arrow.")
    compressed = next((suffix for sign, suffix in _COMPRESSED.items() if beginning.startswith(sign)), None)
    if compressed is not None:
        raise ValueError(
            f"{_SHOWN} is compressed ({compressed}); decompress it in the pipe: zcat, bzcat, xzcat or zstdcat."
        )
    known = next((suffix for sign, suffix in _BEGINNINGS.items() if beginning.startswith(sign)), None)
    if known is not None:
        return known
    return ".jsonl" if beginning.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"{") else ".csv"


def _remove(path: str) -> None:
    if os.path.exists(path):
        os.remove(path)
