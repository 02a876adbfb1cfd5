"""Testing in a fixed sequence: how far a threshold of confidence may be lowered with a guarantee on the risk."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy

from calibdask.statistics.exact import Array, Counts

# Steps of a sequence: each lets through half a percent of the rows more.
_STEPS = 200
# A sequence begins with so many rows that half of the risk is accepted with this probability, or a share of all rows.
_POWER, _MOST_SHARE = 0.95, 0.25


@dataclass(frozen=True)
class RiskTest:
    """The test of a risk of at least ``risk``, by the number of errors among rows: an exact binomial one."""

    risk: float

    def pvalues(self, rows: Array, errors: Array) -> Array:
        """P(so few errors or fewer) of a risk that is just not allowed."""
        # Bdtr needs fewer errors than rows.
        return np.where(errors < rows, scipy.special.bdtr(np.minimum(errors, rows - 1), rows, self.risk), 1.0)

    def upper(self, rows: Array, errors: Array, chance: float) -> Array:
        """The risk that is exceeded with at most this probability, of Clopper & Pearson."""
        right = np.maximum(rows - errors, 0.5)
        return np.where(errors < rows, scipy.special.betainccinv(errors + 1.0, right, chance), 1.0)

    def least_rows(self, chance: float) -> int:
        """Rows without an error that suffice, the least with (1 - risk)**rows <= chance.

        Examples
        --------
        >>> RiskTest(0.05).least_rows(0.05)
        59
        """
        rows = math.ceil(math.log(chance) / math.log1p(-self.risk))
        # A quotient that is whole may be rounded up.
        return max(1, rows - int((rows - 1) * math.log1p(-self.risk) <= math.log(chance)))

    def first_rows(self, total: int, chance: float) -> int:
        """Rows that the sequence begins with, of so many: enough that few errors do not end it by chance."""
        half = self.risk / 2
        spread = [math.sqrt(share * (1 - share)) for share in (self.risk, half)]
        quantiles = scipy.special.ndtri([1 - chance, _POWER])
        steady = (float(quantiles @ spread) / half) ** 2
        return max(self.least_rows(chance), math.ceil(min(steady, _MOST_SHARE * total)))


def steps(rows: Counts, first: int) -> Counts:
    """Positions of the thresholds that are tested, from strict to lax, by the numbers of rows above each.

    They depend on the scores alone: the first with at least ``first`` rows, the last with all, evenly spread between.

    Examples
    --------
    >>> steps(np.array([10, 40, 60, 100]), 50).tolist(), steps(np.array([10, 40]), 50).tolist()
    ([2, 3], [])
    """
    total = int(rows[-1]) if rows.size else 0
    if total < first:
        return np.zeros(0, np.int64)
    return np.unique(np.searchsorted(rows, np.linspace(first, total, _STEPS + 1)))


def passed(pvalues: Array, chance: float) -> int:
    """How many of the first tests reject, one after the other, before one does not."""
    rejected = pvalues <= chance
    return int(pvalues.size if rejected.all() else rejected.argmin())


def chained(sequences: Sequence[Array], chance: float) -> tuple[list[int], float]:
    """How many tests of each of several sequences reject, and the level of those that are not finished.

    The probability that any true null hypothesis is rejected is at most ``chance``. Each sequence has an equal part of
    it; one whose tests all reject passes its part on to the others: for sequences of one test the method of Holm.

    References
    ----------
    .. [1] Bretz, Maurer, Brannath & Posch, A graphical approach to sequentially rejective multiple test procedures,
       2009.

    Examples
    --------
    >>> chained([np.array([0.01, 0.03]), np.array([0.02])], 0.05)
    ([2, 1], 0.05)
    >>> chained([np.array([0.01, 0.2]), np.array([0.04])], 0.05)
    ([1, 0], 0.025)
    """
    tested = [values for values in sequences if values.size]
    finished, level = -1, chance
    while True:
        level = chance / max(1, len(tested) - max(finished, 0))
        done = sum(passed(values, level) == values.size for values in tested)
        if done in (finished, len(tested)):
            return [passed(values, level) for values in sequences], level
        finished = done
