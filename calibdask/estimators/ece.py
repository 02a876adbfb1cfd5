"""Expected and maximum calibration error by bins: setting x binning x mapping x norm."""

from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np

from calibdask.estimators.binned import BinnedEstimator
from calibdask.estimators.checks import check_choice
from calibdask.estimators.columns import gap
from calibdask.estimators.estimator import Estimation, Meanings, calibration_error
from calibdask.estimators.keywords import MCEKeywords, Norm, PresetKeywords
from calibdask.statistics import exact
from calibdask.statistics.binned import BinSumsState
from calibdask.statistics.edges import Edges
from calibdask.statistics.exact import Array
from calibdask.statistics.layout import Layout
from calibdask.statistics.mappings import Bins, Mapping

__all__ = ["ECE", "MCE", "Norm", "ece_a", "ece_ac", "ece_c", "ece_l"]


@dataclass(frozen=True, kw_only=True)
class ECE(BinnedEstimator):
    """Expected calibration error by bins.

    With mapping weights W_ij of row i to bin j, scores s_i, outcomes o_i and N rows::

        l1   (1/N) sum_j | sum_i W_ij (o_i - s_i) |
        l2   sqrt( (1/N) sum_j n_j gap_j**2 ),  gap_j the difference of the bin's means, n_j = sum_i W_ij
        max  max_j |gap_j| over bins that are not empty

    In the class-wise setting the mean over classes (for ``max`` the maximum).

    Parameters
    ----------
    bins : int, "sqrt" or sequence of float, default 15
        Number of bins, floor(sqrt(n)) bins, or the edges themselves, the outer ones included.
    binning : {"uniform", "equal-mass"}, default "uniform"
        Bins of equal width, or of equally many rows with exact order statistics as edges and ties never split.
    mapping : {"hard", "convex", "inverted"}, default "hard"
        Each row to its bin; or shared between the two nearest bin centres by linear interpolation; or the latter with
        the larger weight to the farther centre, as [1]_ prints it and its code does.
    setting : str, int or None
        ``"confidence"``, ``"classwise"``, ``"binary"``, a class, ``"top-k"``; None: binary for a vector of scores,
        confidence for a matrix.
    k : int, optional
        Number of classes of the setting ``"top-k"``.
    norm : {"l1", "l2", "max"}, default "l1"
        How gaps are pooled.
    closed : {"right", "left"}, default "right"
        Which end belongs to a bin. 0 and 1 always belong to the first and the last.
    debias : bool, default False
        For ``norm="l2"``: subtract each bin's sampling variance [2]_, ybar (1 - ybar) / (n_j - 1).
    range : (float, float), default (0, 1)
        What uniform bins divide, and the outer edges of equal-mass bins.
    compat : {"scikit-learn", "netcal", "torchmetrics", "euranova"}, optional
        Fill in the choices of that tool for ``bins``, ``closed`` and ``range`` where none is given, and its edges;
        the table is in `calibdask.estimators.compat`.

    Raises
    ------
    ValueError
        If a choice is unknown or choices do not fit each other.

    Notes
    -----
    The plain estimate is biased upward for a calibrated model, the more so the more bins. One pass over the data; with
    equal-mass bins two, with weights or convex mapping three (``calibdask.statistics.binnings.EqualMass`` tells of
    exceptions). Memory: 72 bytes (convex: 120) for each class, bin and slice.

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
    def name(self) -> str:
        """``mce`` for the maximum norm, ``ece`` otherwise."""
        return "mce" if self.norm == "max" else "ece"

    def meanings(self, layout: Layout) -> Meanings:
        """In words."""
        of = gap(layout, self.measured(layout), self.k)
        bins = (
            f"{len(self.bins) - 1} given" if isinstance(self.bins, tuple) else str(self.bins).replace("sqrt", "sqrt(n)")
        )
        where = f"in {bins} bins" + (" of equal mass" if self.binning == "equal-mass" else "")
        words = {"l1": f"mean {of}, {where}", "l2": f"root mean square {of}, {where}", "max": f"largest {of}, {where}"}
        return {"": words[self.norm] + (", less what chance adds" if self.debias else "")}

    @property
    def is_error(self) -> bool:
        """An error."""
        return True

    def estimate(self) -> Estimation:
        """Gaps of the bins, pooled."""
        _, edges, sums, bins = yield from self.binned(self.mapping)
        errors = _debiased(bins, sums) if self.debias else _pooled(bins, self.norm)
        pool = np.max if self.norm == "max" else np.mean
        return {"": calibration_error(errors, pool, **_effective_bins(edges))}


def MCE(**choices: Unpack[MCEKeywords]) -> ECE:
    """Maximum calibration error: `ECE` with ``norm="max"``, which takes the same arguments.

    ``max_j |gap_j|`` over bins that are not empty; in the class-wise setting also over classes.

    Examples
    --------
    >>> MCE(bins=10) == ECE(bins=10, norm="max")
    True
    """
    return ECE(norm="max", **choices)


def ece_l(**choices: Unpack[PresetKeywords]) -> ECE:
    """ECE_l, the legacy estimator of Posocco & Bonnefoy: uniform bins, hard mapping.

    It takes the other arguments of `ECE`.

    Examples
    --------
    >>> ece_l(bins=10) == ECE(bins=10)
    True
    """
    return ECE(binning="uniform", mapping="hard", **choices)


def ece_a(**choices: Unpack[PresetKeywords]) -> ECE:
    """ECE_a of Posocco & Bonnefoy: equal-mass bins, hard mapping.

    It takes the other arguments of `ECE`.

    Examples
    --------
    >>> import calibdask as cd
    >>> f"{cd.evaluate([0, 1, 1, 1], [0.2, 0.4, 0.6, 0.8], cd.ece_a(bins=2)).ece:.3f}"
    '0.250'
    """
    return ECE(binning="equal-mass", mapping="hard", **choices)


def ece_c(**choices: Unpack[PresetKeywords]) -> ECE:
    """ECE_c of Posocco & Bonnefoy: uniform bins, convex mapping; inverted, as in their code, with its ``compat``.

    It takes the other arguments of `ECE`.

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

    It takes the other arguments of `ECE`.

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
    """Error of each (batch, group, column), NaN where no row is."""
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


def _debiased(bins: Bins, sums: BinSumsState) -> Array:
    """Root of the squared gaps less their sampling variance (Kumar et al. 2019); with weights n_j is Kish's."""
    weight = exact.value(bins.weight)
    difference = exact.value(exact.subtract(bins.outcome, bins.score))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        rows = weight**2 / exact.value(sums.weight_square)
        frequency = exact.value(bins.outcome) / weight
        square = (difference / weight) ** 2 - frequency * (1 - frequency) / (rows - 1)
        mean = exact.in_order(np.where(rows >= 2, weight * square, 0.0)) / exact.in_order(weight)
        return np.sqrt(np.maximum(mean, 0.0))


def _effective_bins(edges: Edges) -> dict[str, Any]:
    """Numbers of bins after duplicate edges are dropped, where they can differ from what was asked for."""
    distinct = np.unique(edges.effective).tolist()
    return {"effective_bins": distinct[0] if len(distinct) == 1 else distinct}
