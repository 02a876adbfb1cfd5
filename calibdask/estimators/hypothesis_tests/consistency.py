"""The consistency resampling test of calibration, with any estimator as its statistic."""

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from typing_extensions import override

from calibdask.estimators.about import PVALUE, About, Description, PartInfo
from calibdask.estimators.binned.ece import ECE
from calibdask.estimators.checks import MOST_DRAWS, check_choice, check_whole
from calibdask.estimators.estimator import Estimator
from calibdask.estimators.interval import NoInterval
from calibdask.estimators.kernel.base import row_counts
from calibdask.estimators.parts import Estimate, Number, Part
from calibdask.estimators.sampling_variance import UNKNOWN_WEIGHT
from calibdask.statistics.exact import Array
from calibdask.statistics.frozen import FrozenArray
from calibdask.statistics.layout import Layout
from calibdask.statistics.request import Requests
from calibdask.statistics.views.drawn_labels import DrawnLabels, drawn_labels
from calibdask.statistics.views.drawn_shares import DrawnShares
from calibdask.statistics.views.view import view_requests

# Values within this relative difference count as equal, since those of resampled rows are rounded sums.
_TOLERANCE = 1e-12


@dataclass(frozen=True, kw_only=True)
class ConsistencyTest(Estimator):
    """Test of calibration by consistency resampling: how often a calibrated model has as large an error.

    Labels are drawn from the predictions R times, and the statistic T is computed from each of these replicates::

        p = (1 + number of replicates with T* >= T) / (1 + R)

    Parameters
    ----------
    statistic : Estimator, default ``ECE()``
        Any estimator of a single number that is large for miscalibrated models.
    resamples : int, default 1000
        Number R of replicates.
    predictions : {"fixed", "resampled"}, default "fixed"
        Predictions of the replicates: fixed; or, for each replicate, the same number drawn with replacement [1]_,
        which rejects calibrated models: resampled predictions repeat, and fewer distinct ones show a smaller error.
    seed : int, default 0
        The random numbers of the labels depend only on the seed and the row number.

    Raises
    ------
    ValueError
        If a parameter is invalid, or ``predictions="resampled"`` is combined with weights or a statistic without
        weights.
    TypeError
        If ``statistic`` is not an estimator of a single number.

    Notes
    -----
    Parts ``statistic`` and ``pvalue``, which is never 0. Rows are assumed to be independent. Valid for any number of
    rows: given the predictions, the labels of a calibrated model have exactly the simulated distribution. Weights may
    depend on the outcome: with v_k the mean weight sum w**2 / sum w of the rows of class k, classes are drawn in
    proportion to score_k / v_k, and a row gets its weight times v of the drawn class over v of its own. If all outcomes
    are equal, the weight of the other outcome is unknown, and the p-value with weights is NaN.

    Replicates are a batch axis of the statistic: the test takes twice the passes of the statistic (three times for
    resampled predictions; one more with weights), R times its cost, and R times its memory. The result does not depend
    on chunks.

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

    about = About(
        "Consistency resampling test",
        "Tests whether a statistic of the data is larger than with outcomes drawn from the scores: "
        "p = (1 + number of resamples with at least its value) / (1 + number of resamples).",
        "Brocker & Smith, Increasing the reliability of reliability diagrams, 2007; Vaicenavicius et al., 2019",
        "consistency test",
    )

    statistic: Estimator = field(default_factory=ECE)
    resamples: int = 1000
    predictions: Literal["fixed", "resampled"] = "fixed"
    seed: int = 0

    def __post_init__(self) -> None:
        check_drawing(self.statistic, self.resamples, self.seed)
        check_choice("predictions", self.predictions, ("fixed", "resampled"))
        if self.predictions == "resampled" and not self.statistic.supports_weights:
            raise ValueError(
                "predictions='resampled' weights rows by how often they are drawn, and the statistic does not support "
                f"weights: {self.statistic!r}. Use predictions='fixed'."
            )

    @override
    def describe(self, layout: Layout) -> Description:
        return {
            "statistic": PartInfo(f"{self.statistic.name} of the data", "statistic"),
            "pvalue": PartInfo(PVALUE, "pvalue"),
        }

    def interval(self, layout: Layout) -> NoInterval:
        """None: a test has a p-value instead."""
        return NoInterval()

    @override
    def measured_setting(self, layout: Layout) -> str:
        return self.statistic.measured_setting(layout)

    @property
    def supports_weights(self) -> bool:
        """If the statistic supports weights, and the predictions are fixed."""
        return self.predictions == "fixed" and self.statistic.supports_weights

    @override
    def estimate(self) -> Requests[Estimate]:
        layout = yield from Layout()
        if self.predictions == "resampled":
            if layout.weighted:
                raise ValueError("predictions='resampled' does not support sample_weight; use predictions='fixed'.")
            rows = FrozenArray((yield from row_counts(layout))[0])
            view = DrawnLabels(self.resamples, self.seed, rows)
        else:
            view = yield from drawn_labels(self.resamples, self.seed)
        observed = single_part(self.statistic, (yield from self.statistic.estimate()))
        replicates = single_part(self.statistic, (yield from view_requests(view, self.statistic.estimate())))
        drawn = replicates.values.reshape(self.resamples, *observed.values.shape)
        near = observed.values - _TOLERANCE * np.abs(observed.values)
        with np.errstate(invalid="ignore"):
            pvalue = (1 + (drawn >= near).sum(axis=0)) / (1 + self.resamples)
        pvalue = np.where(np.isnan(observed.values), np.nan, pvalue)
        notes = drawing_notes(view)
        pvalue = np.where(has_unknown_weights(view, pvalue), np.nan, pvalue)
        return {"statistic": Number(observed.values, notes=notes), "pvalue": Number(pvalue, notes=notes)}


def drawing_notes(view: DrawnLabels | DrawnShares) -> dict[str, Any]:
    """Assumptions of numbers from labels that are drawn from the scores, and where these numbers are undefined."""
    notes = {"assumes": "rows are independent", "null_hypothesis": "the model is calibrated"}
    if view.weights is not None and np.isnan(view.weights.values).any():
        notes["undefined"] = f"no number {UNKNOWN_WEIGHT}"
    return notes


def has_unknown_weights(view: DrawnLabels | DrawnShares, values: Array) -> npt.NDArray[np.bool_]:
    """Whether labels are drawn whose weight is unknown, since no row has them, by (batch, groups)."""
    if view.weights is None:
        return np.zeros(values.shape, np.bool_)
    return np.isnan(view.weights.values).any(-1)


def check_drawing(statistic: object, resamples: int, seed: int) -> None:
    """Raise TypeError or ValueError for a statistic that is no estimator, or an invalid number of draws or seed."""
    if not isinstance(statistic, Estimator):
        raise TypeError(f"statistic expects an estimator such as cd.ECE(), got {statistic!r}.")
    check_whole("resamples", resamples, 1, MOST_DRAWS)
    check_whole("seed", seed, 0)


def single_part(statistic: Estimator, estimate: Estimate) -> Part:
    """The one number of the statistic; of a test, its statistic.

    Raises
    ------
    TypeError
        If it estimates several numbers.
    """
    part = estimate.get("", estimate.get("statistic"))
    if part is None or part.dims:
        raise TypeError(
            f"statistic expects an estimator of one number, such as cd.ECE(); {statistic!r} has "
            f"{', '.join(name or 'several' for name in estimate)}."
        )
    return part
