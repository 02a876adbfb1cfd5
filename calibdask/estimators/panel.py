"""Default panels of metrics."""

from calibdask.estimators.binned.ece import ECE, MCE
from calibdask.estimators.checks import check_whole
from calibdask.estimators.estimator import Estimator
from calibdask.estimators.ordered.cutoff import CutoffError
from calibdask.estimators.scores.brier_decomposition import BrierDecomposition
from calibdask.estimators.scores.mean_gap import MeanGap
from calibdask.estimators.scores.proper import BrierScore, LogLoss
from calibdask.estimators.smooth.density import DensityECE
from calibdask.estimators.smooth.smooth_ece import SmoothECE

_FromHistograms = BrierScore | LogLoss | ECE | DensityECE | SmoothECE | MeanGap | CutoffError


def default_metrics(classes: int, vector: bool | None = None, *, full: bool = False) -> dict[str, Estimator]:
    """The default metrics for scores of ``classes`` classes: six numbers, or the ``full`` panel.

    The calibration error with bins, smoothed, and on any interval of scores; the mean gap, whose sign shows whether
    scores are too high or too low; the Brier score and the log-loss, which measure discrimination too. The full panel
    adds the decomposition of the Brier score (for a vector of scores), errors of bins of equal mass, by class (for a
    matrix) and of densities, a debiased root mean square error, and the largest gap.

    Parameters
    ----------
    classes : int
        Number of classes K.
    vector : bool, optional
        Whether scores are a vector of P(y = 1); None: if there are two classes.
    full : bool, default False
        All of them, as ``metrics="all"`` of `calibdask.evaluate` and ``--all`` of the command line.

    Notes
    -----
    The six take one pass, the full panel up to three: the additional passes are for equal-mass bins. Not included:
    `MulticlassECE`, `SKCE` and `CMETest` for whole score vectors; `CORP` and `ECCE`, which sort all scores;
    `ExcessCost` for decisions; tests, whose p-values say nothing about the size of an error and are small for any model
    with enough rows: the interval of the cut-off error starts above 0 if calibration is rejected.

    Examples
    --------
    >>> list(default_metrics(2))
    ['ece', 'smooth_ece', 'cutoff_error', 'mean_gap', 'brier_score', 'log_loss']
    >>> list(default_metrics(2, full=True))[6:]
    ['brier_decomposition', 'ece_equal_mass', 'density_ece', 'rmsce', 'mce']
    """
    check_whole("classes", classes, 2)
    binary = classes == 2 if vector is None else vector
    six: dict[str, Estimator] = {
        "ece": ECE(),
        "smooth_ece": SmoothECE(),
        "cutoff_error": CutoffError(),
        "mean_gap": MeanGap(),
        "brier_score": BrierScore(),
        "log_loss": LogLoss(),
    }
    if not full:
        return six
    return {**six, **({"brier_decomposition": BrierDecomposition()} if binary else {}), **_errors(vector=binary)}


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


def summary_metrics(*, vector: bool, full: bool = False) -> dict[str, _FromHistograms]:
    """Default metrics that a summary with both settings can compute.

    Examples
    --------
    >>> list(summary_metrics(vector=True))
    ['ece', 'smooth_ece', 'cutoff_error', 'mean_gap', 'brier_score', 'log_loss']
    >>> list(summary_metrics(vector=True, full=True))[6:]
    ['ece_equal_mass', 'density_ece', 'rmsce', 'mce']
    """
    first: dict[str, _FromHistograms] = {
        "ece": ECE(),
        "smooth_ece": SmoothECE(),
        "cutoff_error": CutoffError(),
        "mean_gap": MeanGap(),
        "brier_score": BrierScore(),
        "log_loss": LogLoss(),
    }
    return {**first, **_errors(vector=vector)} if full else first


def _errors(*, vector: bool) -> dict[str, ECE | DensityECE]:
    """The calibration errors of the full panel."""
    return {
        "ece_equal_mass": ECE(binning="equal-mass"),
        **({} if vector else {"ece_classwise": ECE(setting="classwise")}),
        "density_ece": DensityECE(),
        "rmsce": ECE(norm="l2", debias=True),
        "mce": MCE(),
    }
