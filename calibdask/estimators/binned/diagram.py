"""The reliability diagram: mean score and frequency of the outcome by bin."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from typing_extensions import override

from calibdask.estimators.about import About, Description, PartInfo
from calibdask.estimators.binned.base import BinnedEstimator
from calibdask.estimators.binned.scikit_learn_names import understands_scikit_learn
from calibdask.estimators.bounded_mean import CLOPPER_PEARSON, BoundedMean
from calibdask.estimators.checks import check_choice
from calibdask.estimators.interval import IntervalMethod, KnownEnds
from calibdask.estimators.parts import Estimate, FixedPart, Number
from calibdask.estimators.sampling_variance import BoundedEnds, WeightedMean, rows_of_weight, share_of
from calibdask.statistics import exact
from calibdask.statistics.bins.bin_sums import BinSums, BinSumsState
from calibdask.statistics.bins.binnings import BinEdges
from calibdask.statistics.bins.edges import Edges
from calibdask.statistics.bins.mappings import Mapping, bin_edges
from calibdask.statistics.exact import Array, Sums
from calibdask.statistics.layout import Layout
from calibdask.statistics.prefetch import Prefetch
from calibdask.statistics.request import Requests
from calibdask.statistics.square_sums import SquareSums


@understands_scikit_learn
@dataclass(frozen=True, kw_only=True)
class ReliabilityDiagram(BinnedEstimator):
    """Mean score and frequency of the outcome by bin; accepts the arguments of `ECE` that choose bins.

    The parts, with a dimension ``bin`` and, in the class-wise setting, ``class``: ``score`` and ``outcome`` (means, NaN
    in an empty bin), ``count`` (rows; under a convex mapping the sum of their shares), ``weight`` (sum of weights),
    ``lower`` and ``upper`` edges.

    Notes
    -----
    Intervals of ``outcome`` are those of Clopper & Pearson [2]_, which are valid for any number of rows; with weights,
    for the number of equal rows with the sampling variance sum w**2 (o - f)**2 / (sum w)**2 of the frequency f.
    Intervals of ``score`` allow any distribution of scores between the edges. Neither needs replicates.

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

    def interval(self, layout: Layout) -> IntervalMethod:
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

    def _squares(self, layout: Layout) -> Requests[SquareSums]:
        setting = self.measured(layout)
        edges = yield from BinEdges(self.rule(layout, setting, self.mapping), setting)
        return SquareSums(BinSums(setting, bin_edges(self.mapping, edges)))

    @override
    def estimate(self) -> Requests[Estimate]:
        layout = yield from Layout()
        if layout.weighted:
            # Started here, so that it takes no pass of its own.
            yield from Prefetch((yield from self._squares(layout)))
        setting, edges, sums, bins = yield from self.binned(self.mapping)
        squares = (yield from (yield from self._squares(layout))) if layout.weighted else sums
        weight = exact.value(bins.weight)
        shape = weight.shape
        with np.errstate(divide="ignore", invalid="ignore"):
            score, outcome = (np.where(weight > 0, exact.value(s) / weight, np.nan) for s in (bins.score, bins.outcome))
        rows = effective_rows_of_bins(weight, sums, self.mapping)
        frequency = frequency_limits(outcome, rows, sums, squares, self.mapping)
        least, most = _limits(edges, self.mapping)
        inside = np.clip(score, least, most)
        known: dict[str, tuple[Array, BoundedMean | BoundedEnds]] = {
            "score": (score, BoundedMean(inside, (inside - least) * (most - inside), rows, least, most)),
            "outcome": (outcome, frequency),
        }
        counts = {
            "count": sums.rows if self.mapping == "hard" else weight,
            "weight": weight,
            "lower": np.broadcast_to(edges.values[..., :-1], shape),
            "upper": np.broadcast_to(edges.values[..., 1:], shape),
        }
        dims, by_class = (*setting.dims, "bin"), setting.by_class

        def ends(of: BoundedMean | BoundedEnds, level: float) -> tuple[Array, Array]:
            low, high = of.ends(level)
            return by_class(low), by_class(high)

        options: dict[str, Any] = {"limits": (0.0, 1.0), "ends_method": CLOPPER_PEARSON}
        return {
            **{
                name: Number(by_class(values), dims, known_ends=partial(ends, mean), **options)
                for name, (values, mean) in known.items()
            },
            **{name: FixedPart(by_class(values), dims) for name, values in counts.items()},
        }


def effective_rows_of_bins(weight: Array, sums: BinSumsState, mapping: Mapping) -> Array:
    """Lower bound of Kish's effective rows of each bin; a row's share W counts W."""
    total, square = (_near(of, mapping) for of in (sums.weight, sums.weight_square))
    return weight * np.divide(total, square, out=np.ones_like(total), where=square > 0)


def frequency_limits(
    outcome: Array, rows: Array, sums: BinSumsState, squares: BinSumsState, mapping: Mapping
) -> BoundedEnds:
    """Limits of the frequency of each bin; of a convex mapping for the rows that share in it, as many as count.

    Where an outcome does not occur in a bin its rows are taken to weigh what they do in other bins.
    """
    near = [_near(of, mapping) for of in (sums.weight, squares.weight, sums.outcome, squares.outcome)]
    frequency = share_of(*near)
    totals = [
        exact.value(of).sum(-1, keepdims=True) for of in (sums.weight, squares.weight, sums.outcome, squares.outcome)
    ]
    ends = (totals[0] - totals[2], totals[1] - totals[3]), (totals[2], totals[3])
    with np.errstate(divide="ignore", invalid="ignore"):
        shared = np.where(frequency.rows > 0, rows / frequency.rows, 1.0)
        of_ends = [shared * rows_of_weight(near[0], *of_end) for of_end in ends]
        spread, effective = outcome * (1 - outcome), frequency.effective_rows * shared
        mean = WeightedMean(outcome, spread, np.where(effective > 0, spread / effective, 0.0), rows)
    return mean.bounded(0.0, 1.0, *of_ends)


def _near(sums: Sums, mapping: Mapping) -> Array:
    """Sums over the rows that share in a bin; for a convex mapping, over the intervals beside its centre."""
    values = exact.value(sums)
    return values if mapping == "hard" else values[..., :-1] + values[..., 1:]


def _limits(edges: Edges, mapping: Mapping) -> tuple[Array, Array]:
    """Limits of the scores of each bin; the outer bins extend to 0 and 1."""
    lower, upper = edges.values[..., :-1], edges.values[..., 1:]
    if mapping != "hard":
        return np.zeros_like(lower), np.ones_like(upper)
    number = np.arange(edges.bins)
    return np.where(number == 0, 0.0, lower), np.where(number == edges.effective[..., None] - 1, 1.0, upper)
