"""The CORP decomposition of proper scores by isotonic regression."""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt
import scipy
from typing_extensions import override

from calibdask.estimators.about import About, Description, PartInfo
from calibdask.estimators.checks import check_choice
from calibdask.estimators.columns import ColumnEstimator
from calibdask.estimators.interval import FromHistograms
from calibdask.estimators.ordered.score_points import Points, ScorePoints, histogram_of
from calibdask.estimators.parts import Estimate, Number, calibration_error, summed
from calibdask.kernels.isotonic import isotonic_means
from calibdask.statistics.exact import Array
from calibdask.statistics.layout import Layout
from calibdask.statistics.request import Requests

_FEWEST_ROWS = 200
_FEW = f"with fewer than {_FEWEST_ROWS} rows (effective ones, with weights)"


@dataclass(frozen=True, kw_only=True)
class CORP(ColumnEstimator):
    """Score = miscalibration - discrimination + uncertainty, by isotonic regression.

    With S the mean score of the predictions s, of their isotonic recalibration c (the best fit that is
    non-decreasing in s), and of the overall frequency r of the outcome as a constant prediction::

        miscalibration  S(s) - S(c)
        discrimination  S(r) - S(c)
        uncertainty     S(r)

    Parameters
    ----------
    rule : {"brier", "log"}, default "brier"
        Score of a prediction s and an outcome o: (s - o)**2, or -o log s - (1 - o) log(1 - s).
    setting : str, int or None
        ``"confidence"``, ``"binary"``, a class, ``"top-k"``, ``"classwise"``; None: binary for a vector of scores and
        class-wise for a matrix. Class-wise terms are summed over classes, so with the Brier score, ``score`` is the
        score of whole vectors, ``BrierScore(reduction="sum")``.
    k : int, optional
        Number of classes of the setting ``"top-k"``.

    Raises
    ------
    ValueError
        If a parameter is invalid.

    Notes
    -----
    Parts ``score``, ``miscalibration``, ``discrimination`` and ``uncertainty``; the first three terms are never
    negative. There are no bins or bandwidths to choose. Rows with equal scores form one point of the regression.

    Exact up to about four million distinct scores in total; beyond that, and from a summary, points are the cells of a
    fine grid, 1/3600 wide or less, at their mean score. Miscalibration and discrimination by the Brier score are then
    too small by at most the share of rows in one cell for each class, the score by 2e-8. The attribute ``points`` says
    which applies, and ``largest_share`` is the largest share in a cell. O(n log n) time, one pass (two for the grid).
    The logarithm of 0 is that of the smallest positive number of the scores' type, as in `calibdask.LogLoss`. The
    discrimination, which is too large by chance, has no interval (NaN) with fewer than 200 rows (effective ones, with
    weights).

    References
    ----------
    .. [1] Dimitriadis, Gneiting & Jordan, Stable reliability diagrams for probabilistic classifiers, 2021.

    Examples
    --------
    >>> import calibdask as cd
    >>> parts = cd.evaluate([0, 0, 0, 1, 1, 1], [0.4, 0.3, 0.2, 0.1, 0.5, 0.9], cd.CORP())
    >>> [round(float(parts[f"corp_{name}"]), 7) for name in ("miscalibration", "discrimination", "uncertainty")]
    [0.1016667, 0.125, 0.25]
    """

    about = About(
        "CORP decomposition",
        "A proper score = miscalibration - discrimination + uncertainty: the loss removed by isotonic regression of "
        "the outcomes on the scores, the gain of the recalibrated scores over always predicting the overall "
        "frequency, and the score of the latter.",
        "Dimitriadis, Gneiting & Jordan, Stable reliability diagrams for probabilistic classifiers, 2021",
        "CORP",
    )

    usual_setting = "classwise"

    rule: Literal["brier", "log"] = "brier"

    def __post_init__(self) -> None:
        check_choice("rule", self.rule, ("brier", "log"))
        super().__post_init__()

    @property
    @override
    def name(self) -> str:
        return "corp" if self.rule == "brier" else "corp_log"

    @override
    def describe(self, layout: Layout) -> Description:
        score = "Brier score" if self.rule == "brier" else "logarithmic score"
        most = np.inf if self.rule != "brier" else 1.0 if layout.vector else 2.0
        return {
            "score": PartInfo(f"{score}, the total of the terms", "score", bounds=(0.0, most)),
            "miscalibration": PartInfo("loss removed by isotonic recalibration", "error", bounds=(0.0, most)),
            "discrimination": PartInfo("gain of recalibrated scores over the overall frequency", "term", "higher"),
            "uncertainty": PartInfo("score of always predicting the overall frequency", "term"),
        }

    def interval(self, layout: Layout) -> FromHistograms:
        """From replicates of a fine histogram in place of distinct scores."""
        return FromHistograms((histogram_of(self.measured(layout)),), self)

    @override
    def row_range(self, part: str, layout: Layout) -> tuple[float, float] | None:
        is_one = self.measured(layout).columns(layout.classes) == 1
        return (0.0, 1.0 if is_one else 2.0) if part == "score" and self.rule == "brier" else None

    @override
    def estimate(self) -> Requests[Estimate]:
        layout = yield from Layout()
        points = yield from ScorePoints(self.measured(layout))
        original, fitted, constant = self._scores(points, layout.smallest)
        terms = {
            "score": original,
            "miscalibration": original - fitted,
            "discrimination": constant - fitted,
            "uncertainty": constant,
        }
        notes = points.notes
        parts: dict[str, Number] = {
            name: summed(values, values.sum(axis=-1), notes=notes, limits=(0.0, np.inf))
            for name, values in terms.items()
        }
        # The uncertainty is largest at a frequency of 1/2; near it sampling lowers it, and resampling once more.
        most = (0.25 if self.rule == "brier" else np.log(2.0)) * constant.shape[-1]
        discrimination = replace(parts["discrimination"], is_biased=True)
        return parts | {
            "miscalibration": calibration_error(terms["miscalibration"], np.sum, np.inf, **notes),
            "discrimination": discrimination.without_ends(_too_few(points), _FEW),
            "uncertainty": replace(parts["uncertainty"], is_biased=True, limits=(0.0, most)),
        }

    def _scores(self, points: Points, smallest: float) -> Array:
        """Mean scores of the predictions, of their isotonic recalibration, and of the overall frequency, by stratum."""
        starts, sums = points.starts, (points.weight, points.outcome)
        calibrated = np.empty_like(points.score)
        isotonic_means(points.outcome, points.weight, starts, calibrated)
        weight, outcome = (np.add.reduceat(values, starts[:-1]) for values in sums)
        losses = [
            *(np.add.reduceat(self._losses(one, *sums, smallest), starts[:-1]) for one in (points.score, calibrated)),
            self._losses(outcome / weight, weight, outcome, smallest),
        ]
        means = np.full((3, int(np.prod(points.shape))), np.nan)
        means[:, points.stratum[starts[:-1]]] = np.stack(losses) / weight
        return means.reshape(3, *points.shape)

    def _losses(self, prediction: Array, weight: Array, outcome: Array, smallest: float) -> Array:
        """Sums of the score over rows of one prediction."""
        if self.rule == "brier":
            return prediction**2 * (weight - outcome) + (1 - prediction) ** 2 * outcome
        hit = scipy.special.xlogy(outcome, np.maximum(prediction, smallest))
        miss = scipy.special.xlogy(weight - outcome, np.maximum(1 - prediction, smallest))
        return np.asarray(-(hit + miss))


def _too_few(points: Points) -> npt.NDArray[np.bool_]:
    """Whether (batch, group) has too few effective rows in any column for an interval of the discrimination."""
    starts = points.starts[:-1]
    weight, square = (np.add.reduceat(values, starts) for values in (points.weight, points.square))
    rows = np.zeros(int(np.prod(points.shape)))
    rows[points.stratum[starts]] = weight**2 / square
    return np.asarray((rows.reshape(points.shape) < _FEWEST_ROWS - 0.5).any(-1))
