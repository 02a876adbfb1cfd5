"""Cache folders of compiled kernels; only private folders are trusted, since their content is executed."""

import contextlib
import hashlib
import os
import stat
import tempfile
from functools import cache
from pathlib import Path
from typing import NamedTuple

_PACKAGE = Path(__file__).parent
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_CHECKSUM_BYTES = 32


class Folders(NamedTuple):
    """Where kernels are looked for, and where they are written: None where nothing may be written.

    One folder for each state of all kernel sources: a kernel that inlines a function of another file would become
    stale with it.
    """

    read: tuple[Path, ...]
    write: Path | None

    @classmethod
    def chosen(cls, given: str) -> "Folders":
        """That ``given`` by NUMBA_CACHE_DIR alone; else beside the sources, else in the folder for caches.

        What whoever installed the package has compiled beside the sources is read where nothing is given.
        """
        bases = [Path(given).absolute()] if given else [_beside_sources(), *_for_caches()]
        folders = [base / _name() for base in bases]
        write = next(filter(_is_writable, folders), None)
        shared = [] if given else [_beside_sources() / _name()]
        return cls(tuple(dict.fromkeys([*([] if write is None else [write]), *shared])), write)


def loaded(folder: Path, name: str) -> bytes | None:
    """Content of a cached file; None unless only this user could write it and its checksum fits its name.

    Machine code with a single flipped bit may compute other numbers, or crash.
    """
    try:
        with (folder / name).open("rb") as file:
            if not (_is_private(os.fstat(file.fileno())) and _is_private(folder.stat())):
                return None
            checksum, content = file.read(_CHECKSUM_BYTES), file.read()
    except OSError:
        return None
    return content if checksum == _checksum(folder, name, content) else None


def saved(folder: Path, name: str, content: bytes) -> None:
    """Write a file behind its checksum, whole or not at all.

    Raises
    ------
    OSError
        If it cannot be written.
    """
    handle, part = tempfile.mkstemp(dir=folder, prefix=f".{name}")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(_checksum(folder, name, content))
            file.write(content)
            # Otherwise a power cut may leave the new name with an empty file.
            file.flush()
            os.fsync(file.fileno())
        # As readable as the folder that it is in.
        os.chmod(part, stat.S_IMODE(folder.stat().st_mode) & 0o644)
        os.replace(part, folder / name)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(part)
        raise


def _checksum(folder: Path, name: str, content: bytes) -> bytes:
    """Of the names too, since a kernel of other sources or types is as wrong as a damaged one."""
    checksum = hashlib.blake2b(f"{folder.name}/{name}\n".encode(), digest_size=_CHECKSUM_BYTES)
    checksum.update(content)
    return checksum.digest()


def _beside_sources() -> Path:
    return _PACKAGE / "__pycache__"


def _for_caches() -> list[Path]:
    """The user's folder for caches, if there is a home."""
    given = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA")
    if given:
        return [Path(given) / "calibdask"]
    try:
        return [Path.home() / ".cache" / "calibdask"]
    except RuntimeError:
        return []


@cache
def _name() -> str:
    sources = b"".join(path.read_bytes() for path in sorted(_PACKAGE.glob("*.py")))
    return f"calibdask-{hashlib.sha256(sources).hexdigest()[:16]}"


def _is_writable(folder: Path) -> bool:
    """Whether the folder is there, made if it was not, and only this user can write to it."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        # Beside the sources others may read what is compiled, as they read these; elsewhere it is the user's own.
        folder.mkdir(mode=0o755 if folder.parent == _beside_sources() else 0o700, exist_ok=True)
        return _is_private(folder.stat()) and os.access(folder, os.W_OK | os.X_OK)
    except OSError:
        return False


def _is_private(status: os.stat_result) -> bool:
    """Whether a file or folder belongs to this user, root or the package owner, and others cannot write to it."""
    if not hasattr(os, "getuid"):
        return True
    trusted = {os.getuid(), 0, _PACKAGE.stat().st_uid}
    return status.st_uid in trusted and not status.st_mode & _OTHERS_WRITE
