"""`compare`: differences of metrics between models on shared rows, with intervals and p-values."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, cast

import numpy as np
import xarray as xr

from calibdask.analyses.analysis import Analysis, Heading, Inputs, Outcome
from calibdask.analyses.clustered import check_clustered, cluster_attributes
from calibdask.analyses.comparison_document import comparison_document, comparison_lines, comparison_records
from calibdask.analyses.constant_outcome_bounds import difference_support, independent_units
from calibdask.analyses.soft_evaluation import of_whole_rows, supported_by_shares
from calibdask.analyses.supported_bounds import (
    bounds_of_few,
    has_saturated_ends,
    is_unbounded,
    refuse_difference,
    supported_ends,
)
from calibdask.data.containers import has_columns
from calibdask.data.data import Data, may_have_rows
from calibdask.data.input import Input
from calibdask.data.models import MODEL
from calibdask.data.options import InputOptions, Task
from calibdask.engine.axes import Axis
from calibdask.engine.plan import run_requests
from calibdask.estimators.about import PartInfo
from calibdask.estimators.cluster_totals import CLUSTER_TOTALS, ClusterTotals, clusters_of
from calibdask.estimators.estimator import Estimator
from calibdask.estimators.metrics import Metrics, check_distinct, named_metrics
from calibdask.estimators.outcome_counts import OutcomeCounts
from calibdask.estimators.panel import comparison_metrics
from calibdask.estimators.parts import Coordinate, Number
from calibdask.estimators.saturated_scores import UNBOUNDED, SaturatedScores
from calibdask.estimators.scores.proper import BrierScore, LogLoss
from calibdask.estimators.slice_totals import SliceTotals
from calibdask.inference.choice import IntervalChoice, check_interval
from calibdask.inference.cluster_bootstrap import widened_by_clusters
from calibdask.inference.ends import bounds_of_number, where
from calibdask.inference.methods import Method, NumberReplicates, less_baseline, sign_pvalue
from calibdask.inference.multiplicity import adjusted_pvalues
from calibdask.inference.row_bootstrap import RowBootstrap
from calibdask.results.build import DatasetBuilder, beside_metrics, check_names
from calibdask.results.comparison import verdicts
from calibdask.results.document import Document
from calibdask.safe_text import visible
from calibdask.statistics.views.clusters import bucket_count

# Methods of the intervals of differences.
PairedMethod = Literal["percentile", "bca"]
_CHALLENGER = "challenger"
# What is requested beside the metrics, under a name that none has.
_TOTALS, _CLUSTERS, _OUTCOMES, _SATURATED = (("\0" + name,) for name in ("totals", "clusters", "outcomes", "saturated"))
_DIFFERENCE = PartInfo("model minus baseline", "difference")
_JSON = """{"format": 1, "rows": int, "passes": int, "calibdask_version": str, "ci": float,
 "n_boot": int, "seed": int, "baseline": str, "verdict": [str],
 "comparisons": [{"by": {COLUMN: value}, "model": str, "rows": int,
                  "better": bool or null,
                  "metrics": {NAME: {"baseline": float, "model": float,
                    "difference": float, "low": float, "high": float,
                    "pvalue": float}}}]}
