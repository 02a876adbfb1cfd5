"""The estimators of the catalogue and further options of them, by names that outlive changes of any `repr`."""

from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Any

from calibdask.estimators.estimator import Estimator
from calibdask.estimators.expression import parse_metrics
from tests.catalogue import ESTIMATORS, GROUPS, TWO

# Options that the catalogue does without.
_MORE = (
    "ece(bins=10), ece(range=[0.1, 0.9]), ece(binning=equal-mass), ece(mapping=convex), ece(mapping=inverted)",
    "ece(norm=l2), ece(norm=max), ece(bins=6, binning=equal-mass, norm=l2, debias=true), ece_ac(bins=6)",
    *(f"ece(compat={tool}), ece(compat={tool}, binning=equal-mass)" for tool in ("scikit-learn", "netcal")),
    *(f"ece(compat={tool}), ece(compat={tool}, binning=equal-mass)" for tool in ("torchmetrics", "euranova")),
    "ece_c(compat=euranova), ece_ac(compat=netcal), ece_d(compat=euranova), mce(bins=6, binning=equal-mass)",
    "brier-decomposition(bins=6, binning=equal-mass), brier-decomposition(debias=true)",
    "brier-decomposition(compat=netcal), log-loss-decomposition(bins=6, binning=equal-mass)",
    "reliability-diagram(mapping=convex), smooth-ece(step=0.001), mean-gap(step=0.001), saturation(within=0.01)",
    *(
        f"{curve}({option})"
        for curve in ("density-ece", "reliability-curve")
        for option in (
            *("bandwidth=0.05", "bandwidth=isj", "step=0.001"),
            *("kernel=gaussian", "kernel=epanechnikov", "kernel=cosine", "kernel=beta"),
        )
    ),
    "density-ece(form=residual), residual-ece, reliability-curve(points=31, band=plain), local-calibration-error",
    "multiclass-ece(bins=4, distance=euclidean), multiclass-ece(bins=4, distance=squared-euclidean)",
    "multiclass-ece(partition=median-variance, min_size=25, distance=euclidean), skce(bandwidth=0.3)",
    "skce(kernel=gaussian, distance=euclidean), skce(distance=euclidean, bandwidth=median-full)",
    "skce-test(estimator=block, block=7, ddof=0), skce-test(method=distribution-free, estimator=linear)",
    "skce-test(draws=50, kernel=gaussian, distance=euclidean), skce-test(draws=50, bandwidth=median-full)",
    "cme-test(locations=4, covariance=observed, seed=5), cme-test(kernel=gaussian, distance=euclidean)",
    "kernel-canonical-ece(bandwidth=0.05, distance=euclidean)",
    "kernel-canonical-ece(bandwidth=0.05, distance=squared-euclidean)",
    "mmce(bandwidth=0.2, kernel=gaussian), mmce(bandwidth=median), excess-cost(costs=[[0, 5], [1, 0]])",
    *(
        f"consistency-test(resamples=20, statistic={statistic})"
        for statistic in ("multiclass-ece(partition=median-variance)", "density-ece(setting=classwise)", "ecce")
    ),
    "consistency-test(resamples=20, statistic=smooth-ece)",
)
_KNOWN: dict[str, Estimator] = {
    **ESTIMATORS,
    **{str(expression): expression.make() for text in _MORE for expression in parse_metrics(text)},
}
_SETTINGS: dict[str, dict[str, Any]] = {
    **{word: {"setting": word} for word in ("binary", "confidence", "classwise", "multiclass")},
    "class 0": {"setting": 0},
    "top-2": {"setting": "top-k", "k": 2},
    "largest 2": {"setting": TWO},
    "groups": {"setting": GROUPS},
}


def estimator(name: str) -> Estimator:
    """The estimator of a name; a setting that it does not have raises."""
    known, _, setting = name.partition(" in ")
    return replace(_KNOWN[known], **_SETTINGS[setting]) if setting else _KNOWN[known]


def _in_settings(name: str) -> Iterator[str]:
    own = {field.name for field in fields(_KNOWN[name])}
    return (f"{name} in {setting}" for setting, changes in _SETTINGS.items() if changes.keys() <= own)


# The first of each class.
ONE_EACH = list({type(known): name for name, known in reversed(_KNOWN.items())}.values())[::-1]
# All in the setting that they have, and the first ones in all settings.
BRIEF = [*_KNOWN, *(varied for name in ONE_EACH for varied in _in_settings(name))]
# All in all settings.
EVERY = [*_KNOWN, *(varied for name in _KNOWN for varied in _in_settings(name))]
