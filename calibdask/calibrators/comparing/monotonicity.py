"""Whether maps keep the order of scores."""

import numpy as np
from scipy import special

from calibdask.calibrators.mapping import BlockMap

# Scores are tried at these logits, and of so many classes.
_LOGITS = np.linspace(-16.0, 16.0, 641)
_MOST_CLASSES = 50
_ROUNDING = 1e-12


def is_monotone(block_map: BlockMap, classes: int, *, vector: bool) -> bool:
    """Whether no calibrated score falls as its score rises; in a matrix the others share the rest equally."""
    scores = special.expit(_LOGITS)
    if vector:
        return bool((np.diff(block_map(scores)) >= -_ROUNDING).all())
    for c in np.unique(np.linspace(0, classes - 1, min(classes, _MOST_CLASSES)).astype(int)).tolist():
        rows = np.repeat(((1 - scores) / (classes - 1))[:, None], classes, axis=1)
        rows[:, c] = scores
        if (np.diff(block_map(rows)[:, c]) < -_ROUNDING).any():
            return False
    return True
