"""The decomposition of the logarithmic score by bins."""

from dataclasses import dataclass, replace

import numpy as np
from scipy import special

from calibdask.estimators.binned import BinnedDecomposition
from calibdask.estimators.estimator import Estimation, Meanings, Part, calibration_error
from calibdask.statistics import exact
from calibdask.statistics.binnings import BinEdges, binned_sums
from calibdask.statistics.exact import Array
from calibdask.statistics.layout import Layout
from calibdask.statistics.row_terms import LogTerms

__all__ = ["LogLossDecomposition"]


@dataclass(frozen=True, kw_only=True)
class LogLossDecomposition(BinnedDecomposition):
    """Log-loss = reliability - resolution + uncertainty + within, exactly.

    With A, B, C the sums of w, w o and w s in a bin, N the sum of A, obar the frequency of the outcome, KL(p | q) =
    p log(p / q) + (1 - p) log((1 - p) / (1 - q)) and H(p) = -p log p - (1 - p) log(1 - p)::

        reliability  (1/N) sum A KL(B/A | C/A)
        resolution   (1/N) sum A KL(B/A | obar)
        uncertainty  H(obar)
        within       what scores that differ within bins add, score - reliability + resolution - uncertainty

    Parameters
    ----------
    bins, binning, setting, k, closed, range, compat
        As for `ECE`. The setting None means binary for a vector of scores and class-wise for a matrix; class-wise terms
        are summed over classes, each against the rest.

    Notes
    -----
    ``score`` is the log-loss of (s, 1 - s); for a vector of scores that of `LogLoss`, with scores of 0 clipped as
    there. ``within`` may be negative, and infinite reliability is clipped like the scores. One pass; with equal-mass
    bins one to three.

    References
    ----------
    .. [1] Kull & Flach, Novel decompositions of proper scoring rules for classification, 2015.
    .. [2] Weijs, van Nooijen & van de Giesen, Kullback-Leibler divergence as a forecast skill score with classic
       reliability-resolution-uncertainty decomposition, 2010.

    Examples
    --------
    >>> import calibdask as cd
    >>> parts = cd.evaluate([0, 1, 0, 1], [0.5, 0.5, 0.5, 0.5], cd.LogLossDecomposition(bins=2))
    >>> round(float(parts.log_loss_decomposition_uncertainty), 6)
    0.693147
    """

    @property
    def name(self) -> str:
        """``log_loss_decomposition``."""
        return "log_loss_decomposition"

    def histograms(self, layout: Layout) -> None:
        """The score itself is a sum of logarithms over rows."""

    def meanings(self, layout: Layout) -> Meanings:
        """In words."""
        return {
            "score": "mean of -log(score of the label), the sum of what follows",
            "reliability": "what miscalibration adds",
            "resolution": "what telling cases apart takes off",
            "uncertainty": "score of predicting the overall frequency",
            "within": "what different scores within a bin add",
        }

    @property
    def is_error(self) -> bool:
        """The reliability."""
        return True

    def estimate(self) -> Estimation:
        """The terms from sums by bin and the score itself."""
        layout = yield Layout()
        setting = layout.setting(self.measured(layout), self.k)
        edges = yield BinEdges(self.rule(layout, setting, "hard"), setting)
        sums = yield from binned_sums(setting, edges)
        logs = yield LogTerms(setting, layout.smallest)
        loss, total = exact.value(logs.sums)
        weight, outcome, score = (exact.value(s) for s in (sums.weight, sums.outcome, sums.score))
        with np.errstate(divide="ignore", invalid="ignore"):
            overall = exact.in_order(outcome) / total
            filled = weight > 0
            # Bins without rows differ from nothing.
            frequency = np.where(filled, outcome / weight, overall[..., None])
            mean = np.where(filled, score / weight, frequency)
            terms = {
                "score": 16 * loss / total,
                "reliability": exact.in_order(weight * _divergence(frequency, mean, layout.smallest)) / total,
                "resolution": exact.in_order(weight * _divergence(frequency, overall[..., None], 0.0)) / total,
                "uncertainty": special.entr(overall) + special.entr(1 - overall),
            }
        terms["within"] = terms["score"] - terms["reliability"] + terms["resolution"] - terms["uncertainty"]
        limits = {"within": (-np.inf, np.inf)}
        parts = {
            name: Part(exact.in_order(values), limits=limits.get(name, (0.0, np.inf))) for name, values in terms.items()
        }
        most = np.log(2.0) * terms["uncertainty"].shape[-1]
        parts["resolution"] = replace(parts["resolution"], biased=True)
        parts["uncertainty"] = replace(parts["uncertainty"], biased=True, limits=(0.0, most))
        return parts | {"reliability": calibration_error(terms["reliability"], np.sum, np.inf)}


def _divergence(p: Array, q: Array, smallest: float) -> Array:
    """KL(p | q) of two outcomes, with probabilities q of at least ``smallest``."""
    return np.asarray(
        special.rel_entr(p, np.maximum(q, smallest)) + special.rel_entr(1 - p, np.maximum(1 - q, smallest))
    )
