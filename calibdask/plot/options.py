"""HoloViews options of plots of reliability, for Bokeh and for Matplotlib; what they share is in `style`."""

import importlib
from collections.abc import Callable, Mapping
from typing import Any

from calibdask.markup import in_figure
from calibdask.plot import style
from calibdask.plot.style import GRID

# In pixels, of the name of an axis.
_LINE_HEIGHT = 15


def mark_ticks(plot: Any, element: Any) -> None:
    """Hook for Bokeh and Matplotlib: ticks of the dimensions, grid lines at these, room for notes, titles of words."""
    import holoviews as hv

    first = next(iter(element)) if isinstance(element, hv.Overlay) else element
    if "axis" not in plot.handles and plot.state.title is not None:
        plot.state.title.text = in_figure(plot.state.title.text)
    for name, dimension in zip("xy", first.dimensions()[:2], strict=False):
        ticks = list(dimension.values)
        labels = [dimension.value_format(tick) for tick in ticks]
        if "axis" in plot.handles:
            _mark_matplotlib(plot.handles["axis"], name, ticks, labels, is_main=element is not first)
        else:
            _mark_bokeh(plot, name, ticks, labels)
            if name == "x":
                plot.state.height += _LINE_HEIGHT * dimension.label.count("\n")


def _mark_bokeh(plot: Any, name: str, ticks: list[float], labels: list[str]) -> None:
    if ticks:
        axis = plot.handles[f"{name}axis"]
        axis.ticker, axis.major_label_overrides = ticks, dict(zip(ticks, labels, strict=True))
        for grid in getattr(plot.state, f"{name}grid"):
            grid.ticker = axis.ticker


def _mark_matplotlib(axis: Any, name: str, ticks: list[float], labels: list[str], *, is_main: bool) -> None:
    if ticks:
        getattr(axis, f"set_{name}ticks")(ticks, labels)
    if is_main:
        # HoloViews draws a grid for single elements only.
        axis.grid(visible=True, color=GRID, linewidth=0.8)
        axis.set_axisbelow(True)
        axis.spines[["top", "right"]].set_visible(False)


Options = dict[str, Any]

# Layouts of more columns have smaller panels, and smaller parts in these.
_FEW_COLUMNS, _SOME_COLUMNS = 2, 3
_INTERVAL = ("band", "@reliability_low{0.0000} to @reliability_high{0.0000}")
_PLAIN, _BANDED = list(style.CURVE_TOOLTIPS), [*style.CURVE_TOOLTIPS[:2], _INTERVAL, *style.CURVE_TOOLTIPS[2:]]
# Colours by group, with the opacity of areas, the tooltips of the sides of a curve, and the dashes of several results.
_AREAS = {
    "Simultaneous": (style.BAND, 0.12),
    "Pointwise": (style.BAND, 0.25),
    "Confidence": (style.BAND, 0.25),
    "Over": (style.OVER, 0.15),
    "Under": (style.UNDER, 0.15),
    "Density": (style.BARS, 0.8),
    "Spread": (style.BAND, 0.3),
    # The widest band first: where they lie over each other they are darker.
    "Band_0": (style.BAND, 0.15),
    "Band_1": (style.BAND, 0.25),
    **{f"Series_{number}": (color, 0.2) for number, color in enumerate(style.SERIES)},
}
_SIDES = {
    "Over": (style.OVER, _PLAIN),
    "Under": (style.UNDER, _PLAIN),
    "Over_with_band": (style.OVER, _BANDED),
    "Under_with_band": (style.UNDER, _BANDED),
}
_DASHED = dict(enumerate(zip(style.SERIES, style.DASHES, strict=True)))
_SERIES = {f"Series_{number}": pair for number, pair in _DASHED.items()}
_CHARTS = ("Overlay.Decision_curve", "Overlay.Risk_coverage_curve", "Overlay.Murphy_curve")
# The line of a chart, and those to hold it to.
_CHART = {
    "Main": (style.MAIN, "solid"),
    "Reference_0": (style.REFERENCE, "dashed"),
    "Reference_1": (style.REFERENCE, "dotted"),
}
_OUTLINES = {"Density": (style.OUTLINE, "solid"), **{f"Outline_{number}": pair for number, pair in _DASHED.items()}}


def styled(layout: Any, backend: str, columns: int) -> Any:
    """A layout with the options of a backend, in place."""
    # Importing a backend registers it; options of one that is not registered are refused.
    importlib.import_module(f"holoviews.plotting.{'mpl' if backend == 'matplotlib' else backend}")
    options = _matplotlib_options(columns) if backend == "matplotlib" else _bokeh_options(columns)
    return layout.options(options, backend=backend, clone=False)


