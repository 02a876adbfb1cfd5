"""The look of pictures, in the words of each backend of HoloViews."""

import importlib
from typing import Any

__all__ = ["OVER", "UNDER", "styled"]

# Okabe and Ito's colours, told apart by colour-blind readers: promised too much, promised too little.
OVER, UNDER = "#D55E00", "#0072B2"
_LINE, _BARS, _DIAGONAL = "#8c8c8c", "#9fb3c8", "#6e6e6e"
_FEW_COLUMNS = 2
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
    frame = {
        "width": size + left + right,
        "xlim": _LIMITS,
        "xticks": _TICKS,
        "toolbar": None,
        "fontsize": {"title": "9.5pt", "labels": "9pt", "ticks": "8pt"},
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
        "Rectangles": {
            **frame,
            "height": max(60, size // 5) + axis + 5,
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
    frame = {"xlim": _LIMITS, "fontsize": {"title": 9.5, "labels": 8.5, "ticks": 8}, "show_grid": True}
    return {
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
