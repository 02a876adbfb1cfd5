"""The noise floor of an error: how large it is for a calibrated model with these scores."""

from dataclasses import dataclass, field

import numpy as np
from typing_extensions import override

from calibdask.estimators.about import About, Description, PartInfo
from calibdask.estimators.binned.ece import ECE
from calibdask.estimators.estimator import Estimator
from calibdask.estimators.hypothesis_tests.consistency import (
    check_drawing,
    drawing_notes,
    has_unknown_weights,
    single_part,
)
from calibdask.estimators.interval import NoInterval
from calibdask.estimators.parts import Estimate, FixedPart
from calibdask.statistics.layout import Layout
from calibdask.statistics.request import Requests
from calibdask.statistics.views.drawn_labels import DrawnLabels, drawn_labels
from calibdask.statistics.views.drawn_shares import DrawnShares
from calibdask.statistics.views.view import view_requests


@dataclass(frozen=True, kw_only=True)
class NoiseFloor(Estimator):
    """Noise floor: the error of a calibrated model with the scores of these rows, by chance.

    Labels are drawn from the scores R times, and the error is computed from each of these replicates. An error at its
    floor is no evidence of miscalibration; few rows and many bins raise it.

    Parameters
    ----------
    statistic : Estimator, default ``ECE()``
        Any estimator of a single number that is large for miscalibrated models.
    resamples : int, default 1000
        Number R of replicates.
    seed : int, default 0
        The random numbers of the labels depend only on the seed and the row number.

    Raises
    ------
    ValueError
        If a parameter is invalid.
    TypeError
        If ``statistic`` is not an estimator of a single number.

    Notes
    -----
    Parts: ``mean`` over the replicates, and ``high``, exceeded by 5 % of them. Rows are assumed to be independent;
    clusters are supported with soft labels only. Weights may depend on the outcome, as in `ConsistencyTest`, which
    compares the error with the same replicates; with weights, both are NaN if all outcomes are equal. Replicates are a
    batch axis of the statistic: this takes R times its cost and memory. The result does not depend on chunks.

    *Soft labels* vary less than labels drawn from the scores; how much less is estimated from the shares. The
    shares of a replicate are (1 - c) s + c e, with e a label drawn from the scores s, and c**2 the variance of the
    shares around their mean over that of a label, estimated in cells of neighbouring scores of each slice from rows of
    positive weight, each of which counts once whatever its weight. A single row has the variance of a label; the
    attribute ``assumes`` counts slices of fewer than 10 rows. Rows of a cluster (``groups=``) share a random number
    with the probability that reproduces the covariance of their errors. Random numbers are keyed by the position of
    rows, so that the floor of rows in another order differs by chance.

    References
    ----------
    .. [1] Brocker & Smith, Increasing the reliability of reliability diagrams, 2007.

    Examples
    --------
    >>> import numpy as np, calibdask as cd
    >>> scores = np.full(100, 0.5)
    >>> result = cd.evaluate(np.arange(100) % 2, scores, cd.NoiseFloor())  # the mean of |share - 0.5| is 0.04
    >>> round(float(result.noise_floor_mean), 2), round(float(result.noise_floor_high), 2)
    (0.04, 0.11)
    """

    about = About(
        "Noise floor",
        "The mean, and the 95 % point, of an error over replicates whose outcomes are drawn from the scores: what a "
        "calibrated model shows by chance.",
        "Brocker & Smith, Increasing the reliability of reliability diagrams, 2007",
        "noise floor",
    )

    statistic: Estimator = field(default_factory=ECE)
    resamples: int = 1000
    seed: int = 0

    def __post_init__(self) -> None:
        check_drawing(self.statistic, self.resamples, self.seed)

    @override
    def describe(self, layout: Layout) -> Description:
        name = self.statistic.name
        return {
            "mean": PartInfo(f"mean {name} of calibrated models with these scores", "statistic"),
            "high": PartInfo(f"{name} that 5 % of calibrated models with these scores exceed", "statistic"),
        }

    @override
    def interval(self, layout: Layout) -> NoInterval:
        return NoInterval()

    @override
    def measured_setting(self, layout: Layout) -> str:
        return self.statistic.measured_setting(layout)

    @property
    @override
    def supports_weights(self) -> bool:
        return self.statistic.supports_weights

    @override
    def cluster_refusal(self, layout: Layout) -> str:
        return "its labels are drawn for each row by itself"

    @override
    def estimate(self) -> Requests[Estimate]:
        return (yield from self.of_view((yield from drawn_labels(self.resamples, self.seed))))

    def of_view(self, view: DrawnLabels | DrawnShares) -> Requests[Estimate]:
        """The floor of replicates that a view shows."""
        layout = yield from Layout()
        drawn = single_part(self.statistic, (yield from view_requests(view, self.statistic.estimate())))
        values = drawn.values.reshape(self.resamples, layout.batch, *drawn.values.shape[1:])
        mean, high = values.mean(0), np.quantile(values, 0.95, axis=0, method="weibull")
        mean, high = (np.where(has_unknown_weights(view, of), np.nan, of) for of in (mean, high))
        notes = drawing_notes(view)
        return {"mean": FixedPart(mean, notes=notes), "high": FixedPart(high, notes=notes)}
