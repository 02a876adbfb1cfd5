"""`evaluate`: metrics of predicted probabilities, as a labelled dataset."""

from typing import Any

import xarray as xr

from calibdask.engine.inputs.frames import given_rows
from calibdask.engine.inputs.input import Input, read_data
from calibdask.engine.plan import run
from calibdask.engine.sources.source import Source
from calibdask.engine.sources.summary import SummarySource
from calibdask.estimators.estimator import Estimator
from calibdask.estimators.metrics import Metrics, named_metrics
from calibdask.estimators.panel import default_metrics, summary_metrics
from calibdask.estimators.scores.proper import BrierScore, LogLoss
from calibdask.inference.choice import IntervalChoice, check_interval
from calibdask.inference.intervals import BoundedEstimates, estimates_with_intervals
from calibdask.inference.methods import Method, check_method
from calibdask.results.build import DatasetBuilder, check_names
from calibdask.storage.summary import Summary, is_summary

__all__ = ["evaluate", "evaluated", "interval_choice", "usual_metrics"]


def evaluate(
    y_true: Any,
    y_prob: Any = None,
    metrics: Metrics | None = None,
    *,
    label: Any = None,
    score: Any = None,
    by: Any = None,
    sample_weight: Any = None,
    skip_missing: bool = False,
    ci: float | None = None,
    ci_method: Method | None = None,
    n_boot: int = 200,
    seed: int = 0,
    keep_replicates: bool = False,
    sample_dim: str = "sample",
    class_dim: str = "class",
    sum_tolerance: float = 1e-3,
) -> xr.Dataset:
    """Evaluate predicted probabilities; all metrics in one pass over the data, adaptive metrics in up to three.

    Parameters
    ----------
    y_true : array of shape (..., n)
        Class numbers 0..K-1: integers, booleans, or whole floats. NumPy, Dask, xarray, or a column of a pandas or Dask
        data frame. Or, without ``y_prob``: an iterable of blocks ``(y_true, y_prob[, sample_weight])`` that can be
        iterated again, or a function that returns an iterator; or a summary that `calibdask.summarize` made; or a
        container of columns: a data frame of pandas, Polars (lazy ones too), Dask or any other that narwhals knows, a
        table, a dataset or a reader of Arrow, a relation of DuckDB, a dataset of xarray, a mapping.
    y_prob : array of shape (..., n) or (..., n, K)
        Scores: P(y = 1), or one column for each class. Leading dimensions (models, replicates) are kept in the result;
        ``y_true`` may lack them if dimension names or class columns identify the sample dimension.
    metrics : estimator, sequence, or mapping from name to estimator, optional
        None: a default panel for binary or multi-class scores. Estimators may be given as text such as
        ``"ece(bins=10)"``, as on the command line.
    label : name of a column, optional
        In a container of columns: the labels. By default the column ``label``, or the only one with a usual name such
        as ``y_true``, ``target`` or ``y``; a warning and the attribute ``guessed_columns`` say which.
    score : name or sequence of names of columns, optional
        In a container of columns: the scores. One column of P(y = 1); or one for each class, in their order, which one
        name stands for where they are called ``<score>_0``, ``<score>_1``, ... By default ``score``, or the only one
        with a usual name such as ``y_prob``, ``prob`` or ``p``.
    by : array of shape (n,), or mapping from name to array, optional
        Slices: results are computed for every value (every combination of values), with one dimension for each name.
        Of a container of columns: names of columns.
    sample_weight : array of shape (..., n), optional
        Non-negative weights. Rows of weight 0 are ignored. Of a container of columns: the name of one.
    skip_missing : bool, default False
        Leave out rows without a label, a score or a weight (NaN, None); the attribute ``rows_skipped`` counts them.
        Otherwise they are an error.
    ci : float, optional
        Level of intervals, such as 0.95: variables ``<name>_low`` and ``<name>_high``, for curves also
        ``<name>_median`` and the simultaneous ``<name>_band_low``, ``<name>_band_high``; see Notes.
    ci_method : {"corrected", "percentile", "bca"}, optional
        How ends are computed from replicates; None: corrected for calibration errors, percentiles for most other
        numbers. Attributes of the ends record the method.
    n_boot : int, default 200
        Number of replicates.
    seed : int, default 0
        Seed of the replicates, which do not depend on chunks or workers.
    keep_replicates : bool, default False
        With ``ci``: keep the values of all replicates of numbers, as ``<name>_replicates`` along the dimension
        ``replicate``. Then rows are resampled for every number, so that replicates are paired across metrics, and
        across models of the same rows in the same order. A summary has no rows: replicates of its slices, and of
        other summaries, are neither paired nor independent.
    sample_dim, class_dim : str
        Names of these dimensions in xarray input.
    sum_tolerance : float
        Largest deviation from 1 of the sum of a row of scores.

    Returns
    -------
    xarray.Dataset
        One variable for each metric, ``<name>_<part>`` where a metric has several numbers; bins are a dimension
        ``<name>_bin``. Attributes hold the number of rows, the number of passes and the version; the attribute
        ``estimator`` of each variable describes it.

    Raises
    ------
    TypeError
        If a metric is not an estimator.
    ValueError
        If the data are invalid: scores that are not finite or outside [0, 1] by more than 1e-6, rows that do not sum to
        1, labels that are not classes, negative weights, different lengths, no rows, all weights zero. The message
        gives the number of invalid rows, the first one and its value.

    Notes
    -----
    Without weights the result is the same to the last bit for any chunks, any number of workers and any order of tasks;
    with weights within 1e-12. Rows are never collected in one place: memory is bounded by the chunks.

    *Columns.* Lazy frames, relations, datasets and functions that return readers of Arrow are read batch by batch, anew
    in each pass, only the columns that are named; one pass more finds the values of ``by``. Whole numbers, booleans,
    decimals and dictionaries are read as the numbers that they are.

    *Replicates.* Metrics that can be computed from a fine histogram of the scores use ``n_boot`` resampled histograms,
    at a cost that does not depend on the number of rows, for each class and replicate 10 microseconds for sums over
    bins, else 0.2 to 2 ms (beta kernel: 200 ms): `ECE`, `MCE` and `BrierDecomposition` with right-closed bins on
    borders of 1/3600 or of equal mass, `CORP`, `ECCE`, `DensityECE`, `SmoothECE` and curves. All other metrics are
    computed from replicates of the rows, each weighted by a Poisson variable keyed by ``seed`` and the row number: in
    the same pass, at ``n_boot`` times the cost and the memory (twice that for calibration errors). Edges of bins and
    bandwidths of kernels on the simplex are not re-estimated. Means over blocks of rows (`SKCE`) have normal intervals.
    Tests have none.

    *Ends.* ``"percentile"``: quantiles of the replicates. ``"bca"``: at levels corrected for median bias and skewness,
    estimated by leaving out 100 random groups of rows in turn. ``"corrected"``: the estimate plus and minus the larger
    of its distances to the two quantiles; from 0 where calibrated models with the same scores have such an error by
    chance. A calibration error of resampled rows exceeds that of the rows as the latter exceeds the true error, because
    noise increases absolute values: percentiles are too high by about twice the bias of the estimate, BCa ends by less,
    and both are appropriate only for errors far above those by chance. Terms of decompositions that resampling shifts
    in the same way have corrected ends too.

    *Coverage.* Intervals are for the true number, for binned errors the error visible to the bins; coverage rates are
    in experiments/calibration of the repository. Resampling does not reveal the bias of smoothing: where the true curve
    is steep, `DensityECE` is too small for its interval, and `SmoothECE` estimates another, smaller quantity.
    Histograms do not contain the dependence between the classes of one row: pooled over classes, such intervals hold
    for any dependence and are conservative.

    Examples
    --------
    >>> import calibdask as cd
    >>> result = cd.evaluate([0, 1, 1, 1], [0.2, 0.4, 0.6, 0.8], {"ece": cd.ECE(bins=2), "brier": cd.BrierScore()})
    >>> f"{float(result.ece):.3f} {float(result.brier):.3f}"
    '0.250 0.150'

    Columns of a frame:

    >>> import pandas as pd
    >>> frame = pd.DataFrame(
    ...     {"clicked": [0, 1, 1, 1], "model": [0.2, 0.4, 0.6, 0.8], "day": ["mon", "mon", "tue", "tue"]}
    ... )
    >>> cd.evaluate(frame, metrics=cd.ECE(bins=2), label="clicked", score="model", by="day").ece.values
    array([0.2, 0.3])
    """
    choice = interval_choice(ci, ci_method, n_boot, seed, keep=keep_replicates)
    if is_summary(y_true):
        return evaluated(_from_summary(y_true, y_prob, by, sample_weight), metrics, choice, class_dim)
    given = given_rows(
        y_true,
        y_prob,
        by,
        sample_weight,
        label=label,
        score=score,
        skip_missing=skip_missing,
        sample_dim=sample_dim,
        class_dim=class_dim,
    )
    data = read_data(given.y_true, given.y_prob, given.by, given.sample_weight, sample_dim, class_dim, sum_tolerance)
    result = evaluated(data, metrics, choice, class_dim)
    return result.assign_attrs(given.attributes(data.source.rows or 0))


