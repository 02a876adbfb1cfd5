"""The source for stored states: histograms on the grid answer without the data, and so do replicates of them."""

import operator
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from calibdask.engine import grid_bins
from calibdask.engine.grid_bins import CellSums
from calibdask.engine.resampled_bins import resampled_bins
from calibdask.engine.resampling import left_out, resampled
from calibdask.engine.source import Source, States
from calibdask.estimators.score_points import ScorePoints, points_of_grid
from calibdask.statistics.binned import BinSums, BinSumsState
from calibdask.statistics.binnings import BinEdges, EqualMass
from calibdask.statistics.counts import RowCount, RowCountState
from calibdask.statistics.edges import Edges
from calibdask.statistics.frozen import FrozenArray
from calibdask.statistics.grid import Grid, GridHistogram, GridState, coarsened
from calibdask.statistics.layout import Layout
from calibdask.statistics.settings import Setting
from calibdask.statistics.statistic import Asking, Derived, State, Statistic

__all__ = ["StoredSource"]


class StoredSource(Source):
    """Answers from histograms on the grid: those themselves, coarser ones, and sums over bins of whole cells.

    ``stored`` gives for each histogram a function that reads its state; it is called when the state is needed.
    """

    def __init__(
        self,
        stored: Mapping[GridHistogram, Callable[[], GridState]],
        layout: Layout,
        rows: int | None = None,
    ) -> None:
        self.layout = layout
        self.rows = rows
        self._stored = stored
        self._read: dict[GridHistogram, GridState] = {}
        self._summed: dict[GridHistogram, CellSums] = {}

    def resampled(
        self, seed: int, replicates: range, *, calibrated: bool = False, by_cells: bool = False
    ) -> "StoredSource":
        """A source for replicates, along the batch axis; see `calibdask.engine.resampling.resampled`.

        Sums over bins are drawn by themselves, see `calibdask.engine.resampled_bins`, but for replicates ``by_cells``.
        """

        def histogram(asked: GridHistogram) -> GridState:
            return resampled(self._state(asked), asked.grid, seed, replicates, calibrated=calibrated)

        def bins(asked: BinSums) -> BinSumsState:
            finest = self._finest(asked.setting)
            once = replace(asked, edges=_of_the_data(asked.edges, self.layout))
            return resampled_bins(once, self._cells(finest), finest.grid, seed, replicates, calibrated=calibrated)

        # Outcomes of rows that are not alike are not binomial.
        whole = by_cells or (calibrated and self.layout.weighted)
        return _Replicates(self, histogram, None if whole else bins, len(replicates), 1 if calibrated else 2)

    def left_out(self, seed: int, groups: range) -> "StoredSource":
        """A source for the rows but one group of them each; see `calibdask.engine.resampling.left_out`."""

        def histogram(asked: GridHistogram) -> GridState:
            return left_out(self._state(asked), seed, groups)

        return _Replicates(self, histogram, None, len(groups))

    @property
    def histograms(self) -> tuple[GridHistogram, ...]:
        """All that are stored."""
        return tuple(self._stored)

    def bytes_of_a_replicate(self, known: Mapping[Statistic, State], *, by_cells: bool = False) -> int:
        """Memory that a replicate of what has been asked for takes: of a histogram, that of all that are stored."""
        sums = sum(part.nbytes for asked, state in known.items() if isinstance(asked, BinSums) for part in state)
        needed = by_cells or self.layout.weighted or any(isinstance(asked, GridHistogram) for asked in known)
        return sums + (sum(stored.bytes(self.layout) for stored in self._stored) if needed else 0)

    def tells(self, setting: Setting) -> bool:
        """Whether a histogram of this setting is stored."""
        return any(_column(stored.setting, setting) is not None for stored in self._stored)

    def answer(self, statistics: tuple[Statistic, ...]) -> States:
        """The states of all statistics; raises ValueError for what needs the data."""
        return tuple(self._answer(statistic) for statistic in statistics)

    def deriving(self, request: Derived) -> Asking:
        """Edges of bins of equal mass are put on borders of cells, which stand for distinct scores."""
        if isinstance(request, BinEdges) and isinstance(request.binning, EqualMass):
            return _known(self.equal_mass_edges(request.binning, request.setting))
        if isinstance(request, ScorePoints):
            return self._points(request.setting)
        return request.derive()

    def _points(self, setting: Setting) -> Asking:
        finest = self._finest(setting)
        state = yield finest
        return points_of_grid(state, finest.grid)

    def equal_mass_edges(self, binning: EqualMass, setting: Setting) -> Edges:
        """Edges on borders of cells."""
        finest = self._finest(setting)
        return grid_bins.equal_mass_edges(binning, self.state(finest), finest.grid)

    def _answer(self, statistic: Statistic) -> State:
        if isinstance(statistic, GridHistogram):
            return self.state(statistic)
        if isinstance(statistic, BinSums):
            return self._bin_sums(statistic)
        if isinstance(statistic, RowCount):
            return self._row_count()
        raise ValueError(
            f"A metric asks for {type(statistic).__name__.lstrip('_')}, which histograms on a grid do not tell; "
            "evaluate the data themselves for this metric."
        )

    def _bin_sums(self, wanted: BinSums) -> BinSumsState:
        finest = self._finest(wanted.setting)
        return grid_bins.bin_sums(wanted, self._cells(finest), finest.grid)

    def _cells(self, wanted: GridHistogram) -> CellSums:
        """Sums by cell of a histogram, kept as long as this source."""
        if wanted not in self._summed:
            self._summed[wanted] = grid_bins.cell_sums(self.state(wanted), wanted.grid)
        return self._summed[wanted]

    def _state(self, histogram: GridHistogram) -> GridState:
        if histogram not in self._read:
            self._read[histogram] = self._stored[histogram]()
        return self._read[histogram]

    def state(self, wanted: GridHistogram) -> GridState:
        """The stored histogram, the sum of its parts, or one of its columns."""
        # The one that is wanted, if it is there: what others are stored with it must not matter to replicates.
        for stored in sorted(self._stored, key=lambda each: each != wanted):
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


