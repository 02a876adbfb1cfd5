"""Outputs that appear whole or not at all: written under another name, which takes the place of the old one at once."""

import ctypes
import os
import secrets
import shutil
import socket
import stat
import sys
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory

from calibdask.errors import Unavailable
from calibdask.storage.location import Location
from calibdask.storage.retry import with_retries

Output = Path | Location

_PARTIAL = ".partial"
# What another machine has left is taken for abandoned after this time.
_LONGEST_SECONDS = 86_400.0
# The folder in which an old result waits until the new one has its name, where the two cannot be exchanged at once.
_OLD = "old"


@contextmanager
def atomic_replacement(target: Output) -> Iterator[Path]:
    """A name on this machine to write a file or folder under; it takes the target's place if all went well.

    Killed at any time, the old result is there or the new one; what else is left ends in ``.partial``, and the next
    writing of this target removes it.
    """
    if isinstance(target, Location):
        with TemporaryDirectory() as folder, named_errors(target, Path(folder)):
            part = Path(folder) / PurePosixPath(target.path).name
            yield part
            _upload(part, target)
        return
    restore(target)
    room = target.with_name(f".{target.name}.{owned_name()}{_PARTIAL}")
    with named_errors(target, room):
        # Nobody else reads a result of which nobody knows yet who may.
        room.mkdir(0o700)
        try:
            part = room / target.name
            yield part
            put_in_place(part, target, room / _OLD)
        finally:
            _bring_back(room, target)
            shutil.rmtree(room)


@contextmanager
def named_errors(target: Output, room: Path) -> Iterator[None]:
    """Raise errors with the name of the output instead of none, or one in the folder where it is made."""
    url = target.url if isinstance(target, Location) else str(target)
    try:
        yield
    except Unavailable:
        raise
    except OSError as error:
        if isinstance(error, PermissionError) and error.errno is None:
            # Of servers, which know no numbers of errors.
            raise PermissionError(f"{url} cannot be written: {error}") from error
        inside = error.filename is not None and Path(str(error.filename)).is_relative_to(room)
        if error.errno is None or not (error.filename is None or inside):
            raise
        reason = error.strerror or os.strerror(error.errno)
        raise OSError(error.errno, reason, url) from error


def write_text(target: Output, text: str) -> None:
    """Write a text file so."""
    with atomic_replacement(target) as part, part.open("w", encoding="utf-8") as file:
        file.write(text)
        # Else a power cut may leave an empty file under the new name.
        file.flush()
        os.fsync(file.fileno())


def restore(target: Path) -> None:
    """Remove what runs that were killed have left of a target; the old result comes back where it has lost its name."""
    beginning = f".{target.name}."
    for room in target.parent.iterdir():
        owner = room.name.removeprefix(beginning).removesuffix(_PARTIAL)
        if room.name == f"{beginning}{owner}{_PARTIAL}" and is_abandoned(owner, Location.parse(str(room))):
            _bring_back(room, target)
            shutil.rmtree(room, ignore_errors=True)


def owned_name() -> str:
    """A new name that says who uses it, for `is_abandoned`: a time, a machine, a process."""
    return f"{int(time.time()):x}-{machine_of()}-{os.getpid()}-{secrets.token_hex(4)}"


def owner_of(name: str) -> tuple[int, str, int] | None:
    """When a name was made (`owned_name`), on which machine and by which process; None for other names.

    Examples
    --------
    >>> owner_of("6a-here-17-ab"), owner_of("whatever")
    ((106, 'here', 17), None)
    """
    try:
        begun, machine, process, _ = name.split("-")
        return int(begun, 16), machine, int(process)
    except ValueError:
        return None


