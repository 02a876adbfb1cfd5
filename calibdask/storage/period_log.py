"""The log of a store of periods: one record for each change, numbered without gaps, and none is ever changed.

A change is done once its record is there, and none of it before. Two that write at once aim at the same number, which
one of them gets (`calibdask.storage.exclusive`); the other reads the log again.
"""

import json
import re
import zlib
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from calibdask import __version__
from calibdask.errors import Damaged
from calibdask.storage.exclusive import create
from calibdask.storage.location import Location
from calibdask.storage.replacing import owned_name
from calibdask.storage.retry import with_retries
from calibdask.storage.slice_labels import Labels, from_json, to_json

FORMAT = 1
FOLDER = "log"
_RECORD = re.compile(r"(\d{8})\.jsonl")
# What the history says of a change, besides the periods that it added.
_TOLD = ("date", "action", "reason", "removed")
# Small files of an object store are read side by side.
_AT_ONCE = 16

Label = str | int


@dataclass(frozen=True, eq=False)
class Period:
    """What the log says of a period: enough to know a summary without its numbers.

    Parameters
    ----------
    label : str or int
    folder : str
        Where its numbers are.
    slices : mapping of str to array
        The labels along the dimensions of slices.
    rows : array
        Of models and slices.
    sums : mapping of str to int
        Checksums of the metadata of its arrays.
    merged : tuple of str
        The labels of finer periods that were merged into it.
    totals : str
        The file of its sums over all slices (`calibdask.storage.period_totals`); empty where there is none.
    """

    label: Label
    folder: str
    slices: Mapping[str, Labels]
    rows: npt.NDArray[np.int64]
    sums: Mapping[str, int]
    merged: tuple[str, ...] = ()
    totals: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Values that JSON holds."""
        slices = {name: to_json(labels) for name, labels in self.slices.items()}
        own = {"label": self.label, "folder": self.folder, "slices": slices, "rows": self.rows.tolist()}
        return own | {"sums": dict(self.sums), "merged": [*self.merged], "totals": self.totals}

    @classmethod
    def from_dict(cls, known: Mapping[str, Any]) -> "Period":
        """The period again."""
        slices = {name: from_json(labels) for name, labels in known["slices"].items()}
        rows = np.array(known["rows"], np.int64)
        # Records of the first days have none.
        files = tuple(known["merged"]), known.get("totals", "")
        return cls(known["label"], known["folder"], slices, rows, known["sums"], *files)


@dataclass(frozen=True, eq=False)
class Change:
    """Periods that come, and labels of those that go, in one record."""

    dimension: str
    action: str
    added: tuple[Period, ...]
    removed: tuple[Label, ...] = ()
    reason: str = ""


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
        When folders of periods, and files of their totals, were removed.
    """

    url: str
    dimension: str = ""
    periods: Mapping[Label, Period] = field(default_factory=dict)
    number: int = 0
    history: tuple[Mapping[str, Any], ...] = ()
    gone: Mapping[str, str] = field(default_factory=dict)

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
    def read(cls, store: Location) -> "PeriodLog":
        """The log of a store.

        Raises
        ------
        Damaged
            If a record is missing or is not what was written.
        """
        folder = store.child(FOLDER)
        names = _names(folder)
        periods: dict[Label, Period] = {}
        history: list[Mapping[str, Any]] = []
        gone: dict[str, str] = {}
        dimension = ""
        for number, (name, content) in enumerate(zip(names, _contents(folder, names), strict=True)):
            if name != _name(number):
                raise Damaged(f"{store.url} is not whole: {FOLDER}/{_name(number)} is missing; copy the store again.")
            record = _parsed(store.url, name, content)
            dimension = record["dimension"]
            removed = [periods.pop(label) for label in record["removed"]]
            gone |= {name: record["date"] for period in removed for name in (period.folder, period.totals) if name}
            periods |= {period["label"]: Period.from_dict(period) for period in record["added"]}
            if record["removed"]:
                added = [period["label"] for period in record["added"]]
                history.append({name: record[name] for name in _TOLD} | {"added": added})
        return cls(store.url, dimension, periods, len(names), tuple(history), gone)


def commit(store: Location, change: Callable[[PeriodLog], Change]) -> PeriodLog:
    """Make a change to a store, whole or not at all; the log before it.

    Parameters
    ----------
    store : Location
    change : function
        Says what is to be changed, given the log; called again where another one was first. What it raises ends this,
        and nothing has changed.
    """
    while True:
        log = PeriodLog.read(store)
        made = change(log)
        record = {
            "format": FORMAT,
            "id": owned_name(),
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
            "calibdask_version": __version__,
            "dimension": made.dimension,
            "action": made.action,
            "reason": made.reason,
            "removed": [*made.removed],
            "added": [period.to_dict() for period in made.added],
        }
        if create(store.child(FOLDER), _name(log.number), _content(record)):
            return log


def _name(number: int) -> str:
    return f"{number:08d}.jsonl"


def _names(folder: Location) -> list[str]:
    folder.fs.invalidate_cache(folder.path)
    try:
        paths = with_retries(lambda: folder.fs.ls(folder.path, detail=False))
    except FileNotFoundError:
        return []
    names = (str(path).rstrip("/").rpartition("/")[2] for path in paths)
    return sorted(name for name in names if _RECORD.fullmatch(name))


def _contents(folder: Location, names: list[str]) -> list[bytes]:
    if folder.local:
        return [Path(folder.path, name).read_bytes() for name in names]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return [*pool.map(lambda name: with_retries(partial(folder.fs.cat_file, f"{folder.path}/{name}")), names)]


def _content(record: Mapping[str, Any]) -> bytes:
    """The record in one line, and its checksum in another."""
    line = json.dumps(record).encode()
    return line + b"\n" + json.dumps({"crc32": zlib.crc32(line)}).encode() + b"\n"


def _parsed(url: str, name: str, content: bytes) -> dict[str, Any]:
    line, _, seal = content.partition(b"\n")
    if seal != json.dumps({"crc32": zlib.crc32(line)}).encode() + b"\n":
        raise Damaged(f"{url} is damaged: {FOLDER}/{name} is not what was written; copy the store again.")
    record: dict[str, Any] = json.loads(line)
    if record["format"] != FORMAT:
        raise ValueError(
            f"This version of calibdask reads stores of periods of format {FORMAT}, {url} has {record['format']}; use "
            "the version that wrote it."
        )
    return record
