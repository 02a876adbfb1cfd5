"""Calls in turn, round by round, on both clocks; and ratios within a round."""

import gc
import statistics
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

__all__ = ["Ratio", "Times", "ratio", "timed"]

Name = TypeVar("Name", bound=Hashable)


@dataclass(frozen=True)
class Times:
    """Seconds of each round: that went by, and of all cores that this process used."""

    wall: tuple[float, ...]
    cpu: tuple[float, ...]

    @property
    def seconds(self) -> float:
        """Median over rounds of what went by."""
        return statistics.median(self.wall)

    @property
    def cores(self) -> float:
        """Median over rounds of what all cores were used."""
        return statistics.median(self.cpu)


@dataclass(frozen=True)
class Ratio:
    """Of times within a round: the median, the smallest, the largest."""

    median: float
    low: float
    high: float


def timed(calls: Mapping[Name, Callable[[], Any]], rounds: int) -> dict[Name, Times]:
    """Time every call once a round, after one that does not count: it compiles and fills caches."""
    for call in calls.values():
        call()
    found: dict[Name, list[tuple[float, float]]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            gc.collect()
            wall, cpu = time.perf_counter(), time.process_time()
            call()
            found[name].append((time.perf_counter() - wall, time.process_time() - cpu))
    return {name: Times(tuple(wall for wall, _ in each), tuple(cpu for _, cpu in each)) for name, each in found.items()}


def ratio(of: Sequence[float], to: Sequence[float]) -> Ratio:
    """Ratios of the times of two calls within each round."""
    each = [a / b for a, b in zip(of, to, strict=True)]
    return Ratio(statistics.median(each), min(each), max(each))
