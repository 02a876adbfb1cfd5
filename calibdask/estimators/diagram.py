"""The reliability diagram: means by bin."""

from dataclasses import dataclass

import numpy as np

from calibdask.estimators.binned import BinnedEstimator
from calibdask.estimators.checks import check_choice
from calibdask.estimators.estimator import Estimation, Part
from calibdask.statistics import exact
from calibdask.statistics.mappings import Mapping

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

    mapping: Mapping = "hard"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("mapping", self.mapping, ("hard", "convex", "inverted"))

    @property
    def name(self) -> str:
        """``reliability_diagram``."""
        return "reliability_diagram"

    def estimate(self) -> Estimation:
        """Means of the bins."""
        setting, edges, sums, bins = yield from self.binned(self.mapping)
        weight = exact.value(bins.weight)
        shape = weight.shape
        with np.errstate(divide="ignore", invalid="ignore"):
            means = [np.where(weight > 0, exact.value(s) / weight, np.nan) for s in (bins.score, bins.outcome)]
        values = {
            "score": means[0],
            "outcome": means[1],
            "count": sums.rows if self.mapping == "hard" else weight,
            "weight": weight,
            "lower": np.broadcast_to(edges.values[..., :-1], shape),
            "upper": np.broadcast_to(edges.values[..., 1:], shape),
        }
        dims = ("class", "bin") if setting.per_class else ("bin",)
        return {
            name: Part(
                v if setting.per_class else v[:, :, 0],
                dims,
                role="number" if name in ("score", "outcome") else "given",
                limits=(0.0, 1.0),
            )
            for name, v in values.items()
        }
