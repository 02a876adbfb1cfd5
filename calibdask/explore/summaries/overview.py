"""Top of the page of a summary: a tile per model, the worst slice and period, a map of slices, a line by period."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from calibdask.explore.cancellation import CancelToken
from calibdask.explore.html_widgets import html_pane
from calibdask.explore.summaries.findings import SignificantGap, since_when, worst_period, worst_slice
from calibdask.explore.summaries.gap_scales import GAP_SCALES, GapScale
from calibdask.explore.summaries.overview_figures import SELECTED, UNDECIDED, LineFigure, MapFigure
from calibdask.explore.summaries.overview_numbers import (
    MOST_COLUMNS,
    MOST_PERIODS,
    MapQuery,
    PeriodLine,
    SliceMap,
    period_line,
    slice_map,
)
from calibdask.explore.summaries.page_metrics import RowChoice
from calibdask.explore.summaries.page_texts import ALONE, simultaneous
from calibdask.explore.summaries.pool import Pool, Selection
from calibdask.explore.summaries.selection_widgets import selection_text, slice_texts
from calibdask.explore.summaries.slices_over_time import period_dims
from calibdask.explore.summaries.tiles import Tile, tiles_html, tiles_of
from calibdask.markup import Html
from calibdask.plot.style import OVER, UNDER

_STYLE = """
:host { color: inherit; } h2 { font-size: 1rem; margin: 0 0 2px; } p { margin: 0; }
.quiet, .quiet small { color: var(--soft); font-size: 12.5px; }
.tiles { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 19.5rem), 1fr)); gap: 10px;
  list-style: none; margin: 4px 0; padding: 0; }
.tiles li { border: 1px solid var(--rule); border-left: 5px solid var(--rule); border-radius: 4px; padding: 8px 12px; }
.tiles li[aria-current] { box-shadow: 0 0 0 2px SELECTED; }
.tiles .number { font-size: 1.35rem; font-weight: 600; font-variant-numeric: tabular-nums; }
.tiles .number span { font-size: .9rem; font-weight: 500; color: var(--soft); }
.tiles .number small { font-size: .85rem; font-weight: 400; white-space: nowrap; }
.tiles .state { font-weight: 600; }
.tiles .met { border-left-color: var(--met); } .tiles .met .state { color: var(--met); }
.tiles .broken { border-left-color: var(--broken); } .tiles .broken .state { color: var(--broken); }
.tiles .undecided { border-left-color: var(--undecided); } .tiles .undecided .state { color: var(--undecided); }
.legend { display: flex; flex-wrap: wrap; gap: 2px 16px; list-style: none; margin: 2px 0 0; padding: 0;
  font-size: 12.5px; }
.legend i { display: inline-block; width: 12px; height: 12px; margin-right: 5px; vertical-align: -1px;
  border-radius: 2px; box-sizing: border-box; }
