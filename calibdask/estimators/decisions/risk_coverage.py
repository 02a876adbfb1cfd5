"""Risk and coverage: how many errors are left where the least confident answers are held back."""

from dataclasses import dataclass

import numpy as np
from typing_extensions import override

from calibdask.estimators.about import About, Description, PartInfo
from calibdask.estimators.bounded_mean import CLOPPER_PEARSON
from calibdask.estimators.checks import check_whole
from calibdask.estimators.columns import ColumnEstimator
from calibdask.estimators.decisions.ranked_errors import RankedErrors, best_area
from calibdask.estimators.interval import KnownEnds
from calibdask.estimators.ordered.score_points import ScorePoints
from calibdask.estimators.parts import Coordinate, Ends, Estimate, FixedPart, Number
from calibdask.estimators.sampling_variance import BoundedEnds
from calibdask.statistics.exact import Array
from calibdask.statistics.layout import Layout
from calibdask.statistics.request import Requests
from calibdask.statistics.settings import Setting

_PARTS = ("aurc", "best", "excess", "augrc")


@dataclass(frozen=True, kw_only=True)
class SelectiveEstimator(ColumnEstimator):
    """An estimator of answers that are given only if their score is large enough; a vector has confidences too."""

    @override
    def measured(self, layout: Layout) -> Setting:
        return layout.setting("confidence" if self.setting is None else self.setting, self.k)

    @override
    def interval(self, layout: Layout) -> KnownEnds:
        """Ends from formulas."""
        return KnownEnds()


@dataclass(frozen=True, kw_only=True)
class RiskCoverage(SelectiveEstimator):
    """Area under the risk-coverage curve: the mean error rate among the most confident rows, over all coverages.

    With rows in falling order of their scores, n their number, E_k the errors among the first k and E all errors::

        aurc    (1/n) sum_k E_k / k
        best    (E - (n - E) (H_n - H_{n-E})) / n,  H_m = 1 + 1/2 + ... + 1/m: all errors come last
        excess  aurc - best
        augrc   the area under E_k / n by k / n, with straight lines between: errors among the answers per row

    Rows with equal scores count in expectation over their order: m such rows with e errors, after N rows with F errors,
    contribute

        e + (F - (e / m) N) (H_{N+m} - H_N)

    to the sum of E_k / k.

    Parameters
    ----------
    setting : str, int or None
        ``"confidence"`` (default, for a vector of scores too: errors are wrong predictions), ``"top-k"``, ``"binary"``
        or a class (errors are rows of other classes: answers are claims of that class), ``"classwise"``.
    k : int, optional
        Number of classes of the setting ``"top-k"``.

    Raises
    ------
    ValueError
        If the setting is invalid.

    Notes
    -----
    Parts ``aurc``, ``best``, ``excess`` and ``augrc``. AURC depends on the accuracy: ``best`` is the lowest value that
    the same errors allow, and ``excess`` (E-AURC) the cost of their order. It gives an error among the most confident
    rows a weight of log n, and other errors little weight; AUGRC = (1 - AUROC) a (1 - a) + (1 - a)**2 / 2, for an
    accuracy a and the AUROC of scores of right and wrong answers, weighs errors evenly [3]_. Tools that connect the
    points of the curve by straight lines, or leave out its ends, differ from AURC by terms of order log(n) / n.

    Depends only on the order of the scores: monotone recalibration of one column changes nothing.

    Weights count in units of sum w**2 / sum w. Exact up to about four million distinct scores in total; beyond that,
    and from a summary, the rows in a cell of a fine grid are treated as equal: the attribute ``aurc_bound`` bounds the
    resulting error of AURC. O(n log n) time, one pass (two for the grid).

    Intervals from the influence functions of the areas, by the limits of Clopper & Pearson for a mean of the same
    variance, which are valid with few errors; the interval of ``best`` comes from the limits of the error rate.

    References
    ----------
    .. [1] El-Yaniv & Wiener, On the foundations of noise-free selective classification, 2010.
    .. [2] Geifman, Uziel & El-Yaniv, Bias-reduced uncertainty estimation for deep neural classifiers, 2019.
    .. [3] Traub et al., Overcoming common flaws in the evaluation of selective classification systems, 2024.

    Examples
    --------
    >>> import calibdask as cd
    >>> result = cd.evaluate([1, 1, 0, 1], [0.9, 0.8, 0.7, 0.6], cd.RiskCoverage())
    >>> [round(float(result[f"risk_coverage_{part}"]), 4) for part in ("aurc", "best", "excess", "augrc")]
    [0.1458, 0.0625, 0.0833, 0.0938]
    """

    about = About(
        "Area under the risk-coverage curve (AURC)",
        "The mean over k of the error rate among the k most confident rows; best is that of the same errors in the "
        "best order, excess the difference, AUGRC the area under the errors among the answers per row.",
        "Geifman, Uziel & El-Yaniv, Bias-reduced uncertainty estimation for deep neural classifiers, 2019; Traub et "
        "al., Overcoming common flaws in the evaluation of selective classification systems, 2024",
        "AURC",
    )

    @override
    def describe(self, layout: Layout) -> Description:
        return {
            "aurc": PartInfo("mean error rate among the most confident rows", "score", bounds=(0.0, 1.0)),
            "best": PartInfo("AURC of the same errors in the best order", "term", bounds=(0.0, 1.0)),
            "excess": PartInfo("AURC lost by the order of the scores", "score", bounds=(0.0, 1.0)),
            "augrc": PartInfo(
                "mean number of errors per row among the most confident ones", "score", bounds=(0.0, 1.0)
            ),
        }

    @override
    def estimate(self) -> Requests[Estimate]:
        setting = self.measured((yield from Layout()))
        points = yield from ScorePoints(setting)
        values = np.full((len(_PARTS), *points.shape), np.nan)
        bounds: dict[tuple[int, ...], tuple[StratumLimits, ...]] = {}
        furthest = 0.0
        for index, ranked in RankedErrors.of(points):
            aurc, best = ranked.area(), float(best_area(ranked.total, ranked.wrong))
            numbers = np.array([aurc, best, aurc - best, ranked.generalized_area()])
            bounds[index] = _limits(ranked, numbers)
            for part, number in zip(values, numbers, strict=True):
                part[index] = number
            furthest = furthest if points.exact else max(furthest, ranked.area_error())
        notes = points.notes if points.exact else {**points.notes, "aurc_bound": furthest}
        return {
            part: Number(
                setting.by_class(values[number]),
                setting.dims,
                notes,
                limits=(0.0, 1.0),
                known_ends=_ends(bounds, number, setting, points.shape),
                ends_method=CLOPPER_PEARSON,
            )
            for number, part in enumerate(_PARTS)
        }


