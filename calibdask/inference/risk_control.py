"""Risk control: the lowest threshold whose share of errors is at most a risk, tested in a fixed order."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy

from calibdask.statistics.exact import Array, Counts

# Steps of a sequence: each lets through half a percent of the rows more.
_STEPS = 200
# A sequence begins with so many rows that half of the risk is accepted with this probability, or a share of all rows.
_POWER, _FIRST_SHARE = 0.95, 0.1
# Where it begins anew, as a share of all rows, if the most confident answers are not the best; what the first tests
# have of the level then, the rest is for those from there on.
_SECOND_SHARE, _FIRST_LEVEL = 1 / 3, 0.5


@dataclass(frozen=True)
class RiskTest:
    """The test of a risk of at least ``risk``, by the number of errors among rows: an exact binomial one."""

    risk: float

    def pvalues(self, rows: npt.NDArray[Any], errors: npt.NDArray[Any]) -> Array:
        """P(so few errors or fewer) of a risk that is just not allowed."""
        # Bdtr needs fewer errors than rows.
        return np.where(errors < rows, scipy.special.bdtr(np.minimum(errors, rows - 1), rows, self.risk), 1.0)

    def upper(self, rows: Any, errors: Any, chance: float) -> Array:
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

    def steady_rows(self, chance: float) -> float:
        """Number of rows at which errors at half the risk are few enough with high probability."""
        half = self.risk / 2
        spread = [math.sqrt(share * (1 - share)) for share in (self.risk, half)]
        return (float(scipy.special.ndtri([1 - chance, _POWER]) @ spread) / half) ** 2


@dataclass(frozen=True)
class Fallback:
    """Thresholds to test, from strict to lax, chosen by the numbers of rows above each: before errors are seen.

    ``steps`` are positions among all thresholds, ``shares`` what each has of the level of the sequence.
    """

    steps: Counts
    shares: Array

    @classmethod
    def of(cls, test: RiskTest, rows: Counts, chance: float) -> "Fallback":
        """The sequence for numbers of rows in increasing order; empty if all rows are too few to pass.

        Examples
        --------
        >>> Fallback.of(RiskTest(0.05), np.array([10, 40, 60, 100]), 0.05)
        Fallback(steps=array([2, 3]), shares=array([1., 0.]))
        """
        total = int(rows[-1]) if rows.size else 0
        least = test.least_rows(_FIRST_LEVEL * chance)
        first = max(least, math.ceil(min(test.steady_rows(_FIRST_LEVEL * chance), _FIRST_SHARE * total)))
        second = _SECOND_SHARE * total
        begins_anew = first < second
        first = first if begins_anew else test.least_rows(chance)
        if total < first:
            return cls(np.zeros(0, np.int64), np.zeros(0))
        steps = np.unique(np.searchsorted(rows, np.linspace(first, total, _STEPS + 1)))
        shares = np.zeros(steps.size)
        shares[0] = _FIRST_LEVEL if begins_anew else 1.0
        shares[np.searchsorted(rows[steps], second)] += 1.0 - shares[0]
        return cls(steps, shares)

    def tested(self, pvalues: Array, chance: float) -> tuple[npt.NDArray[np.bool_], Array]:
        """Rejections, and the level of each test: its share plus the level of the previous test if that rejects.

        The fallback procedure [1]_, a fixed sequence where all of the level is at the first test. The probability that
        any true null hypothesis is rejected is at most ``chance``.

        References
        ----------
        .. [1] Wiens & Dmitrienko, The fallback procedure for evaluating a single family of hypotheses, 2005.
        """
        rejected, levels = np.zeros(pvalues.size, np.bool_), chance * self.shares
        for step, pvalue in enumerate(pvalues.tolist()):
            if step and rejected[step - 1]:
                levels[step] += levels[step - 1]
            rejected[step] = pvalue <= levels[step]
        return rejected, levels


def level_of_each(sequences: Iterable[Fallback], pvalues: Iterable[Array], chance: float) -> float:
    """The level of each of several sequences such that any true null hypothesis is rejected with ``chance`` at most.

    Sequences have equal parts; one whose tests all reject leaves its part to the others: for sequences of one test the
    method of Holm.

    References
    ----------
    .. [1] Bretz, Maurer, Brannath & Posch, A graphical approach to sequentially rejective multiple test procedures,
       2009.

    Examples
    --------
    >>> one = Fallback(np.array([0]), np.array([1.0]))
    >>> level_of_each([one, one], [np.array([0.02]), np.array([0.04])], 0.05)
    0.05
    >>> level_of_each([one, one], [np.array([0.03]), np.array([0.04])], 0.05)
    0.025
    """
    tests = [(sequence, values) for sequence, values in zip(sequences, pvalues, strict=True) if values.size]
    finished = 0
    while True:
        level = chance / max(1, len(tests) - finished)
        done = sum(bool(sequence.tested(values, level)[0].all()) for sequence, values in tests)
        if done in (finished, len(tests)):
            return level
        finished = done


# How many times the rows the planned coverage is for.
TIMES = (2.0, 5.0, 10.0, math.inf)
_MEASURED, _COUNTED = ("threshold", "risk", "risk_high", "pvalue"), ("answers", "errors")


@dataclass(frozen=True)
class RiskControl:
    """Thresholds on a grid of scores whose risk is at most the one allowed, but for a chance.

    Attributes
    ----------
    risk : float
        The largest share of errors allowed above a threshold.
    chance : float
        The probability that any threshold allows more.
    edges : array of shape (cells + 1,)
        Of the cells of scores; thresholds are borders of cells.
    """

    risk: float
    chance: float
    edges: Array

    @property
    def test(self) -> RiskTest:
        """The test of a single threshold."""
        return RiskTest(self.risk)

    def values(self, mass: Counts) -> dict[str, npt.NDArray[Any]]:
        """The values of all variables by sequence of thresholds (a slice, a class), and the planned coverage.

        Parameters
        ----------
        mass : int array of shape (sequences, cells, 2)
            Rows by cell, from the largest scores on, and by outcome.
        """
        borders = self.edges[-2::-1]
        rows, right = np.cumsum(mass.sum(-1), -1), np.cumsum(mass[..., 1], -1)
        errors = rows - right
        tested = [total for total in rows[:, -1].tolist() if total >= self.test.least_rows(self.chance)]
        part = self.chance / max(1, len(tested))
        sequences = [Fallback.of(self.test, of, part) for of in rows]
        pvalues = [
            self.test.pvalues(n[sequence.steps], e[sequence.steps])
            for n, e, sequence in zip(rows, errors, sequences, strict=True)
        ]
        level = level_of_each(sequences, pvalues, self.chance)
        planned = np.array(
            [[self._planned(n, e, times, part) for times in TIMES] for n, e in zip(rows, errors, strict=True)]
        )
        values: dict[str, npt.NDArray[Any]] = {name: np.full(len(mass), np.nan) for name in _MEASURED}
        values |= {"coverage": np.zeros(len(mass)), **{name: np.zeros(len(mass), np.int64) for name in _COUNTED}}
        for i, (sequence, of_steps) in enumerate(zip(sequences, pvalues, strict=True)):
            rejected, levels = sequence.tested(of_steps, level)
            if not rejected.any():
                continue
            last = int(np.flatnonzero(rejected)[-1])
            place = sequence.steps[last]
            above, wrong = rows[i, place], errors[i, place]
            values["threshold"][i], values["pvalue"][i] = borders[place], of_steps[last]
            values["answers"][i], values["errors"][i] = above, wrong
            values["coverage"][i], values["risk"][i] = above / rows[i, -1], wrong / above
            values["risk_high"][i] = self.test.upper(above, wrong, levels[last])
        values |= {"rows": rows[:, -1], "events": right[:, -1], "frequency": _over(right[:, -1], rows[:, -1])}
        least = np.full(len(mass), self.test.least_rows(part))
        return values | {"planned_coverage": planned, "least_rows": least}

    def _planned(self, rows: Counts, errors: Counts, times: float, chance: float) -> float:
        """The coverage with so many times the rows, and the errors; NaN if no threshold would qualify."""
        if not rows[-1]:
            return math.nan
        # As good as any number: limits are within a hundredth of a percent of the rates.
        factor = 1e9 / rows[-1] if math.isinf(times) else times
        many = (rows * factor).astype(np.int64)
        sequence = Fallback.of(self.test, many, chance)
        at = sequence.steps
        rejected, _ = sequence.tested(self.test.pvalues(many[at], np.ceil(errors[at] * factor)), chance)
        return float(many[at[rejected]].max() / many[-1]) if rejected.any() else math.nan


def _over(sums: Counts, count: Counts) -> Array:
    return np.divide(sums, count, out=np.full(count.shape, np.nan), where=count > 0)
