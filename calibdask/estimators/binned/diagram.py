"""The reliability diagram: mean score and frequency of the outcome by bin."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from typing_extensions import override

from calibdask.estimators.about import About, Description, PartInfo
from calibdask.estimators.binned.base import BinnedEstimator
from calibdask.estimators.bounded_mean import CLOPPER_PEARSON, BoundedMean
from calibdask.estimators.checks import check_choice
from calibdask.estimators.interval import Interval, KnownEnds
from calibdask.estimators.parts import Estimate, Given, Number
from calibdask.statistics import exact
from calibdask.statistics.bins.bin_sums import BinSumsState
from calibdask.statistics.bins.edges import Edges
from calibdask.statistics.bins.mappings import Mapping
from calibdask.statistics.exact import Array
from calibdask.statistics.layout import Layout
from calibdask.statistics.request import Requests


@dataclass(frozen=True, kw_only=True)
class ReliabilityDiagram(BinnedEstimator):
    """Mean score and frequency of the outcome by bin; takes the arguments of `ECE` that choose bins.

    The parts, with a dimension ``bin`` and, in the class-wise setting, ``class``: ``score`` and ``outcome`` (means, NaN
    in an empty bin), ``count`` (rows; under a convex mapping the sum of their shares), ``weight`` (sum of weights),
    ``lower`` and ``upper`` edges.

    Notes
    -----
    Intervals of ``outcome`` are those of Clopper & Pearson [2]_, which hold for any number of rows, with Kish's number
    of rows (sum w)**2 / sum w**2 where there are weights. Those of ``score`` allow for any distribution of scores
    between the edges. Neither needs replicates.

    One pass; with equal-mass bins one or two, with weights up to three.

    References
    ----------
    .. [1] Silva Filho et al., Classifier calibration tutorial, ECML-PKDD 2020.
    .. [2] Clopper & Pearson, The use of confidence or fiducial limits illustrated in the case of the binomial, 1934.

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

    def interval(self, layout: Layout) -> Interval:
        """Ends from formulas."""
        return KnownEnds()

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
            score, outcome = (np.where(weight > 0, exact.value(s) / weight, np.nan) for s in (bins.score, bins.outcome))
        rows = _effective_rows(weight, sums, self.mapping)
        least, most = _limits(edges, self.mapping)
        inside = np.clip(score, least, most)
        known = {
            "score": (score, BoundedMean(inside, (inside - least) * (most - inside), rows, least, most)),
            "outcome": (outcome, BoundedMean(outcome, outcome * (1 - outcome), rows, 0.0, 1.0)),
        }
        counts = {
            "count": sums.rows if self.mapping == "hard" else weight,
            "weight": weight,
            "lower": np.broadcast_to(edges.values[..., :-1], shape),
            "upper": np.broadcast_to(edges.values[..., 1:], shape),
        }
        dims, by_class = (*setting.dims, "bin"), setting.by_class

        def ends(of: BoundedMean, level: float) -> tuple[Array, Array]:
            low, high = of.ends(level)
            return by_class(low), by_class(high)

        options: dict[str, Any] = {"limits": (0.0, 1.0), "ends_method": CLOPPER_PEARSON}
        return {
            **{
                name: Number(by_class(values), dims, known_ends=partial(ends, mean), **options)
                for name, (values, mean) in known.items()
            },
            **{name: Given(by_class(values), dims) for name, values in counts.items()},
        }


def _effective_rows(weight: Array, sums: BinSumsState, mapping: Mapping) -> Array:
    """Kish's number of rows of each bin, at least: a share W of a row counts W, of which its square is less."""
    total, square = exact.value(sums.weight), exact.value(sums.weight_square)
    if mapping != "hard":
        # Rows of the intervals on both sides of a centre share their weight with its bin.
        total, square = (values[..., :-1] + values[..., 1:] for values in (total, square))
    return weight * np.divide(total, square, out=np.ones_like(total), where=square > 0)


def _limits(edges: Edges, mapping: Mapping) -> tuple[Array, Array]:
    """What the scores of each bin lie between; the outer bins hold all beyond their edges."""
    lower, upper = edges.values[..., :-1], edges.values[..., 1:]
    if mapping != "hard":
        return np.zeros_like(lower), np.ones_like(upper)
    number = np.arange(edges.bins)
    return np.where(number == 0, 0.0, lower), np.where(number == edges.effective[..., None] - 1, 1.0, upper)
