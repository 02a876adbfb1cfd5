"""The log of a store of periods: one record for each change, numbered without gaps, and none is ever changed.

A change is done once its record is there, and none of it before. Two that write at once aim at the same number, which
one of them gets (`calibdask.storage.exclusive_create`); the other reads the log again.

The log is the manifest of the store (`calibdask.storage.manifest`). Each record has the identity of the store, its own
number, the hash of the record before it, and the hashes of the periods that it adds. The head, an attribute of the
store, counts the records and has the hash of the last one, so a last record that was removed is noticed. It is written
after the record: a writer that is killed in between leaves a head that is one behind, which the next one brings up to
date.
"""

import json
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from calibdask import __version__
from calibdask.engine.row_notes import RowNotes
from calibdask.errors import Damaged
from calibdask.storage.atomic_replace import owned_name
from calibdask.storage.exclusive_create import create
from calibdask.storage.leases import LEASE, names_in, writer_of
from calibdask.storage.location import Location
from calibdask.storage.manifest import content_hash, new_identity
from calibdask.storage.period_head import FOLDER, FORMAT, MEND, Head, record_names
from calibdask.storage.slice_labels import Labels, from_json, to_json

PARTS = "periods"
# What the history says of a change, besides the periods that it added.
_TOLD = ("date", "action", "reason", "removed")
# Small files of an object store are read side by side.
_AT_ONCE = 16

Label = str | int


@dataclass(frozen=True, eq=False)
class Period:
    """Log record of a period: enough to describe its summary without reading numbers.

    Parameters
    ----------
    label : str or int
    folder : str
        Where its numbers are.
    slices : mapping of str to array
        The labels along the dimensions of slices.
    rows : array
        Of models and slices.
    manifest : str
        Hash of the file with the manifest of its numbers; empty for periods that earlier versions wrote.
    merged : tuple of str
        The labels of finer periods that were merged into it.
    totals : str
        The file of its sums over all slices (`calibdask.storage.period_totals`); empty where there is none.
    totals_hashes : mapping of str to str
        Hashes of these sums, by variable.
    sums : mapping of str to int
        CRC-32 checksums of the metadata of its arrays, in place of the manifest in earlier versions.
    notes : str
        Notes on its rows, as text (`calibdask.engine.row_notes`); empty for periods that earlier versions wrote.
    """

    label: Label
    folder: str
    slices: Mapping[str, Labels]
    rows: npt.NDArray[np.int64]
    manifest: str
    merged: tuple[str, ...] = ()
    totals: str = ""
    totals_hashes: Mapping[str, str] = field(default_factory=dict)
    sums: Mapping[str, int] = field(default_factory=dict)
    notes: str = ""

    @property
    def row_count(self) -> int:
        """Number of rows of all slices; all models have the same."""
        return int(np.ravel(self.rows.sum(tuple(range(-len(self.slices), 0))))[0])

    @property
    def files(self) -> tuple[str, ...]:
        """Its folder, and the file of its sums."""
        return tuple(filter(None, (self.folder, self.totals)))

    def damaged(self, what: str) -> Damaged:
        """The error for files of this period; all others can be read."""
        return Damaged(
            f"{what}. The other periods can still be read: copy the files of {self.label} again, replace it by "
            "replace='the reason' (--replace --reason TEXT at the shell), or remove it by calibdask.drop_periods "
            "(--drop LABEL --reason TEXT at the shell)."
        )

    def to_dict(self) -> dict[str, Any]:
        """Values that JSON holds."""
        slices = {name: to_json(labels) for name, labels in self.slices.items()}
        own = {"label": self.label, "folder": self.folder, "slices": slices, "rows": self.rows.tolist()}
        own |= {"manifest": self.manifest, "merged": [*self.merged], "totals": self.totals}
        return own | {"totals_hashes": dict(self.totals_hashes), "sums": dict(self.sums), "notes": self.notes}

    @classmethod
    def from_dict(cls, known: Mapping[str, Any]) -> "Period":
        """The period again."""
        slices = {name: from_json(labels) for name, labels in known["slices"].items()}
        rows = np.array(known["rows"], np.int64)
        # Records of format 1 have no hashes, and the first ones no totals.
        hashes = known.get("totals_hashes", {}), known["sums"]
        files = known.get("manifest", ""), tuple(known["merged"]), known.get("totals", "")
        return cls(known["label"], known["folder"], slices, rows, *files, *hashes, known.get("notes", ""))


@dataclass(frozen=True, eq=False)
class PeriodChange:
    """Periods that come, and labels of those that go, in one record."""

    dimension: str
    action: str
    added: tuple[Period, ...]
    removed: tuple[Label, ...] = ()
    reason: str = ""


