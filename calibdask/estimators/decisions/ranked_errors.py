"""Rows in falling order of confidence, with the wrong answers among them: what risk and coverage are made of."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy

from calibdask.estimators.ordered.score_points import Points
from calibdask.estimators.sampling_variance import BoundedEnds, WeightedMean, rows_of_weight, share_of
from calibdask.statistics.exact import Array


@dataclass(frozen=True)
class RankedErrors:
    """Runs of rows of equal score in falling order of the scores, as if rows of a run came in a random order.

    ``rows`` and ``errors`` of each run, with weights in units of sum w**2 / sum w, so that equal weights count as
    none; ``square`` and ``square_errors`` the sums of their squares in these units; ``score`` of each run.
    """

    score: Array
    rows: Array
    errors: Array
    square: Array
    square_errors: Array

    @classmethod
    def of(cls, points: Points) -> Iterator[tuple[tuple[int, ...], "RankedErrors"]]:
        """Ranked errors of every stratum with rows, with its index."""
        for index, at in points.strata():
            sums = (points.weight, points.outcome, points.square, points.square_outcome)
            weight, outcome, square, square_outcome = (values[at][::-1] for values in sums)
            unit = square.sum() / weight.sum()
            errors, square_errors = np.maximum(weight - outcome, 0.0), np.maximum(square - square_outcome, 0.0)
            squares = square / unit**2, square_errors / unit**2
            yield index, cls(points.score[at][::-1], weight / unit, errors / unit, *squares)

    @cached_property
    def total(self) -> float:
        """Number of rows, with weights Kish's effective number."""
        return float(self.rows.sum())

    @cached_property
    def wrong(self) -> float:
        """Number of errors."""
        return float(self.errors.sum())

    @cached_property
    def rate(self) -> float:
        """Share of errors."""
        return self.wrong / self.total

    @cached_property
    def before(self) -> Array:
        """Rows of larger scores."""
        return np.cumsum(self.rows) - self.rows

    @cached_property
    def errors_before(self) -> Array:
        """Errors of larger scores."""
        return np.cumsum(self.errors) - self.errors

    @cached_property
    def shares(self) -> Array:
        """Share of errors in each run."""
        return self.errors / self.rows

    def area(self) -> float:
        """The mean over k of the expected share of errors among the first k rows."""
        start = self.errors_before - self.shares * self.before
        return float((self.errors + start * _harmonic(self.before, self.before + self.rows)).sum() / self.total)

    def area_error(self) -> float:
        """Bound of the error in the area from ties: the effect of the order within runs."""
        first, last = (self._area_of_order(errors_first=chosen) for chosen in (True, False))
        return max(first - self.area(), self.area() - last)

    def _area_of_order(self, *, errors_first: bool) -> float:
        """The mean if within each run errors come first, or last."""
        parts = [(self.errors, 1.0), (self.rows - self.errors, 0.0)]
        before, wrong, total = self.before, self.errors_before, 0.0
        for rows, share in parts if errors_first else reversed(parts):
            total += float((share * rows + (wrong - share * before) * _harmonic(before, before + rows)).sum())
            before, wrong = before + rows, wrong + share * rows
        return total / self.total

    def generalized_area(self) -> float:
        """The area under the share of rows that are errors among the first ones, by their share of the rows."""
        return float((self.rows * (self.errors_before + self.errors / 2)).sum() / self.total**2)

    def risks(self, coverages: Array) -> tuple[Array, Array]:
        """Expected share of errors among the first rows, and the score of the last of them, by share of the rows."""
        rows = coverages * self.total
        ends = np.r_[0.0, np.cumsum(self.rows)]
        wrong = np.interp(rows, ends, np.r_[0.0, np.cumsum(self.errors)])
        # Shares such as 0.1 are rounded.
        run = np.searchsorted(ends[1:], rows * (1 - 1e-12))
        return wrong / rows, self.score[np.minimum(run, self.score.size - 1)]

    def limits(self, coverages: Array) -> BoundedEnds:
        """Confidence limits of the shares of errors among the first rows, by share of the rows."""
        ends, at = np.r_[0.0, np.cumsum(self.rows)], coverages * self.total
        rows, square, errors, square_errors = (
            np.interp(at, ends, np.r_[0.0, np.cumsum(sums)])
            for sums in (self.rows, self.square, self.errors, self.square_errors)
        )
        right = self.rows.sum() - self.wrong, self.square.sum() - self.square_errors.sum()
        of_right, of_errors = (rows_of_weight(rows, *of) for of in (right, (self.wrong, self.square_errors.sum())))
        return share_of(rows, square, errors, square_errors).bounded(0.0, 1.0, of_right, of_errors)

    def influences(self) -> "Influences":
        """How much a row moves the areas."""
        low, high = self.before / self.total, np.minimum((self.before + self.rows) / self.total, 1.0)
        # The mean of -log c over the coverages c of a run.
        weight = 1 - (scipy.special.xlogy(high, high) - scipy.special.xlogy(low, low)) / (high - low)
        with np.errstate(divide="ignore"):
            widths = np.log(high) - np.log(low)
        later = _after(self.shares[1:] * widths[1:])
        area = float((self.shares * weight * (high - low)).sum())
        moved = self.rate - area - later - self.shares * (np.log(high) + weight)
        plain = self.shares * (high - low)
        generalized = self.generalized_area()
        shifted = self.rate - 2 * generalized - _after(plain[1:]) - plain / 2
        return Influences(self, (moved + weight, moved), (shifted + 1 - (low + high) / 2, shifted))


