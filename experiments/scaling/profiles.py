"""Profiles from a summary: seconds of all numbers of a profession with intervals, and of each metric by itself."""

import argparse
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import calibdask as cd
from calibdask.analyses.gating.profiles import PROFILES
from calibdask.engine.workers import number_of_threads
from calibdask.estimators.expression import parse_metrics
from experiments.scaling.machine import surroundings
from experiments.scaling.tables import Table, markdown

PAGE = Path(__file__).with_name("results") / "profiles.md"
ROWS = 1_000_000
GOAL = 0.2
# Scores by what they are like, as parameters of a beta distribution.
SCORES = {"rare, beta(1, 30)": (1, 30), "uniform": (1, 1)}
LEVEL = 0.95


def summarized(rows: int, density: tuple[float, float]) -> Any:
    """The summary of calibrated scores."""
    rng = np.random.default_rng(25)
    scores = rng.beta(*density, rows)
    return cd.summarize(rng.random(rows) < scores, scores, settings=("confidence", "classwise"))


def seconds(call: Callable[[], Any], rounds: int) -> tuple[float, float]:
    """The shortest wall clock and the least processor time of several calls, after one that loads kernels."""
    call()
    taken = []
    for _ in range(rounds):
        begun, used = time.perf_counter(), time.process_time()
        call()
        taken.append((time.perf_counter() - begun, time.process_time() - used))
    wall, processor = (min(times) for times in zip(*taken, strict=True))
    return wall, processor


def tables_of(rows: int, rounds: int, shown: Mapping[str, tuple[float, float]]) -> dict[str, Table]:
    """Seconds of profiles, and of the metrics in them."""
    profiles: list[dict[str, Any]] = []
    metrics: dict[str, dict[str, Any]] = {}
    for kind, density in shown.items():
        summary = summarized(rows, density)
        for name, profile in PROFILES.items():
            chosen = {text: expression.make() for text in profile.names for expression in parse_metrics(text)}
            wall, processor = seconds(partial(cd.evaluate, summary, metrics=chosen, ci=LEVEL), rounds)
            profiles.append({"scores": kind, "profile": name, "seconds": wall, "processor_seconds": processor})
            for text, metric in chosen.items():
                row = metrics.setdefault(text, {"metric": text})
                if kind not in row:
                    row[kind] = seconds(partial(cd.evaluate, summary, metrics=metric, ci=LEVEL), rounds)[1]
    about = (
        f"All numbers of a profile with intervals of 200 replicates, from a summary of {rows:,} rows; the shortest of "
        f"{rounds} calls on {number_of_threads()} threads. Goal: {GOAL} s of wall clock on two idle cores."
    )
    return {
        "profiles": Table(about, profiles, {"seconds": GOAL}),
        "metrics": Table("Processor seconds of each metric by itself, by the scores.", list(metrics.values())),
    }


def main() -> None:
    """Measure, and write the page."""
    parser = argparse.ArgumentParser(prog="python -m experiments.scaling.profiles", description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=PAGE)
    chosen = parser.parse_args()
    text = markdown(tables_of(chosen.rows, chosen.rounds, SCORES), surroundings("cores", chosen.rounds))
    title = "# Profiles from a summary\n\nWritten by `python -m experiments.scaling.profiles`.\n\n"
    chosen.out.write_text(title + text, encoding="utf-8")


if __name__ == "__main__":
    main()
