"""From replicates to intervals of numbers and bands of curves."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from calibdask.engine.drawn import Drawing, Drawn
from calibdask.engine.interval_ends import Method, Replicates, number_ends, percentiles
from calibdask.engine.stored import StoredSource
from calibdask.engine.watching import Stage, enter
from calibdask.estimators.estimator import Estimate, Estimation, Estimator, Part
from calibdask.statistics.exact import Array
from calibdask.statistics.statistic import Statistic

__all__ = ["Histogram", "checked_interval", "checked_level", "intervals"]


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
    estimated: Sequence[tuple[Estimator, Estimate]],
    source: StoredSource,
    level: float,
    method: Method | None,
    n_boot: int,
    seed: int,
    keep: bool = False,
) -> list[Estimate]:
    """Ends of intervals at a level for the parts of each estimate, from resampled histograms.

    Parts are called ``low`` and ``high``, for curves also ``median``, ``band_low`` and ``band_high``, after the name of
    the part that they belong to; ``replicates`` too if they are to be kept.
    """
    enter(Stage("intervals"))
    with warnings.catch_warnings():
        # What these say of every replicate has been said of the data.
        warnings.simplefilter("ignore", UserWarning)
        drawn = Drawing(method, n_boot, seed, keep).of([estimator.replicated() for estimator, _ in estimated], source)
    return [_ends(each, estimate, level, method, keep) for each, (_, estimate) in zip(drawn, estimated, strict=True)]


def _ends(drawn: Drawn, estimate: Estimate, level: float, method: Method | None, keep: bool) -> Estimate:
    """The parts that ends make."""
    found: dict[str, Part] = {}
    for name, part in drawn.centre.items():
        if part.role not in ("number", "curve"):
            continue
        values = drawn.values[name]
        if part.role == "curve":
            limits = {end: Part(limit, part.dims) for end, limit in _curve_ends(values, part, level).items()}
        else:
            replicates = Replicates(
                _pooled(values, part),
                part.values,
                "histogram",
                _pooled(drawn.chance[name], part) if part.columns is not None and drawn.chance else None,
                _pooled(drawn.left_out[name], part) if drawn.left_out else None,
            )
            limits = number_ends(replace(estimate[name], dims=part.dims), replicates, level, method, keep)
        for end, limit in limits.items():
            found[f"{name}_{end}".removeprefix("_")] = limit
    return found


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
