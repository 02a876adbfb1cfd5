"""Coverage of the intervals of the cut-off error, and how often a limit that is the true error is met."""

import argparse
import itertools
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import calibdask as cd

ROWS_AT_ONCE = 1_000_000
LEVEL = 0.95


@dataclass(frozen=True)
class Population:
    """Uniform scores between two ends, the probability of the outcome at a score, and the true cut-off error."""

    low: float
    high: float
    chance: Callable[[Any], Any]
    truth: float

    def drawn(self, sets: int, rows: int, seed: int) -> tuple[Any, Any]:
        """Labels and scores, (sets, rows)."""
        rng = np.random.default_rng([rows, seed])
        scores = rng.uniform(self.low, self.high, (sets, rows))
        return (rng.random(scores.shape) < self.chance(scores)).astype(np.int8), scores


def waves(low: float, high: float, number: int, truth: float) -> Population:
    """Errors s + a sin(...) whose sign changes; a half wave is the largest error on an interval."""
    amplitude = truth * np.pi * number

    def chance(scores: Any) -> Any:
        return scores + amplitude * np.sin(2 * np.pi * number * (scores - low) / (high - low))

    return Population(low, high, chance, truth)


POPULATIONS: dict[str, Population] = {
    "balanced, calibrated": Population(0.0, 1.0, lambda s: s, 0.0),
    "balanced, too low by .01": Population(0.0, 0.98, lambda s: s + 0.01, 0.01),
    "balanced, three waves, .01": waves(0.2, 0.8, 3, 0.01),
    "balanced, too low by .1": Population(0.0, 0.9, lambda s: s + 0.1, 0.1),
    "balanced, too high by .1": Population(0.1, 1.0, lambda s: s - 0.1, 0.1),
    "balanced, one wave, .1": waves(0.35, 0.65, 1, 0.1),
    "rare (1 %), calibrated": Population(0.0, 0.02, lambda s: s, 0.0),
    "rare (1 %), too low by .01": Population(0.0, 0.001, lambda s: s + 0.01, 0.01),
    "rare (1 %), too high by .01": Population(0.01, 0.03, lambda s: s - 0.01, 0.01),
    "rare (1 %), too high by .1": Population(0.1, 0.12, lambda s: s - 0.1, 0.1),
    "very rare (0.1 %), calibrated": Population(0.0, 0.002, lambda s: s, 0.0),
    "very rare (0.1 %), too low by .001": Population(0.0, 0.0002, lambda s: s + 0.001, 0.001),
}
METRICS = {
    "both": cd.CutoffError(),
    "each": cd.CutoffError(ends="one-sided"),
    "free": cd.CutoffError(method="freedman"),
}
HEAD = "| population | " + " | ".join(
    ("rows", "covered", "needed / width", "above .. below", "limit met", "limit broken", "Freedman covered")
)


def sets_of(rows: int, sets: int) -> int:
    """Fewer data sets of many rows."""
    return max(100, min(sets, 5 * 10**7 // rows))


def ends_of(population: Population, rows: int, sets: int) -> dict[str, Any]:
    """Estimates, and ends of each interval, by data set."""
    step = max(1, ROWS_AT_ONCE // rows)
    parts = []
    for start in range(0, sets, step):
        labels, scores = population.drawn(min(step, sets - start), rows, start)
        result = cd.evaluate(labels, scores, METRICS, task="binary", ci=LEVEL)
        parts.append({str(name): np.atleast_1d(result[name].values) for name in result})
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def table(sizes: list[int], sets: int) -> Iterator[str]:
    """A line for each population and number of rows."""
    yield HEAD + " |"
    yield "| --- " * 8 + "|"
    for (name, population), rows in itertools.product(POPULATIONS.items(), sizes):
        ends, truth = ends_of(population, rows, sets_of(rows, sets)), population.truth
        low, high = ends["both_low"], ends["both_high"]
        needed = np.quantile(np.abs(ends["both"] - truth), LEVEL)
        reach = np.mean(np.maximum(high - ends["both"], ends["both"] - low))
        met = np.mean(ends["each_high"] <= truth) if truth else 0.0
        broken = np.mean(ends["each_low"] > truth)
        free = np.mean((ends["free_low"] <= truth) & (truth <= ends["free_high"]))
        cells = (
            f"{rows:,}",
            f"{np.mean((low <= truth) & (truth <= high)):.3f}",
            f"{needed:.4f} / {reach:.4f}",
            f"{np.mean(low > truth):.3f} .. {np.mean(high < truth):.3f}",
            f"{met:.3f}",
            f"{broken:.3f}",
            f"{free:.3f}",
        )
        yield f"| {name} | " + " | ".join(cells) + " |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[30, 100, 300, 1000, 10_000, 100_000, 1_000_000])
    parser.add_argument("--sets", type=int, default=2000, help="data sets of each population, fewer of many rows")
    chosen = parser.parse_args()
    warnings.simplefilter("ignore", UserWarning)
    for line in table(chosen.rows, chosen.sets):
        print(line, flush=True)


if __name__ == "__main__":
    main()