@dataclass(eq=False)
class LogState:
    """Periods, history and removed files after the records that were applied one after the other."""

    dimension: str = ""
    periods: dict[Label, Period] = field(default_factory=dict)
    history: list[Mapping[str, Any]] = field(default_factory=list)
    gone: dict[str, str] = field(default_factory=dict)

    def apply(self, name: str, record: Mapping[str, Any]) -> None:
        """Make the change of a record of this name."""
        self.dimension = record["dimension"]
        begins = "recovered" in record
        if begins:
            # A recovery, which holds a whole state.
            self.periods, self.history, self.gone = {}, [*record["history"]], {**record["gone"]}
        else:
            removed = [self.periods.pop(label) for label in record["removed"]]
            self.gone |= {file: name for period in removed for file in period.files}
        self.gone |= dict.fromkeys(record.get("lost", ()), name)
        self.periods |= {period["label"]: Period.from_dict(period) for period in record["added"]}
        if record["removed"] or record.get("lost") or begins:
            self.history.append(told(record))


@dataclass(frozen=True, eq=False)
class PeriodLog:
    """All records so far.

    Parameters
    ----------
    url : str
    dimension : str
        What periods are called; empty before the first record.
    periods : mapping
        Those that are there, by their labels.
    number : int
        Of records.
    history : tuple of dict
        The changes that were no mere additions: when, what, and why.
    gone : mapping of str to str
        The records that removed folders of periods, and files of their totals; empty for those whose record was lost.
    head : Head
        As it is to be after the last record.
    lost : tuple of str
        Folders and files of periods whose record was lost, where that is accepted.
    """

    url: str
    dimension: str = ""
    periods: Mapping[Label, Period] = field(default_factory=dict)
    number: int = 0
    history: tuple[Mapping[str, Any], ...] = ()
    gone: Mapping[str, str] = field(default_factory=dict)
    head: Head = field(default_factory=Head)
    lost: tuple[str, ...] = ()

    @property
    def sorted(self) -> list[Period]:
        """The periods in the order of their labels."""
        return [
            self.periods[label] for label in sorted(self.periods, key=lambda label: (isinstance(label, str), label))
        ]

    @property
    def merged(self) -> dict[str, Label]:
        """Into which period those went that were merged."""
        return {name: period.label for period in self.periods.values() for name in period.merged}

    @classmethod
    def read(cls, store: Location, *, recover: bool = False, begun: "PeriodLog | None" = None) -> "PeriodLog":
        """The log of a store.

        Parameters
        ----------
        store : Location
        recover : bool, default False
            Accept that records at the end were lost, with the periods that they added.
        begun : PeriodLog, optional
            The log as the same operation read it before: only later records are read.

        Raises
        ------
        Damaged
            If a record is missing or is not what was written.
        """
        # In this order: whatever others add meanwhile is in what is read later.
        head = Head.read(store)
        parts = store.child(PARTS)
        parts.fs.invalidate_cache(parts.path)
        there = names_in(parts)
        folder = store.child(FOLDER)
        names = record_names(folder)
        if begun is None or recover or not begun._precedes(head, names):
            begun = cls("", number=head.first, head=Head(head.store, first=head.first))
        state = LogState(begun.dimension, {**begun.periods}, [*begun.history], {**begun.gone})
        previous, identity = begun.head.last, begun.head.store
        later = [name for name in names if name >= record_name(begun.number)]
        count = begun.number + len(later)
        for number, (name, content) in enumerate(zip(later, contents(folder, later), strict=True), begun.number):
            if name != record_name(number):
                raise Damaged(f"{store.url} is incomplete: {FOLDER}/{record_name(number)} is missing; {MEND}.")
            record = parsed(store.url, name, content)
            # The first record of a new store determines its identity, until there is a head.
            identity = identity or record.get("store", "")
            if record["format"] > 1 and _place(record) != (identity, number, previous):
                raise Damaged(
                    f"{store.url} is damaged: {FOLDER}/{name} is a record of another store or position; {MEND}."
                )
            previous = content_hash(content)
            if number == head.records - 1 and previous != head.last and not recover:
                raise Damaged(f"{store.url} is damaged: {FOLDER}/{name} is not the last record of the head; {MEND}.")
            state.apply(name, record)
        known = {file for period in state.periods.values() for file in period.files} | {*state.gone}
        lost = unknown_files(there, known)
        if (lost or count < head.records) and not recover:
            raise Damaged(
                f"{store.url} is incomplete: the last records of {FOLDER}/ are missing, {record_name(count)} among "
                f"them; {MEND}, or accept the loss and add the period again with replace='the reason' (--replace "
                "--reason TEXT)."
            )
        head = Head(identity or new_identity(), count, previous, begun.head.first)
        return cls(store.url, state.dimension, state.periods, count, tuple(state.history), state.gone, head, lost)

    def _precedes(self, head: Head, names: Sequence[str]) -> bool:
        """Whether the records of this log are the first ones of a log with these names and this head."""
        expected = [record_name(number) for number in range(self.head.first, self.number)]
        there = [name for name in names if record_name(self.head.first) <= name < record_name(self.number)]
        if not expected or self.lost or head.first != self.head.first or there != expected:
            return False
        is_later = head.records > self.number or (head.records, head.last) == (self.number, self.head.last)
        return head.store == self.head.store and is_later


