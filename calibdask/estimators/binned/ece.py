"""Expected and maximum calibration error from bins: setting x binning x mapping x norm."""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, Unpack

import numpy as np
from typing_extensions import override

from calibdask.estimators.about import About, Description, PartInfo
from calibdask.estimators.binned.base import BinnedEstimator
from calibdask.estimators.binned.diagram import effective_rows_of_bins, frequency_limits
from calibdask.estimators.binned.scikit_learn_names import understands_scikit_learn
from calibdask.estimators.checks import check_choice
from calibdask.estimators.columns import gap
from calibdask.estimators.keywords import MCEKeywords, Norm, PresetKeywords
from calibdask.estimators.parts import Estimate, FixedPart, calibration_error
from calibdask.estimators.sampling_variance import variance_of_few
from calibdask.statistics import exact
from calibdask.statistics.bins.bin_sums import BinSums, BinSumsState
from calibdask.statistics.bins.binnings import BinEdges
from calibdask.statistics.bins.edges import Edges
from calibdask.statistics.bins.mappings import Bins, Mapping, bin_edges
from calibdask.statistics.exact import Array, Counts
from calibdask.statistics.layout import Layout
from calibdask.statistics.request import Requests
from calibdask.statistics.square_sums import SquareSums, square_weights, squares_ahead

_RMSCE = About(
    "Root mean square calibration error (RMSCE)",
    "As the ECE, but the root of the mean of the squared gaps: sqrt(sum_j (n_j / N) (mean outcome_j - mean "
    "score_j)**2); the debiased form subtracts the sampling variance of each bin's frequency.",
    "Kumar, Liang & Ma, Verified uncertainty calibration, 2019",
    "RMSCE",
)
_MCE = About(
    "Maximum calibration error (MCE)",
    "The largest gap between mean score and frequency of the outcome over all non-empty bins: "
    "max_j |mean outcome_j - mean score_j|.",
    "Naeini, Cooper & Hauskrecht, Obtaining well calibrated probabilities using Bayesian binning, 2015",
    "MCE",
)


