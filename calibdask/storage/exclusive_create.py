"""Exclusive creation: of several writers one creates the file, and the others fail."""

import errno
import os
import warnings
from contextlib import suppress
from pathlib import Path

from calibdask.storage.atomic_replace import owned_name
from calibdask.storage.location import Location
from calibdask.storage.retry import with_retries

_PARTIAL, _PROBE = ".partial", "probe"
# Clients that pass the condition on to the store (If-None-Match of S3, ifGenerationMatch of Google); those of others
# look first and write then. The last one is the memory of this process.
_CONDITIONAL = {"s3", "s3a", "gs", "gcs", "memory"}


def create(folder: Location, name: str, content: bytes) -> bool:
    """Make a file in a folder, whole or not at all; whether it was made, and not there already.

    On this machine by a hard link, which Zarr needs as well; on object stores by a condition. Where a store knows none,
    it is looked first, with a warning: there, only one may write at a time.

    Parameters
    ----------
    folder : Location
    name : str
    content : bytes
        Unlike what any other writer gives: so an answer that was lost on the way does no harm.
    """
    return _link(folder, name, content) if folder.local else _put(folder, name, content)


def _link(folder: Location, name: str, content: bytes) -> bool:
    target = Path(folder.path) / name
    part = target.with_name(f".{owned_name()}{_PARTIAL}")
    part.write_bytes(content)
    try:
        os.link(part, target)
        return True
    except FileExistsError:
        # A file system of the network may have done it, and been asked again.
        with suppress(FileNotFoundError):
            return target.read_bytes() == content
        # Others remove what they made for a moment.
        return False
    finally:
        part.unlink(missing_ok=True)


def _put(folder: Location, name: str, content: bytes) -> bool:
    fs, path = folder.fs, f"{folder.path}/{name}"
    mode = "create"
    if not with_retries(lambda: _has_conditions(folder)):
        warnings.warn(
            f"{folder.url} is on a store without conditional writes, where concurrent writers may lose data: let only "
            "one process at a time write there.",
            stacklevel=6,
        )
        if with_retries(lambda: _content(folder, path)) is not None:
            return False
        mode = "overwrite"

    def written() -> bytes:
        try:
            fs.pipe_file(path, content, mode=mode)
        except Exception:
            # Refused, or done though the answer was lost.
            known = _content(folder, path)
            if known is None:
                raise
            return known
        return content

    return with_retries(written) == content


def _content(folder: Location, path: str) -> bytes | None:
    try:
        return bytes(folder.fs.cat_file(path))
    except FileNotFoundError:
        return None


def _has_conditions(folder: Location) -> bool:
    """Whether the store supports conditional writes; tested by writing an empty file twice."""
    protocols = folder.fs.protocol
    if _CONDITIONAL.isdisjoint([protocols] if isinstance(protocols, str) else protocols):
        return False
    fs, probe = folder.fs, f"{folder.path}/{_PROBE}"
    fs.pipe_file(probe, b"")
    try:
        fs.pipe_file(probe, b"", mode="create")
    except FileExistsError:
        return True
    except OSError as error:
        if error.errno == errno.ENOSYS:
            return False
        # As stores say it that do not name the condition.
        if "condition" in str(error).lower():
            return True
        raise
    return False
