"""Intervals of dependent rows: whole clusters are resampled, and few clusters widen the ends.

Replicates are those of `calibdask.statistics.views.clusters`. Their spread is that of a sum over G clusters, which
falls short by the factor sqrt((G - 1) / G) and varies like Student's t with G - 1 degrees of freedom: ends move away
from the estimate by t / z sqrt(G / (G - 1)). G is the least of three numbers: the equal clusters that clusters of these
sizes are worth (Carter, Schnepel & Steigerwald 2017), (sum n)**2 / sum n**2; those whose residuals determine a variance
as well (`calibdask.statistics.cluster_sums.equivalent_clusters`), fewer where few clusters have most of the events; and
buckets.

A skewed sum misses on its long side: the error in units of its estimated deviation has the quantiles
-t - g (2 t**2 + 1) / 6 with the skewness g of the sum (Hall 1992, section 3.3). The end on that side moves by
|g| (2 t**2 + 1) / 6 deviations, with |g| less its standard error sqrt(6 / R) from R replicates; the other end stays.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy

from calibdask.engine.plan import Outcome
from calibdask.estimators.bounded_mean import BoundedMean
from calibdask.estimators.estimator import Estimator
from calibdask.estimators.interval import FromHistograms, KnownEnds
from calibdask.estimators.parts import CalibrationError, Curve, Estimate, FixedPart, Number, Part, estimated
from calibdask.inference.choice import IntervalChoice
from calibdask.inference.ends import Bounds, bounds_of_curve
from calibdask.inference.methods import NumberReplicates, percentiles, reach_below
from calibdask.statistics.cluster_sums import MOST_OF_A_CLUSTER, SliceClusters
from calibdask.statistics.exact import Array
from calibdask.statistics.layout import Layout
from calibdask.statistics.request import Requests
from calibdask.statistics.views.clusters import (
    FEWEST_CLUSTERS,
    Buckets,
    BucketWeights,
    CalibratedReplicates,
    bucket_count,
)
from calibdask.statistics.views.view import view_requests

# With fewer clusters intervals may miss a little more often than stated.
MANY = 40
# The bound that is the variance of a number relative to its variance for independent rows.
DESIGN_EFFECT = "design_effect"
# Factor of intervals of curves whose window holds a cluster.
_WIDEST = 1e3
# Standard deviations that replicates may be off on average; a square that is 0 for the data is off by 0.7.
_MOST_SHIFT = 0.4
# A cluster with a larger share of the rows decides the numbers.
DOMINANT = 0.2


@dataclass(frozen=True)
class ClusterBootstrap:
    """Replicates of the clusters of data of a layout; summaries have no rows."""

    choice: IntervalChoice
    layout: Layout
    has_rows: bool = True

    def __post_init__(self) -> None:
        if self.choice.method == "bca":
            raise ValueError("ci_method='bca' leaves out rows in turn; with groups give 'corrected' or 'percentile'.")

    @property
    def buckets(self) -> int:
        """Number of buckets that clusters are sent to."""
        return bucket_count(self.layout)

    def requests(self, metrics: Mapping[str, Estimator]) -> dict[Any, Requests[Any]]:
        """Requests of the replicates of metrics, by (name, field).

        The fields are ``"clusters"``, ``"chance"`` of errors of a calibrated model, and ``"rows"`` as if rows were
        clusters, where no formula and no histogram says how the number of independent rows would vary.
        """
        requests: dict[Any, Requests[Any]] = {}
        for name, metric in metrics.items():
            interval = metric.interval(self.layout)
            replicated = interval.for_replicates if isinstance(interval, FromHistograms) else metric
            if replicated is not metric:
                requests[name, "centre"] = replicated.estimate()
            by_rows = self.has_rows and not isinstance(interval, FromHistograms | KnownEnds)
            for field in ("clusters", "rows") if by_rows else ("clusters",):
                buckets = Buckets(self.buckets, by_rows=field == "rows")
                view = BucketWeights(self.choice.n_boot, self.choice.seed, buckets)
                requests[name, field] = view_requests(view, replicated.estimate())
            if metric.errs_by_chance(self.layout):
                chance = CalibratedReplicates(self.choice.n_boot, self.choice.seed, Buckets(self.buckets))
                requests[name, "chance"] = view_requests(chance, replicated.estimate())
        return requests

    def bounds(
        self, name: str, outcome: Outcome[Any], clusters: SliceClusters, independent: Mapping[str, Bounds]
    ) -> dict[str, Bounds]:
        """The bounds of each part of a metric; ``independent`` are those that hold if rows are independent."""
        estimate: Estimate = outcome.estimates[(name,)]
        numbers = estimated(estimate)
        centre = estimated(outcome.estimates.get((name, "centre"), estimate))
        values = _values(outcome.estimates[name, "clusters"], numbers)
        rows = outcome.estimates.get((name, "rows"))
        of_rows = {} if rows is None else _values(rows, numbers)
        by_chance = outcome.estimates.get((name, "chance"))
        of_chance = {} if by_chance is None else _values(by_chance, numbers)
        bounds: dict[str, Bounds] = {}
        for part, number in numbers.items():
            replicates, fitted = values[part], centre[part]
            if isinstance(fitted, Curve) and fitted.ends_of_clusters is not None:
                made = self._bounds_of_curve(fitted, replicates, clusters)
            else:
                replicates = replicates + _finite(number.values - fitted.values)
                made = self._bounds_of(number, replicates, of_chance.get(part), clusters)
            effect = self._design_effect(number, replicates, of_rows.get(part), independent.get(part, {}))
            if effect is not None:
                made[DESIGN_EFFECT] = FixedPart(effect, number.dims)
            bounds[part] = made
        return bounds

    def _bounds_of_curve(self, curve: Curve, replicates: Array, clusters: SliceClusters) -> dict[str, Part]:
        """Ends that are positive where replicates have no events, and a band that contains whole replicates."""
        level, shape = self.choice.level, np.ones(curve.values.shape)
        units = np.minimum(_units(clusters, curve.values, self.buckets), _resting(replicates))
        of_all = _by_slice(np.fmax(clusters.design_effect, 1.0), curve.values) * shape
        widening = np.minimum(_widening(units, level), _WIDEST) * shape
        assert curve.ends_of_clusters is not None
        ends = curve.ends_of_clusters(level, _variance(replicates), of_all, widening)
        made = bounds_of_curve(replace(curve, known_ends=lambda _: ends), replicates, level)
        few = _by_slice(clusters.clusters, curve.values) < FEWEST_CLUSTERS
        return {
            bound: _noted(replace(end, values=np.where(few, np.nan, end.values)), {"resampled": "clusters"})
            for bound, end in made.items()
        }

    def _bounds_of(
        self, number: Number, replicates: Array, chance: Array | None, clusters: SliceClusters
    ) -> dict[str, Part]:
        level, count = self.choice.level, _by_slice(clusters.clusters, number.values)
        units = _units(clusters, number.values, self.buckets)
        notes = {"resampled": "clusters"}
        if number.has_band:
            made: dict[str, Part] = {**bounds_of_curve(number, replicates, level)}
            middle = made["median"].values
            for bound in ("low", "high", "band_low", "band_high"):
                with np.errstate(invalid="ignore"):
                    # One cluster widens infinitely.
                    ends = middle + _widening(units, level) * (made[bound].values - middle)
                made[bound] = _noted(replace(made[bound], values=np.clip(ends, *number.limits)), notes)
        else:
            method = self._method(number)
            low, high = _METHODS[method](number, replicates, level, units)
            if chance is not None and method == "corrected" and number.kind == "error":
                widening = _widening(units, level)
                with np.errstate(invalid="ignore"):
                    upper = percentiles(replicates, level)[2]
                    reach = reach_below(replicates, number.values, chance, upper) * widening
                low = np.fmin(low, number.values - reach)
                # A calibrated model has such an error by chance.
                most = percentiles(chance, level)[2] * widening
                low = np.where(number.values <= most, np.minimum(number.limits[0], low), low)
            low = np.maximum(number.lowered(low, level), number.limits[0])
            high = np.minimum(high, number.limits[1])
            notes["interval"] = method
            made = {"low": Number(low, number.dims, notes), "high": Number(high, number.dims, notes)}
            if self.choice.keep:
                made["replicates"] = FixedPart(np.moveaxis(replicates, 0, -1), (*number.dims, "replicate"), notes)
        few = count < FEWEST_CLUSTERS
        if number.known_ends is not None:  # too few events for the formula are too few for replicates
            few = few | np.isnan(number.known_ends(level)).all(0)
        return {
            bound: part if bound == "replicates" else replace(part, values=np.where(few, np.nan, part.values))
            for bound, part in made.items()
        }

    def _method(self, number: Number) -> str:
        if self.choice.method is not None:
            return self.choice.method
        if number.is_biased or isinstance(number, CalibrationError):
            return "corrected"
        return "share" if number.known_ends is not None and _has_limits(number, 0.0, 1.0) else "student"

    def _design_effect(
        self, number: Number, replicates: Array, of_rows: Array | None, independent: Bounds
    ) -> Array | None:
        """The variance of a number relative to that if rows were independent."""
        variance = _variance(replicates)
        if number.is_biased and not isinstance(number, CalibrationError):
            variance = np.where(_is_extreme(number.values, replicates, variance), np.nan, variance)
        with np.errstate(divide="ignore", invalid="ignore"):
            if of_rows is not None:
                independent_rows = _variance(of_rows)
                return np.where(independent_rows > 0, variance / independent_rows, np.nan)
            if not {"low", "high"} <= set(independent) or number.has_band:
                return None
            reach = independent["high"].values - independent["low"].values
            z = scipy.special.ndtri(0.5 + self.choice.level / 2)
            return np.where(reach > 0, variance / (reach / (2 * z)) ** 2, np.nan)


def _has_limits(number: Number, *limits: float) -> bool:
    """Whether the lower limit of a number, and the upper one if given, are these; limits may be arrays."""
    return all(bool(np.all(np.asarray(own) == limit)) for own, limit in zip(number.limits, limits, strict=False))


def _noted(part: Part, notes: Mapping[str, Any]) -> Part:
    return replace(part, notes={**part.notes, **notes})


def _values(estimate: Estimate, numbers: Mapping[str, Number]) -> dict[str, Array]:
    """Replicates (replicates, *shape of the number) of each part."""
    parts = estimated(estimate)
    return {part: parts[part].values.reshape(-1, *number.values.shape) for part, number in numbers.items()}


def _finite(values: Array) -> Array:
    return np.where(np.isfinite(values), values, 0.0)


def _variance(replicates: Array) -> Array:
    """Variance over the replicates that have a value; NaN with fewer than two."""
    known = np.isfinite(replicates)
    count = known.sum(0)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = np.where(known, replicates, 0.0).sum(0) / count
        square = np.where(known, (replicates - mean) ** 2, 0.0).sum(0)
        return np.where(count > 1, square / (count - 1), np.nan)


def _is_extreme(values: Array, replicates: Array, variance: Array) -> Array:
    """Whether replicates lie so much on one side of a number that it varies with the square of its sample's means.

    The uncertainty q (1 - q) near q = 1/2 does: its variance is that of a squared mean, in proportion to the square of
    the design effect, which no number of rows makes up for.
    """
    known = np.isfinite(replicates)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = np.where(known, replicates, 0.0).sum(0) / known.sum(0)
        return np.asarray(np.abs(mean - values) > _MOST_SHIFT * np.sqrt(variance))


def _by_slice(of_slices: npt.ArrayLike, values: Array) -> Array:
    """Numbers of slices, in the shape of values (batch, groups, ...)."""
    return np.asarray(of_slices, np.float64).reshape(1, -1, *(1,) * (values.ndim - 2))


def _units(clusters: SliceClusters, values: Array, buckets: int) -> Array:
    """Equal clusters with as certain a variance, at most the buckets, in the shape of values; 0 without rows."""
    worth = np.fmin(np.nan_to_num(clusters.effective), clusters.equivalent)
    return _by_slice(np.minimum(worth, buckets), values)


def _resting(replicates: Array) -> Array:
    """How many clusters numbers rest on, from how often none of them is drawn; infinite if some always is."""
    with np.errstate(divide="ignore"):
        return np.asarray(-np.log(np.mean(~np.isfinite(replicates), axis=0)))


def _quantile(units: Array, level: float) -> Array:
    """Quantile of Student's t with one degree of freedom less than there are units; infinite for one unit."""
    freedom = np.asarray(units, np.float64) - 1
    known = freedom >= 1
    return np.where(known, scipy.special.stdtrit(np.where(known, freedom, 1.0), 0.5 + level / 2), np.inf)


