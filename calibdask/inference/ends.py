"""Ends of intervals, and bands, of the parts of an estimate."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from calibdask.estimators.bounded_mean import BoundedMean
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


_ALIKE, _RIGHT = "where all outcomes are equal", "where no score is on the wrong side of 1/2"
_WRONG_ONES = "the interval allows for the largest rate of wrong predictions that the rows do not rule out"


def where_outcomes_differ(bounds: Bounds, frequency: Part) -> Bounds:
    """Drop the replicated ends of slices whose outcomes, (batch, groups, *dims), are all 0 or all 1.

    Replicates of such rows have the same outcomes: the loss of any other outcome, which makes most of the variance of a
    score where it is rare, shows in none of them.
    """
    differ = (frequency.values > 0) & (frequency.values < 1)
    return {name: where(end, differ) if is_replicated(end) else end for name, end in bounds.items()}


@dataclass(frozen=True)
class UnseenOutcomes:
    """Slices whose outcomes are all alike, or without a score on the wrong side of 1/2, by (batch, groups, columns).

    ``rows``: independent rows, or as many equal clusters as theirs are worth; NaN with weights. In n such rows the
    other outcome, or one on the other side of 1/2 than its score, has at most the probability
    u = 1 - ((1 - level) / 2)**(1 / n).
    """

    alike: npt.NDArray[np.bool_]
    right: npt.NDArray[np.bool_]
    rows: Array

    @classmethod
    def of(cls, outcomes: Estimate, rows: Array) -> "UnseenOutcomes":
        """From an estimate of `calibdask.estimators.constant_outcomes.ConstantOutcomes`."""
        return cls(outcomes["alike"].values, outcomes["right"].values, rows)

    @property
    def untold(self) -> npt.NDArray[np.bool_]:
        """Slices of either kind."""
        return self.alike | self.right

    def bounds(self, bounds: Bounds, level: float, *, is_mean_gap: bool) -> Bounds:
        """Bounds of an error; such slices get bounds without replicates.

        A mean over rows of |P(o = 1 | s) - s|, binned or smoothed, is at most u away from what it would be if that
        outcome never occurred, which is what was measured: the ends are moved by u. Other errors have none.
        """
        return {name: self._end(end, name, level, is_mean_gap) for name, end in bounds.items()}

    def notes(self, part: Part, bounds: Bounds, *, is_mean_gap: bool) -> Part:
        """Add a note to the error if its interval does not come from replicates."""
        where_untold = self._described(part)
        if not where_untold or not any(is_replicated(end) for end in bounds.values()):
            return part
        ends = "the interval allows for the largest rate of the other outcome that cannot be ruled out"
        if not is_mean_gap or np.isnan(self.rows).any():
            ends = "there is no interval"
        return replace(part, notes={**part.notes, "no_replicates": f"{where_untold} {ends}"})

    def loss_bounds(
        self, part: Part, bounds: Bounds, level: float, span: tuple[float, float] | None
    ) -> tuple[Part, Bounds]:
        """A score or a term of one, and its bounds where no score is on the wrong side of 1/2.

        Replicates have no loss of a wrong one, which is most of the variance where they are rare. A mean over rows with
        losses within ``span`` has the limits of Clopper & Pearson, all others none.
        """
        right = self._of(part, self.right)
        if not right.any() or not any(is_replicated(end) for end in bounds.values()):
            return part, bounds
        where_right = _RIGHT + ("" if right.all() else f" ({int(right.sum())} of {right.size})")
        ends = {name: np.full(part.values.shape, np.nan) for name in bounds}
        note = {"no_interval": f"{where_right}: resampling cannot show what a wrong one costs"}
        if span is not None and np.isfinite(span).all() and not np.isnan(self.rows).any():
            rows = self.rows.reshape(*self.rows.shape, *(1,) * (part.values.ndim - 2))
            low, high = BoundedMean(part.values, 0.0, np.maximum(rows, 1), *span).ends(level)
            ends |= {"low": np.fmin(low, bounds["low"].values), "high": np.fmax(high, bounds["high"].values)}
            note = {"no_replicates": f"{where_right} {_WRONG_ONES}"}
        moved = {
            name: replace(end, values=np.where(right, ends[name], end.values)) if is_replicated(end) else end
            for name, end in bounds.items()
        }
        return replace(part, notes={**part.notes, **note}), moved

    def _described(self, part: Part) -> str:
        """Where there are such slices, and how many of how many; empty if there are none."""
        untold = self._of(part, self.untold)
        if not untold.any():
            return ""
        kinds = ((_ALIKE, self.alike), (_RIGHT, self.right))
        words = " or ".join(text for text, of in kinds if of.any())
        return words if untold.all() else f"{words} ({int(untold.sum())} of {untold.size})"

    def _of(self, part: Part, slices: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        """Of the columns that a part has, or of all together."""
        per_class = part.values.ndim == slices.ndim and part.values.shape == slices.shape
        return slices if per_class else np.asarray(slices.all(-1))

    def _end(self, end: Part, name: str, level: float, is_mean_gap: bool) -> Part:
        alike = self._of(end, self.untold)
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
