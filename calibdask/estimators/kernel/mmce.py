"""The kernel calibration error of the predicted class."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from typing_extensions import override

from calibdask.estimators.about import About, Description, PartInfo
from calibdask.estimators.checks import check_choice
from calibdask.estimators.estimator import Estimator
from calibdask.estimators.kernel.base import Bandwidth, note_values
from calibdask.estimators.kernel.skce import SKCE
from calibdask.estimators.parts import Estimate, calibration_error
from calibdask.statistics.layout import Layout
from calibdask.statistics.request import Requests


@dataclass(frozen=True, kw_only=True)
class MMCE(Estimator):
    """Maximum mean calibration error of the predicted class.

    ::

        sqrt( (1/n**2) sum_ij (o_i - s_i) (o_j - s_j) exp(-|s_i - s_j| / bandwidth) )

    with s the largest score and o = 1 if its class is the label; for a vector of scores P(y = 1), s = p and o = y.
    This is the kernel calibration error of the confidence.

    Parameters
    ----------
    bandwidth : float, "median" or "median-full", default 0.4
        As in `SKCE`; 0.4 is the choice of [1]_.
    kernel : {"exponential", "gaussian"}, default "exponential"
        Function of ``|s_i - s_j| / bandwidth``.
    estimator : {"biased", "features-biased"}
        How pairs of rows are averaged: all of them, or approximated by random features in one pass.
    features, seed, max_pairs
        As in `SKCE`.

    Raises
    ------
    ValueError
        If a parameter is invalid, or there are more pairs than ``max_pairs``.

    References
    ----------
    .. [1] Kumar, Sarawagi & Jain, Trainable calibration measures for neural networks from kernel mean embeddings, 2018.
    .. [2] Widmann, Lindsten & Zachariah, Calibration tests in multi-class classification, 2019, Example I.1.

    Examples
    --------
    >>> import calibdask as cd
    >>> float(cd.evaluate([1, 0], [0.5, 0.5], cd.MMCE()).mmce), float(cd.evaluate([1, 1], [0.5, 0.5], cd.MMCE()).mmce)
    (0.0, 0.5)
    """

    about = About(
        "Maximum mean calibration error (MMCE)",
        "The root of the mean over pairs of rows of (o_i - s_i) k(s_i, s_j) (o_j - s_j), with the largest score s and "
        "whether it is right, o.",
        "Kumar, Sarawagi & Jain, Trainable calibration measures for neural networks from kernel mean embeddings, 2018",
        "MMCE",
    )

    compares_pairs = True

    bandwidth: Bandwidth = 0.4
    kernel: Literal["exponential", "gaussian"] = "exponential"
    estimator: Literal["biased", "features-biased"] = "biased"
    features: int = 512
    seed: int = 0
    max_pairs: float = 10**10

    def __post_init__(self) -> None:
        check_choice("estimator", self.estimator, ("biased", "features-biased"))
        _ = self._squared(vector=True)

    @override
    def describe(self, layout: Layout) -> Description:
        return {"": PartInfo("kernel calibration error of the largest score", "error")}

    @override
    def measured_setting(self, layout: Layout) -> str:
        return str(layout.setting(None))

    def _squared(self, vector: bool) -> SKCE:
        # In one dimension the distances agree, but random features support the Gaussian with the Euclidean one only.
        gaussian = self.kernel == "gaussian" and self.estimator == "features-biased"
        return SKCE(
            estimator=self.estimator,
            kernel=self.kernel,
            distance="euclidean" if gaussian else "tv",
            bandwidth=self._euclidean_bandwidth() if gaussian else self.bandwidth,
            setting="multiclass" if vector else "confidence",
            features=self.features,
            seed=self.seed,
            max_pairs=self.max_pairs,
        )

    def _euclidean_bandwidth(self) -> Bandwidth:
        """The bandwidth for the Euclidean distance between vectors (1 - s, s), which is sqrt(2) |s - s'|."""
        return self.bandwidth if isinstance(self.bandwidth, str) else self.bandwidth * np.sqrt(2.0)

    @override
    def estimate(self) -> Requests[Estimate]:
        layout = yield from Layout()
        squared: Estimate = yield from self._squared(layout.vector).estimate()
        part = squared[""]
        values = np.sqrt(np.maximum(part.values, 0.0) / 2)
        notes = dict(part.notes)
        if self.estimator == "features-biased":
            # Error propagation to the root of half the value.
            error = np.reshape(part.notes["approximation_error"], values.shape)
            with np.errstate(divide="ignore", invalid="ignore"):
                notes["approximation_error"] = note_values(error / (4 * values))
            if self.kernel == "gaussian":
                notes["bandwidth"] = note_values(np.asarray(part.notes["bandwidth"]) / np.sqrt(2.0))
        return {"": calibration_error(values[..., None], **notes)}
