"""One panel: a figure over the unit square, and a flat one beneath it."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from calibdask.plot.look import OVER, SERIES, UNDER

__all__ = ["COLORS", "Panel"]

COLORS = SERIES[:2]
_MARKERS = ("circle", "diamond")
_GREY, _BARS, _BAND = "#8c8c8c", "#9fb3c8", "#555555"
_TICKS = [0.0, 0.25, 0.5, 0.75, 1.0]
_LIMITS = (-0.02, 1.02)

Columns = Mapping[str, np.ndarray]


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
        self._upper, self._lower = self._figures()
        self._layers = [self._layer(number) for number in range(selections)]
        self.pane = _pane(self._upper, self._lower, small=self._small)

    def show(self, title: str, drawn: Sequence[tuple[Columns, Columns]]) -> None:
        """Give it other numbers: columns by bin and along the curve of each selection."""
        numbers = [each for each in (title, self._number(drawn)) if each]
        self._upper.title.text = " · ".join(numbers)
        for layer, (bins, curve) in zip(self._layers, drawn, strict=True):
            if self._bins:
                layer["bins"].data = self._bin_columns(bins, drawn)
            if self._curve:
                layer["curve"].data = _curve_columns(curve)

    def _number(self, drawn: Sequence[tuple[Columns, Columns]]) -> str:
        """What the heading says."""
        if not self._bins:
            return "Curve, and density of the scores"
        words = [_error(bins) for bins, _ in drawn]
        return f"{'' if self._small else 'Bins: '}ECE {', '.join(words)}"

    def _figures(self) -> tuple[Any, Any]:
        upper = _figure(235 if self._small else 345, _LIMITS)
        upper.y_range.start, upper.y_range.end = _LIMITS
        upper.yaxis.ticker = _TICKS
        upper.line([0, 1], [0, 1], color="#6e6e6e", line_dash="dashed", line_width=1.2)
        lower = _figure(70 if self._small else 105, upper.x_range)
        lower.y_range.start = 0
        lower.yaxis[0].ticker.desired_num_ticks = 2
        lower.xaxis.axis_label = "score"
        if not self._small:
            upper.yaxis.axis_label = "frequency of the outcome" if self._bins else "probability of the outcome"
            rows = "rows" if self._alone else "share"
            lower.yaxis.axis_label = rows if self._bins else "density"
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

        source = ColumnDataSource(self._bin_columns({}, []))
        if not self._small:
            self._upper.line("score", "outcome", source=source, color=color or _GREY, alpha=0.6)
            bars = {"top": "height", "left": "lower", "right": "upper", "bottom": 0, "line_color": "white"}
            columns = self._lower.quad(
                source=source, color=color or _BARS, fill_alpha=0.85 if self._alone else 0.45, **bars
            )
            self._lower.add_tools(HoverTool(renderers=[columns], tooltips=_SCORES))
        # Those of two selections would hide their curves where panels are small.
        if not (self._small and not self._alone):
            gaps = {"x0": "score", "y0": "score", "x1": "score", "y1": "outcome"}
            self._upper.segment(source=source, color="color", line_width=3, alpha=0.35, **gaps)
            ends = {"x0": "score", "y0": "outcome_low", "x1": "score", "y1": "outcome_high"}
            self._upper.segment(source=source, color="#444444", alpha=0.8, **ends)
        points = self._upper.scatter(
            "score",
            "outcome",
            size="size",
            source=source,
            color="color",
            marker=_MARKERS[number],
            line_color="white",
        )
        self._upper.add_tools(HoverTool(renderers=[points], tooltips=_POINTS))
        return source

    def _curve_layer(self, color: str | None, number: int) -> Any:
        from bokeh.models import ColumnDataSource, HoverTool

        source = ColumnDataSource(_curve_columns({}))
        named = {} if self._small else {"legend_label": "95 % simultaneous"}
        wide, narrow = ("reliability_band_low", "reliability_band_high"), ("reliability_low", "reliability_high")
        if self._alone:
            self._upper.varea("score", *wide, source=source, color=_BAND, alpha=0.12, **named)
            named = {} if self._small else {"legend_label": "95 % pointwise"}
        else:
            named = {} if self._small else {"legend_label": f"{'AB'[number]}, 95 % pointwise"}
        self._upper.varea("score", *narrow, source=source, color=color or _BAND, alpha=0.22, **named)
        thick = {"source": source, "line_width": 2.2, "line_dash": "dashed" if number else "solid"}
        if color is None:
            sides = [self._upper.line("score", side, color=hue, **thick) for side, hue in _SIDES.items()]
        else:
            sides = [self._upper.line("score", "reliability", color=color, **thick)]
        self._upper.add_tools(HoverTool(renderers=sides, tooltips=_ALONG, attachment="horizontal"))
        self._lower.varea("score", 0, "density", source=source, color=color or _BARS, alpha=0.8 if self._alone else 0.3)
        self._lower.line("score", "density", source=source, color=color or "#5b7590")
        self._dress_legend()
        return source

    def _dress_legend(self) -> None:
        for legend in self._upper.legend:
            legend.location = "top_left"
            legend.background_fill_alpha, legend.border_line_alpha = 0.0, 0.0
            legend.label_text_font_size = "8pt"
            legend.padding, legend.spacing, legend.glyph_height = 2, 0, 12

    def _bin_columns(self, bins: Columns, drawn: Sequence[tuple[Columns, Columns]]) -> dict[str, Any]:
        """Columns of the source, empty ones where nothing is shown yet."""
        if not bins:
            return {name: [] for name in (*_BIN_COLUMNS, "gap", "color", "size", "height")}
        gap = bins["outcome"] - bins["score"]
        # Points of equal size stand for equally many rows in all selections of a panel.
        largest = max(float(each["share"].max(initial=0)) for each, _ in drawn) or 1.0
        size = (2 if self._small else 4) + (5 if self._small else 10) * np.sqrt(bins["share"] / largest)
        number = next(i for i, (each, _) in enumerate(drawn) if each is bins)
        color = np.where(gap < 0, OVER, UNDER) if self._alone else np.full(gap.shape, COLORS[number])
        height = bins["count"] if self._alone else bins["share"]
        return {
            **{name: bins[name] for name in _BIN_COLUMNS},
            "gap": gap,
            "color": color,
            "size": size,
            "height": height,
        }


_BIN_COLUMNS = ("score", "outcome", "count", "lower", "upper", "outcome_low", "outcome_high")
_BANDS = ("reliability_low", "reliability_high", "reliability_band_low", "reliability_band_high")
_CURVE_COLUMNS = ("score", "reliability", "density", *_BANDS)
_SIDES = {"over": OVER, "under": UNDER}
_SCORES = [("scores", "@lower{0.0000} to @upper{0.0000}"), ("rows", "@count{0,0}")]
_POINTS = [
    ("mean score", "@score{0.0000}"),
    ("frequency", "@outcome{0.0000}"),
    ("95 % interval", "@outcome_low{0.0000} to @outcome_high{0.0000}"),
    ("gap", "@gap{+0.0000}"),
    ("rows", "@count{0,0}"),
]
_ALONG = [
    ("score", "@score{0.0000}"),
    ("probability", "@reliability{0.0000}"),
    ("95 % pointwise", "@reliability_low{0.0000} to @reliability_high{0.0000}"),
    ("density", "@density{0.000}"),
]


def _error(bins: Columns) -> str:
    """The calibration error of the bins."""
    if not bins["share"].size:
        return "of no rows"
    return f"{float((bins['share'] * np.abs(bins['outcome'] - bins['score'])).sum()):.4f}"


def _curve_columns(curve: Columns) -> dict[str, Any]:
    """Columns of the source, the curve on either side of the diagonal too."""
    if not curve:
        return {name: [] for name in (*_CURVE_COLUMNS, *_SIDES)}
    gap = curve["reliability"] - curve["score"]
    sides = {"over": gap <= 0, "under": gap >= 0}
    # The step across the diagonal is drawn too, or the line would have holes.
    sides = {side: on | np.r_[on[1:], False] for side, on in sides.items()}
    parts = {side: np.where(on, curve["reliability"], np.nan) for side, on in sides.items()}
    return {**{name: curve[name] for name in _CURVE_COLUMNS}, **parts}


def _figure(height: int, x_range: Any) -> Any:
    """An empty figure in the look of `calibdask.plot`."""
    from bokeh import plotting

    options: dict[str, Any] = {"sizing_mode": "stretch_width", "tools": "", "toolbar_location": None}
    made: Any = plotting.figure(height=height, x_range=x_range, **options)
    # Equal borders: figures that are one above the other share their axis.
    made.min_border_left, made.min_border_right = 58, 10
    made.outline_line_color = None
    made.title.text_font_size = "9.5pt"
    made.xaxis.ticker = _TICKS
    made.grid.grid_line_color = "#e8ebee"
    for axis in (made.xaxis, made.yaxis):
        axis.axis_label_text_font_size, axis.major_label_text_font_size = "9pt", "8pt"
        axis.axis_label_text_font_style = "normal"
        axis.minor_tick_line_color, axis.major_tick_in = None, 0
    return made


def _pane(upper: Any, lower: Any, *, small: bool) -> Any:
    import panel as pn
    from bokeh.layouts import column

    wide = 240 if small else 300
    # What is as wide as its place allows would never go to the next line, but for this. No `min_width`: a row is not
    # narrower than their sum.
    styles = {"flex": f"1 1 {wide}px", "min-width": f"{wide}px", "max-width": f"{340 if small else 620}px"}
    drawn = pn.pane.Bokeh(column(upper, lower, sizing_mode="stretch_width"), sizing_mode="stretch_width")
    return pn.Column(drawn, sizing_mode="stretch_width", styles=styles)
