"""Claims: the name of a process by which it says that it alone does something, for as long as it runs.

A process that was killed leaves its claim; others see that it has ended, and do what it did not. Of a process on
another machine nobody can see that, and its claim counts for an hour.
"""

import errno
import time
from contextlib import suppress
from itertools import count
from pathlib import Path

from calibdask.storage.atomic_replace import Output, last_modified, machine_of, owned_name, owner_of, write_text
from calibdask.storage.documents import read_bytes
from calibdask.storage.exclusive_create import create
from calibdask.storage.location import Location
from calibdask.storage.manifest import content_hash

_LONGEST_SECONDS = 3600.0
# The clock of a process is that of its machine, in which the start of another one has been rounded.
_CLOCK_SECONDS = 2.0
# File systems that have no hard links.
_NO_LINKS = {getattr(errno, name) for name in ("EPERM", "ENOSYS", "EOPNOTSUPP", "ENOTSUP") if hasattr(errno, name)}


def is_over(claim: str) -> bool:
    """Whether the process with this name (`owned_name`) has ended; of another machine, whether an hour has passed.

    Examples
    --------
    >>> is_over(owned_name()), is_over("whatever")
    (False, True)
    """
    import psutil

    owner = owner_of(claim)
    if owner is None:
        return True
    time_of_claim, machine, number = owner
    if machine != machine_of():
        return time.time() - time_of_claim > _LONGEST_SECONDS
    try:
        running = psutil.Process(number)
        # Numbers of processes are given again, in containers soon.
        is_another = running.create_time() > time_of_claim + _CLOCK_SECONDS
        return bool(is_another or running.status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True
    except psutil.AccessDenied:
        return False


def current_text(target: Output) -> str | None:
    """The text of a file, as it is now; None without one."""
    if isinstance(target, Path):
        return read_bytes(target).decode("utf-8") if target.exists() else None
    with target.reading():
        # What another process has just written is no old news.
        target.fs.invalidate_cache()
        return bytes(target.fs.cat_file(target.path)).decode() if target.fs.exists(target.path) else None


def replace_text(target: Output, before: str | None, text: str) -> bool:
    """Write a text in the place of the one that was read before; whether that was there still.

    Of several processes that have read the same text one succeeds: it creates a file that is named by the old text,
    compares, and writes. What others create after it has removed that file, they find the new text.

    Parameters
    ----------
    target : Path or Location
    before : str or None
        The text that is replaced; None where there was no file.
    text : str
        Unlike ``before``.
    """
    folder, stem = _claims_of(target)
    version = content_hash(b"" if before is None else before.encode())
    names = []
    for turn in count():
        names.append(f"{stem}{version}.{turn}")
        if _created(folder, names[-1]):
            break
        if _is_held(folder, names[-1]):
            return False
        # Left by a process that was killed: removed by the one that has the next turn.
    try:
        if current_text(target) != before:
            return False
        write_text(target, text)
        return True
    finally:
        for name in names:
            with suppress(OSError):
                folder.fs.rm_file(folder.child(name).path)


def _claims_of(target: Output) -> tuple[Location, str]:
    """The folder of the claims of a file, and how their names begin; object stores have folders of any name."""
    place = target if isinstance(target, Location) else Location.parse(str(target.absolute()))
    path, _, name = place.path.rpartition("/")
    if place.local:
        return Location(path or "/", place.fs, path or "/"), f".{name}.claim-"
    address = place.address.rpartition("/")[0]
    return Location(f"{address}/.{name}.claims", place.fs, f"{path}/.{name}.claims"), ""


def _created(folder: Location, name: str) -> bool:
    content = owned_name().encode()
    try:
        return create(folder, name, content)
    except OSError as error:
        if not folder.local or error.errno not in _NO_LINKS:
            raise
    try:
        with Path(folder.path, name).open("xb") as file:
            file.write(content)
    except FileExistsError:
        return False
    return True


def _is_held(folder: Location, name: str) -> bool:
    """Whether a claim counts, or has just been given up, as it is when the text was replaced."""
    place = folder.child(name)
    try:
        claim = bytes(place.fs.cat_file(place.path)).decode(errors="replace")
    except FileNotFoundError:
        return True
    if claim:
        return not is_over(claim)
    # Made, but not yet written.
    made = last_modified(place)
    return made is None or time.time() - made < _LONGEST_SECONDS
