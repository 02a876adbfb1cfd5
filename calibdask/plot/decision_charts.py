"""Charts of decisions and of the calibration belt: lines with intervals, and reference lines."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import xarray as xr

from calibdask.plot.style import PROBABILITY, SCORE
from calibdask.results.format import figure, pvalue_text
from calibdask.results.values import PartResult, Results
from calibdask.safe_text import listed

Array = npt.NDArray[np.float64]
Range = tuple[float, float]

# Below the axis is room for curves that fall under it, as a share of what is above; net benefits fall without end.
_BELOW, _ABOVE = 0.15, 1.08
# Thresholds are shown up to where the largest net benefit of the rest is this share of the largest of all.
_WORTH = 0.02


class Line(NamedTuple):
    """A line and its name in the legend."""

    name: str
    y: Array


class Band(NamedTuple):
    """The area between two lines."""

    name: str
    low: Array
    high: Array


@dataclass(frozen=True, eq=False)
class Chart:
    """One picture: a line, its bands from the widest to the narrowest, and lines of reference.

    Attributes
    ----------
    x : array of shape (points,)
    across, upward : str
        Names of the axes.
    line : Line
    bands : tuple of Band
    references : tuple of Line
    reach_x, reach_y : tuple of float
        The ranges of the axes.
    numbers : str
        What the heading says.
    """

    x: Array
    across: str
    upward: str
    line: Line
    bands: tuple[Band, ...]
    references: tuple[Line, ...]
    reach_x: Range
    reach_y: Range
    numbers: str = ""


class Parts(NamedTuple):
    """The parts of a metric in one panel, the coordinate of its points, and the result."""

    of: Mapping[str, PartResult]
    x: Array
    results: Results

    def values(self, part: str) -> Array:
        """The values of a part."""
        return np.asarray(self.of[part].values.values, np.float64)

    def bands(self, part: str) -> tuple[Band, ...]:
        """The interval of a part, if it has one."""
        bounds = self.of[part].bounds
        if not {"low", "high"} <= bounds.keys():
            return ()
        level = self.results.level
        name = "interval" if level is None else f"{100 * level:g} % interval"
        return (Band(name, *(np.asarray(bounds[end].values, np.float64) for end in ("low", "high"))),)


@dataclass(frozen=True)
class ChartKind:
    """Pictures of the results of one estimator, whose ``part`` is the line."""

    name: str
    estimator: str
    part: str
    read: Callable[[Parts], Chart]

    def metrics(self, dataset: xr.Dataset) -> list[str]:
        """The metrics of this estimator in a result, in its order."""
        parts = Results(dataset).parts
        return list(dict.fromkeys(part.metric for part in parts if part.estimator_class == self.estimator))

    def metric(self, dataset: xr.Dataset, name: str | None = None) -> str:
        """The one metric of this estimator in a result, or that of this name.

        Raises
        ------
        ValueError
            If there is none, or more than one; if it is no result of `calibdask.evaluate`.
        """
        metrics = self.metrics(dataset)
        if name in metrics:
            return str(name)
        if name is not None:
            raise ValueError(f"metric expects a cd.{self.estimator} of the result: {listed(metrics)}; got {name!r}.")
        if len(metrics) != 1:
            raise ValueError(
                f"This plot expects a result of cd.evaluate with one cd.{self.estimator}, got {len(metrics)} among "
                f"{listed(dataset.data_vars)}{'; choose one by metric=' if metrics else ''}."
            )
        return metrics[0]

    def dims(self, dataset: xr.Dataset, metric: str) -> tuple[str, ...]:
        """The dimensions along which the result holds several."""
        (line,) = Results(dataset).of(metric, self.part)
        return tuple(map(str, line.values.dims[:-1]))

    def chart(self, dataset: xr.Dataset, metric: str, at: Mapping[Any, int]) -> Chart:
        """Chart of one metric."""
        results = Results(dataset).at(at)
        parts = {part.part: part for part in results.of(metric)}
        (dim,) = parts[self.part].values.dims
        return self.read(Parts(parts, np.asarray(results.dataset[dim].values, np.float64), results))


def _decision(parts: Parts) -> Chart:
    model, everyone, nobody = map(parts.values, ("model", "treat_all", "treat_none"))
    top = max(_largest(model), _largest(everyone), 0.0)
    best = np.fmax.accumulate(np.fmax(model, everyone)[::-1])[::-1]
    last = parts.x[np.flatnonzero(best > _WORTH * top)[-1:]]
    bands = parts.bands("model")
    reach_y = (-_BELOW * (top or 1.0), _ABOVE * (_largest(model, *(band.high[:1] for band in bands), everyone) or 1.0))
    return Chart(
        parts.x,
        "threshold probability",
        "standardized net benefit" if parts.of["model"].meaning.startswith("standardized") else "net benefit",
        Line("treat by the scores", model),
        bands,
        (Line("treat all", everyone), Line("treat none", nobody)),
        (0.0, rounded_up(float(last[0]) if last.size else 1.0)),
        reach_y,
    )


def _risk_coverage(parts: Parts) -> Chart:
    risk, coverage = parts.values("risk"), parts.x
    # At full coverage no order helps: the risk is the error rate.
    rate = float(risk[-1]) if coverage[-1] == 1 else np.nan
    best = np.maximum(coverage - (1 - rate), 0.0) / coverage
    references = (
        () if np.isnan(rate) else (Line("best possible order", best), Line("random order", 0 * coverage + rate))
    )
    return Chart(
        coverage,
        "coverage",
        "risk (error rate)",
        Line("by falling score", risk),
        parts.bands("risk"),
        references,
        (0.0, 1.0),
        # Intervals of the first few answers would reach far up; the legend has its place above the lines.
        (0.0, 1.8 * _largest(risk) or 1.0),
        "" if np.isnan(rate) else f"error rate {figure(rate)}",
    )


def _murphy(parts: Parts) -> Chart:
    mean, t = parts.values(""), parts.x
    bands = parts.bands("")
    references: tuple[Line, ...] = ()
    frequency = parts.results.totals.get("frequency")
    if frequency is not None and not frequency.ndim and frequency.attrs.get("setting") == parts.of[""].setting:
        f = float(frequency)
        references = (Line("the frequency as score", np.where(t < f, t * (1 - f), (1 - t) * f)),)
    top = max(_largest(mean, *(line.y for line in references), *(band.high for band in bands)), 0.0)
    reach_y = (0.0, 1.25 * top or 1.0)
    return Chart(t, "threshold", "mean elementary score", Line("scores", mean), bands, references, (0.0, 1.0), reach_y)


def _belt(parts: Parts) -> Chart:
    frequency, lower, upper = map(parts.values, ("frequency", "lower", "upper"))
    levels = np.asarray(parts.results.dataset[parts.of["lower"].values.dims[0]].values, np.float64)
    bands = [Band(f"{100 * level:g} % belt", low, high) for level, low, high in zip(levels, lower, upper, strict=True)]
    score = np.where(np.isfinite(frequency), parts.x, np.nan)
    reach = (0.0, rounded_up(_largest(score, frequency)))
    pvalue, degree = float(parts.values("pvalue")), float(parts.values("degree"))
    return Chart(
        parts.x,
        SCORE,
        PROBABILITY,
        Line("polynomial", frequency),
        tuple(bands[::-1]),
        (Line("calibrated", parts.x),),
        reach,
        reach,
        "not determined" if np.isnan(pvalue) else f"{pvalue_text(pvalue)} · degree {degree:g}",
    )


def _largest(*values: Array) -> float:
    """The largest that is defined; 0 where none is."""
    return max((float(np.nanmax(of)) for of in values if np.isfinite(of).any()), default=0.0)


def rounded_up(end: float) -> float:
    """The end of an axis of probabilities."""
    return float(min(1.0, np.ceil(end * 10 - 1e-9) / 10)) or 1.0


DECISION = ChartKind("Decision curve", "NetBenefit", "model", _decision)
RISK_COVERAGE = ChartKind("Risk-coverage curve", "RiskCoverageCurve", "risk", _risk_coverage)
MURPHY = ChartKind("Murphy curve", "MurphyCurve", "", _murphy)
BELT = ChartKind("Calibration belt", "CalibrationBelt", "frequency", _belt)
KINDS = (BELT, DECISION, RISK_COVERAGE, MURPHY)
