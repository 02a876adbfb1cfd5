"""Proper scores: the Brier score and the logarithmic score."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from typing_extensions import override

from calibdask.estimators.about import About, Description, PartInfo
from calibdask.estimators.estimator import Estimator
from calibdask.estimators.interval import FromRows
from calibdask.estimators.parts import Estimate, number
from calibdask.statistics import exact
from calibdask.statistics.layout import Layout
from calibdask.statistics.request import Requests
from calibdask.statistics.score_sums import ScoreSums


@dataclass(frozen=True)
class BrierScore(Estimator):
    """Brier score: mean over rows of sum_c (p_c - 1[y = c])**2.

    For two classes it is half of that, the mean of (p_1 - y)**2, whether for a vector or for scores (n, 2), and lies
    between 0 and 1; for three or more classes it lies between 0 and 2. This is the convention of
    `sklearn.metrics.brier_score_loss`, whose default is ``scale_by_half="auto"``.

    Parameters
    ----------
    reduction : {"auto", "sum", "mean"}, default "auto"
        How classes are pooled. ``"auto"``: mean over two classes, sum over more. ``"sum"``, ``"mean"``: for any number
        of columns; for a vector of P(y = 1) it is always (p - y)**2.

    Notes
    -----
    One pass, 64 bytes for each slice; a summary holds the same sums. Smaller is better.
    With ``ci`` from replicates of the rows; from a summary of binary scores, from replicates of its cells; the
    histograms of several classes do not determine the variance of the sum over classes, so there is no interval. The
    ends are also NaN if all outcomes are equal (with several classes: if all predictions are right, or all wrong), as
    no replicate shows the loss of an outcome that did not occur; if outcomes differ and no score is on the wrong
    side of 1/2, they are limits of Clopper & Pearson. With few events intervals are too narrow.

    References
    ----------
    .. [1] Brier, Verification of forecasts expressed in terms of probability, 1950.

    Examples
    --------
    >>> import calibdask as cd
    >>> round(cd.brier_score([0, 0, 0, 1, 1, 1], [0.4, 0.3, 0.2, 0.1, 0.5, 0.9]), 7)
    0.2266667
    >>> cd.brier_score([0, 1], [[0.5, 0.5], [0.5, 0.5]]), cd.brier_score([0, 1], [0.5, 0.5])
    (0.25, 0.25)
    """

    about = About(
        "Brier score",
        "The mean over rows of sum_c (p_c - 1[y = c])**2, for two classes half of it, (p_1 - y)**2. It measures "
        "calibration and discrimination together; 0 is perfect. It is not a calibration error.",
        "Brier, Verification of forecasts expressed in terms of probability, 1950",
        "Brier score",
    )

    reduction: Literal["auto", "sum", "mean"] = "auto"

    def __post_init__(self) -> None:
        if self.reduction not in ("auto", "sum", "mean"):
            raise ValueError(f"reduction expects 'auto', or 'sum' or 'mean' over classes, got {self.reduction!r}.")

    @override
    def describe(self, layout: Layout) -> Description:
        most = 1.0 if layout.vector else 2.0 / self._divisor(layout)
        return {"": PartInfo("mean squared error of the scores", "score", bounds=(0.0, most))}

    def _divisor(self, layout: Layout) -> int:
        is_mean = self.reduction == "mean" or (self.reduction == "auto" and layout.classes == 2)
        return layout.classes if is_mean and not layout.vector else 1

    @override
    def interval(self, layout: Layout) -> FromRows:
        return FromRows(by_rows_only=not layout.vector)

    @override
    def row_range(self, part: str, layout: Layout) -> tuple[float, float]:
        return 0.0, 1.0 if layout.vector else 2.0 / self._divisor(layout)

    @override
    def estimate(self) -> Requests[Estimate]:
        layout = yield from Layout()
        sums = yield from ScoreSums()
        with np.errstate(invalid="ignore"):
            mean = exact.value(sums.brier) / exact.value(sums.weight) / self._divisor(layout)
        return number(mean, least=0.0)


@dataclass(frozen=True)
class LogLoss(Estimator):
    """Logarithmic score: mean over rows of -log max(p_y, clip), the natural logarithm.

    Parameters
    ----------
    clip : float, default 0
        Smaller scores of the label are raised to this value, so that no row has a loss above -log(clip): 6.9 for 0.001.
        0: the smallest positive number of the type of the scores. From 0 to below 0.5.

    Raises
    ------
    ValueError
        If ``clip`` is not such a number; with ``clip`` from a summary of several classes.

    Notes
    -----
    The attribute ``clipped_rows`` is the number of rows whose score was clipped. One pass, 64 bytes for each slice; a
    summary holds the same sums, and for binary scores the cells from which clipped losses are computed. Never negative;
    smaller is better. Intervals as for `BrierScore`. Without ``clip`` a single row may dominate the number, and no
    interval allows for rows that did not occur: there is no interval if a score is exactly 0 or 1 (with several
    classes: if the score of a predicted class is 1), and a limit on it is never decided, while a limit on
    ``log-loss(clip=0.001)`` can be.

    References
    ----------
    .. [1] Good, Rational decisions, 1952.

    Examples
    --------
    >>> import calibdask as cd
    >>> round(cd.log_loss([0, 1], [0.5, 0.5]), 6)
    0.693147
    >>> round(float(cd.evaluate([0, 1], [1.0, 1.0], cd.LogLoss(clip=0.001)).log_loss), 6)
    3.453878
    """

    about = About(
        "Log loss",
        "The mean of -log(score of the label). Confident mistakes are penalised most.",
        "Good, Rational decisions, 1952",
        "log loss",
    )

    clip: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "clip", checked_clip(self.clip))

    @override
    def describe(self, layout: Layout) -> Description:
        clipped = f", of at least {self.clip:g}" if self.clip else ""
        return {"": PartInfo(f"mean of -log(score of the label{clipped})", "score")}

    @override
    def interval(self, layout: Layout) -> FromRows:
        return FromRows(by_rows_only=not layout.vector)

    @override
    def row_range(self, part: str, layout: Layout) -> tuple[float, float]:
        return 0.0, -float(np.log(self.clip)) if self.clip else np.inf

    @override
    def estimate(self) -> Requests[Estimate]:
        sums = yield from ScoreSums(brier=False, clip=self.clip)
        with np.errstate(invalid="ignore"):
            mean = exact.value(sums.log) / exact.value(sums.weight)
        clip = {"clip": self.clip} if self.clip else {}
        return number(mean, least=0.0, clipped_rows=int(sums.clipped.sum()), **clip)


def checked_clip(clip: Any) -> float:
    """The smallest score of a label as a number, from 0 to below 0.5.

    Raises
    ------
    ValueError
        If it is none.
    """
    is_number = isinstance(clip, int | float | np.number) and not isinstance(clip, bool)
    if not is_number or not 0 <= clip < 0.5:
        raise ValueError(f"clip expects a number from 0 to below 0.5, such as 0.001, got {clip!r}.")
    return float(clip)
