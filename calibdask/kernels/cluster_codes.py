"""Numbers of the distinct clusters of a block, by slice, found in a table of hashes."""

import numpy as np

from calibdask.kernels.compiled import compiled, inlined

_SMALLEST = 1024


@inlined
def _place(cluster, group, mask):
    """Where the search for a pair begins."""
    x = np.uint64(cluster) ^ (np.uint64(group) * np.uint64(0x9E3779B97F4A7C15))
    x ^= x >> np.uint64(33)
    x *= np.uint64(0xFF51AFD7ED558CCD)
    x ^= x >> np.uint64(33)
    return np.int64(x & np.uint64(mask))


@compiled
def cluster_codes(clusters, group, codes, first):
    """Fill ``codes`` (n,) with a number for each pair of ``clusters`` (n,) and ``group`` (n,) or empty.

    Pairs are numbered as they come; ``first`` (n,) is filled with the first row of each. Returns their number.
    """
    size = _SMALLEST
    table = np.full(size, -1, np.int64)
    count = 0
    for r in range(clusters.size):
        cluster, slice_ = clusters[r], group[r] if group.size else 0
        at = _place(cluster, slice_, size - 1)
        while True:
            code = table[at]
            if code < 0:
                break
            there = first[code]
            if clusters[there] == cluster and (group[there] if group.size else 0) == slice_:
                break
            at = (at + 1) & (size - 1)
        if code >= 0:
            codes[r] = code
            continue
        codes[r] = count
        first[count] = r
        table[at] = count
        count += 1
        if 2 * count > size:
            size *= 4
            table = np.full(size, -1, np.int64)
            for code in range(count):
                there = first[code]
                at = _place(clusters[there], group[there] if group.size else 0, size - 1)
                while table[at] >= 0:
                    at = (at + 1) & (size - 1)
                table[at] = code
    return count


@compiled
def cluster_sums(codes, residual, rows, sums):
    """Add rows to ``rows`` (pairs,), and residuals and their squares to ``sums`` (2, pairs), in units of 2**-32."""
    for r in range(codes.size):
        code = codes[r]
        rows[code] += 1
        sums[0, code] += np.int64(np.rint(residual[r] * 4294967296.0))
        sums[1, code] += np.int64(np.rint(residual[r] * residual[r] * 4294967296.0))
