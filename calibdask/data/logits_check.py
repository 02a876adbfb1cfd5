"""Probabilities that are given as logits: their softmax would be a plausible number of another model."""

import warnings
from typing import Any

import numpy as np

from calibdask.data.shapes import Shape
from calibdask.engine.arrays import is_dask
from calibdask.errors import SuspectScoresWarning

# Rows that are looked at; sums of so many are not 1 by chance, and so many sigmoids rarely between 0.5 and 0.74.
_MOST_ROWS, _FEWEST_ROWS, _FEWEST_SIGMOIDS = 1000, 10, 100
_TOLERANCE = 1e-3


def check_logits(scores: Any, shape: Shape) -> None:
    """Refuse rows of probabilities in memory, the first ones, and warn of a vector that may be such.

    Parameters
    ----------
    scores : array of shape (..., n) or (..., n, K)
    shape : Shape

    Raises
    ------
    ValueError
        If all rows lie in [0, 1] and sum to 1.
    """
    if not shape.options.logits or is_dask(scores) or scores.size == 0:
        return
    if shape.vector:
        first = np.asarray(scores).reshape(-1)[:_MOST_ROWS]
        if first.size >= _FEWEST_SIGMOIDS and _in_range(first):
            warnings.warn(
                f"The first {first.size} logits lie between 0 and 1; if they are probabilities, omit logits=True "
                "(--logits).",
                SuspectScoresWarning,
                stacklevel=2,
            )
        return
    rows = np.asarray(scores).reshape(-1, scores.shape[-1])[:_MOST_ROWS]
    if len(rows) >= _FEWEST_ROWS and _in_range(rows) and (np.abs(rows.sum(axis=1) - 1) <= _TOLERANCE).all():
        raise ValueError(
            f"logits=True (--logits) expects logits, but the first {len(rows)} rows lie in [0, 1] and sum to 1, like "
            "probabilities; omit it."
        )


def _in_range(values: np.ndarray) -> bool:
    return bool(((values >= 0) & (values <= 1)).all())
