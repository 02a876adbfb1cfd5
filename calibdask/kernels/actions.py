"""Actions of least expected cost."""

import numpy as np

from calibdask.kernels.compiled import compiled

_ROUNDED = 1e-12


@compiled
def cheapest(probabilities, costs, out):
    """Fill ``out`` (n,) with the row of ``costs`` (actions, K) that costs least under each row of (n, K).

    Sums run over the classes in their order; of costs that are equal but for their rounding the first action is taken.
    """
    for i in range(probabilities.shape[0]):
        action, least = 0, np.inf
        for a in range(costs.shape[0]):
            total = 0.0
            for c in range(costs.shape[1]):
                total += costs[a, c] * np.float64(probabilities[i, c])
            if a == 0 or total < least - _ROUNDED * abs(least):
                action, least = a, total
        out[i] = action
