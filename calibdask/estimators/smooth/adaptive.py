"""Adaptive bins and curves for pictures of reliability; both follow the density of the scores.

Both are computed from one histogram, which is mergeable, and need no further pass.
"""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from typing_extensions import override

from calibdask.estimators.about import About, Description, PartInfo
from calibdask.estimators.bounded_mean import CLOPPER_PEARSON, BoundedMean
from calibdask.estimators.checks import check_choice
from calibdask.estimators.interval import IntervalMethod, KnownEnds
from calibdask.estimators.parts import Estimate, FixedPart, Number
from calibdask.estimators.smooth.gridded import GriddedEstimator
from calibdask.estimators.smooth.nearest_fit import NearestFit
from calibdask.estimators.smooth.score_axis import AXIS_CHOICES, BARS, AxisChoice, ScoreAxis
from calibdask.estimators.smooth.score_cells import ScoreCells
from calibdask.statistics.bins.grid import Grid, GridHistogram, cells_of
from calibdask.statistics.exact import Array
from calibdask.statistics.layout import Layout
from calibdask.statistics.request import Requests

# Rows of a bin, at least on average, and the number of bins of many rows.
_ROWS_OF_A_BIN, _FEWEST_BINS, _USUAL_BINS = 20, 3, 15
# Bins have equal masses where one of equal widths would hold more than this share of the rows.
_CROWDED = 1 / 3
_POINTS = 201


class _Parts(NamedTuple):
    """The parts of one column by name, and what its intervals follow from."""

    values: dict[str, Any]
    ends: Callable[[float], tuple[Array, Array]] | None


@dataclass(frozen=True, kw_only=True)
class Adaptive(GriddedEstimator):
    """An estimate from the histogram of each column, with the axis that is chosen for it."""

    axis: AxisChoice = "auto"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("axis", self.axis, AXIS_CHOICES)

    def histogram(self, layout: Layout) -> GridHistogram:
        """The refined histogram on the unit interval, which summaries store."""
        return GridHistogram(self.measured(layout), Grid(cells_of(self.step), refined=True))

    def interval(self, layout: Layout) -> IntervalMethod:
        """Ends from formulas."""
        return KnownEnds()

    @property
    @abstractmethod
    def _estimated(self) -> tuple[str, str]:
        """The part that has intervals, and its dimension."""

    @abstractmethod
    def _of_cells(self, cells: ScoreCells, axis: ScoreAxis, grid: Grid) -> _Parts:
        """The parts of a column that holds rows."""

    @abstractmethod
    def _nothing(self) -> dict[str, Any]:
        """The parts of a column without rows."""

    @override
    def estimate(self) -> Requests[Estimate]:
        gridded = yield from self.gridded()
        count = int(np.prod(gridded.shape))
        flat = gridded.state.of(lambda sums: sums.reshape(count, *sums.shape[3:]), gridded.state)
        grid = gridded.grid
        columns = [self._column(ScoreCells.of(flat.part(number), grid), grid) for number in range(count)]
        setting, (main, dim) = gridded.setting, self._estimated

        def shaped(values: list[Any]) -> Array:
            stacked = np.stack([np.asarray(of, np.float64) for of in values])
            return np.asarray(setting.by_class(stacked.reshape(*gridded.shape, *stacked.shape[1:])))

        def ends(level: float) -> tuple[Array, Array]:
            unknown = np.full(np.shape(columns[0].values[main]), np.nan)
            pairs = [(unknown, unknown) if column.ends is None else column.ends(level) for column in columns]
            return shaped([low for low, _ in pairs]), shaped([high for _, high in pairs])

        parts: dict[str, Any] = {}
        for name, first in columns[0].values.items():
            values = shaped([column.values[name] for column in columns])
            dims = (*setting.dims, *([] if np.ndim(first) == 0 else ["bar" if name == "bars" else dim]))
            if name == main:
                parts[name] = Number(values, dims, limits=(0.0, 1.0), known_ends=ends, ends_method=CLOPPER_PEARSON)
            else:
                parts[name] = FixedPart(values, dims)
        return parts

    def _column(self, cells: ScoreCells, grid: Grid) -> _Parts:
        if not cells.score.size:
            return _Parts({**self._nothing(), **ScoreAxis()._asdict(), "bars": np.zeros(BARS)}, None)
        axis = ScoreAxis.chosen(cells, self.axis)
        values, ends = self._of_cells(cells, axis, grid)
        return _Parts({**values, **axis._asdict(), "bars": axis.counted(cells)}, ends)


