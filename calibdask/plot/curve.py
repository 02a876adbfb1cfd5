"""The reliability curve."""

from typing import Any

import numpy as np
import xarray as xr

from calibdask.extras import check_extra
from calibdask.plot.frame import Frame, interval_name
from calibdask.plot.framing import framed, rows_of
from calibdask.plot.naming import axes_in
from calibdask.plot.panels import Panel, arrange, panels
from calibdask.plot.style import DENSITY, FREQUENCY, PROBABILITY, SCORE, number_text
from calibdask.results.reliability import SmoothReliability, only_metric


def reliability_curve(dataset: xr.Dataset, *, title: str = "") -> Any:
    """Reliability curve: probability of the outcome given the score, with its bands, the density of scores beneath.

    Where the curve is below the diagonal (orange) scores are too high, above it (blue) too low. The line breaks where
    there are no scores. The calibration error in the heading is computed from the curve shown: the mean distance from
    the diagonal, weighted by the density; ``h`` is the bandwidth.

    With ``ci`` and a `calibdask.ReliabilityCurve` the dark band is pointwise, the light one simultaneous for the whole
    curve, and the dotted line is the median of the replicates. Unless the curve was computed with ``band="plain"``,
    they are corrected for the bias of smoothing; the curve itself is not, and may lie outside them near its ends. The
    curve of a `calibdask.ReliabilityDisplay` has a pointwise confidence band, and an axis that shows skewed scores.

    Parameters
    ----------
    dataset : xarray.Dataset
        A result of `calibdask.reliability_curve`, or of `calibdask.evaluate` with one
        `calibdask.ReliabilityCurve`. Classes, slices and other dimensions get a panel each.
    title : str, optional
        Heading of a single panel, or prefix of the heading of each panel.

    Returns
    -------
    holoviews.Layout
        For `save`, a notebook or further composition.

    Raises
    ------
    ValueError
        If the dataset holds no reliability curve, several metrics with curves, or more than 60 curves.

    Examples
    --------
    >>> import calibdask as cd
    >>> from calibdask.plot import reliability_curve
    >>> curve = cd.reliability_curve([0, 1, 1, 1], [0.2, 0.4, 0.6, 0.8], bandwidth=0.1)
    >>> len(reliability_curve(curve, title="Four rows"))
    2
    """
    check_extra("plot")
    metric = only_metric(dataset, "curve")
    shown = panels(dataset, SmoothReliability, metric)
    # One legend serves all panels.
    first = next((panel.number for panel in shown if panel.shown.has_interval), 0)
    across, upward = axes_in(dataset, "curve", metric)
    names = across, PROBABILITY if upward == FREQUENCY else upward
    return arrange([(_lines(panel, title, names, legend=panel.number == first), _beneath(panel)) for panel in shown])


def _lines(panel: Panel[SmoothReliability], title: str, names: tuple[str, str], *, legend: bool) -> Any:
    """Bands, diagonal, distance from it and the curve in the colours of its sides."""
    import holoviews as hv

    curve, frame = panel.shown, Frame.of([panel.shown])
    x, y = framed(hv.Dimension("score", label=names[0]), panel.upward("reliability", names[1]), frame)
    # Grey bands beside orange tints look blue.
    tints = [] if curve.has_interval else _tints(curve, frame, x, y)
    bands = _bands(curve, frame, x, y, legend=legend)
    lines = [_line(half, side, frame, x, y) for side, half in curve.split().items()]
    overlay = hv.Overlay([hv.Slope(1, 0, kdims=[x, y]), *tints, *bands, *lines], group="Reliability")
    return overlay.relabel(panel.title(title, numbers=_numbers(curve)))


def _numbers(curve: SmoothReliability) -> str:
    """Calibration error and bandwidth, if known."""
    error = "" if curve.drawn is not None or np.isnan(curve.error) else f"density ECE {number_text(curve.error)}"
    bandwidth = f"h {curve.bandwidth:.3g}" if np.isfinite(curve.bandwidth) else ""
    return " · ".join(filter(None, (error if curve.has_rows else "no rows", bandwidth)))


def _bands(curve: SmoothReliability, frame: Frame, x: Any, y: Any, *, legend: bool) -> list[Any]:
    """Bands and median of the replicates, if any."""
    import holoviews as hv

    level = "" if curve.level is None else f"{100 * curve.level:g} % "
    # Of a curve for pictures there is one kind of band.
    alone = interval_name(curve) if curve.drawn is not None else ""
    bands = {"simultaneous": (curve.band_low, curve.band_high), "pointwise": (curve.low, curve.high)}
    groups = {"simultaneous": "Simultaneous", "pointwise": "Confidence" if alone else "Pointwise"}
    parts: list[Any] = [
        hv.Area(
            (frame.x(curve.score), frame.y(high), frame.y(low)),
            x,
            [y, "low"],
            group=groups[name],
            label=(alone or f"{level}{name}") * legend,
        )
        for name, (low, high) in bands.items()
        if np.isfinite(low).any()
    ]
    if np.isfinite(curve.median).any():
        parts.append(
            hv.Curve((frame.x(curve.score), frame.y(curve.median)), x, y, group="Median", label="median" * legend)
        )
    return parts


def _tints(curve: SmoothReliability, frame: Frame, x: Any, y: Any) -> list[Any]:
    """The distance from the diagonal."""
    import holoviews as hv

    edges = {"Over": np.minimum(curve.reliability, curve.score), "Under": np.maximum(curve.reliability, curve.score)}
    across, diagonal = frame.x(curve.score), frame.y(curve.score)
    return [hv.Area((across, frame.y(edge), diagonal), x, [y, "diagonal"], group=side) for side, edge in edges.items()]


def _line(curve: SmoothReliability, side: str, frame: Frame, x: Any, y: Any) -> Any:
    """One side of the curve, with the numbers at each of its points."""
    import holoviews as hv

    columns = {"at": curve.score, "frequency": curve.reliability, "density": curve.density}
    if curve.has_interval:
        columns |= {"reliability_low": curve.low, "reliability_high": curve.high}
    columns["gap"] = curve.gap
    group = side.capitalize() + " with band" * curve.has_interval
    places = frame.x(curve.score), frame.y(curve.reliability)
    return hv.Curve((*places, *columns.values()), x, [y, *columns], group=group)


def _beneath(panel: Panel[SmoothReliability]) -> Any:
    """The scores: rows by even part of the axis, or their density."""
    return _density(panel) if panel.shown.drawn is None else rows_of(panel)


def _density(panel: Panel[SmoothReliability]) -> Any:
    """Density of the scores."""
    import holoviews as hv

    curve = panel.shown
    x, _ = framed(panel.across("score", SCORE), panel.upward("density", DENSITY), Frame.of([curve]))
    y = panel.upward("density", DENSITY)
    parts: list[Any] = [hv.Area((curve.score, curve.density), x, y, group="Density")]
    if np.isfinite(curve.density_low).any():
        parts.append(hv.Area((curve.score, curve.density_high, curve.density_low), x, [y, "low"], group="Spread"))
    parts.append(hv.Curve((curve.score, curve.density), x, y, group="Density"))
    return hv.Overlay(parts, group="Density")
