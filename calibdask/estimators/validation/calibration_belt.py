"""The calibration belt and its test."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy
from typing_extensions import override

from calibdask.estimators.about import PVALUE, About, Description, PartInfo
from calibdask.estimators.checks import check_flags, check_whole
from calibdask.estimators.columns import ColumnEstimator
from calibdask.estimators.interval import NoInterval
from calibdask.estimators.parts import Coordinate, Estimate, FixedPart
from calibdask.estimators.regression.column_points import ColumnPoints, Undetermined
from calibdask.estimators.regression.logistic import LogisticFit, LogisticProblem, mean_loss, weight_inflation
from calibdask.estimators.regression.logits import logits_of
from calibdask.estimators.validation.by_column import SEPARATED, column_numbers
from calibdask.estimators.validation.likelihood_belt import belt
from calibdask.estimators.validation.selected_degree import MOST_DEGREE, exceeded, quantile
from calibdask.statistics.exact import Array
from calibdask.statistics.layout import Layout
from calibdask.statistics.request import Requests

LEVELS = (0.8, 0.95)
# A further degree is selected where its likelihood ratio exceeds the 95 % quantile of chi-square with one degree of
# freedom.
THRESHOLD = 3.841458820694124
# The curve is given at scores whose logits are evenly spaced up to this one.
_WIDEST = 10.0
_MOST_SCORES = 10_001
_ASSUMED = "rows are independent and many"


@dataclass(frozen=True, kw_only=True)
class CalibrationBelt(ColumnEstimator):
    """Calibration belt: a polynomial logistic regression of the outcome on the logit of the score, and its region.

    ::

        logit P(o = 1) = b_0 + b_1 logit(s) + ... + b_m logit(s)**m

    with m up to 4, selected forwards: another degree is added if its likelihood ratio exceeds 3.84, the 95 %
    quantile of chi-square with one degree of freedom. The test compares the selected polynomial with the diagonal,
    b_1 = 1 and 0 otherwise. The belt is the area covered by the curves of its likelihood region: at any level, it
    misses the diagonal somewhere if and only if the test rejects at that level.

    Parameters
    ----------
    same_data : bool, default False
        Whether the model was fitted to these rows, by logistic regression: if so, selection starts with the square, as
        the straight line is the diagonal for any model.
    points : int, default 81
        Number of scores at which the belt is evaluated, with evenly spaced logits from -10 to 10 (scores from 0.00005
        to 0.99995).
    setting : str, int or None
        ``"confidence"``, ``"binary"``, a class, ``"top-k"``, ``"classwise"`` (each class by itself); None: binary for a
        vector of scores and class-wise for a matrix.
    k : int, optional
        Number of classes of the setting ``"top-k"``.

    Raises
    ------
    ValueError
        If a parameter is invalid or out of range.

    Notes
    -----
    Parts ``statistic`` and ``pvalue``, ``degree`` (m), the coordinates ``score`` and ``level`` (0.8 and 0.95), the
    curve ``frequency``, and ``lower`` and ``upper`` ends of the belt by level and score; NaN outside the range of the
    scores.

    The p-value allows for the selection: given m, the statistic is the sum of chi-squares of which those of the
    selected degrees exceed 3.84 [1]_, and so is the region of the belt. The naive p-value, of chi-square with m + 1
    degrees of freedom, rejects calibrated models at 5 % in about 8 % of data sets. Both are asymptotic:
    ``ConsistencyTest(statistic=CalibrationBelt(points=2))`` draws labels from the scores instead.

    They are NaN if all outcomes are equal, or if a score separates them in the selected polynomial (attribute
    ``undefined``). Logits of scores of 0 and 1 are clipped as for `calibdask.CalibrationSlope` (attribute
    ``clipped_logits``); through powers, such rows dominate the curve. With weights, likelihood ratios are divided by
    the largest eigenvalue of M1^-1 M2, M1 = sum w x x' r**2 and M2 = sum w**2 x x' r**2 with x = (1, logit s) and r = o
    - s: the largest ratio of the sandwich variance to that of rows of weight 1 if the model is calibrated.

    Weaknesses: polynomials of degree four cannot follow sudden jumps; the belt is simultaneous for the whole curve, so
    it is wide where scores are sparse, and its position at a single score is not a test at that score. One pass, points
    as for `calibdask.CalibrationSlope`; the ends of the belt solve a problem of few unknowns for each score and level,
    on at most 512 groups of rows, about 50 ms for each slice and class.

    References
    ----------
    .. [1] Nattino, Finazzi & Bertolini, A new calibration test and a reappraisal of the calibration belt for the
       assessment of prediction models based on dichotomous outcomes, 2014.
    .. [2] Finazzi, Poole, Luciani, Cogo & Bertolini, Calibration belt for quality-of-care assessment based on
       dichotomous outcomes, 2011.

    Examples
    --------
    >>> import calibdask as cd
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> y_prob = rng.random(2000)
    >>> result = cd.evaluate(rng.random(2000) < y_prob**2, y_prob, cd.CalibrationBelt())
    >>> belt = result.sel(calibration_belt_level=0.95).isel(calibration_belt_score=40)  # at a score of 1/2
    >>> round(float(belt.calibration_belt_lower), 2), round(float(belt.calibration_belt_upper), 2)
    (0.2, 0.26)
    """

    about = About(
        "Calibration belt",
        "A polynomial logistic regression of the outcome on the logit of the score, of a degree selected forwards by "
        "likelihood ratios, with its likelihood regions at 80 and 95 %; the p-value of the ratio to the diagonal "
        "allows for the selection.",
        "Nattino, Finazzi & Bertolini, A new calibration test and a reappraisal of the calibration belt, 2014",
        "calibration belt",
    )

    usual_setting = "classwise"

    same_data: bool = False
    points: int = 81

    def __post_init__(self) -> None:
        super().__post_init__()
        check_flags(same_data=self.same_data)
        check_whole("points", self.points, 2, _MOST_SCORES)

    @override
    def describe(self, layout: Layout) -> Description:
        return {
            "statistic": PartInfo("likelihood ratio of the selected polynomial and the diagonal", "statistic"),
            "pvalue": PartInfo(PVALUE, "pvalue"),
            "degree": PartInfo("degree of the selected polynomial", "choice"),
            "frequency": PartInfo("frequency of the outcome by the selected polynomial", "diagram"),
            "lower": PartInfo("lower end of the belt", "diagram"),
            "upper": PartInfo("upper end of the belt", "diagram"),
        }

    def interval(self, layout: Layout) -> NoInterval:
        """None: the belt is there anyway."""
        return NoInterval()

    @override
    def estimate(self) -> Requests[Estimate]:
        setting = self.measured((yield from Layout()))
        curve, ends = (self.points,), (len(LEVELS), self.points)
        shapes = {"statistic": (), "pvalue": (), "degree": (), "frequency": curve, "lower": ends, "upper": ends}
        values, notes = yield from column_numbers(setting, shapes, self._fit)
        dims = {"frequency": ("score",), "lower": ("level", "score"), "upper": ("level", "score")}
        of_test = {**notes, "assumes": _ASSUMED, "null_hypothesis": "the model is calibrated"}
        parts = {
            name: FixedPart(setting.by_class(of), (*setting.dims, *dims.get(name, ())), of_test)
            for name, of in values.items()
        }
        coordinates = {"score": scipy.special.expit(self._logits), "level": np.array(LEVELS)}
        return {**parts, **{name: Coordinate(of, (name,)) for name, of in coordinates.items()}}

    @property
    def _logits(self) -> Array:
        return np.linspace(-_WIDEST, _WIDEST, self.points)

    def _fit(self, points: ColumnPoints) -> tuple[dict[str, Any], str]:
        z = logits_of(points.score, points.clip)
        if np.ptp(z) == 0:
            return {}, "all scores are equal"
        rows = points.weight.sum() / weight_inflation(np.stack([np.ones_like(z), z]), points, z)
        if not np.isfinite(rows):
            return {}, "weights do not determine the variance"
        selected = _selected(points, z, rows, 2 if self.same_data else 1)
        if selected is None or not selected.fit.converged:
            return {}, SEPARATED
        options: Any = {"degree": selected.degree, "threshold": THRESHOLD, "same_data": self.same_data}
        statistic = 2 * rows * max(0.0, mean_loss(z, points) - selected.fit.loss)
        x = self._logits
        within = (z.min() <= x) & (x <= z.max())
        targets = _powers(x[within], selected.degree).T
        curve, (lower, upper) = np.full(x.size, np.nan), np.full((2, len(LEVELS), x.size), np.nan)
        if within.any():
            drops = np.array([quantile(level, **options) for level in LEVELS]) / (2 * rows)
            curve[within] = scipy.special.expit(np.einsum("mi,i->m", targets, selected.fit.coefficients))
            low, high = belt(selected.problem, selected.fit.coefficients, targets, drops)
            lower[:, within], upper[:, within] = scipy.special.expit(low), scipy.special.expit(high)
        numbers = {"statistic": statistic, "pvalue": exceeded(statistic, **options), "degree": selected.degree}
        return {**numbers, "frequency": curve, "lower": lower, "upper": upper}, ""


class _Selected(NamedTuple):
    degree: int
    problem: LogisticProblem
    fit: LogisticFit


def _selected(points: ColumnPoints, z: Array, rows: float, least: int) -> _Selected | None:
    """The polynomial that forward selection arrives at; None where scores do not determine the first."""
    chosen = None
    for degree in range(least, MOST_DEGREE + 1):
        try:
            problem = LogisticProblem.of(_powers(z, degree), points.weight, points.outcome)
        except Undetermined:
            break
        fit = problem.fit()
        if chosen is not None and not 2 * rows * (chosen.fit.loss - fit.loss) > THRESHOLD:
            break
        chosen = _Selected(degree, problem, fit)
    return chosen


def _powers(z: Array, degree: int) -> Array:
    """Terms (degree + 1, points)."""
    return np.stack([z**power for power in range(degree + 1)])
