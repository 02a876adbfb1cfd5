"""The cut-off calibration error: a calibration error without bins, with an interval that needs no smoothness."""

from dataclasses import dataclass
from functools import cache
from typing import ClassVar, Literal, NamedTuple

import numpy as np
import scipy
from typing_extensions import override

from calibdask.estimators.about import About, Description, PartInfo
from calibdask.estimators.bounded_mean import BoundedMean
from calibdask.estimators.checks import check_choice
from calibdask.estimators.columns import ColumnEstimator
from calibdask.estimators.interval import KnownEnds
from calibdask.estimators.ordered.cumulative import exceeded_range
from calibdask.estimators.ordered.score_points import ScorePoints
from calibdask.estimators.parts import CalibrationError, Estimate
from calibdask.statistics.exact import Array
from calibdask.statistics.layout import Layout
from calibdask.statistics.request import Requests

# Beyond so many rows, of all columns together, the path is that of the cells of a fine grid: sorting costs more.
_MOST_ROWS = 1 << 18
# The sum of squared errors, in rows, from which the path of the errors is about that of a Brownian motion.
_FEWEST = 20.0
_WIDEST = 60.0

CutoffEnds = Literal["two-sided", "one-sided"]
CutoffMethod = Literal["brownian", "freedman"]


@dataclass(frozen=True, kw_only=True)
class CutoffError(ColumnEstimator):
    """Cut-off calibration error: the largest error on any interval of scores.

    ::

        sup over intervals I of | E[(o - s) 1{s in I}] |

    No policy that acts on scores between two cut-offs, or beyond one, is wrong by more than this share of all rows. The
    estimate R is the range of the path of cumulative errors, with rows in the order of their scores and ties grouped::

        C_k = sum_{i <= k} w_i (o_i - s_i) / sum w,  C_0 = 0,       R = max_k C_k - min_k C_k

    Parameters
    ----------
    ends : {"two-sided", "one-sided"}, default "two-sided"
        Coverage of an interval: both ends together with the probability level, or each end separately with the
        probability (1 + level) / 2. A limit needs only one end, which is then closer: `calibdask.check` takes these.
    method : {"brownian", "freedman"}, default "brownian"
        ``"freedman"``: ends that are valid for any number of rows, given the scores, and about twice as far away.
    setting : str, int or None
        ``"confidence"``, ``"binary"``, a class, ``"top-k"``, ``"classwise"`` (a value for each class); None: binary for
        a vector of scores, confidence for a matrix.
    k : int, optional
        Number of classes of the setting ``"top-k"``.

    Raises
    ------
    ValueError
        If a parameter is invalid.

    Notes
    -----
    The estimate is `ECCE` of kind ``"range"``; the number adds an interval. There are no bins, no bandwidth and no
    assumption on the curve. Oscillating errors count only if they do not cancel within every interval; errors that
    cancel cannot affect a decision. Units: a share of the rows, so that an error of 0.1 for a tenth of the rows is
    0.01.

    With ``ci``: the path is the true path plus noise, and R differs from the truth by at most the range of the noise.
    Given the scores the noise is a martingale whose variance is at most V = sum w**2 (o - s)**2 / (sum w)**2 on average
    (the Brier score over n), and approximately a time-changed Brownian motion. Sampled scores have a smaller
    covariance, so V is also valid for the population [1]_. Weights vary between samples too: with weights V is at least
    the variance of the error e of the interval I with the largest one, sum w**2 ((o - s) 1{s in I} - e)**2 / (sum
    w)**2. The ends are therefore

    - two-sided: R - q sqrt(V) and R + q sqrt(V), q the quantile of the range of a Brownian motion on [0, 1] [2]_, 2.50
      at 95 %;
    - one-sided: R - q sqrt(V) with q that of the level (1 + level) / 2, 2.73; and R + z sqrt(V) with the normal
      quantile z, 1.96, because R is at least the observed error of the interval whose true error is the largest;
    - with few rows or few events: the upper end is never below the limit of Clopper & Pearson for a mean of variance
      n V of values up to 1; the lower one is that of Freedman's inequality [3]_ where sum w**2 (o - s)**2 is below 20
      squares of the largest weight.

    ``method="freedman"``: with L = log(2 / alpha), S = sum (o - s)**2 and v = S + L + sqrt(L**2 + 2 L S) (which is
    below the variance of the path with a chance of alpha / 2 at most), the error of one interval exceeds
    (L / 3 + sqrt(L**2 / 9 + 2 L v)) / n with a chance of alpha / 2; for the range, twice that with L = log(4 / alpha).

    Near an isolated maximum the noise comes from a single difference: a two-sided 95 % interval covers up to 99 %. For
    calibrated models R has an expectation of about 1.6 sqrt(V): the interval begins at 0.

    One pass. Exact up to 262,144 rows (times columns); beyond that, and from a summary, the path is known at the ends
    of the cells of a fine grid, 1/3600 wide or less. It may leave the range of these values by at most ``grid_bound``
    (an attribute), which is added to the upper end: the two largest min(sum w o (1 - s), sum w (1 - o) s) of a cell
    over sum w, and 0 for cells of one score.

    References
    ----------
    .. [1] Rossellini, Soloff, Barber, Ren & Willett, Can a calibration metric be both testable and actionable?, 2025.
    .. [2] Feller, The asymptotic distribution of the range of sums of independent random variables, 1951.
    .. [3] Freedman, On tail probabilities for martingales, 1975.

    Examples
    --------
    >>> import numpy as np, calibdask as cd
    >>> rng = np.random.default_rng(0)
    >>> y_prob = rng.random(20_000)
    >>> y_true = rng.random(20_000) < y_prob**1.2
    >>> result = cd.evaluate(y_true, y_prob, cd.CutoffError(), ci=0.95)
    >>> [round(float(result[f"cutoff_error{end}"]), 3) for end in ("_low", "", "_high")]  # the truth is 0.0455
    [0.037, 0.044, 0.051]
    """

    about = About(
        "Cut-off calibration error",
        "The largest |sum w (o - s) 1{s in I}| / sum w over intervals I of scores: the range of the path of cumulative "
        "errors in order of the scores. No policy with one or two cut-offs is wrong by a larger share of the rows.",
        "Rossellini, Soloff, Barber, Ren & Willett, Can a calibration metric be both testable and actionable?, 2025",
        "cut-off error",
    )

    ends: CutoffEnds = "two-sided"
    method: CutoffMethod = "brownian"

    # Of more rows, cells of a grid take the place of scores.
    _most_rows: ClassVar[int | None] = _MOST_ROWS

    def __post_init__(self) -> None:
        check_choice("ends", self.ends, ("two-sided", "one-sided"))
        check_choice("method", self.method, ("brownian", "freedman"))
        super().__post_init__()

    @override
    def describe(self, layout: Layout) -> Description:
        return {"": PartInfo("largest error on any interval of scores, as a share of all rows", "error")}

    def interval(self, layout: Layout) -> KnownEnds:
        """Ends from the distribution of the range of the noise."""
        return KnownEnds()

    @override
    def estimate(self) -> Requests[Estimate]:
        layout = yield from Layout()
        setting = self.measured(layout)
        points = yield from ScorePoints(setting, most_rows=self._most_rows)
        fields = np.full((*points.shape, len(ErrorPath._fields)), np.nan)
        for index, at in points.strata():
            score, weight, outcome = points.score[at], points.weight[at], points.outcome[at]
            square, square_outcome = points.square[at], points.square_outcome[at]
            total = weight.sum()
            path = np.concatenate([[0.0], np.cumsum(outcome - weight * score) / total])
            squares = square_outcome * (1 - score) ** 2 + (square - square_outcome) * score**2
            errors = squares.sum()
            if layout.weighted:
                # Of the error of one interval, whose total weight varies between samples too.
                first, last = sorted((int(path.argmin()), int(path.argmax())))
                error, inside = path[last] - path[first], slice(first, last)
                product = (square_outcome - square * score)[inside].sum()
                errors = max(errors, squares[inside].sum() - 2 * error * product + error**2 * square.sum())
            excursion = np.zeros(1) if points.excursion is None else np.sort(points.excursion[at])[-2:]
            fields[index] = (
                path.max() - path.min(),
                max(0.0, errors) / total**2,
                (square / weight).max() / total,
                excursion.sum() / total,
            )
        by_class = ErrorPath(*(setting.by_class(values) for values in np.moveaxis(fields, -1, 0)))
        notes = {**points.notes, "assumes": "rows are independent"}
        if not points.exact:
            notes["grid_bound"] = float(np.nanmax(by_class.grid, initial=0.0))
        ends = CutoffInterval(by_class, self.ends, self.method)
        error = CalibrationError(
            by_class.range,
            setting.dims,
            notes,
            limits=(0.0, 1.0),
            known_ends=ends,
            ends_method=f"{self.method} {self.ends}",
            columns=by_class.range[..., None],
        )
        return {"": error}


