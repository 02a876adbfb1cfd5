"""Binned estimates of many samples at once, each sorted by score: one sweep over a sample for each set of centres.

Compiled loops over samples; `experiments.ece_benchmark.estimators` says which estimator of calibdask each row is.
"""

from typing import Any

import numba
import numpy as np

_MAPPINGS = ("hard", "convex", "inverted")
_BINS = ("10", "15", "30", "sqrt")
_PAPER_BINS = ("10", "30", "sqrt")

# Names of the rows of `binned_estimates`, in order.
ROWS: tuple[str, ...] = (
    *(f"uniform-{mapping}-{bins}" for mapping in _MAPPINGS for bins in _BINS),
    *(f"equal-mass-{mapping}-{bins}" for mapping in _MAPPINGS for bins in _BINS),
    *(f"euranova-{family}-{bins}" for family in ("l", "a", "c", "ac") for bins in _PAPER_BINS),
    *(f"rms-{binning}-10{debias}" for binning in ("uniform", "equal-mass") for debias in ("", "-debiased")),
)
# Where kinds of estimators start among them.
_UNIFORM, _EQUAL_MASS, _PAPER, _RMS = 0, 12, 24, 36

# Division by 0 is IEEE's: the check for it keeps loops from becoming vector instructions.
_compiled: Any = numba.njit(nogil=True, cache=True, error_model="numpy")


@_compiled
def _below_index(scores, bins, j):
    """Number of scores whose product with the number of bins, rounded down, is below j."""
    low, high = 0, scores.size
    while low < high:
        middle = (low + high) // 2
        if scores[middle] * bins < j:
            low = middle + 1
        else:
            high = middle
    return low


@_compiled
def _decoded(keys, scores, residuals, reached, positive):
    """Scores, residuals o - s, and what residuals and outcomes add up to before each row."""
    total, count = 0.0, 0
    for i in range(keys.size):
        outcome = keys[i] & 1
        scores[i] = np.int32(keys[i] >> 1).view(np.float32)
        residuals[i] = outcome - scores[i]
        reached[i], positive[i] = total, count
        total += residuals[i]
        count += outcome
    reached[keys.size], positive[keys.size] = total, count


@_compiled
def _hard(reached, cuts, bins):
    """sum_j |sum of residuals in bin j| / n; bin j has the rows from cuts[j] to cuts[j + 1]."""
    total = 0.0
    for j in range(bins):
        total += abs(reached[cuts[j + 1]] - reached[cuts[j]])
    return total / (reached.size - 1)


@_compiled
def _root_mean_square(reached, positive, cuts, bins):
    """Roots of the mean squared gap, plain and less the sampling variance of each bin."""
    plain, debiased = 0.0, 0.0
    for j in range(bins):
        rows = cuts[j + 1] - cuts[j]
        if rows == 0:
            continue
        gap = (reached[cuts[j + 1]] - reached[cuts[j]]) / rows
        plain += rows * gap * gap
        if rows >= 2:
            frequency = (positive[cuts[j + 1]] - positive[cuts[j]]) / rows
            debiased += rows * (gap * gap - frequency * (1 - frequency) / (rows - 1))
    return np.sqrt(plain / (reached.size - 1)), np.sqrt(max(debiased, 0.0) / (reached.size - 1))


@_compiled
def _shared(scores, residuals, reached, centres, bins):
    """Convex and inverted mapping: residuals between two centres are shared by them linearly in the score."""
    n = scores.size
    first = np.searchsorted(scores, centres[0], side="right")
    convex, inverted = reached[first], reached[first]
    convex_total, inverted_total = 0.0, 0.0
    start = first
    for j in range(bins - 1):
        low, width = centres[j], centres[j + 1] - centres[j]
        part, i = 0.0, start
        while i < n and scores[i] <= centres[j + 1]:
            part += (scores[i] - low) * residuals[i]
            i += 1
        whole = reached[i] - reached[start]
        above = part / width if i > start else 0.0
        convex_total += abs(convex + (whole - above))
        inverted_total += abs(inverted + above)
        convex, inverted, start = above, whole - above, i
    last = reached[n] - reached[start]
    return (convex_total + abs(convex + last)) / n, (inverted_total + abs(inverted + last)) / n


@_compiled
def _uniform_centres(bins, low, centres):
    for j in range(bins):
        lower = low + (1.0 - low) * (j / bins)
        upper = low + (1.0 - low) * ((j + 1) / bins) if j + 1 < bins else 1.0
        centres[j] = (lower + upper) / 2


