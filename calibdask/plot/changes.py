"""A change of the mean gap as SVG: what comes by other people (mix), and what by other behaviour (within)."""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import xarray as xr

from calibdask.engine.axes import column_name
from calibdask.markup import Html
from calibdask.plot import svg
from calibdask.results.format import slice_text

# In units of the drawing, which the page scales.
_WIDTH, _LEFT, _RIGHT, _LINE, _LEGEND = 420.0, 118.0, 10.0, 24.0, 24.0
_MOST_TICKS = 5


class GapChange(NamedTuple):
    """A change of the mean gap by other people (mix) and other behaviour (within): values and ends."""

    label: str
    mix: tuple[float, float, float]
    within: tuple[float, float, float]


def change_picture(changes: Sequence[GapChange], words: str) -> Html:
    """Changes of the mean gap in percentage points, each as two points with intervals."""
    width = _WIDTH
    foot = _LEGEND + _LINE * len(changes)
    ends = [end for change in changes for part in (change.mix, change.within) for end in part if math.isfinite(end)]
    low, high = min([0.0, *ends]), max([0.0, *ends])
    margin = 0.05 * (high - low) or 0.01
    low, high = low - margin, high + margin
    along = svg.scale(low, high, _LEFT, width - _RIGHT)
    parts = []
    for tick in svg.nice_ticks(100 * low, 100 * high, _MOST_TICKS):
        parts.append(svg.line(along(tick / 100), _LEGEND, along(tick / 100), foot, "grid" if tick else "axis"))
        parts.append(svg.text(along(tick / 100), foot + 13, svg.signed(tick), "middle"))
    parts.append(svg.text(width - _RIGHT, foot + 26, "change of outcome − score, points", "end", "fine"))
    for x, name, legend in ((_LEFT, "within", "within: other behaviour"), (270.0, "mix", "mix: other people")):
        parts += [svg.dots(np.array([x + 4]), np.array([9.0]), name), svg.text(x + 12, 12.5, legend, "start")]
    for number, change in enumerate(changes):
        y = _LEGEND + _LINE * (number + 0.5)
        parts.append(svg.titled(svg.text(_LEFT - 8, y + 3.5, svg.short(change.label), "end"), change.label))
        for name, part, at in (("within", change.within, y - 4.5), ("mix", change.mix, y + 4.5)):
            if math.isfinite(part[0]):
                dot = svg.dots(np.array([along(part[0])]), np.array([at]), name)
                value, *reached = (f"{100 * end:+.2f}" for end in part)
                tooltip = f"{change.label}, {name}: {value} points"
                if math.isfinite(part[1]):
                    dot = svg.line(along(part[1]), at, along(part[2]), at, f"{name} reach") + dot
                    tooltip += f" ({' to '.join(reached)})"
                parts.append(svg.titled(dot, tooltip))
    return svg.picture("time change", width, foot + 32, parts, words)


def change_list(change: xr.Dataset, most: int) -> list[GapChange]:
    """All rows, and the slices whose contribution to a change is largest, of `calibdask.attribute` for one outcome."""

    def part(name: str, at: Mapping[str, int]) -> tuple[float, float, float]:
        value, low, high = (float(change[f"{name}{end}"].isel(at)) for end in ("", "_low", "_high"))
        return value, low, high

    dims = [str(dim) for dim in change["total"].dims]
    sizes = np.abs(change["total"].values.ravel())
    changes = [GapChange("all rows", part("all_mix", {}), part("all_within", {}))]
    for number in np.argsort(-sizes, kind="stable")[:most].tolist():
        at = dict(zip(dims, map(int, np.unravel_index(number, change["total"].shape)), strict=True))
        if "score_lower" in change.coords:
            here = change.isel(at)
            label = f"{float(here.score_lower):g} to {float(here.score_upper):g}"
        else:
            label = " · ".join(
                f"{column_name(dim)}={slice_text(change[dim].values[place])}" for dim, place in at.items()
            )
        # Groups of scores that nobody has in either window.
        if sizes[number] or number == 0:
            changes.append(GapChange(label, part("mix", at), part("within", at)))
    return changes


def change_text(change: GapChange) -> str:
    """A change in words.

    Examples
    --------
    >>> change_text(GapChange("", (0.001, 0.0, 0.002), (-0.0149, -0.02, -0.01)))
    '+0.1 points from the population (mix) and −1.5 points from behaviour (within)'
    """
    # Adding 0 takes the sign off a zero.
    values = (round(100 * part[0], 1) + 0.0 for part in (change.mix, change.within))
    mix, within = (f"{value:+.1f} points".replace("-", "−") for value in values)
    return f"{mix} from the population (mix) and {within} from behaviour (within)"
