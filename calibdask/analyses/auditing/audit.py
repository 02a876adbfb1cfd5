"""`audit`: for whom scores are wrong, over all segments of many columns."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import xarray as xr

from calibdask.analyses.analysis import Analysis, Heading, Outcome
from calibdask.analyses.auditing.audit_document import audit_document
from calibdask.analyses.auditing.audit_table import AuditTable, fill_lattice
from calibdask.analyses.auditing.conclusions import cluster_remark, why_passes
from calibdask.analyses.auditing.cutting import check_cutting, learnt_cuts, one_setting
from calibdask.analyses.auditing.features import Values
from calibdask.analyses.auditing.label_leakage import FeatureCounts, warn_of_leakage
from calibdask.analyses.auditing.measures import cells_of
from calibdask.analyses.auditing.overlaps import LatticeOverlaps, RowOverlaps
from calibdask.analyses.auditing.planning import LatticePlan
from calibdask.analyses.auditing.summarized import NOTES, refuse_rows_options, summary_lattice
from calibdask.data.cluster_sizes import check_exponents, with_exponents
from calibdask.data.data import Data, summary_of
from calibdask.data.input import Input
from calibdask.data.named_features import data_with_features
from calibdask.data.options import InputOptions, Task
from calibdask.inference.choice import check_level
from calibdask.results.document import Document
from calibdask.results.format import plain
from calibdask.statistics.cluster_sizes import ClusterExponents
from calibdask.storage.summary import Summary

# What a summary says about rows that were left out.
_JSON = """{"format": 1, "rows": int, "passes": int, "calibdask_version": str, "setting": str,
 "depth": int, "min_rows": int, "alpha": float, "segments": int, "conclusion": str,
 "not_excluded": {ROWS: float},
 "found": [{"segment": str, "features": [str], "described": bool, "rows": int,
            "events": int, "mean_score": float, "frequency": float, "gap": float,
            "gap_low": float, "gap_high": float, "ece": float, "ece_chance": float,
            "ecce": float, "sigma": float, "slope": float or null, "pvalue": float,
            "pvalue_adjusted": float, "log_e": float, "discovery": bool}]}
