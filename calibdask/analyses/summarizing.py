"""`summarize`: histograms that suffice for grid-based metrics, in a dataset that can be stored and added."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from calibdask import __version__
from calibdask.analyses.auditing.summarizing import FeatureRequest
from calibdask.data.cluster_sizes import slice_numbers
from calibdask.data.data import Data
from calibdask.data.input import Input
from calibdask.data.named_features import data_with_features
from calibdask.data.options import InputOptions, Task
from calibdask.data.population import Population
from calibdask.data.streams import RowStream
from calibdask.engine.axes import Axis, slice_dimension
from calibdask.engine.workers import memory_in_force
from calibdask.estimators.smooth.gridded import check_step
from calibdask.safe_text import listed, visible
from calibdask.statistics import exact
from calibdask.statistics.bins.grid import GridHistogram, GridState
from calibdask.statistics.bins.sparse_grid import in_form
from calibdask.statistics.cluster_cells import ClusterCells
from calibdask.statistics.cluster_sizes import ClusterExponents, ClusterSizes
from calibdask.statistics.layout import Layout
from calibdask.statistics.score_sums import ScoreSums, ScoreSumsState
from calibdask.statistics.settings import Setting
from calibdask.statistics.statistic import Statistic, ViewedStatistic
from calibdask.statistics.views.clusters import Buckets
from calibdask.storage.summary_cluster_weights import weighted_period, with_cluster_weights
from calibdask.storage.summary_clusters import CLUSTER_BUCKET, check_buckets
from calibdask.storage.summary_format import SummaryAxes, check_names, histograms, to_dataset, with_clusters, with_notes

# Histograms by bucket are held by each thread, while they are merged, and as they are stored: on two threads 14 files
# with 112 slices took 6.4 times the memory of one state, and 4 files with 32 slices 3.9 times. Of many threads few wait
# with a state at a time.
_COPIES, _MOST_THREADS = 5, 8


def summarize(
    y_true: Any,
    y_prob: Any = None,
    *,
    label: Any = None,
    score: Any = None,
    by: Any = None,
    sample_weight: Any = None,
    skip_missing: bool = False,
    settings: Sequence[str | int] = ("confidence", "classwise"),
    step: float = 0.0003,
    task: Task | None = None,
    logits: bool = False,
    labels: Any = None,
    pos_label: Any = None,
    ignore_label: Any = None,
    sample_dim: str | Sequence[str] = "sample",
    class_dim: str = "class",
    sum_tolerance: float = 1e-3,
    features: Any = None,
    depth: int = 2,
    values: int | None = None,
    min_rows: int = 100,
    edges: Mapping[str, Sequence[float]] | None = None,
    score_cells: int | None = None,
    cuts: xr.Dataset | None = None,
    population: Population | None = None,
    groups: Any = None,
    buckets: int = 64,
    period: str | Mapping[str, Any] | None = None,
) -> xr.Dataset:
    """Summarize predicted probabilities in one pass: `calibdask.evaluate` takes the result in place of the data.

    Parameters
    ----------
    y_true, y_prob, label, score, by, sample_weight, skip_missing, task, logits, labels, pos_label, ignore_label
        As for `calibdask.evaluate`.
    sample_dim, class_dim, sum_tolerance
        As for `calibdask.evaluate`.
    settings : sequence of str or int, default ("confidence", "classwise")
        Settings to store: ``"confidence"``, ``"classwise"``, ``"binary"``, the number of a class. Class-wise histograms
        also serve single classes.
    step : float, default 0.0003
        Largest width of a cell; the unit interval is divided into a multiple of 300 cells, 3600 by default.
    features : data frame, mapping from name to array, or names of columns, optional
        As for `calibdask.audit`, which accepts the summary instead of the rows. Not with ``by`` or weights.
    depth, values, min_rows, edges, score_cells
        How the features are cut, as for `calibdask.audit`; ``min_rows`` determines which categories are rare.
    cuts : xarray.Dataset, optional
        A summary with features: the features are cut as in this summary, so that both can be added. New categories
        count as ``other``. ``features`` None: the columns of these names.
    population : Population, optional
        The population to which the summary refers, as for `calibdask.evaluate`; only summaries of the same population
        can be merged.

    groups : array of shape (n,), or name of a column, optional
        The cluster of each row, as for `calibdask.evaluate`: the summary keeps the sums that clustered intervals, and
        `calibdask.watch`, need.
    buckets : int, default 64
        With ``groups``: number of buckets that clusters are hashed into, a power of 2 from 16 to 512.
    period : str or mapping, optional
        With ``groups``: the slice of ``by`` in each label of which a cluster counts once for `calibdask.watch`. A
        mapping such as ``{"day": "2026-11-22"}``: the whole summary is this period, as for `calibdask.append`. None:
        the slice that is called period, day, date, hour, week, month, quarter or year, or labelled by dates.

    Returns
    -------
    xarray.Dataset
        For each setting ``<setting>_count`` (..., [class,] cell, outcome), the rows by fine cell of the score and by
        outcome, and ``<setting>_offset``, the sum of their positions in the cell in units of 2**-30 (with weights:
        sums of weights, and ``<setting>_square``, ``<setting>_rows``); ``rows``, and ``total_rows`` of all slices.
        Settings whose scores have a positive lower bound have a second histogram, ``<setting>_support_count`` and so
        on, on the interval above it. With features ``segment_rows``, ``segment_events`` (..., segment, segment_cell),
        ``segment_score`` and ``segment_spread``, the sums of audits, and ``segment_cuts``, their description.
        ``brier_sum`` and ``log_loss_sum`` are the sums of these scores, without weights
        as two words in units of ``word_unit``; ``clipped_rows`` counts the rows whose logarithm was clipped.

    Raises
    ------
    ValueError
        As `calibdask.evaluate`; if a setting is unknown, the step is out of range, or ``period`` is not in ``by`` or
        comes without ``groups``. With features as
        `calibdask.audit`; if they come with slices or weights, or do not fit ``cuts``.

    Notes
    -----
    Summaries add: the sum over a dimension of slices **is** the summary of the pooled rows, to the last bit without
    weights, and `calibdask.merge` unites summaries of different rows, for example of different days. In plain xarray
    ``a + b`` keeps only the slices that both have: a summary carries its total, ``total_rows``, so evaluating a sum
    that has lost rows, or a selection of slices of a sum, raises an error; a selection of slices of a merged summary
    does not. Dimensions of models are not slices: a sum over them counts rows several times, and raises an error as
    well. Summaries may be concatenated along a new dimension, as slices; with ``groups`` pass ``data_vars="all"``.

    `DensityECE`, `SmoothECE`, curves, binned metrics whose edges are edges of cells (10, 15, 20, 100 or any number of
    bins that divides 3600) and equal-mass bins on cell boundaries can be computed from them, all with intervals and
    bands; and `BrierScore` and `LogLoss`, whose exact sums are kept, with intervals for a vector of scores. For
    decisions, they support `threshold`, `NetBenefit` and `MurphyCurve` (exactly), and `RiskCoverage`, `ATB` and
    `ConformalThreshold` (to the width of a cell).

    Cells are finer next to 0 and 1: 32 for every doubling of the distance to the end, down to 4e-9. With a thousand
    classes, whose scores are mostly below 0.001, equal-mass calibration errors are within 1 % of their values on the
    rows.

    *Clusters.* With ``groups`` every variable has a second one by bucket of clusters, ``<name>_buckets`` (...,
    cluster_bucket), and ``cluster_rows`` counts clusters. Buckets of different days, files or slices add up, even if a
    cluster has rows in several of them; `calibdask.evaluate` resamples them, with at most buckets - 1 degrees of
    freedom. The relative error of a standard error is about 1 / sqrt(2 (buckets - 1)): 9 % for 64 buckets, 3 % for 512.
    Analyses that assume independent rows reject a summary with clusters; ``drop_dims("cluster_bucket")`` makes them
    treat its rows as independent.

    Without weights, a second pass over the rows sums what `calibdask.watch` needs: histograms
    ``<name>_cluster_weighted`` in which each of the m rows of a cluster within a period has the weight 1 / m.
    ``cluster_weight_periods`` counts what was merged: the weights of a cluster add up to this number at most. Up to 4
    million clusters of all periods are counted exactly, in 64 MB; of more some count together, with smaller weights.
    Values that can be read only once have no such histograms.

    Memory: 156 kB for each class and slice (312 kB with weights), also for every block of rows that waits to be merged.
    With many small slices, 20 bytes for each occupied cell and class (36 with weights), of which there are at most as
    many as rows; such variables hold only their occupied cells, in files as well. With ``groups``, all cells are
    stored, and the same again for each bucket: 10 MB for each class and slice with 64 buckets, 80 MB with 512, and 312
    kB for weights of clusters, for each thread and up to five times more; more than 4 GB, or than is free, raise an
    error beforehand. One cell holds up to 2**33 rows.

    Examples
    --------
    >>> import calibdask as cd
    >>> y_true, y_prob, day = [0, 1, 1, 1], [0.2, 0.4, 0.6, 0.8], ["mon", "mon", "tue", "tue"]
    >>> summary = cd.summarize(y_true, y_prob, by={"day": day}, settings=["binary"])
    >>> cd.evaluate(summary, metrics=cd.ECE(bins=2)).ece.values
    array([0.2, 0.3])
    >>> float(cd.evaluate(summary.sum("day"), metrics=cd.ECE(bins=2)).ece)
    0.25
    """
    check_step(step)
    options = InputOptions(
        task,
        logits,
        labels,
        pos_label,
        ignore_label,
        sample_dim,
        class_dim,
        sum_tolerance,
        label,
        score,
        skip_missing,
        population,
        groups,
    )
    check_buckets(buckets)
    if isinstance(period, Mapping) and len(period) != 1:
        raise ValueError(f"period expects a slice, or a mapping of one period, got {len(period)}: {dict(period)!r}.")
    wanted = FeatureRequest.of(features, depth, values, min_rows, edges, score_cells, cuts)
    if wanted is None:
        given = Data.of(y_true, y_prob, by, sample_weight, options)
    else:
        if any(one is not None for one in (by, sample_weight, population, groups)):
            raise ValueError(
                "features expects rows without by, sample_weight, population and groups: name columns of slices among "
                "the features, and audit rows with weights or groups directly."
            )
        given = data_with_features(y_true, y_prob, wanted.columns, None, options)
    # Before anything is read: finding the values of slices may take a pass.
    check_names([slice_dimension(name) for name in given.slice_names], class_dim)
    if isinstance(period, str) and period not in (names := [*map(str, given.slice_names)]):
        raise ValueError(
            f"period expects one of the slices of by ({listed(names) or 'none'}), got {visible(period)}. If all rows "
            f"are of one period, pass a mapping, such as period={{'day': '2026-11-22'}}."
        )
    data = given.rows_for("summarize", "which it counts").read(takes_groups=True)
    class_dim = data.class_dim(class_dim)
    layout = data.source.layout
    kept = stored_settings(settings, layout)
    requests = histograms(kept, layout.classes, step)
    axes = SummaryAxes(data.batch, data.by, data.classes)
    check_names([axis.name for axis in (*axes.batch, *axes.by)], class_dim)
    if period is not None and not layout.clustered:
        raise ValueError(
            f"period expects rows with groups, whose clusters count once in a period; got period={period!r} without "
            "groups: pass groups, or leave period out."
        )
    if layout.clustered:
        twice = not (isinstance(given.labels, RowStream) and given.labels.batches.once)
        slices = {str(axis.name): np.asarray(axis.labels) for axis in axes.by}
        along = weighted_period(slices) if period is None else None
        if isinstance(period, str):
            along = str(slice_dimension(period))
        summary = _with_clusters(data, requests, axes, class_dim, Buckets(buckets), along, twice=twice)
    else:
        in_forms = (in_form(request, layout) for request in requests)
        scores, *states = data.source.answer((ScoreSums(), *in_forms))
        # Each state is freed once it is stored, since all of them may take most of the memory.
        states.reverse()
        stored = ((request, states.pop()) for request in requests)
        summary = to_dataset(stored, scores, layout, axes, class_dim)
    if wanted is not None:
        summary = wanted.added(summary, data)
    return with_notes(summary.assign_attrs(calibdask_version=__version__, **data.attributes), data.notes)


def _with_clusters(
    data: Input,
    requests: Sequence[GridHistogram],
    axes: SummaryAxes,
    class_dim: str,
    view: Buckets,
    period: str | None,
    *,
    twice: bool,
) -> xr.Dataset:
    """Summarize clustered rows by bucket and together; ``twice``: also with weights of clusters, in a second pass."""
    layout = data.source.layout
    statistics: tuple[Statistic[Any], ...] = (ScoreSums(), *requests)
    viewed: list[Any] = [ViewedStatistic(view, statistic) for statistic in statistics]
    within = [str(axis.name) for axis in axes.by if axis.name == period]
    # Bets need rows without weights.
    sizes = [ClusterSizes(slice_numbers(axes.by, within))] if twice and not layout.weighted else []
    _check_bucket_memory(viewed, layout, view.count)
    cells, scores, *states = data.source.answer((ClusterCells(view.count), *viewed, *sizes))
    exponents = [ClusterExponents.of(states.pop(), request.within) for request in sizes]
    along = Axis(CLUSTER_BUCKET, view.count, np.arange(view.count))
    by_bucket = axes._replace(by=(*axes.by, along))
    of_buckets = to_dataset(
        zip(requests, states, strict=True), scores, view.layout(layout), by_bucket, class_dim, all_cells=True
    )

    def summed(sums: Any) -> Any:
        return exact.pooled(sums.reshape(layout.batch, layout.groups, view.count, *sums.shape[2:]), 2)

    def counted(sums: Any) -> Any:
        return sums.reshape(layout.batch, layout.groups, view.count, *sums.shape[2:]).sum(2)

    def stored(states: Sequence[GridState], layout: Layout) -> xr.Dataset:
        return to_dataset(zip(requests, states, strict=True), of_all, layout, axes, class_dim, all_cells=True)

    of_all = ScoreSumsState(counted(scores.rows), counted(scores.clipped), *map(summed, scores[2:]))
    summary = stored([GridState.of(counted, state) for state in states], layout)
    batch = [axis.name for axis in axes.batch]
    summary = with_clusters(summary, of_buckets, cells.rows, batch)
    for once in exponents:
        weighted = data.source.answer(tuple(ViewedStatistic(once, request) for request in requests))
        summary = with_cluster_weights(summary, stored(weighted, once.layout(layout)), period, batch)
    return summary


def _check_bucket_memory(statistics: Sequence[Statistic[Any]], layout: Layout, buckets: int) -> None:
    """Raise ValueError if histograms by bucket would exceed the memory of this machine, or of a worker."""
    threads, free = memory_in_force()
    size = sum(statistic.bytes(layout) for statistic in statistics)
    expected = size * (min(threads, _MOST_THREADS) + _COPIES)
    if free is not None and expected > free:
        raise ValueError(
            f"{layout.groups:,} slices with {buckets} buckets of clusters expect about {expected / 1e9:,.1f} GB of "
            f"memory, {size / 1e9:,.2f} GB for each of {_COPIES} copies and each thread, and {free / 1e9:,.1f} GB are "
            "free: pass fewer buckets (buckets=16), fewer slices or settings, or append one period at a time."
        )


def stored_settings(settings: Sequence[str | int] | str | int, layout: Layout) -> tuple[Setting, ...]:
    """The settings of a summary, each once.

    Raises
    ------
    ValueError
        If there is none, or one that histograms do not tell.
    """
    names = [settings] if isinstance(settings, str | int) else settings
    kept = dict.fromkeys(layout.setting(setting) for setting in names)
    if not kept or any(setting.kind == "multiclass" for setting in kept):
        raise ValueError(
            f"settings expects some of 'confidence', 'classwise', 'binary' and class numbers, got {settings!r}."
        )
    return tuple(kept)
