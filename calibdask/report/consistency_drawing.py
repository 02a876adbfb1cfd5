"""Observed frequencies beside consistency bars: where the points of a calibrated model lie, as SVG."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice, product

import numpy as np
import numpy.typing as npt
import xarray as xr

from calibdask.markup import Html
from calibdask.plot import svg
from calibdask.plot.decision_charts import rounded_up
from calibdask.plot.style import FREQUENCY, MEAN_SCORE
from calibdask.report.chart_drawing import BOTTOM, LEFT, MOST_PANELS, RIGHT, SIDE, TOP, chart_axes
from calibdask.results.document import Figure
from calibdask.results.format import percent, slice_text
from calibdask.results.values import Results

Array = npt.NDArray[np.float64]
_ESTIMATOR = "ConsistencyBars"
# A dot on the end of its bar has the frequency of that end, up to rounding.
_ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class ConsistencyPoints:
    """Mean score, frequency and bar of the bins that hold rows, each (bins,)."""

    expected: Array
    outcome: Array
    low: Array
    high: Array

    @property
    def is_outside(self) -> npt.NDArray[np.bool_]:
        """Whether the frequency is not one that a calibrated model mostly has."""
        return (self.outcome < self.low - _ROUNDING) | (self.outcome > self.high + _ROUNDING)


def consistency_figures(dataset: xr.Dataset, name: str) -> Iterator[Figure]:
    """A figure of each such metric of a result that has intervals; of many classes, the first six."""
    results = Results(dataset)
    if results.level is None:
        return
    metrics = dict.fromkeys(part.metric for part in results.parts if part.estimator_class == _ESTIMATOR)
    for metric in metrics:
        (outcome,) = results.of(metric, "outcome")
        dims = [str(dim) for dim in outcome.values.dims[:-1]]
        for position in islice(product(*(range(dataset.sizes[dim]) for dim in dims)), MOST_PANELS):
            at = dict(zip(dims, position, strict=True))
            labels = (f"{dim} {slice_text(dataset[dim].values[i])}" for dim, i in at.items())
            title = ", ".join((f"{name}: reliability with consistency bars", *labels))
            points = _points(results.at(at), metric)
            yield Figure(consistency_picture(points, title), f"{title}; {_reading(points, results.level)}")


def _points(results: Results, metric: str) -> ConsistencyPoints:
    (expected,), (outcome,) = (results.of(metric, part) for part in ("expected", "outcome"))
    given = expected.values, outcome.values, *(expected.bounds[end] for end in ("low", "high"))
    values = np.stack([np.asarray(of.values, np.float64) for of in given])
    return ConsistencyPoints(*values[:, np.isfinite(values).all(0)])


def consistency_picture(points: ConsistencyPoints, title: str) -> Html:
    """Bars about the diagonal, and the points, those outside their bar on the side where they are."""
    end = rounded_up(max(values.max(initial=0.0) for values in (points.expected, points.outcome, points.high)))
    along, up = svg.scale(0, end, 0, SIDE), svg.scale(0, end, SIDE, 0)
    low, high, x, y = up(points.low), up(points.high), along(points.expected), up(points.outcome)
    inside = [svg.line(0, SIDE, SIDE, 0, "diagonal"), svg.sticks(x, low, high, "consistent")]
    # Ends of bars that are shorter than they are wide are seen nonetheless.
    inside += [
        svg.line(at - 4, bar, at + 4, bar, "axis") for ends in (low, high) for at, bar in zip(x, ends, strict=True)
    ]
    dots = (
        svg.circle(LEFT + across, TOP + upward, 4.0, f"dot{side}")
        for across, upward, side in zip(x, y, _sides(points), strict=True)
    )
    axes = chart_axes((0.0, end), (0.0, end), MEAN_SCORE, FREQUENCY, SIDE)
    parts = [*axes, svg.window(LEFT, TOP, SIDE, SIDE, inside), *dots]
    return svg.picture("picture", LEFT + SIDE + RIGHT, TOP + SIDE + BOTTOM, parts, title)


def _sides(points: ConsistencyPoints) -> list[str]:
    """The classes that colour scores that are too high, or too low."""
    side = np.where(points.outcome < points.expected, " over", " under")
    return [str(of) for of in np.where(points.is_outside, side, " consistent")]


def _reading(points: ConsistencyPoints, level: float) -> str:
    outside, number = int(points.is_outside.sum()), points.outcome.size
    return (
        "points: frequency of the outcome by bin; bars: range of a calibrated model in "
        f"{percent(level)} of data sets, pointwise (not confidence intervals of the points); outside their "
        f"bar (coloured): {outside} of {number}"
    )
