"""The reliability diagram: mean score and frequency of the outcome by bin."""

from dataclasses import dataclass

import numpy as np
from typing_extensions import override

from calibdask.estimators.about import About, Description, PartInfo
from calibdask.estimators.binned.base import BinnedEstimator
from calibdask.estimators.checks import check_choice
from calibdask.estimators.parts import Estimate, Given, Number
from calibdask.statistics import exact
from calibdask.statistics.bins.mappings import Mapping
from calibdask.statistics.layout import Layout
from calibdask.statistics.request import Requests

__all__ = ["ReliabilityDiagram"]


@dataclass(frozen=True, kw_only=True)
class ReliabilityDiagram(BinnedEstimator):
    """Mean score and frequency of the outcome by bin; takes the arguments of `ECE` that choose bins.

    The parts, with a dimension ``bin`` and, in the class-wise setting, ``class``: ``score`` and ``outcome`` (means, NaN
    in an empty bin), ``count`` (rows; under a convex mapping the sum of their shares), ``weight`` (sum of weights),
    ``lower`` and ``upper`` edges.

    Notes
    -----
    One pass; with equal-mass bins one or two, with weights up to three.

    References
    ----------
    .. [1] Silva Filho et al., Classifier calibration tutorial, ECML-PKDD 2020.

    Examples
    --------
    >>> import calibdask as cd
    >>> cd.reliability_diagram([0, 1, 1, 1], [0.2, 0.4, 0.6, 0.8], bins=2).outcome.values
    array([0.5, 1. ])
    """

    about = About(
        "Reliability diagram",
        "The frequency of the outcome in each bin against the mean score there. Both agree on the diagonal.",
        "Murphy & Winkler, 1977; Silva Filho et al., Classifier calibration, 2023",
    )

    mapping: Mapping = "hard"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("mapping", self.mapping, ("hard", "convex", "inverted"))

    @override
    def describe(self, layout: Layout) -> Description:
        return {
            "score": PartInfo("mean score", "diagram"),
            "outcome": PartInfo("frequency of the outcome", "diagram"),
            "count": PartInfo("rows", "count"),
            "weight": PartInfo("sum of the weights", "count"),
            "lower": PartInfo("lower edge", "choice"),
            "upper": PartInfo("upper edge", "choice"),
        }

    @override
    def estimate(self) -> Requests[Estimate]:
        setting, edges, sums, bins = yield from self.binned(self.mapping)
        weight = exact.value(bins.weight)
        shape = weight.shape
        with np.errstate(divide="ignore", invalid="ignore"):
            means = [np.where(weight > 0, exact.value(s) / weight, np.nan) for s in (bins.score, bins.outcome)]
        counts = {
            "count": sums.rows if self.mapping == "hard" else weight,
            "weight": weight,
            "lower": np.broadcast_to(edges.values[..., :-1], shape),
            "upper": np.broadcast_to(edges.values[..., 1:], shape),
        }
        dims, by_class = (*setting.dims, "bin"), setting.by_class
        return {
            "score": Number(by_class(means[0]), dims, limits=(0.0, 1.0)),
            "outcome": Number(by_class(means[1]), dims, limits=(0.0, 1.0)),
            **{name: Given(by_class(values), dims) for name, values in counts.items()},
        }