@dataclass(frozen=True)
class StratumLimits:
    """Confidence limits of one number of one stratum: a mean, or the best area at the limits of the error rate."""

    mean: BoundedEnds
    total: float | None = None

    def ends(self, level: float) -> tuple[Array, Array]:
        """The ends of the interval at a level."""
        low, high = self.mean.ends(level)
        if self.total is None:
            return low, high
        return best_area(self.total, self.total * low), best_area(self.total, self.total * high)


def _limits(ranked: RankedErrors, values: Array) -> tuple[StratumLimits, ...]:
    influences, total = ranked.influences(), ranked.total
    aurc, _, excess, augrc = values
    # An error among the first rows weighs as much as the sum of 1 / k.
    most = 1 + np.log(total)
    return (
        StratumLimits(influences.mean(aurc, influences.area).bounded(0.0, most)),
        StratumLimits(influences.errors.bounded(0.0, 1.0), total),
        StratumLimits(influences.mean(excess, influences.excess()).bounded(0.0, most)),
        StratumLimits(influences.mean(augrc, influences.generalized).bounded(0.0, 1.0)),
    )


def _ends(
    bounds: dict[tuple[int, ...], tuple[StratumLimits, ...]], number: int, setting: Setting, shape: tuple[int, ...]
) -> Ends:
    """The ends of one of the numbers in all strata."""

    def ends(level: float) -> tuple[Array, Array]:
        low, high = np.full((2, *shape), np.nan)
        for index, limits in bounds.items():
            low[index], high[index] = limits[number].ends(level)
        return setting.by_class(low), setting.by_class(np.minimum(high, 1.0))

    return ends


@dataclass(frozen=True, kw_only=True)
class RiskCoverageCurve(SelectiveEstimator):
    """The risk-coverage curve: the error rate among the most confident rows, by their share of all rows.

    ::

        risk(c) = E_k / k  with k = c n of n rows, in falling order of their scores, and E_k errors among them

    For rows with equal scores, the expectation over their order counts.

    Parameters
    ----------
    setting, k
        As for `RiskCoverage`.
    points : int, default 100
        Number of coverages: 1 / points, 2 / points, ..., 1.

    Raises
    ------
    ValueError
        If a parameter is invalid.

    Notes
    -----
    Parts: the coordinate ``coverage``; ``risk``; and ``threshold``, the score of the last row that is covered. The
    interval of a risk, of Clopper & Pearson, is pointwise, for this threshold: to choose a threshold with a guarantee
    use `calibdask.threshold`. Memory and sources as for `RiskCoverage`.

    References
    ----------
    .. [1] El-Yaniv & Wiener, On the foundations of noise-free selective classification, 2010.

    Examples
    --------
    >>> import calibdask as cd
    >>> result = cd.evaluate([1, 1, 0, 1], [0.9, 0.8, 0.7, 0.6], cd.RiskCoverageCurve(points=2))
    >>> result.risk_coverage_curve_risk.values, result.risk_coverage_curve_threshold.values
    (array([0.  , 0.25]), array([0.8, 0.6]))
    """

    about = About(
        "Risk-coverage curve",
        "The error rate among the most confident rows, by their share of all rows.",
        "El-Yaniv & Wiener, On the foundations of noise-free selective classification, 2010",
    )

    points: int = 100

    def __post_init__(self) -> None:
        super().__post_init__()
        check_whole("points", self.points, 1, 1_000_000)

    @override
    def describe(self, layout: Layout) -> Description:
        return {
            "risk": PartInfo("error rate among the most confident rows", "curve", "lower"),
            "threshold": PartInfo("score of the last row that is covered", "choice"),
        }

    @override
    def estimate(self) -> Requests[Estimate]:
        setting = self.measured((yield from Layout()))
        points = yield from ScorePoints(setting)
        coverage = np.arange(1, self.points + 1) / self.points
        risk, threshold = np.full((2, *points.shape, self.points), np.nan)
        limits = {}
        for index, ranked in RankedErrors.of(points):
            risk[index], threshold[index] = ranked.risks(coverage)
            limits[index] = ranked.limits(coverage)
        dims = (*setting.dims, "coverage")

        def ends(level: float) -> tuple[Array, Array]:
            low, high = np.full((2, *risk.shape), np.nan)
            for index, of in limits.items():
                low[index], high[index] = of.ends(level)
            return setting.by_class(low), setting.by_class(high)

        risk_of_class, threshold = setting.by_class(risk), setting.by_class(threshold)
        return {
            "coverage": Coordinate(coverage, ("coverage",)),
            "risk": Number(
                risk_of_class, dims, points.notes, limits=(0.0, 1.0), known_ends=ends, ends_method=CLOPPER_PEARSON
            ),
            "threshold": FixedPart(threshold, dims),
        }
