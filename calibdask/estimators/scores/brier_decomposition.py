"""The decomposition of the Brier score by bins."""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from typing_extensions import override

from calibdask.estimators.about import About, Description, PartInfo
from calibdask.estimators.binned.base import BinnedDecomposition
from calibdask.estimators.binned.scikit_learn_names import understands_scikit_learn
from calibdask.estimators.parts import Estimate, Number, calibration_error, summed
from calibdask.estimators.sampling_variance import variance_of_few
from calibdask.statistics import exact
from calibdask.statistics.bins.bin_sums import BinSums, BinSumsState
from calibdask.statistics.bins.binnings import BinEdges
from calibdask.statistics.exact import Array
from calibdask.statistics.layout import Layout
from calibdask.statistics.request import Requests
from calibdask.statistics.square_sums import square_weights, squares_ahead


@understands_scikit_learn
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
        are summed over classes, so that ``score`` is ``BrierScore(reduction="sum")``.
    debias : bool, default False
        Subtract the sampling noise of the terms [3]_ [4]_, with V = B/A (1 - B/A) / (n - 1) in a bin of n rows and
        v = obar (1 - obar) / (n - 1) of all rows, (1/N) sum A V from reliability and resolution, and v from
        uncertainty and resolution with the opposite sign; the identity holds. With weights V and v are jackknife
        variances, for weights that may depend on the outcome (``calibdask.estimators.sampling_variance``). For bins of
        one row, with weights of fewer than two effective rows of both outcomes together, nothing is subtracted.

    Notes
    -----
    The within-bin terms vanish if all scores of a bin are equal, and are too small with few rows. These terms, the
    resolution and the refinement loss have no interval (NaN) with fewer than 10 rows per non-empty bin; all but the
    variance also have none with fewer than 10 rows of an outcome, and the resolution none if such a bin has less than
    one expected row of an outcome, or if there is one such bin only. One pass; with equal-mass bins two or three.
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

    about = About(
        "Decomposition of the Brier score",
        "Reliability (loss from miscalibration) minus resolution (gain from separating cases) plus uncertainty (the "
        "score of always predicting the overall frequency), plus terms for the variation within bins: with n_j rows in "
        "bin j, reliability = sum_j (n_j / N) (mean outcome_j - mean score_j)**2.",
        "Murphy, A new vector partition of the probability score, 1973; Stephenson et al., 2008",
        "Brier decomposition",
    )

    debias: bool = False

    @override
    def describe(self, layout: Layout) -> Description:
        bounds = (0.0, 1.0 if layout.vector else 2.0)
        return {
            "score": PartInfo("mean squared error of the scores, the total of the terms", "score", bounds=bounds),
            "reliability": PartInfo("loss from miscalibration", "error", bounds=bounds),
            "resolution": PartInfo("gain from resolution", "term", "higher"),
            "uncertainty": PartInfo("score of always predicting the overall frequency", "term"),
            "within_variance": PartInfo("variance of the scores within bins", "term"),
            "within_covariance": PartInfo("twice the covariance of scores and outcomes within bins", "term"),
            "refinement_loss": PartInfo("score of predicting the frequency of each bin", "term", "lower"),
        }

    def errs_by_chance(self, layout: Layout) -> bool:
        """The reliability is positive by chance, unless it is debiased."""
        return not self.debias

    @override
    def row_range(self, part: str, layout: Layout) -> tuple[float, float] | None:
        is_one = self.measured(layout).columns(layout.classes) == 1
        return (0.0, 1.0 if is_one else 2.0) if part == "score" else None

    @override
    def estimate(self) -> Requests[Estimate]:
        layout = yield from Layout()
        setting = self.measured(layout)
        edges = yield from BinEdges(self.rule(layout, setting, "hard"), setting)
        of_bins = BinSums(setting, edges, "squares")
        request = (yield from squares_ahead(of_bins)) if self.debias else None
        sums = yield from of_bins
        terms = _terms(sums)
        if self.debias:
            corrections = _corrections(sums, None if request is None else (yield from request))
            terms = {name: values + corrections.get(name, 0.0) for name, values in terms.items()}
        terms["refinement_loss"] = terms["uncertainty"] - terms["resolution"]
        # All terms except the covariance are means of squares.
        signed = ("reliability", "resolution", "within_covariance") if self.debias else ("within_covariance",)
        parts: dict[str, Number] = {
            name: summed(values, exact.in_order(values), limits=(-np.inf if name in signed else 0.0, np.inf))
            for name, values in terms.items()
        }
        if not self.debias:
            parts["reliability"] = calibration_error(terms["reliability"], np.sum, np.inf)
            most = 0.25 * terms["uncertainty"].shape[-1]
            parts["uncertainty"] = replace(parts["uncertainty"], limits=(0.0, most))
            parts |= {name: replace(parts[name], is_biased=True) for name in _BIASED}
        few = few_in_bins(sums, weighted=layout.weighted)
        refused = dict.fromkeys(("refinement_loss", "within_covariance"), few.of_outcomes)
        refused |= {"within_variance": few.in_bins, "resolution": few.of_resolution}
        return parts | {name: parts[name].without_ends(where, FEW_IN_BINS) for name, where in refused.items()}


