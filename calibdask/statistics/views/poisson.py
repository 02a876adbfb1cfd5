"""Bootstrap replicates of the rows."""

import math
from dataclasses import dataclass

import numpy as np

from calibdask.kernels import keyed_random
from calibdask.statistics.exact import Array, Counts
from calibdask.statistics.keyed_random import philox_key
from calibdask.statistics.views.reweighted import Reweighted

_PURPOSE = 3
# Values of the distribution function of Poisson(1) in units of 2**-32, those below 1.
_THRESHOLDS = np.array([sum(math.exp(-1) / math.factorial(j) for j in range(k + 1)) * 2.0**32 for k in range(12)])


@dataclass(frozen=True)
class PoissonWeights(Reweighted):
    """Bootstrap replicates: the weight of every row is a Poisson(1) draw.

    Draws are keyed by the seed, the global row number and the number of the replicate, and so are the same in any
    chunking.

    Parameters
    ----------
    replicates : int
        Number of replicates.
    seed : int
        Of the draws.
    """

    replicates: int
    seed: int

    @property
    def copies(self) -> int:
        """Number of replicates."""
        return self.replicates

    def weights(self, numbers: Counts) -> Array:
        """How often each row counts."""
        counts = np.empty((self.replicates, numbers.size))
        key = philox_key(self.seed, _PURPOSE)
        keyed_random.poisson_counts(numbers, _THRESHOLDS.astype(np.uint64), key, counts)
        return counts
