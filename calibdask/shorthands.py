"""One metric, one call: shorthands that return floats, or datasets for diagrams.

All take the arguments of their estimator and those of `evaluate`, and two that scikit-learn's metrics have, so that
`sklearn.metrics.make_scorer` makes scorers of them with ``response_method="predict_proba"``:

labels : sequence of K
    The classes in the order of the columns of scores, where they are not 0..K-1; results call them so. Names of classes
    without it are taken to be in sorted order, as scikit-learn's classifiers have them, and must all be there: give it
    where a fold may lack a class.
pos_label : label
    For a vector of scores, which is all that a scorer gets for two classes: the class whose probability they are. Not
    needed for labels 0 and 1.

A model that always predicts the frequencies of the classes is calibrated, and of no use: search by `log_loss` or
`brier_score`, which tell of both, or among models of like skill.

Examples
--------
>>> import calibdask as cd
>>> from sklearn.datasets import load_breast_cancer, load_iris
>>> from sklearn.metrics import make_scorer
>>> from sklearn.model_selection import cross_val_score
>>> from sklearn.naive_bayes import GaussianNB

Errors are negative as scorers, so that larger is better; further arguments are those of the metric:

>>> X, y = load_breast_cancer(return_X_y=True)
>>> scorer = make_scorer(cd.ece, greater_is_better=False, response_method="predict_proba", bins=10)
>>> cross_val_score(GaussianNB(), X, y, scoring=scorer).round(3)
array([-0.076, -0.082, -0.046, -0.052, -0.046])

Names of two classes expect ``pos_label``:

>>> names = load_breast_cancer().target_names[y]
>>> scorer = make_scorer(cd.ece, greater_is_better=False, response_method="predict_proba", pos_label="benign", bins=10)
>>> cross_val_score(GaussianNB(), X, names, scoring=scorer).round(3)
array([-0.076, -0.082, -0.046, -0.052, -0.046])

With more classes a scorer gets the matrix:

>>> flowers = load_iris()
>>> scorer = make_scorer(
...     cd.smooth_ece,
...     greater_is_better=False,
...     response_method="predict_proba",
...     labels=flowers.target_names,
...     setting="classwise",
... )
>>> cross_val_score(GaussianNB(), flowers.data, flowers.target_names[flowers.target], scoring=scorer).round(3)
array([-0.055, -0.021, -0.043, -0.027, -0.005])
"""

from collections.abc import Mapping
from typing import Any, TypedDict, Unpack

import xarray as xr

from calibdask.engine.class_names import numbered
from calibdask.engine.interval_ends import Method
from calibdask.estimators.curves import ReliabilityCurve
from calibdask.estimators.density import DensityECE
from calibdask.estimators.diagram import ReliabilityDiagram
from calibdask.estimators.ece import ECE, MCE
from calibdask.estimators.estimator import Estimator
from calibdask.estimators.keywords import (
    CurveKeywords,
    DensityKeywords,
    DiagramKeywords,
    ECEKeywords,
    MCEKeywords,
    ScoreKeywords,
    SKCEKeywords,
    SmoothKeywords,
)
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


class Evaluating(TypedDict, total=False):
    """What all shorthands take beside the choices of their estimator: arguments of `evaluate`, and names of classes."""

    by: Any
    seed: int
    sample_dim: str
    class_dim: str
    sum_tolerance: float
    labels: Any
    pos_label: Any


class _WithIntervals(Evaluating, total=False):
    ci: float | None
    ci_method: Method | None
    n_boot: int


class _ECE(ECEKeywords, Evaluating, total=False):
    pass


class _MCE(MCEKeywords, Evaluating, total=False):
    pass


class _Score(ScoreKeywords, Evaluating, total=False):
    pass


class _Density(DensityKeywords, Evaluating, total=False):
    pass


class _SKCE(SKCEKeywords, Evaluating, total=False):
    pass


class _Smooth(SmoothKeywords, Evaluating, total=False):
    pass


class _Diagram(DiagramKeywords, _WithIntervals, total=False):
    pass


class _Curve(CurveKeywords, _WithIntervals, total=False):
    pass


_EVALUATE = ("by", "ci", "ci_method", "n_boot", "seed", "sample_dim", "class_dim", "sum_tolerance")


def _single(y_true: Any, y_prob: Any, sample_weight: Any, estimator: Any, given: Mapping[str, Any]) -> xr.Dataset:
    """Evaluate one estimator; options of `evaluate` go there but for those that it has too."""
    options, own = {**given}, getattr(estimator, "__dataclass_fields__", {})
    outer = {name: options.pop(name) for name in _EVALUATE if name in options and name not in own}
    classes = {name: options.pop(name) for name in ("labels", "pos_label") if name in options}
    dims = {name: outer[name] for name in ("sample_dim", "class_dim") if name in outer}
    made: Estimator = estimator(**options)
    y_true, y_prob = numbered(y_true, y_prob, **classes, **dims)
    return evaluate(y_true, y_prob, {"value": made}, sample_weight=sample_weight, **outer)


