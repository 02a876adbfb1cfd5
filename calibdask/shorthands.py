"""One metric, one call: shorthands that return floats, or datasets for diagrams."""

from typing import Any

import xarray as xr

from calibdask.estimators.curves import ReliabilityCurve
from calibdask.estimators.density import DensityECE
from calibdask.estimators.diagram import ReliabilityDiagram
from calibdask.estimators.ece import ECE, MCE
from calibdask.estimators.estimator import Estimator
from calibdask.estimators.scores import BrierScore, LogLoss
from calibdask.estimators.skce import SKCE
from calibdask.estimators.smooth import SmoothECE
from calibdask.evaluation import evaluate

__all__ = [
    "brier_score",
    "density_ece",
    "ece",
    "log_loss",
    "mce",
    "reliability_curve",
    "reliability_diagram",
    "skce",
    "smooth_ece",
]

_EVALUATE = ("by", "sample_weight", "ci", "ci_method", "n_boot", "seed", "sample_dim", "class_dim", "sum_tolerance")


def _single(y_true: Any, y_prob: Any, estimator: Any, options: dict[str, Any]) -> xr.Dataset:
    """Evaluate one estimator; options of `evaluate` go there but for those that it has too."""
    own = getattr(estimator, "__dataclass_fields__", {})
    outer = {name: options.pop(name) for name in _EVALUATE if name in options and name not in own}
    made: Estimator = estimator(**options)
    return evaluate(y_true, y_prob, {"value": made}, **outer)


def _number(y_true: Any, y_prob: Any, estimator: Any, options: dict[str, Any]) -> Any:
    if options.get("ci") is not None:
        raise ValueError("A shorthand returns one number; intervals come from cd.evaluate(..., ci=...).")
    value = _single(y_true, y_prob, estimator, options)["value"]
    return float(value) if value.ndim == 0 else value.rename(estimator().name)


def ece(y_true: Any, y_prob: Any = None, **options: Any) -> Any:
    """Expected calibration error as a float; a DataArray for inputs with extra dimensions or slices.

    Takes the arguments of `ECE` and those of `evaluate`.

    Examples
    --------
    >>> ece([0, 1, 1, 1], [0.2, 0.4, 0.6, 0.8], bins=2)
    0.25
    """
    return _number(y_true, y_prob, ECE, options)


def mce(y_true: Any, y_prob: Any = None, **options: Any) -> Any:
    """Maximum calibration error as a float; takes the arguments of `ECE` and those of `evaluate`.

    Examples
    --------
    >>> round(mce([0, 1, 1, 1], [0.2, 0.4, 0.6, 0.8], bins=2), 12)
    0.3
    """
    return _number(y_true, y_prob, MCE, options)


def brier_score(y_true: Any, y_prob: Any = None, **options: Any) -> Any:
    """Brier score as a float; takes the arguments of `BrierScore` and those of `evaluate`.

    Examples
    --------
    >>> brier_score([0, 1], [0.5, 0.5])
    0.25
    """
    return _number(y_true, y_prob, BrierScore, options)


def log_loss(y_true: Any, y_prob: Any = None, **options: Any) -> Any:
    """Logarithmic score as a float; takes the arguments of `evaluate`.

    Examples
    --------
    >>> round(log_loss([0, 1], [0.5, 0.5]), 6)
    0.693147
    """
    return _number(y_true, y_prob, LogLoss, options)


def density_ece(y_true: Any, y_prob: Any = None, **options: Any) -> Any:
    """ECE_d, the density estimator, as a float; takes the arguments of `DensityECE` and those of `evaluate`.

    Examples
    --------
    >>> round(density_ece([0, 1, 1, 1], [0.2, 0.4, 0.6, 0.8], bandwidth=0.05), 4)
    0.3421
    """
    return _number(y_true, y_prob, DensityECE, options)


def skce(y_true: Any, y_prob: Any = None, **options: Any) -> Any:
    """Squared kernel calibration error as a float; takes the arguments of `SKCE` and those of `evaluate`.

    Examples
    --------
    >>> round(skce([0, 1], [[0.0, 1.0], [1.0, 0.0]], estimator="biased", bandwidth=1.0), 6)
    0.632121
    """
    return _number(y_true, y_prob, SKCE, options)


def smooth_ece(y_true: Any, y_prob: Any = None, **options: Any) -> Any:
    """Smooth calibration error as a float; takes the arguments of `SmoothECE` and those of `evaluate`.

    Examples
    --------
    >>> round(smooth_ece([0, 1, 1, 1], [0.2, 0.4, 0.6, 0.8]), 3)
    0.25
    """
    return _number(y_true, y_prob, SmoothECE, options)


def reliability_diagram(y_true: Any, y_prob: Any = None, **options: Any) -> xr.Dataset:
    """Mean score and frequency of the outcome by bin; takes the arguments of `ReliabilityDiagram` and of `evaluate`.

    Examples
    --------
    >>> reliability_diagram([0, 1, 1, 1], [0.2, 0.4, 0.6, 0.8], bins=2)["count"].values
    array([2, 2])
    """
    return _unprefixed(_single(y_true, y_prob, ReliabilityDiagram, options))


def reliability_curve(y_true: Any, y_prob: Any = None, **options: Any) -> xr.Dataset:
    """Frequency of the outcome as a function of the score; takes the arguments of `ReliabilityCurve` and `evaluate`.

    Examples
    --------
    >>> curve = reliability_curve([0, 1, 1, 1], [0.2, 0.4, 0.6, 0.8], bandwidth=0.1, ci=0.9)
    >>> [name for name in curve.data_vars if "band_" in name]
    ['reliability_band_low', 'reliability_band_high']
    """
    return _unprefixed(_single(y_true, y_prob, ReliabilityCurve, options))


def _unprefixed(result: xr.Dataset) -> xr.Dataset:
    """Parts and dimensions under their own names."""
    names = {*map(str, result.variables), *map(str, result.dims)}
    return result.rename({name: name.removeprefix("value_") for name in names if name.startswith("value_")})