def _widening(units: Array, level: float) -> Array:
    """Factor by which intervals widen relative to very many clusters."""
    with np.errstate(divide="ignore", invalid="ignore"):
        scale = np.sqrt(units / (units - 1))
        return np.where(units > 1, _quantile(units, level) / scipy.special.ndtri(0.5 + level / 2) * scale, np.inf)


def _skewness(replicates: Array) -> Array:
    """Skewness of the replicates that have a value, nearer to 0 by its standard error."""
    known = np.isfinite(replicates)
    count = known.sum(0)
    with np.errstate(divide="ignore", invalid="ignore"):
        deviations = np.where(known, replicates - np.where(known, replicates, 0.0).sum(0) / count, 0.0)
        skewness = (deviations**3).sum(0) / count / ((deviations**2).sum(0) / count) ** 1.5
        return np.nan_to_num(np.sign(skewness) * np.maximum(np.abs(skewness) - np.sqrt(6 / count), 0.0))


def _stretched(values: Array, centre: Array, replicates: Array, level: float, units: Array) -> Array:
    """Move replicates, or percentiles of them, away from the centre, and farther on the long side.

    Percentiles of a skewed sum lie |g| (t**2 - 1) / 6 deviations farther already.
    """
    skewness, quantile = _skewness(replicates), _quantile(units, level)
    with np.errstate(invalid="ignore"):
        is_long = np.sign(values - centre) == np.sign(skewness)
        longer = 1 + np.where(is_long & (skewness != 0), np.abs(skewness) * (quantile**2 + 2) / (6 * quantile), 0.0)
        return np.asarray(centre + longer * _widening(units, level) * (values - centre))


