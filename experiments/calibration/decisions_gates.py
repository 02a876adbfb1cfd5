"""How often the gate of `check` calls a slice met, or broken, that is neither, or that is calibrated."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import calibdask as cd

ROWS = (30, 300, 3000)
LEVEL = 0.95
# Data sets are slices of one call, at a level for all of them together that gives each of them its own.
TOGETHER = 10
REPLICATES = 200


@dataclass(frozen=True)
class Gated:
    """Scores and probabilities of a slice, what is limited, and by which number.

    Where that is not the true number, but the model calibrated, met is right.
    """

    label: str
    scores: Callable[[Any, Any], Any]
    chances: Callable[[Any], Any]
    metric: str
    limit: float
    sets: int
    met_is_wrong: bool = True


def _rare(rng: Any, shape: Any) -> Any:
    """Scores of 1 % on average."""
    return rng.beta(1, 99, shape)


def _spread(rng: Any, shape: Any) -> Any:
    """Scores that leave room for 0.05 on both sides."""
    return rng.uniform(0.1, 0.8, shape)


# The mean of s (1 - s) for scores of beta(1, 99).
_BRIER = 0.01 * 99 / 101
GATES = (
    Gated("Brier score, outcomes of 1 %, calibrated", _rare, lambda s: s, "brier-score", _BRIER, 400),
    Gated("ICI, outcomes of 2 %, scores half as high", _rare, lambda s: np.minimum(2 * s, 1), "ici.ici", 0.01, 100),
    Gated("ICI, outcomes of 1 %, calibrated", _rare, lambda s: s, "ici.ici", 0.005, 100, met_is_wrong=False),
    Gated("ECE, outcomes of 1 %, calibrated", _rare, lambda s: s, "ece", 0.005, 1000, met_is_wrong=False),
    Gated("mean gap, off by 0.05 everywhere", _spread, lambda s: s + 0.05, "mean-gap", 0.05, 1000),
    Gated("ECE, off by 0.05 everywhere", _spread, lambda s: s + 0.05, "ece", 0.05, 1000),
)


def gates(of: float) -> Iterator[str]:
    """Lines of the page: the shares of slices that are met, and broken, with standard errors."""
    yield "\n## Gates\n"
    wrong = f"{(1 - LEVEL) / 2:.1%}"
    yield f"Shares of slices that `check` calls met, or broken, each at {LEVEL:.0%}, with standard errors. The limit"
    yield f"is the true number, so that either may be wrong in {wrong} of data sets; where the true error is 0, of"
    yield "calibrated models, broken is wrong, and met is right. The rest cannot be decided.\n"
    sizes = " | ".join(f"{rows:,} rows: met | broken" for rows in ROWS)
    yield f"| Slices | limit | data sets | {sizes} |"
    yield "| --- | --- | --- |" + " --- | --- |" * len(ROWS)
    for gated in GATES:
        sets = max(round(gated.sets * of / TOGETHER), 1) * TOGETHER
        cells = " | ".join(" | ".join(shares(gated, rows, sets)) for rows in ROWS)
        yield f"| {gated.label} | {gated.limit:.4g} | {sets} | {cells} |"


def shares(gated: Gated, rows: int, sets: int) -> tuple[str, str]:
    """The share of slices that are met, and of those that are broken."""
    rng = np.random.default_rng([GATES.index(gated), rows])
    by = {"slice": np.repeat(np.arange(TOGETHER), rows)}
    confidence = 1 - TOGETHER * (1 - LEVEL)
    outcomes = []
    for seed in range(sets // TOGETHER):
        scores = gated.scores(rng, TOGETHER * rows)
        labels = rng.random(scores.size) < gated.chances(scores)
        limits = f"{gated.metric}={gated.limit!r}"
        gate = cd.check(labels, scores, slice_limits=limits, by=by, confidence=confidence, n_boot=REPLICATES, seed=seed)
        outcomes += [judgement.outcome for judgement in gate.judgements]
    met, broken = (_share(np.array([outcome == name for outcome in outcomes])) for name in ("met", "broken"))
    return met if gated.met_is_wrong else f"{met}, right", broken


def _share(within: Any) -> str:
    rate = within.mean()
    # That of none is that of one.
    error = np.sqrt(max(rate, 1 / within.size) * (1 - rate) / within.size)
    return f"{rate:.3f} ({error:.3f})"
