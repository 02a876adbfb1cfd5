"""Bootstrap replicates of the rows."""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

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
        return poisson_counts(numbers, self.replicates, philox_key(self.seed, _PURPOSE))


def poisson_counts(numbers: Counts, replicates: int, key: npt.NDArray[np.uint64]) -> Array:
    """Poisson(1) draws for each replicate and number, (replicates, n)."""
    counts = np.empty((replicates, numbers.size))
    keyed_random.poisson_counts(numbers, _THRESHOLDS.astype(np.uint64), key, counts)
    return counts