_AXIS_PARTS = {
    "logit": PartInfo("whether the axis of the picture is on the logit scale", "choice"),
    "left": PartInfo("left end of the axis", "choice"),
    "right": PartInfo("right end of the axis", "choice"),
    "below": PartInfo("rows beyond the left end", "count"),
    "above": PartInfo("rows beyond the right end", "count"),
    "bars": PartInfo("rows by even part of the axis", "count"),
}


@dataclass(frozen=True, kw_only=True)
class AdaptiveDiagram(Adaptive):
    """A reliability diagram whose bins and axis are chosen by the distribution of the scores.

    Parameters
    ----------
    bins : int or "auto", default "auto"
        Number of bins on the axis. ``"auto"``: 15, and fewer, but 3, with fewer than 300 rows.
    binning : {"auto", "uniform", "equal-mass"}, default "auto"
        Bins of equal widths on the scale of the axis, or of equal masses. ``"auto"``: equal masses if a third of the
        rows would fall into one bin of equal width.
    axis : {"auto", "full", "quantile", "logit"}, default "auto"
        See `ScoreAxis.chosen`.
    setting, k, step
        As for `calibdask.DensityECE`.

    Notes
    -----
    Parts as of `calibdask.ReliabilityDiagram`, and those of the axis. Edges are edges of cells of the histogram; rows
    beyond the axis are in bins too, outside it if bins have equal widths. Intervals are those of Clopper & Pearson.
    One pass, from summaries none.
    """

    about = About(
        "Reliability diagram",
        "The frequency of the outcome in each bin against the mean score there; bins of equal masses where scores are "
        "crowded. Both agree on the diagonal.",
        "Murphy & Winkler, 1977; Bröcker & Smith, Increasing the reliability of reliability diagrams, 2007",
    )

    bins: int | Literal["auto"] = "auto"
    binning: Literal["auto", "uniform", "equal-mass"] = "auto"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("binning", self.binning, ("auto", "uniform", "equal-mass"))
        bins: Any = self.bins
        whole = isinstance(bins, int | np.integer) and not isinstance(bins, bool)
        if bins != "auto" and not (whole and 1 <= bins <= cells_of(self.step)):
            raise ValueError(f"bins expects 'auto' or a number from 1 to {cells_of(self.step)}, got {bins!r}.")
        object.__setattr__(self, "bins", int(bins) if whole else bins)

    @override
    def describe(self, layout: Layout) -> Description:
        return {
            "score": PartInfo("mean score", "diagram"),
            "outcome": PartInfo("frequency of the outcome", "diagram"),
            "count": PartInfo("rows", "count"),
            "weight": PartInfo("sum of the weights", "count"),
            "lower": PartInfo("lower edge", "choice"),
            "upper": PartInfo("upper edge", "choice"),
            "masses": PartInfo("whether bins have equal masses", "choice"),
            **_AXIS_PARTS,
        }

    @property
    def _estimated(self) -> tuple[str, str]:
        return "outcome", "bin"

    @property
    def _most(self) -> int:
        """Bins on the axis, and one beyond either end."""
        return (self.bins if isinstance(self.bins, int) else _USUAL_BINS) + 2

    def _nothing(self) -> dict[str, Any]:
        names = ("score", "outcome", "lower", "upper")
        empty = {"count": np.zeros(self._most), "weight": np.zeros(self._most), "masses": 0.0}
        return {**{name: np.full(self._most, np.nan) for name in names}, **empty}

    def _of_cells(self, cells: ScoreCells, axis: ScoreAxis, grid: Grid) -> _Parts:
        usual = int(np.clip(cells.effective.sum() // _ROWS_OF_A_BIN, _FEWEST_BINS, _USUAL_BINS))
        number = self.bins if isinstance(self.bins, int) else usual
        uniform = _uniform_edges(axis, number, grid)
        is_crowded = np.histogram(cells.score, uniform, weights=cells.weight)[0].max() > _CROWDED * cells.weight.sum()
        is_equal = self.binning == "equal-mass" or (self.binning == "auto" and bool(is_crowded))
        edges = _equal_mass_edges(cells, number) if is_equal else uniform
        # Edges are edges of cells, of which all rows are on one side.
        at = np.searchsorted(edges, 0.5 * (cells.lower + cells.upper)) - 1
        sums = {
            name: np.bincount(at, values, self._most)
            for name, values in {
                "weight": cells.weight,
                "score": cells.weight * cells.score,
                "outcome": cells.positive,
                "square": cells.square,
                "count": cells.rows,
            }.items()
        }
        with np.errstate(divide="ignore", invalid="ignore"):
            score, outcome = (sums[name] / sums["weight"] for name in ("score", "outcome"))
            rows = sums["weight"] ** 2 / sums["square"]
        unused = np.full(self._most - edges.size + 1, np.nan)
        mean = BoundedMean(outcome, outcome * (1 - outcome), rows, 0.0, 1.0)
        values = {
            "score": score,
            "outcome": outcome,
            "count": sums["count"],
            "weight": sums["weight"],
            "lower": np.r_[edges[:-1], unused],
            "upper": np.r_[edges[1:], unused],
            "masses": float(is_equal),
        }
        return _Parts(values, mean.ends)


def _uniform_edges(axis: ScoreAxis, number: int, grid: Grid) -> Array:
    """Edges of bins of equal widths on the axis at the nearest edges of cells, with 0 and 1 beyond its ends."""
    wanted = axis.spread(number + 1)
    after = np.clip(np.searchsorted(grid.edges, wanted), 1, grid.size)
    nearest = after - (wanted - grid.edges[after - 1] < grid.edges[after] - wanted)
    return np.unique(np.r_[0.0, grid.edges[nearest], 1.0])


def _equal_mass_edges(cells: ScoreCells, number: int) -> Array:
    """Edges of bins of equal masses at edges of cells, fewer where a cell holds the masses of several."""
    last = np.searchsorted(cells.cumulative, np.arange(1, number) / number - 1e-12)
    return np.unique(np.r_[0.0, cells.upper[last], 1.0])


@dataclass(frozen=True, kw_only=True)
class AdaptiveCurve(Adaptive):
    """Reliability curve for pictures: a local linear fit to the nearest rows, where there are enough rows.

    ::

        c(s) = s + a,   (a, b) = argmin sum_i K(|t_i - t| / h(s)) (o_i - s_i - a - b (s_i - s))^2 + shrinkage of b

    with t the score on the scale of the axis and K the tricube kernel. The window h(s) holds 1.6 n**(4/5) rows but is
    at most 15 % of the axis wide on either side, and up to twice as wide where it would hold fewer than 100; on the
    logit scale rows count by 4 s (1 - s), and 15 % are 20 %. There is no curve where fewer than 20 rows are within
    these 15 %, where all of them are on one side, and on the logit scale where fewer than 5 events, or non-events, are
    expected there.

    Parameters
    ----------
    axis : {"auto", "full", "quantile", "logit"}, default "auto"
        See `ScoreAxis.chosen`.
    setting, k, step
        As for `calibdask.DensityECE`.

    Notes
    -----
    Parts ``score`` (201 points, evenly spaced on the axis), ``reliability`` and ``density``, and those of the axis.
    The fit reproduces straight lines: of a calibrated model its expectation is the diagonal at any bandwidth, in
    contrast to a ratio of densities, which is flattened next to 0 and 1 and oscillates where rows are few. Intervals
    are Wilson's for the effective number of rows of the fit, pointwise; they neglect the remaining bias.

    References
    ----------
    .. [1] Cleveland, Robust locally weighted regression and smoothing scatterplots, 1979.
    .. [2] Austin & Steyerberg, Graphical assessment of internal and external calibration of logistic regression models
       by using loess smoothers, 2014.
    """

    about = About(
        "Reliability curve",
        "The frequency of the outcome given the score by local linear fits to the nearest rows; none where fewer than "
        "20 rows are near.",
        "Cleveland, 1979; Austin & Steyerberg, 2014",
    )

    @override
    def describe(self, layout: Layout) -> Description:
        return {
            "reliability": PartInfo("frequency of the outcome", "curve"),
            "score": PartInfo("score", "choice"),
            "density": PartInfo("density of the scores", "choice"),
            **_AXIS_PARTS,
        }

    @property
    def _estimated(self) -> tuple[str, str]:
        return "reliability", "point"

    def _nothing(self) -> dict[str, Any]:
        unknown = np.full(_POINTS, np.nan)
        return {"score": np.linspace(0.0, 1.0, _POINTS), "reliability": unknown, "density": unknown}

    def _of_cells(self, cells: ScoreCells, axis: ScoreAxis, grid: Grid) -> _Parts:
        score = axis.spread(_POINTS)
        fit = NearestFit.of(cells, axis, score)
        return _Parts({"score": score, "reliability": fit.value, "density": fit.density}, fit.interval)
