"""One panel: a reliability diagram or curve, and a low figure of the scores beneath it."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from calibdask.markup import in_figure
from calibdask.plot.frame import Frame, Shown, interval_name, notes
from calibdask.plot.framing import named_score
from calibdask.plot.style import (
    BARS,
    BIN_TOOLTIPS,
    CURVE_TOOLTIPS,
    DIAGONAL,
    FREQUENCY,
    GRID,
    LIMITS,
    LINE,
    OVER,
    PROBABILITY,
    ROWS,
    SCORE,
    SERIES,
    SHARE,
    TICKS,
    UNDER,
    number_text,
)
from calibdask.results.reliability import BinnedReliability, SmoothReliability

COLORS = SERIES[:2]
# What a figure can be looked at with; none of them is in use at first.
TOOLS = "pan,box_zoom,wheel_zoom,reset"
_MARKERS = ("circle", "diamond")
# Seen on white and on black.
_INTERVAL = "#757b82"
_SIDES = {"over": OVER, "under": UNDER}
# Columns of the sources, named as the tooltips of `calibdask.plot` expect them.
_BIN_COLUMNS = (
    "x",
    "y",
    "diagonal",
    "low",
    "high",
    "color",
    "size",
    "mean_score",
    "frequency",
    "gap",
    "rows",
    "from",
    "to",
)
_CURVE_COLUMNS = (
    "x",
    "y",
    "low",
    "high",
    "band_low",
    "band_high",
    *_SIDES,
    "at",
    "frequency",
    "gap",
    "density",
    "from",
    "to",
)
_BAR_COLUMNS = ("left", "right", "height", "lower", "upper", "rows")
_BAR_TOOLTIPS = [("scores", "@lower{0.0000} to @upper{0.0000}"), ("rows", "@rows{0,0}")]
_ENDS = "@from{0.0000} to @to{0.0000}"
_LINE_HEIGHT = 15
_POINT_TOOLTIPS = [*BIN_TOOLTIPS[:2], ("95 % interval", _ENDS), *BIN_TOOLTIPS[2:]]
_LINE_TOOLTIPS = [*CURVE_TOOLTIPS[:2], ("95 % pointwise", _ENDS), *CURVE_TOOLTIPS[2:]]


class ReliabilityPanel:
    """Bins, or a curve, or both, of one selection or two; made empty.

    Parameters
    ----------
    selections : int
        1, in the colours of the two sides of the diagonal; or 2, in one colour each.
    bins, curve : bool
        What it shows: rows by score are beneath.
    """

    def __init__(self, selections: int, *, bins: bool = False, curve: bool = False) -> None:
        self._bins, self._curve, self._alone = bins, curve, selections == 1
        self._small = bins and curve
        self.upper, self._lower = self._figures()
        self.layers = [self._layer(number) for number in range(selections)]
        self.pane = pane_of([self.upper, self._lower], small=self._small)

    def show(self, title: str, selections: Sequence[tuple[BinnedReliability, SmoothReliability | None]]) -> None:
        """Replace the bins and curves of each selection."""
        errors = ", ".join(
            "without rows" if np.isnan(bins.error) else number_text(bins.error) for bins, _ in selections
        )
        numbers = f"{'' if self._small else 'Bins: '}ECE {errors}" if self._bins else "Curve"
        self.upper.title.text = in_figure(" · ".join(filter(None, (title, numbers))))
        # Points of equal size stand for equal shares of the rows in all selections of a panel.
        largest = max(float(bins.share.max(initial=0.0)) for bins, _ in selections) or 1.0
        drawn = [
            [of for of, there in ((curve, self._curve), (bins, self._bins)) if there and of]
            for bins, curve in selections
        ]
        frame = Frame.of([of for selection in drawn for of in selection])
        self._fit(frame, drawn)
        for number, (bins, curve) in enumerate(selections):
            layer = self.layers[number]
            layer["bars"].data = self._bar_columns(frame, bins if self._bins or curve is None else curve)
            if self._bins:
                layer["bins"].data = self._bin_columns(frame, bins, number, largest)
            if self._curve and curve is not None:
                layer["curve"].data = _curve_columns(frame, curve)

    def _fit(self, frame: Frame, drawn: Sequence[Sequence[Shown]]) -> None:
        """Ends, ticks and names of the axes, with what they leave out."""
        upper, lower = self.upper, self._lower
        for values, ends in ((upper.x_range, frame.across), (upper.y_range, frame.upward)):
            values.start, values.end = ends
        across, upward = (dict(ticks) for ticks in (frame.x_ticks, frame.y_ticks))
        # Of tickers that stay: a browser lays a figure out again for each that is another.
        for axis, ticks in ((upper.xaxis, across), (lower.xaxis, across), (upper.yaxis, upward)):
            axis[0].ticker.ticks, axis[0].major_label_overrides = list(ticks), ticks
        x, y = frame.diagonal
        self._diagonal.data = {"x": x, "y": y}
        if len(drawn) == 1:
            sentences = [sentence for of in drawn[0] for sentence in notes(of)]
        else:
            sentences = [
                line for kind in zip(*drawn, strict=True) for line in notes(dict(zip("AB", kind, strict=False)))
            ]
        words = named_score(frame, list(dict.fromkeys(sentences)), 40 if self._small else 68)
        lower.xaxis.axis_label = words
        lower.height = self._low + _LINE_HEIGHT * words.count("\n")
        names = [list(dict.fromkeys(filter(None, map(interval_name, selection)))) for selection in drawn]
        if upper.legend:
            for number, item in enumerate(upper.legend[0].items):
                kinds = names[min(number, len(names) - 1)]
                # Of a band and intervals what both are.
                own = kinds[0].rpartition(" ")[0] if len(kinds) > 1 else "".join(kinds)
                item.label = {"value": own if self._alone or self._bins else f"{'AB'[number]}, {own}"}
                item.visible = bool(own)

    def _figures(self) -> tuple[Any, Any]:
        from bokeh.models import ColumnDataSource, FixedTicker

        self._low = 70 if self._small else 105
        upper = empty_figure(235 if self._small else 345, _range())
        label = "Reliability diagram" if self._bins else "Reliability curve"
        upper.html_attributes = {"role": "group", "aria-label": f"{label}; its numbers are in the CSV files"}
        upper.y_range = _range()
        self._diagonal = ColumnDataSource({"x": [0, 1], "y": [0, 1]})
        upper.line("x", "y", source=self._diagonal, color=DIAGONAL, line_dash="dashed", line_width=1.2)
        lower = empty_figure(self._low, upper.x_range)
        lower.y_range.start, lower.toolbar_location = 0, None
        lower.yaxis[0].ticker.desired_num_ticks = 1 if self._small else 2
        lower.xaxis.axis_label = SCORE
        for axis, grid in ((upper.xaxis, upper.xgrid), (lower.xaxis, lower.xgrid), (upper.yaxis, upper.ygrid)):
            axis.ticker = grid.ticker = FixedTicker(ticks=[])
        if not self._small:
            upper.yaxis.axis_label = FREQUENCY if self._bins else PROBABILITY
            lower.yaxis.axis_label = ROWS if self._alone else SHARE
        return upper, lower

    def _layer(self, number: int) -> dict[str, Any]:
        """Glyphs of a selection, drawn above earlier selections, and their data sources."""
        color = None if self._alone else COLORS[number]
        sources = {"bars": self._bar_layer(color)}
        if self._curve:
            sources["curve"] = self._curve_layer(color, number)
        if self._bins:
            sources["bins"] = self._bin_layer(color, number)
        return sources

    def _bin_layer(self, color: str | None, number: int) -> Any:
        from bokeh.models import ColumnDataSource, HoverTool

        source = ColumnDataSource({name: [] for name in _BIN_COLUMNS})
        if not self._small:
            self.upper.line("x", "y", source=source, color=color or LINE, alpha=0.6)
        # Those of two selections would hide their curves where panels are small.
        if not (self._small and not self._alone):
            gaps = {"x0": "x", "y0": "diagonal", "x1": "x", "y1": "y"}
            self.upper.segment(source=source, color="color", line_width=3, alpha=0.35, **gaps)
            ends = {"x0": "x", "y0": "low", "x1": "x", "y1": "high"}
            self.upper.segment(source=source, color=_INTERVAL, alpha=0.8, legend_label="interval", **ends)
        points = self.upper.scatter(
            "x",
            "y",
            size="size",
            source=source,
            color="color",
            marker=_MARKERS[number],
            line_color="white",
        )
        self.upper.add_tools(HoverTool(renderers=[points], tooltips=_POINT_TOOLTIPS))
        self._style_legend()
        return source

    def _bar_layer(self, color: str | None) -> Any:
        from bokeh.models import ColumnDataSource, HoverTool

        source = ColumnDataSource({name: [] for name in _BAR_COLUMNS})
        ends = {"top": "height", "left": "left", "right": "right", "bottom": 0, "line_color": "white"}
        alpha = 0.85 if self._alone else 0.45
        bars = self._lower.quad(source=source, color=color or BARS, fill_alpha=alpha, line_width=0.5, **ends)
        self._lower.add_tools(HoverTool(renderers=[bars], tooltips=_BAR_TOOLTIPS))
        return source

    def _curve_layer(self, color: str | None, number: int) -> Any:
        from bokeh.models import ColumnDataSource, HoverTool

        source = ColumnDataSource({name: [] for name in _CURVE_COLUMNS})
        legend = {} if self._small else {"legend_label": f"{'AB'[number]}, band"}
        if self._alone:
            self.upper.varea("x", "band_low", "band_high", source=source, color=_INTERVAL, alpha=0.16)
        self.upper.varea("x", "low", "high", source=source, color=color or _INTERVAL, alpha=0.28, **legend)
        thick = {"source": source, "line_width": 2.2, "line_dash": "dashed" if number else "solid"}
        if color is None:
            sides = [self.upper.line("x", side, color=hue, **thick) for side, hue in _SIDES.items()]
        else:
            sides = [self.upper.line("x", "y", color=color, **thick)]
        self.upper.add_tools(HoverTool(renderers=sides, tooltips=_LINE_TOOLTIPS, attachment="horizontal"))
        self._style_legend()
        return source

    def _style_legend(self) -> None:
        for legend in self.upper.legend:
            legend.location = "top_left"
            legend.background_fill_alpha, legend.border_line_alpha = 0.0, 0.0
            legend.label_text_font_size = "8pt"
            legend.padding, legend.spacing, legend.glyph_height = 2, 0, 12

    def _bin_columns(self, frame: Frame, bins: BinnedReliability, number: int, largest: float) -> dict[str, Any]:
        smallest, growth = (2, 5.0) if self._small else (4, 10.0)
        if bins.drawn is not None and bins.drawn.equal_masses:
            growth /= 2
        # Intervals that are not known yet have no length.
        low, high = (bins.low, bins.high) if bins.has_interval else (bins.outcome, bins.outcome)
        columns = {
            "x": frame.x(bins.score),
            "y": frame.y(bins.outcome),
            "diagonal": frame.y(bins.score),
            "low": frame.y(low),
            "high": frame.y(high),
            "mean_score": bins.score,
            "frequency": bins.outcome,
            "from": low,
            "to": high,
            "gap": bins.gap,
            "rows": bins.count,
            "color": np.where(bins.gap < 0, OVER, UNDER) if self._alone else np.full(bins.gap.shape, COLORS[number]),
            "size": smallest + growth * np.sqrt(bins.share / largest),
        }
        return {name: column[frame.inside(bins)] for name, column in columns.items()}

    def _bar_columns(self, frame: Frame, shown: Shown) -> dict[str, Any]:
        """Rows by even part of the axis, or by bin; of two selections the shares."""
        if shown.drawn is not None:
            borders, rows = frame.bars(shown.drawn)
            scores = shown.drawn.axis.spread(borders.size)
            starts, ends, lower, upper = borders[:-1], borders[1:], scores[:-1], scores[1:]
        elif isinstance(shown, BinnedReliability):
            starts, ends, lower, upper, rows = shown.lower, shown.upper, shown.lower, shown.upper, shown.count
        else:
            return {name: [] for name in _BAR_COLUMNS}
        height = rows if self._alone else rows / max(float(rows.sum()), 1.0)
        return dict(zip(_BAR_COLUMNS, (starts, ends, height, lower, upper, rows), strict=True))


def _curve_columns(frame: Frame, curve: SmoothReliability) -> dict[str, Any]:
    crossed = curve.with_crossings()
    sides = {str(side): frame.y(half.reliability) for side, half in curve.split().items()}
    bounds = {name: frame.y(getattr(crossed, name)) for name in ("low", "high", "band_low", "band_high")}
    numbers = {"at": crossed.score, "frequency": crossed.reliability, "gap": crossed.gap, "density": crossed.density}
    ends = {"from": crossed.low, "to": crossed.high}
    return {"x": frame.x(crossed.score), "y": frame.y(crossed.reliability), **bounds, **sides, **numbers, **ends}


def _range() -> Any:
    from bokeh.models import Range1d

    return Range1d(start=LIMITS[0], end=LIMITS[1])


def empty_figure(height: int, x_range: Any) -> Any:
    """An empty figure in the style of `calibdask.plot`."""
    from bokeh import plotting

    options: dict[str, Any] = {"sizing_mode": "stretch_width", "tools": TOOLS, "toolbar_location": "above"}
    figure: Any = plotting.figure(height=height, x_range=x_range, **options)
    figure.toolbar.autohide, figure.toolbar.logo = True, None
    # Or the page could not be scrolled over a figure.
    figure.toolbar.active_scroll = figure.toolbar.active_drag = None
    # Equal borders: figures that are one above the other share their axis.
    figure.min_border_left, figure.min_border_right = 58, 10
    figure.outline_line_color = None
    figure.title.text_font_size = "9.5pt"
    figure.xaxis.ticker = TICKS
    figure.grid.grid_line_color = GRID
    for axis in (figure.xaxis, figure.yaxis):
        axis.axis_label_text_font_size, axis.major_label_text_font_size = "9pt", "8pt"
        axis.axis_label_text_font_style = "normal"
        axis.minor_tick_line_color, axis.major_tick_in = None, 0
    return figure


def pane_of(figures: Sequence[Any], *, small: bool) -> Any:
    """Figures one above the other, as wide as there is room."""
    import panel as pn
    from bokeh.layouts import column

    wide = 240 if small else 300
    # Without these, elements that stretch would never wrap to the next row. No `min_width`: a row is never narrower
    # than the sum of these.
    styles = {"flex": f"1 1 {wide}px", "min-width": f"{wide}px", "max-width": f"{340 if small else 620}px"}
    shown = pn.pane.Bokeh(column(*figures, sizing_mode="stretch_width"), sizing_mode="stretch_width")
    return pn.Column(shown, sizing_mode="stretch_width", styles=styles)
