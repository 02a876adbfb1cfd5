"""One panel: a reliability diagram or curve, and a low figure of the scores beneath it."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from calibdask.plot.style import (
    BAND,
    BARS,
    BIN_TOOLTIPS,
    CURVE_TOOLTIPS,
    DENSITY,
    DIAGONAL,
    FREQUENCY,
    LIMITS,
    LINE,
    OUTLINE,
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
from calibdask.results.reliability import Bins, Curve

COLORS = SERIES[:2]
# What a figure can be looked at with; none of them is in use at first.
TOOLS = "pan,box_zoom,wheel_zoom,reset"
_MARKERS = ("circle", "diamond")
# Seen on white and on black.
_INTERVAL, _GRID = "#757b82", "#e8ebee"
_SIDES = {"over": OVER, "under": UNDER}
# Columns of the sources, named as the tooltips of `calibdask.plot` expect them.
_BIN_COLUMNS = ("score", "outcome", "low", "high", "lower", "upper", "gap", "rows", "color", "size", "height")
_CURVE_COLUMNS = ("score", "reliability", "density", "low", "high", "band_low", "band_high", "gap", *_SIDES)
_BAR_TOOLTIPS = [("scores", "@lower{0.0000} to @upper{0.0000}"), ("rows", "@rows{0,0}")]
_ENDS = "@low{0.0000} to @high{0.0000}"
_POINT_TOOLTIPS = [*BIN_TOOLTIPS[:2], ("95 % interval", _ENDS), *BIN_TOOLTIPS[2:]]
_LINE_TOOLTIPS = [*CURVE_TOOLTIPS[:2], ("95 % pointwise", _ENDS), *CURVE_TOOLTIPS[2:]]


class Panel:
    """Bins, or a curve, or both, of one selection or two; made empty.

    Parameters
    ----------
    selections : int
        1, in the colours of the two sides of the diagonal; or 2, in one colour each.
    bins, curve : bool
        What it shows: rows by bin are beneath bins alone, else the density of the scores.
    """

    def __init__(self, selections: int, *, bins: bool = False, curve: bool = False) -> None:
        self._bins, self._curve, self._alone = bins, curve, selections == 1
        self._small = bins and curve
        self.upper, self._lower = self._figures()
        self.layers = [self._layer(number) for number in range(selections)]
        self.pane = pane_of([self.upper, self._lower], small=self._small)

    def show(self, title: str, selections: Sequence[tuple[Bins, Curve | None]]) -> None:
        """Show other bins and curves, those of each selection."""
        errors = ", ".join(
            "without rows" if np.isnan(bins.error) else number_text(bins.error) for bins, _ in selections
        )
        numbers = f"{'' if self._small else 'Bins: '}ECE {errors}" if self._bins else "Curve, and density of the scores"
        self.upper.title.text = " · ".join(filter(None, (title, numbers)))
        # Points of equal size stand for equal shares of the rows in all selections of a panel.
        largest = max(float(bins.share.max(initial=0.0)) for bins, _ in selections) or 1.0
        for number, (bins, curve) in enumerate(selections):
            layer = self.layers[number]
            if self._bins:
                layer["bins"].data = self._bin_columns(bins, number, largest)
            if self._curve and curve is not None:
                layer["curve"].data = _curve_columns(curve)

    def _figures(self) -> tuple[Any, Any]:
        upper = empty_figure(235 if self._small else 345, LIMITS)
        label = "Reliability diagram" if self._bins else "Reliability curve"
        upper.html_attributes = {"role": "group", "aria-label": f"{label}; its numbers are in the CSV files"}
        upper.y_range.start, upper.y_range.end = LIMITS
        upper.yaxis.ticker = TICKS
        upper.line([0, 1], [0, 1], color=DIAGONAL, line_dash="dashed", line_width=1.2)
        lower = empty_figure(70 if self._small else 105, upper.x_range)
        lower.y_range.start, lower.toolbar_location = 0, None
        lower.yaxis[0].ticker.desired_num_ticks = 2
        lower.xaxis.axis_label = SCORE
        if not self._small:
            upper.yaxis.axis_label = FREQUENCY if self._bins else PROBABILITY
            rows = ROWS if self._alone else SHARE
            lower.yaxis.axis_label = rows if self._bins else DENSITY
        return upper, lower

    def _layer(self, number: int) -> dict[str, Any]:
        """The glyphs of a selection, over those of the selections before; their sources."""
        color = None if self._alone else COLORS[number]
        sources = {}
        if self._curve:
            sources["curve"] = self._curve_layer(color, number)
        if self._bins:
            sources["bins"] = self._bin_layer(color, number)
        return sources

    def _bin_layer(self, color: str | None, number: int) -> Any:
        from bokeh.models import ColumnDataSource, HoverTool

        source = ColumnDataSource({name: [] for name in _BIN_COLUMNS})
        if not self._small:
            self.upper.line("score", "outcome", source=source, color=color or LINE, alpha=0.6)
            bars = {"top": "height", "left": "lower", "right": "upper", "bottom": 0, "line_color": "white"}
            columns = self._lower.quad(
                source=source, color=color or BARS, fill_alpha=0.85 if self._alone else 0.45, **bars
            )
            self._lower.add_tools(HoverTool(renderers=[columns], tooltips=_BAR_TOOLTIPS))
        # Those of two selections would hide their curves where panels are small.
        if not (self._small and not self._alone):
            gaps = {"x0": "score", "y0": "score", "x1": "score", "y1": "outcome"}
            self.upper.segment(source=source, color="color", line_width=3, alpha=0.35, **gaps)
            ends = {"x0": "score", "y0": "low", "x1": "score", "y1": "high"}
            self.upper.segment(source=source, color=_INTERVAL, alpha=0.8, **ends)
        points = self.upper.scatter(
            "score",
            "outcome",
            size="size",
            source=source,
            color="color",
            marker=_MARKERS[number],
            line_color="white",
        )
        self.upper.add_tools(HoverTool(renderers=[points], tooltips=_POINT_TOOLTIPS))
        return source

    def _curve_layer(self, color: str | None, number: int) -> Any:
        from bokeh.models import ColumnDataSource, HoverTool

        source = ColumnDataSource({name: [] for name in _CURVE_COLUMNS})
        legend = {} if self._small else {"legend_label": "95 % simultaneous"}
        if self._alone:
            self.upper.varea("score", "band_low", "band_high", source=source, color=BAND, alpha=0.12, **legend)
            legend = {} if self._small else {"legend_label": "95 % pointwise"}
        else:
            legend = {} if self._small else {"legend_label": f"{'AB'[number]}, 95 % pointwise"}
        self.upper.varea("score", "low", "high", source=source, color=color or BAND, alpha=0.22, **legend)
        thick = {"source": source, "line_width": 2.2, "line_dash": "dashed" if number else "solid"}
        if color is None:
            sides = [self.upper.line("score", side, color=hue, **thick) for side, hue in _SIDES.items()]
        else:
            sides = [self.upper.line("score", "reliability", color=color, **thick)]
        self.upper.add_tools(HoverTool(renderers=sides, tooltips=_LINE_TOOLTIPS, attachment="horizontal"))
        self._lower.varea("score", 0, "density", source=source, color=color or BARS, alpha=0.8 if self._alone else 0.3)
        self._lower.line("score", "density", source=source, color=color or OUTLINE)
        self._style_legend()
        return source

    def _style_legend(self) -> None:
        for legend in self.upper.legend:
            legend.location = "top_left"
            legend.background_fill_alpha, legend.border_line_alpha = 0.0, 0.0
            legend.label_text_font_size = "8pt"
            legend.padding, legend.spacing, legend.glyph_height = 2, 0, 12

    def _bin_columns(self, bins: Bins, number: int, largest: float) -> dict[str, Any]:
        smallest, growth = (2, 5) if self._small else (4, 10)
        return {
            "score": bins.score,
            "outcome": bins.outcome,
            # Intervals that are not known yet have no length.
            "low": bins.low if bins.has_interval else bins.outcome,
            "high": bins.high if bins.has_interval else bins.outcome,
            "lower": bins.lower,
            "upper": bins.upper,
            "gap": bins.gap,
            "rows": bins.count,
            "color": np.where(bins.gap < 0, OVER, UNDER) if self._alone else np.full(bins.gap.shape, COLORS[number]),
            "size": smallest + growth * np.sqrt(bins.share / largest),
            "height": bins.count if self._alone else bins.share,
        }


def _curve_columns(curve: Curve) -> dict[str, Any]:
    sides = {str(side): half.reliability for side, half in curve.split().items()}
    crossed = curve.with_crossings()
    return {name: getattr(crossed, name) for name in _CURVE_COLUMNS if name not in sides} | sides


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
    figure.grid.grid_line_color = _GRID
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
