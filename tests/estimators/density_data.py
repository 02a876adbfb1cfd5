"""Scored rows for tests of densities, and what these are measured by."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import calibdask as cd
from tests.oracles import density_reference as reference

Rows = tuple[NDArray[np.int64], NDArray[Any]]
STEP = 1 / 3600  # of the package's grid on [0, 1]
BANDWIDTHS = (0.01, 0.02, 0.033, 0.05, 0.1)
MIRRORED = ("triweight", "gaussian", "epanechnikov", "cosine")
KERNELS = (*MIRRORED, "beta")
FORMS = ("ratio", "residual")


def drawn(kind: str, n: int, dtype: Any = np.float64, seed: int = 1) -> Rows:
    """Binary rows, P(y = 1) = s ** 1.5: scores all over [0, 1], at its ends, or multiples of 1 / 20."""
    rng = np.random.default_rng(seed)
    if kind == "discrete":
        scores = rng.integers(0, 21, n) / 20
    else:
        scores = rng.beta(1.2, 1.5, n) if kind == "spread" else rng.beta(0.3, 0.3, n)
    scores = scores.astype(dtype)
    return (rng.random(n) < scores**1.5).astype(np.int64), scores


def simplex_rows(n: int, classes: int, seed: int = 2, dtype: Any = np.float64) -> Rows:
    """Overconfident rows of several classes."""
    rng = np.random.default_rng(seed)
    scores = rng.dirichlet(np.full(classes, 0.7), n).astype(dtype)
    honest = 0.6 * scores.astype(np.float64) + 0.4 / classes
    labels = (rng.random(n)[:, None] > np.cumsum(honest, axis=1)).sum(axis=1)
    return labels.clip(0, classes - 1), scores


CASES = [
    ("spread", 50, np.float64),
    ("spread", 300, np.float32),
    ("spread", 2000, np.float64),
    ("ends", 50, np.float32),
    ("ends", 2000, np.float64),
    ("discrete", 50, np.float64),
    ("discrete", 1000, np.float32),
]


cases = pytest.mark.parametrize(("kind", "n", "dtype"), CASES)


def direct(labels: Any, scores: Any, bandwidth: float, **choices: Any) -> float:
    return reference.density_ece_of(labels, scores, bandwidth=bandwidth, **choices)


def parts(labels: Any, scores: Any, metric: Any, **options: Any) -> Any:
    """The variables x_<part> of one metric."""
    return cd.evaluate(labels, scores, {"x": metric}, **options)


def ece_d(labels: Any, scores: Any, sample_weight: Any = None, **choices: Any) -> float:
    return float(parts(labels, scores, cd.DensityECE(**choices), sample_weight=sample_weight).x)


def tolerance(bandwidth: float) -> float:
    # Sharing a score between two nodes moves a density by step^2 f'' / 12, which matters for narrow kernels only.
    return 5e-6 if bandwidth < 0.03 else 1e-6
