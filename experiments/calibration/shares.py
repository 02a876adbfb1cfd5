"""Noise floors of soft labels: those of one data set against errors of simulated calibrated models."""

import argparse
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import calibdask as cd

ROWS, CLUSTER = 2000, 5
ERRORS = {"ece": cd.ECE(), "cutoff": cd.CutoffError()}
HEAD = "| shares | model | mean, ECE | 95 % point, ECE | mean, cut-off error | 95 % point, cut-off error |"

Drawn = Callable[[np.random.Generator, Any, Any], Any]


def raters(rng: np.random.Generator, truth: Any, scores: Any) -> Any:
    """Shares of eight raters."""
    return rng.multinomial(8, truth) / 8


def judges(rng: np.random.Generator, truth: Any, scores: Any) -> Any:
    """Distributions of a judge, more certain of some rows than of others."""
    certain = np.where(scores.max(-1) > 0.7, 20.0, 3.0)
    drawn = rng.gamma(np.maximum(truth * certain[:, None], 1e-3))
    return drawn / drawn.sum(-1, keepdims=True)


def labels(rng: np.random.Generator, truth: Any, scores: Any) -> Any:
    """One label for nine rows of ten, the shares of two raters for the others."""
    return np.where(rng.random(len(truth))[:, None] < 0.9, rng.multinomial(1, truth), rng.multinomial(2, truth) / 2)


def games(rng: np.random.Generator, truth: Any, scores: Any) -> Any:
    """A win, or a tie as one half, which is the more likely the more even the game."""
    tie = 1.2 * truth.prod(-1)
    kind = rng.random(len(truth))
    won = np.where(kind < tie, 0.5, kind < tie / 2 + truth[:, 0])
    return np.stack([won, 1 - won], -1)


def documents(rng: np.random.Generator, truth: Any, scores: Any) -> Any:
    """Of decisions in documents, whose four raters share a taste half of the time."""
    taste, own = rng.random((ROWS // CLUSTER, 4)).repeat(CLUSTER, 0), rng.random((ROWS, 4))
    drawn = np.where(rng.random((ROWS, 4)) < 0.5, taste, own)
    top = (drawn < truth.max(-1, keepdims=True)).mean(-1)
    rest = (1 - top) / (1 - truth.max(-1)).clip(1e-12)
    return np.where(np.arange(truth.shape[1]) == truth.argmax(-1)[:, None], top[:, None], truth * rest[:, None])


LAWS: dict[str, tuple[Drawn, int]] = {
    "eight raters": (raters, 3),
    "a judge": (judges, 4),
    "mostly labels": (labels, 3),
    "ties of games": (games, 2),
    "documents": (documents, 3),
}


def errors(scores: Any, shares: Any) -> tuple[float, float]:
    """The ECE of 15 bins and the cut-off error of the largest score, by their formulas."""
    top = scores.argmax(-1)
    score, share = (values[np.arange(len(top)), top] for values in (scores, shares))
    gaps = np.bincount(np.ceil(score * 15).astype(int), share - score) / len(score)
    path = np.append(0.0, np.cumsum((share - score)[np.argsort(score)])) / len(score)
    return float(np.abs(gaps).sum()), float(np.ptp(path))


def ratios(law: str, *, is_calibrated: bool, sets: int) -> list[float]:
    """Mean floors of data sets over the mean and the 95 % point of simulated calibrated models."""
    drawn, classes = LAWS[law]
    rng = np.random.default_rng(0)
    scores = rng.dirichlet(np.ones(classes), ROWS)
    truth = scores if is_calibrated else scores**0.7 / (scores**0.7).sum(-1, keepdims=True)
    groups = np.arange(ROWS) // CLUSTER if law == "documents" else None
    simulated = np.array([errors(scores, drawn(rng, scores, scores)) for _ in range(4000)])
    found = []
    for seed in range(sets):
        floors = {name: cd.NoiseFloor(statistic=error, resamples=400, seed=seed) for name, error in ERRORS.items()}
        result = cd.evaluate(drawn(rng, truth, scores), scores, floors, soft_labels=True, groups=groups)
        found.append([float(result[f"{name}_{part}"]) for name in ERRORS for part in ("mean", "high")])
    high = np.quantile(simulated, 0.95, axis=0)
    return [float(ratio) for ratio in np.mean(found, 0) / np.stack([simulated.mean(0), high], -1).ravel()]


def table(sets: int) -> Iterator[str]:
    """A line for each kind of shares, of calibrated and of overconfident models."""
    yield HEAD
    yield "| --- " * 6 + "|"
    for law in LAWS:
        for is_calibrated in (True, False):
            numbers = " | ".join(f"{ratio:.3f}" for ratio in ratios(law, is_calibrated=is_calibrated, sets=sets))
            yield f"| {law} | {'calibrated' if is_calibrated else 'overconfident'} | {numbers} |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", type=int, default=20, help="data sets of each kind")
    for line in table(parser.parse_args().sets):
        print(line, flush=True)


if __name__ == "__main__":
    main()
