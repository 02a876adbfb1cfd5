"""Prevalences that `PriorShift` estimates from unlabelled scores: error and coverage under simulated shifts."""

import argparse
import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

import calibdask as cd

PREVALENCES, ROWS = (0.005, 0.02, 0.1, 0.5), (300, 1000)
TRAINING = {"balanced": (0.5, 2000), "rare": (0.05, 10_000)}
HEAD = "| training data | scores | prevalence | unlabelled rows | median estimate | root mean square error | covered |"


def drawn(rng: np.random.Generator, rows: int, prevalence: float, trained: float, steepness: float) -> tuple[Any, Any]:
    """Labels, and scores of a model of normal features, trained at another prevalence; right for steepness 1."""
    labels = (rng.random(rows) < prevalence).astype(int)
    feature = rng.normal(2.0 * labels)
    logit = 2.0 * feature - 2.0 + np.log(trained / (1 - trained))
    return labels, 1 / (1 + np.exp(-steepness * logit))


def measured(training: str, kind: str, prevalence: float, rows: int, sets: int) -> tuple[float, float, float]:
    """Median estimate, root mean square error, and share of 95 % intervals that cover."""
    trained, labelled = TRAINING[training]
    steepness, estimates, covered = (1.0 if kind == "calibrated" else 1.5), [], 0
    for seed in range(sets):
        rng = np.random.default_rng([seed, rows, int(1000 * prevalence)])
        labels, scores = drawn(rng, labelled, trained, trained, steepness)
        _, fresh = drawn(rng, rows, prevalence, trained, steepness)
        if kind == "recalibrated":
            platt = cd.PlattScaling().fit(labels, scores)
            scores, fresh = platt.predict_proba(scores)[:, 1], platt.predict_proba(fresh)[:, 1]
        shift = cd.PriorShift().fit(labels, scores).estimate_prevalence(fresh, replicates=100, seed=seed)
        estimates.append(float(shift.prevalence_[1]))
        covered += bool(shift.prevalence_low_[1] <= prevalence <= shift.prevalence_high_[1])
    error = np.sqrt(np.mean((np.array(estimates) - prevalence) ** 2))
    return float(np.median(estimates)), float(error), covered / sets


def table(sets: int) -> Iterator[str]:
    """A line for each shift."""
    yield HEAD
    yield "| --- " * 7 + "|"
    cells = [*itertools.product(TRAINING, ("calibrated",), PREVALENCES, ROWS)]
    cells += [*itertools.product(("balanced",), ("overconfident", "recalibrated"), (0.02, 0.1), (1000,))]
    for training, kind, prevalence, rows in cells:
        median, error, covered = measured(training, kind, prevalence, rows, sets)
        yield f"| {training} | {kind} | {prevalence} | {rows:,} | {median:.4f} | {error:.4f} | {covered:.3f} |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", type=int, default=100, help="pairs of samples of each shift")
    for line in table(parser.parse_args().sets):
        print(line, flush=True)


if __name__ == "__main__":
    main()
