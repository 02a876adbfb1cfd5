"""Methods that compute intervals of a number from its values in replicates of the data."""

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt
import scipy

from calibdask.estimators.parts import Number
from calibdask.statistics.exact import Array

Method = Literal["corrected", "percentile", "bca"]

# Of resampled differences: with fewer than about 5 differing rows, more of them are tied.
_MOST_TIED = 0.01
TIED = "where models differ in so few rows that more than 1 % of the resampled differences are 0"

# What noise adds to an error, at most, in units of what resampling adds to it on average.
_MOST_BIAS_PER_SHIFT = 3.0


@dataclass(frozen=True)
class NumberReplicates:
    """Values of one number in replicates of the data, each (replicates, *shape of the number).

    ``values`` of resampled rows; ``by_chance`` of a calibrated model with the same scores; ``left_out`` without one
    group of rows at a time. ``centre`` is the value for the data that were resampled; ``resampled`` says whether these
    were rows or a histogram.
    """

    values: Array
    centre: Array
    resampled: str
    by_chance: Array | None = None
    left_out: Array | None = None


def check_method(method: object) -> None:
    """Raise ValueError unless this is a method or None."""
    if method is not None and method not in get_args(Method):
        raise ValueError(f"ci_method expects one of {', '.join(map(repr, get_args(Method)))} or None, got {method!r}.")


def method_of(method: Method | None, number: Number) -> Method:
    """The given method, or the default for the number."""
    return method or ("corrected" if number.is_biased else "percentile")


def number_ends(replicates: NumberReplicates, number: Number, level: float, method: Method) -> tuple[Array, Array]:
    """The lower and the upper end at a level, within the limits of the number."""
    low, high = _METHODS[method](replicates, level)
    # The value from a histogram may differ from that of the rows by rounding or by the position of edges.
    low, high = (end + (number.values - replicates.centre) for end in (low, high))
    least, most = number.limits
    if method == "corrected" and replicates.by_chance is not None:
        chance = percentiles(replicates.by_chance, level)[2]
        low = np.where(number.values <= chance, np.minimum(least, low), low)
    low = number.lowered(low, level)
    return np.maximum(low, least), np.minimum(high, most)


def _percentile(replicates: NumberReplicates, level: float) -> tuple[Array, Array]:
    low, _, high = percentiles(replicates.values, level)
    return low, high


def _corrected(replicates: NumberReplicates, level: float) -> tuple[Array, Array]:
    """The value plus and minus the larger of its distances to the two percentiles.

    A calibration error of resampled data exceeds that of the data as the latter exceeds the true error, because noise
    increases absolute values. The upper percentile is therefore farther away, and the true error may lie as far below
    the estimate.
    """
    low, _, high = percentiles(replicates.values, level)
    reach = np.maximum(np.maximum(high - replicates.centre, replicates.centre - low), 0.0)
    below = reach
    if replicates.by_chance is not None:
        below = np.fmax(reach, reach_below(replicates.values, replicates.centre, replicates.by_chance, high))
    return replicates.centre - below, replicates.centre + reach


def _bca(replicates: NumberReplicates, level: float) -> tuple[Array, Array]:
    """Percentiles at levels that are corrected for median bias and for skewness (Efron 1987)."""
    values, left_out = replicates.values, replicates.left_out
    if left_out is None:
        raise ValueError("The method 'bca' requires jackknife replicates.")
    bias, skewness = _quantile_below(values, replicates.centre), _acceleration(left_out)
    ends = []
    with np.errstate(invalid="ignore", divide="ignore"):
        for z in scipy.special.ndtri([(1 - level) / 2, (1 + level) / 2]):
            shifted = bias + z
            # Beyond its pole the correction reverses: from there on the outermost replicate is the end.
            scale = 1 - skewness * shifted
            ends.append(
                _quantile(values, scipy.special.ndtr(np.where(scale > 0, bias + shifted / scale, np.inf * shifted)))
            )
    return ends[0], ends[1]


def reach_below(values: Array, centre: Array, by_chance: Array, high: Array) -> Array:
    """How far below an estimated error the true error may lie; ``high`` is the upper percentile of the replicates.

    Noise adds most to an error of 0: on average the error of a calibrated model by chance. Resampling repeats at least
    sqrt(2) - 1 of what noise has added: all of it for squares, for absolute values this share where nothing but noise
    is measured and more elsewhere. The multiple is larger than that of the least share, as the shift of the replicates
    is itself an estimate, and small where the estimate is large by chance.
    """
    mean = _mean(values)
    bias = np.minimum(_MOST_BIAS_PER_SHIFT * np.maximum(mean - centre, 0.0), _mean(by_chance))
    return bias + np.maximum(high - mean, 0.0)


_METHODS = {"corrected": _corrected, "percentile": _percentile, "bca": _bca}


def _quantile_below(values: Array, point: Any) -> Array:
    """The normal quantile of the share of replicates below a point, ties counted half; finite."""
    count = np.maximum(np.isfinite(values).sum(0), 1)
    below = (values < point).sum(0) + (values == point).sum(0) / 2
    return np.asarray(scipy.special.ndtri((below / count).clip(0.5 / count, 1 - 0.5 / count)), np.float64)


