"""The source for stored states: histograms on the grid answer without the data, and so do replicates of them."""

import operator
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from calibdask.engine import grid_bins
from calibdask.engine.resampling import left_out, resampled
from calibdask.engine.source import Source, States
from calibdask.estimators.score_points import ScorePoints, points_of_grid
from calibdask.statistics.binned import BinSums
from calibdask.statistics.binnings import BinEdges, EqualMass
from calibdask.statistics.counts import RowCount, RowCountState
from calibdask.statistics.grid import Grid, GridHistogram, GridState, coarsened
from calibdask.statistics.layout import Layout
from calibdask.statistics.settings import Setting
from calibdask.statistics.statistic import Asking, Derived, State, Statistic

__all__ = ["StoredSource"]


class StoredSource(Source):
    """Answers from histograms on the grid: those themselves, coarser ones, and sums over bins of whole cells.

    ``stored`` gives for each histogram a function that reads its state; it is called when the state is needed.
    ``sampled`` says how many times rows have been drawn at random: replicates of data hold the noise of sampling twice.
    """

    def __init__(
        self,
        stored: Mapping[GridHistogram, Callable[[], GridState]],
        layout: Layout,
        rows: int | None = None,
        sampled: int = 1,
    ) -> None:
        self.layout = layout
        self.rows = rows
        self._stored = stored
        self._sampled = sampled
        self._read: dict[GridHistogram, GridState] = {}

    def resampled(self, seed: int, replicates: range, *, calibrated: bool = False) -> "StoredSource":
        """A source for replicates, along the batch axis; see `calibdask.engine.resampling.resampled`."""

        def drawn(histogram: GridHistogram) -> GridState:
            return resampled(self._state(histogram), histogram.grid, seed, replicates, calibrated=calibrated)

        return self._replicates(drawn, len(replicates), 1 if calibrated else 2)

    def left_out(self, seed: int, groups: range) -> "StoredSource":
        """A source for the rows but one group of them each; see `calibdask.engine.resampling.left_out`."""

        def without(histogram: GridHistogram) -> GridState:
            return left_out(self._state(histogram), seed, groups)

        return self._replicates(without, len(groups))

    def _replicates(self, make: Callable[[GridHistogram], GridState], count: int, sampled: int = 1) -> "StoredSource":
        layout = replace(self.layout, batch=self.layout.batch * count, rows=None)
        return StoredSource({each: partial(make, each) for each in self._stored}, layout, self.rows, sampled)

    @property
    def bytes_of_a_replicate(self) -> int:
        """Memory that a replicate of all histograms takes."""
        return sum(stored.bytes(self.layout) for stored in self._stored)

    def tells(self, setting: Setting) -> bool:
        """Whether a histogram of this setting is stored."""
        return any(_column(stored.setting, setting) is not None for stored in self._stored)

    def answer(self, statistics: tuple[Statistic, ...]) -> States:
        """The states of all statistics; raises ValueError for what needs the data."""
        return tuple(self._answer(statistic) for statistic in statistics)

    def deriving(self, request: Derived) -> Asking:
        """Edges of bins of equal mass are put on borders of cells, which stand for distinct scores."""
        if isinstance(request, BinEdges) and isinstance(request.binning, EqualMass):
            return self._equal_mass(request.binning, request.setting)
        if isinstance(request, ScorePoints):
            return self._points(request.setting)
        return request.derive()

    def _points(self, setting: Setting) -> Asking:
        finest = self._finest(setting)
        state = yield finest
        return points_of_grid(state, finest.grid)

    def _equal_mass(self, binning: EqualMass, setting: Setting) -> Asking:
        finest = self._finest(setting)
        state = yield finest
        return grid_bins.equal_mass_edges(binning, state, finest.grid)

    def _answer(self, statistic: Statistic) -> State:
        if isinstance(statistic, GridHistogram):
            return self._histogram(statistic)
        if isinstance(statistic, BinSums):
            finest = self._finest(statistic.setting)
            sums = grid_bins.bin_sums(statistic, self._histogram(finest), finest.grid)
            # Rows that are drawn twice tell as much as half as many: as those do that are resampled by weights.
            return sums._replace(weight_square=self._sampled * sums.weight_square)
        if isinstance(statistic, RowCount):
            return self._row_count()
        raise ValueError(
            f"A metric asks for {type(statistic).__name__.lstrip('_')}, which histograms on a grid do not tell; "
            "evaluate the data themselves for this metric."
        )

    def _state(self, histogram: GridHistogram) -> GridState:
        if histogram not in self._read:
            self._read[histogram] = self._stored[histogram]()
        return self._read[histogram]

    def _histogram(self, wanted: GridHistogram) -> GridState:
        """The stored histogram, the sum of its parts, or one of its columns."""
        for stored in self._stored:
            same_grid = stored.grid == wanted.grid
            if not same_grid and replace(stored.grid, refined=False) != wanted.grid:
                continue
            column = _column(stored.setting, wanted.setting)
            if column is not None:
                whole = self._state(stored)
                state = GridState.of(operator.itemgetter((slice(None), slice(None), column)), whole)
                return state if same_grid else coarsened(state, stored.grid)
        raise ValueError(
            f"The histogram of the setting {wanted.setting} on [{wanted.grid.low:.4g}, 1] in {wanted.grid.cells} cells "
            f"is not among those stored: {', '.join(map(_described, self._stored))}."
        )

    def _finest(self, setting: Setting) -> GridHistogram:
        """The stored histogram of this setting on the unit interval that tells most."""
        grids = [
            stored.grid
            for stored in self._stored
            if stored.grid.low == 0 and _column(stored.setting, setting) is not None
        ]
        if not grids:
            raise ValueError(
                f"No histogram of the setting {setting} is stored, only {', '.join(map(_described, self._stored))}."
            )
        return GridHistogram(setting, max(grids, key=lambda grid: grid.size))

    def _row_count(self) -> RowCountState:
        state = self._state(next(iter(self._stored)))
        rows = state.rows if state.weighted else state.mass
        return RowCountState(rows[:, :, 0].sum((-1, -2)))


def _column(stored: Setting, wanted: Setting) -> slice | None:
    """The columns of a stored setting that make the wanted one; None if there are none."""
    if stored == wanted:
        return slice(None)
    if stored.per_class and wanted.kind == "class":
        return slice(wanted.index, wanted.index + 1)
    return None


def _described(stored: GridHistogram) -> str:
    grid: Grid = stored.grid
    return f"{stored.setting} on [{grid.low:.4g}, 1] in {grid.cells} cells"
