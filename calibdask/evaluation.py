"""The front door: labelled results from labelled or plain arrays."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import fields
from typing import Any

import numpy as np
import xarray as xr

from calibdask import __version__
from calibdask.engine.inputs import Input, read_arrays, read_blocks
from calibdask.engine.plan import run
from calibdask.engine.slices import Axis
from calibdask.estimators.estimator import Estimate, Estimator, Part
from calibdask.estimators.panel import default_metrics
from calibdask.statistics.validity import Validity

__all__ = ["evaluate", "named_metrics"]

Metrics = Estimator | Callable[[], Estimator]


def evaluate(
    y_true: Any,
    y_prob: Any = None,
    metrics: Metrics | Sequence[Metrics] | Mapping[str, Metrics] | None = None,
    *,
    by: Any = None,
    sample_weight: Any = None,
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
        iterated again, or a function that returns an iterator.
    y_prob : array of shape (..., n) or (..., n, K)
        Scores: P(y = 1), or one column for each class. Leading dimensions (models, replicates) stay in the result;
        ``y_true`` may lack them.
    metrics : estimator, sequence, or mapping from name to estimator, optional
        None: a panel for binary or multi-class scores.
    by : array of shape (n,), or mapping from name to array, optional
        Slices: results for every value (every combination of values) get a dimension for each name.
    sample_weight : array of shape (..., n), optional
        Not negative. A row of weight 0 is as good as absent.
    sample_dim, class_dim : str
        Names of these dimensions in xarray input.
    sum_tolerance : float
        How far the sum of a row of scores may be off 1.

    Returns
    -------
    xarray.Dataset
        One variable for each metric, ``<name>_<part>`` where a metric has several numbers. Attributes hold the rows,
        the passes and the version; each variable's attribute ``estimator`` says what it is.

    Raises
    ------
    ValueError
        If the data cannot be what it claims: scores that are not finite or outside [0, 1] by more than 1e-6, rows that
        do not sum to 1, labels that are no class, negative weights, lengths that differ, no rows, all weights zero. The
        message names the number of offending rows, the first one and its value.

    Notes
    -----
    Without weights the result is the same to the last bit for any chunks, any number of workers and any order of tasks;
    with weights within 1e-12. Rows and results never gather in one place: memory is bounded by the chunks.

    Examples
    --------
    >>> import calibdask as cd
    >>> result = cd.evaluate([0, 1, 1, 1], [0.2, 0.4, 0.6, 0.8], {"ece": cd.ECE(bins=2), "brier": cd.BrierScore()})
    >>> float(result.ece), float(result.brier)
    (0.25, 0.15)
    """
    validity = Validity(sum_tolerance=sum_tolerance)
    if y_prob is None:
        if by is not None or sample_weight is not None:
            raise ValueError("Blocks expect their weights inside, as (y_true, y_prob, sample_weight), and take no by.")
        data = read_blocks(y_true, validity)
    else:
        data = read_arrays(y_true, y_prob, by, sample_weight, sample_dim, class_dim, validity)
    layout = data.source.layout
    chosen = named_metrics(default_metrics(layout.classes, layout.vector) if metrics is None else metrics)
    outcome = run(tuple(chosen.values()), data.source)
    variables: dict[str, xr.Variable] = {}
    for (name, estimator), estimate in zip(chosen.items(), outcome.estimates, strict=True):
        for variable, part in _parts(name, estimate).items():
            dims = [_dim_name(dim, name, class_dim, alone=len(chosen) == 1) for dim in part.dims]
            notes = {"estimator": repr(estimator), **part.notes}
            variables[variable] = _variable(part, dims, (*data.batch, *data.by), notes)
    attributes = {"rows": data.source.rows, "passes": outcome.passes, "calibdask_version": __version__}
    return xr.Dataset(variables, _coordinates(data, variables, class_dim), attributes)


def named_metrics(metrics: Metrics | Sequence[Metrics] | Mapping[str, Metrics]) -> dict[str, Estimator]:
    """Estimators by the name of their variable; in a sequence equal names get what tells them apart.

    Raises
    ------
    TypeError
        If something is not an estimator.
    """
    if isinstance(metrics, Mapping):
        return {str(name): _estimator(metric) for name, metric in metrics.items()}
    given = metrics if isinstance(metrics, Sequence) else [metrics]
    estimators = list(dict.fromkeys(_estimator(metric) for metric in given))
    if not estimators:
        raise ValueError("metrics expects at least one estimator, got none.")
    names = [estimator.name for estimator in estimators]
    return {
        name if names.count(name) == 1 else _told_apart(estimator, [e for e in estimators if e.name == name]): estimator
        for name, estimator in zip(names, estimators, strict=True)
    }


def _estimator(metric: Any) -> Estimator:
    made = metric() if callable(metric) else metric
    if not isinstance(made, Estimator):
        raise TypeError(f"metrics expects estimators such as cd.ECE(), got {metric!r}.")
    return made


def _told_apart(estimator: Estimator, others: list[Estimator]) -> str:
    """The name and the values of the fields in which estimators of that name differ."""
    words = [estimator.name]
    for field in fields(estimator):  # type: ignore[arg-type]
        value = getattr(estimator, field.name)
        if any(getattr(other, field.name, None) != value for other in others) and value is not None:
            words.append(value if isinstance(value, str) else f"{field.name}_{value}")
    return "_".join(words).replace("-", "_").replace(" ", "")


def _parts(name: str, estimate: Estimate) -> dict[str, Part]:
    return {f"{name}_{part}" if part else name: values for part, values in estimate.items()}


def _dim_name(dim: str, metric: str, class_dim: str, *, alone: bool) -> str:
    """The class dimension is shared; the bins of each metric are its own."""
    if dim == "class":
        return class_dim
    return dim if alone else f"{metric}_{dim}"


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
