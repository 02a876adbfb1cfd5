"""Confidence limits of the mean of bounded values, from their mean and variance."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy

from calibdask.statistics.exact import Array

# The name of the method of these limits.
CLOPPER_PEARSON = "clopper-pearson"

_TINY = np.finfo(np.float64).tiny


@dataclass(frozen=True)
class BoundedMean:
    """The mean of ``count`` independent values between ``least`` and ``most``, arrays of one shape or numbers.

    Normal limits fail where values are large but rare: those that happen to be missing are missing in the variance too.
    These limits count one more value, the largest possible. Of all distributions of the same mean and variance with
    values up to ``most``, the most skewed has two values, one of them ``most``; with the shares of these two among the
    data, limits of a mean are those of Clopper & Pearson for a share. They are exact for two values, such as outcomes,
    and approach the normal ones as ``count`` grows.

    Where the variance is estimated from ``sampled`` values, quantiles of Student's distribution with sampled - 1
    degrees of freedom replace the normal ones; None: it follows from the mean, as that of outcomes does.

    References
    ----------
    .. [1] Clopper & Pearson, The use of confidence or fiducial limits illustrated in the case of the binomial, 1934.
    .. [2] Learned-Miller & Thomas, A new confidence interval for the mean of a bounded random variable, 2019, for the
       additional largest value.

    Examples
    --------
    >>> BoundedMean(0.0, 0.0, 59, 0.0, 1.0).upper(0.05).round(3)  # no outcome in 59 rows
    np.float64(0.05)
    """

    mean: Any
    variance: Any
    count: Any
    least: Any
    most: Any
    sampled: Any = None

    def upper(self, chance: float) -> Array:
        """The limit that the true mean exceeds with at most this probability."""
        share, other = self._two_values()
        tail: Any = chance
        if self.sampled is not None:
            tail = scipy.special.ndtr(scipy.special.stdtrit(self._freedom, chance))
        reach = scipy.special.betainccinv(self.count * share + 1, self.count * (1 - share), tail)
        return np.asarray(np.where(self._room == 0, self.most, other + (self.most - other) * reach))

    def lower(self, chance: float) -> Array:
        """The limit that the true mean falls short of with at most this probability."""
        # Not -0.
        return 0.0 - self._mirrored.upper(chance)

    def ends(self, level: float) -> tuple[Array, Array]:
        """The lower and the upper limit of the interval of this level."""
        chance = (1 - level) / 2
        return self.lower(chance), self.upper(chance)

    def pvalue(self, limit: float) -> Array:
        """p-value for the null hypothesis of a true mean of at least ``limit``: the chance whose upper limit it is."""
        share, other = self._two_values()
        with np.errstate(divide="ignore", invalid="ignore"):
            reach = np.clip((limit - other) / (self.most - other), 0.0, 1.0)
        tail = scipy.special.betaincc(self.count * share + 1, self.count * (1 - share), reach)
        if self.sampled is not None:
            tail = scipy.special.stdtr(self._freedom, scipy.special.ndtri(np.maximum(tail, _TINY)))
        # A mean that is the largest value is compatible with all that are possible.
        return np.asarray(np.where(self._room == 0, float(limit <= self.most), tail))

    @property
    def _room(self) -> Array:
        return np.asarray(self.most - self.mean)

    @property
    def _freedom(self) -> Array:
        return np.where(np.asarray(self.sampled) > 1, np.asarray(self.sampled) - 1.0, np.nan)

    @property
    def _mirrored(self) -> "BoundedMean":
        return BoundedMean(-self.mean, self.variance, self.count, -self.most, -self.least, self.sampled)

    def _two_values(self) -> tuple[Array, Array]:
        """The share of the largest value and the other value of the most skewed distribution."""
        with np.errstate(divide="ignore", invalid="ignore"):
            other = np.maximum(self.mean - self.variance / self._room, self.least)
            share = self.variance / (self.variance + self._room**2)
        return share, other
