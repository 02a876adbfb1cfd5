"""Functions for single metrics, which return floats, or datasets for diagrams and curves.

All accept the arguments of their estimator and those of `evaluate`; ``labels`` and ``pos_label`` work as in
scikit-learn's metrics, so `sklearn.metrics.make_scorer` turns them into scorers with
``response_method="predict_proba"``: for two classes a scorer receives the vector of scores of the class ``pos_label``.
If a fold may lack a class, name all classes by ``labels``.

A model that always predicts the frequencies of the classes is calibrated but useless: search by `log_loss` or
`brier_score`, which measure both calibration and discrimination, or among models of similar skill.

Examples
--------
>>> import calibdask as cd
>>> from sklearn.datasets import load_breast_cancer, load_iris
>>> from sklearn.metrics import make_scorer
>>> from sklearn.model_selection import cross_val_score
>>> from sklearn.naive_bayes import GaussianNB

Scorers return negative errors, so that larger is better; further arguments are passed to the metric:

>>> X, y = load_breast_cancer(return_X_y=True)
>>> scorer = make_scorer(cd.ece, greater_is_better=False, response_method="predict_proba", bins=10)
>>> cross_val_score(GaussianNB(), X, y, scoring=scorer).round(3)
array([-0.076, -0.082, -0.046, -0.052, -0.046])

Names of two classes require ``pos_label``:

>>> names = load_breast_cancer().target_names[y]
>>> scorer = make_scorer(cd.ece, greater_is_better=False, response_method="predict_proba", pos_label="benign", bins=10)
>>> cross_val_score(GaussianNB(), X, names, scoring=scorer).round(3)
array([-0.076, -0.082, -0.046, -0.052, -0.046])

With more classes a scorer receives the matrix:

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
from typing import Any, Unpack

import xarray as xr

from calibdask.analyses.evaluation import evaluate
from calibdask.data.options import InputKeywords, PopulationKeywords
from calibdask.estimators.binned.diagram import ReliabilityDiagram
from calibdask.estimators.binned.ece import ECE, MCE
from calibdask.estimators.estimator import Estimator
from calibdask.estimators.kernel.skce import SKCE
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
from calibdask.estimators.scores.proper import BrierScore, LogLoss
from calibdask.estimators.smooth.curves import ReliabilityCurve
from calibdask.estimators.smooth.density import DensityECE
from calibdask.estimators.smooth.smooth_ece import SmoothECE
from calibdask.inference.methods import Method
from calibdask.results.values import Results


class EvaluateKeywords(PopulationKeywords, total=False):
    """Keyword arguments that all shorthands share with `evaluate`; each also takes its estimator's."""

    label: Any
    score: Any
    by: Any
    soft_labels: bool
    skip_missing: bool
    groups: Any
    seed: int


class _WithIntervals(EvaluateKeywords, total=False):
    ci: float | None
    ci_method: Method | None
    n_boot: int


class _ECE(ECEKeywords, EvaluateKeywords, total=False):
    pass


class _MCE(MCEKeywords, EvaluateKeywords, total=False):
    pass


class _Score(ScoreKeywords, EvaluateKeywords, total=False):
    pass


class _Density(DensityKeywords, EvaluateKeywords, total=False):
    pass


class _SKCE(SKCEKeywords, EvaluateKeywords, total=False):
    pass


class _Smooth(SmoothKeywords, EvaluateKeywords, total=False):
    pass


class _Diagram(DiagramKeywords, _WithIntervals, total=False):
    pass


class _Curve(CurveKeywords, _WithIntervals, total=False):
    pass


_EVALUATE = (
    "label",
    "score",
    "by",
    "skip_missing",
    "groups",
    "ci",
    "ci_method",
    "n_boot",
    "seed",
    "population",
    "soft_labels",
    *InputKeywords.__annotations__,
)


def _single(y_true: Any, y_prob: Any, sample_weight: Any, estimator: Any, arguments: Mapping[str, Any]) -> xr.Dataset:
    """Evaluate one estimator; arguments of `evaluate` are passed on unless the estimator has them too."""
    options, own = {**arguments}, getattr(estimator, "__dataclass_fields__", {})
    outer = {name: options.pop(name) for name in _EVALUATE if name in options and name not in own}
    metric: Estimator = estimator(**options)
    return evaluate(y_true, y_prob, {metric.name: metric}, sample_weight=sample_weight, **outer)


def _number(y_true: Any, y_prob: Any, sample_weight: Any, estimator: Any, options: Mapping[str, Any]) -> Any:
    if options.get("ci") is not None:
        raise ValueError("This function returns a single number; for intervals use cd.evaluate(..., ci=...).")
    # Parts such as a bandwidth come after the number itself.
    value = next(iter(_single(y_true, y_prob, sample_weight, estimator, options).data_vars.values()))
    return float(value) if value.ndim == 0 else value


