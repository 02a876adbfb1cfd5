"""The resampling test of calibration, with any estimator as its statistic."""

from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from calibdask.estimators.checks import check_choice, check_whole
from calibdask.estimators.ece import ECE
from calibdask.estimators.estimator import PVALUE, Estimate, Estimation, Estimator, Meanings, Part
from calibdask.estimators.kernel import counted
from calibdask.statistics.drawn_labels import DrawnLabels
from calibdask.statistics.frozen import FrozenArray
from calibdask.statistics.layout import Layout
from calibdask.statistics.views import seen_through

__all__ = ["ConsistencyTest"]

# Values closer than this relative difference are equal: those of resampled rows are rounded sums.
_TOLERANCE = 1e-12


@dataclass(frozen=True, kw_only=True)
class ConsistencyTest(Estimator):
    """Test of calibration by consistency resampling: how often a calibrated model shows as large an error.

    Labels are drawn from the predictions R times, and the statistic T is computed from each of these replicates::

        p = (1 + number of replicates with T* >= T) / (1 + R)

    Parameters
    ----------
    statistic : Estimator, default ``ECE()``
        Any estimator of one number that is large for models that are not calibrated.
    resamples : int, default 1000
        Number R of replicates.
    predictions : {"fixed", "resampled"}, default "fixed"
        Predictions as they are; or for each replicate as many drawn from them with replacement [1]_, which rejects
        calibrated models: resampled predictions repeat, and fewer distinct ones show a smaller error.
    seed : int, default 0
        Labels are keyed by it and the number of the row.

    Raises
    ------
    ValueError
        If a choice is unknown, or ``predictions="resampled"`` meets weights or a statistic that takes none.
    TypeError
        If ``statistic`` is no estimator of one number.

    Notes
    -----
    Parts ``statistic`` and ``pvalue``, which is never 0. Rows are assumed to be independent. Valid for any number of
    rows: given the predictions, labels of a calibrated model are such draws.

    Replicates are a batch axis of the statistic: the passes over the data are twice those of the statistic (three times
    for resampled predictions), the cost R times, memory R times its state. The same for any chunks.

    References
    ----------
    .. [1] Brocker & Smith, Increasing the reliability of reliability diagrams, 2007.
    .. [2] Vaicenavicius et al., Evaluating model calibration in classification, 2019.
    .. [3] Widmann, Lindsten & Zachariah, Calibration tests in multi-class classification, 2019, section 7.2.

    Examples
    --------
    >>> import calibdask as cd
    >>> result = cd.evaluate([0, 0, 0, 0, 0, 0], [0.9, 0.8, 0.9, 0.7, 0.9, 0.8], cd.ConsistencyTest())
    >>> float(result.consistency_test_pvalue) < 0.01
    True
    """

    statistic: Estimator = field(default_factory=ECE)
    resamples: int = 1000
    predictions: Literal["fixed", "resampled"] = "fixed"
    seed: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.statistic, Estimator):
            raise TypeError(f"statistic expects an estimator such as cd.ECE(), got {self.statistic!r}.")
        check_whole("resamples", self.resamples, 1)
        check_whole("seed", self.seed, 0)
        check_choice("predictions", self.predictions, ("fixed", "resampled"))
        if self.predictions == "resampled" and not self.statistic.weighs:
            raise ValueError(
                "predictions='resampled' weights rows with how often they are drawn, and the statistic takes no "
                f"weights: {self.statistic!r}. Take predictions='fixed'."
            )

    @property
    def name(self) -> str:
        """``consistency_test``."""
        return "consistency_test"

    @property
    def tests(self) -> bool:
        """A test."""
        return True

    def meanings(self, layout: Layout) -> Meanings:
        """In words."""
        return {
            "statistic": f"{self.statistic.name} of the data",
            "pvalue": PVALUE,
        }

    def estimate(self) -> Estimation:
        """The statistic of the data, and of replicates."""
        layout = yield Layout()
        rows = None
        if self.predictions == "resampled":
            if layout.weighted:
                raise ValueError("predictions='resampled' takes no sample_weight; take predictions='fixed'.")
            rows = FrozenArray((yield from counted(layout))[0])
        observed = self._single((yield from self.statistic.estimate()))
        view = DrawnLabels(self.resamples, self.seed, rows)
        replicates = self._single((yield from seen_through(view, self.statistic.estimate())))
        drawn = replicates.values.reshape(self.resamples, *observed.values.shape)
        near = observed.values - _TOLERANCE * np.abs(observed.values)
        with np.errstate(invalid="ignore"):
            pvalue = (1 + (drawn >= near).sum(axis=0)) / (1 + self.resamples)
        pvalue = np.where(np.isnan(observed.values), np.nan, pvalue)
        notes = {"assumes": "rows are independent", "null_hypothesis": "the model is calibrated"}
        return {"statistic": Part(observed.values, notes=notes), "pvalue": Part(pvalue, notes=notes)}

    def _single(self, estimate: Estimate) -> Part:
        if "" not in estimate or estimate[""].dims:
            raise TypeError(
                f"statistic expects an estimator of one number, such as cd.ECE(); {self.statistic!r} has "
                f"{', '.join(name or 'several' for name in estimate)}."
            )
        return estimate[""]