def interval_choice(
    ci: float | None, ci_method: Method | None, n_boot: int, seed: int, *, keep: bool = False
) -> IntervalChoice | None:
    """The requested intervals, checked; None without.

    Raises
    ------
    ValueError
        If there are no such intervals.
    """
    check_method(ci_method)
    if ci is None:
        if keep:
            raise ValueError("keep_replicates requires intervals; give ci too, such as ci=0.95.")
        return None
    check_interval(ci, n_boot, seed)
    return IntervalChoice(ci, ci_method, n_boot, seed, keep)


def evaluated(
    data: Input, metrics: Metrics | None, choice: IntervalChoice | None = None, class_dim: str = "class"
) -> xr.Dataset:
    """What `evaluate` returns, of data that have been read."""
    chosen = named_metrics(usual_metrics(data.source) if metrics is None else metrics)
    axes = (*data.batch, *data.by)
    check_names(chosen, axes, class_dim)
    result = DatasetBuilder(data, class_dim)
    attributes: dict[str, Any] = {}
    if choice is None:
        outcome = run(chosen, data.source)
        measured = BoundedEstimates(outcome.estimates, {}, outcome.passes)
    else:
        measured = estimates_with_intervals(chosen, data.source, choice)
        attributes = {"ci": choice.level, "n_boot": choice.n_boot, "seed": choice.seed}
    for name, estimate in measured.estimates.items():
        result.add(name, chosen[name], estimate, measured.bounds.get(name, {}), axes)
    return result.dataset(measured.passes, **attributes)


def usual_metrics(source: Source, setting: str | int | None = None) -> dict[str, Estimator]:
    """The default metrics; for a summary, those that can be computed from it.

    For a summary, metrics without a setting of their own count as available if it holds ``setting``; their setting is
    not changed.
    """
    layout = source.layout
    panel = summary_metrics(vector=layout.vector)
    if not isinstance(source, SummarySource):
        return default_metrics(layout.classes, layout.vector)

    def is_told(metric: Any) -> bool:
        if isinstance(metric, BrierScore | LogLoss):
            return source.scores is not None
        return source.tells(layout.setting(setting if metric.setting is None else metric.setting))

    available = {name: metric for name, metric in panel.items() if is_told(metric)}
    # Without any, the source raises an error that lists the stored settings.
    return {**(available or panel)}


def _from_summary(summary: Summary | xr.Dataset, y_prob: Any, by: Any, sample_weight: Any) -> Input:
    if y_prob is not None:
        raise ValueError("A summary replaces labels and scores; call evaluate(summary, metrics=...).")
    if by is not None or sample_weight is not None:
        raise ValueError("A summary has its weights and slices already; by and sample_weight do not apply.")
    return Summary.of(summary).input
