"""Benchmarks: the same work by several programs in turn, so other load on the machine affects all of them equally."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from experiments.scaling.tables import Table
from experiments.scaling.timing import ratio, timed

# CPU seconds of all threads of the process, and elapsed seconds.
CLOCKS = ("cores", "wall")


@dataclass(frozen=True)
class Race:
    """One piece of work.

    Parameters
    ----------
    name : str
    entrants : mapping from str to callable
        Who does it; each is called without arguments.
    reference : str
        The entrant that ratios refer to: merely reading the data, as a rule.
    units : int
        Scores, rows or pairs in the work, for times per unit.
    goal : mapping from str to float
        The upper limit of ``measure`` for an entrant.
    measure : {"ratio", "nanoseconds", "seconds"}
        What goals refer to: the ratio to the reference, the time per unit or the total time.
    """

    name: str
    entrants: Mapping[str, Callable[[], Any]]
    reference: str
    units: int
    goal: Mapping[str, float] = field(default_factory=dict)
    measure: Literal["ratio", "nanoseconds", "seconds"] = "ratio"

    def table(self, rounds: int = 5, clock: str = "cores") -> Table:
        """Times of all entrants: medians over rounds, and ratios to the reference within a round."""
        times = timed(self.entrants, rounds)
        rows = []
        for name, taken in times.items():
            relative = ratio(taken.on(clock), times[self.reference].on(clock))
            seconds = taken.median(clock)
            row = {"entrant": name, "seconds": seconds, "nanoseconds": seconds / self.units * 1e9}
            rows.append(row | {"ratio": relative.median, "low": relative.low, "high": relative.high})
        about = "Seconds, nanoseconds per unit and ratios to the reference (median, smallest and largest)."
        return Table(about, rows, {self.measure: self.goal})
