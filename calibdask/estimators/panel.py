"""Default panels of metrics."""

from calibdask.estimators.binned.ece import ECE, MCE
from calibdask.estimators.checks import check_whole
from calibdask.estimators.estimator import Estimator
from calibdask.estimators.scores.brier_decomposition import BrierDecomposition
from calibdask.estimators.scores.proper import BrierScore, LogLoss
from calibdask.estimators.smooth.density import DensityECE
from calibdask.estimators.smooth.smooth_ece import SmoothECE
from calibdask.estimators.tests.spiegelhalter_test import SpiegelhalterTest

__all__ = ["comparison_metrics", "default_metrics", "summary_metrics"]


def default_metrics(classes: int, vector: bool | None = None) -> dict[str, Estimator]:
    """The default metrics for scores of ``classes`` classes.

    Proper scores (for binary scores with their decomposition); the calibration error with and without bins, with more
    than two classes also class-wise; a debiased root mean square error; the largest gap; a test. In results the
    attribute ``meaning`` of each variable explains it.

    Parameters
    ----------
    classes : int
        Number of classes K.
    vector : bool, optional
        Whether scores are a vector of P(y = 1); None: if there are two classes.

    Notes
    -----
    The panel takes one to three passes; those after the first are for bins of equal mass. Not included:
    `MulticlassECE`, `SKCE` and `CMETest` for whole score vectors; `CORP` and `ECCE`, which order the scores;
    `ExcessCost` for decisions.

    Examples
    --------
    >>> list(default_metrics(2))  # doctest: +NORMALIZE_WHITESPACE
    ['brier_score', 'brier_decomposition', 'log_loss', 'ece', 'ece_equal_mass', 'density_ece', 'smooth_ece', 'rmsce',
     'mce', 'spiegelhalter_test']
    """
    check_whole("classes", classes, 2)
    binary = classes == 2 if vector is None else vector
    errors = {"ece": ECE(), "ece_equal_mass": ECE(binning="equal-mass")}
    if not binary:
        errors["ece_classwise"] = ECE(setting="classwise")
    return {
        "brier_score": BrierScore(),
        **({"brier_decomposition": BrierDecomposition()} if binary else {}),
        "log_loss": LogLoss(),
        **errors,
        "density_ece": DensityECE(),
        "smooth_ece": SmoothECE(),
        "rmsce": ECE(norm="l2", debias=True),
        "mce": MCE(),
        "spiegelhalter_test": SpiegelhalterTest(),
    }


def comparison_metrics(*, vector: bool) -> dict[str, Estimator]:
    """The default metrics for comparing models, cheap to compute on resampled rows.

    Examples
    --------
    >>> list(comparison_metrics(vector=True))
    ['brier_score', 'log_loss', 'ece', 'rmsce']
    """
    classwise = {} if vector else {"ece_classwise": ECE(setting="classwise")}
    return {
        "brier_score": BrierScore(),
        "log_loss": LogLoss(),
        "ece": ECE(),
        **classwise,
        "rmsce": ECE(norm="l2", debias=True),
    }


def summary_metrics(*, vector: bool) -> dict[str, BrierScore | LogLoss | ECE | DensityECE | SmoothECE]:
    """The default metrics for a summary that stores both settings.

    Examples
    --------
    >>> list(summary_metrics(vector=True))
    ['brier_score', 'log_loss', 'ece', 'ece_equal_mass', 'density_ece', 'smooth_ece', 'rmsce', 'mce']
    """
    errors = {"ece": ECE(), "ece_equal_mass": ECE(binning="equal-mass")}
    if not vector:
        errors["ece_classwise"] = ECE(setting="classwise")
    return {
        "brier_score": BrierScore(),
        "log_loss": LogLoss(),
        **errors,
        "density_ece": DensityECE(),
        "smooth_ece": SmoothECE(),
        "rmsce": ECE(norm="l2", debias=True),
        "mce": MCE(),
    }
