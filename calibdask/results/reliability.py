"""Reliability diagrams and curves read from results: what they show, their errors and the sides of the diagonal."""

from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import xarray as xr

from calibdask.estimators.smooth.score_axis import ScoreAxis
from calibdask.safe_text import listed

Array = npt.NDArray[np.float64]
Kind = Literal["diagram", "curve"]

# The parts of each kind: those it always has, the dependent variable first, and those it may have.
_REQUIRED = {
    "diagram": ("outcome", "score", "count", "weight", "lower", "upper"),
    "curve": ("reliability", "score", "density"),
}
_BOUNDS = ("low", "high", "band_low", "band_high", "median")
_OPTIONAL = {
    "diagram": ("outcome_low", "outcome_high"),
    "curve": ("bandwidth", *(f"reliability_{bound}" for bound in _BOUNDS), "density_low", "density_high"),
}
# The parts of the axis that was chosen for a picture, if one was; the last is of diagrams only.
_OF_AXIS = (*ScoreAxis._fields, "bars", "masses")
_ESTIMATORS = {"diagram": "cd.ReliabilityDiagram", "curve": "cd.ReliabilityCurve"}
# How far from 1 the density may integrate over the points of a curve for these to give its error.
_INTEGRAL_TOLERANCE = 0.05


def reliability_variables(dataset: xr.Dataset, kind: Kind) -> dict[str, dict[str, str]]:
    """The variables of all reliability diagrams, or curves, of a result: name by part, by metric.

    Variables say themselves what they are. Where they do not, as in a mean of several diagrams, those with exactly the
    names of `calibdask.reliability_diagram` or `calibdask.reliability_curve` count; the metric is then empty.

    Examples
    --------
    >>> import calibdask as cd
    >>> result = cd.evaluate([0, 1, 1, 1], [0.2, 0.4, 0.6, 0.8], {"ece": cd.ECE(), "bins": cd.ReliabilityDiagram()})
    >>> reliability_variables(result, "diagram")["bins"]["score"]
    'bins_score'
    """
    required = set(_REQUIRED[kind])
    metrics: dict[str, dict[str, str]] = {}
    for name, variable in dataset.variables.items():
        if "metric" in variable.attrs:
            words = (variable.attrs.get("part", ""), variable.attrs.get("bound", ""))
            metrics.setdefault(variable.attrs["metric"], {})["_".join(filter(None, words))] = str(name)
    complete = {metric: parts for metric, parts in metrics.items() if required <= parts.keys()}
    if not complete and required <= set(map(str, dataset.variables)):
        names = (*_REQUIRED[kind], *_OPTIONAL[kind])
        return {"": {name: name for name in names if name in dataset.variables}}
    return complete


def only_metric(dataset: xr.Dataset, kind: Kind) -> str:
    """The metric of the one reliability diagram, or curve, of a result.

    Raises
    ------
    ValueError
        If there is none, or more than one.
    """
    metrics = list(reliability_variables(dataset, kind))
    if len(metrics) != 1:
        raise ValueError(
            f"A plot of a reliability {kind} expects a dataset with {', '.join(_REQUIRED[kind])} of one "
            f"{_ESTIMATORS[kind]}, got {len(metrics)} {kind}s among {listed(dataset.data_vars)}."
        )
    return metrics[0]


class Drawn(NamedTuple):
    """How a result wants to be drawn: its axis, the rows by even part of that, and whether bins have equal masses."""

    axis: ScoreAxis
    bars: Array
    equal_masses: bool


class SignedGaps(NamedTuple):
    """The mean gap, split by sign: ``over`` (not positive) where scores are too high, ``under`` where too low."""

    over: float
    under: float


