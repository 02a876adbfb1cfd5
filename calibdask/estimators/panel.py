"""The metrics that are computed when none are named."""

from calibdask.estimators.brier_decomposition import BrierDecomposition
from calibdask.estimators.density import DensityECE
from calibdask.estimators.ece import ECE, MCE
from calibdask.estimators.estimator import Estimator
from calibdask.estimators.scores import BrierScore, LogLoss
from calibdask.estimators.smooth import SmoothECE

__all__ = ["default_metrics", "summary_metrics"]


def default_metrics(classes: int, vector: bool = False) -> dict[str, Estimator]:
    """A panel for scores of ``classes`` classes, or for a vector of P(y = 1).

    Examples
    --------
    >>> list(default_metrics(10))
    ['ece', 'ece_equal_mass', 'ece_classwise', 'mce', 'brier_score', 'log_loss']
    """
    del classes
    panel: dict[str, Estimator] = {"ece": ECE(), "ece_equal_mass": ECE(binning="equal-mass")}
    if vector:
        panel |= {"mce": MCE(), "brier": BrierDecomposition()}
    else:
        panel |= {"ece_classwise": ECE(setting="classwise"), "mce": MCE(), "brier_score": BrierScore()}
    return {**panel, "log_loss": LogLoss()}


def summary_metrics(classes: int, vector: bool = False) -> dict[str, ECE | DensityECE | SmoothECE]:
    """A panel of what a summary of both settings tells.

    Examples
    --------
    >>> list(summary_metrics(2, vector=True))
    ['ece', 'ece_equal_mass', 'mce', 'density_ece', 'smooth_ece']
    """
    del classes
    panel = {"ece": ECE(), "ece_equal_mass": ECE(binning="equal-mass")}
    if not vector:
        panel["ece_classwise"] = ECE(setting="classwise")
    return {**panel, "mce": MCE(), "density_ece": DensityECE(), "smooth_ece": SmoothECE()}
