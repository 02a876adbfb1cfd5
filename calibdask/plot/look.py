"""The look of pictures, in the words of each backend of HoloViews."""

import importlib
from typing import Any

__all__ = ["OVER", "SERIES", "UNDER", "styled"]

# Okabe and Ito's colours, told apart by colour-blind readers: promised too much, promised too little.
OVER, UNDER = "#D55E00", "#0072B2"
# The others of these colours, for results over each other, with the dashes of their lines.
SERIES = ("#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_DASHES = ("solid", "dashed", "dotted", "dashdot", "solid")
_LINE, _BARS, _DIAGONAL, _OUTLINE = "#8c8c8c", "#9fb3c8", "#6e6e6e", "#5b7590"
_BAND, _MEDIAN = "#555555", "#222222"
_FEW_COLUMNS, _SOME_COLUMNS = 2, 3
# A little room for points at 0 and 1.
_LIMITS = (-0.02, 1.02)
_TICKS = (0.0, 0.25, 0.5, 0.75, 1.0)


def styled(layout: Any, backend: str, columns: int) -> Any:
    """The look, in the words of each backend."""
    # Importing a backend registers it; options of one that is not registered are refused.
    importlib.import_module(f"holoviews.plotting.{'mpl' if backend == 'matplotlib' else backend}")
    look = _matplotlib_look(columns) if backend == "matplotlib" else _bokeh_look(columns)
    return layout.options(look, backend=backend, clone=False)


def _bokeh_look(columns: int) -> dict[str, dict[str, Any]]:
    from holoviews import dim

    size = {1: 460, 2: 380, 3: 320, 4: 240}.get(columns, 190)
    # Equal borders, or a curve and its histogram would not stand exactly one above the other.
    left, right, title, axis = 56, 8, 44, 40
    small = max(60, size // 5) + axis + 5
    frame = {
        "width": size + left + right,
        "xlim": _LIMITS,
        "xticks": _TICKS,
        "toolbar": None,
        "fontsize": _bokeh_sizes("9.5pt"),
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
    return {
        **_bokeh_curves(columns),
        **_bokeh_series(),
        "Slope": {"color": _DIAGONAL, "line_dash": "dashed", "line_width": 1.2},
        "Curve": {"color": _LINE, "line_width": 1.2, "alpha": 0.6},
        "Segments": {"color": "color", "line_width": 3, "alpha": 0.15 + dim("share") * 0.5},
        "Points": {
            "color": "color",
            "size": 4 + dim("share") * (10 if columns <= _FEW_COLUMNS else 6),
            "line_color": "white",
            "tools": ["hover"],
            "hover_tooltips": [
                ("mean score", "@score{0.0000}"),
                ("frequency", "@outcome{0.0000}"),
                ("gap", "@gap{+0.0000}"),
                ("rows", "@rows{0,0}"),
            ],
        },
        "Overlay": {
            **frame,
            "height": size + title + axis // 2,
            "ylim": _LIMITS,
            "yticks": _TICKS,
            "backend_opts": borders,
            "xlabel": "",
            "show_legend": False,
            "show_grid": True,
        },
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
            "color": _BARS,
            "line_color": "white",
            "yticks": 3,
            "tools": ["hover"],
            "hover_tooltips": [("scores", "@left{0.0000} to @right{0.0000}"), ("rows", "@top{0,0}")],
        },
        "Layout": {"shared_axes": False, "toolbar": None},
    }


def _matplotlib_look(columns: int) -> dict[str, dict[str, Any]]:
    from holoviews import dim

    few = columns <= _FEW_COLUMNS
    frame = {
        "xlim": _LIMITS,
        "fontsize": {"title": 9.5, "labels": 8.5, "ticks": 8, "legend": 7.5 if few else 6.5},
        "show_grid": True,
    }
    return {
        **_matplotlib_curves(few=few),
        **_matplotlib_series(),
        "Slope": {"color": _DIAGONAL, "linestyle": "dashed", "linewidth": 1.0},
        "Curve": {"color": _LINE, "linewidth": 1.0, "alpha": 0.6},
        "Segments": {"color": "color", "linewidth": 2.5, "alpha": 0.5},
        "Points": {"color": "color", "s": (4 + dim("share") * (8 if few else 4)) ** 2, "edgecolors": "white"},
        "Overlay": {
            **frame,
            "ylim": _LIMITS,
            "xticks": list(_TICKS),
            "yticks": list(_TICKS),
            "xlabel": "",
            "aspect": 1,
            "show_legend": False,
        },
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
            "xticks": list(_TICKS),
            "yticks": 3,
            "color": _BARS,
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


def _bokeh_sizes(title: str) -> dict[str, str]:
    return {"title": title, "labels": "9pt", "ticks": "8pt"}


def _bokeh_curves(columns: int) -> dict[str, dict[str, Any]]:
    """Parts of reliability curves, by their group."""
    wide = {"line_width": 2.2 if columns <= _FEW_COLUMNS else 1.8, "alpha": 1.0, "tools": ["hover"]}
    numbers = [
        ("score", "@score{0.0000}"),
        ("probability", "@reliability{0.0000}"),
        ("gap", "@gap{+0.0000}"),
        ("density", "@density{0.000}"),
    ]
    band = ("band", "@reliability_low{0.0000} to @reliability_high{0.0000}")
    line = {**wide, "hover_tooltips": numbers}
    banded = {**wide, "hover_tooltips": [*numbers[:2], band, *numbers[2:]]}
    return {
        "Area.Simultaneous": {"color": _BAND, "fill_alpha": 0.12, "line_width": 0},
        "Area.Pointwise": {"color": _BAND, "fill_alpha": 0.25, "line_width": 0},
        "Area.Over": {"color": OVER, "fill_alpha": 0.15, "line_width": 0},
        "Area.Under": {"color": UNDER, "fill_alpha": 0.15, "line_width": 0},
        "Curve.Over": {"color": OVER, **line},
        "Curve.Under": {"color": UNDER, **line},
        "Curve.Over_with_band": {"color": OVER, **banded},
        "Curve.Under_with_band": {"color": UNDER, **banded},
        "Curve.Median": {"color": _MEDIAN, "line_width": 1.4, "line_dash": "dotted", "alpha": 1.0},
        "Area.Density": {"color": _BARS, "fill_alpha": 0.8, "line_width": 0},
        "Area.Spread": {"color": _BAND, "fill_alpha": 0.3, "line_width": 0},
        "Curve.Density": {"color": _OUTLINE, "line_width": 1.2, "alpha": 1.0},
        "Overlay.Reliability": {
            "title": "{label}",
            # The heading has two numbers, which narrow panels would cut off.
            "fontsize": _bokeh_sizes("9.5pt" if columns <= _SOME_COLUMNS else "8pt"),
            "show_legend": True,
            "legend_position": "top_left",
            "legend_opts": {
                "background_fill_alpha": 0,
                "border_line_alpha": 0,
                "label_text_font_size": "8pt",
                "glyph_height": 12,
                "glyph_width": 18,
                "spacing": 0,
                "padding": 2,
            },
        },
    }


def _matplotlib_curves(*, few: bool) -> dict[str, dict[str, Any]]:
    """Parts of reliability curves, by their group."""
    line = {"linewidth": 1.8 if few else 1.3, "alpha": 1.0}
    return {
        "Area.Simultaneous": _matplotlib_area(_BAND, 0.12),
        "Area.Pointwise": _matplotlib_area(_BAND, 0.25),
        "Area.Over": _matplotlib_area(OVER, 0.15),
        "Area.Under": _matplotlib_area(UNDER, 0.15),
        "Curve.Over": {"color": OVER, **line},
        "Curve.Under": {"color": UNDER, **line},
        "Curve.Over_with_band": {"color": OVER, **line},
        "Curve.Under_with_band": {"color": UNDER, **line},
        "Curve.Median": {"color": _MEDIAN, "linewidth": 1.1, "linestyle": "dotted", "alpha": 1.0},
        "Area.Density": _matplotlib_area(_BARS, 0.8),
        "Area.Spread": _matplotlib_area(_BAND, 0.3),
        "Curve.Density": {"color": _OUTLINE, "linewidth": 1.0, "alpha": 1.0},
        "Overlay.Reliability": {
            "title": "{label}",
            "show_legend": True,
            "legend_position": "top_left",
            "legend_opts": {"frameon": False, "handlelength": 1.6, "labelspacing": 0.3, "borderaxespad": 0.2},
        },
    }


def _bokeh_series() -> dict[str, dict[str, Any]]:
    """Parts of results that are over each other, by their number."""
    look: dict[str, dict[str, Any]] = {}
    for number, (color, dash) in enumerate(zip(SERIES, _DASHES, strict=True)):
        line = {"color": color, "line_dash": dash, "alpha": 1.0}
        look[f"Curve.Series_{number}"] = {**line, "line_width": 2.2, "tools": ["hover"]}
        look[f"Curve.Outline_{number}"] = {**line, "line_width": 1.2}
        look[f"Area.Series_{number}"] = {"color": color, "fill_alpha": 0.2, "line_width": 0}
        look[f"Scatter.Series_{number}"] = {"color": color, "size": 7, "line_color": "white", "tools": ["hover"]}
    return look


def _matplotlib_series() -> dict[str, dict[str, Any]]:
    """Parts of results that are over each other, by their number."""
    look: dict[str, dict[str, Any]] = {}
    for number, (color, dash) in enumerate(zip(SERIES, _DASHES, strict=True)):
        line = {"color": color, "linestyle": dash, "alpha": 1.0}
        look[f"Curve.Series_{number}"] = {**line, "linewidth": 1.8}
        look[f"Curve.Outline_{number}"] = {**line, "linewidth": 1.0}
        look[f"Area.Series_{number}"] = {"color": color, "facecolor": color, "alpha": 0.2, "linewidth": 0}
        look[f"Scatter.Series_{number}"] = {"color": color, "s": 36, "edgecolors": "white"}
    return look


def _matplotlib_area(color: str, alpha: float) -> dict[str, Any]:
    # HoloViews draws the default of whichever of the two colours is not given, and keeps areas out of legends.
    return {"color": color, "facecolor": color, "alpha": alpha, "linewidth": 0, "show_legend": True}
