"""State file of ``calibdask watch``: processes, alarms, which of them were reported, and which run reports the others.

A run claims alarms in the state before it reports them: of several that see the same alarm one reports it. Reported, or
not for an error, the alarms lose the claim. That of a run that was killed counts no more, and the next run reports its
alarms.
"""

import json
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from calibdask.analyses.monitoring.alarms import Alarm
from calibdask.safe_text import visible_address
from calibdask.storage.atomic_replace import Output
from calibdask.storage.claims import current_text, is_over, replace_text
from calibdask.storage.documents import parse_object
from calibdask.storage.location import Location
from calibdask.storage.manifest import HASH, is_intact, new_identity, sealed

# Format 1, of earlier versions, has neither an identity nor a hash.
_FORMAT = 2
# Seconds until a run gives up to say that it has reported alarms: others write for a moment.
_PAUSES = (0.0, 0.05, 0.2, 0.5, 1.0, 2.0, 4.0)


@dataclass(frozen=True)
class WatchState:
    """State of the processes, the alarms so far, the keys of alarms not yet reported, and the runs that claim them.

    ``text`` is that of the file, None where there is none: another run that writes it meanwhile is noticed. ``watch``
    is the identity of the watch, which stays the same from run to run.
    """

    target: Output | None
    text: str | None = None
    processes: Mapping[str, Any] | None = None
    alarms: tuple[Alarm, ...] = ()
    untold: frozenset[str] = frozenset()
    claims: Mapping[str, str] = field(default_factory=dict)
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
            text = None if target is None else current_text(target)
            if text is None:
                return cls(target)
            if not text.strip():
                raise ValueError("it is empty")
            document = parse_object(text)
            if document["format"] not in (1, _FORMAT):
                raise ValueError(f"its format is {document['format']!r}, expected one up to {_FORMAT}")
            if (document["format"] == _FORMAT or HASH in document) and not is_intact(document):
                raise ValueError("its hash does not match its contents")
            alarms = tuple(map(Alarm.from_dict, document["alarms"]))
            watch = str(document.get("watch") or new_identity())
            untold = frozenset(map(str, document["untold"]))
            claims = {str(key): str(run) for key, run in document.get("claims", {}).items()}
            if strange := (untold | {*claims}) - {alarm.key for alarm in alarms}:
                raise ValueError(f"of {len(strange)} alarms to report lack numbers")
            return cls(target, text, document["state"], alarms, untold, claims, watch)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(
                f"{_target_text(target)} is not a state of calibdask watch --state, or it is corrupted: "
                f"{f'it lacks {error}' if isinstance(error, KeyError) else error}. Give another name, or remove it to "
                "watch all periods again."
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

    def claimed(self, run: str) -> "WatchState":
        """The state in which a run reports all alarms that no other run is about to report."""
        mine = {key: run for key in self.untold if is_over(self.claims.get(key, ""))}
        return replace(self, claims={**self.claims, **mine})

    def claimed_by(self, run: str) -> frozenset[str]:
        """The keys of the alarms that a run reports."""
        return frozenset(key for key, claimant in self.claims.items() if claimant == run)

    def written(self) -> "WatchState":
        """Write the file, if there is one to write, in the place of the one that was read.

        Raises
        ------
        ValueError
            If another run has written it meanwhile.
        """
        written = self._written()
        if written is None:
            raise ValueError(
                f"Another run has meanwhile written {_target_text(self.target)}, so this run reports and saves "
                "nothing; run one at a time, and repeat this run."
            )
        return written

    def settled(self, run: str, *, reported: bool) -> "WatchState":
        """The state, as it is now, in which the alarms of a run are reported, or wait for the next run.

        Raises
        ------
        ValueError
            If it cannot be written.
        """
        for pause in _PAUSES:
            time.sleep(pause)
            current = self if self.target is None else WatchState.read(self.target)
            mine = current.claimed_by(run)
            claims = {key: claimant for key, claimant in current.claims.items() if key not in mine}
            untold = current.untold - mine if reported else current.untold
            written = replace(current, claims=claims, untold=untold)._written() if mine else current
            if written is not None:
                return written
        raise ValueError(
            f"{_target_text(self.target)} was busy with other runs, so the alarms reported by this run were not "
            "recorded; the next run reports them again."
        )

    def _written(self) -> "WatchState | None":
        """The state with the text that was written; None if the file is no longer the one that was read."""
        if self.target is None:
            return self
        document = {
            "format": _FORMAT,
            "watch": self.watch,
            "alarms": [alarm.to_dict() for alarm in self.alarms],
            "untold": sorted(self.untold),
            "claims": dict(sorted(self.claims.items())),
            "state": self.processes,
        }
        text = json.dumps(sealed(document), allow_nan=False) + "\n"
        if text == self.text:
            return self
        return replace(self, text=text) if replace_text(self.target, self.text, text) else None


def _target_text(target: Output | None) -> str:
    return visible_address(target.url if isinstance(target, Location) else str(target))