@dataclass(frozen=True, eq=False)
class Reliability(ABC):
    """What a diagram and a curve have in common: frequencies of the outcome by score, and means over all rows."""

    kind: ClassVar[Kind]

    score: Array

    @classmethod
    @abstractmethod
    def of(cls, dataset: xr.Dataset, metric: str, at: Mapping[Hashable, int] | None = None) -> Self:
        """Read one of a result.

        Parameters
        ----------
        dataset : xarray.Dataset
            A result of `calibdask.evaluate` or of a shorthand.
        metric : str
            Its name, as `reliability_variables` gives it.
        at : mapping from dimension to index, optional
            Slice, class and other dimensions, where there are several.
        """

    @classmethod
    def by_class(cls, dataset: xr.Dataset, metric: str, at: Mapping[Hashable, int] | None = None) -> dict[str, Self]:
        """Read one for each class, by label; one with an empty label where there are no classes."""
        at = at or {}
        dims = [dim for dim in cls.dims_of(dataset, metric) if dim not in at]
        if not dims:
            return {"": cls.of(dataset, metric, at)}
        (dim,) = dims
        labels = dataset[dim].values if dim in dataset.coords else range(dataset.sizes[dim])
        return {str(label): cls.of(dataset, metric, {**at, dim: index}) for index, label in enumerate(labels)}

    @classmethod
    def first(cls, dataset: xr.Dataset, at: Mapping[Hashable, int] | None = None, skip: str = "") -> dict[str, Self]:
        """The first of a result but for one metric, as `by_class` reads it; empty where there is none."""
        metric = next((name for name in reliability_variables(dataset, cls.kind) if name != skip), None)
        return {} if metric is None else cls.by_class(dataset, metric, at)

    @classmethod
    def dims_of(cls, dataset: xr.Dataset, metric: str) -> tuple[Hashable, ...]:
        """The dimensions along which a result holds several: slices, classes and others."""
        return dataset.variables[reliability_variables(dataset, cls.kind)[metric][_REQUIRED[cls.kind][0]]].dims[:-1]

    @property
    @abstractmethod
    def gap(self) -> Array:
        """Frequency of the outcome less the score: negative where scores are too high."""

    @abstractmethod
    def mean(self, values: Array) -> float:
        """Mean over all rows of values along the scores; NaN without rows."""

    @property
    def error(self) -> float:
        """The calibration error: the mean distance from the diagonal."""
        return self.mean(np.abs(self.gap))

    @property
    def sides(self) -> SignedGaps:
        """The mean gap by side of the diagonal; the sum is the mean gap, the difference the error."""
        return SignedGaps(self.mean(np.minimum(self.gap, 0.0)), self.mean(np.maximum(self.gap, 0.0)))

    @property
    def mean_score(self) -> float:
        """Mean score."""
        return self.mean(self.score)

    @property
    def frequency(self) -> float:
        """Frequency of the outcome."""
        return self.mean(self.score + self.gap)


