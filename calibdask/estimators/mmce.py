"""The kernel calibration error of the predicted class."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from calibdask.estimators.checks import check_choice
from calibdask.estimators.estimator import Estimate, Estimation, Estimator, Meanings, calibration_error
from calibdask.estimators.kernel import said
from calibdask.estimators.skce import SKCE
from calibdask.statistics.layout import Layout

__all__ = ["MMCE"]


@dataclass(frozen=True, kw_only=True)
class MMCE(Estimator):
    """Maximum mean calibration error of the predicted class.

    ::

        sqrt( (1/n**2) sum_ij (o_i - s_i) (o_j - s_j) exp(-|s_i - s_j| / bandwidth) )

    with s the largest score and o whether its class is the label; for a vector of scores P(y = 1), s = p and o = y. It
    is the kernel calibration error of the confidence.

    Parameters
    ----------
    bandwidth : float, "median" or "median-full", default 0.4
        As in `SKCE`; 0.4 is the choice of [1]_.
    kernel : {"exponential", "gaussian"}, default "exponential"
        Function of ``|s_i - s_j| / bandwidth``.
    estimator : {"biased", "features-biased"}
        Over all pairs, or approximated by random features in one pass.
    features, seed, max_pairs
        As in `SKCE`.

    Raises
    ------
    ValueError
        If a choice is unknown, or there are more pairs than ``max_pairs``.

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

    bandwidth: Any = 0.4
    kernel: Literal["exponential", "gaussian"] = "exponential"
    estimator: Literal["biased", "features-biased"] = "biased"
    features: int = 512
    seed: int = 0
    max_pairs: float = 10**10

    def __post_init__(self) -> None:
        check_choice("estimator", self.estimator, ("biased", "features-biased"))
        _ = self._squared(vector=True)

    def meanings(self, layout: Layout) -> Meanings:
        """In words."""
        return {"": "kernel calibration error of the largest score"}

    @property
    def is_error(self) -> bool:
        """An error."""
        return True

    def _squared(self, vector: bool) -> SKCE:
        # In one dimension all distances are the same but for Fourier transforms: the Gaussian has one for Euclidean.
        gaussian = self.kernel == "gaussian" and self.estimator == "features-biased"
        return SKCE(
            estimator=self.estimator,
            kernel=self.kernel,
            distance="euclidean" if gaussian else "tv",
            bandwidth=self._scaled() if gaussian else self.bandwidth,
            setting="multiclass" if vector else "confidence",
            features=self.features,
            seed=self.seed,
            max_pairs=self.max_pairs,
        )

    def _scaled(self) -> Any:
        """The Euclidean distance of (1 - s, s) is sqrt(2) |s - s'|."""
        return self.bandwidth if isinstance(self.bandwidth, str) else self.bandwidth * np.sqrt(2.0)

    def estimate(self) -> Estimation:
        """Root of half the squared kernel calibration error, whose residuals count twice: of s and of 1 - s."""
        layout = yield Layout()
        squared: Estimate = yield from self._squared(layout.vector).estimate()
        part = squared[""]
        values = np.sqrt(np.maximum(part.values, 0.0) / 2)
        notes = dict(part.notes)
        if self.estimator == "features-biased":
            # The error of the root of half of it.
            error = np.reshape(part.notes["approximation_error"], values.shape)
            with np.errstate(divide="ignore", invalid="ignore"):
                notes["approximation_error"] = said(error / (4 * values))
            if self.kernel == "gaussian":
                notes["bandwidth"] = said(np.asarray(part.notes["bandwidth"]) / np.sqrt(2.0))
        return {"": calibration_error(values[..., None], **notes)}