class ErrorPath(NamedTuple):
    """Numbers of the path of cumulative errors.

    ``range``: R; ``variance``: V, an upper bound of the variance of its noise; ``largest``: the largest weight of a row
    over the sum; ``grid``: by how much the range may be larger than that at the ends of cells.
    """

    range: Array
    variance: Array
    largest: Array
    grid: Array


@dataclass(frozen=True)
class CutoffInterval:
    """Ends of the interval of a cut-off error, see `CutoffError`."""

    path: ErrorPath
    ends: CutoffEnds
    method: CutoffMethod

    def __call__(self, level: float) -> tuple[Array, Array]:
        """The lower and the upper end at a level."""
        chance = (1 - level) / 2
        low, high = self.few_rows_ends(chance) if self.method == "freedman" else self.many_rows_ends(level)
        return np.maximum(self.path.range - low, 0.0), np.minimum(self.path.range + high + self.path.grid, 1.0)

    def many_rows_ends(self, level: float) -> tuple[Array, Array]:
        """Distances of the two ends by the Brownian motion, with corrections for few rows and few events."""
        chance = (1 - level) / 2
        if self.ends == "two-sided":
            below = above = range_quantile(1 - level)
        else:
            below, above = range_quantile(chance), -float(scipy.special.ndtri(chance))
        deviation = np.sqrt(self.path.variance)
        with np.errstate(divide="ignore", invalid="ignore"):
            are_few = self.path.variance < _FEWEST * self.path.largest**2
            rows = 1 / self.path.largest
            mean = BoundedMean(self.path.range, self.path.variance * rows, rows, -1.0, 1.0)
            of_events = mean.upper(chance) - self.path.range
        low = np.where(are_few, self.few_rows_ends(chance)[0], below * deviation)
        return low, np.maximum(above * deviation, of_events)

    def few_rows_ends(self, chance: float) -> tuple[Array, Array]:
        """Distances of the two ends by Freedman's inequality, each exceeded with at most this probability."""
        return 2 * self._reach(chance / 4, chance / 2), self._reach(chance / 2, chance / 2)

    def _reach(self, chance: float, of_variance: float) -> Array:
        """Upper bound of a sum of errors with this probability, jointly with a bound of their variance."""
        logarithm, log_variance = -np.log(chance), -np.log(of_variance)
        with np.errstate(divide="ignore", invalid="ignore"):
            seen = self.path.variance / self.path.largest**2
        variance = seen + log_variance + np.sqrt(log_variance**2 + 2 * log_variance * seen)
        return self.path.largest * (logarithm / 3 + np.sqrt(logarithm**2 / 9 + 2 * logarithm * variance))


@cache
def range_quantile(chance: float) -> float:
    """Upper quantile of the range of a Brownian motion on [0, 1].

    Examples
    --------
    >>> round(range_quantile(0.05), 4), round(range_quantile(0.025), 4)
    (2.4977, 2.7344)
    """
    return float(scipy.optimize.brentq(lambda x: float(exceeded_range(np.asarray(x))) - chance, 0.1, _WIDEST))
