"""`evaluate`: metrics of predicted probabilities, as a labelled dataset."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import xarray as xr

from calibdask.analyses.clustered import check_clustered, cluster_attributes, supported_panel, without_row_pvalues
from calibdask.analyses.constant_outcome_bounds import (
    bounds_where_outcomes_differ,
    error_bounds,
    has_weighted_ends,
    independent_units,
    outcomes_name,
    weighted_bounds,
)
from calibdask.analyses.soft_evaluation import evaluated_soft, with_row_counts
from calibdask.analyses.supported_bounds import CLUSTERS, pvalue_checks, support_checks, supported_bounds
from calibdask.cluster_check import cluster_cautions, cluster_check
from calibdask.column_check import column_check, score_cautions
from calibdask.data.data import Data
from calibdask.data.input import Input
from calibdask.data.options import InputOptions, Task
from calibdask.data.population import Population
from calibdask.data.top_scores import TopScores
from calibdask.engine.axes import slice_dimension
from calibdask.engine.plan import run
from calibdask.engine.sources.source import Source
from calibdask.estimators.cluster_totals import CLUSTER_TOTALS, ClusterTotals
from calibdask.estimators.estimator import Estimator
from calibdask.estimators.metrics import Metrics, named_metrics
from calibdask.estimators.panel import default_metrics, summary_metrics
from calibdask.estimators.scores.proper import BrierScore, LogLoss
from calibdask.estimators.slice_totals import SliceTotals
from calibdask.estimators.smooth.gridded import on_grid
from calibdask.inference.choice import IntervalChoice, check_interval
from calibdask.inference.ends import UnseenOutcomes
from calibdask.inference.intervals import BoundedEstimates, estimates_with_intervals
from calibdask.inference.methods import Method, check_method
from calibdask.results.build import DEFAULT_PANEL, DatasetBuilder, beside_metrics, check_names, names_beside

# The word for the full panel.
ALL = "all"
# The name of an estimator that is no metric: no user can give it.
_TOTALS = "\0totals"


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
    groups: Any = None,
    soft_labels: bool | Literal["raters"] = False,
    task: Task | None = None,
    logits: bool = False,
    labels: Any = None,
    pos_label: Any = None,
    ignore_label: Any = None,
    sample_dim: str | Sequence[str] = "sample",
    class_dim: str = "class",
    sum_tolerance: float = 1e-3,
    population: Population | None = None,
) -> xr.Dataset:
    """Evaluate predicted probabilities; all metrics in one pass over the data, adaptive metrics in up to three.

    Parameters
    ----------
    y_true : array of shape (..., n)
        Class numbers 0..K-1: integers, booleans, or whole floats; or names of classes, see ``labels`` and
        ``pos_label``. NumPy, Dask, xarray, a column of a pandas or Dask data frame, or tensors of other libraries, by
        ``__array__`` or DLPack. Or, without ``y_prob``: an iterable of blocks ``(y_true, y_prob[, sample_weight])``
        that can be iterated again, or a function that returns an iterator; or a summary that `calibdask.summarize`
        made; or a container of columns: a data frame of pandas, Polars (lazy ones too), Dask or any other that
        narwhals knows, a table, a dataset or a reader of Arrow, a relation of DuckDB, a dataset of xarray, a mapping, a
        structured array. Or the path of a file, or rows read by `calibdask.read_rows`.
    y_prob : array of shape (..., n) or (..., n, K)
        Scores: P(y = 1), or one column for each class. Leading dimensions (models, replicates) are kept in the result;
        ``y_true`` may lack them if dimension names or class columns identify the sample dimension. Rows of pandas
        objects are aligned by their index. For very many classes, the largest scores, as `TopScores`.
    metrics : estimator, sequence, or mapping from name to estimator, optional
        None: six numbers, see `calibdask.default_metrics`; ``"all"``: the full panel. Estimators may be
        given as text such as ``"ece(bins=10)"``, as on the command line.
    label : name or sequence of names of columns, optional
        In a container of columns: the labels; with ``task`` one column for each class, as for ``score``. By default the
        column ``label``, or the only one with a usual name such as ``y_true``, ``target`` or ``y``; a warning and the
        attribute ``guessed_columns`` say which.
    score : name or sequence of names of columns, optional
        In a container of columns: the scores. One column of P(y = 1), or of lists of K; or one for each class, in their
        order; one name is enough if they are called ``<score>_0``, ``<score>_1``, ...; a pattern such as ``"p_*"``
        also names the classes, by the text that ``*`` matches. By default ``score``, or the only one with a usual name
        such as ``y_prob``, ``prob`` or ``p``.
    by : array of shape (n,), or mapping from name to array, optional
        Slices: results are computed for every value (every combination of values), with one dimension for each name.
        Rows without a value form a separate slice, the last one: NaN among numbers, NaT among dates, otherwise
        ``"missing"``. For a container of columns: names of columns.
    sample_weight : array of shape (..., n), optional
        Non-negative weights. Rows of weight 0 are ignored. For a container of columns: the name of one.
    skip_missing : bool, default False
        Leave out rows without a label, a score or a weight (NaN, None); the attribute ``rows_skipped`` counts them.
        Otherwise they are an error.
    ci : float, optional
        Level of intervals, such as 0.95: variables ``<name>_low`` and ``<name>_high``, for curves also
        ``<name>_median`` and the simultaneous ``<name>_band_low``, ``<name>_band_high``; see Notes.
    ci_method : {"corrected", "percentile", "bca"}, optional
        How interval ends are computed from replicates; None: corrected for calibration errors, percentiles for most
        other numbers. Attributes of the ends record the method.
    n_boot : int, default 200
        Number of replicates.
    seed : int, default 0
        Seed of the replicates, which do not depend on chunks or workers.
    keep_replicates : bool, default False
        With ``ci``: keep the values of all replicates of numbers, as ``<name>_replicates`` along the dimension
        ``replicate``. In this case rows are resampled for every number, so replicates are paired across metrics, and
        across models of the same rows in the same order. A summary has no rows: replicates of its slices, and of other
        summaries, are neither paired nor independent.
    groups : array of shape (n,), or name of a column, optional
        The cluster of each row, such as a patient, a customer or an election: integers, texts or dates. Rows of one
        cluster may be dependent; clusters are independent. See Notes. Blocks contain them, as ``(y_true, y_prob,
        sample_weight, groups)``, where ``sample_weight`` may be None.
    task : {"binary", "multiclass", "multilabel"}, optional
        Meaning of the axes. ``"multiclass"``: scores have a column for each class; labels of the shape of the scores
        are one-hot rows, which are checked in the pass and decoded. ``"multilabel"``: labels of the shape of the
        scores, 0 or 1; every column is a separate binary problem, along ``class_dim``, and rows need not sum to 1.
        ``"binary"``: scores are P(y = 1), and unnamed matrices are (models, n). None: inferred from shapes and names of
        dimensions; two-dimensional labels and scores of equal shape without names raise an error.
    logits : bool, default False
        Whether ``y_prob`` are logits: scores are their softmax (the sigmoid for vectors and multilabel columns),
        computed in float64 while the blocks are read. Below about -700 the exponential counts as 0.
    labels : sequence of K, optional
        The classes in the order of the columns of scores, if labels are not 0..K-1. By default the names of the columns
        (xarray, data frames), else the declared order of categories, else the distinct labels, sorted as by
        scikit-learn's classifiers; all of them must occur. Required for text labels in Dask collections and blocks.
    pos_label : label, optional
        For a vector of scores: the class whose probability the scores are. Not needed for labels 0 and 1.
    ignore_label : label, optional
        Rows with this label, such as 255 or -100 in segmentation, are left out; the attribute ``rows_ignored`` counts
        them.
    sample_dim : str or sequence of str
        The dimension of samples in xarray input. Several dimensions, such as ``("image", "y", "x")``, together index
        the samples, in this order; in arrays without names they come last, before the classes.
    class_dim : str
        The dimension of classes in xarray input.
    sum_tolerance : float
        Largest deviation from 1 of the sum of a row of scores.
    population : Population, optional
        The population to which the numbers refer, if its prevalence differs from the sample or the training data; the
        attribute ``population`` of the result and of its variables describes it. This takes one more pass, which counts
        labels.
    soft_labels : bool or "raters", default False
        Whether labels are shares, as of judges or of ties: ``y_true`` between 0 and 1 for scores P(y = 1), or rows of K
        shares that add up to 1 for scores of K classes. Losses, errors and means are expectations over a label drawn
        from the shares; whole rows are resampled. Held in memory. Shares that are all 0 or 1 give the same bits as
        labels. Metrics that count labels raise an error; without ``metrics``, each error is followed by its
        `NoiseFloor`, or ``metrics_left_out`` says why not. Rows may be mappings from names of classes to numbers, and
        slices have different classes.
        ``"raters"``: a column of ``y_true`` for each rater; ``rater_disagreement`` is the chance that two differ.

    Returns
    -------
    xarray.Dataset
        One variable for each metric, ``<name>_<part>`` where a metric has several numbers; bins are a dimension
        ``<name>_bin``. Attributes hold the number of rows, the number of passes and the version; the attribute
        ``estimator`` of each variable describes it. Coordinates describe the data of each slice (and model): ``rows``;
        ``events``, ``mean_score`` and ``frequency`` of y = 1 for a vector of scores, of right predictions and their
        confidence for a matrix; with weights, all but ``rows`` are weighted.

    Raises
    ------
    TypeError
        If a metric is not an estimator.
    ValueError
        If the data are invalid: scores that are not finite or outside [0, 1] by more than 1e-6, rows that do not sum to
        1, labels that are not classes, negative weights, different lengths, no rows, all weights zero. The message
        gives the number of invalid rows, the first one and its value.

    Warns
    -----
    SuspectScoresWarning
        If one minus the scores, or a permutation of the columns, fits the labels far better: with at least 100 rows,
        and an accuracy and a Brier score or confidence so much better that this happens by chance to a calibrated model
        in at most one of a million data sets. This is checked with metrics in equal-width bins (for permuted columns,
        also with equal-mass bins), without an additional pass.

    Notes
    -----
    Without weights estimates and p-values are the same to the last bit for any chunks, any number of workers and any
    order of tasks; with weights, and for ends from replicates of the rows, within 1e-12. Exceptions are medians, ends
    and bands of curves at scores that the kernels of hardly any rows reach, which depend on rounding there (attribute
    ``rounding``). Rows are never collected in one place: memory is bounded by the chunks.

    *Columns.* Lazy frames, relations, datasets and functions that return readers of Arrow are read batch by batch,
    again in each pass, with only the named columns; one more pass finds the values of ``by``. Whole numbers, booleans,
    decimals and dictionaries are read as numbers.

    *Replicates.* Metrics that can be computed from a fine histogram of the scores use ``n_boot`` resampled histograms,
    at a cost that does not depend on the number of rows, per class and replicate 10 microseconds for sums over bins,
    otherwise 0.2 to 2 ms (beta kernel: 200 ms): `ECE`, `MCE` and `BrierDecomposition` with right-closed bins on
    multiples of 1/3600 or of equal mass, `CORP`, `ECCE`, `DensityECE`, `SmoothECE` and curves. All other metrics are
    computed from replicates of the rows, each weighted by a Poisson variable keyed by ``seed`` and the row number: in
    the same pass, at ``n_boot`` times the cost and the memory (twice that for calibration errors). Bin edges and
    bandwidths of kernels on the simplex are not re-estimated. Bins of a `ReliabilityDiagram` and means over blocks of
    rows (`SKCE`) have intervals of Clopper & Pearson, without replicates. Tests have none.

    *Ends.* ``"percentile"``: replicates of rank p (R + 1). ``"bca"``: at levels corrected for median bias and skewness,
    estimated by leaving out 100 random groups of rows in turn. ``"corrected"``: the estimate plus and minus the larger
    of its distances to the two quantiles. As noise increases absolute values, the calibration error of the rows exceeds
    the true error, and that of resampled rows exceeds the former, but by less if only some scores are off. The lower
    end of an error is therefore also at most the estimate minus the distance from the mean of the replicates to their
    upper quantile, minus three times what noise adds to the replicates or, if less, the mean error of calibrated models
    with the same scores; it is 0 if these have such an error by chance. Percentiles are too high by about twice the
    bias, BCa ends by less. Terms of decompositions that are shifted in the same way have corrected ends too.

    *Clusters.* With ``groups`` whole clusters are resampled: clusters are sent to at most 512 buckets by a hash of
    their value, and the rows of a bucket have one Poisson weight in each replicate, keyed by ``seed``. Chunks and the
    order of rows do not matter; memory does not depend on the number of clusters. The relative error of a standard
    error from B buckets is about 1 / sqrt(2 (B - 1)), 3 % for 512; of many slices, models or classes there are at least
    64 (attribute ``cluster_buckets``). Ends use Student's t with G - 1 degrees of freedom, G = (sum n)**2 / sum n**2
    for clusters of n rows, fewer if few have most events, and sqrt(G / (G - 1)): ``"student"`` (of logarithms for
    positive numbers, farther on the long side if skewed) if the usual intervals have formulas, ``"share"`` (Clopper
    & Pearson for as many rows as have that variance), ``"corrected"`` and ``"percentile"`` as above. With fewer than
    10 clusters there are no ends (NaN); the attribute ``cluster_notes`` says so, and names few and dominant clusters.
    The coordinate ``clusters`` counts the clusters of each slice (beyond 131,072 within 0.4 %), ``effective_rows`` is
    the number of independent rows with the same information on the mean gap, and ``<name>_design_effect`` is the
    variance of a number relative to its variance for independent rows. Metrics whose tests or pairs are valid only for
    independent rows raise an error, and are left out of the default panel; p-values beside other numbers are NaN.

    *Coverage.* Intervals are for the true number (for binned errors, the error visible in the bins); coverage rates are
    in experiments/calibration of the repository. Resampling does not reveal the bias of smoothing: if the true curve is
    steep, `DensityECE` is too small for its interval, and `SmoothECE` estimates another, smaller quantity. Histograms
    do not contain the dependence between the classes of one row: pooled over classes, such intervals are valid for any
    dependence and conservative.

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
    options = InputOptions(
        task, logits, labels, pos_label, ignore_label, sample_dim, class_dim, sum_tolerance, label, score, skip_missing
    )
    options = replace(options, population=population, groups=groups, soft_labels=soft_labels, cluster_check=True)
    data = Data.of(y_true, y_prob, by, sample_weight, options)
    has_names = not (metrics is None or (isinstance(metrics, str) and metrics == ALL))
    if has_names and metrics is not None:
        # Before anything is read: finding the values of slices may take a pass.
        named, dims = named_metrics(metrics), [*map(slice_dimension, data.slice_names)]
        check_names(named, names_beside(dims, named), class_dim)
    if data.options.soft_labels:
        panel = partial(_panel_of, full=metrics is not None)
        return evaluated_soft(data, metrics, panel, choice, class_dim, evaluated, has_names=has_names)
    read = data.read(takes_groups=True)
    if data.top is not None:
        metrics = _of_top_scores(metrics, data.top, read)
    return evaluated(read, metrics, choice, class_dim)


