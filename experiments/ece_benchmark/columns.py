"""Scores and outcomes of a setting as integers that sort like scores: one sort serves all estimators.

A score in [0, 1] of single precision has a bit pattern below 2**30 that orders like the score; its outcome is put below
the lowest bit. Sorting these integers sorts rows by score, exactly, and takes their outcomes along.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

SETTINGS = ("confidence", "classwise")
Keys = npt.NDArray[np.int32]


def column_keys(scores: npt.NDArray[np.float32], labels: npt.NDArray[Any], setting: str) -> Keys:
    """Keys of (..., rows, K) scores and (..., rows) labels: (1, ..., rows) of confidences, (K, ..., rows) by class."""
    if setting == "confidence":
        top, value = confidences(scores)
        return _keys(value, top == labels)[None]
    return np.stack([_keys(scores[..., column], labels == column) for column in range(scores.shape[-1])])


def confidences(scores: npt.NDArray[np.float32]) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.float32]]:
    """The predicted class, the lowest of ties, and its score."""
    top = scores.argmax(-1)
    return top, np.take_along_axis(scores, top[..., None], -1)[..., 0]


def lowest_score(setting: str, classes: int) -> float:
    """The lower end of the support of the scores of a setting."""
    return 1 / classes if setting == "confidence" else 0.0


def sorted_keys(keys: Keys, rows: npt.NDArray[Any]) -> Keys:
    """Keys of the chosen rows, those of each replicate in increasing order; ``rows`` (replicates, n)."""
    chosen = keys.take(rows)
    chosen.sort(axis=-1)
    return chosen


def _keys(scores: npt.NDArray[np.float32], outcomes: npt.NDArray[np.bool_]) -> Keys:
    # A sum with 0 makes the score -0 a plain one, whose bits are 0.
    bits = np.ascontiguousarray(np.clip(scores, 0, 1) + np.float32(0)).view(np.int32)
    return np.asarray((bits << 1) | outcomes, np.int32)
