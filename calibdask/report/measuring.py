"""Measurements for a report: everything about one model, in few passes over its rows or from its summary."""

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import xarray as xr

from calibdask.analyses.analysis import population_sentences
from calibdask.analyses.calibrator_comparison import CompareCalibrators
from calibdask.analyses.clustered import supported_panel
from calibdask.analyses.evaluation import evaluate, usual_metrics
from calibdask.analyses.gating.check import Check, LimitSource
from calibdask.analyses.gating.gate import Gate
from calibdask.analyses.gating.profiles import profile_of
from calibdask.analyses.receipts.document import Document
from calibdask.analyses.receipts.receipt import receipt_and_gate
from calibdask.data.data import Data
from calibdask.data.options import InputOptions, PopulationKeywords
from calibdask.errors import SuspectScoresWarning
from calibdask.estimators.binned.diagram import ReliabilityDiagram
from calibdask.estimators.binned.ece import ECE
from calibdask.estimators.estimator import Estimator
from calibdask.estimators.interval import FromRows
from calibdask.estimators.panel import default_metrics
from calibdask.estimators.scores.mean_gap import MeanGap
from calibdask.estimators.scores.saturation import Saturation
from calibdask.estimators.smooth.adaptive import AdaptiveCurve, AdaptiveDiagram
from calibdask.estimators.smooth.curves import ReliabilityCurve
from calibdask.estimators.smooth.density import DensityECE
from calibdask.estimators.smooth.gridded import on_grid
from calibdask.estimators.smooth.smooth_ece import SmoothECE
from calibdask.estimators.without_interval import WithoutInterval, bare
from calibdask.report.caught_warnings import noting, quiet, sentences
from calibdask.report.headline import headline_metric, measures_binned_gap
from calibdask.report.over_time import ModelOverTime, Watching, due_rows, due_summary, rows_over_time, summary_over_time
from calibdask.report.shown import SideMetrics, evaluate_both
from calibdask.results.build import excluded_rows
from calibdask.safe_text import listed, visible
from calibdask.statistics.layout import Layout
from calibdask.statistics.settings import Setting
from calibdask.storage.summary import Summary

# What is drawn and described in addition to the metrics, by the names of its metrics.
DIAGRAM, CURVE, GAP, SPREAD = "report_diagram", "report_curve", "report_gap", "report_scores"
CLASSES = "report_classes"
MARKS, SMOOTH = "report_marks", "report_smooth"
# Rows, times classes and replicates, up to which rows are resampled: some ten seconds for each metric.
MOST_RESAMPLED = 5e8
_CLOSE = 1e-9

_Metrics = Mapping[str, Estimator]
_Evaluate = Callable[..., xr.Dataset]


@dataclass(frozen=True, eq=False)
class Measured:
    """The results of one model.

    Attributes
    ----------
    result : xarray.Dataset
        The result of `calibdask.evaluate` for all rows.
    slices : mapping from name to xarray.Dataset
        The same for each column of slices.
    classes : int or None
        Number of classes, if known.
    setting : Setting or None
        Which scores the plots show; None: unknown.
    source : str
        Description of the data: the name of a file.
    weights : str
        Origin of the weights; empty without weights.
    bare : tuple of str
        Metrics without an interval because there are too many rows to resample.
    notes : tuple of str
        Warnings of the library.
    suspects : tuple of str
        Sentences on scores that seem to belong to other classes than the labels.
    shown : xarray.Dataset or None
        The result of `calibdask.evaluate` for further metrics, for all combinations of slices, if any.
    recalibration : xarray.Dataset or str
        The result of `calibdask.compare_calibrators`, or why there is none.
    over_time : ModelOverTime or None
        Calibration over time, if requested.
    audited : xarray.Dataset or None
        The result of `calibdask.audit` for the same rows, if requested.
    gate : Gate or None
        The result of `calibdask.check` for the same rows: the page begins with it.
    pictures : xarray.Dataset or None
        The result of `calibdask.evaluate` for the curves of the profile, if any.
    fingerprint : str
        Fingerprint of the rows, see `calibdask.fingerprint`; empty if unknown.
    receipt : dict or None
        The receipt, if requested.
    size : str
        The size of the data, in words.
    """

    result: xr.Dataset
    slices: Mapping[str, xr.Dataset] = field(default_factory=dict)
    classes: int | None = None
    setting: Setting | None = None
    source: str = ""
    weights: str = ""
    bare: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    suspects: tuple[str, ...] = ()
    shown: xr.Dataset | None = None
    recalibration: xr.Dataset | str = ""
    over_time: ModelOverTime | None = None
    audited: xr.Dataset | None = None
    gate: Gate | None = None
    pictures: xr.Dataset | None = None
    fingerprint: str = ""
    receipt: Document | None = None
    size: str = ""

    @property
    def excluded(self) -> dict[str, int]:
        """Counts of rows that were left out, also of pending periods."""
        return excluded_rows({**self.result.attrs, **(self.over_time.excluded if self.over_time else {})})


