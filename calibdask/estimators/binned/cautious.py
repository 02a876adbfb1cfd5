"""A binned error with an interval that holds with few rows and few events, for decisions."""

from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
from typing_extensions import override

from calibdask.estimators.about import Description, PartInfo
from calibdask.estimators.binned.base import BinnedEstimator
from calibdask.estimators.binned.betting_ends import Strata, largest_error, smallest_error
from calibdask.estimators.interval import KnownEnds
from calibdask.estimators.keywords import Norm
from calibdask.estimators.parts import Estimate, FixedPart, Number
from calibdask.statistics import exact
from calibdask.statistics.exact import Array
from calibdask.statistics.layout import Layout
from calibdask.statistics.request import Requests

# The mean distance of a standard normal variable from 0.
_MEAN_NOISE = float(np.sqrt(2 / np.pi))


@dataclass(frozen=True, kw_only=True)
class CautiousECE(BinnedEstimator):
    """The ECE of hard bins with ends by bets on the outcomes, see ``calibdask.estimators.binned.betting_ends``.

    Replicates of few rows, or of few events, resemble these rows too much: of slices whose true error is a limit, far
    more than 2.5 % have a 95 % interval below it. Decisions therefore ask for these ends as well.

    Parameters
    ----------
    bins, binning, setting, k, closed, range, compat
        As for `ECE`.
    norm : {"l1", "l2", "max"}
        That of the error that is judged. For ``l2``, which is not below it, the ends are those of ``l1``; for ``max``
        those of the bins by themselves, the lower ones at a level divided by the number of bins with rows.
    signs : {"bin", "common"}
        Whether gaps of either sign add up. ``"common"``: the ends are those of the absolute mean gap, below which no
        mean gap lies, whatever its bins or its smoothing.

    Notes
    -----
    Parts: the number; ``effective_rows``, Kish's number of rows by their weights; and, by the scores, what calibrated
    models of n rows have by chance: ``noise`` / sqrt(n) on average, and ``variance`` / n for the mean gap. In the
    class-wise setting the means over classes, of the ends too, which are then conservative for any dependence that
    lets classes vary together at most. No pass of its own beside an `ECE` of the same bins.

    References
    ----------
    .. [1] Waudby-Smith & Ramdas, Estimating means of bounded random variables by betting, 2024.
    .. [2] Clopper & Pearson, The use of confidence or fiducial limits, 1934.
    """

    norm: Norm = "l1"
    signs: Literal["bin", "common"] = "bin"

    @override
    def describe(self, layout: Layout) -> Description:
        return {
            "": PartInfo("calibration error with ends that hold with few rows and few events", "statistic"),
            "effective_rows": PartInfo("effective number of rows", "count"),
            "noise": PartInfo("mean error of calibrated models, times the root of the rows", "statistic"),
            "variance": PartInfo("variance of the mean gap of calibrated models, times the rows", "statistic"),
        }

    @override
    def interval(self, layout: Layout) -> KnownEnds:
        return KnownEnds()

    @override
    def estimate(self) -> Requests[Estimate]:
        _, _, sums, _ = yield from self.binned("hard")
        weight, square, outcome, score = map(exact.value, (sums.weight, sums.weight_square, sums.outcome, sums.score))
        bins = _bins_alone(weight, square, outcome, score) if self.norm == "max" else None
        strata = _pooled(weight, square, outcome, score)
        gaps = strata.share * (strata.outcome - strata.score)
        error = np.abs(gaps.sum(-1)) if self.signs == "common" else np.abs(gaps).sum(-1)
        spread = np.sqrt(strata.share * strata.score * (1 - strata.score))
        noise, deviation = spread.sum(-1), np.sqrt((spread**2).sum(-1))
        if self.signs == "common":
            noise = deviation
        if bins is not None:
            error = np.fmax.reduce(np.abs(bins.outcome - bins.score)[..., 0], axis=-1)
            # Of the bin that varies most.
            with np.errstate(divide="ignore", invalid="ignore"):
                noise = deviation = np.where(strata.share > 0, spread / strata.share, 0.0).max(-1)
        values = error.max(-1) if self.norm == "max" else error.mean(-1)
        ends = partial(_ends, strata, by_bin=self.signs == "bin") if bins is None else partial(_ends_of_largest, bins)
        return {
            "": Number(values, limits=(0.0, 1.0), known_ends=ends),
            "effective_rows": FixedPart(strata.rows.mean(-1)),
            "noise": FixedPart(_MEAN_NOISE * noise.mean(-1)),
            "variance": FixedPart(deviation.mean(-1) ** 2),
        }


def _pooled(weight: Array, square: Array, outcome: Array, score: Array) -> Strata:
    """All bins of each column, those without rows as bins of no share."""
    total = weight.sum(-1)
    filled = weight > 0
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(total[..., None] > 0, weight / total[..., None], 0.0)
        frequency, mean = (np.where(filled, sums / weight, 0.0).clip(0.0, 1.0) for sums in (outcome, score))
        rows = np.where(total > 0, total**2 / square.sum(-1), 0.0)
    return Strata(share, frequency, mean, rows)


def _bins_alone(weight: Array, square: Array, outcome: Array, score: Array) -> Strata:
    """Each bin as data of one bin; (batch, group, column, bin, 1)."""
    return _pooled(*(sums[..., None] for sums in (weight, square, outcome, score)))


def _ends(strata: Strata, level: float, *, by_bin: bool) -> tuple[Array, Array]:
    """Ends for the mean over columns."""
    alpha = (1 - level) / 2
    low, high = (end(strata, alpha, by_bin=by_bin) for end in (smallest_error, largest_error))
    return low.mean(-1), high.mean(-1)


def _ends_of_largest(bins: Strata, level: float) -> tuple[Array, Array]:
    """Ends for the largest gap over all bins and columns."""
    alpha = (1 - level) / 2
    filled = max(1, int((bins.rows > 0).sum((-1, -2)).max(initial=1)))
    low, high = smallest_error(bins, alpha / filled, by_bin=False), largest_error(bins, alpha, by_bin=False)
    return np.fmax.reduce(low, axis=(-1, -2)), np.fmax.reduce(high, axis=(-1, -2))