@_compiled
def _equal_mass_edges(scores, bins, spread, low, edges):
    """Midpoints between neighbouring order statistics; returns the number of bins.

    ``spread``: ranks floor(i n / bins), and no edge twice; otherwise i floor(n / bins), duplicates stay.
    """
    n, last = scores.size, 0
    edges[0] = low
    for i in range(1, bins):
        rank = i * n // bins if spread else i * (n // bins)
        if rank == 0:
            continue
        edge = (scores[rank - 1] + scores[rank]) / 2
        if spread and not (edge > edges[last] and edge < 1.0):
            continue
        last += 1
        edges[last] = edge
    edges[last + 1] = 1.0
    return last + 1


@_compiled
def _cuts_right(scores, edges, bins, cuts):
    cuts[0], cuts[bins] = 0, scores.size
    for j in range(1, bins):
        cuts[j] = np.searchsorted(scores, edges[j], side="right")


@_compiled
def _cuts_left(scores, edges, bins, cuts):
    cuts[0], cuts[bins] = 0, scores.size
    for j in range(1, bins):
        cuts[j] = np.searchsorted(scores, edges[j], side="left")


@_compiled
def _centres(edges, bins, centres):
    for j in range(bins):
        centres[j] = (edges[j + 1] + edges[j]) / 2


@_compiled
def _ours(scores, residuals, reached, positive, bins, which, edges, cuts, centres, out):
    """Right-closed bins of equal width and of equal mass."""
    for j in range(bins):
        edges[j] = j / bins
    _cuts_right(scores, edges, bins, cuts)
    out[_UNIFORM + which] = _hard(reached, cuts, bins)
    if which == 0:
        out[_RMS], out[_RMS + 1] = _root_mean_square(reached, positive, cuts, bins)
    _uniform_centres(bins, 0.0, centres)
    out[_UNIFORM + 4 + which], out[_UNIFORM + 8 + which] = _shared(scores, residuals, reached, centres, bins)
    filled = _equal_mass_edges(scores, bins, True, 0.0, edges)
    _cuts_right(scores, edges, filled, cuts)
    out[_EQUAL_MASS + which] = _hard(reached, cuts, filled)
    if which == 0:
        out[_RMS + 2], out[_RMS + 3] = _root_mean_square(reached, positive, cuts, filled)
    _centres(edges, filled, centres)
    out[_EQUAL_MASS + 4 + which], out[_EQUAL_MASS + 8 + which] = _shared(scores, residuals, reached, centres, filled)


@_compiled
def _papers(scores, residuals, reached, bins, which, low, edges, cuts, centres, out):
    """The bin floor(s * bins), floor(n / bins) rows a bin, and inverted mapping to centres on the support."""
    cuts[0], cuts[bins] = 0, scores.size
    for j in range(1, bins):
        cuts[j] = _below_index(scores, bins, j)
    out[_PAPER + which] = _hard(reached, cuts, bins)
    _uniform_centres(bins, low, centres)
    out[_PAPER + 6 + which] = _shared(scores, residuals, reached, centres, bins)[1]
    filled = _equal_mass_edges(scores, bins, False, low, edges)
    _cuts_left(scores, edges, filled, cuts)
    out[_PAPER + 3 + which] = _hard(reached, cuts, filled)
    _centres(edges, filled, centres)
    out[_PAPER + 9 + which] = _shared(scores, residuals, reached, centres, filled)[1]


@_compiled
def binned_estimates(keys, low):
    """Estimates (`ROWS`, samples) of sorted keys (samples, n) of scores on the support [low, 1]."""
    samples, n = keys.shape
    out = np.empty((_RMS + 4, samples))
    most = max(30, int(np.sqrt(n))) + 2
    scores, residuals = np.empty(n), np.empty(n)
    reached, positive = np.empty(n + 1), np.empty(n + 1, np.int64)
    edges, cuts, centres, one = np.empty(most), np.empty(most, np.int64), np.empty(most), np.empty(_RMS + 4)
    for sample in range(samples):
        _decoded(keys[sample], scores, residuals, reached, positive)
        for which in range(4):
            bins = (10, 15, 30, max(1, int(np.sqrt(n))))[which]
            _ours(scores, residuals, reached, positive, bins, which, edges, cuts, centres, one)
            if which != 1:
                _papers(scores, residuals, reached, bins, max(which - 1, 0), low, edges, cuts, centres, one)
        for row in range(one.size):
            out[row, sample] = one[row]
    return out
