"""Slices, the worst first: in their order as soon as it is certain, without an interval of every slice."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from calibdask.analyses.evaluation import evaluate
from calibdask.estimators.binned.ece import ECE, MCE
from calibdask.estimators.estimator import Estimator
from calibdask.estimators.smooth.gridded import on_grid
from calibdask.explore.summaries.own_metrics import error_of, in_setting
from calibdask.explore.summaries.page_metrics import LEVEL
from calibdask.explore.summaries.pool import Pool, Selection
from calibdask.explore.summaries.slice_gaps import gaps_of
from calibdask.results.ranking import certain_ends, worst_order
from calibdask.results.values import PartResult

# Errors by which slices are ordered: those whose intervals take milliseconds.
RANKING_METRICS = {
    "ECE": ECE(),
    "ECE, equal-mass bins": ECE(binning="equal-mass"),
    "root mean square error": ECE(norm="l2", debias=True),
    "largest gap of a bin": MCE(),
}
# Seconds that the slices measured together may take.
_STEP = 0.1
_FIRST, _MOST = 4, 64


@dataclass(frozen=True)
class RankingMetric:
    """The error by which slices are ordered, with the setting of the page.

    ``is_own`` is a user's own estimator: it has its own bins, and may need histograms of other settings.
    """

    estimator: Estimator
    setting: str | int | None
    is_own: bool = False

    @classmethod
    def usual(cls, name: str, setting: str | int | None, bins: int) -> "RankingMetric":
        """One of `RANKING_METRICS` with this setting and number of bins."""
        return cls(replace(RANKING_METRICS[name], setting=setting, bins=bins), setting)

    @classmethod
    def from_estimator(cls, estimator: Estimator, setting: str | int | None) -> "RankingMetric":
        """A user's own estimator of an error, with this setting where it names none."""
        return cls(in_setting(estimator, setting), setting, is_own=True)


