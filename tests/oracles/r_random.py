"""The random numbers of R, so that examples that its packages print can be computed from the same rows.

Generators are those of R's defaults: the Mersenne twister, normal numbers by inversion, binomial ones of one trial.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

Array = NDArray[Any]


class RandomNumbers:
    """What ``set.seed(seed)`` begins.

    Examples
    --------
    >>> RandomNumbers(42).uniform(3).round(7)  # set.seed(42); runif(3)
    array([0.914806 , 0.9370754, 0.2861395])
    >>> RandomNumbers(42).normal(3).round(7)  # set.seed(42); rnorm(3)
    array([ 1.3709584, -0.5646982,  0.3631284])
    """

    def __init__(self, seed: int) -> None:
        key = []
        for step in range(675):
            seed = (69069 * seed + 1) % 2**32
            # Fifty numbers are left out, then comes the place of the next number, which is reset.
            if step > 50:
                key.append(seed)
        self._twister = np.random.MT19937()
        self._twister.state = {"bit_generator": "MT19937", "state": {"key": np.array(key, np.uint32), "pos": 624}}

    def uniform(self, count: int) -> Array:
        """``runif(count)``."""
        half = 0.5 * 2.328306437080797e-10
        return np.clip(self._twister.random_raw(count) * 2.3283064365386963e-10, half, 1 - half)

    def normal(self, count: int) -> Array:
        """``rnorm(count)``."""
        large, small = self.uniform(2 * count).reshape(count, 2).T
        return np.asarray(special.ndtri((np.floor(2**27 * large) + small) / 2**27))

    def binary(self, chances: Array) -> Array:
        """``rbinom(length(chances), 1, chances)``: of the rarer outcome by inversion."""
        rare = self.uniform(len(chances)) >= np.maximum(chances, 1 - chances)
        return np.where(chances > 0.5, ~rare, rare).astype(np.int64)
