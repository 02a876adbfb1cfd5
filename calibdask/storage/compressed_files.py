"""Files of text that may be compressed, by their names."""

import bz2
import io
import lzma
from collections.abc import Callable
from pathlib import PurePosixPath
from typing import Any
from zipfile import ZipFile

from fsspec.compression import compr

from calibdask.safe_text import listed
from calibdask.storage.location import Location

COMPRESSIONS = {".gz": "gzip", ".bz2": "bz2", ".xz": "xz", ".zst": "zstd", ".zip": "zip"}
_DECOMPRESSORS: dict[str, Callable[[], Any]] = {"bzip2": bz2.BZ2Decompressor, "bz2": bz2.BZ2Decompressor}
_DECOMPRESSORS["xz"] = lzma.LZMADecompressor
_READ_BYTES = 1 << 18


class _Streams(io.RawIOBase):
    """Text of all compressed streams of a file, one after another, as parallel compressors write them.

    Python's own readers take whatever is no stream for garbage and end there, without an error: of a file with a
    damaged second stream they return the rows of the first.

    Parameters
    ----------
    file : file object
    new : function
        Returns a decompressor of one stream.
    """

    def __init__(self, file: Any, new: Callable[[], Any]) -> None:
        super().__init__()
        self._file, self._new, self._decompressor = file, new, new()

    def readable(self) -> bool:
        """Whether it can be read."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer with text; 0 at the end of the last stream."""
        while True:
            if self._decompressor.eof:
                rest = self._decompressor.unused_data.lstrip(b"\0") or self._after_padding()
                if not rest:
                    return 0
                self._decompressor = self._new()
            elif self._decompressor.needs_input:
                rest = self._file.read(_READ_BYTES)
                if not rest:
                    raise EOFError("Compressed file ended before the end-of-stream marker was reached")
            else:
                rest = b""
            text = self._decompressor.decompress(rest, len(buffer))
            if text:
                buffer[: len(text)] = text
                return len(text)

    def _after_padding(self) -> bytes:
        """What follows zeros, which may fill up the end of a file."""
        while more := self._file.read(_READ_BYTES):
            if rest := more.lstrip(b"\0"):
                return bytes(rest)
        return b""

    def close(self) -> None:
        """Close the file."""
        if not self.closed:
            self._file.close()
        super().close()


def compression_of(file: Location) -> str | None:
    """How a file is compressed, by its name."""
    return COMPRESSIONS.get(PurePosixPath(file.named).suffix.lower())


def opened(file: Location) -> Any:
    """The text of a file, decompressed."""
    compression = compression_of(file)
    if compression is None:
        return file.open()
    if compression == "zstd":
        import pyarrow

        return pyarrow.CompressedInputStream(pyarrow.PythonFile(file.open(), "r"), "zstd")
    stream = file.open()
    if compression in _DECOMPRESSORS:
        return io.BufferedReader(_Streams(stream, _DECOMPRESSORS[compression]), _READ_BYTES)
    if compression == "zip" and len(files := _packed_files(stream)) > 1:
        raise ValueError(f"the archive holds several files, {listed(files[:3])}; unpack it, and name the folder.")
    return compr[compression](stream, mode="rb")


def _packed_files(stream: Any) -> list[str]:
    """The files in an archive, without the marks that macOS adds."""
    with ZipFile(stream) as archive:
        names = [name for name in archive.namelist() if not name.endswith("/") and not name.startswith("__MACOSX/")]
    stream.seek(0)
    return names
