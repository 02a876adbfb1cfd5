"""Trees of splits by one class at a time: which set a row belongs to, and order statistics of many sets at once."""

import numpy as np

from calibdask.kernels.compiled import compiled, unit


@compiled
def find_sets(scores, weights, group, roots, column, threshold, child, sets):
    """Find the leaf of every row of one block.

    ``scores`` (n, classes); ``weights`` and ``group`` (n,) or empty; ``roots`` (groups,) nodes. At a node with
    ``column`` >= 0 a row goes on to node ``child`` if its score of that class is below ``threshold``, else to the node
    after it; at any other node ``child`` is the number of its set, or -1, as for a row without weight. ``sets`` (n,).
    """
    for r in range(scores.shape[0]):
        if weights.size and not weights[r] > 0.0:
            sets[r] = -1
            continue
        node = roots[group[r] if group.size else 0]
        while column[node] >= 0:
            node = child[node] + (not unit(scores[r, column[node]]) < threshold[node])
        sets[r] = child[node]


@compiled
def first_above(stratum, count, mass, target, chosen, before):
    """The first entry of each stratum at which the cumulative mass exceeds its target; else the last one.

    ``stratum`` (entries,) in increasing order, with an entry for every stratum; ``count`` and ``mass`` (entries,);
    ``target`` (strata,). ``chosen`` (strata,) gets the entry, ``before`` (strata,) the count of the entries before it.
    """
    entry = 0
    for p in range(target.size):
        counted = np.int64(0)
        total = mass[0] - mass[0]
        while True:
            total += mass[entry]
            last = entry + 1 == stratum.size or stratum[entry + 1] != p
            if total > target[p] or last:
                break
            counted += count[entry]
            entry += 1
        chosen[p] = entry
        before[p] = counted
        while entry < stratum.size and stratum[entry] == p:
            entry += 1
