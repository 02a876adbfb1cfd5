"""From replicates to intervals of numbers and bands of curves."""

import warnings
from collections.abc import Sequence

import numpy as np

from calibdask.engine.plan import run
from calibdask.engine.stored import StoredSource
from calibdask.estimators.estimator import Estimate, Estimator, Part
from calibdask.statistics.exact import Array

__all__ = ["checked_interval", "intervals"]

# Replicates of states are held so many bytes at a time.
_BYTES_AT_ONCE = 1 << 27


def checked_interval(ci: object, n_boot: object, seed: object) -> None:
    """Raise ValueError if these are no level, no number of replicates or no seed."""
    if isinstance(ci, bool) or not isinstance(ci, int | float | np.number) or not 0 < ci < 1:
        raise ValueError(f"ci expects a level between 0 and 1 such as 0.95, got {ci!r}.")
    if isinstance(n_boot, bool) or not isinstance(n_boot, int | np.integer) or n_boot < 2:
        raise ValueError(f"n_boot expects a number of replicates from 2 on, got {n_boot!r}.")
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise ValueError(f"seed expects a whole number from 0 on, got {seed!r}.")


def intervals(
    estimators: Sequence[Estimator], source: StoredSource, level: float, n_boot: int, seed: int
) -> list[Estimate]:
    """Ends of intervals at a level for the parts of each estimator, from resampled histograms.

    Parts are called ``low`` and ``high``, for curves also ``median``, ``band_low`` and ``band_high``, after the name of
    the part that they belong to.
    """
    asked = [estimator.replicated() for estimator in estimators]
    step = max(1, min(n_boot, _BYTES_AT_ONCE // max(1, source.bytes_of_a_replicate)))
    batch = source.layout.batch
    collected: list[dict[str, list[Array]]] = [{} for _ in asked]
    patterns: tuple[Estimate, ...] = ()
    for start in range(0, n_boot, step):
        replicates = range(start, min(n_boot, start + step))
        with warnings.catch_warnings():
            # What these say of every replicate has been said of the data.
            warnings.simplefilter("ignore", UserWarning)
            patterns = run(asked, source.resampled(seed, replicates)).estimates
        for kept, estimate in zip(collected, patterns, strict=True):
            for name, part in estimate.items():
                if part.role in ("number", "curve"):
                    values = part.values.reshape(len(replicates), batch, *part.values.shape[1:])
                    kept.setdefault(name, []).append(values)
    return [
        {
            f"{name}_{end}".removeprefix("_"): Part(values, estimate[name].dims)
            for name, parts in kept.items()
            for end, values in _ends(np.concatenate(parts), estimate[name], level).items()
        }
        for kept, estimate in zip(collected, patterns, strict=True)
    ]


def _ends(values: Array, part: Part, level: float) -> dict[str, Array]:
    """Percentiles of replicates (replicates, batch, groups, ...), and for curves the band."""
    shares = [(1 - level) / 2, 0.5, (1 + level) / 2]
    with warnings.catch_warnings(), np.errstate(invalid="ignore"):
        warnings.filterwarnings("ignore", "All-NaN", RuntimeWarning)
        low, median, high = np.nanquantile(values, shares, axis=0)
    if part.role == "number":
        return {"low": low, "high": high}
    band_low, band_high = _band(values, (low, median, high), level)
    ends = {"low": low, "high": high, "median": median}
    return {**ends, "band_low": np.maximum(band_low, part.limits[0]), "band_high": np.minimum(band_high, part.limits[1])}


def _band(values: Array, pointwise: tuple[Array, Array, Array], level: float) -> tuple[Array, Array]:
    """The pointwise interval widened by one factor on both sides of the median, until whole curves lie within.

    Where some replicates have no curve at all, the band is the widened interval, but does not decide the factor.
    """
    low, median, high = pointwise
    steady = np.isfinite(values).all(0)
    with np.errstate(invalid="ignore", divide="ignore"):
        above = np.where(values > median, (values - median) / (high - median), 0.0)
        below = np.where(values < median, (median - values) / (median - low), 0.0)
    farthest = np.where(steady & (high > median), above, 0.0)
    farthest = np.maximum(farthest, np.where(steady & (low < median), below, 0.0))
    factor = np.maximum(np.quantile(farthest.max(-1), level, axis=0, method="higher"), 1.0)[..., None]
    return median - factor * (median - low), median + factor * (high - median)
