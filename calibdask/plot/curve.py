"""The reliability curve."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from calibdask.plot.panels import Place, arranged, headed, panels, prefixes_of

__all__ = ["reliability_curve", "with_crossings"]

_NEEDED = ("reliability", "score", "density")
_POINTWISE, _SIMULTANEOUS = ("reliability_low", "reliability_high"), ("reliability_band_low", "reliability_band_high")
_MEDIAN, _SPREAD = "reliability_median", ("density_low", "density_high")
# How far from 1 the drawn density may integrate for the error of the drawn curve to be worth a heading.
_WHOLE = 0.05


@dataclass(frozen=True)
class _Panel:
    """One curve. Whatever the dataset does not hold is absent from ``values``."""

    title: str
    level: str
    values: dict[str, np.ndarray]

    def pair(self, names: tuple[str, str]) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
        """Lower and upper bound of a band along the scores, if there is one."""
        if not set(names) <= set(self.values):
            return None
        return self.values["score"], self.values[names[0]], self.values[names[1]]


def reliability_curve(dataset: xr.Dataset, *, title: str = "") -> Any:
    """Reliability curve: probability of the outcome given the score, with its bands, the density of scores beneath.

    Where the curve runs below the diagonal (orange) scores promise more than they keep, above it (blue) less. The line
    breaks where there are no scores. The calibration error in the heading is that of the curve shown: the mean distance
    from the diagonal, weighted by the density; ``h`` is the bandwidth.

    With ``ci`` the dark band is for the curve at each score, the light one for the whole curve, and the dotted line is
    the median of the replicates. Unless the curve was asked for with ``band="plain"`` they are corrected for the bias
    of smoothing, and near the ends the curve itself, which is not, may leave them.

    Parameters
    ----------
    dataset : xarray.Dataset
        What `calibdask.reliability_curve` returns, or the result of `calibdask.evaluate` with one
        `calibdask.ReliabilityCurve`. Classes, slices and other dimensions get a panel each.
    title : str, optional
        Heading of a single panel, or first words of the heading of each panel.

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
    drawn = [
        _panel(heading, one, title)
        for heading, one in panels(_plain(dataset), "reliability", "A plot of reliability curves")
    ]
    places = [Place(i, len(drawn)) for i in range(len(drawn))]
    return arranged([(_above(*each), _beneath(*each)) for each in zip(drawn, places, strict=True)])


def _plain(dataset: xr.Dataset) -> xr.Dataset:
    """The variables of the one curve in a dataset, with plain names."""
    prefixes = prefixes_of(dataset, _NEEDED)
    if len(prefixes) != 1:
        raise ValueError(
            f"A plot of reliability curves expects a dataset with {', '.join(_NEEDED)} of one cd.ReliabilityCurve, "
            f"got {len(prefixes)} curves among {', '.join(map(str, dataset.data_vars))}."
        )
    prefix = prefixes[0]
    known = [*_NEEDED, "bandwidth", *_POINTWISE, *_SIMULTANEOUS, _MEDIAN, *_SPREAD]
    there = [name for name in known if prefix + name in dataset.variables]
    return dataset[[prefix + name for name in there]].rename({prefix + name: name for name in there if prefix})


def _panel(heading: str, one: xr.Dataset, title: str) -> _Panel:
    """The values of one curve along the scores, and its numbers in the heading."""
    values = {str(name): np.asarray(one[name].values, np.float64) for name in [*one.data_vars, "score"]}
    numbers = [_error(values["score"], values["reliability"], values["density"])]
    if np.isfinite(values.get("bandwidth", np.nan)):
        numbers.append(f"h {float(values['bandwidth']):.3g}")
    level = one["reliability_low"].attrs.get("ci", one.attrs.get("ci")) if "reliability_low" in one else None
    return _Panel(
        title=headed(title, heading, " · ".join(filter(None, numbers))),
        level="" if level is None else f"{100 * float(level):g} % ",
        values={name: value for name, value in values.items() if value.shape == values["score"].shape},
    )


