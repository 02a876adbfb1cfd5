"""The source for states that were added up part by part: exact where a statistic was kept, else from histograms."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from calibdask.engine.sources.source import States, check_states
from calibdask.engine.sources.summary import StoredClusters, SummarySource
from calibdask.statistics.bins.grid import GridHistogram
from calibdask.statistics.cluster_cells import ClusterCells
from calibdask.statistics.column_sums import ColumnSums
from calibdask.statistics.layout import Layout
from calibdask.statistics.score_sums import ScoreSums
from calibdask.statistics.settings import Setting
from calibdask.statistics.statistic import Statistic, ViewedStatistic
from calibdask.statistics.views.clusters import Buckets


class AccumulatedSource(SummarySource):
    """Answers with the states that are kept, and with what follows from them."""

    def __init__(self, states: Mapping[Statistic[Any], Any], layout: Layout, rows: int) -> None:
        stored = {
            statistic: partial(states.__getitem__, statistic)
            for statistic in states
            if isinstance(statistic, GridHistogram)
        }
        check_states(states.keys(), states.values())
        scores = partial(states.__getitem__, ScoreSums()) if ScoreSums() in states else None
        super().__init__(stored, layout, rows, scores, _clusters(states, layout))
        self._kept = states

    def has_score_sums(self, setting: Setting) -> bool:
        """Whether the sums of scores and outcomes of this setting are known; the default setting has them."""
        return self.holds(ColumnSums(setting)) or super().has_score_sums(setting)

    def holds(self, statistic: Statistic[Any]) -> bool:
        """Whether the statistic is kept, or follows from one that is."""
        return statistic in self._kept or any(map(statistic.follows_from, self._kept))

    def answer(self, statistics: tuple[Statistic[Any], ...]) -> States:
        """States of all statistics; raises ValueError if one follows neither from a kept state nor from histograms."""
        return tuple(map(self._answered, statistics))

    def _answered(self, statistic: Statistic[Any]) -> Any:
        if statistic in self._kept:
            return self._kept[statistic]
        origin = next(filter(statistic.follows_from, self._kept), None)
        return statistic.from_histograms(self) if origin is None else statistic.extracted_from(self._kept[origin])


def _clusters(states: Mapping[Statistic[Any], Any], layout: Layout) -> StoredClusters | None:
    """The states by bucket of clusters, if they are kept."""
    counted = next((statistic for statistic in states if isinstance(statistic, ClusterCells)), None)
    if counted is None:
        return None
    view = Buckets(counted.buckets)
    viewed = {
        statistic.statistic: partial(states.__getitem__, statistic)
        for statistic in states
        if isinstance(statistic, ViewedStatistic) and statistic.view == view
    }
    stored = {statistic: state for statistic, state in viewed.items() if isinstance(statistic, GridHistogram)}
    by_bucket = SummarySource(stored, view.layout(layout), None, viewed[ScoreSums()])
    return StoredClusters(view, by_bucket, lambda: states[counted].rows[0])
