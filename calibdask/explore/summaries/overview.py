"""The top of the page of a summary: a tile for each model, a map of slices, and a line by period."""

from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from math import prod

from calibdask.explore.cancellation import CancelToken
from calibdask.explore.summaries.overview_figures import LineFigure, MapFigure
from calibdask.explore.summaries.overview_numbers import (
    MOST_COLUMNS,
    MOST_PERIODS,
    MapQuery,
    PeriodLine,
    SliceMap,
    period_line,
    slice_map,
)
from calibdask.explore.summaries.page_metrics import Choice
from calibdask.explore.summaries.pool import Pool, Selection
from calibdask.explore.summaries.slices_over_time import period_dims
from calibdask.explore.summaries.tiles import Tile, tiles_html, tiles_of

_STYLE = """
:host { color: inherit; } h2 { font-size: 1rem; margin: 0 0 2px; } p { margin: 0; }
.quiet, .quiet small { color: var(--soft); font-size: 12.5px; }
.tiles { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 15.5rem), 1fr)); gap: 10px;
  list-style: none; margin: 4px 0; padding: 0; }
.tiles li { border: 1px solid var(--rule); border-left: 5px solid var(--rule); border-radius: 4px; padding: 8px 12px; }
.tiles .number { font-size: 1.35rem; font-weight: 600; font-variant-numeric: tabular-nums; }
.tiles .number span { font-size: .9rem; font-weight: 500; color: var(--soft); }
.tiles .number small { font-size: .85rem; font-weight: 400; white-space: nowrap; }
.tiles .state { font-weight: 600; }
.tiles .met { border-left-color: var(--met); } .tiles .met .state { color: var(--met); }
.tiles .broken { border-left-color: var(--broken); } .tiles .broken .state { color: var(--broken); }
.tiles .undecided { border-left-color: var(--undecided); } .tiles .undecided .state { color: var(--undecided); }
"""
# Beside each other where there is room.
_HALF = {"flex": "1 1 340px", "min-width": "0"}


@dataclass(frozen=True)
class OverviewQuery:
    """What the top of the page shows; ``map`` is None where there are no slices, or no mean gap."""

    selection: Selection
    choice: Choice
    limit: float | None
    map: MapQuery | None
    period: str


@dataclass(frozen=True, eq=False)
class OverviewNumbers:
    """The answer."""

    tiles: list[Tile]
    map: SliceMap | None
    line: PeriodLine | None