def _acceleration(left_out: Array) -> Array:
    """The acceleration: a sixth of the skewness of the jackknife values."""
    with np.errstate(invalid="ignore", divide="ignore"):
        # Not nanmean: its warnings about all-NaN slices cannot be silenced per thread.
        distance = np.nansum(left_out, axis=0) / (~np.isnan(left_out)).sum(0) - left_out
        square = np.nansum(distance**2, axis=0)
        return np.where(square > 0, np.nansum(distance**3, axis=0) / (6 * square**1.5), 0.0)


def sign_pvalue(replicates: NumberReplicates, method: Method | None) -> Array:
    """Two-sided p-value of the number being 0, from replicates: 1 minus the level whose interval ends there.

    For percentiles min(1, 2 (1 + min(#{d* <= 0}, #{d* >= 0})) / (R + 1)); for BCa at the corrected levels, also at
    least 2 / (R + 1). Replicates without a value, from few rows, count for both sides. NaN where the number is
    undefined.
    """
    values, left_out = replicates.values, replicates.left_out
    absent = (~np.isfinite(values)).sum(0)
    least = 2 / (len(values) + 1) * (1 + absent)
    if method == "bca" and left_out is not None:
        bias, skewness = _quantile_below(values, replicates.centre), _acceleration(left_out)
        shifted = _quantile_below(values, 0.0) - bias
        # The level at which an end of `_bca` lies at 0.
        with np.errstate(divide="ignore", invalid="ignore"):
            z = np.where(1 + skewness * shifted > 0, shifted / (1 + skewness * shifted), np.inf * shifted) - bias
        pvalue = 2 * scipy.special.ndtr(-np.abs(z))
        pvalue = np.where((values == 0).all(0), 1.0, pvalue)
    else:
        pvalue = least + 2 / (len(values) + 1) * np.minimum((values <= 0).sum(0), (values >= 0).sum(0))
    return np.where(np.isfinite(replicates.centre), np.maximum(pvalue, least).clip(max=1.0), np.nan)


def are_tied(values: Array) -> npt.NDArray[np.bool_]:
    """Whether so many replicates of a difference are exactly 0 that few rows differ.

    Replicates lack all of k rows with probability exp(-k). With fewer than 5 such rows, differing rows that happen not
    to be in the sample matter as much.
    """
    return np.asarray((values == 0).mean(0) > _MOST_TIED)


def less_baseline(values: Array, models: tuple[int, int], axis: int) -> Array:
    """Differences from the baseline of ``models`` (index, count), which vary slowest along the axis."""
    base, count = models
    shape = values.shape
    apart = values.reshape(*shape[:axis], count, -1, *shape[axis + 1 :])
    baseline = np.take(apart, [base], axis)
    with np.errstate(invalid="ignore"):
        return np.asarray((np.delete(apart, base, axis) - baseline).reshape(*shape[:axis], -1, *shape[axis + 1 :]))


def _quantile(values: Array, share: Any) -> Array:
    """The quantile of each number at its own share, as `percentiles`, ignoring replicates without a value."""
    ordered = np.sort(values, axis=0)
    last = np.isfinite(values).sum(0) - 1
    position = (np.nan_to_num(share) * (last + 2) - 1).clip(0, np.maximum(last, 0))
    lower = np.floor(position).astype(np.int64)
    upper = np.minimum(lower + 1, np.maximum(last, 0))
    below, above = (np.take_along_axis(ordered, at[None], 0)[0] for at in (lower, upper))
    with np.errstate(invalid="ignore"):
        quantile = below + (above - below) * (position - lower)
    return np.where((last < 0) | np.isnan(share), np.nan, quantile)


def _mean(values: Array) -> Array:
    """The mean over replicates that have a value; NaN if none has one."""
    known = np.isfinite(values)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.where(known, values, 0.0).sum(0) / known.sum(0))


def percentiles(values: Array, level: float) -> tuple[Array, Array, Array]:
    """The lower end, the median and the upper end over replicates, ignoring those without a value.

    A quantile has rank p (R + 1) among R replicates, so that two of them hold the share ``level`` of further
    replicates on average; by the usual definition of NumPy, of rank p (R - 1) + 1, they hold less (Davison & Hinkley
    1997, section 5.2).
    """
    shares = [(1 - level) / 2, 0.5, (1 + level) / 2]
    if not np.isnan(values).any():
        # A faster equivalent of the case below.
        low, median, high = np.quantile(values, shares, axis=0, method="weibull")
        return low, median, high
    # All-NaN slices are left out, since the warnings of nanquantile cannot be silenced per thread.
    known = ~np.isnan(values).all(0)
    ends = np.full((3, *known.shape), np.nan)
    if known.any():
        with np.errstate(invalid="ignore"):
            ends[:, known] = np.nanquantile(values[:, known], shares, axis=0, method="weibull")
    low, median, high = ends
    return low, median, high