def _error(score: np.ndarray, reliability: np.ndarray, density: np.ndarray) -> str:
    """Words for the calibration error of the curve: the area between it and the diagonal, weighted by density."""
    if not (np.isfinite(reliability) & (density > 0)).any():
        return "no rows"
    # Points too sparse for a narrow bandwidth miss its peaks: better no number than a wrong one.
    if abs(np.trapezoid(density, score) - 1) > _WHOLE:
        return ""
    return f"density ECE {np.trapezoid(np.nan_to_num(np.abs(reliability - score)) * density, score):.4f}"


def _above(panel: _Panel, place: Place) -> Any:
    """Bands, diagonal, distance from it and the curve in the colours of its sides."""
    import holoviews as hv

    x, y = hv.Dimension("score", label="score"), place.upward("reliability", "probability of the outcome")
    lines = [
        hv.Curve(line, x, [y, *(name for name in line if name not in ("score", "reliability"))], group=side)
        for side, line in _lines(panel).items()
    ]
    # One legend serves all panels.
    behind = _tints(panel, x, y) + _bootstrap(panel, x, y, legend=place.number == 0)
    return hv.Overlay([hv.Slope(1, 0, kdims=[x, y]), *behind, *lines], group="Reliability").relabel(panel.title)


def _bootstrap(panel: _Panel, x: Any, y: Any, *, legend: bool) -> list[Any]:
    """Bands and median of the replicates, as far as there are any."""
    import holoviews as hv

    parts: list[Any] = []
    for names, word in ((_SIMULTANEOUS, "simultaneous"), (_POINTWISE, "pointwise")):
        band = panel.pair(names)
        if band is not None:
            score, low, high = band
            label = f"{panel.level}{word}" if legend else ""
            parts.append(hv.Area((score, high, low), x, [y, "low"], group=word.capitalize(), label=label))
    if _MEDIAN in panel.values:
        median = (panel.values["score"], panel.values[_MEDIAN])
        parts.append(hv.Curve(median, x, y, group="Median", label="median" if legend else ""))
    return parts


def _tints(panel: _Panel, x: Any, y: Any) -> list[Any]:
    """The distance from the diagonal, unless there is a band: grey beside orange looks blue."""
    import holoviews as hv

    if panel.pair(_POINTWISE) is not None:
        return []
    score, curve = panel.values["score"], panel.values["reliability"]
    edges = {"Over": np.minimum(curve, score), "Under": np.maximum(curve, score)}
    return [hv.Area((score, edge, score), x, [y, "diagonal"], group=side) for side, edge in edges.items()]


def _lines(panel: _Panel) -> dict[str, dict[str, np.ndarray]]:
    """The curve on either side of the diagonal, NaN on the other, with the numbers at each of its points."""
    names, kind = ["score", "reliability", "density"], ""
    if panel.pair(_POINTWISE) is not None:
        names, kind = [*names, *_POINTWISE], " with band"
    columns = np.stack([panel.values[name] for name in names])
    columns = with_crossings(np.concatenate([columns, columns[1:2] - columns[:1]]))
    gap = columns[-1]
    line = dict(zip([*names, "gap"], columns, strict=True))
    sides = {"Over" + kind: gap <= 0, "Under" + kind: gap >= 0}
    return {side: {**line, "reliability": np.where(on, columns[1], np.nan)} for side, on in sides.items()}


def with_crossings(columns: np.ndarray) -> np.ndarray:
    """Columns of points, the gap to the diagonal the last row, with points added where the gap changes its sign."""
    gap = columns[-1]
    at = np.flatnonzero(gap[:-1] * gap[1:] < 0)
    share = gap[at] / (gap[at] - gap[at + 1])
    between = columns[:, at] + share * (columns[:, at + 1] - columns[:, at])
    between[-1] = 0
    return np.insert(columns, at + 1, between, axis=1)


def _beneath(panel: _Panel, place: Place) -> Any:
    """Density of the scores."""
    import holoviews as hv

    x, y = place.across("score", "score"), place.upward("density", "density")
    score, density = panel.values["score"], panel.values["density"]
    parts: list[Any] = [hv.Area((score, density), x, y, group="Density")]
    spread = panel.pair(_SPREAD)
    if spread is not None:
        _, low, high = spread
        parts.append(hv.Area((score, high, low), x, [y, "low"], group="Spread"))
    parts.append(hv.Curve((score, density), x, y, group="Density"))
    return hv.Overlay(parts, group="Density")
