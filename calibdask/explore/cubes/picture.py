"""Model of a figure without drawing: panels, lines and axes from the numbers of a view."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import xarray as xr

from calibdask.explore.cubes.suggested_view import is_geometric
from calibdask.explore.cubes.views import CubeView, labels_of

MOST_LINES, MOST_PANELS = 28, 16
# Ticks at all labels of the x axis, if they are no more.
_FEW = 9
# The share of the width of a name on the x axis over which lines are spread.
_DODGE = 0.6
# Values that span more than this factor have a logarithmic axis by default.
_MAGNITUDES = 30


@dataclass(frozen=True)
class Scales:
    """Scales of the axes: "auto", "log" or "linear", and whether panels share the y axis."""

    x: str = "auto"
    y: str = "auto"
    same: bool = True


@dataclass(frozen=True, eq=False)
class PictureLine:
    """The points of a line."""

    label: str
    at: dict[str, Any]
    value: np.ndarray
    low: np.ndarray | None = None
    high: np.ndarray | None = None


@dataclass(frozen=True, eq=False)
class PicturePanel:
    """The lines of a panel."""

    title: str
    at: dict[str, Any]
    lines: Sequence[PictureLine]


@dataclass(frozen=True, eq=False)
class Picture:
    """A whole figure.

    Parameters
    ----------
    x : sequence
        Labels along the x axis.
    x_name, y_name : str
    logx, logy : bool
    panels : sequence of Panel
    notes : sequence of str
        What is not drawn, and why.
    """

    x: Sequence[Any]
    x_name: str
    y_name: str
    logx: bool
    logy: bool
    panels: Sequence[PicturePanel]
    notes: Sequence[str] = ()

    @property
    def is_numeric(self) -> bool:
        """Whether the x axis has numbers or dates; otherwise names."""
        return np.asarray(self.x).dtype.kind in "iufM" and bool(self.x_name)

    def values(self, panel: PicturePanel | None = None) -> np.ndarray:
        """All finite numbers of a panel, or of all panels, that can be drawn."""
        lines = [line for chosen in ([panel] if panel else self.panels) for line in chosen.lines]
        arrays = [part for line in lines for part in (line.value, line.low, line.high) if part is not None]
        joined = np.concatenate([np.zeros(0), *arrays])
        return joined[np.isfinite(joined) & ((joined > 0) | (not self.logy))]

    def limits(self, panel: PicturePanel | None = None) -> tuple[float, float]:
        """Ends of the y axis, with a little room."""
        values = self.values(panel)
        if not values.size:
            return (0.1, 1.0) if self.logy else (0.0, 1.0)
        low, high = float(values.min()), float(values.max())
        if self.logy:
            return low / 1.12, high * 1.12
        room = 0.05 * (high - low) or 0.05 * abs(high) or 1.0
        return low - room, high + room

    def positions(self, number: int, lines: int) -> list[Any]:
        """Positions of the points of a line on the x axis; categorical points are dodged by line."""
        if self.is_numeric:
            return [*self.x]
        offset = (number - (lines - 1) / 2) * _DODGE / max(lines, 1)
        return [index + offset for index in range(len(self.x))]

    def position(self, panel: PicturePanel, at: dict[str, Any]) -> tuple[Any, float] | None:
        """The position of the point with these labels; None if the panel does not have it."""
        for number, line in enumerate(panel.lines):
            own = {**panel.at, **line.at}
            is_on_axis = not self.x_name or at.get(self.x_name) in [*self.x]
            if is_on_axis and all(at.get(dim) == label for dim, label in own.items()):
                along = [*self.x].index(at[self.x_name]) if self.x_name else 0
                return self.positions(number, len(panel.lines))[along], float(line.value[along])
        return None

    def nearest(self, panel: PicturePanel, x: Any, y: float) -> dict[str, Any] | None:
        """The labels of the point that is closest to a position on the axes; None if there are no points."""
        low, high = self.limits(None)
        scale = np.log if self.logy else np.asarray
        if self.logy and y <= 0:
            return None
        best: tuple[float, dict[str, Any]] | None = None
        for number, line in enumerate(panel.lines):
            across = self._across(self.positions(number, len(panel.lines)), x)
            with np.errstate(invalid="ignore", divide="ignore"):
                up = (scale(line.value) - scale(y)) / (scale(high) - scale(low))
            distance = np.where(np.isfinite(up), across**2 + up**2, np.inf)
            index = int(distance.argmin())
            if np.isfinite(distance[index]) and (best is None or distance[index] < best[0]):
                along = {self.x_name: self.x[index]} if self.x_name else {}
                best = float(distance[index]), {**panel.at, **line.at, **along}
        return best[1] if best else None

    def _across(self, labels: list[Any], x: Any) -> np.ndarray:
        """Distances along the x axis, as shares of its length."""
        values = np.asarray(labels)
        if values.dtype.kind == "M":
            # Bokeh gives dates in milliseconds.
            values = values.astype("datetime64[ms]").astype(np.float64)
            x = np.datetime64(x, "ms").astype(np.float64) if not isinstance(x, int | float) else x
        scale = np.log if self.logx else np.asarray
        return np.asarray(np.abs(scale(values) - scale(x)) / (np.ptp(scale(values)) or 1.0))


def picture_of(view: CubeView, shown: xr.Dataset, scales: Scales) -> Picture:
    """Panels and lines of the numbers of a view.

    Parameters
    ----------
    view : View
    shown : xarray.Dataset
        What `Reductions.shown` gives for it.
    scales : Scales

    Examples
    --------
    >>> values = [[0.2, 0.1], [0.4, 0.2]]
    >>> shown = xr.Dataset({"value": (("model", "size"), values)}, {"model": ["a", "b"], "size": [10, 100]})
    >>> picture = picture_of(CubeView("error", "size", ("model",)), shown, Scales())
    >>> [line.label for line in picture.panels[0].lines], picture.nearest(picture.panels[0], 90, 0.19)
    (['a', 'b'], {'model': 'b', 'size': 100})
    """
    labels = {dim: labels_of(shown, dim) for dim in view.kept}
    panels, lines = ([*product(*(labels[dim] for dim in dims))] for dims in (view.panels, view.lines))
    notes = []
    if len(panels) > MOST_PANELS:
        notes.append(f"{len(panels) - MOST_PANELS} of {len(panels)} panels are not drawn; choose fewer labels.")
    if len(lines) > MOST_LINES:
        notes.append(f"{len(lines) - MOST_LINES} of {len(lines)} lines are not drawn; choose fewer labels.")
    drawn = [
        _panel(view, shown, dict(zip(view.panels, panel, strict=True)), lines[:MOST_LINES])
        for panel in panels[:MOST_PANELS]
    ]
    x = labels[view.x] if view.x else [""]
    values = np.concatenate([np.zeros(0), *(line.value for panel in drawn for line in panel.lines)])
    finite = values[np.isfinite(values)]
    logy = scales.y == "log" or (scales.y == "auto" and _spread(view, finite))
    logx = scales.x == "log" or (scales.x == "auto" and is_geometric(x))
    logx = logx and np.asarray(x).dtype.kind in "iuf" and bool((np.asarray(x) > 0).all())
    hidden = int((finite <= 0).sum()) if logy else 0
    if hidden:
        notes.append(f"{hidden} of {finite.size} points are not positive and are hidden on the logarithmic axis.")
    cut = sum(int((line.low <= 0).sum()) for panel in drawn for line in panel.lines if line.low is not None)
    if logy and cut:
        bands = "1 band ends" if cut == 1 else f"{cut} bands end"
        notes.append(f"{bands} at or below 0, and on the logarithmic axis at its lower edge.")
    if not finite.size:
        notes.append("There are no numbers here: either no cell is done, or none has a value.")
    return Picture(x, view.x, view.axis_name, logx, logy, drawn, notes)


def _spread(view: CubeView, values: np.ndarray) -> bool:
    """Whether values suit a logarithmic axis: positive ones that are errors, or span several magnitudes."""
    if not values.size or values.min() <= 0 or values.max() == values.min():
        return False
    is_unsigned_difference = view.reference is not None and not view.reference.is_signed
    return bool(is_unsigned_difference or values.max() / values.min() > _MAGNITUDES)


def _panel(view: CubeView, shown: xr.Dataset, at: dict[str, Any], lines: Sequence[tuple[Any, ...]]) -> PicturePanel:
    title = " · ".join(label_text(label, dim) for dim, label in at.items())
    return PicturePanel(title, at, [_line(view, shown, at, dict(zip(view.lines, line, strict=True))) for line in lines])


def _line(view: CubeView, shown: xr.Dataset, panel: dict[str, Any], at: dict[str, Any]) -> PictureLine:
    indexers = {dim: labels_of(shown, dim).index(label) for dim, label in {**panel, **at}.items()}
    points = shown.isel(indexers)
    numbers = {name: np.atleast_1d(points[name].values) for name in ("value", "low", "high") if name in points}
    label = " · ".join(label_text(label, dim) for dim, label in at.items()) or view.label
    return PictureLine(label, at, **numbers)


def label_text(label: Any, dim: str = "") -> str:
    """A label as text: names stand for themselves, numbers after their dimension.

    Examples
    --------
    >>> label_text("svc", "model"), label_text(7, "classes"), label_text(0.25)
    ('svc', 'classes 7', '0.25')
    """
    if isinstance(label, np.datetime64):
        return str(label)[:10] if str(label)[10:].strip("T0:.") == "" else str(label)[:19]
    text = f"{label:g}" if isinstance(label, float) else str(label)
    return text if isinstance(label, str) or not dim else f"{dim} {text}"


def ticks(low: float, high: float) -> list[float]:
    """Ticks of a logarithmic axis: 1, 2 and 5 of each decade, or the decades alone if there are many.

    Examples
    --------
    >>> ticks(0.03, 0.6)
    [0.05, 0.1, 0.2, 0.5]
    """
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    few = (1, 2, 5) if len(decades) <= 5 else (1,)
    candidates = [float(f"{digit}e{decade}") for decade in decades for digit in few]
    return [tick for tick in candidates if low <= tick <= high]


def marks(x: Sequence[Any], *, log: bool) -> list[tuple[float, str]] | None:
    """Ticks at all labels if there are few, round ones on a logarithmic axis; None: the default."""
    values = np.asarray(x)
    if values.dtype.kind not in "iuf" or not values.size:
        return None
    if len(x) <= _FEW:
        return [(label, f"{label:,}" if isinstance(label, int) else f"{label:g}") for label in x]
    return [(tick, f"{tick:,.10g}") for tick in ticks(float(values.min()), float(values.max()))] if log else None
