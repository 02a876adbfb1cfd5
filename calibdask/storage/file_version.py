"""Versions of files: a file that is replaced while it is read is an error, not the numbers of neither version."""

import os
from typing import Any

from calibdask.storage.location import Location, absent_on_worker
from calibdask.storage.retry import with_retries

# How file systems name the identity of the content, the most telling first.
_TAGS = ("ETag", "etag", "generation", "VersionId")
_TIMES = ("LastModified", "last_modified", "mtime", "updated", "created")

# Names and values, such as the size and the time; empty where a file system says neither.
Version = tuple[tuple[str, str], ...]


def version_of(file: Location) -> Version:
    """The version of a file or an object: its size, and its ETag or the time when it was written.

    Raises
    ------
    FileNotFoundError
        If it is not there any more.
    """
    if file.local:
        status = os.stat(file.path)
        # The second time is set by the system alone: a copy may have the first one of the file that it replaces.
        return (("size", f"{status.st_size:,} bytes"), ("time", f"{status.st_mtime_ns}, {status.st_ctime_ns}"))
    # Listings of folders are kept by file systems, and are then those of before.
    file.fs.invalidate_cache(file.path)
    try:
        details = with_retries(lambda: file.fs.info(file.path))
    except (NotImplementedError, PermissionError):
        return ()
    return _known(details)


def check_version(file: Location, version: Version) -> None:
    """Raise ValueError if the file is not the one of that version.

    Raises
    ------
    ValueError
        If it was replaced, written to or removed.
    """
    if not version:
        return
    try:
        current = version_of(file)
    except FileNotFoundError:
        removed = f"{file.url} was removed while it was read; run it again with a file that stays."
        raise ValueError(absent_on_worker(file) or removed) from None
    changes = [name for (name, before), (_, now) in zip(version, current, strict=False) if before != now]
    if changes:
        raise ValueError(
            f"{file.url} was replaced or written to while it was read (its {' and '.join(changes)} changed); run again "
            "when no process writes to it, or read a copy."
        )


def _known(details: dict[str, Any]) -> Version:
    size = details.get("size")
    tag = next((details[name] for name in _TAGS if details.get(name)), None)
    time = next((details[name] for name in _TIMES if details.get(name)), None)
    found = {"size": None if size is None else f"{size:,} bytes", "ETag": tag, "time": time if tag is None else None}
    return tuple((name, str(value)) for name, value in found.items() if value is not None)
