"""Decompositions of proper scores by bins."""

from dataclasses import dataclass

import numpy as np

from calibdask.estimators.binned import BinnedEstimator
from calibdask.estimators.estimator import Estimation, Part
from calibdask.statistics import exact
from calibdask.statistics.binned import BinSums, BinSumsState
from calibdask.statistics.binnings import BinEdges
from calibdask.statistics.exact import Array
from calibdask.statistics.layout import Layout
from calibdask.statistics.settings import Setting

__all__ = ["BrierDecomposition"]


@dataclass(frozen=True, kw_only=True)
class BrierDecomposition(BinnedEstimator):
    """Brier score = reliability - resolution + uncertainty + within_variance - within_covariance, exactly.

    With A, B, C the sums of w, w o and w s in a bin, N the sum of A and obar the frequency of the outcome:

        reliability        (1/N) sum (B - C)**2 / A
        resolution         (1/N) sum A (B/A - obar)**2
        uncertainty        obar (1 - obar)
        within_variance    (1/N) sum [ sum w s**2 - C**2 / A ]
        within_covariance  (2/N) sum [ sum w s o - B C / A ]

    Parameters
    ----------
    bins, binning, setting, k, closed, range, compat
        As for `ECE`. The setting None means binary for a vector of scores and class-wise for a matrix; class-wise terms
        are summed over classes, so that ``score`` is the Brier score.

    Notes
    -----
    The calibration loss of a score is its reliability, the refinement loss uncertainty - resolution. The within-bin
    terms vanish where all scores of a bin are equal. One pass; with equal-mass bins two or three. Memory: 104 bytes for
    each class, bin and slice.

    References
    ----------
    .. [1] Murphy, A new vector partition of the probability score, 1973.
    .. [2] Stephenson, Coelho & Jolliffe, Two extra components in the Brier score decomposition, 2008.

    Examples
    --------
    >>> import calibdask as cd
    >>> parts = cd.evaluate([0, 1, 1, 1], [0.2, 0.4, 0.6, 0.8], cd.BrierDecomposition(bins=2))
    >>> round(float(parts.brier_decomposition_reliability), 6)
    0.065
    """

    @property
    def name(self) -> str:
        """``brier_decomposition``."""
        return "brier_decomposition"

    def measured(self, layout: Layout) -> Setting | str | int | None:
        """All classes of a matrix where no setting is given."""
        return "classwise" if self.setting is None and not layout.vector else self.setting

    def estimate(self) -> Estimation:
        """The terms from six sums by bin."""
        layout = yield Layout()
        setting = layout.setting(self.measured(layout), self.k)
        edges = yield BinEdges(self.rule(layout, setting, "hard"), setting)
        sums = yield BinSums(setting, edges, "squares")
        # All terms but the covariance are means of squares.
        limits = {"within_covariance": (-np.inf, np.inf)}
        return {
            name: Part(exact.in_order(values), limits=limits.get(name, (0.0, np.inf)))
            for name, values in _terms(sums).items()
        }


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
