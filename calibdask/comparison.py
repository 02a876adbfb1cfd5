"""Models compared on the same rows: differences of metrics with intervals and p-values."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from calibdask import __version__
from calibdask.engine.inputs import Input
from calibdask.engine.interval_ends import Method, Replicates, number_ends, sign_pvalue
from calibdask.engine.intervals import checked_interval
from calibdask.engine.models import MODEL, read_models
from calibdask.engine.multiplicity import ADJUSTMENTS
from calibdask.engine.plan import run
from calibdask.engine.row_intervals import replicates_of, row_replicates
from calibdask.engine.slices import Axis
from calibdask.estimators.estimator import Estimate, Estimator, Part
from calibdask.estimators.panel import comparison_metrics
from calibdask.labelled import Labelled, check_names
from calibdask.naming import Metrics, check_distinct, named_metrics
from calibdask.statistics.exact import Array
from calibdask.statistics.validity import Validity

__all__ = ["compare"]

_CHALLENGER = "challenger"
_MEANINGS = {
    "": "that of the model less that of the baseline",
    "pvalue": "chance of a difference as large if there is none",
    "pvalue_holm": "the same, adjusted so that any false finding is as unlikely",
    "pvalue_bh": "the same, adjusted so that the share of false findings is as small",
}


def compare(
    y_true: Any,
    prob_a: Any,
    prob_b: Any = None,
    metrics: Metrics | None = None,
    *,
    baseline: str | None = None,
    by: Any = None,
    sample_weight: Any = None,
    ci: float = 0.95,
    ci_method: Method | None = None,
    n_boot: int = 1000,
    seed: int = 0,
    sample_dim: str = "sample",
    class_dim: str = "class",
    sum_tolerance: float = 1e-3,
) -> xr.Dataset:
    """Compare models on the same rows: paired differences of metrics, with intervals and p-values.

    Parameters
    ----------
    y_true : array of shape (..., n)
        Class numbers, as in `calibdask.evaluate`.
    prob_a, prob_b : arrays of shape (..., n) or (..., n, K)
        Scores of two models, called ``"a"``, the baseline, and ``"b"``. Or ``prob_a`` alone: a mapping from the names
        of two or more models to their scores.
    metrics : estimator, sequence, or mapping from name to estimator, optional
        None: proper scores and binned errors. Not tests, and not what takes no weights.
    baseline : str, optional
        Name of the model that the others are compared with; the first by default.
    by, sample_weight, sample_dim, class_dim, sum_tolerance
        As in `calibdask.evaluate`.
    ci : float, default 0.95
        Level of the intervals.
    ci_method : {"percentile", "bca"}, optional
        Percentiles of the replicates (the default), or bias-corrected and accelerated ones.
    n_boot : int, default 1000
        Number of replicates. The smallest p-value is 2 / (n_boot + 1): with many slices take more.
    seed : int, default 0
        Of the replicates.

    Returns
    -------
    xarray.Dataset
        For each metric (and each part of one): ``<name>`` along the dimension ``model``; ``<name>_difference``, that of
        a model less that of the baseline; ``<name>_difference_low``, ``<name>_difference_high``, its interval; and
        ``<name>_difference_pvalue``, two-sided, of no difference. With named models differences have the dimension
        ``challenger``. With slices, or more than two models, also ``<name>_difference_pvalue_holm`` and
        ``<name>_difference_pvalue_bh``: adjusted, over all slices and challengers of this number, by Holm's method
        (chance of any false finding) and by that of Benjamini & Hochberg (share of false findings).

    Raises
    ------
    TypeError
        If a metric is no estimator.
    ValueError
        If models have scores of different shapes, there are fewer than two, or no such baseline; if a metric is a test
        or takes no weights; and as in `calibdask.evaluate`.

    Notes
    -----
    In every replicate all models see the same rows, each counted as often as a Poisson variable says that is keyed by
    the seed and the row: what the models have in common cancels. The p-value is that of the replicates d* of the
    difference, min(1, 2 (1 + min(#{d* <= 0}, #{d* >= 0})) / (n_boot + 1)); with ``"bca"`` counted at its corrected
    levels. Where it is below 1 - ci the interval leaves 0 out; the converse holds but for 2 / n_boot. Replicates in
    which a small slice has no row count on either side. Edges of bins and bandwidths of kernels on the simplex stay
    those of the data, each model's own.

    Calibration errors exceed the true ones by chance, those of well calibrated models most. Differences of models with
    errors of different size are biased towards 0 by that, and resampling shows it once more: take a metric with little
    bias (`BrierScore`, `LogLoss`, ``ECE(norm="l2", debias=True)``, `SKCE`) where that matters. Terms of `CORP` are
    comparable for scores that are equally fine: the fit follows the noise of distinct scores, less where they are
    rounded.

    The passes are those of `calibdask.evaluate`, at ``n_boot`` times the cost for each model; memory: ``n_boot`` states
    of each metric and model. Scores in memory are copied once. Replicates of class-wise estimates keep what the classes
    of a row have in common.

    Examples
    --------
    >>> import numpy as np, calibdask as cd
    >>> rng = np.random.default_rng(0)
    >>> good = rng.random(1000)
    >>> labels = (rng.random(1000) < good).astype(int)
    >>> result = cd.compare(labels, good, good**2, cd.BrierScore())
    >>> float(result.brier_score_difference) > 0, float(result.brier_score_difference_pvalue) < 0.01
    (True, True)
    """
    checked_interval(ci, n_boot, seed)
    if ci_method not in (None, "percentile", "bca"):
        raise ValueError(f"ci_method of a comparison expects 'percentile', 'bca' or None, got {ci_method!r}.")
    if isinstance(y_true, xr.Dataset) or not hasattr(y_true, "__len__"):
        raise ValueError("compare expects arrays of labels and scores: no summaries, and no iterators of blocks.")
    models = _models(prob_a, prob_b)
    names = list(models)
    base = _place(names, baseline)
    validity = Validity(sum_tolerance=sum_tolerance)
    data = read_models(y_true, models, by, sample_weight, sample_dim, class_dim, validity)
    chosen = named_metrics(comparison_metrics(vector=data.source.layout.vector) if metrics is None else metrics)
    for name, each in chosen.items():
        if each.tests:
            raise ValueError(f"compare takes metrics; {name!r} is a test, {each!r}.")
    named = isinstance(prob_a, Mapping)
    check_names(chosen, (*data.batch, *data.by, *((Axis(_CHALLENGER, 1),) if named else ())), class_dim)
    method: Method = ci_method or "percentile"
    passes, estimates, replicates = _estimated(chosen, data, method, n_boot, seed)
    result = Labelled(data, class_dim)
    challengers = [name for name in names if name != names[base]]
    axes = _axes(data, challengers, squeezed=not named)
    adjusted = bool(data.by) or len(challengers) > 1
    for name, estimate in estimates.items():
        result.add(name, chosen[name], estimate, (*data.batch, *data.by))
        for part, drawn in replicates[name].items():
            parts = _difference(estimate[part], drawn, (base, len(names)), ci, method, adjusted)
            called = f"{name}_{part}_difference" if part else f"{name}_difference"
            result.add(called, chosen[name], parts, axes, _MEANINGS)
    counted = {"rows": data.source.rows, "passes": passes, "calibdask_version": __version__}
    return result.dataset(counted | {"ci": ci, "n_boot": n_boot, "seed": seed, "baseline": names[base]})


def _estimated(
    chosen: Mapping[str, Estimator], data: Input, method: Method, n_boot: int, seed: int
) -> tuple[int, dict[str, Estimate], dict[str, dict[str, Replicates]]]:
    """Passes over the data, estimates of all models, and replicates of those parts that are numbers."""
    asked = {name: row_replicates(each, method, n_boot, seed) for name, each in chosen.items()}
    drawn = [each for some in asked.values() for each in some.values()]
    outcome = run((*chosen.values(), *drawn), data.source)
    found = iter(outcome.estimates)
    estimates: dict[str, Estimate] = {name: next(found) for name in chosen}
    replicates = {}
    for name, estimate in estimates.items():
        parts = replicates_of(estimate, {kind: next(found) for kind in asked[name]})
        replicates[name] = {part: each for part, each in parts.items() if set(estimate[part].dims) <= {"class"}}
    return outcome.passes, estimates, replicates


def _models(prob_a: Any, prob_b: Any) -> dict[str, Any]:
    """Scores by the name of the model."""
    if not isinstance(prob_a, Mapping):
        if prob_b is None:
            raise ValueError("compare expects the scores of two models, or a mapping from names to scores; got one.")
        return {"a": prob_a, "b": prob_b}
    if prob_b is not None:
        raise ValueError("compare expects either two arrays of scores or one mapping, got a mapping and prob_b.")
    if len(prob_a) < 2:
        raise ValueError(f"compare expects at least two models, got {', '.join(map(repr, prob_a)) or 'none'}.")
    check_distinct("compare", prob_a)
    return {str(name): scores for name, scores in prob_a.items()}


def _place(names: list[str], baseline: str | None) -> int:
    """Which of the models is the baseline."""
    if baseline is None:
        return 0
    if str(baseline) not in names:
        raise ValueError(f"baseline expects one of {', '.join(map(repr, names))}, got {baseline!r}.")
    return names.index(str(baseline))


def _axes(data: Input, challengers: list[str], *, squeezed: bool) -> tuple[Axis, ...]:
    """The axes of differences: challengers in place of models."""
    challenger = () if squeezed else (Axis(_CHALLENGER, len(challengers), np.array(challengers)),)
    return (*challenger, *(axis for axis in data.batch if axis.name != MODEL), *data.by)


def _difference(
    part: Part, replicates: Replicates, models: tuple[int, int], level: float, method: Method, adjusted: bool
) -> Estimate:
    """The difference of each model from the baseline, its ends and p-values; the batch axis has the models first."""
    differences = Replicates(
        _less_baseline(replicates.values, models, 1),
        _less_baseline(replicates.centre, models, 0),
        replicates.what,
        left_out=None if replicates.left_out is None else _less_baseline(replicates.left_out, models, 1),
    )
    value = Part(differences.centre, part.dims)
    pvalues = sign_pvalue(differences, method)
    found = {"": value, **number_ends(value, differences, level, method), "pvalue": Part(pvalues, part.dims)}
    if adjusted:
        found |= {f"pvalue_{word}": Part(adjust(pvalues), part.dims) for word, adjust in ADJUSTMENTS.items()}
    return found


def _less_baseline(values: Array, models: tuple[int, int], axis: int) -> Array:
    """Differences from one of so many models, which are the slowest part of an axis."""
    base, count = models
    shape = values.shape
    apart = values.reshape(*shape[:axis], count, -1, *shape[axis + 1 :])
    baseline = np.take(apart, [base], axis)
    with np.errstate(invalid="ignore"):
        return np.asarray((np.delete(apart, base, axis) - baseline).reshape(*shape[:axis], -1, *shape[axis + 1 :]))