@dataclass(frozen=True)
class Influences:
    """Influence functions of the two areas, for an error and for a correct answer, by run."""

    ranked: RankedErrors
    area: tuple[Array, Array]
    generalized: tuple[Array, Array]

    def mean(self, value: float, influence: tuple[Array, Array]) -> WeightedMean:
        """A number as the mean of its influences over rows, with its sampling variance."""
        ranked, (wrong, right) = self.ranked, influence

        def total(rows: Array, errors: Array) -> Array:
            return np.asarray((errors * wrong**2 + (rows - errors) * right**2).sum())

        spread = total(ranked.rows, ranked.errors) / ranked.total
        variance = total(ranked.square, ranked.square_errors) / ranked.total**2
        return WeightedMean(np.asarray(value), spread, variance, np.asarray(ranked.total**2 / ranked.square.sum()))

    @cached_property
    def errors(self) -> WeightedMean:
        """The share of errors."""
        ranked = self.ranked
        return share_of(
            *(np.asarray(sums.sum()) for sums in (ranked.rows, ranked.square, ranked.errors, ranked.square_errors))
        )

    def excess(self) -> tuple[Array, Array]:
        """The influence on the area less the best possible one, e + (1 - e) log(1 - e) for a share e of errors."""
        rate, (wrong, right) = self.ranked.rate, self.area
        slope = -np.log1p(-rate) if rate < 1 else 0.0
        return wrong - slope * (1 - rate), right + slope * rate


def best_area(total: Array | float, wrong: Array | float) -> Array:
    """The area if all errors had the smallest scores, (E - (n - E) (H_n - H_{n-E})) / n."""
    right = np.asarray(total) - wrong
    return np.asarray((wrong - right * _harmonic(right, np.asarray(total, np.float64))) / total)


def _harmonic(low: Array, high: Array) -> Array:
    """The sum of 1 / k over k = low + 1, ..., high."""
    return np.asarray(scipy.special.psi(high + 1) - scipy.special.psi(low + 1))


def _after(values: Array) -> Array:
    """For each run the sum over later ones, of the values of all runs but the first."""
    return np.r_[np.cumsum(values[::-1])[::-1], 0.0]