def _panel_of(read: Input, *, full: bool) -> dict[str, Estimator]:
    return usual_metrics(read.source, full=full)


def _of_top_scores(metrics: Metrics | None, top: TopScores, data: Input) -> Metrics:
    """The metrics, or the default metrics that the largest scores determine.

    Raises
    ------
    ValueError
        If they do not determine a metric that was asked for.
    """
    layout = data.source.layout
    if metrics is None or metrics == ALL:
        panel = usual_metrics(data.source, full=metrics is not None)
        return {name: metric for name, metric in panel.items() if not top.lacks(metric, layout)}
    chosen = named_metrics(metrics)
    top.check(chosen, layout)
    return chosen


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
    layout = data.source.layout
    if metrics is None or (isinstance(metrics, str) and metrics == ALL):
        chosen = supported_panel(usual_metrics(data.source, full=metrics is not None), layout)
    else:
        chosen = named_metrics(metrics)
        check_clustered(chosen, data)
    data = beside_metrics(data, chosen)
    axes, class_dim = (*data.batch, *data.by), data.class_dim(class_dim)
    check_names(chosen, [axis.name for axis in axes], class_dim)
    result = DatasetBuilder(data, class_dim)
    checks = {**column_check(chosen, data), **cluster_check(data, intervals=choice is not None)}
    requested = {**chosen, **checks, _TOTALS: slice_totals(data.source)}
    if layout.clustered:
        requested[CLUSTERS] = ClusterTotals()
    attributes: dict[str, Any] = {}
    if choice is None:
        outcome = run({**requested, **pvalue_checks(chosen, data.source)}, data.source)
        measured = BoundedEstimates(outcome.estimates, {}, outcome.passes)
    else:
        measured = estimates_with_intervals({**requested, **support_checks(chosen, data.source)}, data.source, choice)
        attributes = {"ci": choice.level, "n_boot": choice.n_boot, "seed": choice.seed}
    frequency = measured.estimates[_TOTALS].get("frequency")
    for name, estimator in chosen.items():
        bounds, estimate = measured.bounds.get(name, {}), measured.estimates[name]
        description = estimator.describe(layout)
        if layout.clustered:
            estimate = without_row_pvalues(estimator, estimate, description)
        if bounds and frequency is not None:
            bounds = bounds_where_outcomes_differ(bounds, description, frequency)
        outcomes = measured.estimates.get(outcomes_name(estimator, layout))
        if choice is not None and bounds and outcomes is not None:
            units = independent_units(data, outcomes, measured.estimates.get(CLUSTERS))
            alike = UnseenOutcomes.of(outcomes, units)
            estimate, bounds = error_bounds(estimate, bounds, alike, choice.level, estimator, layout)
            if has_weighted_ends(estimator, layout):
                estimate, bounds = weighted_bounds(estimate, bounds, alike)
        estimate, bounds = supported_bounds(estimator, estimate, bounds, description, layout, measured.estimates)
        result.add(name, estimator, estimate, bounds, axes)
    result.add_totals(measured.estimates[_TOTALS], requested[_TOTALS], axes)
    if layout.clustered:
        result.add_totals(measured.estimates[CLUSTERS], requested[CLUSTERS], axes, CLUSTER_TOTALS)
        attributes |= cluster_attributes(data, measured.estimates[CLUSTERS])
    attributes |= score_cautions(measured.estimates) | cluster_cautions(measured.estimates)
    if metrics is None:
        attributes["panel"] = DEFAULT_PANEL
    return with_row_counts(result.dataset(measured.passes, **attributes, **data.attributes), data)


def slice_totals(source: Source) -> SliceTotals:
    """Totals of each slice that the source provides."""
    return SliceTotals(rows_only=not source.has_score_sums(source.layout.setting(None)))


def usual_metrics(source: Source, setting: str | int | None = None, *, full: bool = False) -> dict[str, Estimator]:
    """The default metrics, or the full panel; for a summary, those that can be computed from it.

    For a summary, metrics without a setting of their own count as available if it holds ``setting``; their setting is
    not changed.
    """
    layout = source.layout
    if source.has_rows:
        return default_metrics(layout.classes, layout.vector, full=full)

    def supports(metric: Any) -> bool:
        if isinstance(metric, BrierScore | LogLoss):
            return source.scores is not None
        return source.has_histogram(layout.setting(setting if metric.setting is None else metric.setting))

    # A summary of the classes alone has none of the first calibration errors, but some of the full panel.
    for panel in (summary_metrics(vector=layout.vector, full=full), summary_metrics(vector=layout.vector, full=True)):
        available = {name: metric for name, metric in panel.items() if supports(metric)}
        if not all(isinstance(metric, BrierScore | LogLoss) for metric in available.values()):
            return on_grid(available, source.step)
    # The source raises an error that lists the stored settings.
    return {**panel}
