"""Recovery of a store of periods with a damaged log: back to its last intact state; undone changes are named.

Each record has its own hash, its number and the hash of the record before it, so a chain of such records is a state
that the store had. Records behind the first damaged one may be whole, but what the damaged one changed is unknown: it
may have merged, replaced or removed the very periods that they speak of. So nothing behind it counts, and no numbers
are taken that no record of the chain names.

The outcome is one record that holds this state, behind all others, and a head from which reading begins there. Nothing
is removed from the log, so a recovery that was interrupted is made again.
"""

import errno
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from calibdask import __version__
from calibdask.errors import Damaged
from calibdask.storage.atomic_replace import owned_name
from calibdask.storage.exclusive_create import create
from calibdask.storage.leases import names_in
from calibdask.storage.location import Location
from calibdask.storage.manifest import content_hash, new_identity
from calibdask.storage.period_head import FOLDER, FORMAT, MARK, Head, record_names
from calibdask.storage.period_log import (
    PARTS,
    Label,
    LogState,
    Period,
    number_of,
    parsed,
    record_content,
    record_name,
    unknown_files,
)
from calibdask.storage.period_store import PeriodStore

# Small files of an object store are read side by side.
_AT_ONCE = 16
_MOST_RECORDS = 10**8
# What reading raises where there is no file that could be read; any other error may pass.
_NO_FILE = (errno.ENOENT, errno.EISDIR, errno.ENOTDIR, errno.ELOOP)


@dataclass(frozen=True)
class Recovery:
    """Damage of a store of periods, and the state to which it went back.

    Attributes
    ----------
    damaged : tuple of str
        Files of the log that were damaged or missing; empty where nothing was, and nothing was changed.
    date : str
        When the last record of the state was written.
    undone : tuple of str or int
        Periods that whole records behind the first damaged one added or removed.
    missing : tuple of str or int
        Periods of the state whose numbers are no longer those that were written: they are left out.
    lost : tuple of str
        Files with numbers that no record of the state names; removed by an `append` after a day.
    periods : tuple of str or int
        All periods of the store now.
    """

    damaged: tuple[str, ...] = ()
    date: str = ""
    undone: tuple[Label, ...] = ()
    missing: tuple[Label, ...] = ()
    lost: tuple[str, ...] = ()
    periods: tuple[Label, ...] = ()


@dataclass(frozen=True)
class _Record:
    """An intact record, and the hash of its file."""

    number: int
    content: Mapping[str, Any]
    hash: str

    @property
    def begins(self) -> bool:
        """Whether it holds a whole state."""
        return self.number == 0 or "recovered" in self.content

    def follows(self, before: "_Record") -> bool:
        """Whether it was written after another one, by the hash of that; earlier versions wrote none."""
        if self.number != before.number + 1:
            return False
        if self.content["format"] == 1:
            return before.content["format"] == 1
        own, other = self.content, before.content
        return own["previous"] == before.hash and own["store"] == other.get("store", own["store"])


def recover(store: PeriodStore, reason: str) -> Recovery:
    """Take a store with a damaged log back to its last intact state.

    Parameters
    ----------
    store : PeriodStore
    reason : str
        Kept in the history.

    Returns
    -------
    Recovery

    Raises
    ------
    ValueError
        If there is no log, or none of its states is intact.
    """
    location = store.location
    folder = location.child(FOLDER)
    while True:
        names = record_names(folder)
        if not names:
            raise ValueError(
                f"{location.url} expects a store with periods added by calibdask.append, got no log there."
            )
        head = _head(location)
        records = _of_one_store(_records(location, names), "" if head is None else head.store)
        chain = _longest_chain(records)
        if not chain:
            raise Damaged(f"{location.url} is damaged: no state of its log is intact; summarize the data again.")
        state = LogState()
        for record in chain:
            state.apply(record_name(record.number), record.content)
        lost = _unknown(location, state)
        damaged = _damaged(records, names, chain, head, bool(lost))
        if not damaged:
            return Recovery(periods=tuple(store.log().periods))
        missing = [label for label, period in state.periods.items() if not _is_whole(location, period)]
        kept = {label: period for label, period in state.periods.items() if label not in missing}
        if not kept:
            raise Damaged(
                f"{location.url} is damaged: of the last intact state of its log, of {chain[-1].content['date']}, no "
                "numbers are whole; summarize the data again."
            )
        undone = _undone(records[number] for number in sorted(records) if number > chain[-1].number)
        files = [file for label in missing for file in state.periods[label].files]
        number = max(number_of(names[-1]) + 1, head.records if head is not None and _is_of(head, chain) else 0)
        if number >= _MOST_RECORDS:
            raise ValueError(
                f"{location.url} expects records whose numbers have no gaps, got {FOLDER}/{names[-1]}; remove that "
                "file."
            )
        identity = chain[-1].content.get("store") or new_identity()
        content = record_content(
            {
                "format": FORMAT,
                "id": owned_name(),
                "store": identity,
                "number": number,
                "previous": "",
                "date": datetime.now(UTC).isoformat(timespec="seconds"),
                "calibdask_version": __version__,
                "dimension": state.dimension,
                "action": "recover",
                "reason": reason,
                "removed": [*undone, *missing],
                "added": [period.to_dict() for period in kept.values()],
                "lost": [*lost, *files],
                "recovered": [],
                "history": state.history,
                "gone": state.gone,
            }
        )
        if create(folder, record_name(number), content):
            Head(identity, number + 1, content_hash(content), number).write(location)
            periods = tuple(period.label for period in store.log().sorted)
            date = str(chain[-1].content["date"])
            return Recovery(damaged, date, undone, tuple(missing), (*lost, *files), periods)