""".replace("SELECTED", SELECTED)
# Sentences that are buttons, which may take several lines.
_SENTENCE = """
.bk-btn { white-space: normal; text-align: left; font-weight: 600; padding: 3px 8px; line-height: 1.35; height: auto; }
"""
_UNREAD = Html(
    "<h2>Where scores are miscalibrated</h2><p class='quiet'>The map of slices appears once all histograms have been "
    "read.</p>"
)
_LEGEND = (("too low", f"background: {UNDER}"), ("too high", f"background: {OVER}"))
_CONSONANT_Y = re.compile(r"(?<=[^aeiou])y$")
# Beside each other where there is room.
_HALF = {"flex": "1 1 340px", "min-width": "0"}


@dataclass(frozen=True)
class OverviewQuery:
    """Query of the top of the page; ``map`` is None without slices or without a mean gap."""

    selection: Selection
    choice: RowChoice
    limit: float | None
    map: MapQuery | None
    period: str


@dataclass(frozen=True, eq=False)
class WorstGaps:
    """The worst slice and the worst period, None where nothing is significantly miscalibrated."""

    slice: SignificantGap | None
    period: SignificantGap | None


@dataclass(frozen=True, eq=False)
class OverviewNumbers:
    """The answer; ``findings`` is None, as the map is, while these are not known yet."""

    tiles: list[Tile]
    map: SliceMap | None
    line: PeriodLine | None
    findings: WorstGaps | None


class Overview:
    """Panes of the overview, and their numbers.

    Parameters
    ----------
    pool : Pool
    choose : function
        Called with the places of the slice, or of the period, that was clicked; None for all along a dimension.
    """

    def __init__(self, pool: Pool, choose: Callable[[Mapping[str, int | None]], None]) -> None:
        import panel as pn

        self._pool, self._choose = pool, choose
        self._periods = period_dims(pool)
        self._maps: dict[MapQuery, tuple[SliceMap, WorstGaps]] = {}
        self._since: dict[MapQuery, str] = {}
        self._quick: dict[OverviewQuery, tuple[list[Tile], PeriodLine | None]] = {}
        self._shown: OverviewNumbers | None = None
        self._asked: OverviewQuery | None = None
        wide: dict[str, Any] = {"sizing_mode": "stretch_width", "stylesheets": [_STYLE]}
        self.tiles = html_pane(**wide)
        self.map_note, self.line_note, self.legend = (html_pane(margin=(0, 10), **wide) for _ in range(3))
        self.map, self.line = MapFigure(self._chosen_cell), LineFigure(self._chosen_period)
        self.worst = [self._sentence(number) for number in range(2)]
        names = list(GAP_SCALES)
        self.scale = pn.widgets.RadioButtonGroup(options=names, value=names[0], variant="outline", margin=(2, 10))
        self.scale.visible = False
        self.scale.param.watch(self._show_again, "value")
        self._boxes = [
            pn.Column(note, visible=False, sizing_mode="stretch_width", styles=_HALF)
            for note in (self.map_note, self.line_note)
        ]
        row = pn.Row(*self._boxes, sizing_mode="stretch_width", styles={"flex-wrap": "wrap", "gap": "4px 16px"})
        self.listed = [self.tiles, *([*self.worst, self.scale, self.legend, row] if pool.slices else [])]

    @property
    def widgets(self) -> dict[str, Any]:
        """Widgets whose values are kept in the URL."""
        return {"map": self.scale} if self._pool.slices else {}

    def query(
        self, selection: Selection, choice: RowChoice, limit: float | None, dims: tuple[str, ...]
    ) -> OverviewQuery:
        """Query for a selection, with slices along these dimensions."""
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

    def waits(self, query: OverviewQuery) -> bool:
        """Whether the map takes a while, since slices that nothing else needs have to be read for it."""
        is_new = query.map is not None and query.map not in self._maps
        return is_new and self._pool.waits_for_slices(query.choice.setting)

    def begun(self, query: OverviewQuery, _: CancelToken) -> OverviewNumbers:
        """The tiles and the line by period, for which the sums of whole periods may suffice."""
        if query not in self._quick:
            tiles, line = tiles_of(self._pool, query.selection, query.choice, query.limit), None
            if query.period:
                others = query.selection.without([query.period])
                line = period_line(self._pool, query.period, others, query.choice.setting)
            self._quick = {query: (tiles, line)}
        tiles, line = self._quick[query]
        return OverviewNumbers(tiles, None, line, WorstGaps(None, None) if query.map is None else None)

    def computed(self, query: OverviewQuery, token: CancelToken) -> OverviewNumbers:
        """Numbers of a query; the map and the worst gaps are reused if the map is unchanged."""
        begun = self.begun(query, token)
        if query.map is None:
            return begun
        if query.map not in self._maps:
            shown = slice_map(self._pool, query.map, token.is_cancelled)
            period = None
            if query.period and query.period not in query.map.dims:
                period = worst_period(self._pool, query.map, query.period, shown, token.is_cancelled)
            worst = worst_slice(self._pool, query.map, query.period, shown, token.is_cancelled)
            self._maps = {query.map: (shown, WorstGaps(worst, period))}
        shown, findings = self._maps[query.map]
        return replace(begun, map=shown, findings=findings)

    def since(self, query: OverviewQuery, token: CancelToken) -> str:
        """Since when the worst slice is off, in the words of its sentence; found once for each map."""
        if query.map is None or not query.period or query.period in query.map.dims or query.map not in self._maps:
            return ""
        worst = self._maps[query.map][1].slice
        if worst is not None and query.map not in self._since:
            since = since_when(self._pool, query.map, query.period, worst, token.is_cancelled)
            self._since = {query.map: since}
        return self._since.get(query.map, "")

    def show(self, query: OverviewQuery, numbers: OverviewNumbers) -> None:
        """Show the numbers of a query."""
        import panel as pn

        self._shown, self._asked = numbers, query
        scale = GAP_SCALES[self.scale.value]
        models = prod(len(self._pool.labels[dim]) for dim in self._pool.models)
        places = dict(query.selection.slices)
        with pn.io.hold():
            self.tiles.object = tiles_html(numbers.tiles, models)
            if numbers.map is not None and query.map is not None:
                dims = (*query.map.dims, *([query.map.period] if query.map.period else []))
                chosen = {dim: places[dim][0] for dim in dims if len(places.get(dim, ())) == 1}
                if chosen and not query.map.period:
                    chosen |= {dim: at for dim, at in query.selection.models if dim in self._pool.models}
                self.map.show(numbers.map, chosen, _whole_name(query.map), scale)
                self.map_note.object = _map_text(
                    query.map, numbers.map, len(self._pool.labels.get(query.map.period, ())), scale
                )
                self.legend.object = _legend(numbers.map)
            elif numbers.findings is None:
                self.map_note.object = _UNREAD
            if numbers.line is not None:
                self.line.show(numbers.line, set(places.get(query.period, ())), scale)
                self.line_note.object = _line_text(
                    numbers.line, selection_text(self._pool, query.selection.without([query.period])), scale
                )
            self.legend.visible = has_map = numbers.map is not None and bool(numbers.map.rows)
            self.scale.visible = has_map or numbers.line is not None
            for box, pane, is_shown in zip(
                self._boxes, (self.map.pane, self.line.pane), (has_map, numbers.line is not None), strict=True
            ):
                if is_shown and len(box) == 1:
                    # Filled: a browser lays an empty figure out anew for each thing that is put into it.
                    box.append(pane)
                box.visible = is_shown
            # Room for the map while slices are read, and no map of another selection.
            self.map.figure.visible = has_map
            self._boxes[0].visible = has_map or numbers.findings is None
            self.show_since(query, self._since.get(query.map, "") if query.map is not None else "")

    def show_since(self, query: OverviewQuery, since: str) -> None:
        """Show the worst slice with its onset, and the worst period."""
        known = None if self._shown is None else self._shown.findings
        findings = known or WorstGaps(None, None)
        within = "" if query.map is None else ", ".join(slice_texts(self._pool, query.map.selection))
        texts = ["" if one is None else one.text() for one in (findings.slice, findings.period)]
        if findings.slice is not None:
            texts[0] = findings.slice.text(since, within)
        elif query.map is not None and known is not None:
            texts[0] = f"No slice {within and f'of {within} '}is significantly miscalibrated"
        for button, text, found in zip(self.worst, texts, (findings.slice, findings.period), strict=True):
            button.param.update(label=text, visible=bool(text), disabled=found is None)

    def _show_again(self, _: Any) -> None:
        """Show the same numbers on the other scale."""
        if self._shown is not None and self._asked is not None:
            self.show(self._asked, self._shown)

    def _sentence(self, number: int) -> Any:
        """A clickable sentence that selects the worst slice or period."""
        import panel as pn

        button = pn.widgets.Button(
            label="",
            variant="outline",
            visible=False,
            stylesheets=[_SENTENCE],
            margin=(2, 10),
            styles={"max-width": "100%"},
        )

        def choose(_: Any) -> None:
            assert self._shown is not None
            findings = self._shown.findings or WorstGaps(None, None)
            found = (findings.slice, findings.period)[number]
            if found is not None:
                self._choose(found.at)

        button.on_click(choose)
        return button

    def _chosen_cell(self, row: int, column: int | None) -> None:
        if self._shown is None or self._shown.map is None:
            return
        shown = self._shown.map
        along: Mapping[str, int | None] = (
            dict.fromkeys(dim for place in shown.column_at for dim in place)
            if column is None
            else shown.column_at[column]
        )
        self._choose({**shown.row_at[row], **along})

    def _chosen_period(self, number: int) -> None:
        if self._shown is not None and self._shown.line is not None:
            line = self._shown.line
            self._choose({line.period: int(line.positions[number])})


def _whole_name(query: MapQuery) -> str:
    """The name of the column of all periods together."""
    return f"all {_CONSONANT_Y.sub('ie', query.period)}s"


def _legend(shown: SliceMap) -> Html:
    """Legend of the colours of the page."""
    marks = [(f"scores {words}", look) for words, look in _LEGEND]
    marks += [("not decided", f"background: {UNDECIDED}"), ("selected", f"border: 2.5px solid {SELECTED}")]
    items = Html().join(Html("<li><i style='{}'></i>{}</li>").format(look, words) for words, look in marks)
    return Html("<ul class='legend' aria-label='Colours'>{}</ul>").format(items)


def _map_text(query: MapQuery, shown: SliceMap, periods: int, scale: GapScale) -> Html:
    """Caption of the map, with the slices and periods that it omits."""
    columns = f" and each {query.period}" if query.period else " and each model" * (len(shown.columns) > 1)
    if len(shown.rows) < shown.slices:
        which = f"the worst {len(shown.rows)} of {shown.slices:,} slices"
        which += f" ({shown.judged:,} with the most rows were judged)" if shown.judged < shown.slices else ""
        which += "; use the filters to find the others"
    else:
        which = f"{shown.slices:,} slices, the strongest evidence first"
    last = f" The last {MOST_COLUMNS} of {periods:,}." if periods > MOST_COLUMNS else ""
    holds = simultaneous(shown.cells)
    if query.period:
        holds += f"; of {_whole_name(query)}, {simultaneous(shown.judged, 'slices')}"
    return Html(
        "<h2>Where scores are miscalibrated</h2><p class='quiet'>{} by {}{}: {}.{} 95 % intervals: {}. "
        "Click to select; click again to deselect.</p>"
    ).format(scale.caption, " and ".join(query.dims), columns, which, last, holds)


def _line_text(line: PeriodLine, selected: str, scale: GapScale) -> Html:
    last = f" The last {MOST_PERIODS} of {line.periods:,}." if line.periods > MOST_PERIODS else ""
    return Html(
        "<h2>By {period}</h2><p class='quiet'>{what} of {selected}.{last} 95 % intervals: "
        "{alone}, pointwise by {period}. Click to select; click again to deselect.</p>"
    ).format(what=scale.caption, period=line.period, selected=selected, last=last, alone=ALONE)
