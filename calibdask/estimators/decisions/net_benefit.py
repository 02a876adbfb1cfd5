"""Net benefit: what treating by the scores is worth, by the threshold from which on one treats."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from typing_extensions import override

from calibdask.estimators.about import About, Description, PartInfo
from calibdask.estimators.bounded_mean import CLOPPER_PEARSON
from calibdask.estimators.checks import check_choice
from calibdask.estimators.decisions.thresholds import ThresholdEstimator, ThresholdSides
from calibdask.estimators.parts import Coordinate, Ends, Estimate, FixedPart, Number
from calibdask.statistics.exact import Array
from calibdask.statistics.layout import Layout
from calibdask.statistics.request import Requests


@dataclass(frozen=True, kw_only=True)
class NetBenefit(ThresholdEstimator):
    """Net benefit of treating the rows whose score is at least a threshold, and the decision curve over thresholds.

    ::

        model       (1/n) (TP - FP t / (1 - t)),  TP rows with the outcome and a score from t on, FP those without it
        treat_all   f - (1 - f) t / (1 - t),      f the frequency of the outcome
        treat_none  0
        avoided     (model - treat_all) (1 - t) / t,  treatments that the model avoids per row at no loss of benefit

    Treating from the probability t on means weighing one needless treatment as t / (1 - t) of the benefit of a
    necessary one: net benefits are in units of the latter per row. A model is useful at the thresholds where it is
    above both ``treat_all`` and ``treat_none``.

    Parameters
    ----------
    thresholds : sequence of float, optional
        Increasing, between 0 and 1. None: 0.01, 0.02, ..., 0.99.
    closed : {"left", "right"}, optional
        Whether to treat rows with a score of at least the threshold (``"left"``, as dcurves and R's rmda do), or only
        those above it (``"right"``). None: ``"left"``; from a summary, whose cells do not separate scores at a
        threshold from those below, ``"right"``. The attribute ``closed`` says which. They differ for rounded scores,
        such as risks in whole percent.
    standardized : bool, default False
        Whether to divide by the frequency of the outcome f: then 1 is the maximum for any model [3]_. The ends are
        those of the mean of model - (model / f) o, divided by f.
    setting : str, int or None
        ``"binary"``, a class, ``"classwise"`` (each class as the outcome), ``"confidence"``, ``"top-k"``; None: binary
        for a vector of scores, class-wise for a matrix.
    k : int, optional
        Number of classes of the setting ``"top-k"``.

    Raises
    ------
    ValueError
        If a parameter is invalid; from a summary, if a threshold is not a cell boundary.

    Notes
    -----
    Parts: the coordinate ``threshold``; ``model``, ``treat_all``, ``treat_none`` and ``avoided``, the net reduction in
    treatments relative to treating all [2]_ (times 100: per 100 rows), which is never standardized. It is sensitive to
    calibration: scores that are too high or too low at a threshold lose net benefit there, even if their order is the
    same.

    One pass; 72 bytes for each threshold, class and slice. Pointwise intervals of Clopper & Pearson for a mean of the
    same variance, allowing for unobserved values between -t / (1 - t) and 1; they do not account for the choice of a
    threshold.

    References
    ----------
    .. [1] Vickers & Elkin, Decision curve analysis: a novel method for evaluating prediction models, 2006.
    .. [2] Vickers, Van Calster & Steyerberg, A simple, step-by-step guide to interpreting decision curve analysis,
       2019.
    .. [3] Kerr, Brown, Zhu & Janes, Assessing the clinical impact of risk prediction models with decision curves, 2016.

    Examples
    --------
    >>> import calibdask as cd
    >>> result = cd.evaluate([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8], cd.NetBenefit(thresholds=[0.2, 0.5]))
    >>> result.net_benefit_model.values, result.net_benefit_treat_all.values
    (array([0.4375, 0.25  ]), array([0.375, 0.   ]))
    """

    about = About(
        "Net benefit",
        "TP/n - FP/n t/(1 - t) at the threshold t, compared with treating all and treating none. The model is useful "
        "where it exceeds both.",
        "Vickers & Elkin, Decision curve analysis: a novel method for evaluating prediction models, 2006",
        "net benefit",
    )

    closed: Literal["right", "left"] | None = None
    standardized: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.closed is not None:
            check_choice("closed", self.closed, ("left", "right"))

    @override
    def describe(self, layout: Layout) -> Description:
        benefit = "standardized net benefit" if self.standardized else "net benefit"
        return {
            "model": PartInfo(f"{benefit} of treating by the scores", "curve", "higher"),
            "treat_all": PartInfo(f"{benefit} of treating all", "curve", "higher"),
            "treat_none": PartInfo(f"{benefit} of treating none", "curve", "higher"),
            "avoided": PartInfo("treatments avoided per row, relative to treating all", "curve", "higher"),
        }

    @override
    def estimate(self) -> Requests[Estimate]:
        sides = yield from self.sides(self.closed)
        odds = self.chosen / (1 - self.chosen)
        values: dict[str, SideValues] = {
            "model": (1.0, 0.0, -odds, 0.0),
            "treat_all": (1.0, 1.0, -odds, -odds),
        }
        measure = standardized_mean if self.standardized else mean_with_ends
        means = {name: measure(sides, of_sides) for name, of_sides in values.items()}
        least = -np.inf if self.standardized else -odds
        dims, notes = (*sides.setting.dims, "threshold"), {"closed": sides.closed}
        numbers = {
            name: Number(
                mean,
                dims,
                notes,
                limits=(least, 1.0),
                known_ends=ends,
                ends_method=CLOPPER_PEARSON,
            )
            for name, (mean, ends) in means.items()
        }
        nothing = np.where(np.isfinite(means["treat_all"][0]), 0.0, np.nan)
        # A row below the threshold is spared: worth 1 without the outcome, and -1 / odds with it.
        avoided, avoided_ends = mean_with_ends(sides, (0.0, -1 / odds, 0.0, 1.0))
        spared = Number(
            avoided, dims, notes, limits=(-1 / odds, 1.0), known_ends=avoided_ends, ends_method=CLOPPER_PEARSON
        )
        return {
            "threshold": Coordinate(self.chosen, ("threshold",)),
            **numbers,
            "treat_none": FixedPart(nothing, dims),
            "avoided": spared,
        }


# Values of hits, misses, false alarms and rejections, of each threshold.
SideValues = tuple[Array | float, Array | float, Array | float, Array | float]


def mean_with_ends(sides: ThresholdSides, values: SideValues) -> tuple[Array, Ends]:
    """The mean of a value of the sides, and its limits."""
    mean, limits = sides.mean(*values)
    return mean, limits.ends


def standardized_mean(sides: ThresholdSides, values: SideValues) -> tuple[Array, Ends]:
    """The mean over the frequency of the outcome, r, with the limits of the mean of value - r o over the frequency."""
    frequency, _ = sides.mean(1.0, 1.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = sides.mean(*values)[0] / frequency
    hits, misses, false_alarms, rejections = values
    _, limits = sides.mean(hits - ratio, misses - ratio, false_alarms, rejections)

    def ends(level: float) -> tuple[Array, Array]:
        with np.errstate(divide="ignore", invalid="ignore"):
            low, high = (ratio + end / frequency for end in limits.ends(level))
        return low, np.minimum(high, 1.0)

    return ratio, ends