def _records(store: Location, names: list[str]) -> dict[int, _Record]:
    """The intact records by number."""
    folder = store.child(FOLDER)
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        contents = [*pool.map(lambda name: _content(folder.child(name)), names)]
    records = {}
    for name, content in zip(names, contents, strict=True):
        if content is None:
            continue
        try:
            record = parsed(store.url, name, content)
        except Damaged:
            continue
        number = number_of(name)
        if record["format"] == 1 or record["number"] == number:
            records[number] = _Record(number, record, content_hash(content))
    return records


def _of_one_store(records: Mapping[int, _Record], identity: str) -> dict[int, _Record]:
    """Without records of other stores: most are of the store itself, whose identity the head has too."""
    stores = Counter(str(record.content.get("store", identity)) for record in records.values())
    own = max(stores, key=lambda one: (stores[one], one == identity), default=identity)
    return {number: record for number, record in records.items() if record.content.get("store", own) == own}


def _content(place: Location) -> bytes | None:
    """The content of a file; None if there is none."""
    try:
        return place.content()
    except OSError as error:
        if error.errno in _NO_FILE or isinstance(error, FileNotFoundError):
            return None
        raise


def _longest_chain(records: Mapping[int, _Record]) -> list[_Record]:
    """Of the chains of records that begin with a whole state, the one that ends last."""
    chains = []
    for number in sorted(records):
        if records[number].begins:
            chain = [records[number]]
            while (later := records.get(chain[-1].number + 1)) is not None and later.follows(chain[-1]):
                chain.append(later)
            chains.append(chain)
    # The shorter of two that end alike begins with a recovery.
    return max(chains, key=lambda chain: (chain[-1].number, chain[0].number), default=[])


def _head(store: Location) -> Head | None:
    """The head of a store; None if it is damaged or missing."""
    try:
        head = Head.read(store)
    except Damaged:
        return None
    return head if head.records or store.has(MARK) else None


def _is_of(head: Head, chain: list[_Record]) -> bool:
    """Whether a head is that of the store of these records."""
    return head.store == chain[-1].content.get("store", head.store)


def _unknown(store: Location, state: LogState) -> tuple[str, ...]:
    """Files of numbers that the state neither has nor has removed."""
    parts = store.child(PARTS)
    parts.fs.invalidate_cache(parts.path)
    known = {file for period in state.periods.values() for file in period.files}
    return unknown_files(names_in(parts), known | {*state.gone})


def _damaged(
    records: Mapping[int, _Record], names: list[str], chain: list[_Record], head: Head | None, has_unknown: bool
) -> tuple[str, ...]:
    """Files of the log that are not as they were written, or that are missing."""
    end = chain[-1].number + 1
    behind = [name for name in names if number_of(name) >= end]
    damaged = [name for name in behind if number_of(name) not in records]
    has_more = head is not None and _is_of(head, chain) and head.records > end
    if (behind or has_unknown or has_more) and record_name(end) not in damaged:
        damaged.insert(0, record_name(end))
    files = [f"{FOLDER}/{name}" for name in damaged]
    is_head_right = has_more or (head is not None and _is_head_of(head, chain))
    return tuple(files if is_head_right else [MARK, *files])


def _is_head_of(head: Head, chain: list[_Record]) -> bool:
    """Whether a head is that of the last record of a chain, or of an earlier one: a writer may have been killed."""
    if not head.records:
        return chain[0].content["format"] == 1 or len(chain) == 1
    hashes = {record.number + 1: record.hash for record in chain}
    return _is_of(head, chain) and head.first == chain[0].number and hashes.get(head.records) == head.last


def _undone(later: Iterator[_Record]) -> tuple[Label, ...]:
    """The periods in records that are undone."""
    labels: dict[Label, None] = {}
    for record in later:
        added = [period["label"] for period in record.content["added"]]
        labels |= dict.fromkeys([*record.content["removed"], *added])
    return tuple(labels)


def _is_whole(store: Location, period: Period) -> bool:
    """Whether the manifest of a period is the one that its record names; the numbers are checked by it when read."""
    content = _content(store.child(f"{period.folder}/zarr.json"))
    return content is not None and (not period.manifest or content_hash(content) == period.manifest)