def is_abandoned(name: str, place: Location) -> bool:
    """Whether the process that made a name (`owned_name`) has ended; of another machine, whether a day has passed.

    Parameters
    ----------
    name : str
    place : Location
        What the process was writing. The store says how long nothing was written there, not the clocks of machines.

    Examples
    --------
    >>> is_abandoned(owned_name(), Location.parse("there")), is_abandoned("whatever", Location.parse("there"))
    (False, False)
    """
    import psutil

    owner = owner_of(name)
    if owner is None:
        return False
    _, machine, number = owner
    if machine == machine_of():
        return not psutil.pid_exists(number)
    written = last_modified(place)
    if written is None:
        return False
    folder, _, _ = place.path.rstrip("/").rpartition("/")
    probe = Location("", place.fs, f"{folder}/.{owned_name()}{_PARTIAL}")
    with_retries(partial(place.fs.pipe_file, probe.path, b""))
    now = last_modified(probe)
    place.fs.rm(probe.path)
    return now is not None and now - written > _LONGEST_SECONDS


def last_modified(place: Location) -> float | None:
    """When a file, or the last one in a folder, was written by the clock of the store; None where that is not known."""
    fs = place.fs
    try:
        fs.invalidate_cache(place.path)
        paths = fs.find(place.path) if fs.isdir(place.path) else [place.path]
        # Folders without files, which object stores do not have, have times too.
        times = [float(fs.modified(path).timestamp()) for path in paths or [place.path]]
    except (NotImplementedError, OSError, KeyError, TypeError, AttributeError):
        return None
    return max(times)


def is_other_running(name: str) -> bool:
    """Whether another process of this machine made a name (`owned_name`), and has not ended."""
    import psutil

    _, machine, process, *_ = (*name.split("-"), "", "", "")
    number = int(process) if process.isdecimal() else os.getpid()
    return machine == machine_of() and number != os.getpid() and bool(psutil.pid_exists(number))


def is_running(name: str) -> bool:
    """Whether a process of this machine made a name (`owned_name`), and has not ended; of other machines: False."""
    import psutil

    _, machine, process, *_ = (*name.split("-"), "", "", "")
    return machine == machine_of() and process.isdecimal() and bool(psutil.pid_exists(int(process)))


def machine_of() -> str:
    """A short text for this machine."""
    return f"{zlib.crc32(socket.gethostname().encode()):08x}"


def put_in_place(part: Path, target: Path, old: Path) -> None:
    """Give a file or a folder the name of the target, and the mode of what had it."""
    if target.exists():
        part.chmod(stat.S_IMODE(target.stat().st_mode))
    # A folder cannot be renamed over one that is not empty.
    if not target.is_dir():
        part.replace(target)
    elif not _exchanged(part, target):
        target.rename(old)
        part.rename(target)


def write_whole(path: Path, content: bytes) -> None:
    """Write a small file of this machine under another name, which takes the place of the old one at once."""
    begun = path.with_suffix(".new")
    begun.write_bytes(content)
    begun.replace(path)


def _bring_back(room: Path, target: Path) -> None:
    """The old result gets its name back if the new one did not get there."""
    if (room / _OLD).exists() and not os.path.lexists(target):
        (room / _OLD).rename(target)


def _exchanged(one: Path, other: Path) -> bool:
    """Exchange two names at once, on systems and file systems that can."""
    if sys.platform != "linux":
        return False
    here, exchange = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    with suppress(AttributeError, OSError):
        rename = ctypes.CDLL(None, use_errno=True).renameat2
        return bool(rename(here, os.fsencode(one), here, os.fsencode(other), exchange) == 0)
    return False


def _upload(part: Path, target: Location) -> None:
    """Copy a file, or a folder whose own mark goes first and comes last: a store is whole, or none."""
    mark = part / "zarr.json"
    files = [part] if part.is_file() else sorted(path for path in part.rglob("*") if path.is_file())
    try:
        if part.is_dir() and target.fs.exists(target.path):
            with_retries(partial(target.fs.rm, f"{target.path}/{mark.name}"))
            with_retries(partial(target.fs.rm, target.path, recursive=True))
        for path in sorted(files, key=mark.__eq__):
            name = "" if path == part else f"/{path.relative_to(part).as_posix()}"
            with_retries(partial(target.fs.put_file, str(path), f"{target.path}{name}"))
    except Exception as error:
        raise ValueError(f"{target.url} cannot be written: {target.quoted(error)}") from error