def measure(
    y_true: Any,
    y_prob: Any = None,
    metrics: Mapping[str, Estimator] | None = None,
    *,
    by: Any = None,
    sample_weight: Any = None,
    setting: str | int | None = None,
    k: int | None = None,
    ci: float = 0.95,
    n_boot: int = 200,
    seed: int = 0,
    ci_method: Any = None,
    source: str = "",
    shown: SideMetrics | None = None,
    reading: PopulationKeywords | None = None,
    watching: Watching | None = None,
    limits: LimitSource = None,
    slice_limits: LimitSource = None,
    check: Check | None = None,
    with_receipt: bool = False,
) -> Measured:
    """Compute the results for a report on one model.

    Parameters
    ----------
    y_true, y_prob, metrics, sample_weight, ci, n_boot, seed, ci_method
        As for `calibdask.evaluate`. Or a summary that `calibdask.summarize` made, without ``y_prob``.
    by : array of shape (n,), or mapping from name to array, optional
        Slices. Each name is evaluated separately, in a separate pass; combinations are not evaluated. For a summary:
        names of its slices; None: all of them.
    setting, k
        Setting of the plots, as for `calibdask.ReliabilityDiagram`.
    source : str
        Description of the data.
    shown : Shown, optional
        Further metrics, evaluated for all combinations of slices.
    reading : mapping, optional
        Arguments of `calibdask.evaluate` that say how arrays are read, such as ``logits`` and ``pos_label``.
    watching : Watching, optional
        The slice that contains the periods: the others are monitored over time, each name separately, without weights.
        For rows this takes one more pass for each of them.
    limits, slice_limits : as for `calibdask.check`, optional
        Limits for all rows and for each slice: the report begins with the decisions, as by `calibdask.check` at
        the level ``ci``. For rows this takes further passes, one for all rows and one for each name of slices.
    check : Check, optional
        The limits with a level and the profile of a profession, instead of ``limits``.
    with_receipt : bool, default False
        Whether to make a receipt of the rows and of these decisions.

    Raises
    ------
    ValueError
        As `calibdask.evaluate`; as `calibdask.check`, if there are limits; as `calibdask.watch`, if calibration is
        monitored over time.

    Notes
    -----
    Metrics that cannot be computed from a histogram of the scores have intervals only if rows times classes times
    replicates are at most 5e8: beyond that, resampling rows would take minutes, and the intervals would be narrow.

    Examples
    --------
    >>> import numpy as np
    >>> from calibdask.report import measure
    >>> rng = np.random.default_rng(0)
    >>> scores = rng.random(1000)
    >>> measured = measure(rng.random(1000) < scores, scores, by={"half": np.arange(1000) // 500})
    >>> list(measured.slices), "ece_low" in measured.result
    (['half'], True)
    """
    options = {"ci": ci, "n_boot": n_boot, "seed": seed, "ci_method": ci_method}
    request = _Request(metrics, setting, k, options, shown)
    data = Data.of(y_true, y_prob, by, sample_weight, InputOptions(**(reading or {})))
    summary = data.summary
    if summary is not None:
        names = summary.slices if by is None else [by] if isinstance(by, str) else [*map(str, by)]
        slices = [name for name in names if watching is None or name not in watching.names]
        settled = due_summary(summary, watching)
        measured = request.of_summary(settled, by if watching is None else slices)
        judged = data.sliced(slices) if settled is summary else Data.of(settled, by=slices)
        if watching is not None:
            over_time = summary_over_time(summary, slices, watching, watching.monitored(measured.setting))
            measured = replace(measured, over_time=over_time)
    else:
        due = due_rows(data, watching)
        judged = due.sliced([name for name in data.slice_names if watching is None or str(name) not in watching.names])
        measured = request.of_rows(judged)
        if watching is not None:
            if data.weights is not None:
                raise ValueError("Watching expects rows without weights: bets need the weight of each row.")
            over_time = rows_over_time(data, watching, watching.monitored(measured.setting))
            measured = replace(measured, over_time=replace(over_time, uses_pending=due is data))
    if limits or slice_limits:
        given: dict[str, Any] = {"limits": limits, "slice_limits": slice_limits}
        check = Check(**given, confidence=ci, n_boot=n_boot, seed=seed)
    if check is not None:
        measured = _decided(measured, judged, check, with_receipt=with_receipt)
    notes = (*measured.notes, *(sentence.words for sentence in population_sentences(measured.result)))
    weights = "given" if data.weights is not None and not measured.weights else measured.weights
    return replace(measured, source=source, weights=weights, notes=notes)


