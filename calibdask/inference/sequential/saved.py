"""What a monitor remembers, as values that JSON holds: it goes on from them to the same bits."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from calibdask.inference.sequential.processes import ProcessState

FORMAT = 1

Labels = npt.NDArray[Any]


@dataclass(frozen=True)
class Watched:
    """What is watched: states of other choices do not fit."""

    setting: str
    period: str
    tolerance: float
    alpha: float
    classes: int
    cells: int


@dataclass(frozen=True, eq=False)
class SavedState:
    """The past of all processes, in the order of the slices.

    ``periods`` are the labels of all periods so far, and ``digests`` tell the rows of each.
    """

    watched: Watched
    slices: Mapping[str, Labels]
    columns: int
    periods: Labels
    digests: tuple[str, ...]
    processes: ProcessState

    def to_dict(self) -> dict[str, Any]:
        """Numbers, texts, lists and mappings."""
        return {
            "format": FORMAT,
            "watched": {field.name: getattr(self.watched, field.name) for field in fields(Watched)},
            "slices": {name: _as_lists(labels) for name, labels in self.slices.items()},
            "columns": self.columns,
            "periods": _as_lists(self.periods),
            "digests": [*self.digests],
            "processes": {name: part.tolist() for name, part in self.processes._asdict().items()},
        }

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
        if state["format"] != FORMAT:
            raise ValueError(f"This version of calibdask reads states of format {FORMAT}, got {state['format']!r}.")
        try:
            slices = {name: _labels(lists) for name, lists in state["slices"].items()}
            columns = int(state["columns"])
            expected = ProcessState.empty(int(np.prod([len(labels) for labels in slices.values()])) * columns)
            parts = {name: np.array(values) for name, values in state["processes"].items()}
            typed = {
                name: parts[name].astype(part.dtype).reshape(part.shape) for name, part in expected._asdict().items()
            }
            watched = Watched(**state["watched"])
            periods, digests = _labels(state["periods"]), tuple(map(str, state["digests"]))
            if len(digests) != periods.size:
                raise ValueError(f"{len(digests)} digests of {periods.size} periods")
            saved = cls(watched, slices, columns, periods, digests, ProcessState(**typed))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ValueError(f"state is damaged, or was made by hand: {error!r}; begin without it.") from error
        if not all(np.isfinite(part).all() for part in saved.processes):
            raise ValueError("state is damaged: it holds numbers that are not finite; begin without it.")
        return saved


def _as_lists(labels: Labels) -> dict[str, Any]:
    kind = labels.dtype.kind
    values = np.datetime_as_string(labels).tolist() if kind == "M" else labels.tolist()
    if kind == "f":
        values = [None if np.isnan(value) else value for value in values]
    return {"type": labels.dtype.str, "values": values}


def _labels(lists: Mapping[str, Any]) -> Labels:
    values = [np.nan if value is None else value for value in lists["values"]]
    return np.array(values, np.dtype(lists["type"]))