"better" refers to the first proper score; null: inconclusive. Differences: model minus
baseline. With slices, or over two models, also the adjusted "pvalue_holm", "pvalue_bh"."""


def compare(
    y_true: Any,
    prob_a: Any = None,
    prob_b: Any = None,
    metrics: Metrics | None = None,
    *,
    label: Any = None,
    baseline: str | None = None,
    by: Any = None,
    sample_weight: Any = None,
    skip_missing: bool = False,
    groups: Any = None,
    soft_labels: bool | Literal["raters"] = False,
    ci: float = 0.95,
    ci_method: Method | None = None,
    n_boot: int = 1000,
    seed: int = 0,
    task: Task | None = None,
    logits: bool = False,
    labels: Any = None,
    pos_label: Any = None,
    ignore_label: Any = None,
    sample_dim: str | Sequence[str] = "sample",
    class_dim: str = "class",
    sum_tolerance: float = 1e-3,
) -> xr.Dataset:
    """Compare models on shared rows: paired differences of metrics, with intervals and p-values.

    Parameters
    ----------
    y_true : array of shape (..., n)
        Class numbers, as in `calibdask.evaluate`. Or a container of columns in memory or in Dask, as there; then name
        the columns of the scores, as with ``score`` there.
    prob_a, prob_b : arrays of shape (..., n) or (..., n, K)
        Scores of two models, called ``"a"``, the baseline, and ``"b"``. Or ``prob_a`` alone: a mapping from the names
        of two or more models to their scores.
    metrics : estimator, sequence, or mapping from name to estimator, optional
        None: proper scores and binned errors. Tests, and estimators without support for weights, are not allowed.
    label : name of a column, optional
        In a container of columns: the labels.
    baseline : str, optional
        Name of the baseline model; by default the first.
    by, sample_weight, skip_missing, task, logits, labels, pos_label, ignore_label, sample_dim, class_dim, sum_tolerance
        As in `calibdask.evaluate`.
    groups : array of shape (n,), or name of a column, optional
        The cluster of each row, as for `calibdask.evaluate`: replicates of all models draw the same whole clusters, and
        are widened by Student's t for that number of clusters.
    soft_labels : bool or "raters", default False
        Whether labels are shares, as for `calibdask.evaluate`. Replicates draw whole rows.
    ci : float, default 0.95
        Level of the intervals.
    ci_method : {"percentile", "bca"}, optional
        Percentiles of the replicates (the default), or bias-corrected and accelerated ones.
    n_boot : int, default 1000
        Number of replicates. The smallest p-value is 2 / (n_boot + 1): use more with many slices.
    seed : int, default 0
        Seed of the replicates.

    Returns
    -------
    xarray.Dataset
        For each metric (and each part of one): ``<name>`` along the dimension ``model``; ``<name>_difference``, the
        value of a model minus that of the baseline; ``<name>_difference_low``, ``<name>_difference_high``, its
        interval; and ``<name>_difference_pvalue``, two-sided, for no difference. With named models differences have the
        dimension ``challenger``. With slices, or more than two models, also ``<name>_difference_pvalue_holm`` and
        ``<name>_difference_pvalue_bh``: adjusted over all slices and challengers by Holm's method
        (family-wise error) and by Benjamini & Hochberg's (false discoveries). Curves over fixed points, such as
        `NetBenefit`, have differences at each point, with pointwise intervals and p-values.

    Raises
    ------
    TypeError
        If a metric is not an estimator.
    ValueError
        If models have scores of different shapes, there are fewer than two, or the baseline is not among them; if a
        metric is a test or does not support weights; and as in `calibdask.evaluate`.

    Notes
    -----
    In every replicate all models are evaluated on the same rows, each weighted by a Poisson variable keyed by the seed
    and the row: variation common to the models cancels. The p-value is computed from the replicates d* of the
    difference, min(1, 2 (1 + min(#{d* <= 0}, #{d* >= 0})) / (n_boot + 1)); with ``"bca"`` at its corrected levels. If
    it is below 1 - ci the interval excludes 0; the converse holds up to 2 / n_boot. Replicates in which a small slice
    has no rows count for both sides. With fewer than 5 rows of the rarer outcome (with several classes: of right or
    wrong predictions of both models; with weights: effective rows) replicates resemble the data too closely, and
    interval and p-value are NaN. The same holds for differences of `CalibrationSlope` if a score of either model is
    exactly 0 or 1: its infinite logit is clipped, and the result depends on where. Edges of bins and bandwidths of
    kernels on the simplex are not re-estimated; each model has its own.

    Estimated calibration errors exceed the true ones by chance, most of all for well-calibrated models. Differences of
    models with errors of different size are therefore biased towards 0, and resampling repeats that bias: use a metric
    with little bias (`BrierScore`, `LogLoss`, ``ECE(norm="l2", debias=True)``, `SKCE`) if that matters. Terms of
    `CORP` are comparable between scores of equal resolution: the fit follows noise more closely for distinct scores
    than for rounded ones.

    As many passes as `calibdask.evaluate`, with ``n_boot`` times its cost and states for each metric and model. Scores
    in memory are copied once. Replicates of class-wise estimates preserve the dependence between classes of a row.

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
    options = InputOptions(
        task, logits, labels, pos_label, ignore_label, sample_dim, class_dim, sum_tolerance, label, None, skip_missing
    )
    options = replace(options, groups=groups, soft_labels=soft_labels)
    chosen = None if metrics is None else named_metrics(metrics)
    method = cast("PairedMethod | None", ci_method)  # checked where it is used
    analysis = Compare(chosen, baseline, ci, method, n_boot, seed, squeezed=prob_b is not None)
    return analysis.run(_data(y_true, prob_a, prob_b, by, sample_weight, options))


@dataclass(frozen=True)
class Compare(Analysis):
    """Compare models on identical rows; A is the baseline.

    Each DATA is a file of scored rows as for evaluate, or NAME=FILE, with the same rows in the same order. Labels must
    agree; slices and weights are taken from A. In every bootstrap replicate all models are evaluated on the same
    resampled rows, so differences between models are precise.

    Parameters
    ----------
    metrics : mapping from name to estimator, optional
        Metric to compare, as in evaluate, repeatable. None: proper scores and binned errors.
    baseline : str, optional
        Baseline model. None: the first.
    ci : float, default 0.95
        Confidence level of the intervals.
    ci_method : {"percentile", "bca"}, optional
        Method of the intervals. None: percentile.
    n_boot : int, default 1000
        Bootstrap replicates of the rows, of which the smallest p-value is 2 / (N + 1).
    seed : int, default 0
        Seed of random numbers.
    squeezed : bool, default False
        Whether differences of two models have no dimension of challengers, which the document needs.
    """

    metrics: Mapping[str, Estimator] | None = field(default=None, hash=False, metadata={"recorded": False})
    baseline: str | None = field(default=None, metadata={"placeholder": "NAME"})
    ci: float = 0.95
    ci_method: PairedMethod | None = None
    n_boot: int = 1000
    seed: int = 0
    squeezed: bool = field(default=False, metadata={"shell": False})

    name: ClassVar[str] = "compare"
    heading: ClassVar[Heading] = "Measure"
    inputs: ClassVar[Inputs] = "models"
    json_head: ClassVar[Sequence[str]] = (*("rows", "passes", "calibdask_version", "ci", "n_boot", "seed", "baseline"),)
    json_shape: ClassVar[str] = _JSON
    weights: ClassVar[bool] = True
    statuses: ClassVar[Mapping[Outcome, str]] = {"met": "done, whichever model is better"}
    examples: ClassVar[Sequence[tuple[str, str]]] = (
        ("calibdask compare old.parquet new.parquet", "which model is better, and which is better calibrated"),
        ("calibdask compare old=a.csv new=b.csv --by country", "by country, adjusted for multiple comparisons"),
        ("calibdask compare a.npz b.npz c.npz --baseline b --json", "several models, as JSON"),
        ("calibdask compare fresh.parquet --map map.json", "scores before and after recalibration"),
    )

    def compute(self, data: Data) -> xr.Dataset:
        """Metrics of all models and their differences, as `calibdask.compare` returns them."""
        check_interval(self.ci, self.n_boot, self.seed)
        if self.ci_method not in (None, "percentile", "bca"):
            raise ValueError(f"ci_method of a comparison expects 'percentile', 'bca' or None, got {self.ci_method!r}.")
        names = list(data.models)
        base = _baseline_index(names, self.baseline)
        rows = data.read(takes_groups=True, takes_shares=True)
        class_dim = rows.class_dim(data.options.class_dim)
        usual = supported_by_shares(comparison_metrics(vector=rows.source.layout.vector), rows)
        chosen = named_metrics(usual if self.metrics is None else self.metrics)
        _refuse_tests(chosen, rows)
        rows = beside_metrics(rows, chosen)
        named = not self.squeezed
        axis_names = [axis.name for axis in (*rows.batch, *rows.by)]
        check_names(chosen, [*axis_names, *([_CHALLENGER] if named else [])], class_dim)
        choice = IntervalChoice(self.ci, self.ci_method or "percentile", self.n_boot, self.seed)
        layout = rows.source.layout
        check_clustered(chosen, rows)
        if layout.clustered and self.ci_method == "bca":
            raise ValueError("ci_method='bca' leaves out rows in turn; omit it with groups and soft_labels.")
        bootstrap = RowBootstrap(choice, bucket_count(layout) if layout.clustered else None)
        totals = SliceTotals()
        counted: dict[Any, Any] = {_CLUSTERS: ClusterTotals().estimate()} if layout.clustered else {}
        if layout.weighted:
            counted[_OUTCOMES] = OutcomeCounts().estimate()
        if any(has_saturated_ends(metric, layout) for metric in chosen.values()):
            counted[_SATURATED] = SaturatedScores().estimate()
        requests = {**bootstrap.requests(chosen, chosen), _TOTALS: totals.estimate(), **counted}
        outcome = run_requests(requests, rows.source)
        clusters = clusters_of(outcome.estimates[_CLUSTERS]) if layout.clustered else None
        result = DatasetBuilder(rows, class_dim)
        challengers = [name for name in names if name != names[base]]
        axes = _axes(rows, challengers, squeezed=not named)
        support = difference_support(outcome.estimates[_TOTALS], outcome.estimates.get(_OUTCOMES), (base, len(names)))
        adjusted = bool(rows.by) or len(challengers) > 1
        for name, metric in chosen.items():
            estimate = outcome.estimates[(name,)]
            result.add(name, metric, estimate, {}, (*rows.batch, *rows.by))
            coordinates = [part for part, of in estimate.items() if isinstance(of, Coordinate)]
            for part, replicates in bootstrap.replicates(name, outcome).items():
                if not {*estimate[part].dims} <= {"class", *coordinates}:
                    continue
                unstretched = differences = _differences(replicates, (base, len(names)))
                if clusters is not None:
                    differences = widened_by_clusters(differences, clusters, self.ci, bucket_count(layout))
                number = Number(differences.centre, estimate[part].dims)
                pvalue = Number(sign_pvalue(differences, choice.method), number.dims)
                bounds = {**bounds_of_number(number, differences, choice), "pvalue": pvalue}
                if isinstance(metric, BrierScore | LogLoss):
                    units = independent_units(rows, outcome.estimates[_TOTALS], outcome.estimates.get(_CLUSTERS))
                    number, bounds = bounds_of_few(
                        number, bounds, unstretched.values, units, metric.row_range(part, layout), self.ci
                    )
                number, bounds = supported_ends(number, bounds, support)
                clipping = estimate[part].notes.get("rests_on_clipping", "")
                if clipping or is_unbounded(metric, part, layout):
                    reason = f"of differences: {clipping}" if clipping else UNBOUNDED
                    saturated = outcome.estimates[_SATURATED][""].values
                    saturated = saturated | bool(clipping and not layout.vector)  # any class may be clipped
                    number, bounds = refuse_difference(number, bounds, saturated, (base, len(names)), reason)
                if clusters is not None:
                    enough = np.broadcast_to(clusters.suffice, (len(number.values), layout.groups))
                    bounds = {bound: where(end, enough) for bound, end in bounds.items()}
                if adjusted:
                    by_point = not {*number.dims}.isdisjoint(coordinates)
                    pvalues = adjusted_pvalues(bounds["pvalue"].values, by_point=by_point)
                    bounds |= {f"pvalue_{word}": Number(values, number.dims) for word, values in pvalues.items()}
                label = f"{part}_difference" if part else "difference"
                result.add(name, metric, {label: number}, {label: bounds}, axes, {label: _DIFFERENCE})
        result.add_totals(outcome.estimates[_TOTALS], totals, (*rows.batch, *rows.by))
        # Estimates have a dimension of all models, differences a separate one of the challengers.
        batch = tuple(axis for axis in rows.batch if axis.name != MODEL)
        counts: dict[str, Any] = {"ci": self.ci, "n_boot": self.n_boot, "seed": self.seed, "baseline": names[base]}
        if clusters is not None:
            result.add_totals(outcome.estimates[_CLUSTERS], ClusterTotals(), (*rows.batch, *rows.by), CLUSTER_TOTALS)
            counts |= cluster_attributes(rows, outcome.estimates[_CLUSTERS])
        return of_whole_rows(result.dataset(outcome.passes, batch, **counts, **rows.attributes), rows)

    def document(self, result: xr.Dataset) -> Document:
        """Which model is better, and the difference of each metric by model and slice."""
        return comparison_document(result)

    def records(self, result: xr.Dataset) -> dict[str, Any]:
        """The verdicts, and a record for each model and slice."""
        return {"verdict": verdicts(result), "comparisons": comparison_records(result)}

    def lines(self, result: xr.Dataset) -> list[dict[str, Any]]:
        """A line for each slice, model and metric."""
        return comparison_lines(result)


def _refuse_tests(metrics: Mapping[str, Estimator], data: Input) -> None:
    """Raise ValueError for tests, whose differences have no meaning."""
    for name, estimator in metrics.items():
        if estimator.is_test(data.source.layout):
            raise ValueError(f"compare expects metrics, but {name!r} is a test: {estimator!r}.")


def _data(y_true: Any, prob_a: Any, prob_b: Any, by: Any, sample_weight: Any, options: InputOptions) -> Data:
    """The rows, with the scores of all models by name.

    Raises
    ------
    ValueError
        If there are no such rows, or fewer than two models.
    """
    if isinstance(y_true, Data):
        return y_true.with_scores(_models(y_true.scores, None))
    models = _models(prob_a, prob_b)
    is_path = isinstance(y_true, str | os.PathLike)
    is_named = options.label is not None or has_columns(y_true) or is_path
    if not may_have_rows(y_true) or not (hasattr(y_true, "__len__") or is_named):
        raise ValueError("compare expects arrays of labels and scores, not summaries or iterators of blocks.")
    # Columns of a frame or a file are named as by ``score`` of `calibdask.evaluate`.
    if is_named:
        data = Data.of(y_true, None, by, sample_weight, replace(options, score=models))
    else:
        data = Data.of(y_true, models, by, sample_weight, options)
    return data


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


def _baseline_index(names: list[str], baseline: str | None) -> int:
    """The index of the baseline."""
    if baseline is None:
        return 0
    if str(baseline) not in names:
        raise ValueError(f"baseline expects one of {', '.join(map(visible, names))}, got {visible(baseline)}.")
    return names.index(str(baseline))


def _axes(data: Input, challengers: list[str], *, squeezed: bool) -> tuple[Axis, ...]:
    """The axes of differences: challengers in place of models."""
    challenger = () if squeezed else (Axis(_CHALLENGER, len(challengers), np.array(challengers)),)
    return (*challenger, *(axis for axis in data.batch if axis.name != MODEL), *data.by)


def _differences(replicates: NumberReplicates, models: tuple[int, int]) -> NumberReplicates:
    """Replicates of the difference of each model from the baseline; the batch axis has the models first."""
    return NumberReplicates(
        less_baseline(replicates.values, models, 1),
        less_baseline(replicates.centre, models, 0),
        replicates.resampled,
        left_out=None if replicates.left_out is None else less_baseline(replicates.left_out, models, 1),
    )
