"""The choice of intervals: their level and method, and the replicates that they are computed from."""

from dataclasses import dataclass

import numpy as np

from calibdask.estimators.checks import MOST_DRAWS, check_whole
from calibdask.inference.methods import Method


def check_level(level: object, name: str = "level") -> None:
    """Raise ValueError unless this is a level, of an interval or, as ``alpha``, of a test."""
    if isinstance(level, bool) or not isinstance(level, int | float | np.number) or not 0 < float(level) < 1:
        usual = 0.05 if name in ("alpha", "risk") else 0.95
        raise ValueError(f"{name} expects a number between 0 and 1 such as {usual}, got {level!r}.")


def check_confidence(confidence: object, name: str = "confidence") -> None:
    """Raise ValueError unless a decision may have this confidence: below 0.5 it would rather be wrong than right."""
    check_level(confidence, name)
    assert isinstance(confidence, int | float | np.number)
    if confidence < 0.5:
        raise ValueError(f"{name} expects a number from 0.5 on and below 1, such as 0.95, got {confidence!r}.")


def check_interval(ci: object, n_boot: object, seed: object) -> None:
    """Raise ValueError unless these are a level, a number of replicates and a seed."""
    check_level(ci, "ci")
    check_whole("n_boot", n_boot, 2, MOST_DRAWS)
    check_whole("seed", seed, 0)


@dataclass(frozen=True)
class IntervalChoice:
    """The requested intervals: level, method, number of replicates and seed, and whether replicates are kept."""

    level: float
    method: Method | None
    n_boot: int
    seed: int
    keep: bool = False
