"""Data without some of their rows, a group of rows at a time, for the jackknife."""

from dataclasses import dataclass

import numpy as np

from calibdask.kernels import keyed_random
from calibdask.statistics.exact import Array, Counts
from calibdask.statistics.keyed_random import philox_key
from calibdask.statistics.views.reweighted import Reweighted

_PURPOSE = 4


@dataclass(frozen=True)
class LeftOut(Reweighted):
    """Replicates with the rows of one random group missing from each.

    Parameters
    ----------
    groups : int
        Number of groups, and so of replicates.
    seed : int
        The group of a row is keyed by it and the global row number.
    """

    groups: int
    seed: int

    @property
    def copies(self) -> int:
        """Number of groups."""
        return self.groups

    def weights(self, numbers: Counts) -> Array:
        """0 in the replicate of the group of the row, 1 in all others."""
        number = np.empty(numbers.size, np.int64)
        keyed_random.priorities(numbers, philox_key(self.seed, _PURPOSE), number)
        return (number % self.groups != np.arange(self.groups)[:, None]).astype(np.float64)