@dataclass(frozen=True)
class LogChange:
    """Change of the log, computed from its present content and from the content that the operation read first."""

    make: Callable[[PeriodLog], PeriodChange]
    begun: PeriodLog | None = None


def commit(store: Location, change: LogChange | Callable[[PeriodLog], PeriodChange]) -> PeriodLog:
    """Make a change to a store, whole or not at all, anew where another writer was first; return the log before it."""
    change = change if isinstance(change, LogChange) else LogChange(change)
    return _committed(store, change.make, recover=False, begun=change.begun)


def commit_after_loss(store: Location, change: Callable[[PeriodLog], PeriodChange]) -> PeriodLog:
    """Commit to a store that may have lost its last records; their periods are dropped."""
    return _committed(store, change, recover=True)


def _committed(
    store: Location, change: Callable[[PeriodLog], PeriodChange], *, recover: bool, begun: PeriodLog | None = None
) -> PeriodLog:
    while True:
        log = PeriodLog.read(store, recover=recover, begun=begun)
        made = change(log)
        record = {
            "format": FORMAT,
            "id": owned_name(),
            "store": log.head.store,
            "number": log.number,
            "previous": log.head.last,
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
            "calibdask_version": __version__,
            "dimension": made.dimension,
            "action": made.action,
            "reason": made.reason,
            "removed": [*made.removed],
            "added": [period.to_dict() for period in made.added],
            "lost": [*log.lost],
        }
        content = record_content(record)
        if create(store.child(FOLDER), record_name(log.number), content):
            head = replace(log.head, records=log.number + 1, last=content_hash(content))
            _advance(store, head, recover=recover)
            return log


def _advance(store: Location, head: Head, *, recover: bool) -> None:
    """Update the head; other writers may add records and update the head concurrently."""
    while True:
        written = Head.read(store).records
        if written < head.records or recover:
            head.write(store)
        folder = store.child(FOLDER)
        names = record_names(folder)
        count = number_of(names[-1]) + 1
        if count <= max(head.records, 0 if recover else written):
            return
        (last,) = contents(folder, names[-1:])
        head, recover = replace(head, records=count, last=content_hash(last)), False


def _place(record: Mapping[str, Any]) -> tuple[Any, ...]:
    """To which store a record belongs, its number, and the hash of the record before it."""
    return record["store"], record["number"], record["previous"]


def unknown_files(there: set[str], known: set[str]) -> tuple[str, ...]:
    """Numbers that were added by records that are not there: their writer has given its lease back."""
    with_lease = {name.removesuffix(LEASE) for name in there if name.endswith(LEASE)}
    added = (name for name in there if (writer := writer_of(name)) is not None and writer not in with_lease)
    return tuple(sorted({f"{PARTS}/{name}" for name in added} - known))


def record_name(number: int) -> str:
    """The name of the record of a number."""
    return f"{number:08d}.jsonl"


def number_of(name: str) -> int:
    """The number of the record of a name."""
    return int(name.partition(".")[0])


def told(record: Mapping[str, Any]) -> dict[str, Any]:
    """The entry of a record in the history; a recovery adds no periods."""
    added = record["recovered"] if "recovered" in record else [period["label"] for period in record["added"]]
    return {name: record[name] for name in _TOLD} | {"added": added}


def contents(folder: Location, names: Sequence[str]) -> list[bytes]:
    """The contents of records."""
    if folder.local:
        folder.check_file()
        return [Path(folder.path, name).read_bytes() for name in names]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return [*pool.map(lambda name: folder.child(name).content(), names)]


def record_content(record: Mapping[str, Any]) -> bytes:
    """The record in one line, and its hash in another."""
    line = json.dumps(record).encode()
    return line + b"\n" + json.dumps({"hash": content_hash(line)}).encode() + b"\n"


def parsed(url: str, name: str, content: bytes) -> dict[str, Any]:
    """The record of a file; raises Damaged if its hash does not match."""
    line, _, seal = content.partition(b"\n")
    # Earlier versions wrote a CRC-32.
    if seal not in (b'{"hash": "%b"}\n' % content_hash(line).encode(), b'{"crc32": %d}\n' % zlib.crc32(line)):
        raise Damaged(f"{url} is damaged: {FOLDER}/{name} is not what was written; {MEND}.")
    record: dict[str, Any] = json.loads(line)
    if record["format"] not in (1, FORMAT):
        raise ValueError(
            f"This version of calibdask reads stores of periods of formats up to {FORMAT}, {url} has "
            f"{record['format']}; use the version that wrote it."
        )
    return record


def notes_of(periods: Iterable[Period]) -> RowNotes:
    """The notes on the rows of all periods."""
    return RowNotes.merged(RowNotes.from_text(one.notes).stored_of_rows(one.row_count) for one in periods)
