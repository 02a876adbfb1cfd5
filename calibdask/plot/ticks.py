"""Ticks that the dimensions of a plot ask for."""

from typing import Any

from calibdask.markup import in_figure
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