def _decided(measured: Measured, judged: Data, check: Check, *, with_receipt: bool) -> Measured:
    """The model with its decisions, the curves of the profile, and a receipt."""
    receipt = None
    if with_receipt:
        receipt, gate = receipt_and_gate(judged, check)
    else:
        gate = check.gate(judged) if check.decides else None
    profile, whole = profile_of(check.profile or ""), judged.sliced(())
    # Most profiles draw nothing, for which the data are not opened again.
    drawn = profile.drawn(whole.read(takes_groups=True).source.layout) if profile.pictures else {}
    # A summary counts the rows above a threshold only at the borders of its cells.
    cells = 0.0 if judged.summary is None else 0.01 / judged.summary.step
    pictures = None
    if drawn and abs(cells - round(cells)) < _CLOSE:
        pictures = evaluate(whole, metrics=drawn, ci=check.level)
    # One number has one interval on a page: that of the replicates that decide.
    result = measured.result if gate is None else gate.with_intervals(measured.result)
    return replace(measured, result=result, gate=gate, pictures=pictures, receipt=receipt)


@dataclass(frozen=True)
class _Request:
    """Request for the measurement of one model."""

    metrics: Mapping[str, Estimator] | None
    setting: str | int | None
    k: int | None
    options: Mapping[str, Any]
    shown: SideMetrics | None

    def of_rows(self, data: Data) -> Measured:
        """One pass for all rows, up to three with bins of equal mass, and one for each name of slices."""
        read = data.sliced(()).read(takes_groups=True).source.layout
        layout = Layout(classes=read.classes, vector=read.vector)
        meant = layout.setting(self.setting, self.k)
        chosen = default_metrics(read.classes, read.vector, full=True) if self.metrics is None else self.metrics
        chosen = supported_panel(chosen, read)
        # Intervals that are shown are there for the report too.
        is_shown = self.shown is not None and bool(self.shown.options) and not data.slice_names
        size = math.nan if read.most_rows is None else read.most_rows * read.classes
        bare = () if is_shown else self._bare(chosen, layout, size)
        plain = {name: WithoutInterval(metric) if name in bare else metric for name, metric in chosen.items()}
        by_name = {str(name): name for name in data.slice_names}
        names = tuple(by_name)
        whole = {**plain, **self._pictures(layout, meant)}
        asked = _by_slices(whole, self._of_slices(plain, layout), names)
        measured = self._measured(
            lambda kept: partial(evaluate, data.sliced(map(by_name.__getitem__, kept))), asked, names
        )
        measured = replace(measured, classes=read.classes, setting=meant, bare=bare)
        if extra := [str(dim) for dim in measured.result[GAP].dims if dim != "class"]:
            raise ValueError(f"measure takes the scores of one model, got some along {listed(extra)}; select one.")
        return replace(measured, recalibration=_recalibrated(data.sliced(())))

    def of_summary(self, summary: Summary, by: Any) -> Measured:
        """From histograms, added up."""
        if summary.batch:
            raise ValueError(
                f"A report of a summary with {listed(summary.batch)} expects one place, such as "
                f"isel({visible(summary.batch[0])}=0)."
            )
        given = () if by is None else tuple(dict.fromkeys([by] if isinstance(by, str) else map(str, by)))
        layout = summary.source.layout
        meant = layout.setting(self.setting, self.k)
        if self.setting is None and not summary.has_histogram(meant):
            meant = layout.setting("classwise")
        chosen = usual_metrics(summary.source, full=True) if self.metrics is None else self.metrics
        chosen = supported_panel(chosen, layout)
        has_pictures, classwise = summary.has_histogram(meant), summary.has_histogram(Setting("classwise"))
        drawn = self._pictures(layout, meant, classwise=classwise) if has_pictures else {}
        own = self if meant == layout.setting(self.setting, self.k) else replace(self, setting="classwise")
        names = summary.slices if by is None else given
        sliced = on_grid(own._of_slices(chosen, layout), summary.step)
        whole = on_grid({**chosen, **drawn}, summary.step)
        asked = _by_slices(whole, sliced, names if has_pictures else ())
        measured = self._measured(lambda kept: partial(evaluate, summary.pooled(kept)), asked, given)
        weights = "in the summary" if layout.weighted else ""
        unknown = "it takes rows, which are divided into folds; a summary has none."
        return replace(measured, classes=layout.classes, setting=meant, weights=weights, recalibration=unknown)

    def _measured(
        self,
        at: Callable[[tuple[str, ...]], _Evaluate],
        asked: Mapping[tuple[str, ...], _Metrics],
        shown_by: tuple[str, ...],
    ) -> Measured:
        """Results of the metrics by slices, with the shown metrics in shared passes."""
        results: dict[tuple[str, ...], xr.Dataset] = {}
        shown = None
        noted: list[warnings.WarningMessage] = []
        # Slices first: too many are refused before all rows are measured.
        for names, metrics in sorted(asked.items(), key=lambda item: not item[0]):
            if self.shown is not None and names == shown_by:
                # Where slices are shown, their warnings are too, as by `calibdask.evaluate`.
                with nullcontext() if names else noting(noted):
                    results[names], shown = evaluate_both(at(names), metrics, self.options, self.shown)
            else:
                with quiet() if names else noting(noted):
                    results[names] = at(names)(metrics=metrics, **self.options)
        if self.shown is not None and shown is None:
            shown = at(shown_by)(metrics=self.shown.metrics, **self.shown.options)
        slices = {name: result for names, result in results.items() for name in names}
        notes, suspects = (sentences(noted, category) for category in (UserWarning, SuspectScoresWarning))
        return Measured(results[()], slices, notes=notes, suspects=suspects, shown=shown)

    def _pictures(self, layout: Layout, setting: Setting, *, classwise: bool = True) -> dict[str, Estimator]:
        """Diagrams and curves to add to the metrics."""
        given: Any = {"setting": setting}
        pictures: dict[str, Estimator] = {
            DIAGRAM: ReliabilityDiagram(**given),
            CURVE: ReliabilityCurve(**given),
            MARKS: AdaptiveDiagram(**given),
            SMOOTH: AdaptiveCurve(**given),
            GAP: MeanGap(**given),
            SPREAD: Saturation(**given),
        }
        if not layout.vector and classwise:
            pictures[CLASSES] = WithoutInterval(ReliabilityDiagram(setting="classwise"))
        return pictures

    def _of_slices(self, chosen: Mapping[str, Estimator], layout: Layout) -> dict[str, Estimator]:
        """Metrics for slices, with bins and bandwidths chosen from all rows.

        The error that the report is about is measured as for all rows, but for the smooth ECE, in whose place there is
        one with bins; what is added to it needs histograms only, which makes it cheap.
        """
        given: Any = {"setting": self.setting, "k": self.k if isinstance(self.setting, str) else None}
        own = headline_metric(chosen, layout)
        # Each replicate of a smooth ECE searches for its bandwidth: seconds for each slice. Bins in its place are fast.
        for smooth in [metric for metric in map(bare, own.values()) if isinstance(metric, SmoothECE)]:
            own, given = {}, {"setting": smooth.setting, "k": smooth.k}
        usual: dict[str, Estimator] = {GAP: MeanGap(**given), DIAGRAM: AdaptiveDiagram(**given)}
        if not any(measures_binned_gap(metric, layout) for metric in own.values()):
            usual["ece"] = ECE(**given)
        density = next((name for name, metric in chosen.items() if type(metric) is DensityECE), None)
        if density is None:
            usual["density_ece"] = DensityECE(**given)
        else:
            own[density] = chosen[density]
        return {**own, **{name: metric for name, metric in usual.items() if name not in own}}

    def _bare(self, chosen: Mapping[str, Estimator], layout: Layout, size: Any) -> tuple[str, ...]:
        """The metrics without intervals: rows would be resampled, and cannot be or are too many."""

        def resampled(metric: Estimator) -> bool:
            if not isinstance(metric.interval(layout), FromRows):
                return True
            # Pairs of rows are many sooner. The size of data whose rows nobody has counted yet is NaN.
            work = size**2 if metric.compares_pairs else size
            return bool(metric.supports_weights and work * self.options["n_boot"] <= MOST_RESAMPLED)

        return tuple(name for name, metric in chosen.items() if not resampled(metric))


def _recalibrated(data: Data) -> xr.Dataset | str:
    """Comparison of calibrators, whose folds keep clusters together, or the reason why there is none."""
    with quiet():
        try:
            return CompareCalibrators().run(data)
        except ValueError as reason:
            return str(reason)


def _by_slices(whole: _Metrics, sliced: _Metrics, names: Sequence[str]) -> dict[tuple[str, ...], _Metrics]:
    """The metrics of all rows, and those by each name of slices."""
    return {(): whole, **{(name,): sliced for name in names}}