@dataclass(frozen=True, eq=False)
class BinnedReliability(Reliability):
    """The bins of a reliability diagram that hold rows.

    Attributes
    ----------
    score, outcome : array of shape (bins,)
        Mean score and frequency of the outcome.
    count, weight : array of shape (bins,)
        Rows and sum of weights.
    lower, upper : array of shape (bins,)
        Edges.
    low, high : array of shape (bins,)
        Interval of the frequency; NaN where there is none.
    level : float or None
        Level of the intervals.
    drawn : Drawn or None
        How it wants to be drawn.

    Examples
    --------
    >>> import calibdask as cd
    >>> result = cd.evaluate([0, 1, 1, 1], [0.2, 0.4, 0.6, 0.8], cd.ReliabilityDiagram(bins=2))
    >>> bins = BinnedReliability.of(result, "reliability_diagram")
    >>> round(bins.error, 3), round(bins.mean_score, 3), bins.frequency
    (0.25, 0.5, 0.75)
    """

    kind = "diagram"
    outcome: Array
    count: Array
    weight: Array
    lower: Array
    upper: Array
    low: Array
    high: Array
    level: float | None = None
    drawn: Drawn | None = None

    @classmethod
    def of(cls, dataset: xr.Dataset, metric: str, at: Mapping[Hashable, int] | None = None) -> Self:
        """Read one diagram of a result."""
        values = _values(dataset, cls.kind, metric, at)
        filled = values["count"] > 0
        return cls(
            **{_field(part): array[filled] for part, array in values.items()},
            level=_level(dataset, cls.kind, metric),
            drawn=_drawn(dataset, cls.kind, metric, at),
        )

    @property
    def rows(self) -> float:
        """Number of rows."""
        return float(self.count.sum())

    @property
    def share(self) -> Array:
        """Share of the weight."""
        return self.weight / max(float(self.weight.sum()), np.finfo(float).tiny)

    @property
    def has_interval(self) -> bool:
        """Whether any bin has an interval."""
        return bool(np.isfinite(self.low).any())

    @property
    def gap(self) -> Array:
        """Observed rate minus mean prediction."""
        return self.outcome - self.score

    @property
    def frequency(self) -> float:
        """Frequency of the outcome."""
        return self.mean(self.outcome)

    def mean(self, values: Array) -> float:
        """Mean of values by bin, weighted as the rows are."""
        with np.errstate(invalid="ignore"):
            return float(np.nansum(self.weight * values) / self.weight.sum())


@dataclass(frozen=True, eq=False)
class SmoothReliability(Reliability):
    """A reliability curve at its scores. What a result does not hold is NaN.

    Attributes
    ----------
    score, reliability, density : array of shape (points,)
        Scores in rising order, the frequency of the outcome given these (NaN without density), and their density.
    low, high, band_low, band_high : array of shape (points,)
        Pointwise interval, and simultaneous band for the whole curve.
    median, density_low, density_high : array of shape (points,)
        Of the replicates.
    bandwidth : float
    level : float or None
        Level of the intervals.
    drawn : Drawn or None
        How it wants to be drawn.

    Examples
    --------
    >>> import calibdask as cd
    >>> result = cd.evaluate([0, 1, 1, 1], [0.2, 0.4, 0.6, 0.8], cd.ReliabilityCurve(bandwidth=0.1))
    >>> curve = SmoothReliability.of(result, "reliability_curve")
    >>> round(curve.error, 3), [round(side, 3) for side in curve.sides]
    (0.274, [-0.012, 0.262])
    """

    kind = "curve"

    reliability: Array
    density: Array
    low: Array
    high: Array
    band_low: Array
    band_high: Array
    median: Array
    density_low: Array
    density_high: Array
    bandwidth: float = np.nan
    level: float | None = None
    drawn: Drawn | None = None

    @classmethod
    def of(cls, dataset: xr.Dataset, metric: str, at: Mapping[Hashable, int] | None = None) -> Self:
        """Read one curve of a result."""
        values = _values(dataset, cls.kind, metric, at)
        bandwidth = values.pop("bandwidth")
        return cls(
            **{_field(part): array for part, array in values.items()},
            bandwidth=float(bandwidth) if bandwidth.ndim == 0 else np.nan,
            level=_level(dataset, cls.kind, metric),
            drawn=_drawn(dataset, cls.kind, metric, at),
        )

    @property
    def has_rows(self) -> bool:
        """Whether the curve exists anywhere."""
        return bool((np.isfinite(self.reliability) & (self.density > 0)).any())

    @property
    def has_interval(self) -> bool:
        """Whether there is a pointwise interval."""
        return bool(np.isfinite(self.low).any())

    @property
    def has_band(self) -> bool:
        """Whether there is a band for the whole curve."""
        return bool(np.isfinite(self.band_low).any())

    @property
    def gap(self) -> Array:
        """Frequency of the outcome less the score."""
        return self.reliability - self.score

    def mean(self, values: Array) -> float:
        """Integral of values, weighted by the density; NaN without rows, or if the points miss peaks of the density.

        Points too sparse for a narrow bandwidth miss its peaks: better no number than a wrong one.
        """
        if not self.has_rows or abs(float(np.trapezoid(self.density, self.score)) - 1) > _INTEGRAL_TOLERANCE:
            return np.nan
        return float(np.trapezoid(np.nan_to_num(values) * self.density, self.score))

    @property
    def crossings(self) -> Array:
        """Scores at which the line through the points of the curve changes sides of the diagonal."""
        crossed = self.with_crossings()
        gap = crossed.gap
        return crossed.score[1:-1][(gap[1:-1] == 0) & (gap[:-2] * gap[2:] < 0)]

    def with_crossings(self) -> Self:
        """The curve with points added where it crosses the diagonal."""
        gap = self.gap
        before = np.flatnonzero(gap[:-1] * gap[1:] < 0)
        part = gap[before] / (gap[before] - gap[before + 1])
        columns: dict[str, Any] = {}
        for name, values in _columns(self).items():
            between = values[before] + part * (values[before + 1] - values[before])
            columns[name] = np.insert(values, before + 1, between)
        # Rounding would leave the added points on one side of the diagonal, and the other line without its end.
        added = before + 1 + np.arange(before.size)
        columns["reliability"][added] = columns["score"][added]
        return replace(self, **columns)

    def split(self) -> dict[Literal["over", "under"], Self]:
        """The curve where scores are too high, and where they are too low: NaN on the other side of the diagonal."""
        crossed = self.with_crossings()
        over, under = (np.where(on, crossed.reliability, np.nan) for on in (crossed.gap <= 0, crossed.gap >= 0))
        return {"over": replace(crossed, reliability=over), "under": replace(crossed, reliability=under)}


