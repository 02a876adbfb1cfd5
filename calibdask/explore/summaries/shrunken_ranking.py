"""Many small slices, those with the largest mean gaps first after shrinkage by empirical Bayes."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from calibdask.analyses.shrinkage import shrunken_gaps
from calibdask.engine.plan import run_requests
from calibdask.estimators.scores.mean_gap import MeanGap
from calibdask.explore.summaries.page_metrics import LEVEL
from calibdask.explore.summaries.pool import Pool, Selection
from calibdask.explore.summaries.slice_ranking import RankingMetric, SliceRanking
from calibdask.inference.slice_sums import SliceSums, slice_sums

SHRUNKEN = "mean gap, shrunken"
# Histograms that are in memory at a time.
_MOST_BYTES = 1 << 26


class ShrunkenRanking(SliceRanking):
    """Slices in the order of `calibdask.shrink_slices`; values are shrunken gaps, with intervals for all of them.

    Raises
    ------
    ValueError
        For all classes together, which have several gaps; with clusters.

    Examples
    --------
    >>> import numpy as np, calibdask as cd
    >>> scores, slices = np.tile([0.2, 0.4, 0.6], 400), np.repeat(np.arange(12), 100)
    >>> labels = np.random.default_rng(0).random(1200) < scores + 0.3 * (slices == 5)
    >>> pool = Pool(cd.summarize(labels, scores, by={"c": slices}, settings=["binary"]))
    >>> ranking = ShrunkenRanking(pool, ["c"], Selection(), None)
    >>> ranking.advance(60), ranking.dataset().c.values.tolist()[0]
    (True, 5)
    """

    def __init__(self, pool: Pool, dims: Sequence[str], selection: Selection, setting: str | int | None) -> None:
        if setting == "classwise":
            raise ValueError("Slices of all classes have no single mean gap; choose another order, or one class.")
        if pool.clustered:
            raise ValueError("Shrinkage assumes independent rows, and these are clustered; choose another order.")
        super().__init__(pool, dims, selection, RankingMetric(MeanGap(setting=setting), setting))
        self._sums: list[SliceSums] = []
        self._measured_slices = self._unmeasured

    def order(self) -> npt.NDArray[np.int64]:
        """Slices by the size of their shrunken gaps."""
        order = np.argsort(-np.abs(self.value), kind="stable")
        return order[np.isfinite(self.value[order])]

    def measure_gaps(self, most: int) -> None:
        """Do nothing: the gaps are the ranked values."""

    def _step(self) -> None:
        setting = self._metric.setting
        size = max(1, _MOST_BYTES // max(1, self._pool.nbytes(setting)))
        batch, self._unmeasured = self._unmeasured[:size], self._unmeasured[size:]
        summary = self._pool.watchable([self._groups[at].numbers for at in batch], setting)
        answer: Any = run_requests({"sums": slice_sums(setting)}, summary.source).estimates["sums"]
        self._sums.append(answer)
        if self._unmeasured.size:
            return
        effects = shrunken_gaps(SliceSums.joined(self._sums), LEVEL)
        at = self._measured_slices
        self.value[at], self.low[at], self.high[at] = effects.shrunken, effects.low, effects.high
        self.gap, self.gap_low, self.gap_high = self.value, self.low, self.high
        self._without_interval = at[:0]
