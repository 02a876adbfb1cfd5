"""From replicates to intervals of numbers and bands of curves."""

import warnings
from collections.abc import Sequence

import numpy as np

from calibdask.engine.plan import run
from calibdask.engine.stored import StoredSource
from calibdask.estimators.estimator import Estimate, Estimator, Part
from calibdask.statistics.exact import Array

__all__ = ["checked_interval", "checked_level", "intervals"]

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


def intervals(
    estimated: Sequence[tuple[Estimator, Estimate]], source: StoredSource, level: float, n_boot: int, seed: int
) -> list[Estimate]:
    """Ends of intervals at a level for the parts of each estimate, from resampled histograms.

    Parts are called ``low`` and ``high``, for curves also ``median``, ``band_low`` and ``band_high``, after the name of
    the part that they belong to.
    """
    asked = [estimator.replicated() for estimator, _ in estimated]
    centres = [
        estimate if other is estimator else run([other], source).estimates[0]
        for other, (estimator, estimate) in zip(asked, estimated, strict=True)
    ]
    step = max(1, min(n_boot, _BYTES_AT_ONCE // max(1, source.bytes_of_a_replicate)))
    drawn = [_drawn(asked, source, seed, range(at, min(n_boot, at + step))) for at in range(0, n_boot, step)]
    ends: list[Estimate] = []
    for place, centre in enumerate(centres):
        found: dict[str, Part] = {}
        for name, part in centre.items():
            if part.role in ("number", "curve"):
                values = np.concatenate([some[place][name] for some in drawn])
                for end, limit in (_curve_ends if part.role == "curve" else _number_ends)(values, part, level).items():
                    found[f"{name}_{end}".removeprefix("_")] = Part(limit, part.dims)
        ends.append(found)
    return ends


def _drawn(asked: Sequence[Estimator], source: StoredSource, seed: int, replicates: range) -> list[dict[str, Array]]:
    """Values of each part of each estimator for some replicates, (replicates, batch, groups, ...)."""
    with warnings.catch_warnings():
        # What these say of every replicate has been said of the data.
        warnings.simplefilter("ignore", UserWarning)
        estimates = run(asked, source.resampled(seed, replicates)).estimates
    batch = source.layout.batch
    return [
        {
            name: part.values.reshape(len(replicates), batch, *part.values.shape[1:])
            for name, part in estimate.items()
            if part.role in ("number", "curve")
        }
        for estimate in estimates
    ]


def _percentiles(values: Array, level: float) -> tuple[Array, Array, Array]:
    """The lower end, the median and the upper end over replicates, those left out that have no value."""
    with warnings.catch_warnings(), np.errstate(invalid="ignore"):
        warnings.filterwarnings("ignore", "All-NaN", RuntimeWarning)
        low, median, high = np.nanquantile(values, [(1 - level) / 2, 0.5, (1 + level) / 2], axis=0)
    return low, median, high


def _number_ends(values: Array, part: Part, level: float) -> dict[str, Array]:
    """Reversed percentiles, widened to hold the value.

    A calibration error of resampled data exceeds that of the data as that one exceeds the true error: by what noise
    adds to absolute values. Percentiles would count this twice; reversed around the value they take it off.
    """
    low, _, high = _percentiles(values, level)
    value = part.values
    with np.errstate(invalid="ignore"):
        return {
            "low": np.maximum(np.minimum(2 * value - high, value), part.limits[0]),
            "high": np.minimum(np.maximum(2 * value - low, value), part.limits[1]),
        }


def _curve_ends(values: Array, part: Part, level: float) -> dict[str, Array]:
    """Pointwise ends, the median, and a band that holds whole curves.

    The pointwise ends are percentiles around the median, or those that the part brings along.
    """
    low, median, high = _percentiles(values, level)
    centre = median
    if part.spread is not None:
        centre, (low, high) = part.values, part.spread(level)
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
    steady = np.isfinite(values).all(0) & np.isfinite(centre)
    with np.errstate(invalid="ignore", divide="ignore"):
        above = np.where(steady & (high > centre), (values - centre) / (high - centre), 0.0)
        below = np.where(steady & (low < centre), (centre - values) / (centre - low), 0.0)
    farthest = np.maximum(above, below).max(-1)
    return np.maximum(np.quantile(farthest, level, axis=0, method="higher"), 1.0)[..., None]
