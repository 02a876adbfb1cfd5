"""Saved state of a monitor as JSON values; resuming from it is exact to the last bit."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from calibdask.inference.sequential.processes import ProcessState
from calibdask.storage.manifest import HASH, is_intact, sealed

# Format 1, of earlier versions, has no hash.
FORMAT = 2

Labels = npt.NDArray[Any]


@dataclass(frozen=True)
class MonitoringSettings:
    """Settings of a monitor; a saved state fits only monitors with equal settings.

    ``groups`` names the clusters that count once in a period, or is empty.
    """

    setting: str
    period: str
    tolerance: float
    alpha: float
    classes: int
    cells: int
    groups: str = ""


@dataclass(frozen=True, eq=False)
class SavedState:
    """The past of all processes, in the order of the slices.

    ``periods`` are the labels of all periods so far, and ``digests`` tell the rows of each.
    """

    watched: MonitoringSettings
    slices: Mapping[str, Labels]
    columns: int
    periods: Labels
    digests: tuple[str, ...]
    processes: ProcessState

    def to_dict(self) -> dict[str, Any]:
        """Numbers, texts, lists and mappings."""
        watched = {field.name: getattr(self.watched, field.name) for field in fields(MonitoringSettings)}
        processes = {name: part.tolist() for name, part in self.processes._asdict().items()}
        if not self.watched.groups:
            # As earlier versions have it: rows are counted by group of scores.
            del watched["groups"], processes["counted"]
        state = {
            "format": FORMAT,
            "watched": watched,
            "slices": {name: _as_lists(labels) for name, labels in self.slices.items()},
            "columns": self.columns,
            "periods": _as_lists(self.periods),
            "digests": [*self.digests],
            "processes": processes,
        }
        return sealed(state)

    @classmethod
    def from_dict(cls, state: Any) -> "SavedState":
        """The state in such a dict.

        Raises
        ------
        ValueError
            If it has another format, or is damaged.
        """
        if not isinstance(state, Mapping) or "format" not in state:
            raise ValueError(
                "state expects what an earlier cd.watch returned as its attribute 'state', as dict or text."
            )
        if state["format"] not in (1, FORMAT):
            raise ValueError(
                f"This version of calibdask reads states of formats up to {FORMAT}, got {state['format']!r}."
            )
        if (state["format"] == FORMAT or HASH in state) and not is_intact(state):
            raise ValueError("state is damaged, or was changed by hand: its hash does not match; start without it.")
        try:
            slices = {name: _labels(lists) for name, lists in state["slices"].items()}
            columns = int(state["columns"])
            expected = ProcessState.empty(int(np.prod([len(labels) for labels in slices.values()])) * columns)
            parts = {name: np.array(values) for name, values in state["processes"].items()}
            parts.setdefault("counted", parts["rows"].sum(-1))
            typed = {
                name: parts[name].astype(part.dtype).reshape(part.shape) for name, part in expected._asdict().items()
            }
            watched = MonitoringSettings(**state["watched"])
            periods, digests = _labels(state["periods"]), tuple(map(str, state["digests"]))
            if len(digests) != periods.size:
                raise ValueError(f"{len(digests)} digests of {periods.size} periods")
            saved = cls(watched, slices, columns, periods, digests, ProcessState(**typed))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ValueError(f"state is damaged, or was made by hand: {error!r}; start without it.") from error
        if not all(np.isfinite(part).all() for part in saved.processes):
            raise ValueError("state is damaged: it holds numbers that are not finite; start without it.")
        if reason := _implausible(saved):
            raise ValueError(f"state is damaged, or was made by hand: {reason}; start without it.")
        return saved


def _implausible(saved: SavedState) -> str:
    """Sums of a saved state that no monitor can reach; empty if all are possible."""
    past, rows = saved.processes, saved.processes.rows
    # Scores and squares are at most 1, up to rounding and the width of a cell.
    most = rows * 1.01
    counts = [("rows", rows), ("events", past.events), ("scores", past.scores), ("squares", past.square)]
    clusters = bool(saved.watched.groups)
    for name, values in [*counts, ("run lengths", past.run_length), ("largest evidence", past.largest)]:
        if (values < 0).any():
            return f"{name} are negative"
    of_rows = [("rows", past.counted)] if clusters else [("rows", rows), ("events", past.events)]
    for name, values in of_rows:
        if (values != np.rint(values)).any():
            return f"{name} are not whole numbers"
    if clusters and (rows.sum(-1) > 1.01 * past.counted).any():
        return "there are more clusters than rows"
    # Sums of exponents are rounded.
    most_events = most if clusters else rows
    if (past.events > most_events).any() or (past.scores > most).any() or (past.square > most.sum(-1)).any():
        return "there are more events, scores or squares than rows"
    periods = saved.periods.size
    if (past.run_length > periods).any() or (past.start < -1).any() or (past.start >= max(1, periods)).any():
        return f"there are processes of more than {periods} periods"
    return ""


def _as_lists(labels: Labels) -> dict[str, Any]:
    kind = labels.dtype.kind
    values = np.datetime_as_string(labels).tolist() if kind == "M" else labels.tolist()
    if kind == "f":
        values = [None if np.isnan(value) else value for value in values]
    return {"type": labels.dtype.str, "values": values}


def _labels(lists: Mapping[str, Any]) -> Labels:
    values = [np.nan if value is None else value for value in lists["values"]]
    return np.array(values, np.dtype(lists["type"]))