class SliceRanking:
    """Slices in the order of `calibdask.worst_slices`: by the lower end of the interval of an error.

    Ends are adjusted for the number of slices with rows. The lower end is never above the value. So slices get their
    intervals in the order of their values, and ranks are settled as soon as a lower end is not below any value that has
    no interval yet. Errors without intervals order slices by their values.

    Parameters
    ----------
    pool : Pool
    dims : sequence of str
        Dimensions of the slices to be ordered; others are pooled over the selection.
    selection : Selection
    metric : RankingMetric

    Examples
    --------
    >>> import numpy as np, calibdask as cd
    >>> rng = np.random.default_rng(0)
    >>> scores, day = rng.random(3000), rng.choice(["mon", "tue", "wed"], 3000)
    >>> labels = (rng.random(3000) < np.where(day == "tue", scores**3, scores)).astype(int)
    >>> pool = Pool(cd.summarize(labels, scores, by={"day": day}, settings=["binary"]))
    >>> ranking = SliceRanking(pool, ["day"], Selection(), RankingMetric(cd.ECE(), None))
    >>> ranking.advance(60)
    True
    >>> ranking.dataset().day.values.tolist()[0], ranking.settled
    ('tue', 3)
    """

    def __init__(self, pool: Pool, dims: Sequence[str], selection: Selection, metric: RankingMetric) -> None:
        self.dims = tuple(dims)
        self.has_intervals = True
        self._pool, self._metric = pool, metric
        self._groups = pool.groups(dims, selection)
        self.rows = pool.group_rows(self._groups)
        self.value, self.low, self.high, self._own_low = np.full((4, len(self._groups)), np.nan)
        # On which side of their scores slices are, as far as it has been asked for.
        self.gap, self.gap_low, self.gap_high = np.full((3, len(self._groups)), np.nan)
        # Without rows there is nothing to measure.
        self._unmeasured = np.flatnonzero(self.rows > 0)
        self.judged = int(self._unmeasured.size)
        self._without_interval = self._unmeasured
        self._batch = _FIRST
        self.seconds = 0.0

    def advance(self, seconds: float, ranks: int | None = None) -> bool:
        """Go on for about so many seconds; whether the order is settled, of the first ``ranks`` at least."""
        start = perf_counter()
        while not self.done(ranks):
            self._step()
            if perf_counter() - start >= seconds:
                break
        self.seconds += perf_counter() - start
        return self.done(ranks)

    def done(self, ranks: int | None = None) -> bool:
        """Whether so many ranks are settled; None: all."""
        if self._unmeasured.size:
            return False
        return not self._without_interval.size or (ranks is not None and self.settled >= ranks)

    @property
    def with_intervals(self) -> int:
        """Number of slices that have their interval."""
        return int(np.isfinite(self.low).sum())

    @property
    def settled(self) -> int:
        """Number of ranks that are certain, from the first on."""
        if self._unmeasured.size:
            return 0
        if not self._without_interval.size:
            return int(np.isfinite(self.value).sum())
        return int((self.low > np.nanmax(self.value[self._without_interval], initial=-np.inf)).sum())

    def order(self) -> npt.NDArray[np.int64]:
        """Slices that have a value: those with intervals by the lower end, then others by the value."""
        return worst_order(self.value, self.low, self._own_low)

    def indexers(self, most: int | None = None) -> list[dict[str, int]]:
        """The position of each slice along the dimensions, in order; of the first ``most``."""
        return [dict(zip(self.dims, self._groups[i].position, strict=True)) for i in self.order()[:most].tolist()]

    def measure_gaps(self, most: int) -> None:
        """Mean gaps of the first slices in their order, with intervals that hold for all slices together."""
        first = self.order()[:most]
        first = first[np.isnan(self.gap[first])]
        if self._metric.setting == "classwise" or not first.size:
            return
        level = 1 - (1 - LEVEL) / max(1, self.judged)
        gaps = gaps_of(self._pool, [self._groups[i].numbers for i in first], self._metric.setting, level)
        self.gap[first], self.gap_low[first], self.gap_high[first] = gaps.value, gaps.low, gaps.high

    def dataset(self, most: int | None = None) -> xr.Dataset:
        """Slices in order with labels, rows, value, mean gap and ends of intervals, NaN where they are not known."""
        order = self.order()[:most]
        positions = np.array([self._groups[i].position for i in order], np.int64).reshape(order.size, len(self.dims))
        labels = {dim: ("slice", self._pool.labels[dim][positions[:, i]]) for i, dim in enumerate(self.dims)}
        numbers = {"rows": self.rows, "value": self.value, "low": self.low, "high": self.high}
        numbers |= {"mean_gap": self.gap, "mean_gap_low": self.gap_low, "mean_gap_high": self.gap_high}
        return xr.Dataset({name: ("slice", values[order]) for name, values in numbers.items()}, labels)

    def _step(self) -> None:
        """Values of a few slices; once all have one, intervals of those with the largest."""
        if self._unmeasured.size:
            batch, self._unmeasured = self._unmeasured[: self._batch], self._unmeasured[self._batch :]
            self.value[batch] = self._measured(batch).values.values
            if not self._unmeasured.size:
                self._without_interval = self._without_interval[np.isfinite(self.value[self._without_interval])]
                self._batch = _FIRST
            return
        remaining = self._without_interval
        remaining = remaining[np.argsort(-self.value[remaining], kind="stable")]
        batch, self._without_interval = remaining[: self._batch], remaining[self._batch :]
        error = self._measured(batch, ci=LEVEL)
        self.value[batch] = error.values.values
        self.has_intervals = error.has_interval
        if not error.has_interval:
            self._without_interval = remaining[:0]
            return
        self._own_low[batch] = error.bounds["low"].values
        self.low[batch], self.high[batch] = certain_ends(error, LEVEL, self.judged)

    def _measured(self, batch: npt.NDArray[np.int64], **options: Any) -> PartResult:
        start = perf_counter()
        groups, metric = [self._groups[i] for i in batch], self._metric
        summary = self._pool.grouped(groups, metric.setting, complete=metric.is_own, intervals=bool(options))
        error = error_of(evaluate(summary, metrics=on_grid({"error": metric.estimator}, summary.step), **options))
        if error is None:
            raise ValueError(
                f"Slices cannot be sorted by {metric.estimator.label}: it is not a single number in this setting."
            )
        share = (perf_counter() - start) / _STEP
        self._batch = max(1, min(_MOST, int(batch.size * min(2.0, 1 / share))))
        return error
