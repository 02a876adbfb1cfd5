"""The decomposition of the Brier score by bins."""

from dataclasses import dataclass, replace

import numpy as np

from calibdask.estimators.binned import BinnedDecomposition
from calibdask.estimators.estimator import Estimation, Meanings, Part, calibration_error
from calibdask.statistics import exact
from calibdask.statistics.binned import BinSums, BinSumsState
from calibdask.statistics.binnings import BinEdges
from calibdask.statistics.exact import Array
from calibdask.statistics.layout import Layout

__all__ = ["BrierDecomposition"]


@dataclass(frozen=True, kw_only=True)
class BrierDecomposition(BinnedDecomposition):
    """Brier score = reliability - resolution + uncertainty + within_variance - within_covariance, exactly.

    With A, B, C the sums of w, w o and w s in a bin, N the sum of A and obar the frequency of the outcome::

        reliability        (1/N) sum (B - C)**2 / A
        resolution         (1/N) sum A (B/A - obar)**2
        uncertainty        obar (1 - obar)
        within_variance    (1/N) sum [ sum w s**2 - C**2 / A ]
        within_covariance  (2/N) sum [ sum w s o - B C / A ]
        refinement_loss    uncertainty - resolution; the calibration loss is the reliability

    Parameters
    ----------
    bins, binning, setting, k, closed, range, compat
        As for `ECE`. The setting None means binary for a vector of scores and class-wise for a matrix; class-wise terms
        are summed over classes, so that ``score`` is the Brier score.
    debias : bool, default False
        Subtract what sampling adds to the terms [3]_ [4]_: with V = B/A (1 - B/A) / (n - 1) in a bin of n rows and
        v = obar (1 - obar) / (n - 1) of all rows, (1/N) sum A V from reliability and resolution, and v from
        uncertainty and resolution with the opposite sign; the identity stays. Bins of one row subtract nothing. With
        weights n is Kish's (sum w)**2 / sum w**2, and bins with n up to 1.5 subtract nothing.

    Notes
    -----
    The within-bin terms vanish where all scores of a bin are equal. One pass; with equal-mass bins two or three.
    Memory: 104 bytes for each class, bin and slice.

    References
    ----------
    .. [1] Murphy, A new vector partition of the probability score, 1973.
    .. [2] Stephenson, Coelho & Jolliffe, Two extra components in the Brier score decomposition, 2008.
    .. [3] Brocker, Estimating reliability and resolution of probability forecasts through decomposition of the
       empirical score, 2012.
    .. [4] Ferro & Fricker, A bias-corrected decomposition of the Brier score, 2012.

    Examples
    --------
    >>> import calibdask as cd
    >>> parts = cd.evaluate([0, 1, 1, 1], [0.2, 0.4, 0.6, 0.8], cd.BrierDecomposition(bins=2))
    >>> round(float(parts.brier_decomposition_reliability), 6)
    0.065
    """

    debias: bool = False

    @property
    def name(self) -> str:
        """``brier_decomposition``."""
        return "brier_decomposition"

    def meanings(self, layout: Layout) -> Meanings:
        """In words."""
        return {
            "score": "mean squared error of the scores, the sum of what follows",
            "reliability": "what miscalibration adds",
            "resolution": "what telling cases apart takes off",
            "uncertainty": "score of predicting the overall frequency",
            "within_variance": "what different scores within a bin add",
            "within_covariance": "what outcomes that follow these take off",
            "refinement_loss": "score if each bin predicted its frequency",
        }

    @property
    def is_error(self) -> bool:
        """The reliability, unless its bias is taken away."""
        return not self.debias

    def estimate(self) -> Estimation:
        """The terms from six sums by bin."""
        layout = yield Layout()
        setting = layout.setting(self.measured(layout), self.k)
        edges = yield BinEdges(self.rule(layout, setting, "hard"), setting)
        sums = yield BinSums(setting, edges, "squares")
        terms = _terms(sums)
        if self.debias:
            terms = {name: values + _corrections(sums).get(name, 0.0) for name, values in terms.items()}
        terms["refinement_loss"] = terms["uncertainty"] - terms["resolution"]
        # All terms but the covariance are means of squares.
        signed = ("reliability", "resolution", "within_covariance") if self.debias else ("within_covariance",)
        parts = {
            name: Part(exact.in_order(values), limits=(-np.inf if name in signed else 0.0, np.inf))
            for name, values in terms.items()
        }
        if not self.debias:
            parts["reliability"] = calibration_error(terms["reliability"], np.sum, np.inf)
            most = 0.25 * terms["uncertainty"].shape[-1]
            parts["uncertainty"] = replace(parts["uncertainty"], limits=(0.0, most))
            parts |= {name: replace(parts[name], biased=True) for name in _BIASED}
        return parts


# Terms that sampling shifts.
_BIASED = ("resolution", "uncertainty", "refinement_loss")


def _terms(sums: BinSumsState) -> dict[str, Array]:
    """Terms of each (batch, group, column)."""
    weight, outcome, score = (exact.value(s) for s in (sums.weight, sums.outcome, sums.score))
    square, product = exact.value(sums.second[0]), exact.value(sums.second[1])
    gap = exact.value(exact.subtract(sums.outcome, sums.score))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        total = exact.in_order(weight)
        mean = exact.in_order(outcome) / total
        share = np.where(weight > 0, 1 / weight, 0.0)
        return {
            "score": exact.in_order(square - 2 * product + outcome) / total,
            "reliability": exact.in_order(gap**2 * share) / total,
            "resolution": exact.in_order((outcome - weight * mean[..., None]) ** 2 * share) / total,
            "uncertainty": mean * (1 - mean),
            "within_variance": exact.in_order(square - score**2 * share) / total,
            "within_covariance": 2 * exact.in_order(product - outcome * score * share) / total,
        }


def _corrections(sums: BinSumsState) -> dict[str, Array]:
    """What takes the sampling bias out of the terms of each (batch, group, column)."""
    weight, outcome, square = (exact.value(s) for s in (sums.weight, sums.outcome, sums.weight_square))
    total, hits = exact.in_order(weight), exact.in_order(outcome)
    within = exact.in_order(weight * _sampling_variance(weight, outcome, square)) / np.where(total > 0, total, np.nan)
    overall = _sampling_variance(total, hits, exact.in_order(square))
    return {"reliability": -within, "resolution": overall - within, "uncertainty": overall}


def _sampling_variance(weight: Array, outcome: Array, square: Array) -> Array:
    """Of a frequency, p (1 - p) / (n - 1); 0 for a single row."""
    with np.errstate(divide="ignore", invalid="ignore"):
        rows, frequency = weight**2 / square, outcome / weight
        # Equal weights can round to a little less than a row.
        return np.where(rows > 1.5, frequency * (1 - frequency) / (rows - 1), 0.0)
