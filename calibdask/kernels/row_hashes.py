"""Sums of hashes of rows, which do not depend on their order.

A word is mixed into a hash by a bijection, so that a change of any one word of one row changes every sum.
"""

import numpy as np

from calibdask.kernels.compiled import compiled, inlined

# The sums: words of 64 bits of labels, scores, weights, slices, and of all together.
PARTS = ("labels", "scores", "weights", "slices")
LANES = 2
WORDS = LANES * len(PARTS) + 4


@inlined
def _mixed(h, word):
    """A hash with one word more; a bijection of either."""
    x = ((h << np.uint64(23)) | (h >> np.uint64(41))) ^ (word * np.uint64(0x9E3779B97F4A7C15))
    x ^= x >> np.uint64(33)
    x *= np.uint64(0xFF51AFD7ED558CCD)
    x ^= x >> np.uint64(33)
    x *= np.uint64(0xC4CEB9FE1A85EC53)
    return x ^ (x >> np.uint64(33))


@compiled
def row_hashes(labels, scores, weights, group, keys, seeds, sums):
    """Add the hashes of rows to ``sums`` (`WORDS`,), modulo 2**64.

    ``labels`` (n,), ``scores`` (n, K) and ``weights`` (n,) or empty as words of 64 bits; ``group`` (n,) or empty, with
    a word for each slice in ``keys``; ``seeds`` (`WORDS`,).
    """
    own = np.empty(WORDS, np.uint64)
    parts = WORDS - 4
    for r in range(scores.shape[0]):
        weight = weights[r] if weights.size else np.uint64(0)
        key = keys[group[r] if group.size else 0]
        for lane in range(2):
            own[lane] = _mixed(seeds[lane], labels[r])
            h = seeds[2 + lane]
            for k in range(scores.shape[1]):
                h = _mixed(h, scores[r, k])
            own[2 + lane] = h
            own[4 + lane] = _mixed(seeds[4 + lane], weight)
            own[6 + lane] = _mixed(seeds[6 + lane], key)
        for lane in range(4):
            h = seeds[parts + lane]
            # Of each part one lane: two of them hold the first lanes, the others the second.
            for part in range(0, parts, 2):
                h = _mixed(h, own[part + lane % 2])
            own[parts + lane] = h
        for word in range(WORDS):
            sums[word] += own[word]
