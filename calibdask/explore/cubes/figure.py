"""The main figure of the page of a cube, and the histogram beneath it."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from calibdask.explore.cubes.picture import Picture, PictureLine, PicturePanel, label_text, marks, ticks
from calibdask.markup import in_figure
from calibdask.plot.style import PALETTE

# A grey in place of black, which is not seen on a dark page.
COLORS = (*PALETTE[:-1], "#757b82")
# Lines beyond the colours have the same again, dashed.
DASHES = ("solid", "dashed", "dotted", "dotdash")
_MARKERS = ("circle", "square", "triangle", "diamond")
_TOOLS = ["pan", "box_zoom", "wheel_zoom", "reset"]
_SIZES = {"title": "10pt", "labels": "9.5pt", "ticks": "9pt", "legend": "9pt"}
_HEIGHT, _LEGEND_LINE = 360, 19
# Names along the x axis are rotated if they have more letters than this.
_LETTERS = 40
_MARK = "#B00020"


def drawn(picture: Picture, panel: PicturePanel, *, same: bool, ring: Any = None) -> Any:
    """One panel: bands, lines and points, with a legend beneath that mutes lines.

    Parameters
    ----------
    picture : Picture
    panel : Panel
        One of it.
    same : bool
        Whether its y axis is that of all panels.
    ring : bokeh.models.ColumnDataSource, optional
        Columns ``x`` and ``y``: points that are marked, also later on.

    Returns
    -------
    holoviews.Overlay
    """
    import holoviews as hv
    import holoviews.plotting.bokeh  # registers its options

    x, y = hv.Dimension(picture.x_name or "all"), hv.Dimension("value", label=picture.y_name)
    limits = picture.limits(None if same else panel)
    parts: list[Any] = []
    for number, line in enumerate(panel.lines):
        positions = picture.positions(number, len(panel.lines))
        parts += _line_parts(picture, line, number, positions, (x, y), limits[0])
    overlay = hv.Overlay(parts)
    hooks: list[Callable[[Any, Any], None]] = []
    if picture.is_numeric:
        hooks.append(lambda plot, _: _joined(plot.state))
    if ring is not None:
        hooks.append(lambda plot, _: _marked(plot.state, ring))
    return overlay.opts(**_frame(picture, panel, limits), hooks=hooks, backend="bokeh")


def _joined(figure: Any) -> None:
    """Join the points of each line: as elements of HoloViews, strokes would take as long again as all the rest."""
    from bokeh.models import Scatter

    renderers = figure.renderers
    points = [points for points in renderers if isinstance(points.glyph, Scatter) and "line" in points.data_source.data]
    items = [item for legend in figure.legend for item in legend.items]
    strokes = []
    for number, scatter in enumerate(points):
        dash = DASHES[number // len(COLORS) % len(DASHES)]
        look = {"line_color": scatter.glyph.fill_color, "line_dash": dash, "line_width": 2, "muted_alpha": 0.08}
        strokes.append(figure.line(scatter.glyph.x, scatter.glyph.y, source=scatter.data_source, **look))
        for item in items:
            if scatter in item.renderers:
                item.renderers = [strokes[-1], *item.renderers]
    # Beneath the points.
    figure.renderers = [*strokes, *(renderer for renderer in figure.renderers if renderer not in strokes)]


def _marked(figure: Any, ring: Any) -> None:
    figure.scatter("x", "y", source=ring, size=15, fill_alpha=0, line_color=_MARK, line_width=2)


def _line_parts(
    picture: Picture, line: PictureLine, number: int, at: list[Any], dims: tuple[Any, Any], floor: float
) -> list[Any]:
    """Band, stroke and points of one line; on a logarithmic axis bands that are not positive reach its ``floor``."""
    import holoviews as hv

    x, y = dims
    value = np.where(line.value > 0, line.value, np.nan) if picture.logy else line.value
    color, name = COLORS[number % len(COLORS)], line.label
    parts: list[Any] = []
    if line.low is not None and line.high is not None:
        low = np.where(line.low > 0, line.low, np.where(line.high > 0, floor, np.nan)) if picture.logy else line.low
        if picture.is_numeric:
            band = hv.Area((at, low, line.high), x, [y, "above"], label=name)
            parts.append(band.opts(color=color, fill_alpha=0.13, line_width=0, muted_fill_alpha=0.02))
        else:
            segments = hv.Segments((at, low, at, line.high), [x, y, "x1", "y1"], label=name)
            parts.append(segments.opts(color=color, line_width=1.5, alpha=0.5, muted_alpha=0.05))
    ends = [end for end in (line.low, line.high) if end is not None]
    names = ["low", "high"] if len(ends) == 2 else []
    data = (at, value, [name] * len(at), [label_text(label) for label in picture.x], *ends)
    points = hv.Scatter(data, x, [y, "line", "along", *names], label=name)
    tooltips = [("", "@line"), (picture.x_name, "@along"), (picture.y_name, "@value{0.00000}")]
    tooltips += [("from", "@low{0.00000}"), ("to", "@high{0.00000}")] if names else []
    look = {"color": color, "marker": _MARKERS[number % len(_MARKERS)], "size": 6 if picture.is_numeric else 9}
    parts.append(points.opts(**look, line_color="white", tools=["hover"], hover_tooltips=tooltips, muted_alpha=0.05))
    return parts


def _frame(picture: Picture, panel: PicturePanel, limits: tuple[float, float]) -> dict[str, Any]:
    """Axes, title and legend."""
    longest = max((len(line.label) for line in panel.lines), default=1)
    # So that it fits a narrow window: a letter takes about 7 pixels.
    columns = max(1, min(4, 250 // (35 + 7 * longest)))
    # Several panels have one legend above them.
    rows = -(-len(panel.lines) // columns) if len(panel.lines) > 1 and len(picture.panels) == 1 else 0
    options: dict[str, Any] = {
        # HoloViews fills in a title like a format string.
        "title": in_figure(panel.title).replace("{", "{{").replace("}", "}}"),
        "logx": picture.logx,
        "logy": picture.logy,
        "ylim": limits,
        "responsive": True,
        "height": _HEIGHT + rows * _LEGEND_LINE + 24,
        "show_grid": True,
        "show_legend": rows > 0,
        "legend_position": "bottom",
        "legend_cols": columns,
        "legend_opts": {
            "click_policy": "mute",
            "label_text_font_size": "9pt",
            "border_line_alpha": 0,
            "background_fill_alpha": 0,
            "spacing": 4,
            "padding": 10,
            # Bokeh counts a margin twice above the legend, and clips as much of its end.
            "margin": 0,
            "glyph_height": 14,
            "label_height": 14,
        },
        "fontsize": _SIZES,
        "toolbar": "above",
        "default_tools": _TOOLS,
        "active_tools": [],
        "backend_opts": {
            "plot.outline_line_color": None,
            "plot.toolbar.autohide": True,
            "plot.toolbar.logo": None,
            # Or the page could not be scrolled over a figure.
            "plot.toolbar.active_scroll": None,
            "plot.toolbar.active_drag": None,
            **{f"{axis}axis.axis_label_text_font_style": "normal" for axis in "xy"},
        },
        "xlabel": in_figure(picture.x_name),
        "ylabel": in_figure(picture.y_name),
    }
    if picture.logy:
        options["yticks"] = [(tick, f"{tick:g}") for tick in ticks(*limits)]
    if not picture.is_numeric:
        names = [in_figure(label_text(label)) for label in picture.x]
        rotation = 35 if sum(map(len, names)) > _LETTERS else 0
        return {**options, "xticks": [*enumerate(names)], "xlim": (-0.5, len(names) - 0.5), "xrotation": rotation}
    at = marks(picture.x, log=picture.logx)
    ends = np.asarray(picture.x)
    if ends.dtype.kind != "M":
        low, high = float(ends.min()), float(ends.max())
        room = 0.03 * (high - low) or 1.0
        options["xlim"] = (low / 1.07, high * 1.07) if picture.logx else (low - room, high + room)
    return {**options, "xticks": at} if at else options


def histogram(values: np.ndarray, name: str, lines: Sequence[tuple[str, float]] = ()) -> Any:
    """A histogram of values, with marks.

    Parameters
    ----------
    values : array
        Without NaN.
    name : str
        What they are.
    lines : sequence of (name, value)
        Marks.

    Returns
    -------
    holoviews.Overlay
    """
    import holoviews as hv
    import holoviews.plotting.bokeh  # registers its options

    counts, edges = np.histogram(values, bins=int(np.clip(2 * np.cbrt(values.size), 8, 60)))
    x, y = hv.Dimension("values", label=name), hv.Dimension("count", label="values")
    bars = hv.Histogram((edges, counts), kdims=[x], vdims=[y]).opts(
        color="#9fb3c8",
        line_color="white",
        tools=["hover"],
        hover_tooltips=[("at", "@values{0.0000}"), ("values", "@count")],
    )
    top = float(counts.max()) * 1.08 or 1.0
    strokes = [
        hv.Curve([(at, 0.0), (at, top)], x, y, label=f"{mark} {at:.4g}").opts(
            color=_MARK, line_dash=dash, line_width=1.6
        )
        for (mark, at), dash in zip(lines, ("solid", "dashed", "dotted", "dotdash"), strict=False)
    ]
    return hv.Overlay([bars, *strokes]).opts(
        responsive=True,
        height=260,
        ylim=(0, top),
        xlabel=in_figure(name),
        ylabel="values",
        show_legend=bool(strokes),
        legend_position="top_right",
        legend_opts={"background_fill_alpha": 0.7, "border_line_alpha": 0, "label_text_font_size": "9pt"},
        fontsize=_SIZES,
        toolbar=None,
        backend_opts={"plot.outline_line_color": None},
        backend="bokeh",
    )
