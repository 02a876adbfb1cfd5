"""The source for stored states: histograms on a grid answer without the data, and so do replicates of them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from threading import Lock
from typing import Any, TypeVar

import numpy as np

from calibdask.engine.sources.source import Source, States
from calibdask.statistics import exact
from calibdask.statistics.bins import grid_bins
from calibdask.statistics.bins.bin_sums import BinSums, BinSumsState
from calibdask.statistics.bins.binnings import BinEdges, EqualMass
from calibdask.statistics.bins.edges import Edges
from calibdask.statistics.bins.grid import GridHistogram, GridState, coarsened
from calibdask.statistics.bins.grid_bins import HistogramSums
from calibdask.statistics.bins.sparse_grid import SparseGridState
from calibdask.statistics.cluster_cells import counted_clusters
from calibdask.statistics.cluster_sums import SliceClusters, equivalent_clusters, skewness_of_sum
from calibdask.statistics.counts import RowCountState
from calibdask.statistics.derived import Derived
from calibdask.statistics.exact import Array, Counts
from calibdask.statistics.layout import Layout
from calibdask.statistics.replicates.bins import ResampledBins
from calibdask.statistics.replicates.histograms import left_out, resampled
from calibdask.statistics.request import Requests
from calibdask.statistics.score_sums import ScoreSums, ScoreSumsState
from calibdask.statistics.settings import Setting
from calibdask.statistics.statistic import Statistic
from calibdask.statistics.views.clusters import Buckets, BucketWeights
from calibdask.statistics.views.view import View

Answer = TypeVar("Answer")


class SummarySource(Source):
    """Answers from histograms on the grid: those themselves, coarser ones, and what statistics compute from them.

    ``stored`` has for each histogram a function that reads its state, called when the state is needed; ``scores`` is
    one for the sums of proper scores, where there are such; ``stored_clusters`` the same by bucket of clusters.
    Statistics know this source as `calibdask.statistics.bins.histograms.Histograms`.
    """

    has_rows = False

    def __init__(
        self,
        stored: Mapping[GridHistogram, Callable[[], GridState | SparseGridState]],
        layout: Layout,
        rows: int | None = None,
        scores: Callable[[], ScoreSumsState] | None = None,
        stored_clusters: "StoredClusters | None" = None,
    ) -> None:
        self.layout = layout
        self.stored_clusters = stored_clusters
        self.rows = rows
        self.scores = None if scores is None else cache(scores)
        self._stored = stored
        self._read: dict[GridHistogram, GridState | SparseGridState] = {}
        self._summed: dict[GridHistogram, HistogramSums] = {}
        self._resampled: dict[tuple[BinSums, bool], ResampledBins] = {}
        self._resampling = Lock()
        self._seen: dict[View, SummarySource] = {}

    def resampled(
        self, seed: int, replicates: range, *, calibrated: bool = False, by_cells: bool = False
    ) -> "SummarySource":
        """A source of replicates along the batch axis; see `calibdask.statistics.replicates.histograms`.

        Sums over bins are drawn by themselves (`calibdask.statistics.replicates.bins`), unless ``by_cells``.
        """

        def histogram(stored: GridHistogram, columns: slice) -> GridState:
            first, state = columns.start or 0, self._columns(stored, columns)
            return resampled(state, stored.grid, seed, replicates, calibrated=calibrated, first_column=first)

        def bins(request: BinSums, power: int) -> BinSumsState:
            once = replace(request, edges=request.edges.of_first(self.layout.batch))
            return self._resampled_bins(once, calibrated).draw(seed, replicates, power)

        # Outcomes of rows with different weights are not binomial.
        whole = by_cells or (calibrated and self.layout.weighted)
        return _Replicates(self, histogram, None if whole else bins, len(replicates), 1 if calibrated else 2)

    def left_out(self, seed: int, groups: range) -> "SummarySource":
        """A source of the rows without one group of them each; see `calibdask.statistics.replicates.histograms`."""

        def histogram(stored: GridHistogram, columns: slice) -> GridState:
            return left_out(self._columns(stored, columns), seed, groups, first_column=columns.start or 0)

        return _Replicates(self, histogram, None, len(groups))

    @property
    def histograms_to_resample(self) -> "SummarySource":
        """The source itself."""
        return self

    @property
    def histograms(self) -> tuple[GridHistogram, ...]:
        """All stored histograms."""
        return tuple(self._stored)

    def bytes_of_a_replicate(self, known: Mapping[Statistic[Any], Any], *, by_cells: bool = False) -> int:
        """Memory of a replicate of these states, with that of the columns of histograms that answer for them."""
        sums = sum(
            part.nbytes for statistic, state in known.items() if isinstance(statistic, BinSums) for part in state
        )
        of_cells = by_cells or self.layout.weighted
        asked = {statistic for statistic in known if isinstance(statistic, GridHistogram)}
        asked |= {self.finest(statistic.setting) for statistic in known if isinstance(statistic, BinSums) and of_cells}
        asked |= {self.of_scores() for statistic in known if isinstance(statistic, ScoreSums)}
        told_by = {replace(self._place(histogram)[0], setting=histogram.setting) for histogram in asked}
        return sums + sum(histogram.bytes(self.layout) for histogram in told_by)

    @property
    def step(self) -> float:
        """Width of the cells of the finest grid."""
        return 1 / max(stored.grid.cells for stored in self._stored)

    def has_histogram(self, setting: Setting) -> bool:
        """Whether a histogram of this setting is stored."""
        return any(stored.setting.column_range(setting) is not None for stored in self._stored)

    def answer(self, statistics: tuple[Statistic[Any], ...]) -> States:
        """The states of all statistics; raises ValueError for those that need the data."""
        return tuple(statistic.from_histograms(self) for statistic in statistics)

    def derivation(self, request: Derived[Answer]) -> Requests[Answer]:
        """How requests are derived from histograms."""
        return request.from_histograms(self)

    def holds(self, statistic: Statistic[Any]) -> bool:
        """Nothing but histograms, and what follows from them."""
        return False

    def equal_mass_edges(self, binning: EqualMass, setting: Setting) -> Edges:
        """Edges on borders of cells."""
        finest = self.finest(setting)
        return grid_bins.equal_mass_edges(binning, self.state(finest), finest.grid)

    def bin_sums(self, request: BinSums) -> BinSumsState:
        """Sums over bins of whole cells."""
        finest = self.finest(request.setting)
        if (occupied := self.occupied(finest)) is None:
            return grid_bins.bin_sums(request, self._cells(finest), finest.grid)
        return grid_bins.occupied_bin_sums(request, occupied, self._shape(finest)[:3], finest.grid)

    def square_sums(self, request: BinSums) -> BinSumsState:
        """Sums of squared weights over bins of whole cells."""
        finest = self.finest(request.setting)
        return grid_bins.square_sums(request, self.state(finest), finest.grid)

    def row_count(self) -> RowCountState:
        """Rows of the first histogram; all agree."""
        first = next(iter(self._stored))
        occupied = self.occupied(first)
        if occupied is not None:
            return RowCountState(occupied.rows_of_strata(self._shape(first))[:, :, 0])
        state = self._columns(first, slice(None))
        rows = state.rows if state.weighted else state.mass
        return RowCountState(rows[:, :, 0].sum((-1, -2)))

    def score_sums(self) -> ScoreSumsState:
        """The sums of proper scores."""
        if self.scores is None:
            raise ValueError(
                "This summary has no sums of proper scores, which summaries of earlier versions lack; summarize the "
                "data again, or evaluate them."
            )
        return self.scores()

    def seen_through(self, view: View) -> "SummarySource | None":
        """The rows by bucket of their clusters, or replicates of these; None for all other views."""
        if self.stored_clusters is None:
            return None
        if view == self.stored_clusters.view:
            return self.stored_clusters.by_bucket
        if not isinstance(view, BucketWeights) or view.buckets != self.stored_clusters.view:
            return None
        if view not in self._seen:
            self._seen[view] = self._replicates_of_clusters(view, self.stored_clusters.by_bucket)
        return self._seen[view]

    def _replicates_of_clusters(self, view: BucketWeights, by_bucket: "SummarySource") -> "SummarySource":
        """A source of replicates of the clusters along the batch axis."""

        def replicated(stored: GridHistogram) -> GridState:
            return view.of_states(stored, by_bucket.state(stored), self.layout)

        def scores() -> ScoreSumsState:
            return view.of_states(ScoreSums(), by_bucket.score_sums(), self.layout)

        histograms = {stored: partial(replicated, stored) for stored in self._stored}
        has_scores = by_bucket.scores is not None
        return SummarySource(histograms, view.layout(self.layout), self.rows, scores if has_scores else None)

    def clusters(self, setting: Setting) -> SliceClusters:
        """Clusters by the cells of their hashes; the design effect by bucket, NaN without such a histogram."""
        if self.stored_clusters is None:
            raise ValueError("This summary has no clusters; summarize the rows with groups.")
        counted = counted_clusters(self.stored_clusters.rows())
        unknown = np.full(self.layout.groups, np.nan)
        if not self.has_histogram(setting):
            return SliceClusters(*counted, unknown, unknown, unknown, unknown, 0)
        effect, equivalent, skewness, weight = self._design_effect(setting, self.stored_clusters)
        # Cells count rows.
        counted = counted.weighed(weight) if self.layout.weighted else counted
        return SliceClusters(*counted, effect, unknown, equivalent, skewness, 0)

    def _design_effect(self, setting: Setting, clusters: "StoredClusters") -> tuple[Array, Array, Array, Array]:
        """The variance of the mean residual relative to independent rows, its certainty, skewness, and weights."""
        source, shape = clusters.by_bucket, (self.layout.groups, clusters.view.count)
        cells = source._cells(source.finest(setting))
        mass, score, square, rows = (
            sums[0, :, 0].reshape(*shape, 2, -1) for sums in (cells.mass, cells.score, cells.square, cells.rows)
        )
        mean = np.divide(score, mass, out=np.zeros_like(score), where=mass > 0)
        residual = np.array([0.0, 1.0])[:, None] - mean
        weight, count = mass.sum((-1, -2)), rows.sum((-1, -2, -3))
        with np.errstate(divide="ignore", invalid="ignore"):
            centre = ((mass * residual).sum((-1, -2, -3)) / weight.sum(-1))[:, None, None, None]
            sums = (mass * (residual - centre)).sum((-1, -2))
            of_buckets = (sums**2).sum(-1)
            of_rows, filled = (square * (residual - centre) ** 2).sum((-1, -2, -3)), (weight > 0).sum(-1)
            equivalent = equivalent_clusters(of_buckets, (sums**4).sum(-1), filled)
            effect = of_buckets * filled / (filled - 1) / of_rows * (count - 1) / count
            return effect, equivalent, skewness_of_sum(sums), weight

    def state(self, histogram: GridHistogram) -> GridState:
        """The stored histogram, the sum of its parts, or one of its columns."""
        stored, columns = self._place(histogram)
        state = self._columns(stored, columns)
        return state if stored.grid == histogram.grid else coarsened(state, stored.grid)

    def occupied(self, histogram: GridHistogram) -> SparseGridState | None:
        """The occupied cells of a histogram, where they alone are stored."""
        stored, columns = self._place(histogram)
        state = self._read_state(stored)
        if not isinstance(state, SparseGridState):
            return None
        chosen = state.column_range(self._shape(stored), columns)
        return chosen if stored.grid == histogram.grid else chosen.coarsened(stored.grid)

    def _shape(self, stored: GridHistogram) -> tuple[int, ...]:
        """Shape of the arrays of a histogram."""
        batch, groups, classes = self.layout.batch, self.layout.groups, self.layout.classes
        return batch, groups, stored.setting.columns(classes), stored.grid.size, 2

    def _place(self, histogram: GridHistogram) -> tuple[GridHistogram, slice]:
        """The stored histogram that contains this one, and the columns to take from it."""
        # The very one first: which others are stored must not matter to replicates.
        for stored in sorted(self._stored, key=lambda candidate: candidate != histogram):
            if histogram.grid in (stored.grid, replace(stored.grid, refined=False)):
                columns = stored.setting.column_range(histogram.setting)
                if columns is not None:
                    return stored, columns
        raise ValueError(
            f"The histogram of the setting {histogram.setting} on [{histogram.grid.low:.4g}, 1] in "
            f"{histogram.grid.cells} cells is not stored; available are: {', '.join(map(_described, self._stored))}. "
            f"Give the metric the step of the summary, step={self.step:.6g}, or summarize the data with another step."
        )

    def finest(self, setting: Setting) -> GridHistogram:
        """The histogram of this setting on the unit interval with the most cells."""
        whole = [kept for kept in self._stored if kept.grid.low == 0]
        grids = [kept.grid for kept in whole if kept.setting.column_range(setting) is not None]
        if not grids:
            raise ValueError(
                f"No histogram of the setting {setting} is stored, only {', '.join(map(_described, self._stored))}; "
                "take one of these settings, or summarize the data with that setting as well."
            )
        return GridHistogram(setting, max(grids, key=lambda grid: grid.size))

    def of_scores(self) -> GridHistogram:
        """Histogram from which proper scores of replicates are computed: that of one class."""
        one = Setting("class", 1)
        return self.finest(one if self.has_histogram(one) else next(iter(self._stored)).setting)

    def _cells(self, histogram: GridHistogram) -> HistogramSums:
        """Sums by cell of a histogram, kept as long as this source."""
        if histogram not in self._summed:
            self._summed[histogram] = grid_bins.cell_sums(self.state(histogram), histogram.grid)
        return self._summed[histogram]

    def _resampled_bins(self, request: BinSums, calibrated: bool) -> ResampledBins:
        """Cached base of all replicates of some sums; threads share it."""
        with self._resampling:
            if (request, calibrated) not in self._resampled:
                finest = self.finest(request.setting)
                once = ResampledBins(request, self._cells(finest), finest.grid, calibrated=calibrated)
                self._resampled[request, calibrated] = once
            return self._resampled[request, calibrated]

    def _columns(self, stored: GridHistogram, columns: slice) -> GridState:
        """Some columns of a stored histogram."""
        state = self._read_state(stored)
        if isinstance(state, SparseGridState):
            return state.whole(self._shape(stored), columns)
        return state.part((slice(None), slice(None), columns))

    def _read_state(self, stored: GridHistogram) -> GridState | SparseGridState:
        if stored not in self._read:
            self._read[stored] = self._stored[stored]()
        return self._read[stored]


@dataclass(frozen=True, eq=False)
class StoredClusters:
    """The clusters of the rows of a summary.

    Attributes
    ----------
    view : Buckets
        How rows were sent to buckets.
    by_bucket : SummarySource
        The states of each bucket, as slices.
    rows : function
        Reads the rows by cell of the hash of their cluster (`calibdask.statistics.cluster_cells`), (groups, buckets,
        cells).
    """

    view: Buckets
    by_bucket: SummarySource
    rows: Callable[[], Counts]


class _Replicates(SummarySource):
    """Replicates of all that another source has stored, made when they are needed; edges of bins are its own.

    ``bins`` draws sums over bins of a power of the weights by themselves; without, they come from the replicates of its
    histograms. ``sampled`` is how many times rows have been drawn at random: replicates of data contain the noise of
    sampling twice.
    """

    def __init__(
        self,
        of: SummarySource,
        histogram: Callable[[GridHistogram, slice], GridState],
        bins: Callable[[BinSums, int], BinSumsState] | None,
        count: int,
        sampled: int = 1,
    ) -> None:
        layout = replace(of.layout, batch=of.layout.batch * count, rows=None)
        stored = {stored: partial(histogram, stored, slice(None)) for stored in of.histograms}
        super().__init__(stored, layout, of.rows, of.scores)
        self._of, self._bins, self._count, self._sampled = of, bins, count, sampled
        self._histogram = histogram
        self._drawn: dict[tuple[GridHistogram, int], GridState] = {}
        # Not a cached method: that would be a circle, which keeps replicates until the next search for garbage.
        self._score_sums: ScoreSumsState | None = None

    def equal_mass_edges(self, binning: EqualMass, setting: Setting) -> Edges:
        """Edges chosen from the data, as for replicates of rows: bins are chosen once."""
        return BinEdges(binning, setting).tiled(self._of.equal_mass_edges(binning, setting), self._count)

    def bin_sums(self, request: BinSums) -> BinSumsState:
        """Sums over bins, drawn by themselves or from the replicates of the histograms."""
        sums = super().bin_sums(request) if self._bins is None else self._bins(request, 1)
        # Rows drawn twice carry the information of half as many, like rows that are resampled by weights.
        return sums._replace(weight_square=self._sampled * sums.weight_square)

    def square_sums(self, request: BinSums) -> BinSumsState:
        """Sums of squared weights over the bins of the replicates, multiplied by the number of draws of each row."""
        sums = super().square_sums(request) if self._bins is None else self._bins(request, 2)
        return sums._replace(weight=self._sampled * sums.weight, outcome=self._sampled * sums.outcome)

    def _columns(self, stored: GridHistogram, columns: slice) -> GridState:
        """Replicates of these columns only, unless all columns have been drawn."""
        if columns.start is None or stored in self._read:
            return super()._columns(stored, columns)
        key = stored, columns.start
        if key not in self._drawn:
            self._drawn[key] = self._histogram(stored, columns)
        return self._drawn[key]

    def score_sums(self) -> ScoreSumsState:
        """The sums of proper scores of the replicates."""
        if self._score_sums is None:
            self._score_sums = self._scores_of_cells()
        return self._score_sums

    def _scores_of_cells(self) -> ScoreSumsState:
        """Score sums of the data, shifted by the change of the histogram's own score sums."""
        histogram = self.of_scores()
        smallest = self.layout.smallest
        centre = grid_bins.binary_scores(self._of.state(histogram), histogram.grid, smallest)
        drawn = grid_bins.binary_scores(self.state(histogram), histogram.grid, smallest)
        exactly = self._of.score_sums()
        weight, brier, log = (
            np.maximum(values + np.tile(exact.value(sums) - at_cells, (self._count, 1)), 0.0)
            for values, sums, at_cells in zip(drawn, exactly[2:], centre, strict=True)
        )
        none = np.zeros(weight.shape, np.int64)
        return ScoreSumsState(none, none, weight, brier, log)


def _described(stored: GridHistogram) -> str:
    return f"{stored.setting} on [{stored.grid.low:.4g}, 1] in {stored.grid.cells} cells"