def _number(y_true: Any, y_prob: Any, sample_weight: Any, estimator: Any, options: Mapping[str, Any]) -> Any:
    if options.get("ci") is not None:
        raise ValueError("A shorthand returns one number; intervals come from cd.evaluate(..., ci=...).")
    value = _single(y_true, y_prob, sample_weight, estimator, options)["value"]
    return float(value) if value.ndim == 0 else value.rename(estimator().name)


# sample_weight is named because scikit-learn passes weights only to functions that have it in their signature.
def ece(y_true: Any, y_prob: Any = None, *, sample_weight: Any = None, **options: Unpack[_ECE]) -> Any:
    """Expected calibration error as a float; a DataArray for inputs with extra dimensions or slices.

    Takes the arguments of `ECE` and those of `evaluate`; and ``labels`` and ``pos_label``, as `calibdask.shorthands`
    says and all shorthands do.

    Examples
    --------
    >>> ece([0, 1, 1, 1], [0.2, 0.4, 0.6, 0.8], bins=2)
    0.25
    """
    return _number(y_true, y_prob, sample_weight, ECE, options)


def mce(y_true: Any, y_prob: Any = None, *, sample_weight: Any = None, **options: Unpack[_MCE]) -> Any:
    """Maximum calibration error as a float; takes the arguments of `ECE` and those of `evaluate`.

    Examples
    --------
    >>> round(mce([0, 1, 1, 1], [0.2, 0.4, 0.6, 0.8], bins=2), 12)
    0.3
    """
    return _number(y_true, y_prob, sample_weight, MCE, options)


def brier_score(y_true: Any, y_prob: Any = None, *, sample_weight: Any = None, **options: Unpack[_Score]) -> Any:
    """Brier score as a float; takes the arguments of `BrierScore` and those of `evaluate`.

    Examples
    --------
    >>> brier_score([0, 1], [0.5, 0.5])
    0.25
    """
    return _number(y_true, y_prob, sample_weight, BrierScore, options)


def log_loss(y_true: Any, y_prob: Any = None, *, sample_weight: Any = None, **options: Unpack[Evaluating]) -> Any:
    """Logarithmic score as a float; takes the arguments of `evaluate`.

    Examples
    --------
    >>> round(log_loss([0, 1], [0.5, 0.5]), 6)
    0.693147
    """
    return _number(y_true, y_prob, sample_weight, LogLoss, options)


def density_ece(y_true: Any, y_prob: Any = None, *, sample_weight: Any = None, **options: Unpack[_Density]) -> Any:
    """ECE_d, the density estimator, as a float; takes the arguments of `DensityECE` and those of `evaluate`.

    Examples
    --------
    >>> round(density_ece([0, 1, 1, 1], [0.2, 0.4, 0.6, 0.8], bandwidth=0.05), 4)
    0.3421
    """
    return _number(y_true, y_prob, sample_weight, DensityECE, options)


def skce(y_true: Any, y_prob: Any = None, *, sample_weight: Any = None, **options: Unpack[_SKCE]) -> Any:
    """Squared kernel calibration error as a float; takes the arguments of `SKCE` and those of `evaluate`.

    Examples
    --------
    >>> round(skce([0, 1], [[0.0, 1.0], [1.0, 0.0]], estimator="biased", bandwidth=1.0), 6)
    0.632121
    """
    return _number(y_true, y_prob, sample_weight, SKCE, options)


def smooth_ece(y_true: Any, y_prob: Any = None, *, sample_weight: Any = None, **options: Unpack[_Smooth]) -> Any:
    """Smooth calibration error as a float; takes the arguments of `SmoothECE` and those of `evaluate`.

    Examples
    --------
    >>> round(smooth_ece([0, 1, 1, 1], [0.2, 0.4, 0.6, 0.8]), 3)
    0.25
    """
    return _number(y_true, y_prob, sample_weight, SmoothECE, options)


def reliability_diagram(
    y_true: Any, y_prob: Any = None, *, sample_weight: Any = None, **options: Unpack[_Diagram]
) -> xr.Dataset:
    """Mean score and frequency of the outcome by bin; takes the arguments of `ReliabilityDiagram` and of `evaluate`.

    Examples
    --------
    >>> reliability_diagram([0, 1, 1, 1], [0.2, 0.4, 0.6, 0.8], bins=2)["count"].values
    array([2, 2])
    """
    return _unprefixed(_single(y_true, y_prob, sample_weight, ReliabilityDiagram, options))


def reliability_curve(
    y_true: Any, y_prob: Any = None, *, sample_weight: Any = None, **options: Unpack[_Curve]
) -> xr.Dataset:
    """Frequency of the outcome as a function of the score; takes the arguments of `ReliabilityCurve` and `evaluate`.

    Examples
    --------
    >>> curve = reliability_curve([0, 1, 1, 1], [0.2, 0.4, 0.6, 0.8], bandwidth=0.1, ci=0.9)
    >>> [name for name in curve.data_vars if "band_" in name]
    ['reliability_band_low', 'reliability_band_high']
    """
    return _unprefixed(_single(y_true, y_prob, sample_weight, ReliabilityCurve, options))


def _unprefixed(result: xr.Dataset) -> xr.Dataset:
    """Parts and dimensions under their own names."""
    names = {*map(str, result.variables), *map(str, result.dims)}
    return result.rename({name: name.removeprefix("value_") for name in names if name.startswith("value_")})
