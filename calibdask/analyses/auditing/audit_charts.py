"""Pictures of audits as SVG: every group by its rows and its gap, and how large an error is not excluded."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import xarray as xr

from calibdask.analyses.auditing.audit_texts import points_up
from calibdask.markup import Html
from calibdask.plot import svg
from calibdask.results.format import counted
from calibdask.statistics.exact import Array

# In units of the drawing, which the page scales.
_LEFT, _TOP, _SIDE, _HIGH, _RIGHT = 46.0, 10.0, 270.0, 200.0, 12.0
_BOTTOM = 38.0
_NAME_AT = 9.0
_WIDTH, _HEIGHT = _LEFT + _SIDE + _RIGHT, _TOP + _HIGH + _BOTTOM
# More groups that are not off than that are drawn by a part of them, evenly along the rows.
_MOST_DOTS = 1200
_ROOM = 1.12
_MOST_TICKS = 7


def funnel_picture(result: xr.Dataset, excluded: Mapping[int, float]) -> Html:
    """Funnel chart: gaps of subgroups in points against their rows, with findings in colour and simultaneous bounds."""
    rows, gap = result.rows.values.astype(np.float64), 100 * result.gap.values
    found = result.found.values
    reach = _ROOM * max(float(np.abs(gap).max(initial=0.0)), 0.1)
    scale = _Scale(float(rows.min()), max(float(rows.max()), 10 * float(rows.min())), reach)
    parts = [scale.frame()]
    parts += [_limit(scale, excluded)]
    for i in _thinned(rows, ~found):
        parts.append(svg.circle(scale.x(rows[i]), scale.y(gap[i]), 1.7, "speck"))
    for i in np.flatnonzero(found)[:_MOST_DOTS][::-1].tolist():
        side, size = "over" if gap[i] < 0 else "under", 4.5 if result.described.values[i] else 2.4
        parts.append(svg.circle(scale.x(rows[i]), scale.y(gap[i]), size, f"dot {side}"))
    label = (
        f"Observed rate minus mean prediction against rows, of {counted(rows.size, 'subgroup')}, "
        f"{int(found.sum()):,} of them off"
    )
    return _svg(parts, label)


def guarantee_picture(excluded: Mapping[int, float]) -> Html:
    """The largest error that is not excluded, in points, by the least number of rows of groups."""
    most = 100 * max(excluded.values())
    foot, width = _TOP + _HIGH, _SIDE / max(len(excluded), 3)
    parts = [svg.line(_LEFT, foot, _LEFT + _SIDE, foot, "axis")]
    for place, (size, error) in enumerate(excluded.items()):
        height = (_HIGH - 14) * 100 * error / most
        left = _LEFT + width * place
        parts.append(svg.rect(left + 4, foot - height, left + width - 4, foot, "bar"))
        parts.append(svg.text(left + width / 2, foot - height - 4, points_up(error), "middle"))
        parts.append(svg.text(left + width / 2, foot + 14, short_count(size), "middle"))
    parts.append(svg.text(_LEFT + _SIDE / 2, _HEIGHT - 6, "subgroups of at least this many rows", "middle"))
    parts.append(svg.upward(_NAME_AT, _TOP + _HIGH / 2, "upper bound, points"))
    text = ", ".join(f"{points_up(error)} points from {size:,} rows on" for size, error in excluded.items())
    return _svg(parts, f"Upper bound of the error: {text}")


def short_count(count: float) -> str:
    """A round number in few signs.

    Examples
    --------
    >>> [short_count(count) for count in (100, 1000, 25_000, 10**6, 10**9)]
    ['100', '1k', '25k', '1M', '1G']
    """
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if count >= size:
            return f"{count / size:.3g}{unit}"
    return f"{count:.3g}"


class _Scale:
    """Rows on a logarithmic scale, points on a plain one around 0."""

    def __init__(self, low: float, high: float, reach: float) -> None:
        self.low, self.high, self.reach = np.log10(low), np.log10(high), reach

    def x(self, rows: float) -> float:
        return float(_LEFT + 6 + (_SIDE - 12) * (np.log10(rows) - self.low) / (self.high - self.low))

    def y(self, points: float) -> float:
        within = min(max(points / self.reach, -1.0), 1.0)
        return _TOP + _HIGH / 2 * (1 - within)

    def frame(self) -> Html:
        """Grid, ticks and names of the axes."""
        parts = [svg.line(_LEFT, self.y(0), _LEFT + _SIDE, self.y(0), "diagonal")]
        for tick in svg.nice_ticks(-self.reach, self.reach, _MOST_TICKS):
            parts.append(svg.line(_LEFT, self.y(tick), _LEFT + _SIDE, self.y(tick), "grid"))
            parts.append(svg.text(_LEFT - 6, self.y(tick) + 4, svg.signed(tick), "end"))
        for power in range(int(np.ceil(self.low)), int(np.floor(self.high)) + 1):
            x = self.x(10.0**power)
            parts.append(svg.line(x, _TOP, x, _TOP + _HIGH, "grid"))
            parts.append(svg.text(x, _TOP + _HIGH + 14, short_count(10.0**power), "middle"))
        parts.append(svg.text(_LEFT + _SIDE / 2, _HEIGHT - 6, "rows of the subgroup", "middle"))
        parts.append(svg.upward(_NAME_AT, _TOP + _HIGH / 2, "gap, points"))
        return svg.joined(parts)


def _limit(scale: _Scale, excluded: Mapping[int, float]) -> Html:
    """Steps on either side of 0, beyond which errors are excluded for groups of so many rows."""
    parts = []
    sizes = [*excluded, 10**scale.high]
    for place, error in enumerate(excluded.values()):
        left, right = scale.x(max(sizes[place], 10**scale.low)), scale.x(min(sizes[place + 1], 10**scale.high))
        if 100 * error <= scale.reach and right > left:
            ends = (scale.y(100 * error), scale.y(-100 * error))
            parts += [svg.line(left, y, right, y, "bound") for y in ends]
    return svg.joined(parts)


def _thinned(rows: Array, chosen: npt.NDArray[np.bool_]) -> list[int]:
    """Some of those chosen, evenly along their rows."""
    at = np.flatnonzero(chosen)
    at = at[np.argsort(rows[at], kind="stable")]
    every = max(1, -(-at.size // _MOST_DOTS))
    return [int(i) for i in at[::every]]


def _svg(parts: list[Html], label: str) -> Html:
    return svg.picture("picture", _WIDTH, _HEIGHT, parts, label)
