"""The Murphy curve: mean elementary scores; all proper scores are mixtures of elementary scores."""

from dataclasses import dataclass

import numpy as np
from typing_extensions import override

from calibdask.estimators.about import About, Description, PartInfo
from calibdask.estimators.bounded_mean import CLOPPER_PEARSON
from calibdask.estimators.decisions.thresholds import ThresholdEstimator
from calibdask.estimators.parts import Coordinate, Estimate, Number
from calibdask.statistics.layout import Layout
from calibdask.statistics.request import Requests


@dataclass(frozen=True, kw_only=True)
class MurphyCurve(ThresholdEstimator):
    """Mean elementary score by threshold: the loss of acting on the scores, for all costs at once.

    ::

        M(t) = (1/n) sum_i S_t(s_i, o_i),   S_t(s, o) = 1 - t  if o = 1 and s <= t
                                                        t      if o = 0 and s > t
                                                        0      otherwise

    The Brier score is 2 times the integral of M over t, and any proper score a mixture of S_t: a model whose curve is
    lower everywhere is better by every proper score. If two curves cross, which model is better depends on the costs.

    Parameters
    ----------
    thresholds, setting, k
        As for `NetBenefit`.

    Raises
    ------
    ValueError
        If a parameter is invalid; from a summary, if a threshold is not a cell boundary.

    Notes
    -----
    Parts: the curve itself and the coordinate ``threshold``. One pass; 72 bytes for each threshold, class and slice.
    Pointwise intervals of Clopper & Pearson for a mean of the same variance.

    References
    ----------
    .. [1] Ehm, Gneiting, Jordan & Krueger, Of quantiles and expectiles: consistent scoring functions, Choquet
       representations and forecast rankings, 2016.

    Examples
    --------
    >>> import calibdask as cd
    >>> curve = cd.evaluate([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8], cd.MurphyCurve(thresholds=[0.2, 0.5])).murphy_curve
    >>> curve.values
    array([0.05 , 0.125])
    """

    about = About(
        "Murphy curve",
        "The mean of the elementary scores, 1 - t if the outcome occurs at a score of at most t, t if it does not at "
        "one above. Every proper score is a mixture of them.",
        "Ehm, Gneiting, Jordan & Krueger, Of quantiles and expectiles, 2016",
    )

    @override
    def describe(self, layout: Layout) -> Description:
        return {"": PartInfo("mean elementary score", "curve", "lower")}

    @override
    def estimate(self) -> Requests[Estimate]:
        sides = yield from self.sides()
        mean, limits = sides.mean(misses=1 - self.chosen, false_alarms=self.chosen)
        curve = Number(
            mean,
            (*sides.setting.dims, "threshold"),
            limits=(0.0, np.maximum(self.chosen, 1 - self.chosen)),
            known_ends=limits.ends,
            ends_method=CLOPPER_PEARSON,
        )
        return {"threshold": Coordinate(self.chosen, ("threshold",)), "": curve}
