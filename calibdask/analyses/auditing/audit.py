"""`audit`: for whom scores are wrong, over all segments of many columns."""

import json
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from calibdask.analyses.auditing.audit_document import OF_SEGMENTS
from calibdask.analyses.auditing.conclusions import conclusion, not_excluded, remarks, why_passes
from calibdask.analyses.auditing.cutting import learnt_cuts
from calibdask.analyses.auditing.describing import Describing, SegmentGapSums
from calibdask.analyses.auditing.evidence import SegmentCells, simultaneous_ends
from calibdask.analyses.auditing.features import Values, check_values, is_whole
from calibdask.analyses.auditing.label_leakage import FeatureCounts, LabelCounts, LabelCountsState, warn_of_leakage
from calibdask.analyses.auditing.measures import cells_of, measured, residual_square
from calibdask.analyses.auditing.overlaps import LatticeOverlaps, Overlaps, RowOverlaps
from calibdask.analyses.auditing.partial_effects import PartialEffects
from calibdask.analyses.auditing.planning import LatticePlan
from calibdask.analyses.auditing.summarized import NOTES, refuse_rows_options, summary_lattice, summary_of
from calibdask.data.input import Input
from calibdask.data.named_features import data_with_features
from calibdask.data.options import InputOptions, Task
from calibdask.engine.plan import run_requests
from calibdask.inference.choice import check_level
from calibdask.inference.multiplicity import e_benjamini_hochberg, holm
from calibdask.results.build import described as described_dataset
from calibdask.statistics.lattice.lattice_sums import LatticeState, LatticeSums
from calibdask.statistics.lattice.overlap_sums import shifts
from calibdask.statistics.lattice.segments import Segments
from calibdask.statistics.settings import Setting
from calibdask.storage.summary import Summary

