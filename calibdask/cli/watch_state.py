"""State file of ``calibdask watch``: processes, alarms, and which alarms were reported."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from calibdask.analyses.monitoring.alarms import Alarm
from calibdask.safe_text import visible_address
from calibdask.storage.atomic_replace import Output, write_text
from calibdask.storage.documents import parse_json, read_bytes
from calibdask.storage.location import Location
from calibdask.storage.manifest import HASH, is_intact, new_identity, sealed

# Format 1, of earlier versions, has neither an identity nor a hash.
_FORMAT = 2


@dataclass(frozen=True)
class WatchState:
    """State of the processes, the alarms so far, and the keys of alarms not yet reported.

    ``text`` is that of the file, None where there is none: another run that writes it meanwhile is noticed. ``watch``
    is the identity of the watch, which stays the same from run to run.
    """

    target: Output | None
    text: str | None = None
    processes: Mapping[str, Any] | None = None
    alarms: tuple[Alarm, ...] = ()
    untold: frozenset[str] = frozenset()
    watch: str = field(default_factory=new_identity)

    @classmethod
    def read(cls, target: Output | None) -> "WatchState":
        """Read the state file; an empty state if there is none.

        Raises
        ------
        ValueError
            If it is no such file, empty, cut short or changed.
        """
        try:
            text = _text_of(target)
            if text is None:
                return cls(target)
            if not text.strip():
                raise ValueError("it is empty")
            document = parse_json(text)
            if document["format"] not in (1, _FORMAT):
                raise ValueError(f"its format is {document['format']!r}, expected one up to {_FORMAT}")
            if (document["format"] == _FORMAT or HASH in document) and not is_intact(document):
                raise ValueError("its hash does not match its contents")
            alarms = tuple(map(Alarm.from_dict, document["alarms"]))
            watch = str(document.get("watch") or new_identity())
            untold = frozenset(map(str, document["untold"]))
            if strange := untold - {alarm.key for alarm in alarms}:
                raise ValueError(f"of {len(strange)} alarms to report lack numbers")
            return cls(target, text, document["state"], alarms, untold, watch)
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(
                f"{_target_text(target)} is not a state of calibdask watch --state, or it is corrupted: "
                f"{f'it lacks {error}' if isinstance(error, KeyError) else error}. Give another name, or remove it to "
                "watch all periods anew."
            ) from error

    @property
    def alarm_keys(self) -> list[str]:
        """The keys of slices with an alarm."""
        return [alarm.key for alarm in self.alarms]

    def after(self, processes: Mapping[str, Any], alarms: Sequence[Alarm], untold: Collection[str]) -> "WatchState":
        """The state after a run with further alarms."""
        return replace(
            self, processes=processes, alarms=(*self.alarms, *alarms), untold=self.untold | frozenset(untold)
        )

    def acknowledged(self) -> "WatchState":
        """The state with all alarms reported."""
        return replace(self, untold=frozenset())

    def written(self) -> "WatchState":
        """Write the file, if there is one to write, in the place of the one that was read.

        Raises
        ------
        ValueError
            If another run has written it meanwhile.
        """
        if self.target is None:
            return self
        document = {
            "format": _FORMAT,
            "watch": self.watch,
            "alarms": [alarm.to_dict() for alarm in self.alarms],
            "untold": sorted(self.untold),
            "state": self.processes,
        }
        text = json.dumps(sealed(document), allow_nan=False) + "\n"
        if text == self.text:
            return self
        if _text_of(self.target) != self.text:
            raise ValueError(
                f"Another run has written {_target_text(self.target)} meanwhile, so this run reports and saves "
                "nothing; "
                "run one at a time, and repeat this one."
            )
        write_text(self.target, text)
        return replace(self, text=text)


def _text_of(target: Output | None) -> str | None:
    if isinstance(target, Path):
        return read_bytes(target).decode("utf-8") if target.exists() else None
    if isinstance(target, Location):
        with target.reading():
            # What another run has just written is no old news.
            target.fs.invalidate_cache()
            return bytes(target.fs.cat_file(target.path)).decode() if target.fs.exists(target.path) else None
    return None


def _target_text(target: Output | None) -> str:
    return visible_address(target.url if isinstance(target, Location) else str(target))
