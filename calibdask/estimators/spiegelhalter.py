"""Spiegelhalter's test of calibration."""

from dataclasses import dataclass

import numpy as np
from scipy import special

from calibdask.estimators.columns import ColumnEstimator
from calibdask.estimators.estimator import PVALUE, Estimation, Meanings, Part
from calibdask.statistics import exact
from calibdask.statistics.layout import Layout
from calibdask.statistics.row_terms import SpiegelhalterTerms

__all__ = ["SpiegelhalterTest"]


@dataclass(frozen=True, kw_only=True)
class SpiegelhalterTest(ColumnEstimator):
    """Spiegelhalter's z-test of whether the Brier score is what calibrated scores lead to expect.

    ::

        z = sum w (o - s)(1 - 2 s) / sqrt( sum w**2 (1 - 2 s)**2 s (1 - s) ),   two-sided p-value

    Parameters
    ----------
    setting : str, int or None
        ``"confidence"``, ``"binary"``, a class, ``"top-k"``, ``"classwise"`` (a test for each class); None: binary for
        a vector of scores, confidence for a matrix.
    k : int, optional
        Number of classes of the setting ``"top-k"``.

    Raises
    ------
    ValueError
        If the setting is unknown.

    Notes
    -----
    Parts ``statistic`` (z) and ``pvalue``; NaN where all scores are 0, 1/2 or 1. Rows are assumed to be independent and
    many. A weight stands for how much a row counts, not for how often it was seen. One pass, O(n) time for each column.

    The test sees errors that change the Brier score: of scores too bold or too timid. Others it misses.

    References
    ----------
    .. [1] Spiegelhalter, Probabilistic prediction in patient management and clinical trials, 1986.

    Examples
    --------
    >>> import calibdask as cd
    >>> result = cd.evaluate([0, 1, 0, 1, 0, 0], [0.1, 0.9, 0.2, 0.8, 0.1, 0.2], cd.SpiegelhalterTest())
    >>> round(float(result.spiegelhalter_test_statistic), 4), round(float(result.spiegelhalter_test_pvalue), 4)
    (-1.0206, 0.3074)
    """

    @property
    def name(self) -> str:
        """``spiegelhalter_test``."""
        return "spiegelhalter_test"

    @property
    def tests(self) -> bool:
        """A test."""
        return True

    def meanings(self, layout: Layout) -> Meanings:
        """In words."""
        return {"statistic": "z of the Brier score, about normal if calibrated", "pvalue": PVALUE}

    def estimate(self) -> Estimation:
        """The sums over rows, divided."""
        layout = yield Layout()
        setting = layout.setting(self.setting, self.k)
        state = yield SpiegelhalterTerms(setting)
        excess, variance = exact.value(state.sums)
        with np.errstate(divide="ignore", invalid="ignore"):
            z = excess / np.sqrt(variance)
        z = np.where(np.isfinite(z), z, np.nan)
        notes = {
            "assumes": "rows are independent and many: the statistic is about normal",
            "null_hypothesis": "the model is calibrated",
        }
        values = {"statistic": z, "pvalue": 2 * special.ndtr(-np.abs(z))}
        if setting.per_class:
            return {name: Part(each, ("class",), notes=notes) for name, each in values.items()}
        return {name: Part(each[..., 0], notes=notes) for name, each in values.items()}