class _Replicates(StoredSource):
    """Replicates of all that another source has stored, made when they are asked for; edges of bins are its own.

    ``bins`` makes sums over bins of it; without, they come from the replicates of its histograms. ``sampled`` says how
    many times rows have been drawn at random: replicates of data hold the noise of sampling twice.
    """

    def __init__(
        self,
        of: StoredSource,
        histogram: Callable[[GridHistogram], GridState],
        bins: Callable[[BinSums], BinSumsState] | None,
        count: int,
        sampled: int = 1,
    ) -> None:
        layout = replace(of.layout, batch=of.layout.batch * count, rows=None)
        super().__init__({each: partial(histogram, each) for each in of.histograms}, layout, of.rows)
        self._of, self._bins, self._count, self._sampled = of, bins, count, sampled

    def equal_mass_edges(self, binning: EqualMass, setting: Setting) -> Edges:
        """Those of the data, as for replicates of rows: bins are chosen once."""
        return BinEdges(binning, setting).repeated(self._of.equal_mass_edges(binning, setting), self._count)

    def _bin_sums(self, wanted: BinSums) -> BinSumsState:
        sums = super()._bin_sums(wanted) if self._bins is None else self._bins(wanted)
        # Rows that are drawn twice tell as much as half as many: as those do that are resampled by weights.
        return sums._replace(weight_square=self._sampled * sums.weight_square)


def _known(answer: Any) -> Asking:
    """An answer without a question."""
    yield from ()
    return answer


def _of_the_data(edges: Edges, layout: Layout) -> Edges:
    """Edges of the first replicate, those of the data."""
    if len(edges.values) <= layout.batch:
        return edges
    return replace(edges, array=FrozenArray(edges.values[: layout.batch]))


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