def _percentile(number: Number, replicates: Array, level: float, units: Array) -> tuple[Array, Array]:
    low, _, high = percentiles(replicates, level)
    low, high = _stretched(np.stack([low, high]), number.values, replicates, level, units)
    return low, high


def _corrected(number: Number, replicates: Array, level: float, units: Array) -> tuple[Array, Array]:
    """The value plus and minus the larger of its distances to the two percentiles."""
    low, _, high = percentiles(replicates, level)
    with np.errstate(invalid="ignore"):
        reach = np.maximum(np.maximum(high - number.values, number.values - low), 0.0) * _widening(units, level)
    return number.values - reach, number.values + reach


def _student(number: Number, replicates: Array, level: float, units: Array) -> tuple[Array, Array]:
    """The value plus and minus t standard errors; of numbers that are positive, on the scale of their logarithm.

    None of numbers that are 0 in all replicates, such as ratios without events.
    """
    below, above = _reaches(replicates, level, units)
    if not _has_limits(number, 0.0):
        return number.values - below, number.values + above
    with np.errstate(divide="ignore", invalid="ignore"):
        below_log, above_log = _reaches(np.log(replicates), level, units)
        is_positive = number.values > 0
        low = np.where(is_positive, number.values * np.exp(-below_log), number.values - _unless_none(below))
        return low, np.where(is_positive, number.values * np.exp(above_log), number.values + _unless_none(above))