# sample_weight is named because scikit-learn passes weights only to functions that have it in their signature.
def ece(y_true: Any, y_prob: Any = None, *, sample_weight: Any = None, **options: Unpack[_ECE]) -> Any:
    """Expected calibration error as a float; a DataArray for inputs with extra dimensions or slices.

    Accepts the arguments of `ECE` and those of `evaluate`.

    Examples
    --------
    >>> ece([0, 1, 1, 1], [0.2, 0.4, 0.6, 0.8], bins=2)
    0.25
    """
    return _number(y_true, y_prob, sample_weight, ECE, options)


def mce(y_true: Any, y_prob: Any = None, *, sample_weight: Any = None, **options: Unpack[_MCE]) -> Any:
    """Maximum calibration error as a float; accepts the arguments of `ECE` and `evaluate`.

    Examples
    --------
    >>> round(mce([0, 1, 1, 1], [0.2, 0.4, 0.6, 0.8], bins=2), 12)
    0.3
    """
    return _number(y_true, y_prob, sample_weight, MCE, options)


def brier_score(y_true: Any, y_prob: Any = None, *, sample_weight: Any = None, **options: Unpack[_Score]) -> Any:
    """Brier score as a float; accepts the arguments of `BrierScore` and `evaluate`.

    Examples
    --------
    >>> brier_score([0, 1], [0.5, 0.5])
    0.25
    """
    return _number(y_true, y_prob, sample_weight, BrierScore, options)


def log_loss(y_true: Any, y_prob: Any = None, *, sample_weight: Any = None, **options: Unpack[EvaluateKeywords]) -> Any:
    """Logarithmic score as a float; accepts the arguments of `evaluate`.

    Examples
    --------
    >>> round(log_loss([0, 1], [0.5, 0.5]), 6)
    0.693147
    """
    return _number(y_true, y_prob, sample_weight, LogLoss, options)


def density_ece(y_true: Any, y_prob: Any = None, *, sample_weight: Any = None, **options: Unpack[_Density]) -> Any:
    """ECE_d, the density estimator, as a float; accepts the arguments of `DensityECE` and `evaluate`.

    Examples
    --------
    >>> round(density_ece([0, 1, 1, 1], [0.2, 0.4, 0.6, 0.8], bandwidth=0.05), 4)
    0.3421
    """
    return _number(y_true, y_prob, sample_weight, DensityECE, options)


def skce(y_true: Any, y_prob: Any = None, *, sample_weight: Any = None, **options: Unpack[_SKCE]) -> Any:
    """Squared kernel calibration error as a float; accepts the arguments of `SKCE` and `evaluate`.

    Examples
    --------
    >>> round(skce([0, 1], [[0.0, 1.0], [1.0, 0.0]], estimator="biased", bandwidth=1.0), 6)
    0.632121
    """
    return _number(y_true, y_prob, sample_weight, SKCE, options)


def smooth_ece(y_true: Any, y_prob: Any = None, *, sample_weight: Any = None, **options: Unpack[_Smooth]) -> Any:
    """Smooth calibration error as a float; accepts the arguments of `SmoothECE` and `evaluate`.

    Examples
    --------
    >>> round(smooth_ece([0, 1, 1, 1], [0.2, 0.4, 0.6, 0.8]), 3)
    0.25
    """
    return _number(y_true, y_prob, sample_weight, SmoothECE, options)


def reliability_diagram(
    y_true: Any, y_prob: Any = None, *, sample_weight: Any = None, **options: Unpack[_Diagram]
) -> xr.Dataset:
    """Mean score and frequency of the outcome by bin; accepts the arguments of `ReliabilityDiagram` and of `evaluate`.

    Examples
    --------
    >>> reliability_diagram([0, 1, 1, 1], [0.2, 0.4, 0.6, 0.8], bins=2)["count"].values
    array([2, 2])
    """
    return _unprefixed(_single(y_true, y_prob, sample_weight, ReliabilityDiagram, options))


def reliability_curve(
    y_true: Any, y_prob: Any = None, *, sample_weight: Any = None, **options: Unpack[_Curve]
) -> xr.Dataset:
    """Frequency of the outcome as a function of the score; accepts the arguments of `ReliabilityCurve` and `evaluate`.

    Examples
    --------
    >>> curve = reliability_curve([0, 1, 1, 1], [0.2, 0.4, 0.6, 0.8], bandwidth=0.1, ci=0.9)
    >>> [name for name in curve.data_vars if "band_" in name]
    ['reliability_band_low', 'reliability_band_high']
    """
    return _unprefixed(_single(y_true, y_prob, sample_weight, ReliabilityCurve, options))


def _unprefixed(result: xr.Dataset) -> xr.Dataset:
    """The result with parts and dimensions under their own names."""
    prefix = f"{next(iter(Results(result))).metric}_"
    names = {*map(str, result.variables), *map(str, result.dims)}
    return result.rename({name: name.removeprefix(prefix) for name in names if name.startswith(prefix)})
