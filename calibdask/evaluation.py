"""The front door: labelled results from labelled or plain arrays."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import fields
from functools import partial
from typing import Any

import numpy as np
import xarray as xr

from calibdask import __version__
from calibdask.engine.inputs import Input, read_given
from calibdask.engine.intervals import Histogram, checked_interval, intervals
from calibdask.engine.plan import Outcome, run
from calibdask.engine.row_intervals import Replicated, row_ends
from calibdask.engine.slices import Axis
from calibdask.engine.source import Source
from calibdask.engine.stored import StoredSource
from calibdask.engine.summaries import is_summary, read_summary
from calibdask.estimators.binned import BinnedEstimator
from calibdask.estimators.estimator import Estimate, Estimator, Part
from calibdask.estimators.panel import default_metrics, summary_metrics
from calibdask.statistics.grid import Grid, GridHistogram
from calibdask.statistics.layout import Layout

__all__ = ["evaluate", "named_metrics", "usual_metrics"]

Metrics = Estimator | Callable[[], Estimator]


def evaluate(
    y_true: Any,
    y_prob: Any = None,
    metrics: Metrics | Sequence[Metrics] | Mapping[str, Metrics] | None = None,
    *,
    by: Any = None,
    sample_weight: Any = None,
    ci: float | None = None,
    n_boot: int = 200,
    seed: int = 0,
    sample_dim: str = "sample",
    class_dim: str = "class",
    sum_tolerance: float = 1e-3,
) -> xr.Dataset:
    """Evaluate predicted probabilities; all metrics in one pass over the data, adaptive ones in two or three.

    Parameters
    ----------
    y_true : array of shape (..., n)
        Class numbers 0..K-1: integers, booleans, or whole floats. NumPy, Dask, xarray, or a column of a pandas or Dask
        data frame. Or, without ``y_prob``: an iterable of blocks ``(y_true, y_prob[, sample_weight])`` that can be
        iterated again, or a function that returns an iterator; or a summary that `calibdask.summarize` made.
    y_prob : array of shape (..., n) or (..., n, K)
        Scores: P(y = 1), or one column for each class. Leading dimensions (models, replicates) stay in the result;
        ``y_true`` may lack them.
    metrics : estimator, sequence, or mapping from name to estimator, optional
        None: a panel for binary or multi-class scores.
    by : array of shape (n,), or mapping from name to array, optional
        Slices: results for every value (every combination of values) get a dimension for each name.
    sample_weight : array of shape (..., n), optional
        Not negative. A row of weight 0 is as good as absent.
    ci : float, optional
        Level of intervals, such as 0.95: variables ``<name>_low`` and ``<name>_high``, for curves also
        ``<name>_median`` and the simultaneous ``<name>_band_low``, ``<name>_band_high``. From resampled histograms, at
        a cost that does not depend on the number of rows; see Notes.
    n_boot : int, default 200
        Number of replicates.
    seed : int, default 0
        Of the random numbers of the replicates; they do not depend on chunks or workers.
    sample_dim, class_dim : str
        Names of these dimensions in xarray input.
    sum_tolerance : float
        How far the sum of a row of scores may be off 1.

    Returns
    -------
    xarray.Dataset
        One variable for each metric, ``<name>_<part>`` where a metric has several numbers; its bins are the dimension
        ``<name>_bin``. Attributes hold the rows,
        the passes and the version; each variable's attribute ``estimator`` says what it is.

    Raises
    ------
    TypeError
        If a metric is no estimator.
    ValueError
        If the data cannot be what it claims: scores that are not finite or outside [0, 1] by more than 1e-6, rows that
        do not sum to 1, labels that are no class, negative weights, lengths that differ, no rows, all weights zero. The
        message names the number of offending rows, the first one and its value.

    Notes
    -----
    Without weights the result is the same to the last bit for any chunks, any number of workers and any order of tasks;
    with weights within 1e-12. Rows and results never gather in one place: memory is bounded by the chunks.

    Intervals of `BrierScore`, `LogLoss`, `LogLossDecomposition`, `CORP`, `ECCE`, `MulticlassECE`, `MMCE` and `SKCE`
    (not of blocks of rows) are percentiles of bootstrap replicates of the rows, which count as often as Poisson
    variables keyed by the row say: in the same pass, at ``n_boot`` times the cost. Percentiles do not mend a bias: an
    estimate that is too large for a calibrated model, such as `MulticlassECE`, `MMCE`, `ECCE` or the biased `SKCE`, has
    an interval that is too high there. Tests have none.

    Those of `DensityECE`, `SmoothECE`, `LocalCalibrationError`, `ReliabilityCurve`, and of binned metrics that a
    summary tells - right-closed bins on borders of 1/3600, or of equal mass - come from a histogram: the estimate give
    or take the larger distance of two percentiles of replicates; the lower end is 0 where calibrated models have
    such an error by chance. In simulations a level of 0.9 covered the true error in 85 to 95 % of data sets where
    curves are smooth. Smoothing has a bias that no resampling shows: where the true curve is steep, `DensityECE` is too
    small for its interval, and `SmoothECE` estimates another, smaller quantity. Bins of equal mass are resampled on
    borders of cells. The classes of a row depend on each other in a way that histograms do not tell: pooled over
    classes, intervals hold for any dependence and are wider than needed. A replicate takes 2 ms for each class (beta
    kernel: 200 ms).

    Examples
    --------
    >>> import calibdask as cd
    >>> result = cd.evaluate([0, 1, 1, 1], [0.2, 0.4, 0.6, 0.8], {"ece": cd.ECE(bins=2), "brier": cd.BrierScore()})
    >>> f"{float(result.ece):.3f} {float(result.brier):.3f}"
    '0.250 0.150'
    """
    if ci is not None:
        checked_interval(ci, n_boot, seed)
    if is_summary(y_true):
        data = _from_summary(y_true, y_prob, by, sample_weight)
    else:
        data = read_given(y_true, y_prob, by, sample_weight, sample_dim, class_dim, sum_tolerance)
    stored = isinstance(data.source, StoredSource)
    if metrics is None:
        metrics = usual_metrics(data.source, intervals=ci is not None)
    chosen = named_metrics(metrics)
    _check_names(chosen, data, class_dim)
    told = {name: each for name, each in chosen.items() if ci is not None and (stored or each.told_by_histogram)}
    rest = {name: each for name, each in chosen.items() if ci is not None and name not in told and not each.tests}
    wanted = () if stored else _wanted_histograms(told, data.source.layout)
    drawn = [Replicated(each, n_boot, seed) for each in rest.values()]
    outcome = run((*chosen.values(), *drawn, *map(Histogram, wanted)), data.source)
    estimates = dict(zip(chosen, outcome.estimates, strict=False))
    if ci is not None:
        replicates = zip(rest, outcome.estimates[len(chosen) :], strict=False)
        ends: dict[str, Estimate] = {name: row_ends(estimates[name], found, ci, n_boot) for name, found in replicates}
        if told:
            estimated = tuple((each, estimates[name]) for name, each in told.items())
            found = intervals(estimated, _resampling(data, outcome), ci, n_boot, seed)
            ends |= dict(zip(told, found, strict=True))
        estimates = {name: {**estimate, **ends.get(name, {})} for name, estimate in estimates.items()}
    attributes: dict[str, Any] = {
        "rows": data.source.rows,
        "passes": outcome.passes,
        "calibdask_version": __version__,
    }
    if ci is not None:
        attributes |= {"ci": ci, "n_boot": n_boot, "seed": seed}
    return _labelled(estimates, chosen, data, class_dim).assign_attrs(attributes)


def usual_metrics(source: Source, setting: str | int | None = None, *, intervals: bool = False) -> dict[str, Estimator]:
    """What is computed when no metrics are named: of stored histograms, what they tell; of data, with intervals or not.

    ``setting`` stands for that of metrics that name none.
    """
    layout = source.layout
    panel = summary_metrics(layout.classes, layout.vector)
    if not isinstance(source, StoredSource):
        return {**panel} if intervals else default_metrics(layout.classes, layout.vector)
    # With nothing of the panel known, the source says what there is.
    told = {
        name: source.tells(layout.setting(setting if each.setting is None else each.setting))
        for name, each in panel.items()
    }
    return {name: each for name, each in panel.items() if told[name]} or {**panel}


def _from_summary(summary: xr.Dataset, y_prob: Any, by: Any, sample_weight: Any) -> Input:
    if y_prob is not None:
        raise ValueError("A summary stands for labels and scores; call evaluate(summary, metrics=...).")
    if by is not None or sample_weight is not None:
        raise ValueError("A summary has its weights and slices already; it takes no by and no sample_weight.")
    return read_summary(summary)


def _wanted_histograms(chosen: Mapping[str, Estimator], layout: Layout) -> tuple[GridHistogram, ...]:
    """Histograms that binned metrics are resampled from; those on the grid ask for their own."""
    wanted: dict[GridHistogram, None] = {}
    for estimator in chosen.values():
        if isinstance(estimator, BinnedEstimator):
            setting = layout.setting(estimator.measured(layout), estimator.k)
            wanted[GridHistogram(setting, Grid(refined=True))] = None
    return tuple(wanted)


def _resampling(data: Input, outcome: Outcome) -> StoredSource:
    """The histograms that are resampled."""
    if isinstance(data.source, StoredSource):
        return data.source
    known = {each: state for each, state in outcome.states.items() if isinstance(each, GridHistogram)}
    return StoredSource(
        {each: partial(known.__getitem__, each) for each in known}, data.source.layout, data.source.rows
    )


def _labelled(
    estimates: Mapping[str, Estimate], chosen: Mapping[str, Estimator], data: Input, class_dim: str
) -> xr.Dataset:
    """Estimates as variables and coordinates of a dataset."""
    variables: dict[str, xr.Variable] = {}
    coordinates: dict[Hashable, Any] = {}
    parts = {variable for name, estimate in estimates.items() for variable in _parts(name, estimate)}
    for axis in (*data.batch, *data.by):
        if axis.name in parts:
            raise ValueError(
                f"The result would have two things called {axis.name!r}: a part of a metric, and a dimension of the "
                "input or a name in by; rename one."
            )
    for name, estimate in estimates.items():
        for variable, part in _parts(name, estimate).items():
            if variable in variables or variable in coordinates:
                raise ValueError(f"Two metrics make a variable {variable!r}; name one of them otherwise, in a mapping.")
            if part.role == "coordinate":
                coordinates[variable] = (variable, part.values)
                continue
            dims = [class_dim if dim == "class" else f"{name}_{dim}" for dim in part.dims]
            notes = {"estimator": repr(chosen[name]), **part.notes}
            variables[variable] = _variable(part, dims, (*data.batch, *data.by), notes)
    return xr.Dataset(variables, {**coordinates, **_coordinates(data, variables, class_dim)})


def named_metrics(metrics: Metrics | Sequence[Metrics] | Mapping[str, Metrics]) -> dict[str, Estimator]:
    """Estimators by the name of their variable; in a sequence equal names get what tells them apart.

    Raises
    ------
    TypeError
        If something is not an estimator.
    """
    if isinstance(metrics, Mapping):
        if not metrics:
            raise ValueError("metrics expects at least one estimator, got none.")
        return {str(name): _estimator(metric) for name, metric in metrics.items()}
    given: Any = metrics if isinstance(metrics, list | tuple) else [metrics]
    estimators = list(dict.fromkeys(_estimator(metric) for metric in given))
    if not estimators:
        raise ValueError("metrics expects at least one estimator, got none.")
    names = [estimator.name for estimator in estimators]
    named: dict[str, Estimator] = {}
    for name, estimator in zip(names, estimators, strict=True):
        alike = [other for other in estimators if other.name == name]
        word = name if len(alike) == 1 else _told_apart(estimator, alike)
        if word in named:
            raise ValueError(f"Two of the metrics would be called {word!r}; name them in a mapping.")
        named[word] = estimator
    return named


def _estimator(metric: Any) -> Estimator:
    made = metric() if callable(metric) else metric
    if not isinstance(made, Estimator):
        raise TypeError(f"metrics expects estimators such as cd.ECE(), got {metric!r}.")
    return made


def _told_apart(estimator: Estimator, others: list[Estimator]) -> str:
    """The name and those values that differ from the default and from another estimator of that name."""
    usual = type(estimator)()
    words = [estimator.name]
    for field in fields(estimator):  # type: ignore[arg-type]
        value = getattr(estimator, field.name)
        differs = any(getattr(other, field.name, None) != value for other in others)
        if differs and value != getattr(usual, field.name):
            words.append(value if isinstance(value, str) else f"{field.name}_{_word(value)}")
    return "_".join(words).replace("-", "_")


def _word(value: Any) -> str:
    if isinstance(value, tuple):
        return f"{len(value)}_values"
    return str(value) if isinstance(value, int | float | str | None) else "given"


def _parts(name: str, estimate: Estimate) -> dict[str, Part]:
    return {f"{name}_{part}" if part else name: values for part, values in estimate.items()}


def _check_names(chosen: Mapping[str, Estimator], data: Input, class_dim: str) -> None:
    """Refuse names that the result could not hold apart."""
    names = [axis.name for axis in (*data.batch, *data.by)]
    for name in names:
        if names.count(name) > 1 or name in chosen or name == class_dim:
            raise ValueError(
                f"The result would have two things called {name!r}: a dimension of the input, a name in by, a metric "
                "or the classes; rename one."
            )


def _variable(part: Part, dims: list[str], axes: tuple[Axis, ...], notes: dict[str, Any]) -> xr.Variable:
    """Values with the batch and the slice axes unfolded."""
    shape = (*(axis.size for axis in axes), *part.values.shape[2:])
    return xr.Variable((*(axis.name for axis in axes), *dims), np.reshape(part.values, shape), notes)


def _coordinates(data: Input, variables: dict[str, xr.Variable], class_dim: str) -> dict[Hashable, Any]:
    """Labels of slices, extra dimensions and classes."""
    labels = {axis.name: axis.labels for axis in (*data.batch, *data.by) if axis.labels is not None}
    if any(class_dim in variable.dims for variable in variables.values()):
        labels[class_dim] = np.arange(data.source.layout.classes) if data.classes is None else data.classes
    return {name: (name, values) for name, values in labels.items()}
