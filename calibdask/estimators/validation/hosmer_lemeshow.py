"""The Hosmer-Lemeshow test."""

from dataclasses import dataclass

import numpy as np
import scipy
from typing_extensions import override

from calibdask.estimators.about import PVALUE, About, Description, PartInfo
from calibdask.estimators.checks import check_flags, check_whole
from calibdask.estimators.columns import ColumnEstimator
from calibdask.estimators.interval import NoInterval
from calibdask.estimators.kernel.drawn_outcomes import share_reaching
from calibdask.estimators.parts import Estimate, FixedPart
from calibdask.estimators.sampling_variance import UNKNOWN_WEIGHT, rows_if_calibrated
from calibdask.estimators.validation.by_column import undefined
from calibdask.statistics import exact
from calibdask.statistics.bins.bin_sums import BinSums
from calibdask.statistics.bins.binnings import BinEdges, EqualMass, binned_sums
from calibdask.statistics.exact import Array
from calibdask.statistics.layout import Layout
from calibdask.statistics.request import Requests
from calibdask.statistics.square_sums import SquareSums

_MOST_GROUPS = 10_000
# With fewer expected in a group outcomes are drawn; where they cannot be, there must be as many as the second number.
_MANY_EXPECTED, _LEAST_EXPECTED = 5.0, 1.0
_DRAWS = 10_000
_TOO_FEW = (
    "no p-value of weighted rows, or of those that the model was fitted to, where a group expects fewer than 1 outcome "
    "or row without it; nor with too few groups"
)


