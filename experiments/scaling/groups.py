"""Cost of clusters: the default metrics with intervals, with groups and without.

Run ``python -m experiments.scaling.groups``; 10**7 rows and 10**5 clusters take a few minutes.
"""

import argparse
import resource
from time import perf_counter

import numpy as np

import calibdask as cd


def main() -> None:
    """Print seconds of either call, their ratio and the largest memory."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--clusters", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=2)
    chosen = parser.parse_args()
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
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(
        f"{chosen.rows:,} rows, {chosen.clusters:,} clusters: {without:.1f} s without groups, {with_groups:.1f} s with"
    )
    print(f"ratio {with_groups / without:.2f}, at most {memory:.1f} GB")


if __name__ == "__main__":
    main()
