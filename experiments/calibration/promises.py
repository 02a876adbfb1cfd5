"""How often decisions on limits, and the worst slices, are wrong, and how many rows they need."""

import argparse
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import calibdask as cd
from calibdask.estimators.binned.cautious import CautiousECE
from calibdask.results.decisions import Decision, Evidence
from calibdask.results.values import Results

LIMIT = 0.03
# Shares of the rows, their scores and the probabilities there. Of all of them the true error is the limit.
CASES: dict[str, list[tuple[float, float, float]]] = {
    "rate .04 scored .01": [(1.0, 0.01, 0.04)],
    "rate .03 scored 0": [(1.0, 0.0, 0.03)],
    "rate .01 scored .04": [(1.0, 0.04, 0.01)],
    "rate .96 scored .99": [(1.0, 0.99, 0.96)],
    "rate .53 scored .5": [(1.0, 0.5, 0.53)],
    "rare, signs cancel": [(0.5, 0.01, 0.04), (0.5, 0.10, 0.07)],
    "rare and balanced, signs cancel": [(0.5, 0.01, 0.04), (0.5, 0.50, 0.47)],
    "3 % off by 1": [(0.97, 0.0, 0.0), (0.03, 1.0, 0.0)],
    "10 % off by .3": [(0.9, 0.0, 0.0), (0.1, 0.1, 0.4)],
    "five rare bins": [(0.2, s, s + 0.03) for s in (0.01, 0.10, 0.17, 0.23, 0.30)],
    "ten bins, signs alternate": [(0.1, k / 10 + 0.03, k / 10 + 0.03 + 0.03 * (-1) ** k) for k in range(10)],
}
SCORES: dict[str, Callable[[Any, Any], Any]] = {
    "uniform": lambda rng, shape: rng.random(shape),
    "six values": lambda rng, shape: rng.choice([0.02, 0.1, 0.3, 0.5, 0.7, 0.9], shape),
    "rare, beta(1, 24)": lambda rng, shape: rng.beta(1, 24, shape),
    "rare, .01": lambda rng, shape: np.full(shape, 0.01),
    "confident, beta(9, 1)": lambda rng, shape: rng.beta(9, 1, shape),
}
# Data sets that are evaluated together, with the same seed of replicates.
AT_ONCE = 50


def main() -> None:
    """Print a line for each case and number of rows."""
    commands = {"decisions": decisions, "slices": slices, "rows": rows_needed}
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=list(commands))
    parser.add_argument("--rows", type=int, nargs="+", default=[30, 100, 500])
    parser.add_argument("--sets", type=int, default=2000, help="data sets; of slices, pages")
    parser.add_argument("--slices", type=int, default=100, help="on a page")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="cases, or scores, as in the code")
    chosen = parser.parse_args()
    warnings.simplefilter("ignore", UserWarning)
    for line in commands[chosen.what](chosen):
        print(line, flush=True)


def decided(labels: Any, scores: Any) -> Iterator[tuple[Decision, Decision]]:
    """Of each data set the decision by the interval alone, and that with evidence."""
    for start in range(0, len(labels), AT_ONCE):
        here = slice(start, start + AT_ONCE)
        metrics = {"ece": cd.ECE(), "cautious": CautiousECE()}
        result = cd.evaluate(labels[here], scores[here], metrics, task="binary", ci=0.95, seed=start)
        for k in range(result.ece.size):
            one = Results(result.isel({result.ece.dims[0]: k}))
            error, evidence = one.variable("ece").value(), Evidence.of(one, "cautious")
            yield Decision(error, LIMIT, requires_evidence=False), Decision(error, LIMIT, evidence)


def decisions(chosen: argparse.Namespace) -> Iterator[str]:
    """Wrong decisions where the limit is the true error: at most .025 of each kind are promised."""
    yield "| rows | case | met, interval alone | met | broken, interval alone | broken |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for rows in chosen.rows:
        for case in chosen.only or CASES:
            share, scores, probabilities = np.array(CASES[case]).T
            rng = np.random.default_rng([list(CASES).index(case), rows])
            place = rng.choice(share.size, (chosen.sets, rows), p=share)
            labels = (rng.random(place.shape) < probabilities[place]).astype(np.int8)
            outcomes = [[one.outcome for one in both] for both in decided(labels, scores[place])]
            rates = [np.mean([of[kind] == name for of in outcomes]) for name in ("met", "broken") for kind in (0, 1)]
            yield f"| {rows} | {case} | " + " | ".join(f"{rate:.4f}" for rate in rates) + " |"
    yield f"\n{chosen.sets} data sets: standard error {np.sqrt(0.025 * 0.975 / chosen.sets):.4f} at .025."


def slices(chosen: argparse.Namespace) -> Iterator[str]:
    """Pages of calibrated slices on which the first error is above 0: at most .025 are promised."""
    yield "| rows of a slice | scores | each slice by itself | adjusted |"
    yield "| --- | --- | --- | --- |"
    for rows in chosen.rows:
        for name in chosen.only or SCORES:
            rng = np.random.default_rng([list(SCORES).index(name), rows])
            by = {"place": np.arange(chosen.slices * rows) % chosen.slices}
            found = np.zeros(2)
            for page in range(chosen.sets):
                scores = SCORES[name](rng, chosen.slices * rows)
                labels = (rng.random(scores.shape) < scores).astype(np.int8)
                result = cd.evaluate(labels, scores, cd.ECE(), by=by, ci=0.95, seed=page)
                ranked = cd.worst_slices(result, "ece", 1, adjust=None), cd.worst_slices(result, "ece", 1)
                found += [float(worst.ece_low[0]) > 0 for worst in ranked]
            yield f"| {rows} | {name} | " + " | ".join(f"{count / chosen.sets:.3f}" for count in found) + " |"
    yield f"\n{chosen.sets} pages of {chosen.slices} slices."


def rows_needed(chosen: argparse.Namespace) -> Iterator[str]:
    """How often calibrated models meet the limit, and of how many rows half of them do by the report."""
    yield "| rows | scores | met, interval alone | met | rows needed |"
    yield "| --- | --- | --- | --- | --- |"
    for rows in chosen.rows:
        for name in chosen.only or SCORES:
            rng = np.random.default_rng([list(SCORES).index(name), rows])
            scores = SCORES[name](rng, (chosen.sets, rows))
            labels = (rng.random(scores.shape) < scores).astype(np.int8)
            both = list(decided(labels, scores))
            met = [np.mean([of[kind].outcome == "met" for of in both]) for kind in (0, 1)]
            needed = np.median([of[1].evidence.rows_needed(LIMIT) for of in both[:20] if of[1].evidence])
            yield f"| {rows} | {name} | {met[0]:.3f} | {met[1]:.3f} | {needed:.0f} |"
    yield f"\n{chosen.sets} data sets."


if __name__ == "__main__":
    main()
