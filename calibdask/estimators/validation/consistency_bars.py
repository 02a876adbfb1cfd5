"""Consistency bars of the reliability diagram: where the frequencies of a calibrated model would be."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import scipy
from typing_extensions import override

from calibdask.estimators.about import About, Description, PartInfo
from calibdask.estimators.binned.base import BinnedEstimator
from calibdask.estimators.interval import KnownEnds
from calibdask.estimators.parts import Estimate, FixedPart, Number
from calibdask.estimators.sampling_variance import rows_if_calibrated
from calibdask.statistics import exact
from calibdask.statistics.bins.bin_sums import BinSums
from calibdask.statistics.exact import Array
from calibdask.statistics.layout import Layout
from calibdask.statistics.request import Requests
from calibdask.statistics.square_sums import SquareSums

# Effective numbers of rows are rounded.
_ROUNDING = 1e-9


@dataclass(frozen=True, kw_only=True)
class ConsistencyBars(BinnedEstimator):
    """Reliability diagram with consistency bars: the frequency in each bin, and its range for a calibrated model.

    If the model is calibrated, a bin of n rows with the mean score s has the frequency k / n, with k binomially
    distributed (n trials with probability s). Accepts the arguments of `ECE` that choose bins.

    Notes
    -----
    The parts, with a dimension ``bin`` and, in the class-wise setting, ``class``: ``expected`` (the mean score, which
    is the expected frequency; NaN in an empty bin), ``outcome`` (the frequency) and ``count`` (rows).

    The bars are the ends of ``expected``: with ``ci``, the frequency of a calibrated model is outside the bar of any
    given bin in at most a share 1 - ci of data sets; of ten bins at 95 %, half a bin is outside on average. They
    correspond to the interval of `ReliabilityDiagram` with the roles of frequency and score exchanged: a bar covers the
    frequency expected of calibrated scores, an interval the true frequency. Scores of a bin count as equal to their
    mean: bars are too wide by a share of up to their variance over 2 s (1 - s), one in a hundred for bins of 0.1. With
    weights, which may depend on the outcome, n is sum w / (v1 (1 - s) + v0 s), rounded down, with v1 and v0 the mean
    weights sum w**2 / sum w of all rows with the outcome and without it; if all outcomes are equal, both are the mean
    weight of the observed one.

    One pass; with equal-mass bins one or two, with weights up to four. Can be computed from a summary.

    References
    ----------
    .. [1] Bröcker & Smith, Increasing the reliability of reliability diagrams, 2007.

    Examples
    --------
    >>> import calibdask as cd
    >>> bars = cd.evaluate([0, 1] * 50, [0.1] * 100, {"bars": cd.ConsistencyBars(bins=1)}, ci=0.95)
    >>> float(bars.bars_outcome[0]), float(bars.bars_expected_low[0]), float(bars.bars_expected_high[0])
    (0.5, 0.05, 0.16)
    """

    about = About(
        "Reliability diagram with consistency bars",
        "The observed rate in each bin, with quantiles for a calibrated model: binomial with the number of rows and "
        "the mean score of the bin.",
        "Bröcker & Smith, Increasing the reliability of reliability diagrams, 2007",
    )

    def interval(self, layout: Layout) -> KnownEnds:
        """Quantiles of a binomial distribution."""
        return KnownEnds()

    @override
    def describe(self, layout: Layout) -> Description:
        return {
            "expected": PartInfo("frequency expected of a calibrated model, the mean score", "diagram"),
            "outcome": PartInfo("frequency of the outcome", "diagram"),
            "count": PartInfo("rows", "count"),
        }

    @override
    def estimate(self) -> Requests[Estimate]:
        setting, edges, sums, bins = yield from self.binned("hard")
        weight = exact.value(bins.weight)
        with np.errstate(divide="ignore", invalid="ignore"):
            score, outcome = (np.where(weight > 0, exact.value(s) / weight, np.nan) for s in (bins.score, bins.outcome))
        rows = np.asarray(weight, np.float64)
        if (yield from Layout()).weighted:
            squares = yield from SquareSums(BinSums(setting, edges))
            of_squares = exact.value(squares.weight), exact.value(squares.outcome)
            effective = rows_if_calibrated(weight, score, exact.value(bins.outcome), *of_squares)[0]
            rows = np.where(weight > 0, np.floor(effective * (1 + _ROUNDING)), 0.0)
        dims: tuple[str, ...] = (*setting.dims, "bin")
        score, outcome, rows = (setting.by_class(values) for values in (score, outcome, rows))
        options: dict[str, Any] = {"limits": (0.0, 1.0), "ends_method": "consistency"}
        return {
            "expected": Number(score, dims, known_ends=partial(_bars, score.clip(0.0, 1.0), rows), **options),
            "outcome": FixedPart(outcome, dims),
            "count": FixedPart(setting.by_class(sums.rows), dims),
        }


def _bars(chance: Array, rows: Array, level: float) -> tuple[Array, Array]:
    """Quantiles of the frequency; NaN in empty bins."""
    low, high = (_binomial_quantile(share, rows, chance) for share in ((1 - level) / 2, (1 + level) / 2))
    with np.errstate(divide="ignore", invalid="ignore"):
        return low / rows, high / rows


def _binomial_quantile(share: float, rows: Array, chance: Array) -> Array:
    """The smallest number whose probability not to be exceeded is at least the share."""
    with np.errstate(invalid="ignore"):
        above = np.ceil(scipy.special.bdtrik(share, rows, chance))
        # The inverse is continuous, and may be one too large for its rounding; it is not defined at 0 and 1.
        below = np.maximum(above - 1, 0.0)
        number = np.where(_not_exceeded(below, rows, chance) >= share, below, above)
    number = np.where(chance == 0, 0.0, np.where(chance == 1, rows, number))
    return np.where(rows > 0, number, np.nan)


def _not_exceeded(number: Array, rows: Array, chance: Array) -> Array:
    """Binomial distribution function at this number, with its continuous inverse."""
    return np.asarray(scipy.special.betaincc(number + 1, np.maximum(rows - number, _ROUNDING), chance))
