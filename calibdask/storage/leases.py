"""Leases: files by which a writer shows that it is alive, so that its unfinished files are kept.

A writer renews its lease while it works; whoever sweeps removes only what has a lease that was not renewed for a day.
Both times are those that the store gives to its files, so the clocks of the machines do not matter. A writer that was
suspended for longer must not rely on its files any more. The protocol that excludes both mistakes:

1. The sweeper creates the file ``.taken`` beside the lease, *then* reads the log, and removes the data only if the log
   does not have them.
2. The writer adds its record to the log, *then* looks whether its lease was taken.

Whichever comes second sees what the first one did: the data of a record stay, or the writer learns that they may be
gone and writes them again.
"""

import re
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Self

from calibdask.storage.atomic_replace import is_running, last_modified, owned_name
from calibdask.storage.location import Location
from calibdask.storage.retry import with_retries

LEASE, TAKEN = ".lease", ".taken"
# A writer is taken for dead when its lease is older. It renews it far more often.
_GRACE_SECONDS = 86_400.0
_RENEWAL_SECONDS = 300.0
_OWNED = r"[0-9a-f]+-[0-9a-f]+-\d+-[0-9a-f]+"
# A writer, and the number of what it wrote; files of versions without leases have no number.
_DATA = re.compile(rf"(?P<writer>{_OWNED})(?P<number>\.\d+)?\.(?:zarr|zip)")
_PART = re.compile(rf"\.({_OWNED})\.partial")


@dataclass(eq=False)
class Lease:
    """The lease of a writer in a folder, renewed by a thread until it is released.

    Parameters
    ----------
    folder : Location
    """

    folder: Location
    writer: str = field(default_factory=owned_name)
    _released: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Self:
        self._renew()
        self._thread = threading.Thread(target=self._keep, name="calibdask-lease", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._released.set()
        self._thread.join()
        # A failed writer leaves its lease: without one its files would look like those of a record that was lost.
        if error[0] is None:
            _remove(self.folder, f"{self.writer}{LEASE}")

    @property
    def is_held(self) -> bool:
        """Whether nobody has taken the writer for dead."""
        self.folder.fs.invalidate_cache(self.folder.path)
        names = names_in(self.folder)
        return f"{self.writer}{LEASE}" in names and f"{self.writer}{TAKEN}" not in names

    def _renew(self) -> None:
        place = self.folder.child(f"{self.writer}{LEASE}")
        with_retries(partial(place.fs.pipe_file, place.path, self.writer.encode()))

    def _keep(self) -> None:
        while not self._released.wait(_RENEWAL_SECONDS):
            with suppress(OSError):
                self._renew()


def names_in(folder: Location) -> set[str]:
    """The names in a folder; none if it does not exist."""
    try:
        paths = with_retries(partial(folder.fs.ls, folder.path, detail=False))
    except FileNotFoundError:
        return set()
    return {str(path).rstrip("/").rpartition("/")[2] for path in paths}


def writer_of(name: str) -> str | None:
    """The writer of a file with numbers that had a lease; None for other names."""
    matched = _DATA.fullmatch(name)
    return matched["writer"] if matched and matched["number"] else None


def sweep(
    folder: Location, own: str, kept: Callable[[], set[str]], replaced: Iterable[tuple[str, str]], log: Location
) -> None:
    """Remove files that were never added or were replaced, one day later by the clock of the store.

    Parameters
    ----------
    folder : Location
        Of the numbers.
    own : str
        The writer that sweeps, whose lease says what time it is to the store.
    kept : function
        Reads the log, and returns the names in the folder that belong to the store.
    replaced : iterable of (str, str)
        Names in the folder that belonged to it, each with the name of the record in the log that removed it.
    log : Location
        The folder of the log.
    """
    folder.fs.invalidate_cache(folder.path)
    now = last_modified(folder.child(f"{own}{LEASE}"))
    if now is None:
        return

    def is_old(place: Location) -> bool:
        time = last_modified(place)
        return time is not None and now - time > _GRACE_SECONDS

    removed = dict(replaced)
    needed, names = kept(), names_in(folder)
    for name, record in removed.items():
        if name in names - needed and is_old(log.child(record)):
            _remove(folder, name)
    for writer in sorted({name.removesuffix(LEASE) for name in names if name.endswith(LEASE)} - {own}):
        if is_running(writer) or not is_old(folder.child(f"{writer}{LEASE}")):
            continue
        place = folder.child(f"{writer}{TAKEN}")
        try:
            with_retries(partial(place.fs.pipe_file, place.path, own.encode()))
        except OSError:
            # Files of another user, who can remove them.
            continue
        needed = kept()
        unneeded = [name for name in sorted(names - needed - {*removed}) if writer_of(name) == writer]
        # Without the lease, files that this user cannot remove would look like files of a lost record.
        if all(_remove(folder, name) for name in unneeded):
            _remove(folder, f"{writer}{LEASE}")
    for name in sorted(names - needed - {*removed}):
        # Of versions without leases; and what has been taken long ago.
        matched = _DATA.fullmatch(name)
        without_lease = matched is not None and matched["number"] is None and not is_running(matched["writer"])
        taken = name.endswith(TAKEN) and f"{name.removesuffix(TAKEN)}{LEASE}" not in names
        if (without_lease or taken) and is_old(folder.child(name)):
            _remove(folder, name)
    log.fs.invalidate_cache(log.path)
    for name in names_in(log):
        matched = _PART.fullmatch(name)
        if matched is not None and not is_running(matched[1]) and is_old(log.child(name)):
            _remove(log, name)


def _remove(folder: Location, name: str) -> bool:
    """Remove a file or folder; whether it is gone, which it is not if others own it."""
    try:
        folder.fs.rm(folder.child(name).path, recursive=True)
    except FileNotFoundError:
        pass
    except OSError:
        return False
    return True
