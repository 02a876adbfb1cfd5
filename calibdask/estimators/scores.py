"""Proper scores: Brier and logarithmic."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from calibdask.estimators.estimator import Estimation, Estimator, Meanings, number
from calibdask.statistics import exact
from calibdask.statistics.layout import Layout
from calibdask.statistics.scores import ScoreSums

__all__ = ["BrierScore", "LogLoss"]


@dataclass(frozen=True)
class BrierScore(Estimator):
    """Brier score: mean over rows of sum_c (p_c - 1[y = c])**2.

    For a vector of P(y = 1) the mean of (p - y)**2, as in scikit-learn.

    Parameters
    ----------
    reduction : {"sum", "mean"}, default "sum"
        Sum over classes, or mean over classes.

    Notes
    -----
    One pass, 64 bytes for each slice. Between 0 and 2 (``"sum"``); smaller is better.

    References
    ----------
    .. [1] Brier, Verification of forecasts expressed in terms of probability, 1950.

    Examples
    --------
    >>> import calibdask as cd
    >>> round(cd.brier_score([0, 0, 0, 1, 1, 1], [0.4, 0.3, 0.2, 0.1, 0.5, 0.9]), 7)
    0.2266667
    """

    reduction: Literal["sum", "mean"] = "sum"

    def __post_init__(self) -> None:
        if self.reduction not in ("sum", "mean"):
            raise ValueError(f"reduction expects 'sum' or 'mean' over classes, got {self.reduction!r}.")

    @property
    def name(self) -> str:
        """``brier_score``."""
        return "brier_score"

    def meanings(self, layout: Layout) -> Meanings:
        """In words."""
        return {"": "mean squared error of the scores"}

    def estimate(self) -> Estimation:
        """Mean over rows."""
        layout = yield Layout()
        sums = yield ScoreSums()
        classes = layout.classes if self.reduction == "mean" and not layout.vector else 1
        with np.errstate(invalid="ignore"):
            return number(exact.value(sums.brier) / exact.value(sums.weight) / classes, least=0.0)


@dataclass(frozen=True)
class LogLoss(Estimator):
    """Logarithmic score: mean over rows of -log p_y, the natural logarithm.

    Scores of 0 are clipped at the smallest positive number of their type; the attribute ``clipped_rows`` says how many
    rows that concerned.

    Notes
    -----
    One pass, 64 bytes for each slice. Never negative; smaller is better.

    References
    ----------
    .. [1] Good, Rational decisions, 1952.

    Examples
    --------
    >>> import calibdask as cd
    >>> round(cd.log_loss([0, 1], [0.5, 0.5]), 6)
    0.693147
    """

    @property
    def name(self) -> str:
        """``log_loss``."""
        return "log_loss"

    def meanings(self, layout: Layout) -> Meanings:
        """In words."""
        return {"": "mean of -log(score of the label)"}

    def estimate(self) -> Estimation:
        """Mean over rows."""
        sums = yield ScoreSums()
        with np.errstate(invalid="ignore"):
            return number(
                exact.value(sums.log) / exact.value(sums.weight), least=0.0, clipped_rows=int(sums.clipped.sum())
            )