# Rows for each bin that is not empty, and rows of each outcome, below which the terms within bins have no interval.
_FEWEST_IN_A_BIN, _FEWEST_OUTCOMES = 10, 10
# Expected rows of the rarer outcome in each bin that is not empty, below which the resolution has none.
_FEWEST_EXPECTED, _FEWEST_BINS = 1, 2
FEW_IN_BINS = (
    f"where rows are too few: fewer than {_FEWEST_IN_A_BIN} per non-empty bin or, except for within_variance, fewer "
    f"than {_FEWEST_OUTCOMES} of one outcome; for the resolution also with fewer than {_FEWEST_EXPECTED} expected row "
    "of one outcome per bin, or with a single bin"
)
# Terms that sampling shifts.
_BIASED = ("resolution", "uncertainty", "refinement_loss", "within_variance", "within_covariance")


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


class FewRows(NamedTuple):
    """Whether rows are too few, (batch, groups): for the bins, also of an outcome, and for the resolution."""

    in_bins: npt.NDArray[np.bool_]
    of_outcomes: npt.NDArray[np.bool_]
    of_resolution: npt.NDArray[np.bool_]


def few_in_bins(sums: BinSumsState, *, weighted: bool) -> FewRows:
    """Whether rows are too few for intervals of the terms that bins decide.

    The resolution of a single bin, or of bins in which less than one row of the rarer outcome is expected, depends on
    rows that these data do not have. With weights `calibdask.analyses.supported_bounds` counts the effective rows of
    the rarer outcome.
    """
    in_bins = sums.rows.sum(-1) < _FEWEST_IN_A_BIN * (sums.rows > 0).sum(-1)
    weight, outcome = (exact.in_order(exact.value(of)) for of in (sums.weight, sums.outcome))
    rarer = np.minimum(outcome, weight - outcome)
    few = in_bins | (False if weighted else rarer < _FEWEST_OUTCOMES)
    share = np.divide(rarer, weight, out=np.zeros_like(weight), where=weight > 0)
    filled = sums.rows > 0
    sparse = (filled & (sums.rows * share[..., None] < _FEWEST_EXPECTED)).any(-1) | (filled.sum(-1) < _FEWEST_BINS)
    return FewRows(in_bins.any(-1), few.any(-1), (few | sparse).any(-1))


def _corrections(sums: BinSumsState, squares: BinSumsState | None) -> dict[str, Array]:
    """Corrections that remove the sampling bias from the terms of each (batch, group, column)."""
    by_bin = (exact.value(sums.weight), exact.value(sums.outcome), *square_weights(sums, squares))
    weight, outcome, square, outcome_square = by_bin
    variance, _ = variance_of_few(weight, square, outcome, outcome_square)
    total, hits, of_total, of_hits = map(exact.in_order, by_bin)
    within = exact.in_order(weight * variance) / np.where(total > 0, total, np.nan)
    overall, _ = variance_of_few(total, of_total, hits, of_hits)
    return {"reliability": -within, "resolution": overall - within, "uncertainty": overall}
