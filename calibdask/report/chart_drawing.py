"""The curves that a profession looks at, as SVG: decision curve, belt, risk and coverage, Murphy curve."""

from collections.abc import Iterator
from itertools import islice, product

import xarray as xr

from calibdask.markup import Html
from calibdask.plot import svg
from calibdask.plot.decision_charts import BELT, KINDS, Chart, Range
from calibdask.results.document import Figure
from calibdask.results.format import slice_text

# In units of the drawing, which the page scales.
LEFT, TOP, SIDE, RIGHT, BOTTOM = 52.0, 8.0, 270.0, 12.0, 36.0
MOST_PANELS = 6
_MOST_TICKS = 6
_WIDEST = "band", "ends"
_DASHES = "dashed", "dotted"


def chart_figures(dataset: xr.Dataset, name: str) -> Iterator[Figure]:
    """A figure of each such curve of a result; of many classes, the first six."""
    for kind in KINDS:
        for metric in kind.metrics(dataset):
            dims = kind.dims(dataset, metric)
            for position in islice(product(*(range(dataset.sizes[dim]) for dim in dims)), MOST_PANELS):
                at = dict(zip(dims, position, strict=True))
                labels = (f"{dim} {slice_text(dataset[dim].values[i])}" for dim, i in at.items())
                title = ", ".join((f"{name}: {kind.name.lower()}", *labels))
                chart = kind.chart(dataset, metric, at)
                height = SIDE if kind is BELT else 0.7 * SIDE
                yield Figure(chart_picture(chart, title, height), f"{title}; {_reading(chart)}")


def chart_picture(chart: Chart, title: str, height: float) -> Html:
    """Bands, lines of reference and the line, cut off at the ends of the axes."""
    (left, right), (low, high) = chart.reach_x, chart.reach_y
    along, up = svg.scale(left, right, 0, SIDE), svg.scale(low, high, height, 0)
    x = along(chart.x)
    widths = _WIDEST[-len(chart.bands) :] if chart.bands else ()
    inside = [
        *(svg.between(x, up(band.low), up(band.high), wide) for band, wide in zip(chart.bands, widths, strict=True)),
        *(
            svg.polyline(x, up(line.y), f"reference {dash}")
            for line, dash in zip(chart.references, _DASHES, strict=False)
        ),
        svg.polyline(x, up(chart.line.y), "curve main"),
    ]
    parts = [
        *chart_axes(chart.reach_x, chart.reach_y, chart.across, chart.upward, height),
        svg.window(LEFT, TOP, SIDE, height, inside),
    ]
    return svg.picture("picture", LEFT + SIDE + RIGHT, TOP + height + BOTTOM, parts, title)


def chart_axes(reach_x: Range, reach_y: Range, across: str, upward: str, height: float) -> Iterator[Html]:
    """Grid, ticks and names of the axes."""
    foot = TOP + height
    along = svg.scale(*reach_x, LEFT, LEFT + SIDE)
    up = svg.scale(*reach_y, foot, TOP)
    for tick in svg.nice_ticks(*reach_x, _MOST_TICKS):
        yield svg.line(along(tick), TOP, along(tick), foot, "grid")
        yield svg.text(along(tick), foot + 15, f"{tick:g}", "middle")
    for tick in svg.nice_ticks(*reach_y, _MOST_TICKS):
        yield svg.line(LEFT, up(tick), LEFT + SIDE, up(tick), "grid")
        yield svg.text(LEFT - 6, up(tick) + 4, f"{tick:g}".replace("-", "−"), "end")
    yield svg.text(LEFT + SIDE / 2, foot + 32, across, "middle", "fine")
    yield svg.upward(9, TOP + height / 2, upward)


def _reading(chart: Chart) -> str:
    """Explanation of the lines of a chart."""
    lines = [f"solid: {chart.line.name}"]
    lines += [f"{dash}: {line.name}" for dash, line in zip(_DASHES, chart.references, strict=False)]
    if chart.bands:
        lines.append(f"shaded: {', '.join(band.name for band in chart.bands)}")
    return "; ".join(filter(None, (chart.numbers, *lines)))