def _bokeh_options(columns: int) -> dict[str, Options]:
    from holoviews import dim

    size = {1: 460, 2: 380, 3: 320, 4: 240}.get(columns, 190)
    few = columns <= _FEW_COLUMNS
    wide = {"line_width": 2.2 if few else 1.8, "alpha": 1.0, "tools": ["hover"]}
    series = {**wide, "line_width": 2.2}
    thin = {"line_width": 1.2, "alpha": 1.0}
    point = {"line_color": "white", "tools": ["hover"]}
    sizes = {"title": "9.5pt", "labels": "9pt", "ticks": "8pt"}
    # Equal borders, or a curve and its histogram would not stand exactly one above the other.
    left, right, title, axis = 56, 8, 44, 40
    small = max(60, size // 5) + axis + 5
    frame = {
        "width": size + left + right,
        "hooks": [mark_ticks],
        "xticks": style.TICKS,
        "toolbar": None,
        "fontsize": sizes,
    }
    borders = {
        "plot.min_border_left": left,
        "plot.min_border_right": right,
        "plot.outline_line_color": None,
        "title.text_line_height": 1.3,
        "xaxis.minor_tick_line_color": None,
        "yaxis.minor_tick_line_color": None,
        "xaxis.major_tick_in": 0,
        "yaxis.major_tick_in": 0,
    }
    legend = {
        "background_fill_alpha": 0,
        "border_line_alpha": 0,
        "label_text_font_size": "8pt",
        "glyph_height": 12,
        "glyph_width": 18,
        "spacing": 0,
        "padding": 2,
    }
    titled = {"title": "{label}", "show_legend": True, "legend_position": "top_left", "legend_opts": legend}
    chart = {
        **titled,
        "legend_position": "top_right",
        "height": round(0.7 * size) + title + axis,
        "xlabel": None,
        # Ranges are those of the dimensions.
        "xlim": (None, None),
        "ylim": (None, None),
        "xticks": 6,
        "yticks": 6,
    }
    return {
        **_by_group("Area", _AREAS, lambda color, alpha: {"color": color, "fill_alpha": alpha, "line_width": 0}),
        **_by_group("Curve", _SIDES, lambda color, tips: {**wide, "color": color, "hover_tooltips": tips}),
        **_by_group("Curve", _SERIES, lambda color, dash: {**series, "color": color, "line_dash": dash}),
        **_by_group("Curve", _CHART, lambda color, dash: {**series, "color": color, "line_dash": dash}),
        **_by_group("Curve", _OUTLINES, lambda color, dash: {**thin, "color": color, "line_dash": dash}),
        **_by_group("Scatter", _SERIES, lambda color, _: {**point, "color": color, "size": 7}),
        "Curve.Median": {**thin, "color": style.MEDIAN, "line_width": 1.4, "line_dash": "dotted"},
        "Slope": {"color": style.DIAGONAL, "line_dash": "dashed", "line_width": 1.2},
        "Curve": {"color": style.LINE, "line_width": 1.2, "alpha": 0.6},
        "Segments": {"color": "color", "line_width": 3, "alpha": 0.15 + dim("share") * 0.5},
        "Segments.Interval": {"color": style.BAND, "line_width": 1.2, "alpha": 0.9},
        **_by_group("Segments", _SERIES, lambda color, _: {"color": color, "line_width": 1.2, "alpha": 0.9}),
        "Points": {
            **point,
            "color": "color",
            "size": 4 + dim("share") * (10 if few else 6),
            "hover_tooltips": list(style.BIN_TOOLTIPS),
        },
        "Overlay": {
            **frame,
            "height": size + title + axis // 2,
            "yticks": style.TICKS,
            "backend_opts": borders,
            "xlabel": "",
            "show_legend": False,
            "show_grid": True,
        },
        "Overlay.Diagram": titled,
        "Overlay.Reliability": {
            **titled,
            # The heading has two numbers, which narrow panels would cut off.
            "fontsize": sizes if columns <= _SOME_COLUMNS else {**sizes, "title": "8pt"},
        },
        **dict.fromkeys(_CHARTS, chart),
        "Overlay.Calibration_belt": {**chart, "height": size + title + axis, "legend_position": "top_left"},
        "Overlay.Density": {
            "title": "",
            "xlabel": None,
            "height": small,
            "ylim": (0, None),
            "yticks": 3,
            "show_grid": False,
        },
        "Rectangles": {
            **frame,
            "height": small,
            "ylim": (0, None),
            "backend_opts": borders,
            "color": style.BARS,
            "line_color": "white",
            "yticks": 3,
            "tools": ["hover"],
            "hover_tooltips": [("scores", "@lower{0.0000} to @upper{0.0000}"), ("rows", "@top{0,0}")],
        },
        "Layout": {"shared_axes": False, "toolbar": None},
    }


def _matplotlib_options(columns: int) -> dict[str, Options]:
    from holoviews import dim

    def area(color: str, alpha: float) -> Options:
        # HoloViews draws the default of whichever of the two colours is not given, and keeps areas out of legends.
        return {"color": color, "facecolor": color, "alpha": alpha, "linewidth": 0, "show_legend": True}

    few = columns <= _FEW_COLUMNS
    wide = {"linewidth": 1.8 if few else 1.3, "alpha": 1.0}
    series = {**wide, "linewidth": 1.8}
    thin = {"linewidth": 1.0, "alpha": 1.0}
    frame = {
        "hooks": [mark_ticks],
        "fontsize": {"title": 9.5, "labels": 8.5, "ticks": 8, "legend": 7.5 if few else 6.5},
        "show_grid": True,
    }
    legend = {"frameon": False, "handlelength": 1.6, "labelspacing": 0.3, "borderaxespad": 0.2}
    titled = {"title": "{label}", "show_legend": True, "legend_position": "top_left", "legend_opts": legend}
    chart = {
        **titled,
        "legend_position": "top_right",
        "xlabel": None,
        "aspect": 1.4,
        # Ranges are those of the dimensions.
        "xlim": (None, None),
        "ylim": (None, None),
        "xticks": 6,
        "yticks": 6,
    }
    return {
        **_by_group("Area", _AREAS, area),
        **_by_group("Curve", _SIDES, lambda color, _: {**wide, "color": color}),
        **_by_group("Curve", _SERIES, lambda color, dash: {**series, "color": color, "linestyle": dash}),
        **_by_group("Curve", _CHART, lambda color, dash: {**series, "color": color, "linestyle": dash}),
        **_by_group("Curve", _OUTLINES, lambda color, dash: {**thin, "color": color, "linestyle": dash}),
        **_by_group("Scatter", _SERIES, lambda color, _: {"color": color, "s": 36, "edgecolors": "white"}),
        "Curve.Median": {**thin, "color": style.MEDIAN, "linewidth": 1.1, "linestyle": "dotted"},
        "Slope": {"color": style.DIAGONAL, "linestyle": "dashed", "linewidth": 1.0},
        "Curve": {"color": style.LINE, "linewidth": 1.0, "alpha": 0.6},
        "Segments": {"color": "color", "linewidth": 2.5, "alpha": 0.5},
        "Segments.Interval": {"color": style.BAND, "linewidth": 1.0, "alpha": 0.9},
        **_by_group("Segments", _SERIES, lambda color, _: {"color": color, "linewidth": 1.0, "alpha": 0.9}),
        "Points": {"color": "color", "s": (4 + dim("share") * (8 if few else 4)) ** 2, "edgecolors": "white"},
        "Overlay": {
            **frame,
            "xticks": list(style.TICKS),
            "yticks": list(style.TICKS),
            "xlabel": "",
            "aspect": 1,
            "show_legend": False,
        },
        **dict.fromkeys(("Overlay.Diagram", "Overlay.Reliability"), titled),
        **dict.fromkeys(_CHARTS, chart),
        "Overlay.Calibration_belt": {**chart, "aspect": 1, "legend_position": "top_left"},
        "Overlay.Density": {
            "title": "",
            "xlabel": None,
            "ylim": (0, None),
            "yticks": 3,
            "aspect": 4,
            "show_grid": False,
        },
        "Rectangles": {
            **frame,
            "show_grid": False,
            "ylim": (0, None),
            "xticks": list(style.TICKS),
            "yticks": 3,
            "color": style.BARS,
            "edgecolor": "white",
            "aspect": 4,
        },
        "Layout": {
            "shared_axes": False,
            "sublabel_format": "",
            "aspect_weight": 1,
            "fig_inches": 4.5 if few else 3.0,
            "vspace": 0.25,
            "hspace": 0.25,
            "tight": True,
        },
    }


def _by_group(element: str, groups: Mapping[str, tuple[str, Any]], options: Callable[[str, Any], Options]) -> Options:
    """Options of the groups of an element, from a colour and one more choice of each."""
    return {f"{element}.{group}": options(*choices) for group, choices in groups.items()}
