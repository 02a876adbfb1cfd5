"""Calls in turn, round by round, on both clocks; and ratios within a round."""

import gc
import statistics
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

Name = TypeVar("Name", bound=Hashable)

# A call is repeated within a round until this many seconds have passed, because clocks are coarse.
_SHORTEST = 0.02


@dataclass(frozen=True)
class Times:
    """Seconds of one call in each round: elapsed, and CPU time of all threads of this process."""

    wall: tuple[float, ...]
    cpu: tuple[float, ...]

    def on(self, clock: str) -> tuple[float, ...]:
        """Seconds of each round by the clock ``"wall"`` or ``"cores"``."""
        return self.wall if clock == "wall" else self.cpu

    def median(self, clock: str) -> float:
        """Median over rounds by the clock ``"wall"`` or ``"cores"``."""
        return statistics.median(self.on(clock))


@dataclass(frozen=True)
class Ratio:
    """Ratio of times within a round: the median, the smallest, the largest."""

    median: float
    low: float
    high: float


def timed(calls: Mapping[Name, Callable[[], Any]], rounds: int) -> dict[Name, Times]:
    """Time every call once per round, after an untimed call that compiles and fills caches."""
    for call in calls.values():
        call()
    seconds: dict[Name, list[tuple[float, float]]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            seconds[name].append(_round(call))
    return {
        name: Times(tuple(wall for wall, _ in pairs), tuple(cpu for _, cpu in pairs)) for name, pairs in seconds.items()
    }


def _round(call: Callable[[], Any]) -> tuple[float, float]:
    """Seconds of one call by both clocks, averaged over repetitions of a short one."""
    gc.collect()
    start, cpu, repeats = time.perf_counter(), time.process_time(), 0
    while True:
        call()
        repeats += 1
        wall = time.perf_counter() - start
        if wall >= _SHORTEST:
            return wall / repeats, (time.process_time() - cpu) / repeats


def ratio(of: Sequence[float], to: Sequence[float]) -> Ratio:
    """Ratios of the times of two calls within each round."""
    ratios = [a / b for a, b in zip(of, to, strict=True)]
    return Ratio(statistics.median(ratios), min(ratios), max(ratios))
