"""Recovery of a store of periods whose log is damaged: all that is intact stays, and what was lost is named.

Each record is checked by its own hash, and by the record after it or the head, which have its hash too. A recovery
reads all records that are right, in their order. Numbers that no right record names were added by one that was lost:
if they are whole, their period is added again, in place of the one of that label, or of the finer ones within it, for
files that were replaced go after a day. What right records changed later stays as they say.

The outcome is one record that holds everything, behind all others, and a head from which reading begins there. Nothing
is removed from the log, so a recovery that was interrupted is made again.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

import numpy as np
import xarray as xr

from calibdask import __version__
from calibdask.errors import Damaged, Unavailable
from calibdask.storage.atomic_replace import owned_name
from calibdask.storage.exclusive_create import create
from calibdask.storage.leases import names_in
from calibdask.storage.location import Location
from calibdask.storage.manifest import content_hash, new_identity
from calibdask.storage.period_head import FOLDER, FORMAT, MARK, Head, record_names
from calibdask.storage.period_labels import check_kind, overlap, within
from calibdask.storage.period_log import (
    PARTS,
    Label,
    Period,
    PeriodLog,
    contents,
    number_of,
    parsed,
    record_content,
    record_name,
    told,
    unknown_files,
)
from calibdask.storage.period_store import PeriodStore
from calibdask.storage.period_totals import summed
from calibdask.storage.retry import with_retries
from calibdask.storage.summary import Summary
from calibdask.storage.summary_format import stored_states


@dataclass(frozen=True)
class Recovery:
    """What was wrong with a store of periods, and what became of it.

    Attributes
    ----------
    damaged : tuple of str
        Files of the log that were damaged or missing; empty where nothing was, and nothing was changed.
    recovered : tuple of str or int
        Periods that were read from their own files, as the record that added them was lost.
    replaced : tuple of str or int
        Periods in whose place those came.
    lost : tuple of str
        Files with numbers that no record names and that could not be added; removed by an `append` after a day.
    periods : tuple of str or int
        All periods of the store now.
    """

    damaged: tuple[str, ...]
    recovered: tuple[Label, ...]
    replaced: tuple[Label, ...]
    lost: tuple[str, ...]
    periods: tuple[Label, ...]


@dataclass(eq=False)
class _Replay:
    """The changes of all records that are right, since the last recovery, if there was one.

    ``settled`` are labels that changed after the first damaged record.
    """

    damaged: list[str] = field(default_factory=list)
    identity: str = ""
    dimension: str = ""
    periods: dict[Label, Period] = field(default_factory=dict)
    history: list[Mapping[str, Any]] = field(default_factory=list)
    gone: dict[str, str] = field(default_factory=dict)
    settled: set[Label] = field(default_factory=set)
    first: int = 0

    def apply(self, name: str, record: Mapping[str, Any]) -> None:
        """Make the change of a record."""
        self.identity = self.identity or record.get("store", "")
        self.dimension = record["dimension"]
        added = [Period.from_dict(period) for period in record["added"]]
        if "recovered" in record:
            self.periods, self.history, self.gone = {}, [*record["history"]], {**record["gone"]}
            self.damaged, self.settled, self.first = [], set(), number_of(name)
        else:
            for label in record["removed"]:
                removed = self.periods.pop(label, None)
                self.gone |= dict.fromkeys(() if removed is None else removed.files, name)
        self.gone |= dict.fromkeys(record.get("lost", ()), name)
        self.periods |= {period.label: period for period in added}
        if self.damaged:
            finer = (label for period in added for label in period.merged)
            self.settled |= {*record["removed"], *(period.label for period in added), *finer}
        if record["removed"] or record.get("lost") or "recovered" in record:
            self.history.append(told(record))


def recover(store: PeriodStore, reason: str) -> Recovery:
    """Make a damaged log readable again.

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
        If there is no log, or no record of it is right.
    """
    location = store.location
    folder, parts = location.child(FOLDER), location.child(PARTS)
    while True:
        names = record_names(folder)
        if not names:
            raise ValueError(
                f"{location.url} expects a store with periods added by calibdask.append, got no log there."
            )
        head = _head(location)
        replay = _replayed(location, head or Head(), names)
        if head is None or head.first < replay.first:
            # Damaged, or older than a recovery that was interrupted.
            replay.damaged.insert(0, MARK)
        parts.fs.invalidate_cache(parts.path)
        known = {file for period in replay.periods.values() for file in period.files} | {*replay.gone}
        unknown = unknown_files(names_in(parts), known)
        if unknown and not replay.damaged:
            replay.damaged.append(f"{FOLDER}/{record_name(number_of(names[-1]) + 1)}")
        if not replay.damaged:
            return Recovery((), (), (), (), tuple(replay.periods))
        found = {period.label: period for period in _intact(store, replay, unknown)}
        replaced = [label for label in replay.periods if label in found or within(label, [*map(str, found)])]
        new = [replace(period, merged=_merged(replay, label, replaced)) for label, period in found.items()]
        number = max(number_of(names[-1]) + 1, 0 if head is None else head.records)
        added = {label: one for label, one in replay.periods.items() if label not in replaced}
        added |= {period.label: period for period in new}
        lost = sorted({*unknown} - {file for period in new for file in period.files})
        before = [file for label in replaced for file in replay.periods[label].files]
        identity = replay.identity or (head.store if head else "") or new_identity()
        record = {
            "format": FORMAT,
            "id": owned_name(),
            "store": identity,
            "number": number,
            "previous": "",
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
            "calibdask_version": __version__,
            "dimension": replay.dimension,
            "action": "recover",
            "reason": reason,
            "removed": replaced,
            "added": [period.to_dict() for period in added.values()],
            "lost": [*lost, *before],
            "recovered": [*found],
            "history": replay.history,
            "gone": replay.gone,
        }
        content = record_content(record)
        if create(folder, record_name(number), content):
            Head(identity, number + 1, content_hash(content), number).write(location)
            everything = tuple(period.label for period in store.log().sorted)
            return Recovery(tuple(replay.damaged), tuple(found), tuple(replaced), tuple(lost), everything)


def _head(store: Location) -> Head | None:
    """The head of a store; None if it is damaged or missing, and there are records of this format."""
    try:
        head = Head.read(store)
    except Damaged:
        return None
    return head if head.records or store.has(MARK) else None


def _replayed(store: Location, head: Head, names: list[str]) -> _Replay:
    """What the records say that are right; the others are named."""
    names = [name for name in names if number_of(name) >= head.first]
    records: dict[int, dict[str, Any]] = {}
    hashes: dict[int, str] = {}
    for name, content in zip(names, contents(store.child(FOLDER), names), strict=True):
        number = number_of(name)
        hashes[number] = content_hash(content)
        try:
            records[number] = parsed(store.url, name, content)
        except Damaged:
            continue
    stores = Counter(record["store"] for record in records.values() if "store" in record)
    identity = head.store or (stores.most_common(1)[0][0] if stores else "")
    last = max(max(hashes, default=-1), head.records - 1)
    expected = head.last if last == head.records - 1 else ""
    for number in range(last, head.first - 1, -1):
        record = records.get(number)
        is_placed = record is not None and (
            record["format"] == 1 or (record["store"], record["number"]) == (identity, number)
        )
        if not is_placed or (expected and hashes[number] != expected):
            records.pop(number, None)
            # The one before is known by its own hash alone.
            expected = ""
        else:
            assert record is not None
            expected = record.get("previous", "")
    if not records:
        raise Damaged(f"{store.url} is damaged: no record of {FOLDER}/ is what was written; summarize the data again.")
    replay = _Replay(identity=identity)
    for number in range(head.first, last + 1):
        if number in records:
            replay.apply(record_name(number), records[number])
        else:
            replay.damaged.append(f"{FOLDER}/{record_name(number)}")
    return replay


def _merged(replay: _Replay, label: Label, replaced: list[Label]) -> tuple[str, ...]:
    """The finer periods that one stands for: those that went for it, and those that they stood for."""
    finer = [one for one in replaced if within(one, [str(label)])]
    before = [replay.periods[one].merged for one in replaced if one == label or one in finer]
    return tuple(dict.fromkeys([*(name for names in before for name in names), *map(str, finer)]))


def _intact(store: PeriodStore, replay: _Replay, unknown: tuple[str, ...]) -> Iterator[Period]:
    """Periods of records that were lost whose files are whole, and whose label is that of nothing else."""
    folders = [name for name in unknown if name.endswith(".zarr")]
    log = PeriodLog(store.location.url, replay.dimension, replay.periods)
    periods = [period for name in folders if (period := _period(store, log, name)) is not None]
    counts = Counter(period.label for period in periods)
    merged = {label for period in replay.periods.values() for label in period.merged}
    for period in periods:
        label = period.label
        others = [one for one in (*replay.periods, *counts) if one != label and not within(one, [str(label)])]
        is_free = counts[label] == 1 and label not in replay.settled and str(label) not in merged
        if is_free and not overlap([label], [label, *others]):
            yield period


def _period(store: PeriodStore, log: PeriodLog, name: str) -> Period | None:
    """The record of a folder of numbers; None if anything in it is damaged, or it is not like the others."""
    location = store.location
    try:
        manifest = content_hash(location.child(f"{name}/zarr.json").content())
        unread = Period("", name, {}, np.zeros(0, np.int64), manifest)
        summary: xr.Dataset = store.part(unread).load()
        given = Summary.of(summary)
        for state in stored_states(summary).values():
            state()
        axes = summary["rows"].dims[len(given.batch) :]
        if not axes or axes[0] != log.dimension or summary.sizes[axes[0]] != 1:
            return None
        (label,) = summary[axes[0]].values.tolist()
        check_kind(log.dimension, [label, *log.periods])
        with suppress(Damaged):
            store.check_fits(log, given, [label])
    except (Unavailable, PermissionError):
        raise
    except (ValueError, OSError):
        return None
    own = summary.isel({axes[0]: 0})
    totals, hashes = summed(own, axes[1:]) or (None, {})
    file = "" if totals is None else f"{name.removesuffix('.zarr')}.zip"
    if totals is not None:
        # That of the lost record had hashes, which nobody knows any more.
        place = location.child(file)
        with_retries(partial(place.fs.pipe_file, place.path, totals))
    slices = {str(axis): summary[axis].values for axis in axes[1:]}
    return Period(label, name, slices, own["rows"].values, manifest, (), file, hashes)
