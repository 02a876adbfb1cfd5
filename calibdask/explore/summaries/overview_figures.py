"""The two figures of the first page: slices by model or period as colours, and the gap by period as a line."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from calibdask.explore.summaries.gap_scales import POINTS_SCALE, GapScale
from calibdask.explore.summaries.overview_numbers import PeriodLine, SliceMap
from calibdask.explore.summaries.page_texts import ALONE, simultaneous
from calibdask.explore.summaries.reliability_panel import COLORS
from calibdask.explore.summaries.slice_gaps import Array, Gaps
from calibdask.markup import in_figure
from calibdask.plot.style import BAND, DIAGONAL, OVER, UNDER
from calibdask.results.format import figures

# Cells that cannot be decided, paler than others on white and on black, and without rows.
UNDECIDED, _EMPTY = "#8a939c66", "#00000000"
# The mark of a selection, which is no colour of a cell, and lines and points that are not certain, on white and black.
SELECTED, _NEUTRAL = COLORS[0], "#757b82"
# Of the column of all periods: its share of the width, if there are many columns, and its distance from the others.
_WHOLE_SHARE, _APART = 0.1, 0.35
_DARK, _PALE = "#1d2329", "#ffffff"
# Colours of cells are mixed with that of the page, on a dark one of which numbers are pale.
_INK = "return matchMedia('(prefers-color-scheme: dark)').matches ? xs.map((ink) => ink == dark ? pale : ink) : xs"
# Names and numbers in cells, if they are no more.
_MOST_NAMES, _MOST_PERIODS, _MOST_NUMBERS, _MOST_LETTERS = 12, 5, 6, 18
_ROW, _HEIGHT = 24, 260
_TOOLS = "pan,box_zoom,wheel_zoom,reset"
_MAP_COLUMNS = (
    "x",
    "y",
    "wide",
    "color",
    "ink",
    "text",
    "name",
    "column",
    "gap",
    "low",
    "high",
    "words",
    "kind",
    "rows",
)
_MARK_COLUMNS = ("x", "y", "wide", "tall")
_LINE_COLUMNS = ("x", "gap", "low", "high", "words", "rows", "name", "color", "size", "edge")


class MapFigure:
    """Slices by model or period: blue where scores are too low for certain, orange where too high, grey else.

    If columns are periods, a separate column before them shows all periods together.

    Parameters
    ----------
    choose : function
        Called with row and column of the cell that was clicked; None is the column of all periods.
    """

    def __init__(self, choose: Callable[[int, int | None], None]) -> None:
        from bokeh.models import ColumnDataSource, CustomJSTransform, FixedTicker, HoverTool, Range1d, TapTool

        self.source = ColumnDataSource({name: [] for name in _MAP_COLUMNS})
        self.marks = ColumnDataSource({name: [] for name in _MARK_COLUMNS})
        self.figure = _figure(
            "Slices: observed rate minus mean prediction as colours; see the table of the worst slices for numbers"
        )
        # Ranges of their own: those of the data would be fitted to them, and turn the worst slice down.
        self.figure.x_range, self.figure.y_range = Range1d(start=-0.5, end=0.5), Range1d(start=0.5, end=-0.5)
        self.figure.yaxis.ticker = FixedTicker(ticks=[])
        cells = self.figure.rect(
            "x", "y", "wide", 0.88, source=self.source, fill_color="color", line_color=None, nonselection_alpha=1.0
        )
        words = {"text_align": "center", "text_baseline": "middle", "text_font_size": "8.5pt"}
        ink = {"field": "ink", "transform": CustomJSTransform(args={"dark": _DARK, "pale": _PALE}, v_func=_INK)}
        self.figure.text("x", "y", "text", source=self.source, text_color=ink, nonselection_alpha=1.0, **words)
        # Between cells: what is selected keeps its colours.
        around = {"fill_color": None, "line_color": SELECTED, "line_width": 2.5, "source": self.marks}
        self.figure.rect("x", "y", "wide", "tall", level="overlay", **around)
        self._hover = HoverTool(renderers=[cells])
        self.figure.add_tools(self._hover, TapTool(renderers=[cells]))
        self.figure.grid.visible = False
        self.figure.xaxis.major_tick_line_color = self.figure.yaxis.major_tick_line_color = None
        self._shape = (0, 1)
        _on_tap(self.source, lambda number: choose(*self._cell(number)))
        self.pane = _pane(self.figure)

    def show(self, shown: SliceMap, chosen: Mapping[str, int], whole: str = "", scale: GapScale = POINTS_SCALE) -> None:
        """Show other slices, and ``whole``, the name of the column of all; those that are ``chosen`` have a frame."""
        rows, columns = len(shown.rows), len(shown.columns)
        self._shape = rows, columns
        gaps, lines = shown.gaps.reshaped(-1), np.repeat(np.arange(rows), columns)
        x, wide = np.tile(np.arange(columns, dtype=np.float64), rows), np.full(rows * columns, 0.96)
        names = np.tile(np.array(shown.columns, object), rows)
        kinds = [simultaneous(shown.cells)] * lines.size
        left, named = -0.5, {}
        if shown.whole is not None:
            width = max(0.96, _WHOLE_SHARE * columns)
            middle = -0.5 - _APART * width - width / 2
            left, named = middle - width / 2, {middle: whole}
            gaps, lines = gaps.with_others(shown.whole), np.concatenate([lines, np.arange(rows)])
            x, wide = np.append(x, np.full(rows, middle)), np.append(wide, np.full(rows, width))
            names = np.append(names, np.full(rows, whole, object))
            kinds += [simultaneous(shown.judged, "slices")] * rows
        (value, low, high), colors = scale.ends(gaps), _colors(gaps, scale)
        self._hover.tooltips = [("", "@name · @column"), *_tooltips(scale), ("it holds", "@kind")]
        # The column of all has room for a number however many there are.
        has_room = (np.arange(lines.size) >= rows * columns) | (columns <= _MOST_NUMBERS)
        self.figure.x_range.update(start=left - 0.02 * columns, end=columns - 0.5 + 0.02 * columns)
        self.figure.y_range.update(start=rows - 0.4, end=-0.6)
        self.figure.height = 80 + _ROW * max(rows, 3)
        _name(self.figure.yaxis[0], [_short(name) for name in shown.rows], rows)
        most = _MOST_NAMES if columns <= _MOST_NUMBERS else _MOST_PERIODS
        _name(self.figure.xaxis[0], [_short(name) for name in shown.columns], most, named)
        self.source.data = {
            "x": x,
            "y": lines,
            "wide": wide,
            "color": [color for color, _ in colors],
            "ink": [ink for _, ink in colors],
            "text": [text if room else "" for text, room in zip(scale.texts(value), has_room, strict=True)],
            "name": np.array(shown.rows, object)[lines] if rows else [],
            "column": names,
            "gap": value,
            "low": low,
            "high": high,
            "words": _words(value, low, high),
            "kind": kinds,
            "rows": gaps.rows,
        }
        self.marks.data = {**_frames(shown, chosen, left)}

    def _cell(self, number: int) -> tuple[int, int | None]:
        rows, columns = self._shape
        return divmod(number, columns) if number < rows * columns else (number - rows * columns, None)


class LineFigure:
    """The gap by period with a band; a click on a point chooses its period."""

    def __init__(self, choose: Callable[[int], None]) -> None:
        from bokeh.models import ColumnDataSource, HoverTool, TapTool
        from bokeh.models.annotations import Span

        self.source = ColumnDataSource({name: [] for name in _LINE_COLUMNS})
        self.figure = _figure("Observed rate minus mean prediction by period, with 95 % intervals")
        self._ideal = Span(location=0.0, dimension="width", line_color=DIAGONAL, line_dash="dashed")
        self.figure.add_layout(self._ideal)
        self.figure.varea("x", "low", "high", source=self.source, color=BAND, alpha=0.2)
        self.figure.line("x", "gap", source=self.source, color=_NEUTRAL, line_width=1.4)
        points = self.figure.scatter(
            "x",
            "gap",
            size="size",
            source=self.source,
            color="color",
            line_color="edge",
            line_width=3,
            nonselection_alpha=1.0,
        )
        self._hover = HoverTool(renderers=[points])
        self.figure.add_tools(self._hover, TapTool(renderers=[points]))
        _on_tap(self.source, choose)
        self.pane = _pane(self.figure)

    def show(self, shown: PeriodLine, chosen: set[int], scale: GapScale = POINTS_SCALE) -> None:
        """Show other periods; those that are ``chosen`` have a ring."""
        gaps = shown.gaps
        value, low, high = scale.ends(gaps)
        self._ideal.location = scale.ideal
        self._hover.tooltips = [("", "@name"), *_tooltips(scale), ("it holds", f"for {ALONE}")]
        self.figure.yaxis.axis_label = scale.axis
        is_chosen = [position in chosen for position in shown.positions.tolist()]
        sides = np.where(gaps.value < 0, OVER, UNDER)
        _name(self.figure.xaxis[0], shown.labels.tolist(), _MOST_PERIODS)
        self.source.data = {
            "x": np.arange(gaps.value.size),
            "gap": value,
            "low": low,
            "high": high,
            "words": _words(value, low, high),
            "rows": gaps.rows,
            "name": shown.labels,
            "color": np.where(gaps.certain, sides, _NEUTRAL).tolist(),
            "size": [13 if one else 7 for one in is_chosen],
            "edge": [SELECTED if one else _EMPTY for one in is_chosen],
        }


def _frames(shown: SliceMap, chosen: Mapping[str, int], left: float) -> dict[str, list[float]]:
    """Frames around the selected cells of each row, or around a column if no row is selected."""

    def matching(places: Sequence[Mapping[str, int]]) -> tuple[list[int], bool]:
        dims = {dim for place in places for dim in place} & set(chosen)
        return [at for at, place in enumerate(places) if all(place[dim] == chosen[dim] for dim in dims)], bool(dims)

    (rows, by_row), (columns, by_column) = matching(shown.row_at), matching(shown.column_at)
    frames: dict[str, list[float]] = {name: [] for name in _MARK_COLUMNS}
    if not (rows and columns and (by_row or by_column)):
        return frames
    start, end = (columns[0] - 0.5 if by_column else left), columns[-1] + 0.5
    spans = [(row, row) for row in rows] if by_row else [(rows[0], rows[-1])]
    for first, last in spans:
        frames["x"].append((start + end) / 2)
        frames["y"].append((first + last) / 2)
        frames["wide"].append(end - start)
        frames["tall"].append(last - first + 1.0)
    return frames


def _on_tap(source: Any, choose: Callable[[int], None]) -> None:
    """Call with the number of the glyph that was clicked, and be ready for the next click."""

    def tapped(_attribute: str, _before: list[int], now: list[int]) -> None:
        if now:
            source.selected.indices = []
            choose(now[0])

    source.selected.on_change("indices", tapped)


def _tooltips(scale: GapScale) -> list[tuple[str, str]]:
    """What a slice or period shows under the pointer."""
    return [(scale.axis, "@words"), ("rows", "@rows{0,0}")]


def _words(*ends: Array) -> list[str]:
    """Values with their 95 % intervals, in the digits of these."""
    texts = (figures(*numbers) for numbers in zip(*(end.tolist() for end in ends), strict=True))
    return [f"{value} (95 % interval {low} to {high})" if value != "–" else "" for value, low, high in texts]


def _colors(gaps: Gaps, scale: GapScale) -> list[tuple[str, str]]:
    """The colour of each cell, and of the number in it."""
    certain, sides = gaps.certain.ravel(), gaps.value.ravel()
    sizes = scale.size(scale.ends(gaps)[0].ravel())
    largest = float(sizes[certain].max(initial=0.0)) or 1.0
    cells = zip(sides.tolist(), sizes.tolist(), gaps.rows.ravel().tolist(), certain.tolist(), strict=True)
    colors = []
    for gap, size, rows, is_certain in cells:
        if not rows:
            colors.append((_EMPTY, _EMPTY))
        elif not is_certain:
            colors.append((UNDECIDED, _DARK))
        else:
            strength = 0.3 + 0.7 * size / largest
            dark_enough = strength > (0.6 if gap > 0 else 0.85)
            color = f"{OVER if gap < 0 else UNDER}{round(255 * strength):02x}"
            colors.append((color, _PALE if dark_enough else _DARK))
    return colors


def _short(name: str) -> str:
    return name if len(name) <= _MOST_LETTERS else f"{name[: _MOST_LETTERS - 1]}…"


def _name(axis: Any, names: list[str], most: int, others: Mapping[float, str] | None = None) -> None:
    """Label an axis at evenly spaced whole numbers, at most ``most`` of them; ``others`` come before."""
    step = max(1, -(-len(names) // max(1, most)))
    axis.ticker.ticks = [*(others or {}), *range(0, len(names), step)]
    overrides: dict[Any, str] = {**dict(enumerate(names)), **(others or {})}
    axis.major_label_overrides = {position: in_figure(name) for position, name in overrides.items()}


def _figure(label: str) -> Any:
    from bokeh import plotting
    from bokeh.models import FixedTicker, NoOverlap

    options: dict[str, Any] = {"sizing_mode": "stretch_width", "tools": _TOOLS, "toolbar_location": "right"}
    figure: Any = plotting.figure(height=_HEIGHT, **options)
    figure.toolbar.autohide, figure.toolbar.logo = True, None
    # Or the page could not be scrolled over a figure.
    figure.toolbar.active_scroll = figure.toolbar.active_drag = None
    figure.html_attributes = {"role": "group", "aria-label": label}
    figure.outline_line_color = None
    figure.xaxis.ticker, figure.yaxis.axis_label_text_font_size = FixedTicker(ticks=[]), "9pt"
    for axis in (figure.xaxis, figure.yaxis):
        axis.axis_label_text_font_style, axis.major_label_text_font_size = "normal", "9pt"
        axis.minor_tick_line_color, axis.axis_line_color, axis.major_tick_in = None, None, 0
    # In a narrow window there is room for fewer dates.
    figure.xaxis.major_label_policy = NoOverlap(min_distance=8)
    return figure


def _pane(figure: Any) -> Any:
    import panel as pn

    return pn.pane.Bokeh(figure, sizing_mode="stretch_width")