def _values(dataset: xr.Dataset, kind: Kind, metric: str, at: Mapping[Hashable, int] | None) -> dict[str, Array]:
    """The parts of a curve or of bins, NaN for those that the result does not hold."""
    values = _parts(dataset, kind, metric, at)
    missing = np.full_like(values[_REQUIRED[kind][0]], np.nan)
    return {part: values.get(part, missing) for part in (*_REQUIRED[kind], *_OPTIONAL[kind])}


def _parts(dataset: xr.Dataset, kind: Kind, metric: str, at: Mapping[Hashable, int] | None) -> dict[str, Array]:
    """All parts that a result holds, in float64."""
    return {
        part: np.asarray(dataset.variables[name].isel(at or {}, missing_dims="ignore").values, np.float64)
        for part, name in reliability_variables(dataset, kind)[metric].items()
    }


def _level(dataset: xr.Dataset, kind: Kind, metric: str) -> float | None:
    """Level of the intervals, if there are any."""
    interval = reliability_variables(dataset, kind)[metric].get(f"{_REQUIRED[kind][0]}_low")
    level = None if interval is None else dataset[interval].attrs.get("ci", dataset.attrs.get("ci"))
    return None if level is None else float(level)


def _drawn(dataset: xr.Dataset, kind: Kind, metric: str, at: Mapping[Hashable, int] | None) -> Drawn | None:
    """The axis that a result was given, if it was."""
    values = {part: array for part, array in _parts(dataset, kind, metric, at).items() if part in _OF_AXIS}
    if "bars" not in values:
        return None
    logit, *ends = (float(values[name]) for name in ScoreAxis._fields)
    return Drawn(ScoreAxis(bool(logit), *ends), values["bars"], bool(values.get("masses", 0.0)))


def _field(part: str) -> str:
    """What a part is called here: the bounds belong to the dependent variable."""
    prefix, _, bound = part.partition("_")
    return bound if bound and prefix in ("outcome", "reliability") else part


def _columns(curve: SmoothReliability) -> dict[str, Array]:
    """All that has one value for each score."""
    values = {field.name: getattr(curve, field.name) for field in fields(curve)}
    return {name: value for name, value in values.items() if isinstance(value, np.ndarray)}
