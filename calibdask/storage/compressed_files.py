"""Files of text that may be compressed, by their names."""

from pathlib import PurePosixPath
from typing import Any
from zipfile import ZipFile

from fsspec.compression import compr

from calibdask.safe_text import listed
from calibdask.storage.location import Location

COMPRESSIONS = {".gz": "gzip", ".bz2": "bz2", ".xz": "xz", ".zst": "zstd", ".zip": "zip"}


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
    if compression == "zip" and len(files := _packed_files(stream)) > 1:
        raise ValueError(f"the archive holds several files, {listed(files[:3])}; unpack it, and name the folder.")
    return compr[compression](stream, mode="rb")


def _packed_files(stream: Any) -> list[str]:
    """The files in an archive, without the marks that macOS adds."""
    with ZipFile(stream) as archive:
        names = [name for name in archive.namelist() if not name.endswith("/") and not name.startswith("__MACOSX/")]
    stream.seek(0)
    return names
