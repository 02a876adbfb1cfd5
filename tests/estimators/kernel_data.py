"""Rows and choices for tests of kernel errors and tests of calibration."""

import itertools
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import calibdask as cd

Rows = tuple[NDArray[np.int64], NDArray[Any]]
PROFILES = ("exponential", "gaussian")
DISTANCES = ("tv", "euclidean")
KERNELS = tuple(itertools.product(PROFILES, DISTANCES))
EXACT = ("unbiased", "biased", "linear", "block")


def drawn(kind: str, n: int, classes: int = 3, dtype: Any = np.float64, seed: int = 1) -> Rows:
    """Rows that are smooth, on a coarse grid (equal rows), or saturated (exact 0 and 1); or a vector of P(y = 1)."""
    rng = np.random.default_rng(seed)
    if kind == "vector":
        scores = rng.random(n)
        scores[rng.random(n) < 0.3] = 0.0
        scores[rng.random(n) < 0.2] = 1.0
        return rng.integers(0, 2, n), scores.astype(dtype)
    if kind == "ties":
        scores = rng.multinomial(5, np.full(classes, 1 / classes), n) / 5
    else:
        scores = rng.dirichlet(np.full(classes, 0.8), n)
    if kind == "saturated":
        certain = rng.random(n) < 0.5
        scores[certain] = np.eye(classes)[rng.integers(0, classes, int(certain.sum()))]
    return rng.integers(0, classes, n), scores.astype(dtype)


CASES = [
    ("smooth", 2, 3, np.float64),
    ("smooth", 3, 2, np.float64),
    ("smooth", 40, 5, np.float64),
    ("smooth", 31, 4, np.float32),
    ("ties", 25, 3, np.float64),
    ("ties", 24, 4, np.float32),
    ("saturated", 33, 3, np.float64),
    ("saturated", 32, 5, np.float32),
    ("vector", 2, 2, np.float64),
    ("vector", 29, 2, np.float64),
    ("vector", 40, 2, np.float32),
]


cases = pytest.mark.parametrize(("kind", "n", "classes", "dtype"), CASES)


def near(value: Any, dtype: Any = np.float64) -> Any:
    single = np.dtype(dtype) == np.float32
    return pytest.approx(value, rel=1e-6 if single else 1e-11, abs=1e-6 if single else 1e-12)


def of(labels: Any, scores: Any, metric: Any, **options: Any) -> Any:
    """The variable of one metric."""
    return cd.evaluate(labels, scores, {"x": metric}, **options).x


def psd(classes: int, seed: int = 3) -> NDArray[np.float64]:
    root = np.random.default_rng(seed).normal(size=(classes, classes))
    return root @ root.T / classes


def skce(labels: Any, scores: Any, sample_weight: Any = None, **choices: Any) -> float:
    return float(of(labels, scores, cd.SKCE(**choices), sample_weight=sample_weight))
