"""The calibrators of the studies by name, and how one is fitted to a sample."""

import threading
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import clone

import calibdask as cd

Floats = npt.NDArray[np.float64]
# From scores to calibrated scores of the same shape.
ScoreMap = Callable[[Floats], Floats]

# The scores as they are.
NONE = "none"
# As scikit-learn's CalibratedClassifierCV calibrates probabilities: the sigmoid is one of the score, not of its logit.
ON_PROBABILITIES = "platt on probabilities"

# Of P(y = 1), or of each class with rows divided by their sums.
CURVES: Mapping[str, Any] = {
    ON_PROBABILITIES: cd.PlattScaling(smooth_targets=True, logits=True),
    "platt": cd.PlattScaling(),
    "platt, smoothed": cd.PlattScaling(smooth_targets=True),
    "quadratic": cd.QuadraticScaling(),
    "beta": cd.BetaCalibration(),
    "spline": cd.SplineCalibration(),
    "isotonic": cd.IsotonicCalibration(),
    "isotonic, bounded": cd.IsotonicCalibration(bounded=True),
    "isotonic, centred": cd.IsotonicCalibration(centred=True, bounded=True),
    "venn-abers": cd.VennAbers(),
    "histogram": cd.HistogramBinning(),
    "histogram, equal-mass": cd.HistogramBinning(binning="equal-mass", bounded=True),
    "lce": cd.LCECalibrator(),
    "lce, monotone": cd.LCECalibrator(monotone=True),
}
# Of all scores of a row together.
SOFTMAXES: Mapping[str, Any] = {
    "temperature": cd.TemperatureScaling(),
    "vector": cd.VectorScaling(),
    "svs": cd.StructuredScaling(),
    "sms": cd.StructuredScaling(form="matrix"),
}
CALIBRATORS: Mapping[str, Any] = {**CURVES, **SOFTMAXES}
# Two classes leave softmax maps little: vector and structured scaling are then forms of Platt scaling.
BINARY = (NONE, *CURVES, "temperature")
# Rows that sum to 1 are refused as logits, which is what makes a sigmoid of scores.
MULTICLASS = (NONE, *(name for name in CURVES if name != ON_PROBABILITIES), *SOFTMAXES)

# Filters of warnings belong to the process: cells on threads fit one after the other.
_FITTING = threading.Lock()


@dataclass(frozen=True)
class Fitted:
    """A map, and whether the sample was refused, so that the scores are left as they are."""

    apply: ScoreMap
    refused: bool = False


def fitted(name: str, labels: npt.NDArray[Any], scores: Floats) -> Fitted:
    """Fit a calibrator.

    Parameters
    ----------
    name : str
        `NONE` or one of `CALIBRATORS`.
    labels : array of shape (n,)
    scores : array of shape (n,) or (n, K)
    """
    if name == NONE:
        return Fitted(_as_they_are)
    with _FITTING, warnings.catch_warnings():
        # Of separated outcomes, maps that fall, classes without rows: what they cost is what is measured.
        warnings.simplefilter("ignore", UserWarning)
        try:
            fit = clone(CALIBRATORS[name]).fit(labels, scores)
        except ValueError:
            return Fitted(_as_they_are, refused=True)

    def calibrated(given: Floats) -> Floats:
        values: Floats = fit.predict_proba(given)
        return values if given.ndim == 2 else values[:, 1]

    return Fitted(calibrated)


def _as_they_are(scores: Floats) -> Floats:
    return scores