def _unless_none(reach: Array) -> Array:
    return np.where(reach > 0, reach, np.nan)


def farther_on_long_side(skewness: Array, quantile: Array) -> Array:
    """How many standard errors farther the end on the long side of a skewed sum lies (Hall 1992)."""
    # Without skewness nothing, even for an infinite quantile.
    return np.where(skewness == 0, 0.0, np.abs(skewness) * (2 * quantile**2 + 1) / 6)


def _reaches(replicates: Array, level: float, units: Array) -> tuple[Array, Array]:
    """How far below and above the value the ends lie: t standard errors, and more on the long side."""
    skewness, quantile = _skewness(replicates), _quantile(units, level)
    with np.errstate(divide="ignore", invalid="ignore"):
        error = np.sqrt(_variance(replicates) * units / (units - 1))
        farther = farther_on_long_side(skewness, quantile)
        below, above = (quantile + np.where(is_long, farther, 0.0) for is_long in (skewness < 0, skewness > 0))
        return below * error, above * error


def _share(number: Number, replicates: Array, level: float, units: Array) -> tuple[Array, Array]:
    """Limits of Clopper & Pearson for as many independent rows as have the variance (Korn & Graubard)."""
    share = np.asarray(number.values, np.float64)
    assert number.known_ends is not None
    low, high = number.known_ends(level)
    with np.errstate(divide="ignore", invalid="ignore"):
        variance = _variance(replicates) * units / (units - 1)
        binomial = share * (1 - share)
        narrower = (scipy.special.ndtri(0.5 + level / 2) / _quantile(units, level)) ** 2
        resting = np.minimum(units, _resting(replicates))
        # Of outcomes that are all alike, no more than its rows.
        of_rows = np.log((1 - level) / 2) / np.log1p(low - high)
        resting = np.where(binomial > 0, resting, np.fmin(resting, of_rows))
        rows = np.where(variance > 0, binomial / variance, resting) * narrower
        return BoundedMean(share, binomial, np.maximum(rows, 1e-3), 0.0, 1.0).ends(level)


