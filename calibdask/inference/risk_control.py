"""Risk control: the lowest threshold whose share of errors is at most a risk, tested in a fixed order."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from calibdask.inference.fixed_sequence import Fallback, RiskTest, level_of_each
from calibdask.statistics.exact import Array, Counts

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