@understands_scikit_learn
@dataclass(frozen=True, kw_only=True)
class ECE(BinnedEstimator):
    """Expected calibration error by bins.

    With mapping weights W_ij of row i to bin j, scores s_i, outcomes o_i and N rows::

        l1   (1/N) sum_j | sum_i W_ij (o_i - s_i) |
        l2   sqrt( (1/N) sum_j n_j gap_j**2 ),  gap_j the difference of the bin's means, n_j = sum_i W_ij
        max  max_j |gap_j| over non-empty bins

    In the class-wise setting, the mean over classes (for ``max`` the maximum).

    Parameters
    ----------
    bins : int, "sqrt" or sequence of float, default 15
        Number of bins, floor(sqrt(n)) bins, or the edges themselves, the outer ones included.
    binning : {"uniform", "equal-mass"}, default "uniform"
        How bins are chosen: of equal width, or of equally many rows with exact order statistics as edges and ties never
        split.
    mapping : {"hard", "convex", "inverted"}, default "hard"
        How rows are assigned to bins: each to its bin; or shared between the two nearest bin centres by linear
        interpolation; or likewise with the larger weight for the farther centre, as [1]_ prints it and its code does.
    setting : str, int or None
        Which scores are measured: ``"confidence"``, ``"classwise"``, ``"binary"``, a class, ``"top-k"``; None: binary
        for a vector of scores, confidence for a matrix.
    k : int, optional
        Number of classes of the setting ``"top-k"``.
    norm : {"l1", "l2", "max"}, default "l1"
        How gaps are pooled.
    closed : {"right", "left"}, default "right"
        Which end of a bin is included. 0 and 1 always belong to the first and the last bin.
    debias : bool, default False
        Correct for sampling noise: subtract from each squared gap, with ``norm="l2"``, the sampling variance [2]_ of
        its bin, ybar (1 - ybar) / (n_j - 1); with weights the jackknife variance of ybar, since weights may depend on
        the outcome. Bins of one row (with weights, of fewer than two effective rows of both outcomes together)
        contribute nothing.
    range : (float, float), default (0, 1)
        The interval that uniform bins divide, and the outer edges of equal-mass bins.
    compat : {"scikit-learn", "netcal", "torchmetrics", "euranova"}, optional
        Use the edges of that tool, and its defaults for ``bins``, ``closed`` and ``range``;
        the table is in `calibdask.estimators.compat`.

    scikit-learn's names are accepted as well: ``n_bins`` for ``bins``, and ``strategy="uniform"`` or ``"quantile"`` for
    ``binning="uniform"`` or ``"equal-mass"``.

    Raises
    ------
    ValueError
        If a parameter is invalid or parameters are incompatible.

    Notes
    -----
    The plain estimate is biased upward for a calibrated model, more so with more bins. One pass over the data; two with
    equal-mass bins, three with weights or convex mapping (for exceptions see
    ``calibdask.statistics.bins.binnings.EqualMass``). Memory: 72 bytes (convex: 120) for each class, bin and slice.
    From a summary, equal-mass edges lie on cell boundaries, at most 1/3600 apart; this changes the error by at most
    twice the share of rows in the cell of an edge.

    References
    ----------
    .. [1] Posocco & Bonnefoy, Estimating Expected Calibration Errors, 2021, section 4.3, equation (1), definition 5.
    .. [2] Kumar, Liang & Ma, Verified Uncertainty Calibration, 2019.

    Examples
    --------
    >>> import calibdask as cd
    >>> cd.ece([0, 1, 1, 1], [0.2, 0.4, 0.6, 0.8], bins=2)
    0.25
    """

    about = About(
        "Expected calibration error (ECE)",
        "Rows are binned by their score. The gap of a bin is the absolute difference between its mean score and its "
        "frequency of the outcome; the ECE is the mean gap, weighted by rows: ECE = sum_j (n_j / N) |mean outcome_j - "
        "mean score_j|. In the class-wise setting, the mean over classes.",
        "Naeini, Cooper & Hauskrecht, 2015; Guo et al., On calibration of modern neural networks, 2017",
        "ECE",
    )

    mapping: Mapping = "hard"
    norm: Norm = "l1"
    debias: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("mapping", self.mapping, ("hard", "convex", "inverted"))
        check_choice("norm", self.norm, ("l1", "l2", "max"))
        if self.debias and (self.norm != "l2" or self.mapping != "hard"):
            raise ValueError("debias=True corrects squared gaps of hard bins; it expects norm='l2', mapping='hard'.")

    @property
    @override
    def name(self) -> str:
        return "mce" if self.norm == "max" else "ece"

    @override
    def describe(self, layout: Layout) -> Description:
        quantity = gap(layout, self.measured(layout))
        words = {"l1": "mean", "l2": "root mean square", "max": "largest"}
        corrected = ", corrected for sampling bias" if self.debias else ""
        meaning = f"{words[self.norm]} {quantity}, in {self._bins}{corrected}"
        info = {"": PartInfo(meaning, "error", quantity="mean-gap" if self.norm == "l1" else "")}
        return {**info, "rows": PartInfo("rows in the bin with the largest gap", "count")} if self._has_rows else info

    @property
    def _has_rows(self) -> bool:
        """Whether one bin makes the error, and rows belong to one bin each."""
        return self.norm == "max" and self.mapping == "hard"

    @property
    def _bins(self) -> str:
        number = len(self.bins) - 1 if isinstance(self.bins, tuple) else self.bins
        words = f"{number} given bins" if isinstance(self.bins, tuple) else f"{number} bins".replace("sqrt", "sqrt(n)")
        return words + (" of equal mass" if self.binning == "equal-mass" else "")

    @property
    @override
    def declared(self) -> About:
        return {"l2": _RMSCE, "max": _MCE}.get(self.norm, self.about)

    @property
    @override
    def label(self) -> str:
        return f"{self.declared.short}, {self._bins}"

    @override
    def estimate(self) -> Requests[Estimate]:
        request = (yield from self._squares()) if self.debias or self.norm == "max" else None
        _, edges, sums, bins = yield from self.binned(self.mapping)
        squares = None if request is None else (yield from request)
        errors = _debiased(sums, squares) if self.debias else _pooled(bins, self.norm)
        notes = _effective_bins(edges)
        if self.norm != "max":
            return {"": calibration_error(errors, np.mean, **notes)}
        limit = partial(_lower_limit, bins, sums, sums if squares is None else squares, self.mapping)
        error = {"": replace(calibration_error(errors, np.max, **notes), lower_limit=limit)}
        return {**error, "rows": FixedPart(_rows_of_largest(bins, sums))} if self._has_rows else error

    def _squares(self) -> Requests[SquareSums | None]:
        """The request of squared weights, before that of the sums."""
        layout = yield from Layout()
        setting = self.measured(layout)
        edges = yield from BinEdges(self.rule(layout, setting, self.mapping), setting)
        second: Literal["none", "offsets"] = "none" if self.mapping == "hard" else "offsets"
        return (yield from squares_ahead(BinSums(setting, bin_edges(self.mapping, edges), second)))


def MCE(**choices: Unpack[MCEKeywords]) -> ECE:
    """Maximum calibration error: `ECE` with ``norm="max"``; accepts the other arguments of `ECE`.

    ``max_j |gap_j|`` over non-empty bins; in the class-wise setting also over classes. The part ``rows`` is the number
    of rows in that bin: the largest gap often occurs in a bin with few rows, and is then due to chance. The lower end
    of an interval is therefore at most the lower limit from Clopper-Pearson intervals of all bins (Bonferroni).

    Examples
    --------
    >>> MCE(bins=10) == ECE(bins=10, norm="max")
    True
    """
    return ECE(norm="max", **choices)


def ece_l(**choices: Unpack[PresetKeywords]) -> ECE:
    """ECE_l, the legacy estimator of Posocco & Bonnefoy: uniform bins, hard mapping.

    It accepts the other arguments of `ECE`.

    Examples
    --------
    >>> ece_l(bins=10) == ECE(bins=10)
    True
    """
    return ECE(binning="uniform", mapping="hard", **choices)


