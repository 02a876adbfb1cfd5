"""Ends of intervals of numbers, from the values that they take in replicates of the data."""

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from scipy import special

from calibdask.estimators.estimator import Part
from calibdask.statistics.exact import Array

__all__ = [
    "GROUPS",
    "Method",
    "Replicates",
    "checked_method",
    "number_ends",
    "percentiles",
    "sign_pvalue",
]

Method = Literal["corrected", "percentile", "bca"]
# Groups of rows that a jackknife leaves out.
GROUPS = 100


@dataclass(frozen=True)
class Replicates:
    """Values of one number in replicates of the data, each (replicates, *shape of the number).

    ``values`` of resampled rows; ``chance`` of a calibrated model with the same scores; ``left_out`` without one group
    of rows at a time. ``centre`` is the value of what was resampled; ``what`` it was: rows or a histogram.
    """

    values: Array
    centre: Array
    what: str
    chance: Array | None = None
    left_out: Array | None = None


def checked_method(method: object) -> None:
    """Raise ValueError if this is no method."""
    if method is not None and method not in get_args(Method):
        raise ValueError(f"ci_method expects one of {', '.join(map(repr, get_args(Method)))} or None, got {method!r}.")


def _method_of(method: Method | None, part: Part) -> Method:
    """The method given, or the one that suits the number."""
    return method or ("corrected" if part.biased or part.columns is not None else "percentile")


def _kept(estimate: Part, replicates: Replicates) -> Part:
    """The values of all replicates, along a last dimension ``replicate``."""
    values = np.moveaxis(replicates.values + (estimate.values - replicates.centre), 0, -1)
    return Part(values, (*estimate.dims, "replicate"), notes={"resampled": replicates.what}, role="given")


def number_ends(
    estimate: Part, replicates: Replicates, level: float, method: Method | None, keep: bool = False
) -> dict[str, Part]:
    """Parts ``low`` and ``high`` of the estimate, and ``replicates`` if these are to be kept."""
    chosen = _method_of(method, estimate)
    low, high = {"corrected": _corrected, "percentile": _percentile, "bca": _bca}[chosen](replicates, level)
    # Where a histogram stands for the rows, what it tells may differ by rounding or by where edges lie.
    low, high = (end + (estimate.values - replicates.centre) for end in (low, high))
    if chosen == "corrected" and replicates.chance is not None:
        by_chance = percentiles(replicates.chance, level)[2]
        low = np.where(estimate.values <= by_chance, np.minimum(estimate.limits[0], low), low)
    least, most = estimate.limits
    notes = {"interval": chosen, "resampled": replicates.what}
    ends = {"low": np.maximum(low, least), "high": np.minimum(high, most)}
    parts = {end: Part(values, estimate.dims, notes=notes) for end, values in ends.items()}
    return parts | {"replicates": _kept(estimate, replicates)} if keep else parts


def _percentile(replicates: Replicates, level: float) -> tuple[Array, Array]:
    low, _, high = percentiles(replicates.values, level)
    return low, high


def _corrected(replicates: Replicates, level: float) -> tuple[Array, Array]:
    """The value give or take the larger distance of the two percentiles from it.

    A calibration error of resampled data exceeds that of the data as that one exceeds the true error: by what noise
    adds to absolute values. The upper percentile is therefore the farther one, and the true error is to be looked for
    as far below the estimate.
    """
    low, _, high = percentiles(replicates.values, level)
    reach = np.maximum(np.maximum(high - replicates.centre, replicates.centre - low), 0.0)
    return replicates.centre - reach, replicates.centre + reach


def _bca(replicates: Replicates, level: float) -> tuple[Array, Array]:
    """Percentiles at levels that are corrected for median bias and for skewness (Efron 1987)."""
    values, left_out = replicates.values, replicates.left_out
    if left_out is None:
        raise ValueError("The method 'bca' needs replicates without some rows.")
    bias, skewness = _quantile_below(values, replicates.centre), _acceleration(left_out)
    ends = []
    with np.errstate(invalid="ignore", divide="ignore"):
        for z in special.ndtri([(1 - level) / 2, (1 + level) / 2]):
            shifted = bias + z
            # Far out the correction turns around: from there on the outermost replicate is the end.
            scale = 1 - skewness * shifted
            ends.append(_quantile(values, special.ndtr(np.where(scale > 0, bias + shifted / scale, np.inf * shifted))))
    return ends[0], ends[1]


def _quantile_below(values: Array, point: Any) -> Array:
    """The normal quantile of the share of replicates below a point, ties counted half; finite."""
    count = np.maximum(np.isfinite(values).sum(0), 1)
    below = (values < point).sum(0) + (values == point).sum(0) / 2
    return np.asarray(special.ndtri((below / count).clip(0.5 / count, 1 - 0.5 / count)), np.float64)


def _acceleration(left_out: Array) -> Array:
    """A sixth of the skewness, as the jackknife tells it."""
    with np.errstate(invalid="ignore", divide="ignore"):
        # The mean of what is there; not nanmean, whose warnings of empty places no thread can silence for itself.
        distance = np.nansum(left_out, axis=0) / (~np.isnan(left_out)).sum(0) - left_out
        square = np.nansum(distance**2, axis=0)
        return np.where(square > 0, np.nansum(distance**3, axis=0) / (6 * square**1.5), 0.0)


def sign_pvalue(replicates: Replicates, method: Method) -> Array:
    """Two-sided p-value of the number being 0, from replicates of it: 1 less the level whose interval ends there.

    Of percentiles min(1, 2 (1 + min(#{d* <= 0}, #{d* >= 0})) / (R + 1)); of BCa that at the corrected levels, not less
    than 2 / (R + 1) either. Replicates without a value, of few rows, speak for both sides. NaN where the number does
    not exist.
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
        found = 2 * special.ndtr(-np.abs(z))
        found = np.where((values == 0).all(0), 1.0, found)
    else:
        found = least + 2 / (len(values) + 1) * np.minimum((values <= 0).sum(0), (values >= 0).sum(0))
    return np.where(np.isfinite(replicates.centre), np.maximum(found, least).clip(max=1.0), np.nan)


def _quantile(values: Array, share: Any) -> Array:
    """The quantile of each number at its own share, by linear interpolation, replicates without a value left out."""
    ordered = np.sort(values, axis=0)
    last = np.isfinite(values).sum(0) - 1
    position = np.nan_to_num(share) * np.maximum(last, 0)
    lower = np.floor(position).astype(np.int64)
    upper = np.minimum(lower + 1, np.maximum(last, 0))
    below, above = (np.take_along_axis(ordered, at[None], 0)[0] for at in (lower, upper))
    with np.errstate(invalid="ignore"):
        found = below + (above - below) * (position - lower)
    return np.where((last < 0) | np.isnan(share), np.nan, found)


def percentiles(values: Array, level: float) -> tuple[Array, Array, Array]:
    """The lower end, the median and the upper end over replicates, those left out that have no value."""
    shares = [(1 - level) / 2, 0.5, (1 + level) / 2]
    if not np.isnan(values).any():
        # What the other way finds as well, place by place.
        low, median, high = np.quantile(values, shares, axis=0)
        return low, median, high
    # Places without any value are left out: nanquantile warns of them, which no thread can silence for itself.
    known = ~np.isnan(values).all(0)
    ends = np.full((3, *known.shape), np.nan)
    if known.any():
        with np.errstate(invalid="ignore"):
            ends[:, known] = np.nanquantile(values[:, known], shares, axis=0)
    low, median, high = ends
    return low, median, high
