"""Several reliability curves or diagrams over each other."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from calibdask.plot.look import SERIES
from calibdask.plot.panels import Place, arranged, panels, prefixes_of

__all__ = ["overlaid"]

_CURVE, _DIAGRAM = ("reliability", "score", "density"), ("outcome", "score", "count", "weight", "lower", "upper")


@dataclass(frozen=True)
class _Line:
    """What is drawn of one result in one panel: a line, its band or its points if it has such, and an area beneath."""

    heading: str
    x: np.ndarray
    y: np.ndarray
    band: tuple[np.ndarray, np.ndarray] | None
    beneath: tuple[np.ndarray, np.ndarray]
    has_points: bool = False


def overlaid(results: Mapping[str, xr.Dataset], *, title: str = "") -> Any:
    """Reliability curves, or diagrams, of several results over each other, with the densities of the scores beneath.

    Each result has one colour, with ``ci`` also its pointwise band. Beneath diagrams is the share of the rows by bin.

    Parameters
    ----------
    results : mapping from str to xarray.Dataset
        Two to five results, by the names in the legend: of `calibdask.reliability_curve`, or of `calibdask.evaluate`
        with one `calibdask.ReliabilityCurve`; or all of them diagrams. Classes, slices and other dimensions, which must
        be the same, get a panel each.
    title : str, optional
        First words of the heading of each panel.

    Returns
    -------
    holoviews.Layout
        For `save`, a notebook or further composition.

    Raises
    ------
    ValueError
        If there is one result only, or more than five; if they hold neither one curve each nor one diagram each; or if
        their panels are not the same.

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
    for needed, lines_of in ((_CURVE, _curve_lines), (_DIAGRAM, _diagram_lines)):
        prefixes = [prefixes_of(result, needed) for result in results.values()]
        if all(len(each) == 1 for each in prefixes):
            drawn = [lines_of(result, each[0]) for result, each in zip(results.values(), prefixes, strict=True)]
            return _arranged(list(results), drawn, title, "density" if needed == _CURVE else "share")
    raise ValueError(
        "overlaid expects results with one cd.ReliabilityCurve each, or with one cd.ReliabilityDiagram each, got "
        + "; ".join(f"{name}: {', '.join(map(str, result.data_vars))}" for name, result in results.items())
    )


def _curve_lines(result: xr.Dataset, prefix: str) -> list[_Line]:
    """The curve of each panel."""
    ends = [f"{prefix}reliability_{end}" for end in ("low", "high")]
    banded = all(end in result for end in ends)
    lines = []
    for heading, one in panels(result, f"{prefix}reliability", "A plot of reliability curves"):
        score = one[f"{prefix}score"].values
        band = (one[ends[0]].values, one[ends[1]].values) if banded else None
        density = one[f"{prefix}density"].values
        lines.append(_Line(heading, score, one[f"{prefix}reliability"].values, band, (score, density)))
    return lines


def _diagram_lines(result: xr.Dataset, prefix: str) -> list[_Line]:
    """The bins of each panel that hold rows."""
    lines = []
    for heading, one in panels(result, f"{prefix}outcome", "A reliability diagram"):
        filled = one[f"{prefix}count"].values > 0
        values = {name: one[f"{prefix}{name}"].values[filled] for name in _DIAGRAM}
        share = values["weight"] / max(values["weight"].sum(), np.finfo(float).tiny)
        # Both ends of a bin at its height, and on the ground: bars with one outline.
        edges = np.stack([values["lower"], values["lower"], values["upper"], values["upper"]], -1).ravel()
        heights = np.stack([0 * share, share, share, 0 * share], -1).ravel()
        lines.append(_Line(heading, values["score"], values["outcome"], None, (edges, heights), has_points=True))
    return lines


def _arranged(names: list[str], drawn: Sequence[list[_Line]], title: str, beneath: str) -> Any:
    headings = [[line.heading for line in lines] for lines in drawn]
    if any(each != headings[0] for each in headings):
        words = "; ".join(f"{name}: {', '.join(each) or 'none'}" for name, each in zip(names, headings, strict=True))
        raise ValueError(f"overlaid expects results with the same panels, got {words}.")
    pairs = []
    for number, lines in enumerate(zip(*drawn, strict=True)):
        place = Place(number, len(headings[0]))
        heading = " · ".join(part for part in (title, lines[0].heading) if part)
        pairs.append((_above(names, lines, place, heading), _beneath(lines, place, beneath)))
    return arranged(pairs)


def _above(names: list[str], lines: Sequence[_Line], place: Place, heading: str) -> Any:
    """The diagonal, bands, and over them the lines."""
    import holoviews as hv

    x, y = hv.Dimension("score", label="score"), place.upward("reliability", "probability of the outcome")
    bands, curves = [], []
    for number, (name, line) in enumerate(zip(names, lines, strict=True)):
        if line.band is not None:
            low, high = line.band
            bands.append(hv.Area((line.x, high, low), x, [y, "low"], group=f"Series {number}"))
        label = name if place.number == 0 else ""
        curves.append(hv.Curve((line.x, line.y), x, y, group=f"Series {number}", label=label))
        if line.has_points:
            curves.append(hv.Scatter((line.x, line.y), x, y, group=f"Series {number}"))
    return hv.Overlay([hv.Slope(1, 0, kdims=[x, y]), *bands, *curves], group="Reliability").relabel(heading)


def _beneath(lines: Sequence[_Line], place: Place, words: str) -> Any:
    import holoviews as hv

    x, y = place.across("score", "score"), place.upward("density", words)
    parts: list[Any] = []
    for number, line in enumerate(lines):
        parts.append(hv.Area(line.beneath, x, y, group=f"Series {number}"))
        parts.append(hv.Curve(line.beneath, x, y, group=f"Outline {number}"))
    return hv.Overlay(parts, group="Density")
