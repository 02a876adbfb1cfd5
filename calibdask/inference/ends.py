"""Ends of intervals, and bands, of the parts of an estimate."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from calibdask.estimators.parts import Estimate, FixedPart, Number, Part, estimated
from calibdask.inference.choice import IntervalChoice
from calibdask.inference.methods import NumberReplicates, method_of, number_ends, percentiles
from calibdask.statistics.exact import Array

# Name of the bound (low, high, median, band_low, band_high, replicates) -> its values.
Bounds = Mapping[str, Part]


def bounds_of_number(number: Number, replicates: NumberReplicates, choice: IntervalChoice) -> dict[str, Part]:
    """``low`` and ``high``, and ``replicates`` if they are kept."""
    chosen = method_of(choice.method, number)
    bounds = _named_ends(number, number_ends(replicates, number, choice.level, chosen), chosen, replicates.resampled)
    if choice.keep:
        values = np.moveaxis(replicates.values + (number.values - replicates.centre), 0, -1)
        bounds["replicates"] = FixedPart(values, (*number.dims, "replicate"), {"resampled": replicates.resampled})
    return bounds


def bounds_of_curve(curve: Number, values: Array, level: float) -> dict[str, Part]:
    """Pointwise ends, the median, and a band that contains whole curves, from replicates (replicates, *shape).

    The pointwise ends are percentiles around the median, or the known ends of the curve.
    """
    low, median, high = percentiles(values, level)
    centre = median
    if curve.known_ends is not None:
        low, high = curve.known_ends(level)
        # Without rows within reach there is no fit, but still an interval.
        centre = np.where(np.isfinite(curve.values), curve.values, (low + high) / 2)
    factor = _widening(values, centre, low, high, level)
    least, most = curve.limits
    bounds = {
        "low": low,
        "high": high,
        "median": median,
        "band_low": np.maximum(np.where(factor > 1, centre - factor * (centre - low), low), least),
        "band_high": np.minimum(np.where(factor > 1, centre + factor * (high - centre), high), most),
    }
    return {name: Number(limit, curve.dims) for name, limit in bounds.items()}


def known_bounds(estimate: Estimate, level: float) -> dict[str, Bounds]:
    """The ends of numbers whose ends are given by a formula, by the name of the part."""
    return {
        name: _named_ends(number, number.known_ends(level), number.ends_method, "nothing")
        for name, number in estimated(estimate).items()
        if number.known_ends is not None
    }


def where_outcomes_differ(bounds: Bounds, frequency: Part) -> Bounds:
    """Drop the replicated ends of slices whose outcomes, (batch, groups, *dims), are all 0 or all 1.

    Replicates of such rows have the same outcomes: the loss of any other outcome, which makes most of the variance of a
    score where it is rare, shows in none of them.
    """
    differ = (frequency.values > 0) & (frequency.values < 1)
    return {name: where(end, differ) if is_replicated(end) else end for name, end in bounds.items()}


@dataclass(frozen=True)
class ConstantOutcomeSlices:
    """Slices whose outcomes are all alike, by (batch, groups, columns), and their rows, NaN with weights.

    Of n such rows the other outcome has at most the probability u = 1 - ((1 - level) / 2)**(1 / n).
    """

    alike: npt.NDArray[np.bool_]
    rows: Array

    def bounds(self, bounds: Bounds, level: float, *, is_mean_gap: bool) -> Bounds:
        """Bounds of an error; slices with constant outcomes get bounds without replicates.

        A mean over rows of |P(o = 1 | s) - s|, binned or smoothed, is at most u away from what it would be if the other
        outcome never occurred, which is what was measured: the ends are moved by u. Other errors have none.
        """
        return {name: self._end(end, name, level, is_mean_gap) for name, end in bounds.items()}

    def notes(self, part: Part, bounds: Bounds, *, is_mean_gap: bool) -> Part:
        """Add a note to the error if its interval does not come from replicates."""
        count = int(self._of(part).sum())
        if not count or not any(is_replicated(end) for end in bounds.values()):
            return part
        slices = "" if count == self._of(part).size else f" ({count} of {self._of(part).size})"
        ends = "the interval allows for the largest rate of the other outcome that cannot be ruled out"
        if not is_mean_gap or np.isnan(self.rows).any():
            ends = "there is no interval"
        return replace(part, notes={**part.notes, "no_replicates": f"where all outcomes are equal{slices} {ends}"})

    def _of(self, part: Part) -> npt.NDArray[np.bool_]:
        """Of the columns that a part has, or of all together."""
        per_class = part.values.ndim == self.alike.ndim and part.values.shape == self.alike.shape
        return self.alike if per_class else np.asarray(self.alike.all(-1))

    def _end(self, end: Part, name: str, level: float, is_mean_gap: bool) -> Part:
        alike = self._of(end)
        if name not in ("low", "high") or not is_replicated(end) or alike.ndim != end.values.ndim:
            return end
        moved = np.full(end.values.shape, np.nan)
        if is_mean_gap:
            rows = self.rows.reshape(*self.rows.shape, *(1,) * (end.values.ndim - 2))
            with np.errstate(divide="ignore"):
                # A slice without rows has no end: its mean is NaN.
                reach = -np.expm1(np.log((1 - level) / 2) / rows)
            moved = np.clip(end.values + (reach if name == "high" else -reach), 0.0, 1.0)
        return replace(end, values=np.where(alike, moved, end.values))


def is_replicated(end: Part) -> bool:
    """Whether an end comes from replicates rather than from a formula."""
    return end.notes.get("resampled", "nothing") != "nothing"


def where(end: Part, known: npt.NDArray[np.bool_]) -> Part:
    """The end where that is known, by (batch, groups) and by the first of its dimensions if both have it; else NaN."""
    if known.ndim > end.values.ndim:
        known = known.max(-1)
    known = known.reshape(*known.shape, *(1,) * (end.values.ndim - known.ndim))
    return replace(end, values=np.where(known, end.values, np.nan))


def _named_ends(number: Number, ends: tuple[Array, Array], interval: str, resampled: str) -> dict[str, Part]:
    notes = {"interval": interval, "resampled": resampled}
    return {bound: Number(values, number.dims, notes) for bound, values in zip(("low", "high"), ends, strict=True)}


def _widening(values: Array, centre: Array, low: Array, high: Array, level: float) -> Array:
    """The factor, 1 or more, by which pointwise intervals must be widened to contain whole replicates, (..., 1).

    Positions where some replicates have no curve are ignored.
    """
    steady = np.isfinite(values).all(0)
    with np.errstate(invalid="ignore", divide="ignore"):
        above = np.where(steady & (high > centre), (values - centre) / (high - centre), 0.0)
        below = np.where(steady & (low < centre), (centre - values) / (centre - low), 0.0)
    farthest = np.maximum(above, below).max(-1)
    return np.maximum(np.quantile(farthest, level, axis=0, method="higher"), 1.0)[..., None]
