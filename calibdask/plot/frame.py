"""Frame of a reliability picture: limits and ticks of the axes, and notes on omitted data.

One place decides, and every picture follows: the report, the explorer, `calibdask.ReliabilityDisplay`, the terminal.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np

from calibdask.estimators.smooth.nearest_fit import EXPECTED, NEAR
from calibdask.estimators.smooth.score_axis import ScoreAxis
from calibdask.plot.style import TICKS
from calibdask.plot.svg import nice_ticks
from calibdask.results.format import counted, percent
from calibdask.results.reliability import Array, BinnedReliability, Drawn, SmoothReliability

Shown = BinnedReliability | SmoothReliability

# Room around the axes, as a share of them.
_ROOM = 0.02
_MOST_TICKS = 6
# Intervals may lengthen the vertical axis by so much of it.
_TALLER = 0.25
# The lowest and highest frequencies on the logit scale, in so many times the odds at the ends of the horizontal axis.
_STEEPER = 4.0
# Ticks of the logit scale: powers of ten, and more of them where these are few.
_ROUND, _HALF = (1.0, 2.0, 5.0), 0.5
_FEWEST_TICKS, _MOST_LOGIT_TICKS = 3, 8
# Nearer to 0 and 1 labels are powers of ten.
_SMALL = 0.00095


@dataclass(frozen=True)
class Frame:
    """The axes of a picture: that of the scores, and the least and largest frequency.

    Places are scores, or frequencies, on the scale of both axes.
    """

    axis: ScoreAxis
    low: float
    high: float

    @classmethod
    def of(cls, shown: Sequence[Shown]) -> Self:
        """The frame that holds all of these."""
        axes = [one.drawn.axis if one.drawn is not None else ScoreAxis() for one in shown] or [ScoreAxis()]
        logit = all(axis.logit for axis in axes)
        axis = ScoreAxis(logit, min(axis.left for axis in axes), max(axis.right for axis in axes))
        if axis == ScoreAxis():
            return cls(axis, 0.0, 1.0)
        values = np.concatenate([axis[1:3], *(_frequencies(one, axis) for one in shown)])
        ends = np.concatenate([np.zeros(0), *(_ends(one, axis) for one in shown)])
        if not logit:
            # A cut axis of small scores begins at 0, one of large scores ends at 1.
            low, high = float(values.min()), float(values.max())
            taller = _TALLER * (high - low)
            return cls(axis, max(low, 0.0), min(max(high, min(ends.max(initial=high), high + taller)), 1.0))
        # Frequencies of 0 and 1 have no logits: they stand at the edge.
        inside = np.r_[values, ends][(np.r_[values, ends] > 0) & (np.r_[values, ends] < 1)]
        odds = inside / (1 - inside)
        least, most = axis.left / (1 - axis.left), axis.right / (1 - axis.right)
        low_odds, high_odds = max(odds.min(), least / _STEEPER), min(odds.max(), most * _STEEPER)
        return cls(axis, float(low_odds / (1 + low_odds)), float(high_odds / (1 + high_odds)))

    @property
    def is_full(self) -> bool:
        """Whether both axes go from 0 to 1."""
        return not self.axis.logit and (self.axis.left, self.axis.right, self.low, self.high) == (0.0, 1.0, 0.0, 1.0)

    @cached_property
    def across(self) -> tuple[float, float]:
        """The ends of the horizontal axis in places, with a little room."""
        return self._roomy(self.axis.left, self.axis.right)

    @cached_property
    def upward(self) -> tuple[float, float]:
        """The ends of the vertical axis in places, with a little room."""
        return self._roomy(self.low, self.high)

    def _roomy(self, low: float, high: float) -> tuple[float, float]:
        start, end = self.axis.places(np.array([low, high])).tolist()
        room = _ROOM * (end - start)
        return start - room, end + room

    def x(self, scores: Array) -> Array:
        """Places of scores; NaN beyond the axis."""
        scores = np.asarray(scores, np.float64)
        inside = (scores >= self.axis.left) & (scores <= self.axis.right)
        return np.where(inside, self.axis.places(np.where(inside, scores, 0.5)), np.nan)

    def y(self, frequencies: Array) -> Array:
        """Places of frequencies; those beyond the axis stand at its edge."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(np.clip(self.axis.places(np.asarray(frequencies, np.float64)), *self.upward))

    def inside(self, bins: BinnedReliability) -> Array:
        """Mask of the bins with a mean score within the axis."""
        return np.asarray((bins.score >= self.axis.left) & (bins.score <= self.axis.right))

    @cached_property
    def diagonal(self) -> tuple[Array, Array]:
        """The ends of the diagonal in places."""
        both = max(self.across[0], self.upward[0]), min(self.across[1], self.upward[1])
        return np.array(both), np.array(both)

    @cached_property
    def x_ticks(self) -> list[tuple[float, str]]:
        """Places and labels of the ticks of the horizontal axis."""
        return self._ticks(self.axis.left, self.axis.right)

    @cached_property
    def y_ticks(self) -> list[tuple[float, str]]:
        """Places and labels of the ticks of the vertical axis."""
        return self._ticks(self.low, self.high)

    def _ticks(self, low: float, high: float) -> list[tuple[float, str]]:
        values = list(TICKS)
        if self.axis.logit:
            values = _logit_ticks(low, high)
        elif (low, high) != (0.0, 1.0):
            values = nice_ticks(low, high, _MOST_TICKS)
        places = self.axis.places(np.array(values)).tolist()
        return [(place, score_label(value)) for place, value in zip(places, values, strict=True)]

    def bars(self, drawn: Drawn) -> tuple[Array, Array]:
        """Positions of the edges, and heights, of the bars below the picture, which count rows."""
        with np.errstate(divide="ignore"):
            borders = self.axis.places(drawn.axis.spread(drawn.bars.size + 1))
        return np.clip(borders, *self.across), drawn.bars


