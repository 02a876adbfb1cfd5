"""The reliability diagram."""

from typing import Any

import numpy as np
import xarray as xr

from calibdask.extras import check_extra
from calibdask.plot.frame import Frame, interval_name
from calibdask.plot.framing import framed, rows_of
from calibdask.plot.naming import axes_in
from calibdask.plot.panels import Panel, arrange, panels
from calibdask.plot.style import OVER, UNDER, number_text
from calibdask.results.reliability import BinnedReliability, only_metric


def reliability_diagram(dataset: xr.Dataset, *, title: str = "") -> Any:
    """Reliability diagram: frequency of the outcome against the mean score by bin, rows by bin beneath.

    In bins below the diagonal (orange) scores are too high, above it (blue) too low; the vertical line is the gap. Bins
    with more rows have larger points and thicker lines. The calibration error in the heading is computed from the bins
    shown: the mean distance from the diagonal, weighted by rows. Intervals are drawn if the result has them, and named
    in the legend. Results of `calibdask.ReliabilityDisplay` have an axis adapted to skewed scores; a note below it
    counts the rows beyond.

    Parameters
    ----------
    dataset : xarray.Dataset
        A result of `calibdask.reliability_diagram`, or of `calibdask.evaluate` with one
        `calibdask.ReliabilityDiagram`. Classes, slices and other dimensions get a panel each.
    title : str, optional
        Heading of a single panel, or prefix of the heading of each panel.

    Returns
    -------
    holoviews.Layout
        For `save`, a notebook or further composition.

    Raises
    ------
    ValueError
        If the dataset holds no diagram, several, or more than 60 curves.

    Examples
    --------
    >>> import calibdask as cd
    >>> from calibdask.plot import reliability_diagram
    >>> diagram = reliability_diagram(cd.reliability_diagram([0, 1, 1, 1], [0.2, 0.4, 0.6, 0.8], bins=2))
    >>> len(diagram)
    2
    """
    check_extra("plot")
    metric = only_metric(dataset, "diagram")
    shown = panels(dataset, BinnedReliability, metric)
    # One legend serves all panels.
    first = next((panel.number for panel in shown if panel.shown.has_interval), 0)
    names = axes_in(dataset, "diagram", metric)
    return arrange([(_points(panel, title, names, legend=panel.number == first), rows_of(panel)) for panel in shown])


def _points(panel: Panel[BinnedReliability], title: str, names: tuple[str, str], *, legend: bool) -> Any:
    """Diagonal, gaps, intervals and points."""
    import holoviews as hv

    bins, frame = panel.shown, Frame.of([panel.shown])
    on = frame.inside(bins)
    x, y = framed(hv.Dimension("score", label=names[0]), panel.upward("outcome", names[1]), frame)
    across, upward, low, high = frame.x(bins.score), *map(frame.y, (bins.outcome, bins.low, bins.high))
    color = np.where(bins.gap < 0, OVER, UNDER)
    size = np.sqrt(bins.count / (bins.count.max(initial=0.0) or 1.0))
    if bins.drawn is not None and bins.drawn.equal_masses:
        size = size / 2
    diagonal = frame.y(bins.score)
    sticks = (across, diagonal, across, upward, color, size)
    points = (across, upward, bins.score, bins.outcome, bins.gap, bins.count, size, color)
    whiskers = [column[on & np.isfinite(bins.low)] for column in (across, low, across, high)]
    overlay = (
        hv.Slope(1, 0, kdims=[x, y])
        * hv.Curve((across[on], upward[on]), x, y)
        * hv.Segments(tuple(column[on] for column in sticks), [x, y, "x1", "y1"], ["color", "share"])
    )
    if whiskers[0].size:
        named = interval_name(bins) * legend
        overlay = overlay * hv.Segments(tuple(whiskers), [x, y, "x1", "y1"], group="Interval", label=named)
    columns = ["mean_score", "frequency", "gap", "rows", "share", "color"]
    overlay = overlay * hv.Points(tuple(column[on] for column in points), [x, y], columns)
    numbers = "no rows" if np.isnan(bins.error) else f"ECE {number_text(bins.error)}"
    return overlay.relabel(panel.title(title, numbers=numbers), group="Diagram")
