"""Segment maps: the values of a row's features shift and scale its logit."""

import numpy as np

from calibdask.kernels.compiled import compiled, inlined, unit
from calibdask.kernels.exponential import exp_64
from calibdask.kernels.logarithm import log_64

# Scores of 0 and 1 have the logits of the smallest normal number.
_SMALLEST = 2.0**-1022
# Below this the exponential counts as 0, like the smallest numbers of float64.
_LEAST = -700.0


@inlined
def _logit(s):
    return log_64(max(s, _SMALLEST)) - log_64(max(1.0 - s, _SMALLEST))


@inlined
def _sigmoid(z):
    tail = exp_64(-abs(z)) if abs(z) < -_LEAST else 0.0
    return 1.0 / (1.0 + tail) if z >= 0.0 else tail / (1.0 + tail)


@compiled
def mapped_scores(scores, codes, sizes, members, starts, offsets, slopes, mapped):
    """Fill ``mapped`` (n,) with sigmoid(z) after z = z + offset + slope z for each step, in order.

    ``codes`` (features, n) uint8; those from ``sizes`` (features,) on are of no segment. ``members`` (steps, most)
    are the features of a step, -1 for none; its entries of ``offsets`` and ``slopes`` begin at ``starts``, one for each
    combination of values, the last feature's next to each other. Scores that no step touches stay as they are.
    """
    for r in range(scores.size):
        s = unit(scores[r])
        z, touched = _logit(s), False
        for step in range(starts.size):
            place, inside = np.int64(0), True
            for feature in members[step]:
                if feature >= 0:
                    value = np.int64(codes[feature, r])
                    inside = inside and value < sizes[feature]
                    place = place * sizes[feature] + value
            if inside:
                offset, slope = offsets[starts[step] + place], slopes[starts[step] + place]
                if offset != 0.0 or slope != 0.0:
                    z += offset + slope * z
                    touched = True
        mapped[r] = _sigmoid(z) if touched else s