class Overview:
    """Panes and what was computed for them.

    Parameters
    ----------
    pool : Pool
    choose : function
        Called with the places of the slice, or of the period, that was clicked.
    """

    def __init__(self, pool: Pool, choose: Callable[[dict[str, int]], None]) -> None:
        import panel as pn

        self._pool, self._choose = pool, choose
        self._periods = period_dims(pool)
        self._maps: dict[MapQuery, SliceMap] = {}
        self._shown: OverviewNumbers | None = None
        self.tiles = pn.pane.HTML("", sizing_mode="stretch_width", stylesheets=[_STYLE])
        self.map_note, self.line_note = (
            pn.pane.HTML("", sizing_mode="stretch_width", stylesheets=[_STYLE], margin=(0, 10)) for _ in range(2)
        )
        self.map, self.line = MapFigure(self._chosen_cell), LineFigure(self._chosen_period)
        self._boxes = [
            pn.Column(note, figure.pane, visible=False, sizing_mode="stretch_width", styles=_HALF)
            for note, figure in ((self.map_note, self.map), (self.line_note, self.line))
        ]
        row = pn.Row(*self._boxes, sizing_mode="stretch_width", styles={"flex-wrap": "wrap", "gap": "4px 16px"})
        self.listed = [self.tiles, *([row] if pool.slices else [])]

    def query(self, selection: Selection, choice: Choice, limit: float | None, dims: tuple[str, ...]) -> OverviewQuery:
        """What is to be shown of a selection, with slices along these dimensions."""
        if choice.setting == "classwise" or not self._pool.slices:
            return OverviewQuery(selection, choice, limit, None, "")
        period = next(iter(self._periods), "")
        has_columns = bool(period) and len(self._pool.slices) > 1
        by_period = period if has_columns and prod(len(self._pool.labels[dim]) for dim in self._pool.models) < 2 else ""
        rows = tuple(dim for dim in dims if dim != by_period)
        rows = rows or tuple(dim for dim in self._pool.slices if dim != by_period)[:1]
        others = selection.without([*rows, *([by_period] if by_period else [])])
        if not by_period:
            others = Selection(others.slices)
        return OverviewQuery(selection, choice, limit, MapQuery(rows, by_period, others, choice.setting), period)

    def computed(self, query: OverviewQuery, token: CancelToken) -> OverviewNumbers:
        """The numbers of a query; the map as it was where it has not changed."""
        tiles = tiles_of(self._pool, query.selection, query.choice, query.limit)
        line = None
        if query.period:
            others = query.selection.without([query.period])
            line = period_line(self._pool, query.period, others, query.choice.setting)
        if query.map is not None and query.map not in self._maps:
            self._maps = {query.map: slice_map(self._pool, query.map, token.is_cancelled)}
        return OverviewNumbers(tiles, self._maps[query.map] if query.map is not None else None, line)

    def show(self, query: OverviewQuery, numbers: OverviewNumbers) -> None:
        """Show the numbers of a query."""
        import panel as pn

        self._shown = numbers
        models = prod(len(self._pool.labels[dim]) for dim in self._pool.models)
        places = dict(query.selection.slices)
        with pn.io.hold():
            self.tiles.object = tiles_html(numbers.tiles, models)
            if numbers.map is not None and query.map is not None:
                dims = (*query.map.dims, *([query.map.period] if query.map.period else []))
                chosen = {dim: places[dim][0] for dim in dims if len(places.get(dim, ())) == 1}
                self.map.show(numbers.map, chosen)
                self.map_note.object = _map_text(query.map, numbers.map)
            if numbers.line is not None:
                self.line.show(numbers.line, set(places.get(query.period, ())))
                self.line_note.object = _line_text(numbers.line, len(self._pool.labels[query.period]))
            self._boxes[0].visible = numbers.map is not None and bool(numbers.map.rows)
            self._boxes[1].visible = numbers.line is not None

    def _chosen_cell(self, row: int, column: int) -> None:
        if self._shown is not None and self._shown.map is not None:
            self._choose({**self._shown.map.row_at[row], **self._shown.map.column_at[column]})

    def _chosen_period(self, number: int) -> None:
        if self._shown is not None and self._shown.line is not None:
            line = self._shown.line
            self._choose({line.period: int(line.positions[number])})


def _map_text(query: MapQuery, shown: SliceMap) -> str:
    """What the map shows, and what it does not."""
    columns = f"each {query.period}" if query.period else "each model"
    if len(shown.rows) < shown.slices:
        which = f"the worst {len(shown.rows)} of {shown.slices:,} slices"
        which += f" ({shown.judged:,} with the most rows were judged)" if shown.judged < shown.slices else ""
    else:
        which = f"{shown.slices:,} slices, the worst first"
    last = f" Its last {MOST_COLUMNS}." if query.period and len(shown.columns) == MOST_COLUMNS else ""
    return (
        f"<h2>Where scores are off</h2><p class='quiet'>By {' and '.join(map(escape, query.dims))} and "
        f"{escape(columns)}: {which}.{last} <b>Blue</b>: scores too low, <b>orange</b>: too high, by points; grey: "
        f"not decided, at 95 % for all {shown.cells:,} cells together. A click selects, another one takes it back.</p>"
    )


def _line_text(line: PeriodLine, periods: int) -> str:
    last = f" The last {MOST_PERIODS} of {periods:,}." if periods > MOST_PERIODS else ""
    return (
        f"<h2>By {escape(line.period)}</h2><p class='quiet'>The selection's outcome less score, with a 95 % interval "
        f"for one look at each; above 0 scores are too low.{last} A click selects, another one takes it back.</p>"
    )
