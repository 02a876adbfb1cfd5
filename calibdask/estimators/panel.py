"""The metrics that are computed when none are named."""

from calibdask.estimators.brier_decomposition import BrierDecomposition
from calibdask.estimators.checks import check_whole
from calibdask.estimators.density import DensityECE
from calibdask.estimators.ece import ECE, MCE
from calibdask.estimators.estimator import Estimator
from calibdask.estimators.scores import BrierScore, LogLoss
from calibdask.estimators.smooth import SmoothECE
from calibdask.estimators.spiegelhalter import SpiegelhalterTest

__all__ = ["comparison_metrics", "default_metrics", "summary_metrics"]


def default_metrics(classes: int, vector: bool | None = None) -> dict[str, Estimator]:
    """The panel for scores of ``classes`` classes: what a careful look at calibration begins with.

    Proper scores, which calibration and sharpness share (for binary scores with their decomposition); the calibration
    error with and without bins, of all classes too where there are several; a root mean square error freed of what
    chance adds; the largest gap; a test. In results the attribute ``meaning`` of each variable says what it is.

    Parameters
    ----------
    classes : int
        Number of classes K.
    vector : bool, optional
        Whether scores are a vector of P(y = 1); None: if there are two classes.

    Notes
    -----
    All of it takes one to three passes, the others than the first for bins of equal mass. Beyond it: `MulticlassECE`,
    `SKCE` and `CMETest` look at whole score vectors; `CORP` and `ECCE` at the scores in order; `ExcessCost` at what is
    done with them.

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
    """A panel for differences of models, cheap to resample by rows.

    Examples
    --------
    >>> list(comparison_metrics(vector=True))
    ['brier_score', 'log_loss', 'ece', 'rmsce']
    """
    several = {} if vector else {"ece_classwise": ECE(setting="classwise")}
    return {
        "brier_score": BrierScore(),
        "log_loss": LogLoss(),
        "ece": ECE(),
        **several,
        "rmsce": ECE(norm="l2", debias=True),
    }


def summary_metrics(*, vector: bool) -> dict[str, ECE | DensityECE | SmoothECE]:
    """A panel of what a summary of both settings tells.

    Examples
    --------
    >>> list(summary_metrics(vector=True))
    ['ece', 'ece_equal_mass', 'density_ece', 'smooth_ece', 'rmsce', 'mce']
    """
    panel = {"ece": ECE(), "ece_equal_mass": ECE(binning="equal-mass")}
    if not vector:
        panel["ece_classwise"] = ECE(setting="classwise")
    return {
        **panel,
        "density_ece": DensityECE(),
        "smooth_ece": SmoothECE(),
        "rmsce": ECE(norm="l2", debias=True),
        "mce": MCE(),
    }