# What a summary says about rows that were left out.
# More rows, or columns, than any data have.
_MOST_WHOLE = 10**12
_OF_ROWS = ("rows_ignored", "rows_skipped")
# Segments that are told apart by the rows that each two share.
_MOST_TRIED = 256


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
    r"""Find for whom scores are wrong: all segments of up to ``depth`` features, tested together.

    A segment is a conjunction such as ``age > 60, country = FR``. Of calibrated models at most a share of ``alpha`` has
    any segment found, however many are looked at.

    Parameters
    ----------
    y_true, y_prob : array of shape (n,); y_prob (n,) or (n, K)
        As in `calibdask.evaluate`; or, without ``y_prob``, a data frame, or the path of a file. Or a summary that
        `calibdask.summarize` made with features, or its path, which takes ``depth``, ``min_rows`` and ``alpha`` alone:
        slices of it are added up, and numbers are those of its rows, to the last bit; ``described`` can be longer.
    features : data frame, mapping from name to array, or names of columns
        Numbers are cut at quantiles; dates by year, month, weekday (1 is Monday) and hour; rare categories are one
        value, ``other``; missing is a value of its own, of a date one for all its parts. None: all further columns of
        the frame or the file.
    depth : int, optional
        Largest number of features of a segment. None: 2, of a summary its own.
    min_rows : int, default 100
        Smaller segments are not looked at, and categories of fewer rows are rare.
    alpha : float, default 0.05
        Level of all tests together; intervals have the level 1 - alpha, each for itself.
    label, score : name or names of columns, optional
        In a frame or a file, as in `calibdask.evaluate`.
    sample_weight : array of shape (n,) or name of a column, optional
        Non-negative weights.
    skip_missing : bool, default False
        Leave out rows without a label, a score or a weight.
    setting : str or int, optional
        ``"binary"``, ``"confidence"``, or the number of a class. None: binary for a vector, confidence for a matrix.
    values : int, optional
        Bins of a number, and most values of a category with ``other``; missing comes on top. None: 5 bins; of a
        category 50 values, fewer, but no fewer than 5, where there would be over 100,000 segments.
    edges : mapping from name to sequence of float, optional
        Edges of numbers in place of quantiles; an edge belongs to the bin below it.
    score_cells : int, optional
        Cells of scores with equally many rows, from which calibration errors are computed. None: 64, for segments of
        three features or more 16.
    task, logits, labels, pos_label, ignore_label, sample_dim, class_dim, sum_tolerance
        As in `calibdask.evaluate`.

    Returns
    -------
    xarray.Dataset
        One row a segment of at least ``min_rows`` rows, those with the strongest evidence first; the coordinate
        ``segment`` is its text, ``features`` and ``depth`` say what it is made of; ``number`` counts them feature by
        feature, value by value. The rows of depth 1 of a feature
        are its one-way table, with its missing and other values. Coordinates ``rows``, ``events``, ``mean_score``,
        ``frequency``.

        ``gap``, frequency less mean score, with ``gap_low``, ``gap_high``; ``ece`` over cells of scores, and
        ``ece_chance``, what is expected of a calibrated model; ``ecce``, the range of the cumulative differences, and
        its scale ``sigma``; ``slope`` of the log-odds, NaN where it cannot be told.

        ``pvalue`` of the segment alone; ``pvalue_adjusted`` for all segments (Holm), and ``found`` where that is at
        most ``alpha``; ``log_e``, the logarithm of an e-value, and ``discovery``, e-BH, among which the expected share
        of false ones is at most ``alpha``: more segments than ``found`` only where most of them are far off.
        ``described``: the smallest set of found segments that says what is wrong.

        Attributes: ``conclusion``, a sentence; ``not_excluded``, JSON of the largest absolute gap that is not excluded
        at 1 - alpha for all segments of at least so many rows together; ``segments``, how many were looked at;
        ``mce_sigma``, the largest ratio of ``ecce`` and ``sigma``; ``notes``, JSON of what is said of features;
        ``candidates`` for the description, ``candidates_untried`` and ``overlaps_unknown``, see below; ``passes``, and
        ``passes_why`` where these are more than three.

    Raises
    ------
    ValueError
        If features do not exist, or all are constant; if edges are not increasing finite numbers of such features; if
        the setting has several columns; if the lattice would be too large, with what fits; and as in
        `calibdask.evaluate`.

    Warns
    -----
    UserWarning
        Of features that are left out (constant, all missing, different in every row, over 10**6 texts), that mix
        types, or that determine the outcome.

    Notes
    -----
    Passes over the data: two learn how features and scores are cut, the second of which makes quantiles exact, and one
    fills the lattice. Further ones, which the attribute ``passes_why`` tells: one where several segments are candidates
    for the description, which tells them apart; one for each part of a lattice that does not fit into memory at once;
    and up to two where, at a quantile, a thousandth of the rows have numbers that differ by less than a millionth. A
    number is cut at values of the ranks i n / bins; of closer ones with fewer rows the largest is the edge. A number
    with no more different whole numbers than bins has them for its values. Numbers do not depend on chunks or workers,
    with weights within rounding.

    *Memory.* 32 bytes for each segment and cell of scores, with weights 40. A lattice is filled in up to eight parts;
    each thread has one, of at most 256 MB. All together take at most half of the memory of this machine; on a cluster
    of Dask the parts that a worker has at a time take at most half of its own, and the lattice is put together where
    ``audit`` is called. This is planned before a lattice is filled, and what does not fit is refused with the depth,
    the cells and the values that do. ``min_rows`` makes it smaller only where it pools rare categories.

    *Evidence.* Given the scores, the outcomes of a segment are independent Bernoulli variables if the model is
    calibrated. The p-value is twice a bound of the tail of their sum: Chernoff's from the cells of scores, or that of
    the binomial distribution [1]_ where it is smaller; with weights Bernstein's. It holds for 30 rows of rare outcomes,
    and Holm's adjustment for any overlap of segments. The maximum over outcomes resampled from the scores would take
    random numbers, further passes, and thousands of draws for small levels. The price is power: a bound is up to about
    ten times the exact p-value, as half a standard error is at 10**-5, and overlaps of segments are not made use of.
    The e-value is the mean over fixed tilts t
    of the product of e**(t o) / (1 + (e**t - 1) s); e-BH [2]_ allows for any dependence.

    *ECCE* [3]_ is taken at the ends of cells: exact where each cell holds one distinct score, which as many cells as
    rows ensure, else too small, by at most twice the largest share of a segment's outcomes, or of its scores, that a
    single cell holds. ``sigma`` = sqrt(sum w**2 s (1 - s)) / sum w is exact.

    *Description.* Candidates are segments that are found, whose gap differs for certain from the rest of each segment
    that they are part of, and that are off without those of their parts that are candidates; if none is so certain,
    that with the strongest evidence. Of several, that with the strongest evidence is described, then one by one that
    with the most certain partial effect, until none is certain, less those that are no longer so. A partial effect is
    the coefficient of a segment in the least squares of o - s on its indicator and, for each of the others, on its
    indicator and its indicator times s (1 - s), which shifts of their scores are made of, constant or small ones of the
    log-odds; its variance is the sandwich's, the larger one of that under the null and that of the residuals, with
    scores at the mean of their cell. Certain is what has a p-value of at most alpha over the number of features of all
    segments, two-sided. The 256 candidates with the strongest evidence are tried. A summary does not hold what
    segments share whose features are more than its ``depth``: such pairs, ``overlaps_unknown``, are not told apart.

    *Not excluded.* Ends of Clopper and Pearson for the frequency at 1 - alpha / segments, less the mean score: they
    hold for independent outcomes of any probabilities; with weights for as many effective rows, approximately.

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
    if y_prob is None and (summary := summary_of(y_true)) is not None:
        refused = {"features": features, "label": label, "score": score, "sample_weight": sample_weight}
        refused |= {"setting": setting, "edges": edges, "score_cells": score_cells, "task": task, "labels": labels}
        refused["values"] = values
        refuse_rows_options({**refused, "skip_missing": skip_missing or None, "logits": logits or None})
        check_level(alpha, "alpha")
        check_cutting(1 if depth is None else depth, min_rows, values, None)
        return _of_summary(summary, depth, min_rows, alpha)
    depth = 2 if depth is None else depth
    check_level(alpha, "alpha")
    check_cutting(depth, min_rows, values, score_cells)
    options = InputOptions(
        task, logits, labels, pos_label, ignore_label, sample_dim, class_dim, sum_tolerance, label, score, skip_missing
    )
    data = data_with_features(y_true, y_prob, features, sample_weight, options).read()
    cuts, notes = learnt_cuts(data, one_setting(data, setting), depth, Values.of(values, min_rows, edges), score_cells)
    cut = data.source.passes
    source = data.source
    weighted, workers = source.layout.weighted, source.workers
    plan = LatticePlan(cuts.setting, cuts.edges, cuts.features, depth, weighted, workers=workers)
    kept, sums, counts, labels = _filled(plan, data, min_rows)
    filled = data.source.passes
    warn_of_leakage(plan, counts, 2, labels)
    table = _Table.of(plan, plan.segments, kept, sums, alpha)
    table = table.with_partial_effects(RowOverlaps(plan, data), kept, sums)
    attributes = data.attributes | why_passes(cut, filled - cut, data.source.passes - filled)
    return table.dataset(
        min_rows=min_rows,
        rows=int(data.source.rows or 0),
        passes=data.source.passes,
        depth=depth,
        score_cells=cuts.edges.bins,
    ).assign_attrs(values=cuts.values, notes=json.dumps(notes), **attributes)


def _of_summary(summary: Summary, depth: int | None, min_rows: int, alpha: float) -> xr.Dataset:
    """The audit of the rows that were summarized, of all slices together."""
    cuts, state = summary_lattice(summary, depth)
    plan = LatticePlan(cuts.setting, cuts.edges, cuts.features, cuts.depth, weighted=False)
    kept = plan.kept(plan.segments, state.rows.sum(-1), 0, min_rows)
    cells = cells_of(state, kept)
    warn_of_leakage(plan, FeatureCounts.of(plan.segments, state), 3)
    table = _Table.of(plan, plan.segments, kept, cells, alpha)
    table = table.with_partial_effects(LatticeOverlaps(plan, state), kept, cells)
    attributes = {name: value for name, value in summary.dataset.attrs.items() if name in _OF_ROWS}
    return table.dataset(
        min_rows=min_rows,
        rows=summary.rows,
        passes=0,
        depth=cuts.depth,
        score_cells=cuts.edges.bins,
    ).assign_attrs(values=cuts.values, notes=summary.dataset.attrs.get(NOTES, "[]"), **attributes)


def check_cutting(depth: int, min_rows: int, values: int | None, score_cells: int | None) -> None:
    """Raise ValueError for numbers of segments and cells that make no sense."""
    check_values(values)
    for name, value in {"depth": depth, "min_rows": min_rows, "score_cells": score_cells or 1}.items():
        if not is_whole(value) or value < 1:
            raise ValueError(f"{name} expects a whole number from 1 on, got {value!r}.")
        if value > _MOST_WHOLE:
            raise ValueError(f"{name} expects a whole number up to {_MOST_WHOLE:,}, got {value!r}.")


def one_setting(data: Input, setting: str | int | None = None) -> Setting:
    """The setting of an audit, of one column of scores of one model; raises ValueError for others."""
    layout = data.source.layout
    chosen = layout.setting(setting)
    if layout.batch > 1:
        raise ValueError("audit expects the scores of one model, (n,) or (n, K); audit models one by one.")
    if chosen.kind not in ("class", "confidence"):
        raise ValueError(
            f"audit expects a setting with one column of scores: 'binary', 'confidence' or a class, got {setting!r}."
        )
    return chosen


def _filled(
    plan: LatticePlan, data: Input, min_rows: int
) -> tuple[npt.NDArray[np.intp], SegmentCells, FeatureCounts, LabelCountsState | None]:
    """Sums of all segments of enough rows, their numbers, and one-way counts; the lattice is filled part by part."""
    kept, parts, counts = [], [], []
    first = 0
    further, labels = dict[str, Any](), None
    if plan.setting.kind == "class" and data.source.layout.classes > 2:
        # Of two classes one-way counts tell as much.
        further["labels"] = iter(LabelCounts(plan.setting, plan.features))
    for part in plan.parts():
        statistic: LatticeSums = part
        answers: Any = run_requests({"lattice": iter(statistic), **further}, data.source).estimates
        labels, further = answers.get("labels", labels), {}
        state: LatticeState = answers["lattice"]
        here = plan.kept(statistic.segments, state.rows.sum(-1), first, min_rows)
        parts.append(cells_of(state, here))
        counts.append(FeatureCounts.of(statistic.segments, state))
        kept.append(here + first)
        first += statistic.segments.count
    sums: dict[str, Any] = {
        name: np.concatenate([getattr(part, name) for part in parts]) for name in SegmentCells._fields[:7]
    }
    return np.concatenate(kept), parts[0]._replace(**sums), FeatureCounts.joined(counts), labels


@dataclass(frozen=True)
class _Table:
    """Numbers of segments, strongest evidence first."""

    plan: LatticePlan
    segments: Segments
    kept: npt.NDArray[np.intp]
    columns: dict[str, npt.NDArray[Any]]
    ends: tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]
    alpha: float
    limit: float
    choice: Mapping[str, int]

    @classmethod
    def of(
        cls, plan: LatticePlan, segments: Segments, kept: npt.NDArray[np.intp], cells: SegmentCells, alpha: float
    ) -> "_Table":
        """All numbers from the sums of segments."""
        columns: dict[str, npt.NDArray[Any]] = {**measured(cells, alpha)}
        columns["pvalue_adjusted"] = holm(columns["pvalue"])
        found = columns["pvalue_adjusted"] <= alpha
        columns["found"] = found
        columns["discovery"] = e_benjamini_hochberg(columns["log_e"], alpha) if kept.size else found
        total = cells.weight.sum(-1)
        observed = residual_square(cells) * np.divide(cells.weight_square, total, where=total > 0, out=0 * total)
        sums = SegmentGapSums(total, cells.outcome.sum(-1) - cells.score.sum(-1), cells.spread, observed)
        describing = Describing(segments, kept, sums, alpha)
        columns["described"] = describing.describe(found)
        order = np.lexsort((kept, -columns["log_e"], columns["pvalue"]))
        if found.any() and not columns["described"].any():
            # No segment is told apart from what it is part of: the strongest evidence stands for all.
            columns["described"][order[0]] = True
        choice = {"candidates": int(columns["described"].sum()), "candidates_untried": 0, "overlaps_unknown": 0}
        ends = simultaneous_ends(cells, alpha)
        columns = {name: column[order] for name, column in columns.items()}
        return cls(
            plan, segments, kept[order], columns, (ends[0][order], ends[1][order]), alpha, describing.limit, choice
        )

    def with_partial_effects(
        self, sharing: RowOverlaps | LatticeOverlaps, kept: npt.NDArray[np.intp], cells: SegmentCells
    ) -> "_Table":
        """Described are those alone that say more than the others together; ``cells`` are of the segments ``kept``."""
        described = np.flatnonzero(self.columns["described"])
        if described.size < 2:
            return self
        tried = described[:_MOST_TRIED]
        # All rows come first.
        scores, here = cells.mean[0], cells.at(np.searchsorted(kept, self.kept[tried]))
        gaps = here.outcome - here.score
        conditions = [self.segments.describe(int(number)) for number in self.kept[tried]]
        overlaps = Overlaps.of(*sharing.sums(conditions, scores), np.r_[gaps.sum(-1), gaps @ shifts(scores)])
        left = np.zeros(self.kept.size, np.bool_)
        left[tried[PartialEffects(overlaps, self.limit).chosen()]] = True
        choice = {"candidates_untried": described.size - tried.size, "overlaps_unknown": overlaps.unknown}
        return replace(self, columns={**self.columns, "described": left}, choice={**self.choice, **choice})

    def dataset(self, *, min_rows: int, **attributes: Any) -> xr.Dataset:
        """The result."""
        columns = self.columns
        texts = np.array([self.plan.text(self.segments, int(number)) for number in self.kept], object)
        subsets = [self.segments.describe(int(number))[0] for number in self.kept]
        names = np.array([", ".join(self.plan.name(i) for i in subset) for subset in subsets], object)
        excluded = not_excluded(columns["rows"], *self.ends, min_rows)
        sentence = conclusion(texts, columns["gap"], columns["described"], excluded, min_rows, self.alpha)
        sentence += remarks(int(columns["described"].sum()), self.choice)
        numbers = {
            name: column.astype(np.int64) if name in ("rows", "events") else column for name, column in columns.items()
        }
        ratio = np.divide(columns["ecce"], columns["sigma"], out=np.zeros(texts.size), where=columns["sigma"] > 0)
        coordinates: dict[Hashable, Any] = {
            "segment": texts.astype(str),
            "features": ("segment", names.astype(str)),
            "depth": ("segment", np.array([len(subset) for subset in subsets], np.int64)),
            "number": ("segment", np.asarray(self.kept, np.int64)),
        }
        return described_dataset(
            OF_SEGMENTS,
            numbers,
            ("segment",),
            coordinates,
            str(self.plan.setting),
            "class",
            **attributes,
            min_rows=min_rows,
            alpha=self.alpha,
            segments=int(self.kept.size),
            **self.choice,
            mce_sigma=float(ratio.max(initial=0.0)),
            not_excluded=json.dumps(excluded),
            conclusion=sentence,
        )
