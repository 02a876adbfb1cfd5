"""Calibrated rows and others, and the numbers of a test of calibration."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

import calibdask as cd
from tests.oracles import kernel_reference as reference

Floats = NDArray[np.float64]
TV = reference.Kernel(bandwidth=0.5)
FIXED: dict[str, Any] = {"bandwidth": 0.5}


def parts_of(labels: Any, scores: Any, test: Any, **options: Any) -> dict[str, Any]:
    """The parts of one test, by name."""
    result = cd.evaluate(labels, scores, {"x": test}, **options)
    return {str(name).removeprefix("x_"): result[name] for name in result.data_vars}


def numbers(labels: Any, scores: Any, test: Any, **options: Any) -> dict[str, float]:
    return {name: float(part) for name, part in parts_of(labels, scores, test, **options).items()}


def wrong_rows(n: int, classes: int = 3, seed: int = 1) -> tuple[NDArray[np.int64], Floats]:
    """Overconfident rows: the labels do not depend on the scores."""
    rng = np.random.default_rng(seed)
    return rng.integers(0, classes, n), rng.dirichlet(np.full(classes, 0.3), n)


def calibrated_rows(n: int, classes: int = 3, seed: int = 1) -> tuple[NDArray[np.int64], Floats]:
    """Rows whose labels are drawn from their scores; of two classes a vector."""
    rng = np.random.default_rng(seed)
    scores = rng.dirichlet(np.ones(classes), n)
    labels = (rng.random(n)[:, None] > np.cumsum(scores, axis=1)[:, :-1]).sum(axis=1)
    return labels, scores[:, 1] if classes == 2 else scores
