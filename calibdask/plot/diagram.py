"""The reliability diagram."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from calibdask.plot.look import OVER, UNDER
from calibdask.plot.panels import Place, arranged, headed, panels, prefixes_of

__all__ = ["reliability_diagram"]


@dataclass(frozen=True)
class _Panel:
    """One curve: the bins that hold rows."""

    title: str
    score: np.ndarray
    outcome: np.ndarray
    count: np.ndarray
    lower: np.ndarray
    upper: np.ndarray


def reliability_diagram(dataset: xr.Dataset, *, title: str = "") -> Any:
    """Reliability diagram: frequency of the outcome against the mean score by bin, rows by bin beneath.

    Points below the diagonal (orange) promise more than they keep, points above (blue) less; the stick between is the
    gap. Bins with more rows have larger points and stronger sticks. The calibration error in the heading is that of the
    bins shown: the mean of the gaps, weighted by rows.

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
    diagram = _plain(dataset)
    drawn = [_panel(heading, one, title) for heading, one in panels(diagram, "outcome", "A reliability diagram")]
    places = [Place(i, len(drawn)) for i in range(len(drawn))]
    return arranged([(_curve(*each), _histogram(*each)) for each in zip(drawn, places, strict=True)])


def _plain(dataset: xr.Dataset) -> xr.Dataset:
    """The variables of the one diagram in a dataset, with plain names."""
    names = ["outcome", "score", "count", "weight", "lower", "upper"]
    prefixes = prefixes_of(dataset, names)
    if len(prefixes) != 1:
        raise ValueError(
            f"A reliability diagram expects a dataset with {', '.join(names)} of one cd.ReliabilityDiagram, "
            f"got {len(prefixes)} diagrams among {', '.join(map(str, dataset.data_vars))}."
        )
    prefix = prefixes[0]
    return dataset[[prefix + name for name in names]].rename({prefix + name: name for name in names if prefix})


def _panel(heading: str, one: xr.Dataset, title: str) -> _Panel:
    """The bins that hold rows, and their calibration error in the heading."""
    filled = one["count"].values > 0
    values = {name: np.asarray(one[name].values, np.float64)[filled] for name in ("score", "outcome", "count")}
    weight = one["weight"].values[filled]
    gaps = np.abs(values["outcome"] - values["score"])
    error = float((weight * gaps).sum() / weight.sum()) if weight.sum() > 0 else np.nan
    return _Panel(
        title=headed(title, heading, "no rows" if np.isnan(error) else f"ECE {error:.4f}"),
        lower=one["lower"].values[filled],
        upper=one["upper"].values[filled],
        **values,
    )


def _curve(panel: _Panel, place: Place) -> Any:
    """Diagonal, gaps and points."""
    import holoviews as hv

    gap = panel.outcome - panel.score
    color = np.where(gap < 0, OVER, UNDER)
    share = np.sqrt(panel.count / panel.count.max()) if panel.count.size else panel.count
    x, y = hv.Dimension("score", label="mean score"), place.upward("outcome", "frequency of the outcome")
    sticks = (panel.score, panel.score, panel.score, panel.outcome, color, share)
    points = (panel.score, panel.outcome, gap, panel.count, share, color)
    overlay = (
        hv.Slope(1, 0, kdims=[x, y])
        * hv.Curve((panel.score, panel.outcome), x, y)
        * hv.Segments(sticks, [x, y, "x1", "y1"], ["color", "share"])
        * hv.Points(points, [x, y], ["gap", "rows", "share", "color"])
    )
    return overlay.relabel(panel.title)


def _histogram(panel: _Panel, place: Place) -> Any:
    """Rows by bin."""
    import holoviews as hv

    bars = (panel.lower, np.zeros_like(panel.count), panel.upper, panel.count)
    x, y = place.across("left", "score"), place.upward("bottom", "rows")
    return hv.Rectangles(bars, [x, y, "right", "top"])
