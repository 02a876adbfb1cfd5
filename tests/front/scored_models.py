"""Labels and scores of several models, the ends of their differences, replicates of rows."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

import calibdask as cd

Array = NDArray[np.float64]


def binary(n: int, seed: int) -> tuple[NDArray[np.int64], Array, Array, Array]:
    """Labels, the scores that made them, and those of two models that are further off."""
    rng = np.random.default_rng(seed)
    scores = rng.beta(2, 2, n)
    labels = (rng.random(n) < scores).astype(int)
    near = np.clip(scores + rng.normal(0, 0.05, n), 0, 1)
    return labels, scores, near, scores**2


def multiclass(n: int, seed: int, classes: int = 3) -> tuple[NDArray[np.int64], dict[str, Array]]:
    """Labels and three models."""
    rng = np.random.default_rng(seed)
    scores = rng.dirichlet(np.ones(classes), n)
    labels = np.array([rng.choice(classes, p=row) for row in scores])
    sharp = scores**2 / (scores**2).sum(1, keepdims=True)
    return labels, {"resnet": scores, "lenet": sharp, "vgg": (scores + rng.dirichlet(np.ones(classes), n)) / 2}


ENDS = ("_difference", "_difference_low", "_difference_high", "_difference_pvalue")
ADJUSTED = ("_difference_pvalue_holm", "_difference_pvalue_bh")


def replicates(labels: Any, scores: Any, metric: Any, counts: Array, **options: Any) -> Array:
    """Values of a metric where rows count as often as counts say."""
    weight = options.pop("sample_weight", 1.0)
    return np.stack(
        [cd.evaluate(labels, scores, {"m": metric}, sample_weight=c * weight, **options).m.values for c in counts]
    )


SETS = 400


def in_sets(rows: int) -> dict[str, NDArray[np.int64]]:
    """One slice for each of many data sets; their rows, and so their replicates, are independent."""
    return {"set": np.repeat(np.arange(SETS), rows)}