def ece_a(**choices: Unpack[PresetKeywords]) -> ECE:
    """ECE_a of Posocco & Bonnefoy: equal-mass bins, hard mapping.

    It accepts the other arguments of `ECE`.

    Examples
    --------
    >>> import calibdask as cd
    >>> f"{cd.evaluate([0, 1, 1, 1], [0.2, 0.4, 0.6, 0.8], cd.ece_a(bins=2)).ece:.3f}"
    '0.250'
    """
    return ECE(binning="equal-mass", mapping="hard", **choices)


def ece_c(**choices: Unpack[PresetKeywords]) -> ECE:
    """ECE_c of Posocco & Bonnefoy: uniform bins, convex mapping; inverted, as in their code, with its ``compat``.

    It accepts the other arguments of `ECE`.

    Examples
    --------
    >>> import calibdask as cd
    >>> f"{cd.evaluate([0, 1, 1, 1], [0.2, 0.4, 0.6, 0.8], cd.ece_c(bins=2)).ece:.3f}"
    '0.250'
    >>> ece_c(compat="euranova").mapping
    'inverted'
    """
    return ECE(binning="uniform", mapping=_convex(choices), **choices)


def ece_ac(**choices: Unpack[PresetKeywords]) -> ECE:
    """ECE_ac of Posocco & Bonnefoy: equal-mass bins, convex mapping; inverted with ``compat="euranova"``.

    It accepts the other arguments of `ECE`.

    Examples
    --------
    >>> import calibdask as cd
    >>> f"{cd.evaluate([0, 1, 1, 1], [0.2, 0.4, 0.6, 0.8], cd.ece_ac(bins=2)).ece:.3f}"
    '0.250'
    """
    return ECE(binning="equal-mass", mapping=_convex(choices), **choices)


def _convex(choices: PresetKeywords) -> Mapping:
    return "inverted" if choices.get("compat") == "euranova" else "convex"


def _pooled(bins: Bins, norm: Norm) -> Array:
    """Error of each (batch, group, column), NaN where there are no rows."""
    weight = exact.value(bins.weight)
    difference = np.abs(exact.value(exact.subtract(bins.outcome, bins.score)))
    filled = weight > 0
    total = exact.value(exact.pooled(bins.weight, 3))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        if norm == "l1":
            return np.asarray(exact.in_order(difference) / total)
        if norm == "l2":
            return np.sqrt(exact.in_order(np.where(filled, difference**2 / weight, 0.0)) / total)
        worst = np.where(filled, difference / weight, 0.0).max(-1)
    return np.where(total > 0, worst, np.nan)


def _lower_limit(bins: Bins, sums: BinSumsState, squares: BinSumsState, mapping: Mapping, level: float) -> Array:
    """The largest distance of the mean score of a bin from the limits of its frequency, (batch, groups).

    Limits are those of `ReliabilityDiagram` for all bins of all columns together (Bonferroni).
    """
    weight = exact.value(bins.weight)
    filled = weight > 0
    with np.errstate(divide="ignore", invalid="ignore"):
        score, outcome = (np.where(filled, exact.value(of) / weight, 0.5) for of in (bins.score, bins.outcome))
    rows = np.where(filled, effective_rows_of_bins(weight, sums, mapping), 1.0)
    limits = frequency_limits(outcome.clip(0.0, 1.0), rows, sums, squares, mapping)
    number = max(1, int(filled.sum((-1, -2)).max(initial=1)))
    low, high = limits.ends(1 - (1 - level) / number)
    distance = np.maximum(low - score, score - high)
    return np.where(filled & np.isfinite(distance), distance, 0.0).max((-1, -2), initial=0.0)


def _rows_of_largest(bins: Bins, sums: BinSumsState) -> Counts:
    """Rows in the bin with the largest gap, of all columns of each (batch, group)."""
    weight = exact.value(bins.weight)
    difference = np.abs(exact.value(exact.subtract(bins.outcome, bins.score)))
    gaps = np.divide(difference, weight, out=np.full_like(weight, -1.0), where=weight > 0)
    flat = (*gaps.shape[:2], -1)
    largest = gaps.reshape(flat).argmax(-1)[..., None]
    return np.take_along_axis(sums.rows.reshape(flat), largest, -1)[..., 0]


def _debiased(sums: BinSumsState, squares: BinSumsState | None) -> Array:
    """Root of the squared gaps less their sampling variance (Kumar et al. 2019)."""
    weight, outcome = exact.value(sums.weight), exact.value(sums.outcome)
    difference = exact.value(exact.subtract(sums.outcome, sums.score))
    square, outcome_square = square_weights(sums, squares)
    variance, rows = variance_of_few(weight, square, outcome, outcome_square)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        terms = np.where(rows >= 2, weight * ((difference / weight) ** 2 - variance), 0.0)
        return np.sqrt(np.maximum(exact.in_order(terms) / exact.in_order(weight), 0.0))


def _effective_bins(edges: Edges) -> dict[str, Any]:
    """Numbers of bins after duplicate edges are dropped, where they can differ from the number requested."""
    distinct = np.unique(edges.effective).tolist()
    return {"effective_bins": distinct[0] if len(distinct) == 1 else distinct}
