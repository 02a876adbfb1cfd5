"""Several reliability curves or diagrams over each other."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from calibdask.extras import check_extra
from calibdask.plot.frame import Frame, interval_name, notes
from calibdask.plot.framing import framed, named_score
from calibdask.plot.panels import Panel, arrange, panels
from calibdask.plot.style import DENSITY, PROBABILITY, SCORE, SERIES, SHARE
from calibdask.results.reliability import BinnedReliability, Kind, SmoothReliability, reliability_variables
from calibdask.safe_text import listed, visible

Points = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class _Series:
    """One result in a panel: a line with intervals, optional points, and an area below."""

    panel: Panel[Any]
    line: Points
    interval: Points | None
    beneath: Points
    has_points: bool = False

    @property
    def shown(self) -> SmoothReliability | BinnedReliability:
        """The curve or the bins."""
        shown: SmoothReliability | BinnedReliability = self.panel.shown
        return shown


def overlaid(results: Mapping[str, xr.Dataset], *, title: str = "") -> Any:
    """Reliability curves, or diagrams, of several results in one plot, with the densities of the scores below.

    Each result has one colour, with ``ci`` also its pointwise band, or intervals. Below diagrams is the share of rows
    by bin.

    Parameters
    ----------
    results : mapping from str to xarray.Dataset
        Two to five results, by the names in the legend: of `calibdask.reliability_curve`, or of `calibdask.evaluate`
        with one `calibdask.ReliabilityCurve`; or all of them diagrams. Classes, slices and other dimensions, which must
        be the same, get a panel each.
    title : str, optional
        Prefix of the heading of each panel.

    Returns
    -------
    holoviews.Layout
        For `save`, a notebook or further composition.

    Raises
    ------
    ValueError
        If there is only one result, or more than five; if they hold neither one curve each nor one diagram each; or if
        their panels differ.

    Examples
    --------
    >>> import calibdask as cd
    >>> from calibdask.plot import overlaid
    >>> labels, scores = [0, 1, 1, 1], [0.2, 0.4, 0.6, 0.8]
    >>> curves = {h: cd.reliability_curve(labels, scores, bandwidth=h) for h in (0.1, 0.3)}
    >>> len(overlaid({f"bandwidth {h}": curve for h, curve in curves.items()}))
    2
    """
    if not 2 <= len(results) <= len(SERIES):
        raise ValueError(f"overlaid expects two to {len(SERIES)} results, got {len(results)}.")
    kinds: tuple[Kind, ...] = ("curve", "diagram")
    for kind in kinds:
        metrics = [list(reliability_variables(result, kind)) for result in results.values()]
        if all(len(names) == 1 for names in metrics):
            pairs = zip(results.values(), metrics, strict=True)
            series = [_series(result, kind, metric) for result, (metric,) in pairs]
            return _arranged(list(results), series, title, DENSITY if kind == "curve" else SHARE)
    raise ValueError(
        "overlaid expects results with one cd.ReliabilityCurve each, or with one cd.ReliabilityDiagram each, got "
        + "; ".join(f"{visible(name)}: {listed(result.data_vars)}" for name, result in results.items())
    )


def _series(result: xr.Dataset, kind: Kind, metric: str) -> list[_Series]:
    """The curve, or the bins, of each panel."""
    if kind == "curve":
        return [_of_curve(panel) for panel in panels(result, SmoothReliability, metric)]
    return [_of_bins(panel) for panel in panels(result, BinnedReliability, metric)]


def _of_curve(panel: Panel[SmoothReliability]) -> _Series:
    curve = panel.shown
    band = (curve.low, curve.high) if curve.has_interval else None
    return _Series(panel, (curve.score, curve.reliability), band, (curve.score, curve.density))


def _of_bins(panel: Panel[BinnedReliability]) -> _Series:
    bins = panel.shown
    interval = (bins.low, bins.high) if bins.has_interval else None
    beneath = _outline(bins.lower, bins.upper, bins.share)
    return _Series(panel, (bins.score, bins.outcome), interval, beneath, has_points=True)


def _outline(lower: np.ndarray, upper: np.ndarray, share: np.ndarray) -> Points:
    """Both ends of each bar at its height, and on the ground: bars with one outline."""
    edges = np.stack([lower, lower, upper, upper], -1).ravel()
    return edges, np.stack([0 * share, share, share, 0 * share], -1).ravel()


def _arranged(names: list[str], series: Sequence[list[_Series]], title: str, beneath: str) -> Any:
    check_extra("plot")
    headings = [[one.panel.heading for one in result] for result in series]
    if any(others != headings[0] for others in headings):
        words = "; ".join(
            f"{visible(name)}: {listed(own) or 'none'}" for name, own in zip(names, headings, strict=True)
        )
        raise ValueError(f"overlaid expects results with the same panels, got {words}.")
    shown = list(zip(*series, strict=True))
    return arrange([(_above(names, panel, title), _beneath(names, panel, beneath)) for panel in shown])


def _above(names: list[str], series: Sequence[_Series], title: str) -> Any:
    """The diagonal, bands, and over them the lines."""
    import holoviews as hv

    panel, frame = series[0].panel, Frame.of([one.shown for one in series])
    x, y = framed(hv.Dimension("score", label=SCORE), panel.upward("reliability", PROBABILITY), frame)
    intervals, lines = [], []
    for number, (name, one) in enumerate(zip(names, series, strict=True)):
        group = f"Series {number}"
        across, upward = frame.x(one.line[0]), frame.y(one.line[1])
        on = np.isfinite(across)
        if one.interval is not None:
            low, high = map(frame.y, one.interval)
            kind = interval_name(one.shown) * (panel.number == 0 and number == 0)
            if one.has_points:
                ends = tuple(of[on] for of in (across, low, across, high))
                intervals.append(hv.Segments(ends, [x, y, "x1", "y1"], group=group, label=kind))
            else:
                intervals.append(hv.Area((across[on], high[on], low[on]), x, [y, "low"], group=group))
        lines.append(hv.Curve((across[on], upward[on]), x, y, group=group, label=name if panel.number == 0 else ""))
        if one.has_points:
            lines.append(hv.Scatter((across[on], upward[on]), x, y, group=group))
    parts = [hv.Slope(1, 0, kdims=[x, y]), *intervals, *lines]
    return hv.Overlay(parts, group="Reliability").relabel(panel.title(title))


def _beneath(names: list[str], series: Sequence[_Series], words: str) -> Any:
    import holoviews as hv

    panel, frame = series[0].panel, Frame.of([one.shown for one in series])
    label, y = SCORE, panel.upward("density", words)
    if any(one.shown.drawn is not None for one in series):
        caption = notes({name: one.shown for name, one in zip(names, series, strict=True)})
        label = named_score(frame, caption)
    x, _ = framed(panel.across("score", label), y, frame)
    parts: list[Any] = []
    for number, one in enumerate(series):
        across, upward = one.beneath
        if one.shown.drawn is not None:
            borders, rows = frame.bars(one.shown.drawn)
            across, upward = _outline(borders[:-1], borders[1:], rows / max(rows.sum(), 1.0))
        parts.append(hv.Area((across, upward), x, y, group=f"Series {number}"))
        parts.append(hv.Curve((across, upward), x, y, group=f"Outline {number}"))
    return hv.Overlay(parts, group="Density")
