"""Races: the same work by several programs, in turn, so that what else a machine does hits all of them alike."""

import gc
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import xarray as xr

__all__ = ["CLOCKS", "Race", "combined", "raced"]

# Seconds of all cores that a process used, and seconds that went by.
CLOCKS: Mapping[str, Callable[[], float]] = {"cores": time.process_time, "wall": time.perf_counter}

# A call is repeated within a round until it takes so long: clocks are coarse.
_SHORTEST = 0.02


@dataclass(frozen=True)
class Race:
    """One piece of work.

    Parameters
    ----------
    name : str
    entrants : mapping from str to callable
        Who does it; each is called without arguments.
    reference : str
        The entrant that ratios are of: merely reading the data, as a rule.
    units : int
        Scores, rows or pairs that the work is about, for times a unit.
    goal : mapping from str to float
        The most of ``measure`` that an entrant should take.
    measure : {"ratio", "nanoseconds", "seconds"}
        What goals are about: the ratio to the reference, the time of a unit or that of all.
    """

    name: str
    entrants: Mapping[str, Callable[[], Any]]
    reference: str
    units: int
    goal: Mapping[str, float] = field(default_factory=dict)
    measure: Literal["ratio", "nanoseconds", "seconds"] = "ratio"


def raced(race: Race, rounds: int = 5, clock: str = "cores") -> xr.Dataset:
    """Time every entrant once a round, after a call that does not count.

    Returns
    -------
    Dataset
        By entrant: ``seconds``, the median over rounds; ``ratio``, the median of the ratios to the reference within a
        round, with its smallest and largest; ``nanoseconds`` a unit; ``goal``. And ``measure``, what goals are about.
    """
    now = CLOCKS[clock]
    repeats = {name: _repeats(call) for name, call in race.entrants.items()}
    times: dict[str, list[float]] = {name: [] for name in race.entrants}
    for _ in range(rounds):
        for name, call in race.entrants.items():
            gc.collect()
            start = now()
            for _ in range(repeats[name]):
                call()
            times[name].append((now() - start) / repeats[name])
    ratios = {
        name: [one / other for one, other in zip(each, times[race.reference], strict=True)]
        for name, each in times.items()
    }
    median = {name: statistics.median(each) for name, each in times.items()}
    columns = {
        "seconds": [median[name] for name in times],
        "nanoseconds": [median[name] / race.units * 1e9 for name in times],
        "ratio": [statistics.median(ratios[name]) for name in times],
        "ratio_low": [min(ratios[name]) for name in times],
        "ratio_high": [max(ratios[name]) for name in times],
        "goal": [race.goal.get(name, float("nan")) for name in times],
    }
    found = xr.Dataset({name: ("entrant", values) for name, values in columns.items()}, {"entrant": list(times)})
    return found.assign(measure=race.measure)


def combined(results: Mapping[str, xr.Dataset]) -> xr.Dataset:
    """Results of races by name, along ``race``; entrants that a race does not have are NaN."""
    return xr.concat(list(results.values()), dim=xr.DataArray(list(results), dims="race", name="race"), join="outer")


def _repeats(call: Callable[[], Any]) -> int:
    """How often a call has to be repeated; the first one compiles and fills caches."""
    call()
    start = time.perf_counter()
    call()
    return max(1, round(_SHORTEST / max(time.perf_counter() - start, 1e-9)))
