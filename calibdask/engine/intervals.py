"""From replicates to intervals of numbers and bands of curves."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from calibdask.engine.plan import run
from calibdask.engine.stored import StoredSource
from calibdask.estimators.estimator import Estimate, Estimation, Estimator, Part
from calibdask.statistics.exact import Array
from calibdask.statistics.statistic import Statistic

__all__ = ["Histogram", "checked_interval", "checked_level", "intervals", "percentiles"]

# Replicates of states are held so many bytes at a time.
_BYTES_AT_ONCE = 1 << 27


def checked_level(level: object, name: str = "level") -> None:
    """Raise ValueError if this is no level of an interval."""
    if isinstance(level, bool) or not isinstance(level, int | float | np.number) or not 0 < float(level) < 1:
        raise ValueError(f"{name} expects a number between 0 and 1 such as 0.95, got {level!r}.")


def checked_interval(ci: object, n_boot: object, seed: object) -> None:
    """Raise ValueError if these are no level, no number of replicates or no seed."""
    checked_level(ci, "ci")
    if isinstance(n_boot, bool) or not isinstance(n_boot, int | np.integer) or n_boot < 2:
        raise ValueError(f"n_boot expects a number of replicates from 2 on, got {n_boot!r}.")
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise ValueError(f"seed expects a whole number from 0 on, got {seed!r}.")


@dataclass(frozen=True)
class Histogram(Estimator):
    """Asks for a statistic on behalf of intervals, in the pass of the metrics."""

    statistic: Statistic

    def estimate(self) -> Estimation:
        """Nothing but the request."""
        yield self.statistic
        return {}


def intervals(
    estimated: Sequence[tuple[Estimator, Estimate]], source: StoredSource, level: float, n_boot: int, seed: int
) -> list[Estimate]:
    """Ends of intervals at a level for the parts of each estimate, from resampled histograms.

    Parts are called ``low`` and ``high``, for curves also ``median``, ``band_low`` and ``band_high``, after the name of
    the part that they belong to.
    """
    asked = [estimator.replicated() for estimator, _ in estimated]
    step = max(1, min(n_boot, _BYTES_AT_ONCE // max(1, source.bytes_of_a_replicate)))
    some = [range(at, min(n_boot, at + step)) for at in range(0, n_boot, step)]
    errors = [
        other
        for other, (_, estimate) in zip(asked, estimated, strict=True)
        if any(_is_error(part) for part in estimate.values())
    ]
    with warnings.catch_warnings():
        # What these say of every replicate has been said of the data.
        warnings.simplefilter("ignore", UserWarning)
        centres = run(asked, source).estimates
        drawn = [_values(asked, source.resampled(seed, each), len(each)) for each in some]
        calibrated = [_values(errors, source.resampled(seed, each, calibrated=True), len(each)) for each in some]
    ends: list[Estimate] = []
    for place, (centre, (_, estimate)) in enumerate(zip(centres, estimated, strict=True)):
        found: dict[str, Part] = {}
        for name, part in centre.items():
            if part.role not in ("number", "curve"):
                continue
            values = np.concatenate([each[place][name] for each in drawn])
            if part.role == "curve":
                limits = _curve_ends(values, part, level)
            else:
                chance = None
                if _is_error(part):
                    chance = np.concatenate([each[errors.index(asked[place])][name] for each in calibrated])
                limits = _number_ends(values, chance, part, estimate[name].values, level)
            for end, limit in limits.items():
                found[f"{name}_{end}".removeprefix("_")] = Part(limit, part.dims)
        ends.append(found)
    return ends


def _is_error(part: Part) -> bool:
    return part.columns is not None


def _values(asked: Sequence[Estimator], source: StoredSource, replicates: int) -> list[dict[str, Array]]:
    """Values of each part of each estimator for some replicates, (replicates, batch, groups, ...).

    Of calibration errors those of all columns, which are yet to be pooled.
    """
    return [
        {
            name: _by_replicate(part.values if part.columns is None else part.columns, replicates)
            for name, part in estimate.items()
            if part.role in ("number", "curve")
        }
        for estimate in run(asked, source).estimates
    ]


def _by_replicate(values: Array, replicates: int) -> Array:
    return values.reshape(replicates, -1, *values.shape[1:])


def percentiles(values: Array, level: float) -> tuple[Array, Array, Array]:
    """The lower end, the median and the upper end over replicates, those left out that have no value."""
    with warnings.catch_warnings(), np.errstate(invalid="ignore"):
        warnings.filterwarnings("ignore", "All-NaN", RuntimeWarning)
        low, median, high = np.nanquantile(values, [(1 - level) / 2, 0.5, (1 + level) / 2], axis=0)
    return low, median, high


def _number_ends(values: Array, chance: Array | None, part: Part, estimate: Array, level: float) -> dict[str, Array]:
    """The estimate give or take the larger distance of the two percentiles from the value of the histogram.

    A calibration error of resampled data exceeds that of the data as that one exceeds the true error: by what noise
    adds to absolute values. The upper percentile is therefore the farther one, and the true error is to be looked for
    as far below the estimate. Where calibrated models have such an error by ``chance``, the lower end is 0.
    """
    low, _, high = percentiles(_pooled(values, part), level)
    reach = np.maximum(np.maximum(high - part.values, part.values - low), 0.0)
    ends = {
        "low": np.maximum(estimate - reach, part.limits[0]),
        "high": np.minimum(estimate + reach, part.limits[1]),
    }
    if chance is not None:
        by_chance = percentiles(_pooled(chance, part), level)[2]
        ends["low"] = np.where(estimate <= by_chance, 0.0, ends["low"])
    return ends


def _pooled(values: Array, part: Part) -> Array:
    """Values of all columns as one number for each replicate.

    Columns are resampled each by itself, but those of one row depend on each other in a way that histograms do not
    tell. Replicates are combined as if all were large or small together: no dependence makes a mean vary more.
    """
    if part.columns is None:
        return values
    return np.asarray(part.pool(np.sort(values, axis=0), axis=-1))


def _curve_ends(values: Array, part: Part, level: float) -> dict[str, Array]:
    """Pointwise ends, the median, and a band that holds whole curves.

    The pointwise ends are percentiles around the median, or those that the part brings along.
    """
    low, median, high = percentiles(values, level)
    centre = median
    if part.spread is not None:
        low, high = part.spread(level)
        # Without rows in reach there is no fit, but still an interval.
        centre = np.where(np.isfinite(part.values), part.values, (low + high) / 2)
    factor = _widening(values, centre, low, high, level)
    return {
        "low": low,
        "high": high,
        "median": median,
        "band_low": np.maximum(np.where(factor > 1, centre - factor * (centre - low), low), part.limits[0]),
        "band_high": np.minimum(np.where(factor > 1, centre + factor * (high - centre), high), part.limits[1]),
    }


def _widening(values: Array, centre: Array, low: Array, high: Array, level: float) -> Array:
    """The factor, 1 or more, by which pointwise intervals must be widened to hold whole replicates, (..., 1).

    Places where some replicates have no curve do not decide it.
    """
    steady = np.isfinite(values).all(0)
    with np.errstate(invalid="ignore", divide="ignore"):
        above = np.where(steady & (high > centre), (values - centre) / (high - centre), 0.0)
        below = np.where(steady & (low < centre), (centre - values) / (centre - low), 0.0)
    farthest = np.maximum(above, below).max(-1)
    return np.maximum(np.quantile(farthest, level, axis=0, method="higher"), 1.0)[..., None]