_METHODS = {"percentile": _percentile, "corrected": _corrected, "student": _student, "share": _share}


def cluster_notes(clusters: SliceClusters) -> list[str]:
    """What few and dominant clusters mean for intervals, in sentences."""
    notes = []
    are_few = clusters.clusters < FEWEST_CLUSTERS
    few, some = int(are_few.sum()), int((~are_few & (clusters.effective < MANY)).sum())
    slices = clusters.clusters.size
    where = "" if slices == 1 else " of {} of {:,} slices"
    if few:
        least = f", {clusters.clusters.min():,} here" if slices == 1 else ""
        notes.append(
            f"no intervals{where.format(f'{few:,}', slices)} with fewer than {FEWEST_CLUSTERS} clusters{least}"
        )
    if some:
        of_slices = where.format(f"{some:,}", slices)
        notes.append(
            f"intervals{of_slices} with fewer than {MANY} clusters, or unequal ones that are worth fewer, may miss a "
            "little more often than stated"
        )
    dominant = clusters.largest > DOMINANT
    if dominant.any():
        worst = int(np.argmax(clusters.largest))
        of_slices = "" if slices == 1 else f" in {int(dominant.sum()):,} of {slices:,} slices"
        refused = f"; no intervals with more than {100 * MOST_OF_A_CLUSTER:.0f} %" if clusters.dominated.any() else ""
        notes.append(
            f"one cluster has {100 * clusters.largest[worst]:.0f} % of the rows{of_slices}: they are worth about "
            f"{clusters.effective[worst]:.3g} equal clusters{refused}"
        )
    return notes


def widened_by_clusters(
    replicates: NumberReplicates, clusters: SliceClusters, level: float, buckets: int
) -> NumberReplicates:
    """Replicates of a difference, widened for this number of clusters, for ends at a level."""
    units = _units(clusters, replicates.centre, buckets)
    values = _stretched(replicates.values, replicates.centre, replicates.values, level, units)
    return replace(replicates, values=values, resampled="clusters")
