"""Isotonic regression by pooling adjacent violators, of several strata in one call."""

import numpy as np

from calibdask.kernels.compiled import compiled


@compiled
def isotonic_means(outcome, weight, starts, fitted):
    """Fill ``fitted`` (n,) with the non-decreasing means that fit ``outcome / weight`` (n,) best, by least squares.

    Points of a stratum follow each other from its entry in ``starts`` (strata + 1,) to before the next. Weights are
    positive, and outcomes at most as large: sums round alike, so that means lie in [0, 1].
    """
    # Blocks of points with one mean so far: their sums, and where they begin.
    outcomes, weights = np.empty(fitted.size), np.empty(fitted.size)
    begins = np.empty(fitted.size + 1, np.int64)
    for stratum in range(starts.size - 1):
        blocks = 0
        for i in range(starts[stratum], starts[stratum + 1]):
            o, w, begin = outcome[i], weight[i], i
            while blocks and outcomes[blocks - 1] * w >= o * weights[blocks - 1]:
                blocks -= 1
                o, w, begin = outcomes[blocks] + o, weights[blocks] + w, begins[blocks]
            outcomes[blocks], weights[blocks], begins[blocks] = o, w, begin
            blocks += 1
        begins[blocks] = starts[stratum + 1]
        for block in range(blocks):
            fitted[begins[block] : begins[block + 1]] = outcomes[block] / weights[block]
