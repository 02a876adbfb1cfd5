"""Logarithms and logits of scores, clipped."""

import numpy as np

from calibdask.statistics.exact import Array


def log_scores(scores: Array, clip: float) -> tuple[Array, Array]:
    """Logarithms of s and of 1 - s, where neither is less than ``clip``."""
    return np.log(np.maximum(scores, clip)), np.log(np.maximum(1 - scores, clip))


def logits_of(scores: Array, clip: float) -> Array:
    """Logarithm of s / (1 - s), where neither is less than ``clip``."""
    positive, negative = log_scores(scores, clip)
    return positive - negative
