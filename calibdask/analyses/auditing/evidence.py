"""Evidence against calibration from the cells of segments: p-values and e-values that hold for any number of rows.

Under the null hypothesis that every outcome has the probability that its score says, the sum Y of outcomes of a segment
is a sum of independent Bernoulli variables. Bounds of its tails are valid for 30 rows of rare outcomes as for 10**9,
and however segments overlap. Weights may depend on the outcome for Chernoff's bound and for e-values, whose expectation
is at most 1 if that of sum w (o - s) is 0, since a**u <= 1 + u (a - 1) for u = w / max w.

Of rows in clusters only clusters are independent. Each row has the weight 1 / m, where m is the number of rows of its
cluster, and the weights of a cluster add up to at most 1 in every segment. By Hoelder's inequality within each cluster,
E exp(t sum w o) <= prod (1 + (e**t - 1) s)**w for every dependence and every t: Chernoff's bound and the e-values hold
for the weighted sums. By that of Cauchy and Schwarz, the variance of sum w h (o - s) is at most sum w h**2 s (1 - s).
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy

from calibdask.estimators.sampling_variance import share_of
from calibdask.inference.sequential.single_look import rate_ends
from calibdask.statistics.exact import Array

# Tilts of the log-odds over which e-values are a mean: for shifts that are found in 10**8 rows, and in a hundred.
TILTS = np.array([0.01, 0.03, 0.1, 0.25, 0.5, 1.0, 2.0])
TILTS = np.r_[-TILTS[::-1], TILTS]
_STEPS, _LONGEST_STEP, _CLOSE = 25, 1.5, 1e-6


class SegmentCells(NamedTuple):
    """Sums of segments by cell of scores, (segments, cells), and by segment.

    ``weight``, ``outcome``, ``score``: sums of w, w o, w s; ``rows`` and ``events``; by segment ``spread``, the sum of
    w**2 s (1 - s), ``weight_square`` and ``outcome_square`` of w**2 and w**2 o. ``largest`` weight, 1 without weights;
    ``weighted``. With ``clustered``, w is 1 / m and w stands for w**2, see `of_clusters`.
    """

    weight: Array
    outcome: Array
    score: Array
    rows: Array
    events: Array
    spread: Array
    weight_square: Array
    outcome_square: Array
    largest: float
    weighted: bool
    clustered: bool = False

    @classmethod
    def of_clusters(cls, weight: Array, outcome: Array, score: Array, rows: Array, events: Array) -> "SegmentCells":
        """Sums with the weights 1 / m of rows in clusters of m rows.

        In sums of squares w stands for w**2: variances are then bounds for any dependence within clusters. Scores of
        ``spread`` are at the mean of their cell, which can only raise it.
        """
        cells = cls(weight, outcome, score, rows, events, *(np.zeros(0),) * 3, 1.0, weighted=False, clustered=True)
        spread = (weight * cells.mean * (1 - cells.mean)).sum(-1)
        return cells._replace(spread=spread, weight_square=weight.sum(-1), outcome_square=outcome.sum(-1))

    @property
    def mean(self) -> Array:
        """Mean score of each cell; 0 without rows."""
        return np.divide(self.score, self.weight, out=np.zeros_like(self.score), where=self.weight > 0)

    @property
    def effective_rows(self) -> Array:
        """Number of equally weighted rows whose share of outcomes has an equal sampling variance.

        Where all outcomes are equal, the other one is allowed the largest weight of all.
        """
        weight, outcome = self.weight.sum(-1), self.outcome.sum(-1)
        if not self.weighted:
            return np.asarray(weight)
        rows = share_of(weight, self.weight_square, outcome, self.outcome_square).effective_rows
        differ = (self.events.sum(-1) > 0) & (self.events.sum(-1) < self.rows.sum(-1))
        return np.where(differ, rows, weight / self.largest)

    def residual_squares(self) -> Array:
        """The sums of w**2 (o - s)**2 by segment, if weights depend on the outcome only.

        The scores of a cell are at their mean.
        """
        mean, others = self.mean, self.weight - self.outcome
        kinds = (
            (self.outcome, (1 - mean) ** 2, self.outcome_square),
            (others, mean**2, self.weight_square - self.outcome_square),
        )
        with np.errstate(divide="ignore", invalid="ignore"):
            parts = [square * (weight * residual).sum(-1) / weight.sum(-1) for weight, residual, square in kinds]
        return np.asarray(np.nan_to_num(parts[0]) + np.nan_to_num(parts[1]))

    @classmethod
    def joined(cls, parts: Sequence["SegmentCells"]) -> "SegmentCells":
        """The segments of all parts, one part after the other."""
        sums: dict[str, Any] = {
            name: np.concatenate([getattr(part, name) for part in parts]) for name in cls._of_segments()
        }
        return parts[0]._replace(**sums)

    @classmethod
    def _of_segments(cls) -> tuple[str, ...]:
        """The fields that have an axis of segments."""
        return cls._fields[: cls._fields.index("largest")]

    def at(self, segments: slice | npt.NDArray[np.intp]) -> "SegmentCells":
        """Some of the segments."""
        return self._replace(**{name: getattr(self, name)[segments] for name in self._of_segments()})


def pvalues(cells: SegmentCells) -> Array:
    """Two-sided p-values of the sum of outcomes of each segment, by bounds of its tail: twice the smaller one.

    Of the bounds that hold for the tail each is taken where it is the smallest: Chernoff's over the cells,
    min over t of exp(-t Y) prod (1 + (e**t - 1) s)**N, and that of the binomial distribution with the mean score
    (Hoeffding 1956), with weights that of Bernstein; of clusters Chernoff's alone.

    Examples
    --------
    >>> rows, events, score = (np.array([[number]]) for number in (100.0, 45.0, 30.0))
    >>> cells = SegmentCells(
    ...     rows, events, score, rows, events, np.array([21.0]), rows[0], events[0], 1.0, weighted=False
    ... )
    >>> float(pvalues(cells)[0].round(4))
    0.0022
    """
    outcome, expected = cells.outcome.sum(-1), cells.score.sum(-1)
    log_tail = _log_chernoff(cells)
    if not cells.clustered:
        log_tail = np.minimum(log_tail, _log_bernstein(cells) if cells.weighted else _log_binomial(cells))
    return np.where(outcome == expected, 1.0, np.minimum(1.0, 2 * np.exp(log_tail)))


def log_e_values(cells: SegmentCells) -> Array:
    """Logarithms of e-values: the mean over fixed tilts t of prod (e**(t o) / (1 + (e**t - 1) s)) over rows.

    From the mean scores of cells, which can only lower them (Jensen); weights are exponents w / max w.
    """
    weight, outcome, mean = cells.weight / cells.largest, cells.outcome.sum(-1) / cells.largest, cells.mean
    logs = [tilt * outcome - (weight * np.log1p(np.expm1(tilt) * mean)).sum(-1) for tilt in TILTS.tolist()]
    return np.asarray(scipy.special.logsumexp(logs, axis=0) - np.log(TILTS.size))


def _log_chernoff(cells: SegmentCells) -> Array:
    """The logarithm of Chernoff's bound of the tail that the sum of outcomes lies in; any tilt gives a bound."""
    weight, mean = cells.weight / cells.largest, cells.mean
    outcome = cells.outcome.sum(-1) / cells.largest
    tilt = np.zeros(outcome.size)
    # Newton's method; each segment stops by itself, and what else is computed changes nothing.
    going = np.arange(outcome.size)
    for _ in range(_STEPS):
        factor = np.exp(tilt[going])[:, None]
        tilted = mean[going] * factor / (1 + (factor - 1) * mean[going])
        slope, curvature = (weight[going] * tilted).sum(-1), (weight[going] * tilted * (1 - tilted)).sum(-1)
        step = np.divide(outcome[going] - slope, curvature, out=np.zeros(going.size), where=curvature > 0)
        tilt[going] += np.clip(step, -_LONGEST_STEP, _LONGEST_STEP)
        going = going[np.abs(step) > _CLOSE]
        if not going.size:
            break
    log_bound = (weight * np.log1p(np.expm1(tilt)[:, None] * mean)).sum(-1) - tilt * outcome
    return np.minimum(log_bound, 0.0)


