"""Actions of least expected cost."""

import numpy as np

from calibdask.kernels.compiled import compiled


@compiled
def cheapest(probabilities, costs, out):
    """Fill ``out`` (n,) with the row of ``costs`` (actions, K) that costs least under each row of (n, K).

    Sums run over the classes in their order; of equal costs the first action is taken.
    """
    for i in range(probabilities.shape[0]):
        action, least = 0, np.inf
        for a in range(costs.shape[0]):
            total = 0.0
            for c in range(costs.shape[1]):
                total += costs[a, c] * np.float64(probabilities[i, c])
            if total < least:
                action, least = a, total
        out[i] = action
