"""Periods of a summary with features: the values of each feature are watched, each for itself."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from calibdask.analyses.monitoring.period_sums import PeriodSums
from calibdask.inference.sequential.cells import Index, PeriodCells
from calibdask.statistics import exact
from calibdask.statistics.lattice.coding import missing_again
from calibdask.statistics.settings import Setting
from calibdask.storage.summary import Summary
from calibdask.storage.summary_lattice import EVENTS, ROWS, SCORE, SEGMENT, Cuts, segment_sums
from calibdask.storage.summary_scores import joined


@dataclass(frozen=True, eq=False)
class SegmentSums(PeriodSums):
    """Segments of one feature by period, all rows first; each segment is a process.

    Scores of a segment are known by the sums of a few cells, whose mean stands for them: evidence is a little smaller
    than that of fine cells, and holds as well.
    """

    cuts: Cuts
    lattice: xr.Dataset

    @classmethod
    def of_features(cls, given: Any, period: str, setting: Setting | str | int | None) -> "SegmentSums":
        """Sums of the summary that was passed to `calibdask.watch`.

        Raises
        ------
        TypeError, ValueError
            As `PeriodSums.of`; if the summary has no features, or those of another setting.
        """
        whole = PeriodSums.of("watch", given, period, None, setting)
        cuts = Summary.of(given).cuts
        if cuts is None:
            raise ValueError(
                "features expects a summary with features, and this one has none; add its periods by calibdask "
                "summarize DATA --features all --append STORE --period day=DAY."
            )
        if setting is not None and whole.setting != cuts.setting:
            raise ValueError(f"features of this summary are of the setting {cuts.setting}, got {setting!r}.")
        return cls(whole.summary, period, cuts.setting, cuts, segment_sums(Summary.of(given).dataset, period))

    @property
    def slices(self) -> dict[str, npt.NDArray[Any]]:
        """The segments, as texts."""
        texts = ["all rows", *(text for feature in self.cuts.features for text in feature.texts)]
        return {SEGMENT: np.array(texts)[self._numbers]}

    @cached_property
    def _numbers(self) -> npt.NDArray[np.intp]:
        """The numbers of the segments in the lattice: dates that are missing are watched once, by their first part."""
        ends = np.cumsum([1, *(feature.size for feature in self.cuts.features)])
        again = [int(ends[at + 1]) - 1 for at in missing_again(self.cuts.features)]
        return np.delete(np.arange(ends[-1]), again)

    @property
    def columns(self) -> int:
        """Segments have one column of scores."""
        return 1

    @property
    def whole(self) -> PeriodSums:
        """All rows of each period."""
        return PeriodSums(self.summary, self.period, self.setting)

    def part(self, positions: Sequence[int]) -> "SegmentSums":
        """Some periods, in memory."""
        there = super().part(positions)
        return replace(self, summary=there.summary, lattice=self.lattice.isel({self.period: positions}).load())

    def cells(self, position: int) -> Iterator[tuple[Index, PeriodCells]]:
        """The cells of a period, of all segments."""
        here = self.lattice.isel({self.period: position, SEGMENT: self._numbers})
        rows, events, score = (here[name].values for name in (ROWS, EVENTS, SCORE))
        inner = self.cuts.edges.thresholds(np.float64)[0, 0, 0]
        edges = np.r_[0.0, np.clip(inner, 0.0, 1.0), 1.0]
        yield np.arange(self._numbers.size), PeriodCells.of_sums(rows, events, exact.value(joined(score)), edges)
