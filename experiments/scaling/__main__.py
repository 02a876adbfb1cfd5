"""Run the benchmarks on one core and write their tables."""

import argparse
import os
from pathlib import Path

from threadpoolctl import threadpool_limits

from experiments.scaling import history
from experiments.scaling.machine import surroundings
from experiments.scaling.peers import LEFT_OUT, missing
from experiments.scaling.race import CLOCKS
from experiments.scaling.tables import markdown, write
from experiments.scaling.workloads import WORKLOADS


def main() -> None:
    """Race the chosen workloads, one after the other, on the first core that this process may use."""
    parser = argparse.ArgumentParser(prog="python -m experiments.scaling", description=__doc__)
    parser.add_argument("workloads", nargs="*", choices=[*WORKLOADS, []], help="all, where none is named")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--clock", choices=CLOCKS, default="cores")
    parser.add_argument("--shrink", type=int, default=1, metavar="FACTOR", help="fewer rows, to try it out")
    parser.add_argument("--out", type=Path, metavar="FOLDER")
    parser.add_argument("--record", action="store_true", help="add the present commit to the history")
    chosen = parser.parse_args()
    if chosen.record and chosen.shrink > 1:
        parser.error("--record expects the full number of rows, so not --shrink.")
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    tables = {}
    with threadpool_limits(1):
        for name in chosen.workloads or WORKLOADS:
            for race in WORKLOADS[name](chosen.shrink):
                tables[race.name] = race.table(chosen.rounds, chosen.clock)
    attributes = surroundings(chosen.clock, chosen.rounds)
    attributes |= {"missing": ", ".join(missing()) or "none", "left out": f"{', '.join(LEFT_OUT)} (minutes a call)"}
    print(markdown(tables, attributes))
    if chosen.out:
        write(tables, attributes, chosen.out, "results")
    if chosen.record:
        history.record(history.lines_of(tables, attributes, history.commit()))


if __name__ == "__main__":
    main()
