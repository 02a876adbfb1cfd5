"""Calibration over time in a report: evidence, gaps and changes, from summaries by period."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import xarray as xr

from calibdask.analyses.monitoring.attribution import attribute
from calibdask.analyses.monitoring.due_dates import are_due, parse_due, parse_now
from calibdask.analyses.monitoring.period_sums import PeriodSums, as_labels
from calibdask.analyses.monitoring.since import gap_since
from calibdask.analyses.monitoring.watch import watch
from calibdask.analyses.summarizing import summarize
from calibdask.data.data import Data
from calibdask.data.frames import is_frame
from calibdask.data.slices import SliceCodes, coded
from calibdask.data.streams import RowStream
from calibdask.engine.arrays import is_dask
from calibdask.inference.choice import check_level
from calibdask.plot.changes import GapChange, change_list
from calibdask.plot.over_time import Pending
from calibdask.results.build import CLUSTER_NOTES, sentences_of
from calibdask.results.format import counted
from calibdask.results.over_time import GapEnds, Mark, OverTime, headline, version_marks
from calibdask.safe_text import listed
from calibdask.statistics.settings import Setting
from calibdask.storage.summary import Summary
from calibdask.storage.summary_clusters import LEAST_BUCKETS
from calibdask.storage.summary_totals import with_totals

# Lines of a picture of changes, without that of all rows.
MOST_CHANGES = 8


@dataclass(frozen=True)
class Watching:
    """How calibration is watched over time.

    Attributes
    ----------
    period : str
        Name of the slices that are periods; these are no slices of the report then.
    tolerance, alpha
        As for `calibdask.watch`.
    version : str, optional
        Name of slices, or of a coordinate of the periods, that hold the version of the model: its changes are marked.
    due, now
        As for `calibdask.watch`: periods that are not due are shown as pending, and never tested.
    """

    period: str
    tolerance: float = 0.0
    alpha: float = 0.05
    version: str | None = None
    due: str | None = None
    now: str | None = None

    def __post_init__(self) -> None:
        check_level(self.alpha, "alpha")
        if not 0 <= self.tolerance < 1:
            raise ValueError(f"tolerance expects a number from 0 to below 1 such as 0.01, got {self.tolerance!r}.")
        if self.due is not None:
            parse_due(self.due)
            parse_now(self.now)
        elif self.now is not None:
            raise ValueError("now has no effect without due.")

    @property
    def names(self) -> tuple[str, ...]:
        """Names of slices that are needed for it."""
        return (self.period,) if self.version is None else (self.period, self.version)

    def monitored(self, setting: Setting | None) -> str | int:
        """Setting to watch: that of the pictures, or the confidence in place of the sum of several scores."""
        if setting is None or setting.kind not in ("class", "classwise"):
            return "confidence"
        return setting.index if setting.kind == "class" else "classwise"


@dataclass(frozen=True, eq=False)
class ModelOverTime:
    """One model over time.

    Attributes
    ----------
    whole : list of OverTime
        All rows; of class-wise scores each class.
    slices : mapping from name to list of OverTime
    leading : OverTime or None
        The process that the page begins with.
    since : Ends or None
        The gap since then, of one that is off.
    changes : mapping from name to list of Change
        By slices, from the periods before to those since; empty where nothing is off.
    marks : list of Mark
    pending : Pending or None
        Periods that are not due, with their rows.
    excluded : mapping from str to int
        Counts of the rows of all periods, also of pending ones, that were left out, where these are known.
    uses_pending : bool
        Whether numbers besides those over time rest on the rows of pending periods too.
    clusters : list of str
        How clusters of dependent rows count over time, in sentences; empty without.
    """

    watching: Watching
    whole: Sequence[OverTime]
    slices: Mapping[str, Sequence[OverTime]]
    leading: OverTime | None
    since: GapEnds | None
    changes: Mapping[str, Sequence[GapChange]]
    marks: Sequence[Mark]
    pending: Pending | None = None
    excluded: Mapping[str, int] = field(default_factory=dict)
    uses_pending: bool = False
    clusters: Sequence[str] = ()

    @property
    def all_slices(self) -> list[OverTime]:
        """The slices by all names."""
        return [one for slices in self.slices.values() for one in slices]

    @property
    def pending_rows(self) -> str:
        """The rows of pending periods, in words; empty without any."""
        if self.pending is None:
            return ""
        period = self.watching.period
        periods = counted(self.pending.periods.size, f"pending {period}", f"pending {period}s")
        return f"{counted(int(self.pending.rows.sum()), 'row')} of {periods}"

    @property
    def unused_rows(self) -> str:
        """The rows of pending periods, in words, where nothing rests on them."""
        return "" if self.uses_pending else self.pending_rows

    @property
    def notes(self) -> Iterator[str]:
        """How clusters count; that numbers and decisions rest on the rows of pending periods too."""
        yield from (f"Calibration over time: {sentence}." for sentence in self.clusters)
        if self.uses_pending and self.pending_rows:
            yield (
                f"Numbers and decisions, apart from calibration over time, include {self.pending_rows}, whose outcomes "
                f"are not all known; summarize by {self.watching.period} to leave them out."
            )


def model_over_time(
    summaries: Mapping[str, xr.Dataset],
    watching: Watching,
    setting: str | int | None = None,
    versions: xr.Dataset | None = None,
) -> ModelOverTime:
    """One model over time, from a summary by period for each name of slices.

    Parameters
    ----------
    summaries : mapping from name to xarray.Dataset
        Of `calibdask.summarize`, by the period and by the slices of this name; "": by the period alone.
    watching : Watching
    setting : str or int, optional
        As for `calibdask.watch`.
    versions : xarray.Dataset, optional
        A summary by period and version.

    Raises
    ------
    ValueError
        As `calibdask.watch`.
    """
    period = watching.period
    excluded = Summary.of(summaries[""]).notes.excluded or {}
    summaries, pending = _admitted(summaries, watching)
    options: dict[str, Any] = {"tolerance": watching.tolerance, "alpha": watching.alpha, "setting": setting}
    watched = {name: watch(summary, period, by=name or None, **options) for name, summary in summaries.items()}
    of_name = {name: OverTime.all_of(result) for name, result in watched.items()}
    clusters = sentences_of(watched[""], CLUSTER_NOTES)
    whole = of_name.pop("")
    slices = [one for processes in of_name.values() for one in processes]
    leading = headline(whole, slices)
    marks = [] if versions is None else version_marks(versions, period, watching.version)
    given = ModelOverTime(watching, whole, of_name, leading, None, {}, marks, pending, excluded, clusters=clusters)
    if leading is None or not leading.is_off:
        return given
    since = _since(summaries, given, leading, setting)
    parts = {name: summary for name, summary in summaries.items() if name or not of_name}
    return replace(given, since=since, changes=_changes(parts, period, leading, setting))


def summary_over_time(
    summary: Summary, names: Sequence[str], watching: Watching, setting: str | int | None = None
) -> ModelOverTime:
    """One model of a summary over time, by each of these names of slices.

    Raises
    ------
    ValueError
        If the summary has no such slices; as `calibdask.watch`.
    """
    if watching.period not in summary.slices:
        raise ValueError(
            f"The period expects one of the slices of the summary, {listed(summary.slices) or 'none'}, got "
            f"{watching.period!r}."
        )
    by_name = {name: summary.pooled([name, watching.period]).dataset for name in names}
    return _model_over_time(by_name, summary, watching, setting, summary.dataset)


def rows_over_time(data: Data, watching: Watching, setting: str | int) -> ModelOverTime:
    """One model of scored rows over time, with a pass for each name of slices.

    Raises
    ------
    ValueError
        If there are no such slices; as `calibdask.watch`.
    """
    columns = {str(name): name for name in data.slice_names}
    if unknown := [name for name in watching.names if name not in columns]:
        raise ValueError(
            f"The period and the version expect names of by, {listed(columns) or 'none'}, got {unknown[0]!r}."
        )

    def summary(*names: str) -> xr.Dataset:
        # Over time clusters count by their weights: as few buckets as there may be.
        rows = data.sliced([columns[name] for name in names])
        period = None if data.options.groups is None else watching.period
        return summarize(rows, settings=[setting], buckets=LEAST_BUCKETS, period=period)

    period, version = watching.period, watching.version
    by_name = {name: summary(name, period) for name in columns if name not in watching.names}
    versions = None if version is None else summary(version, period)
    first = next(iter(by_name.values())) if by_name else summary(period) if versions is None else versions
    return _model_over_time(by_name, Summary.of(first), watching, setting, versions)


def _model_over_time(
    by_name: Mapping[str, xr.Dataset],
    any_of: Summary,
    watching: Watching,
    setting: str | int | None,
    versions: xr.Dataset | None,
) -> ModelOverTime:
    whole = Summary.of(next(iter(by_name.values()))) if by_name else any_of
    return model_over_time({"": whole.pooled([watching.period]).dataset, **by_name}, watching, setting, versions)


def _admitted(
    summaries: Mapping[str, xr.Dataset], watching: Watching
) -> tuple[Mapping[str, xr.Dataset], Pending | None]:
    """The summaries of the periods that are due, and the pending periods."""
    if watching.due is None:
        return summaries, None
    whole, period = summaries[""], watching.period
    labels = as_labels(whole[period].values)
    due = are_due(period, labels, watching.due, watching.now)
    rows = whole["rows"].sum([dim for dim in whole["rows"].dims if dim != period]).values
    admitted = {name: _of_periods(summary, period, labels[due]) for name, summary in summaries.items()}
    return admitted, Pending(labels[~due], rows[~due]) if not due.all() else None


def due_summary(summary: Summary, watching: Watching | None) -> Summary:
    """The summary without the rows of pending periods, whose outcomes are not all known: nothing is decided by these.

    Raises
    ------
    ValueError
        If periods are to be due and their labels are no dates; of clusters that an earlier version summarized.
    """
    if watching is not None and summary.source.layout.clustered and summary.cluster_weighted is None:
        # Before anything is measured.
        PeriodSums.of("Calibration over time", summary, watching.period, None, None)
    if watching is None or watching.due is None:
        return summary
    labels = as_labels(summary.dataset[watching.period].values)
    due = are_due(watching.period, labels, watching.due, watching.now)
    return summary if due.all() else Summary.of(_of_periods(summary.dataset, watching.period, labels[due]), summary.url)


def due_rows(data: Data, watching: Watching | None) -> Data:
    """Scored rows without pending periods, as `due_summary`; a stream, which is read once, as it is.

    Rows of Dask stay lazy, apart from the periods, which are read once.

    Raises
    ------
    ValueError
        If periods are to be due and their labels are no dates.
    """
    if watching is None or watching.due is None or isinstance(data.labels, RowStream):
        return data
    sample_dim = data.options.sample_dim
    if not isinstance(sample_dim, str):
        raise ValueError(f"due expects rows along one dimension, got {listed(sample_dim)}; stack them first.")
    columns = {str(name): name for name in data.slice_names}
    periods = data.by[columns[watching.period]]
    codes, axes = coded({watching.period: periods}, math.nan, sample_dim)
    due = are_due(watching.period, as_labels(np.asarray(axes[0].labels)), watching.due, watching.now)
    if due.all():
        return data
    keep = codes.map_blocks(due.__getitem__, dtype=bool) if is_dask(codes) else due[codes]
    take = partial(_kept_rows, keep=keep, sample_dim=sample_dim)
    by = {name: take(values) for name, values in data.by.items()}
    options = replace(data.options, groups=take(data.options.groups))
    identifiers = {name: take(values) for name, values in data.identifiers.items()}
    rows = {"labels": take(data.labels), "scores": take(data.scores), "weights": take(data.weights)}
    return replace(data, **rows, by=by, identifiers=identifiers, options=options)


def _kept_rows(values: Any, keep: Any, sample_dim: str) -> Any:
    """The values of the rows that are kept: of one array, or of each of several models."""
    if values is None:
        return None
    if isinstance(values, Mapping):
        return {name: _kept_rows(own, keep, sample_dim) for name, own in values.items()}
    if isinstance(values, SliceCodes):
        return replace(values, codes=values.codes[keep])
    if isinstance(values, xr.DataArray):
        kept = _kept_rows(values.transpose(sample_dim, ...).data, keep, sample_dim)
        coordinates = {name: one for name, one in values.coords.items() if sample_dim not in one.dims}
        return xr.DataArray(kept, coordinates, [sample_dim, *(dim for dim in values.dims if dim != sample_dim)])
    if is_frame(values):
        values = values.to_dask_array()
    if not is_dask(values) and is_dask(keep):
        keep = np.asarray(keep)
    return values[keep] if hasattr(values, "__array__") else np.asarray(values)[keep]


def _of_periods(summary: xr.Dataset, period: str, labels: Any) -> xr.Dataset:
    kept = summary.isel({period: np.flatnonzero(np.isin(as_labels(summary[period].values), labels))})
    return with_totals(kept, Summary.of(summary).batch)


def _since(
    summaries: Mapping[str, xr.Dataset], given: ModelOverTime, leading: OverTime, setting: str | int | None
) -> GapEnds | None:
    """The gap of the leading process since then; one of many has been chosen from them."""
    period = given.watching.period
    slices = {name: processes for name, processes in given.slices.items() if leading in processes}
    name, processes = next(iter(slices.items()), ("", given.whole))
    number = processes.index(leading)
    options: dict[str, Any] = {"setting": setting, "alpha": leading.alpha, "chosen_from": leading.tests}
    return gap_since(summaries[name], leading.since, period, name or None, **options)[number]


def _changes(
    summaries: Mapping[str, xr.Dataset], period: str, leading: OverTime, setting: str | int | None
) -> dict[str, list[GapChange]]:
    """What has changed since the leading process is off, where there are rows before and for one outcome alone."""
    before = leading.periods[leading.periods < leading.since]
    after = leading.periods[leading.periods >= leading.since]
    rows = leading.rows[leading.periods < leading.since].sum()
    if not rows or not after.size:
        return {}
    changes: dict[str, list[GapChange]] = {}
    for name, summary in summaries.items():
        change = attribute(summary, before, after, name or None, period, setting=setting, ci=1 - leading.alpha)
        class_dim = change.attrs["class_dim"]
        if class_dim in change.dims:
            change = change.sel({class_dim: leading.at[class_dim]})
        changes[name] = change_list(change, MOST_CHANGES)
    return changes
