"""Cost of clusters: the default metrics with intervals, with groups and without; and memory as groups grow in number.

Run ``python -m experiments.scaling.groups``; 10**7 rows and 10**5 clusters take a few minutes. ``--growing 300000
3000000 30000000`` prints the peak memory after evaluating so many groups of one row, a block in memory at a time.
"""

import argparse
import resource
from collections.abc import Iterator
from time import perf_counter
from typing import Any

import numpy as np

import calibdask as cd


def main() -> None:
    """Print seconds of either call, their ratio and the largest memory."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--clusters", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--growing", type=int, nargs="+", metavar="GROUPS")
    chosen = parser.parse_args()
    if chosen.growing:
        for groups in sorted(chosen.growing):
            start = perf_counter()
            result = cd.evaluate(blocks(groups), metrics={"brier": cd.BrierScore()}, ci=0.95)
            words = f"{groups:,} groups, counted {int(result.clusters):,}, {perf_counter() - start:.0f} s"
            print(f"{words}: at most {peak():.2f} GB so far", flush=True)
        return
    rng = np.random.default_rng(0)
    groups = rng.integers(0, chosen.clusters, chosen.rows)
    scores = rng.random(chosen.rows)
    logits = np.log(scores / (1 - scores)) + 0.5 * rng.normal(size=chosen.clusters)[groups]
    labels = (rng.random(chosen.rows) < 1 / (1 + np.exp(-logits))).astype(np.int8)
    few = slice(1000)
    cd.evaluate(labels[few], scores[few], ci=0.95, groups=groups[few])
    cd.evaluate(labels[few], scores[few], ci=0.95)
    seconds = []
    for options in ({}, {"groups": groups}):
        times = []
        for _ in range(chosen.rounds):
            start = perf_counter()
            cd.evaluate(labels, scores, ci=0.95, **options)
            times.append(perf_counter() - start)
        seconds.append(min(times))
    without, with_groups = seconds
    print(
        f"{chosen.rows:,} rows, {chosen.clusters:,} clusters: {without:.1f} s without groups, {with_groups:.1f} s with"
    )
    print(f"ratio {with_groups / without:.2f}, at most {peak():.1f} GB")


def blocks(groups: int, rows: int = 1_000_000) -> Iterator[tuple[Any, ...]]:
    """Groups of one row, a block at a time."""
    rng = np.random.default_rng(0)
    for start in range(0, groups, rows):
        numbers = np.arange(start, min(start + rows, groups))
        scores = rng.random(numbers.size)
        yield (rng.random(numbers.size) < scores).astype(np.int8), scores, None, numbers


def peak() -> float:
    """Largest memory of this process so far, in GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


if __name__ == "__main__":
    main()
