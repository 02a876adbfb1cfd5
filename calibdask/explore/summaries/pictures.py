"""Reliability diagrams and curves that are drawn once and then given other numbers, of one selection or two."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from calibdask.explore.summaries.figures import Panel

__all__ = ["Pictures"]

_BINS = ("score", "outcome", "count", "lower", "upper", "outcome_low", "outcome_high", "weight")
_ENDS = ("reliability_low", "reliability_high", "reliability_band_low", "reliability_band_high")

Columns = dict[str, np.ndarray]


class Pictures:
    """All panels: of one setting two, bins and curve; of several classes one for each, with both.

    Parameters
    ----------
    box : panel.Row
        Where they are put. It is filled anew only if the number of panels, or of selections, changes: new numbers in
        panels that are there take milliseconds.
    """

    def __init__(self, box: Any) -> None:
        self._box = box
        self._panels: list[Panel] = []
        self._shape = (0, 0)

    def show(self, results: Sequence[xr.Dataset]) -> None:
        """Draw a result of `measuring.quick`, or two that have curves of the same classes."""
        drawn = [_drawn(result) for result in results]
        shape = (len(drawn[0]), len(drawn))
        if shape != self._shape:
            kinds = [(True, False), (False, True)] if len(drawn[0]) == 1 else [(True, True)] * len(drawn[0])
            self._panels = [Panel(len(drawn), bins=bins, curve=curve) for bins, curve in kinds]
            self._box.objects = [panel.pane for panel in self._panels]
            self._shape = shape
        for place, panel in enumerate(self._panels):
            some = [each[place if len(each) > 1 else 0] for each in drawn]
            panel.show(some[0].title, [(each.bins, each.curve) for each in some])


@dataclass(frozen=True)
class _Drawn:
    """What one panel shows of one selection: its heading, columns by bin, and along the curve."""

    title: str
    bins: Columns
    curve: Columns


def _drawn(result: xr.Dataset) -> list[_Drawn]:
    """One for each class that has a curve."""
    if "curve_class" not in result.dims:
        return [_Drawn("", _bins(result), _curve(result))]
    return [
        _Drawn(f"class {label}", _bins(result.sel({"class": label})), _curve(result.sel(curve_class=label)))
        for label in result["curve_class"].values
    ]


def _bins(result: xr.Dataset) -> Columns:
    """Bins that hold rows."""
    filled = result["diagram_count"].values > 0
    names = [name for name in _BINS if f"diagram_{name}" in result]
    columns = {name: np.asarray(result[f"diagram_{name}"].values, np.float64)[filled] for name in names}
    # Without intervals, as yet, they have no length.
    columns = {"outcome_low": columns["outcome"], "outcome_high": columns["outcome"], **columns}
    columns["share"] = columns["weight"] / max(float(columns["weight"].sum()), 1e-300)
    return columns


def _curve(result: xr.Dataset) -> Columns:
    """The curve at its scores; what there is none of, or not yet, is NaN."""
    reliability = result["curve_reliability"].values
    columns = {"score": result["curve_score"].values, "reliability": reliability}
    columns["density"] = result["curve_density"].values
    for name in _ENDS:
        there = f"curve_{name}" in result
        columns[name] = result[f"curve_{name}"].values if there else np.full_like(reliability, np.nan)
    return columns
