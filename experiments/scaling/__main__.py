"""Run races on one core and write their tables."""

import argparse
import os
from pathlib import Path

from threadpoolctl import threadpool_limits

from experiments.scaling.race import CLOCKS, combined, raced
from experiments.scaling.report import markdown, surroundings, write
from experiments.scaling.workloads import WORKLOADS


def main() -> None:
    """Race the chosen workloads, one after the other, on the first core that this process may use."""
    parser = argparse.ArgumentParser(prog="python -m experiments.scaling", description=__doc__)
    parser.add_argument("workloads", nargs="*", choices=[*WORKLOADS, []], help="all, where none is named")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--clock", choices=list(CLOCKS), default="cores")
    parser.add_argument("--shrink", type=int, default=1, metavar="FACTOR", help="fewer rows, to try it out")
    parser.add_argument("--out", type=Path, metavar="FOLDER")
    chosen = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    results = {}
    with threadpool_limits(1):
        for name in chosen.workloads or WORKLOADS:
            for race in WORKLOADS[name](chosen.shrink):
                results[race.name] = raced(race, chosen.rounds, chosen.clock)
    result = combined(results).assign_attrs(surroundings(chosen.clock, chosen.rounds))
    print(markdown(result))
    if chosen.out:
        write(result, chosen.out)


if __name__ == "__main__":
    main()