"not_excluded": the largest absolute gap that cannot be ruled out for any subgroup of at
least that many rows, at 1 - alpha for all together. With --groups also "groups": str,
"clusters": int and, in "found", "cluster_weight": float. --out FILE.csv, .parquet, .nc
and .zarr have every subgroup."""
_RECORDED = (
    *("rows", "events", "mean_score", "frequency", "gap", "gap_low", "gap_high", "ece", "ece_chance", "ecce"),
    *("sigma", "slope", "pvalue", "pvalue_adjusted", "log_e", "discovery", "cluster_weight"),
)


def audit(
    y_true: Any,
    y_prob: Any = None,
    features: Any = None,
    depth: int | None = None,
    min_rows: int = 100,
    alpha: float = 0.05,
    *,
    label: Any = None,
    score: Any = None,
    sample_weight: Any = None,
    groups: Any = None,
    skip_missing: bool = False,
    setting: str | int | None = None,
    values: int | None = None,
    edges: Mapping[str, Sequence[float]] | None = None,
    score_cells: int | None = None,
    task: Task | None = None,
    logits: bool = False,
    labels: Any = None,
    pos_label: Any = None,
    ignore_label: Any = None,
    sample_dim: str | Sequence[str] = "sample",
    class_dim: str = "class",
    sum_tolerance: float = 1e-3,
) -> xr.Dataset:
    r"""Find miscalibrated subgroups: all segments of up to ``depth`` features, tested together.

    A segment is a conjunction such as ``age > 60, country = FR``. For at most a share ``alpha`` of calibrated models is
    any segment reported, however many are tested.

    Parameters
    ----------
    y_true, y_prob : array of shape (n,); y_prob (n,) or (n, K)
        As in `calibdask.evaluate`; or, without ``y_prob``, a data frame, or the path of a file. Or a summary that
        `calibdask.summarize` made with features, or its path, which accepts only ``depth``, ``min_rows`` and ``alpha``:
        its slices are added up, and the numbers equal those computed from its rows, to the last bit; ``described`` can
        be longer.
    features : data frame, mapping from name to array, or names of columns
        Numbers are cut at quantiles; dates by year, month, weekday (1 is Monday) and hour; rare categories are pooled
        into one value, ``other``; missing is a separate value, one for all parts of a date. None: all other columns of
        the frame or the file.
    depth : int, optional
        Largest number of features of a segment. None: 2, of a summary its own.
    min_rows : int, default 100
        Smaller segments are not tested, and categories with fewer rows count as rare.
    alpha : float, default 0.05
        Level of all tests together; intervals are pointwise, with the level 1 - alpha.
    label, score : name or names of columns, optional
        In a frame or a file, as in `calibdask.evaluate`.
    sample_weight : array of shape (n,) or name of a column, optional
        Non-negative weights; not with ``groups``.
    groups : array of shape (n,) or name of a column, optional
        The cluster of each row, such as a patient: only rows of different clusters are independent. Each cluster then
        counts once, see Notes.
    skip_missing : bool, default False
        Leave out rows without a label, a score or a weight.
    setting : str or int, optional
        ``"binary"``, ``"confidence"``, or the number of a class. None: binary for a vector, confidence for a matrix.
    values : int, optional
        Maximum number of bins or categories of a feature, including ``other`` but not missing. None: 5 bins; 50 values
        of a category, or fewer (at least 5) if there would be more than 100,000 segments.
    edges : mapping from name to sequence of float, optional
        Edges of numbers in place of quantiles; an edge belongs to the bin below it.
    score_cells : int, optional
        Cells of scores with equally many rows, from which calibration errors are computed. None: 64, or 16 for segments
        of three or more features.
    task, logits, labels, pos_label, ignore_label, sample_dim, class_dim, sum_tolerance
        As in `calibdask.evaluate`.

    Returns
    -------
    xarray.Dataset
        One row per segment of at least ``min_rows`` rows, the strongest evidence first; the coordinate
        ``segment`` is its text, ``features`` and ``depth`` give its parts; ``number`` counts them feature by
        feature, value by value. The rows of depth 1 of a feature
        are its one-way table, with its missing and other values. Coordinates ``rows``, ``events``, ``mean_score``,
        ``frequency``.

        ``gap``, observed rate minus mean prediction, with ``gap_low``, ``gap_high``; ``ece`` over cells of scores, and
        ``ece_chance``, the value expected of a calibrated model; ``ecce``, the range of the cumulative differences, and
        its scale ``sigma``; ``slope`` of the log-odds, NaN if the rows do not determine it.

        ``pvalue`` of the segment alone; ``pvalue_adjusted`` for all segments (Holm), and ``found`` where that is at
        most ``alpha``; ``log_e``, the logarithm of an e-value, and ``discovery``, e-BH, among which the expected share
        of false discoveries is at most ``alpha``: more segments than ``found`` only where most of them are far off.
        ``described``: the smallest set of significant segments that explains the miscalibration.

        Attributes: ``conclusion``, a sentence; ``not_excluded``, JSON with, for several segment sizes, the largest
        absolute gap that cannot be ruled out at 1 - alpha simultaneously for all segments of at least that size;
        ``segments``, how many were tested; ``mce_sigma``, the largest ratio of ``ecce`` and ``sigma``; ``notes``,
        JSON with notes on the features; ``candidates`` for the description, ``candidates_untried`` and
        ``overlaps_unknown``, see below; ``passes``, and ``passes_why`` if there are more than three.

    Raises
    ------
    ValueError
        If features do not exist, or all are constant; if edges are not increasing finite numbers of such features; if
        the setting has several columns; if the lattice would be too large (the message says which settings fit); and as
        in `calibdask.evaluate`.

    Warns
    -----
    UserWarning
        For features that are left out (constant, all missing, different in every row, over 10**6 texts), that mix
        types, or that determine the outcome.

    Notes
    -----
    Passes over the data: two determine the edges of features and scores (the second makes the quantiles exact), and one
    fills the lattice. The attribute ``passes_why`` explains further passes: one to separate the effects of several
    candidates for the description; one for each part of a lattice that does not fit into memory at once; and up to two
    where, at a quantile, a thousandth of the rows have numbers that differ by less than a millionth. A number is cut at
    values of the ranks i n / bins; among values closer together than that, the largest is the edge. A numeric feature
    with at most as many distinct integers as bins is not cut: its integers are its values. Results do not depend on
    chunks or workers; with weights, up to rounding.

    *Memory.* 32 bytes for each segment and cell of scores, or 40 with weights. A lattice is filled in up to eight
    parts; each thread has one, of at most 256 MB. All together take at most half of the memory of this machine; on a
    cluster of Dask the parts that a worker has at a time take at most half of its own, and the lattice is put together
    where ``audit`` is called. This is planned before a lattice is filled, and a lattice that does not fit raises an
    error that names a depth, cells and values that do. ``min_rows`` reduces it only by pooling rare categories.

    *Evidence.* Given the scores, the outcomes of a segment are independent Bernoulli variables if the model is
    calibrated. The p-value is twice a bound of the tail of their sum: Chernoff's from the cells of scores, or that of
    the binomial distribution [1]_ where it is smaller; with weights Bernstein's, for the larger of the variance under
    calibration and the observed variance, as weights may depend on the outcome. It is valid even for 30 rows with rare
    outcomes, and Holm's adjustment is valid however segments overlap. The alternative, the maximum over outcomes
    resampled from the scores, would need random numbers, further passes, and thousands of draws for small levels. The
    price is power: a bound is up to about ten times the exact p-value, as half a standard error is at 10**-5, and
    overlaps of segments are not exploited. The e-value is the mean over fixed tilts t of the product of e**(t o) / (1 +
    (e**t - 1) s); e-BH [2]_ is valid under any dependence.

    *ECCE* [3]_ is computed at the ends of cells: it is exact if each cell holds one distinct score (as with as many
    cells as rows), and otherwise too small by at most twice the largest share of a segment's outcomes, or of its
    scores, that a single cell holds. ``sigma`` = sqrt(sum w**2 s (1 - s)) / sum w is exact.

    *Description.* Candidates are significant segments whose gap differs significantly from the rest of each segment
    that contains them, and that remain miscalibrated without those of their parts that are candidates; if there is
    none, the segment with the strongest evidence is the candidate. Of several candidates, the description takes the one
    with the strongest evidence, then repeatedly the one with the most significant partial effect until none is
    significant, and finally drops those that are no longer significant. A partial effect is the coefficient of a
    segment in the least squares of o - s on its indicator and, for each of the others, on its indicator and its
    indicator times s (1 - s), which represent constant shifts of their scores and small shifts of their log-odds; its
    variance is a sandwich estimate, the larger of the one under the null and the one from the residuals, with scores at
    the mean of their cell. An effect is significant if its two-sided p-value is at most alpha divided by the number of
    features of all segments. The 256 candidates with the strongest evidence are tried. A summary does not record the
    overlap of segments that together have more features than its ``depth``: such pairs, ``overlaps_unknown``, cannot be
    separated.

    *Not excluded.* Ends of Clopper and Pearson for the frequency at 1 - alpha / segments, less the mean score: they are
    valid for independent outcomes of any probabilities; with weights they are approximate, for the effective number of
    rows.

    *Clusters.* With ``groups`` a row has the weight 1 / m, where m is the number of rows of its cluster, and all
    numbers but ``rows`` and ``events`` are weighted: each cluster counts once. ``cluster_weight`` is the sum of the
    weights of a segment, the attribute ``clusters`` the number of all. As the weights of a cluster add up to at most 1,
    ``log_e`` and Chernoff's bound (here the only p-value) are valid for any number of clusters and any dependence
    within them (Hoelder), if outcomes have the probabilities of their scores, given the scores, features and sizes of
    their clusters. ``gap_low``, ``gap_high`` (pointwise) and ``not_excluded`` (simultaneous) are Chernoff's for the
    weighted frequency, less the mean score: valid for outcomes of any probabilities, and so wide that they may include
    0 for a segment that is ``found``. Variances are the largest that dependence can make them: ``sigma`` (scores at the
    mean of their cell) and ``ece_chance`` are upper bounds, and ``described`` uses upper bounds of standard errors. Of
    over 4 million clusters some count together, which only lowers weights.

    References
    ----------
    .. [1] Hoeffding, On the distribution of the number of successes in independent trials, 1956.
    .. [2] Wang & Ramdas, False discovery rate control with e-values, 2022.
    .. [3] Arrieta-Ibarra, Gujral, Tannen, Tygert & Xu, Metrics of calibration for probabilistic predictions, 2022.

    Examples
    --------
    >>> import numpy as np, calibdask as cd
    >>> rng = np.random.default_rng(0)
    >>> age, phone, scores = rng.integers(18, 90, 40_000), rng.random(40_000) < 0.3, rng.random(40_000)
    >>> truth = np.where((age > 75) & phone, scores**2, scores)
    >>> found = cd.audit(rng.random(40_000) < truth, scores, {"age": age, "phone": phone})
    >>> found.segment[found.described].item()
    'age > 75, phone = True'
    """
    options = InputOptions(
        *(task, logits, labels, pos_label, ignore_label, sample_dim, class_dim, sum_tolerance, label, score),
        skip_missing,
        groups=groups,
    )
    analysis = Audit(depth, min_rows, alpha, values, setting, edges=edges, score_cells=score_cells)
    if y_prob is None and (summary := summary_of(y_true)) is not None:
        refused = {"features": features, "label": label, "score": score, "sample_weight": sample_weight}
        refused |= {"groups": groups}
        refused |= {"task": task, "labels": labels, "skip_missing": skip_missing or None, "logits": logits or None}
        refuse_rows_options(refused)
        return analysis.run(Data(summary=summary))
    return analysis.run(data_with_features(y_true, y_prob, features, sample_weight, options))


@dataclass(frozen=True)
class Audit(Analysis):
    """Find significantly miscalibrated subgroups.

    All subgroups by up to --depth columns are tested together: a calibrated model has a false finding with probability
    at most --alpha. Numbers are cut at quantiles; dates by year, month, weekday and hour; rare categories are pooled;
    missing is a category. DATA may be a summary made by summarize --features.

    Parameters
    ----------
    depth : int, optional
        Maximum number of columns per subgroup (default 2, or that of the summary).
    min_rows : int
        Minimum rows of a subgroup.
    alpha : float
        False-alarm rate for all subgroups together.
    values : int, optional
        Maximum number of values per column (default 5 bins of a number, 50 categories, fewer with many columns).
    setting : str or int, optional
        Scores and outcomes to audit.
    one_way : bool
        Show a table of each column.
    edges : mapping, optional
        Bin edges by column.
    score_cells : int, optional
        Number of score cells.
    """

    depth: int | None = None
    min_rows: int = 100
    alpha: float = 0.05
    values: int | None = None
    setting: Literal["binary", "confidence"] | str | int | None = None
    one_way: bool = False
    edges: Mapping[str, Sequence[float]] | None = field(default=None, hash=False, metadata={"shell": False})
    score_cells: int | None = field(default=None, metadata={"shell": False})

    name: ClassVar[str] = "audit"
    heading: ClassVar[Heading] = "Find and watch"
    json_head: ClassVar[Sequence[str]] = (
        *("rows", "groups", "clusters", "passes", "calibdask_version", "setting", "depth", "min_rows", "alpha"),
        *("segments", "conclusion"),
    )
    json_shape: ClassVar[str] = _JSON
    slices: ClassVar[bool] = False
    weights: ClassVar[bool] = True
    clusters: ClassVar[bool] = True
    takes_features: ClassVar[bool] = True
    statuses: ClassVar[Mapping[Outcome, str]] = {
        "met": "nothing is found",
        "found": "a subgroup is found",
        "undecided": "no subgroup has --min-rows rows, undecided",
    }
    examples: ClassVar[Sequence[tuple[str, str]]] = (
        ("calibdask audit rows.parquet --features age,country,phone", "subgroups that are miscalibrated"),
        ("calibdask audit rows.parquet --features all --depth 3", "subgroups of up to three columns"),
        ("calibdask audit rows.parquet --features all --report audit.html", "also a report to read and print"),
        ("calibdask audit rows.parquet --features all --one-way", "also a table of each column"),
        ("calibdask audit visits.parquet --features all --groups patient", "dependent rows of each patient"),
        ("calibdask audit summary.zarr --min-rows 1000", "a summary made with --features"),
        ("calibdask calibrate rows.parquet --features all --out map.json", "then: a map that corrects what was found"),
    )

    def compute(self, data: Data) -> xr.Dataset:
        """The numbers of all subgroups, as `calibdask.audit` returns them."""
        check_level(self.alpha, "alpha")
        if data.summary is not None:
            refused = {"setting": self.setting, "edges": self.edges, "score_cells": self.score_cells}
            refuse_rows_options({**refused, "values": self.values})
            check_cutting(1 if self.depth is None else self.depth, self.min_rows, None, None)
            return _of_summary(data.summary, self.depth, self.min_rows, self.alpha)
        depth = 2 if self.depth is None else self.depth
        check_cutting(depth, self.min_rows, self.values, self.score_cells)
        return self._of_rows(data.read(takes_groups=True), depth)

    def _of_rows(self, data: Input, depth: int) -> xr.Dataset:
        check_exponents(self.name, data.source.layout)
        values = Values.of(self.values, self.min_rows, self.edges)
        cuts, notes, sizes = learnt_cuts(data, one_setting(data, self.setting), depth, values, self.score_cells)
        passes_cut = data.source.passes
        clusters, remark = dict[str, Any](), ""
        if sizes is not None:
            data = with_exponents(data, exponents := ClusterExponents.of(sizes))
            clusters = {"clusters": exponents.clusters}
            remark = cluster_remark(exponents.clusters, data.options.groups_name, pooled=exponents.level > 0)
        weighted, workers = data.source.layout.weighted, data.source.workers
        plan = LatticePlan(cuts.setting, cuts.edges, cuts.features, depth, weighted, workers=workers)
        kept, sums, counts, labels = fill_lattice(plan, data, self.min_rows)
        passes_filled = data.source.passes
        warn_of_leakage(plan, counts, 3, labels)
        table = AuditTable.of(plan, plan.segments, kept, sums, self.alpha)
        table = table.with_partial_effects(RowOverlaps(plan, data), kept, sums)
        passes = data.source.passes
        why = why_passes(passes_cut, passes_filled - passes_cut, passes - passes_filled)
        attributes = data.attributes | why
        return table.dataset(
            min_rows=self.min_rows,
            rows=int(data.source.rows or 0),
            passes=passes,
            depth=depth,
            score_cells=cuts.edges.bins,
            clusters=remark,
        ).assign_attrs(values=cuts.values, notes=json.dumps(notes), **attributes, **clusters)

    def document(self, result: xr.Dataset) -> Document:
        """The conclusion, subgroups, errors that cannot be ruled out, and each column by itself."""
        return audit_document(result, one_way_only=self.one_way)

    def records(self, result: xr.Dataset) -> dict[str, Any]:
        """A record for each subgroup that was found."""
        found = result.isel(segment=result.found.values)
        records = [_record(found.isel(segment=i)) for i in range(found.sizes["segment"])]
        return {"not_excluded": json.loads(result.attrs["not_excluded"]), "found": records}

    def outcome(self, result: xr.Dataset) -> Outcome:
        """Found if a subgroup is; undecided if none has enough rows."""
        if bool(result.found.any()):
            return "found"
        return "met" if result.sizes["segment"] else "undecided"


def _record(segment: xr.Dataset) -> dict[str, Any]:
    names = [name for name in str(segment.features.values).split(", ") if name]
    numbers = {name: plain(segment[name].values) for name in _RECORDED if name in segment}
    return {
        "segment": str(segment.segment.values),
        "features": names,
        "described": bool(segment.described),
        **numbers,
    }


def _of_summary(summary: Summary, depth: int | None, min_rows: int, alpha: float) -> xr.Dataset:
    """The audit of the rows that were summarized, of all slices together."""
    cuts, state = summary_lattice(summary, depth)
    plan = LatticePlan(cuts.setting, cuts.edges, cuts.features, cuts.depth, weighted=False)
    kept = plan.kept(plan.segments, state.rows.sum(-1), 0, min_rows)
    cells = cells_of(state, kept)
    warn_of_leakage(plan, FeatureCounts.of(plan.segments, state), 3)
    table = AuditTable.of(plan, plan.segments, kept, cells, alpha)
    table = table.with_partial_effects(LatticeOverlaps(plan, state), kept, cells)
    return table.dataset(
        min_rows=min_rows,
        rows=summary.rows,
        passes=0,
        depth=cuts.depth,
        score_cells=cuts.edges.bins,
    ).assign_attrs(values=cuts.values, notes=summary.dataset.attrs.get(NOTES, "[]"), **summary.notes.attributes)
