"""Order-preserving integer keys of scores, counted into cells or collected within windows."""

import numpy as np

from calibdask.kernels.compiled import compiled, inlined, unit

__all__ = ["collect_keys", "count_keys", "score_keys"]


@inlined
def _key(score):
    """Bit pattern of the score as float64: non-negative doubles are ordered like their patterns."""
    return np.float64(unit(score) + 0.0).view(np.int64)


@compiled
def score_keys(scores, keys):
    """Keys of ``scores`` (n, columns) into ``keys`` (columns, n)."""
    for r in range(scores.shape[0]):
        for c in range(scores.shape[1]):
            keys[c, r] = _key(scores[r, c])


@compiled
def count_keys(scores, weights, group, shift, smallest, counts, masses):
    """Count rows by key cell ``max(key, smallest) >> shift``, counted from the cell of ``smallest``.

    ``counts`` (groups, columns, cells) gets rows, ``masses`` (the same shape, or empty without weights) weights.
    """
    base = smallest >> shift
    for r in range(scores.shape[0]):
        g = group[r] if group.size else 0
        if weights.size and not weights[r] > 0.0:
            continue
        for c in range(scores.shape[1]):
            cell = (max(_key(scores[r, c]), smallest) >> shift) - base
            counts[g, c, cell] += 1
            if weights.size:
                masses[g, c, cell] += weights[r]


@inlined
def _window(key, lows, highs):
    """Index of the window [low, high] that holds the key, or -1; windows are disjoint and increasing."""
    found = -1
    for t in range(lows.size):
        found += key >= lows[t]
    if found >= 0 and key > highs[found]:
        found = -1
    return found


@compiled
def collect_keys(scores, weights, group, lows, highs, keys, places, masses):
    """Collect the keys that fall in a window; returns how many did.

    ``lows`` and ``highs`` (groups, columns, windows); a window that does not exist has low = the largest int64.
    ``places`` gets (group * columns + column) * windows + window. Where the buffers are too short, only counts.
    """
    columns, n_windows = lows.shape[1], lows.shape[2]
    found = 0
    for r in range(scores.shape[0]):
        g = group[r] if group.size else 0
        if weights.size and not weights[r] > 0.0:
            continue
        for c in range(columns):
            key = _key(scores[r, c])
            window = _window(key, lows[g, c], highs[g, c])
            if window >= 0:
                if found < keys.size:
                    keys[found] = key
                    places[found] = (g * columns + c) * n_windows + window
                    if weights.size:
                        masses[found] = weights[r]
                found += 1
    return found