def _log_binomial(cells: SegmentCells) -> Array:
    """The logarithm of the tail of the binomial distribution, which bounds that of the sum one step from its mean."""
    rows, events, expected = cells.rows.sum(-1), cells.events.sum(-1), cells.score.sum(-1)
    share = np.clip(np.divide(expected, rows, out=np.zeros_like(rows), where=rows > 0), 0.0, 1.0)
    with np.errstate(divide="ignore"):
        above = np.log(scipy.special.betainc(np.maximum(events, 1), rows - events + 1, share))
        below = np.log(scipy.special.betainc(np.maximum(rows - events, 1), events + 1, 1 - share))
    return np.where(events >= expected + 1, above, np.where(events <= expected - 1, below, 0.0))


def _log_bernstein(cells: SegmentCells) -> Array:
    """The logarithm of Bernstein's bound, of weighted sums.

    Its variance is that if weights do not depend on outcomes, or the one observed where that is larger.
    """
    deviation = np.abs(cells.outcome.sum(-1) - cells.score.sum(-1))
    variance = np.maximum(cells.spread, cells.residual_squares())
    return -(deviation**2) / (2 * (variance + cells.largest * deviation / 3)).clip(min=np.finfo(np.float64).tiny)


def simultaneous_ends(cells: SegmentCells, alpha: float) -> tuple[Array, Array]:
    """Ends of the offsets of all segments together: of Clopper & Pearson at alpha / segments, less the mean score.

    For independent outcomes of any probabilities (Hoeffding 1956); with weights those of the effective rows; of
    clusters `chernoff_ends`.
    """
    if cells.clustered:
        return chernoff_ends(cells, alpha / max(1, len(cells.weight)))
    total, rows = cells.weight.sum(-1), cells.effective_rows
    frequency, mean = cells.outcome.sum(-1) / total, cells.score.sum(-1) / total
    events, tail = rows * frequency, alpha / (2 * max(1, rows.size))
    low = np.where(events > 0, scipy.special.betaincinv(np.maximum(events, 1e-300), rows - events + 1, tail), 0.0)
    left = np.maximum(rows - events, 0.0)
    high = np.where(left > 0, scipy.special.betaincinv(events + 1, np.maximum(left, 1e-300), 1 - tail), 1.0)
    return low - mean, high - mean


def chernoff_ends(cells: SegmentCells, alpha: float) -> tuple[Array, Array]:
    """Ends of the offsets of segments of clusters, by Chernoff's bound for the frequency, less the mean score.

    Whatever the probabilities of outcomes, with the weighted mean mu, and however they depend within clusters, the sum
    of W weighted rows has E exp(t Y) <= (1 + (e**t - 1) mu)**W. The ends are the mu with W KL(frequency, mu) = log(2 /
    alpha).

    Examples
    --------
    >>> weight, outcome, score = np.array([[50.0]]), np.array([[10.0]]), np.array([[10.0]])
    >>> cells = SegmentCells.of_clusters(weight, outcome, score, weight, outcome)
    >>> [round(float(end[0]), 3) for end in chernoff_ends(cells, 0.05)]
    [-0.121, 0.178]
    """
    total = cells.weight.sum(-1)
    mean = cells.score.sum(-1) / total
    low, high = rate_ends(cells.outcome.sum(-1) / total, total, alpha)
    return low - mean, high - mean
