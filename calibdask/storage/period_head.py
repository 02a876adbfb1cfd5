"""The head of a store of periods: an attribute that counts the records of its log and has the hash of the last one."""

import json
import re
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from calibdask.errors import Damaged
from calibdask.storage.atomic_replace import owned_name
from calibdask.storage.documents import parse_object
from calibdask.storage.leases import names_in
from calibdask.storage.location import Location
from calibdask.storage.manifest import is_intact, sealed
from calibdask.storage.open_store import PERIODS
from calibdask.storage.retry import with_retries

# Records of format 1, which earlier versions wrote, have no identity and no hashes.
FORMAT = 2
FOLDER = "log"
# The attribute of the store with its head.
HEAD = "calibdask_head"
MEND = (
    "copy the store again, or go back to its last intact state by calibdask.recover_periods (summarize --append STORE "
    "--recover --reason TEXT at the shell)"
)
# The file that has it.
MARK = "zarr.json"
_RECORD = re.compile(r"(\d{8})\.jsonl")


@dataclass(frozen=True)
class Head:
    """The identity of a store, the number of its records and the hash of the last one.

    ``first`` is the number of the record where reading begins: one of a recovery, which holds a whole state.
    """

    store: str = ""
    records: int = 0
    last: str = ""
    first: int = 0

    @classmethod
    def read(cls, store: Location) -> "Head":
        """The head of a store; an empty one if the store is that of an earlier version, or does not exist.

        Raises
        ------
        Damaged
            If it is not what was written.
        """
        try:
            content = store.child(MARK).content()
        except FileNotFoundError:
            return cls()
        try:
            attributes = parse_object(content)["attributes"]
            version, known = attributes[PERIODS], attributes.get(HEAD)
            if known is None and version == 1:
                return cls()
            if version != FORMAT or not is_intact(known):
                raise ValueError("the hash of the head does not match")
            return cls(str(known["store"]), int(known["records"]), str(known["last"]), int(known.get("first", 0)))
        except (ValueError, KeyError, TypeError) as error:
            raise Damaged(f"{store.url} is damaged: {MARK} is not what was written ({error}); {MEND}.") from error

    @property
    def content(self) -> bytes:
        """The file that marks a store of periods."""
        head = {"store": self.store, "records": self.records, "last": self.last}
        # Stores that were never recovered stay as earlier versions wrote them.
        head |= {"first": self.first} if self.first else {}
        attributes = {PERIODS: FORMAT, HEAD: sealed(head)}
        return json.dumps({"zarr_format": 3, "node_type": "group", "attributes": attributes}).encode()

    def write(self, store: Location) -> None:
        """Put it in the place of the one that is there."""
        place = store.child(MARK)
        if not store.local:
            with_retries(partial(place.fs.pipe_file, place.path, self.content))
            return
        begun = Path(store.child(FOLDER).path, f".{owned_name()}.partial")
        begun.write_bytes(self.content)
        begun.replace(place.path)


def record_names(folder: Location) -> list[str]:
    """The names of the records in the folder of a log, in order."""
    folder.fs.invalidate_cache(folder.path)
    return sorted(name for name in names_in(folder) if _RECORD.fullmatch(name))


def check_mark(store: Location, cause: ValueError | None = None) -> None:
    """Raise Damaged if a store has a log of periods, and its mark cannot be read or does not say so.

    Parameters
    ----------
    store : Location
    cause : ValueError, optional
        Why the mark cannot be read.
    """
    names: list[str] = []
    with store.reading(), suppress(FileNotFoundError, NotADirectoryError, NotImplementedError):
        names = record_names(store.child(FOLDER))
    if names:
        why = "" if cause is None else f" ({cause})"
        raise Damaged(
            f"{store.url} is damaged: it has a log of periods, and {MARK} does not say so{why}; {MEND}."
        ) from cause