def notes(shown: Mapping[str, Shown] | Shown) -> list[str]:
    """Sentences on the axis, the rows beyond it, the bins, and where there is no curve or interval; by name of several.

    Examples
    --------
    >>> import numpy as np
    >>> import calibdask as cd
    >>> from calibdask.estimators.smooth.adaptive import AdaptiveDiagram
    >>> scores = np.r_[np.linspace(0.0, 0.3, 995), np.linspace(0.31, 0.9, 5)]
    >>> result = cd.evaluate(np.arange(1000) % 10 == 0, scores, {"d": AdaptiveDiagram()})
    >>> notes(BinnedReliability.of(result, "d"))
    ['Axis to 0.3, the 99.5th percentile: 5 rows beyond.']
    """
    if not isinstance(shown, Mapping):
        return list(_notes(shown))
    named = [(name, sentence) for name, one in shown.items() for sentence in _notes(one)]
    # What is true of all is said once.
    common = [sentence for name, sentence in named if [other for _, other in named].count(sentence) == len(shown)]
    return [
        *dict.fromkeys(common),
        *(f"{name}: {sentence[0].lower()}{sentence[1:]}" for name, sentence in named if sentence not in common),
    ]


def _notes(shown: Shown) -> Iterator[str]:
    drawn = shown.drawn
    if drawn is None:
        return
    axis = drawn.axis
    below, above = (counted(int(rows), "row") for rows in (axis.below, axis.above))
    left, right = score_label(axis.left), score_label(axis.right)
    if axis.logit:
        beyond = f"; {below} below, {above} above" if axis.below or axis.above else ""
        yield f"Logit scale, {left} to {right}{beyond}."
    else:
        if axis.left > 0:
            what = f"the 0.5th percentile: {below} beyond" if axis.below else "the smallest score"
            yield f"Axis from {left}, {what}."
        if axis.right < 1:
            what = f"the 99.5th percentile: {above} beyond" if axis.above else "the largest score"
            yield f"Axis to {right}, {what}."
    if isinstance(shown, BinnedReliability):
        if drawn.equal_masses:
            yield "Bins of equal mass."
        if axis.logit:
            on = Frame.of([shown]).inside(shown)
            edge = int(((shown.outcome[on] <= 0) | (shown.outcome[on] >= 1)).sum())
            if edge:
                yield f"{counted(edge, 'point')} at the edge: frequency 0 or 1."
        return
    known = np.isfinite(shown.reliability)
    few = f"{NEAR} rows" + f", or {EXPECTED} expected events," * axis.logit
    if not known.any():
        yield f"No curve: nowhere are {few} near."
    elif not (known[1:] & known[:-1]).any():
        yield "No curve: the scores take too few values."
    elif not known[1:-1].all():
        yield f"No curve where under {few} are near."


def interval_name(shown: Shown) -> str:
    """Name of the error bars or band; empty without intervals."""
    if not shown.has_interval:
        return ""
    level = "" if shown.level is None else f"{percent(shown.level)} "
    return f"{level}confidence {'interval' if isinstance(shown, BinnedReliability) else 'band'}"


def _frequencies(shown: Shown, axis: ScoreAxis) -> Array:
    """The frequencies on the axis."""
    values = shown.outcome if isinstance(shown, BinnedReliability) else shown.reliability
    return values[_on(shown, axis) & np.isfinite(values)]


def _ends(shown: Shown, axis: ScoreAxis) -> Array:
    """The ends of intervals on the axis."""
    ends = np.concatenate([of[_on(shown, axis)] for of in (shown.low, shown.high)])
    return ends[np.isfinite(ends)]


def _on(shown: Shown, axis: ScoreAxis) -> Array:
    return np.asarray((shown.score >= axis.left) & (shown.score <= axis.right))


def score_label(score: float) -> str:
    """A score in few characters, also next to 0 and 1.

    Examples
    --------
    >>> score_label(0.25), score_label(0.0001), score_label(0.99999), score_label(0.0)
    ('0.25', '1e-4', '1−1e-5', '0')
    """
    if 0 < score < _SMALL:
        return f"{score:.1e}".replace("e-0", "e-").replace(".0e", "e")
    return f"1−{score_label(1 - score)}" if 0 < 1 - score < _SMALL else f"{score:.3g}"


def _logit_ticks(low: float, high: float) -> list[float]:
    """Round probabilities between these, in the steps 1, 2, 5 of odds where there are few."""
    for factors in ((1.0,), _ROUND):
        small = [factor * 10.0**power for power in range(-9, 0) for factor in factors if factor * 10.0**power < _HALF]
        values = [float(f"{value:.6g}") for value in (*small, _HALF, *(1 - value for value in reversed(small)))]
        inside = [value for value in values if low <= value <= high]
        if len(inside) >= _FEWEST_TICKS:
            break
    step = -(-len(inside) // _MOST_LOGIT_TICKS)
    return inside[::step] if step > 1 else inside
