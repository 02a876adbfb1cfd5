"""Slices, the worst first: in their order as soon as it is certain, without an interval of every slice."""

from collections.abc import Sequence
from dataclasses import replace
from time import perf_counter
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from calibdask.estimators.ece import ECE, MCE
from calibdask.estimators.estimator import Estimator
from calibdask.evaluation import evaluate
from calibdask.explore.summaries.measuring import LEVEL
from calibdask.explore.summaries.pools import Pool, Selection

__all__ = ["RANKED", "WorstFirst", "ranked_metric"]

# Errors by which slices are ordered: those whose intervals take milliseconds.
RANKED = {
    "ECE": ECE(),
    "ECE, equal-mass bins": ECE(binning="equal-mass"),
    "root mean square error": ECE(norm="l2", debias=True),
    "largest gap of a bin": MCE(),
}
# Seconds that some slices may take before one looks up.
_STEP = 0.1
_FIRST, _MOST = 4, 64


def ranked_metric(name: str, setting: str | int | None, bins: int) -> Estimator:
    """One of `RANKED` with this setting and number of bins."""
    return replace(RANKED[name], setting=setting, bins=bins)


class WorstFirst:
    """Slices in the order of `calibdask.worst_slices`: by the lower end of the interval of an error.

    The lower end is never above the value. So slices get their intervals in the order of their values, and places are
    settled as soon as a lower end is not below any value that has no interval yet.

    Parameters
    ----------
    pool : Pool
    dims : sequence of str
        Dimensions of the slices to be ordered; others are pooled over the selection.
    selection : Selection
    metric : Estimator
        Of one number, without slices.
    setting : str, int or None
        Of the metric.

    Examples
    --------
    >>> import numpy as np, calibdask as cd
    >>> rng = np.random.default_rng(0)
    >>> scores, day = rng.random(3000), rng.choice(["mon", "tue", "wed"], 3000)
    >>> labels = (rng.random(3000) < np.where(day == "tue", scores**3, scores)).astype(int)
    >>> pool = Pool(cd.summarize(labels, scores, by={"day": day}, settings=["binary"]))
    >>> worst = WorstFirst(pool, ["day"], Selection(), cd.ECE(), None)
    >>> worst.advance(60)
    True
    >>> worst.dataset().day.values.tolist()[0], worst.settled
    ('tue', 3)
    """

    def __init__(
        self, pool: Pool, dims: Sequence[str], selection: Selection, metric: Estimator, setting: str | int | None
    ) -> None:
        self.dims = tuple(dims)
        self._pool, self._metric, self._setting = pool, metric, setting
        self._groups = pool.groups(dims, selection)
        self.rows = pool.group_rows(self._groups)
        self.value, self.low, self.high = np.full((3, len(self._groups)), np.nan)
        # Without rows there is nothing to measure.
        self._unknown = np.flatnonzero(self.rows > 0)
        self._without = self._unknown
        self._at_once = _FIRST
        self.seconds = 0.0

    def advance(self, seconds: float, wanted: int | None = None) -> bool:
        """Go on for about so many seconds; whether the order is settled, of the first ``wanted`` places at least."""
        begun = perf_counter()
        while not self.done(wanted):
            self._step()
            if perf_counter() - begun >= seconds:
                break
        self.seconds += perf_counter() - begun
        return self.done(wanted)

    def done(self, wanted: int | None = None) -> bool:
        """Whether so many places are settled; None: all."""
        if self._unknown.size:
            return False
        return not self._without.size or (wanted is not None and self.settled >= wanted)

    @property
    def with_intervals(self) -> int:
        """How many slices have their interval."""
        return int(np.isfinite(self.low).sum())

    @property
    def measured(self) -> int:
        """How many slices have a value or, without rows, can have none."""
        return self.rows.size - self._unknown.size

    @property
    def settled(self) -> int:
        """How many places are certain, from the first on."""
        if self._unknown.size:
            return 0
        largest = np.nanmax(self.value[self._without], initial=-np.inf)
        return int((self.low > largest).sum()) if self._without.size else int(np.isfinite(self.value).sum())

    def order(self) -> npt.NDArray[np.int64]:
        """Slices that have a value: those with intervals by the lower end, then others by the value."""
        known = np.isfinite(self.low)
        order = np.lexsort((-self.value, -np.where(known, self.low, -np.inf)))
        return order[np.isfinite(self.value[order])]

    def places(self) -> list[dict[str, int]]:
        """Positions along each dimension, in order."""
        return [dict(zip(self.dims, self._groups[i].place, strict=True)) for i in self.order().tolist()]

    def dataset(self) -> xr.Dataset:
        """Slices in order with labels, rows, value and ends of the interval, NaN where it is not known."""
        order = self.order()
        places = np.array([self._groups[i].place for i in order], np.int64).reshape(order.size, len(self.dims))
        labels = {dim: ("slice", self._pool.labels[dim][places[:, i]]) for i, dim in enumerate(self.dims)}
        numbers = {"rows": self.rows, "value": self.value, "low": self.low, "high": self.high}
        return xr.Dataset({name: ("slice", values[order]) for name, values in numbers.items()}, labels)

    def _step(self) -> None:
        """Values of some slices; once all have one, intervals of those with the largest."""
        intervals = not self._unknown.size
        left = self._without[np.argsort(-self.value[self._without], kind="stable")] if intervals else self._unknown
        some, rest = left[: self._at_once], left[self._at_once :]
        result = self._measured(some, {"ci": LEVEL} if intervals else {})
        self.value[some] = result["error"].values
        if intervals:
            self.low[some], self.high[some] = result["error_low"].values, result["error_high"].values
            self._without = rest
        else:
            self._unknown = rest
            if not rest.size:
                self._without = self._without[np.isfinite(self.value[self._without])]
                self._at_once = _FIRST

    def _measured(self, some: npt.NDArray[np.int64], options: dict[str, Any]) -> xr.Dataset:
        begun = perf_counter()
        summary = self._pool.grouped([self._groups[i] for i in some], self._setting)
        result = evaluate(summary, metrics={"error": self._metric}, **options)
        share = (perf_counter() - begun) / _STEP
        self._at_once = max(1, min(_MOST, int(some.size * min(2.0, 1 / share))))
        return result
