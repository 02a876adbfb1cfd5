"""The reliability diagram."""

from typing import Any

import numpy as np
import xarray as xr

from calibdask.plot.panels import Panel, arrange, panels
from calibdask.plot.style import FREQUENCY, MEAN_SCORE, OVER, ROWS, SCORE, UNDER, number_text
from calibdask.results.reliability import Bins, only_metric


def reliability_diagram(dataset: xr.Dataset, *, title: str = "") -> Any:
    """Reliability diagram: frequency of the outcome against the mean score by bin, rows by bin beneath.

    In bins below the diagonal (orange) scores are too high, above it (blue) too low; the stick between is the gap. Bins
    with more rows have larger points and stronger sticks. The calibration error in the heading is that of the bins
    shown: the mean distance from the diagonal, weighted by rows.

    Parameters
    ----------
    dataset : xarray.Dataset
        What `calibdask.reliability_diagram` returns, or the result of `calibdask.evaluate` with one
        `calibdask.ReliabilityDiagram`. Classes, slices and other dimensions get a panel each.
    title : str, optional
        Heading of a single panel, or first words of the heading of each panel.

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
    metric = only_metric(dataset, "diagram")
    return arrange([(_points(panel, title), _histogram(panel)) for panel in panels(dataset, Bins, metric)])


def _points(panel: Panel[Bins], title: str) -> Any:
    """Diagonal, gaps and points."""
    import holoviews as hv

    bins = panel.shown
    color = np.where(bins.gap < 0, OVER, UNDER)
    size = np.sqrt(bins.count / (bins.count.max(initial=0.0) or 1.0))
    x, y = hv.Dimension("score", label=MEAN_SCORE), panel.upward("outcome", FREQUENCY)
    sticks = (bins.score, bins.score, bins.score, bins.outcome, color, size)
    points = (bins.score, bins.outcome, bins.gap, bins.count, size, color)
    overlay = (
        hv.Slope(1, 0, kdims=[x, y])
        * hv.Curve((bins.score, bins.outcome), x, y)
        * hv.Segments(sticks, [x, y, "x1", "y1"], ["color", "share"])
        * hv.Points(points, [x, y], ["gap", "rows", "share", "color"])
    )
    numbers = "no rows" if np.isnan(bins.error) else f"ECE {number_text(bins.error)}"
    return overlay.relabel(panel.title(title, numbers=numbers))


def _histogram(panel: Panel[Bins]) -> Any:
    """Rows by bin."""
    import holoviews as hv

    bins = panel.shown
    bars = (bins.lower, np.zeros_like(bins.count), bins.upper, bins.count)
    x, y = panel.across("left", SCORE), panel.upward("bottom", ROWS)
    return hv.Rectangles(bars, [x, y, "right", "top"])