@dataclass(frozen=True, kw_only=True)
class HosmerLemeshow(ColumnEstimator):
    """Hosmer-Lemeshow test: observed and expected outcomes in groups of equally many rows by score.

    ::

        statistic = sum over groups of (O - E)**2 / (E (1 - E / n)),   chi-square with G or G - 2 degrees of freedom

    with n rows, O outcomes and E the sum of the scores of a group.

    Parameters
    ----------
    groups : int, default 10
        Number of groups G: deciles of risk. Rows with equal scores stay together, so there may be fewer groups.
    same_data : bool, default False
        Whether the model was fitted to these rows, as a logistic regression: G - 2 degrees of freedom instead of G.
    setting : str, int or None
        ``"confidence"``, ``"binary"``, a class, ``"top-k"``, ``"classwise"`` (a test for each class); None: binary for
        a vector of scores and class-wise for a matrix.
    k : int, optional
        Number of classes of the setting ``"top-k"``.

    Raises
    ------
    ValueError
        If a parameter is invalid or out of range.

    Notes
    -----
    Parts ``statistic``, ``pvalue``, ``groups`` (the actual number G) and ``least_expected``, the smallest expected
    number of outcomes, or of rows without it, in any group. If it is below 5, chi-square p-values are too small:
    of ten groups that expect 0.2 each, 14 % are at most 0.05. In this case the p-value is (1 + #{T* >= T}) / (1 +
    draws), with 10,000 draws of binomial outcomes in each group, which is valid for any number of rows. With weights,
    and with ``same_data``, the chi-square p-value remains: with 1 to 5 expected, up to 8 % are at most 0.05; below 1 it
    is NaN (attribute ``undefined``): take fewer groups. It is also NaN without degrees of freedom. The statistic is
    infinite if a group has outcomes although all its scores are 0. With weights, which may depend on the outcome, a
    group of the mean score s counts as n = sum w / (v1 (1 - s) + v0 s) rows, with v1 and v0 the mean weights sum w**2 /
    sum w of all rows with the outcome and without it: then O - E has the variance n s (1 - s) of a calibrated model.
    If all outcomes are equal, the weight of the other outcome is unknown, and the p-value is NaN.
    `calibdask.ReliabilityDiagram` with ``bins=10, binning="equal-mass"`` shows the same groups.

    Weaknesses: the p-value depends on the number of groups and on how ties are split, so programs disagree on the same
    rows; errors of opposite sign within a group cancel; with many rows every model is rejected, and with few rows
    hardly any; and the test does not show the direction of the error. `calibdask.CalibrationSlope`,
    `calibdask.CalibrationBelt` and intervals of errors are better choices. The test is provided because reviewers ask
    for it.

    The edges take two passes (up to three with weights), the sums at most one more (always one with weights).

    References
    ----------
    .. [1] Hosmer & Lemeshow, Goodness of fit tests for the multiple logistic regression model, 1980.
    .. [2] Hosmer, Hosmer, le Cessie & Lemeshow, A comparison of goodness-of-fit tests for the logistic regression
       model, 1997, for its weaknesses.

    Examples
    --------
    >>> import calibdask as cd
    >>> result = cd.evaluate(
    ...     [0, 0, 0, 1, 0, 1, 1, 1], [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8], "hosmer-lemeshow(groups=2)"
    ... )
    >>> round(float(result.hosmer_lemeshow_statistic), 4), round(float(result.hosmer_lemeshow_pvalue), 4)
    (0.1758, 1.0)
    """

    about = About(
        "Hosmer-Lemeshow test",
        "Observed outcomes O and expected ones E in groups of equally many rows by score: sum of (O - E)**2 / (E (1 - "
        "E / n)), chi-square with as many degrees of freedom as groups, two fewer on the rows that the model was "
        "fitted to. It depends on the groups.",
        "Hosmer & Lemeshow, Goodness of fit tests for the multiple logistic regression model, 1980",
        "Hosmer-Lemeshow test",
    )

    usual_setting = "classwise"

    groups: int = 10
    same_data: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_whole("groups", self.groups, 1, _MOST_GROUPS)
        check_flags(same_data=self.same_data)

    @override
    def describe(self, layout: Layout) -> Description:
        return {
            "statistic": PartInfo("sum over groups of (O - E)**2 / (E (1 - E / n))", "statistic"),
            "pvalue": PartInfo(PVALUE, "pvalue"),
            "groups": PartInfo("groups", "count"),
            "least_expected": PartInfo("fewest outcomes, or rows without it, that a group expects", "statistic"),
        }

    def interval(self, layout: Layout) -> NoInterval:
        """None: a test has a p-value instead."""
        return NoInterval()

    @override
    def estimate(self) -> Requests[Estimate]:
        layout = yield from Layout()
        setting = self.measured(layout)
        edges = yield from BinEdges(EqualMass(self.groups), setting)
        sums = yield from binned_sums(setting, edges)
        weight, observed, expected = map(exact.value, (sums.weight, sums.outcome, sums.score))
        filled = weight > 0
        with np.errstate(divide="ignore", invalid="ignore"):
            score = np.clip(expected / weight, 0.0, 1.0)
        rows, unknown_weight = np.asarray(weight, np.float64), np.zeros(weight.shape[:-1], np.bool_)
        if layout.weighted:
            squares = yield from SquareSums(BinSums(setting, edges))
            square, square_outcome = exact.value(squares.weight), exact.value(squares.outcome)
            rows, unknown_weight = rows_if_calibrated(weight, score, observed, square, square_outcome)
        with np.errstate(divide="ignore", invalid="ignore"):
            # A group whose scores are all 0 or 1, and right, adds nothing.
            observed = np.where(observed == expected, rows * score, rows * (observed / weight))
        terms = np.where(filled, _terms(observed, rows, score), 0.0)
        least = np.where(filled, rows * np.minimum(score, 1 - score), np.inf).min(-1)
        groups = filled.sum(-1)
        freedom = groups - (2 if self.same_data else 0)
        statistic = np.where(groups > 0, terms.sum(-1), np.nan)
        # An outcome that scores of 0 exclude is no matter of chance.
        by_chance = (groups > 0) & np.isfinite(statistic)
        can_be_drawn = not (layout.weighted or self.same_data)
        drawn = by_chance & (least < _MANY_EXPECTED) & can_be_drawn
        pvalue = scipy.special.chdtrc(np.maximum(freedom, 1), statistic)
        for index in zip(*np.nonzero(drawn), strict=True):
            kept = filled[index]
            pvalue[index] = _drawn_pvalue(statistic[index], rows[index][kept], score[index][kept])
        enough = (freedom > 0) & (~by_chance | drawn | (least >= _LEAST_EXPECTED))
        known = enough & ~(by_chance & unknown_weight)
        pvalue = np.where(known, pvalue, np.nan)
        refused = {
            _TOO_FEW: int(((groups > 0) & ~enough).sum()),
            f"no p-value {UNKNOWN_WEIGHT}": int((enough & ~known).sum()),
        }
        notes = {
            **undefined({reason: count for reason, count in refused.items() if count}, known.size),
            "assumes": "rows are independent",
            "null_hypothesis": "the model is calibrated",
        }
        values = {"statistic": statistic, "pvalue": pvalue, "groups": groups, "least_expected": least}
        return {name: FixedPart(setting.by_class(value), setting.dims, notes) for name, value in values.items()}


def _terms(observed: Array, rows: Array, score: Array) -> Array:
    """(O - E)**2 / (E (1 - E / n)) of each group; 0 where all of its scores are 0 or 1, and right."""
    residual = observed - rows * score
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = residual**2 / (rows * score * (1 - score))
    return np.where(residual == 0, 0.0, terms)


def _drawn_pvalue(statistic: float, rows: Array, score: Array) -> float:
    """The share of draws of a calibrated model, the data among them, whose statistic is as large; (groups,)."""
    outcomes = np.random.default_rng(0).binomial(np.rint(rows).astype(np.int64), score, (_DRAWS, rows.size))
    return share_reaching(statistic, _terms(outcomes.astype(np.float64), rows, score).sum(-1), 1e-9 * statistic)
