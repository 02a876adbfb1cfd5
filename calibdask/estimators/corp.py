"""The decomposition of scores by isotonic regression."""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from scipy import special
from sklearn.isotonic import isotonic_regression

from calibdask.estimators.checks import check_choice
from calibdask.estimators.columns import ColumnEstimator
from calibdask.estimators.estimator import Estimation, Meanings, Part, calibration_error
from calibdask.estimators.score_points import Points, ScorePoints, histogram_of
from calibdask.statistics.exact import Array
from calibdask.statistics.grid import GridHistogram
from calibdask.statistics.layout import Layout
from calibdask.statistics.settings import Setting

__all__ = ["CORP"]


@dataclass(frozen=True, kw_only=True)
class CORP(ColumnEstimator):
    """Score = miscalibration - discrimination + uncertainty, by isotonic regression.

    With S the mean score of the predictions s, of the predictions c that isotonic regression makes of them (the best
    ones that do not decrease in s), and of the frequency r of the outcome as the only prediction::

        miscalibration  S(s) - S(c)
        discrimination  S(r) - S(c)
        uncertainty     S(r)

    Parameters
    ----------
    rule : {"brier", "log"}, default "brier"
        Score of a prediction s and an outcome o: (s - o)**2, or -o log s - (1 - o) log(1 - s).
    setting : str, int or None
        ``"confidence"``, ``"binary"``, a class, ``"top-k"``, ``"classwise"``; None: binary for a vector of scores and
        class-wise for a matrix. Class-wise terms are summed over classes, so that with the Brier score ``score`` is
        that of whole vectors.
    k : int, optional
        Number of classes of the setting ``"top-k"``.

    Raises
    ------
    ValueError
        If a choice is unknown.

    Notes
    -----
    Parts ``score``, ``miscalibration``, ``discrimination`` and ``uncertainty``; the first three terms are never
    negative. Neither bins nor bandwidths are chosen. Rows of equal score are one point of the regression.

    Exact while distinct scores fit (about four million for all places together); beyond, points are cells of a fine
    grid at their mean score. The attribute ``points`` says which. O(n log n) time, one pass (two for the grid). The
    logarithm of 0 is that of the smallest positive number of the scores' type, as in `calibdask.LogLoss`.

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

    rule: Literal["brier", "log"] = "brier"

    def __post_init__(self) -> None:
        check_choice("rule", self.rule, ("brier", "log"))
        super().__post_init__()

    @property
    def name(self) -> str:
        """``corp``, or ``corp_log``."""
        return "corp" if self.rule == "brier" else "corp_log"

    def meanings(self, layout: Layout) -> Meanings:
        """In words."""
        score = "Brier score" if self.rule == "brier" else "logarithmic score"
        return {
            "score": f"{score}, the sum of what follows",
            "miscalibration": "what the best monotone recalibration takes off",
            "discrimination": "what the order of the scores takes off",
            "uncertainty": "score of predicting the overall frequency",
        }

    @property
    def is_error(self) -> bool:
        """The miscalibration."""
        return True

    def measured(self, layout: Layout) -> Setting:
        """All classes of a matrix where no setting is given."""
        return layout.setting("classwise" if self.setting is None and not layout.vector else self.setting, self.k)

    def histograms(self, layout: Layout) -> tuple[GridHistogram]:
        """The one that stands for distinct scores."""
        return (histogram_of(self.measured(layout)),)

    def estimate(self) -> Estimation:
        """Scores of three kinds of predictions, subtracted."""
        layout = yield Layout()
        setting = self.measured(layout)
        points = yield ScorePoints(setting)
        given, fitted, plain = np.full((3, *points.shape), np.nan)
        for place, at in points.places():
            given[place], fitted[place], plain[place] = self._scores(points, at, layout.smallest)
        terms = {
            "score": given,
            "miscalibration": given - fitted,
            "discrimination": plain - fitted,
            "uncertainty": plain,
        }
        parts = {
            name: Part(values.sum(axis=-1), notes=points.notes, limits=(0.0, np.inf)) for name, values in terms.items()
        }
        # A frequency of 1/2 scores worst; next to it sampling lowers what redrawn samples lower once more.
        most = (0.25 if self.rule == "brier" else np.log(2.0)) * plain.shape[-1]
        return parts | {
            "miscalibration": calibration_error(terms["miscalibration"], np.sum, np.inf, **points.notes),
            "discrimination": replace(parts["discrimination"], biased=True),
            "uncertainty": replace(parts["uncertainty"], biased=True, limits=(0.0, most)),
        }

    def _scores(self, points: Points, at: slice, smallest: float) -> tuple[float, float, float]:
        """Mean scores of the predictions, of those of isotonic regression, and of the frequency."""
        weight, outcome, score = points.weight[at], points.outcome[at], points.score[at]
        total = weight.sum()
        calibrated = isotonic_regression(outcome / weight, sample_weight=weight, y_min=0.0, y_max=1.0)
        frequency = np.full_like(score, outcome.sum() / total)
        given, fitted, plain = (self._sum(each, weight, outcome, smallest) for each in (score, calibrated, frequency))
        return given / total, fitted / total, plain / total

    def _sum(self, prediction: Array, weight: Array, outcome: Array, smallest: float) -> float:
        if self.rule == "brier":
            return float((prediction**2 * (weight - outcome) + (1 - prediction) ** 2 * outcome).sum())
        hit = special.xlogy(outcome, np.maximum(prediction, smallest))
        miss = special.xlogy(weight - outcome, np.maximum(1 - prediction, smallest))
        return float(-(hit + miss).sum())
