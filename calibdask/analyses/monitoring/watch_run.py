"""One run of a watch: from a summary and an earlier state to a result and a new state."""

import hashlib
import json
import warnings
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from calibdask.analyses.monitoring.alarms import WatchResult
from calibdask.analyses.monitoring.due_dates import coarser_periods, due_times, parse_now
from calibdask.analyses.monitoring.period_sums import PeriodSums
from calibdask.analyses.monitoring.slice_processes import PeriodTotals, SliceProcesses, period_numbers
from calibdask.data.data import summary_input
from calibdask.estimators.about import PartInfo
from calibdask.inference.choice import check_level
from calibdask.inference.sequential.cells import Index, PeriodCells
from calibdask.inference.sequential.processes import Monitor, ProcessState
from calibdask.inference.sequential.saved import MonitoringSettings, SavedState
from calibdask.results.build import CLUSTER_NOTES, described
from calibdask.results.format import plain, slice_text
from calibdask.safe_text import listed
from calibdask.statistics import exact
from calibdask.statistics.lattice.coding import missing_again
from calibdask.statistics.settings import Setting
from calibdask.storage.summary import Summary
from calibdask.storage.summary_clusters import GROUPS
from calibdask.storage.summary_lattice import EVENTS, ROWS, SCORE, SEGMENT, Cuts, segment_sums
from calibdask.storage.summary_scores import joined

Labels = npt.NDArray[Any]
_MOST_NAMED = 5
_BETWEEN = "\x1f"


@dataclass(frozen=True, eq=False)
class PeriodChoice:
    """Positions of periods in a summary, each in the order of their labels.

    ``new`` are watched; ``late`` are left out, as later ones have been watched before they came; ``pending`` are not
    due yet. ``due`` has the moment when each period of the summary is due, where that was asked for.
    """

    new: list[int]
    late: list[int]
    pending: list[int]
    due: npt.NDArray[np.datetime64] | None


def choose_periods(
    sums: PeriodSums, seen: Labels, digests: Sequence[str], due: Any = None, now: Any = None
) -> PeriodChoice:
    """The periods to watch after those that were seen, whose digests are given.

    Raises
    ------
    ValueError
        If a period that was seen has other rows than then, or labels cannot be compared.
    """
    labels, period = sums.periods, sums.period
    if seen.size and _kind(labels) != _kind(seen):
        raise ValueError(
            f"state has seen values of {period} such as {_named(seen[-1:])}, which cannot be compared with "
            f"{_named(labels[:1])}; label periods in the same way, or start without it."
        )
    both = (np.concatenate([seen, labels]) if seen.size else labels).tolist()
    known = dict(zip(both[: seen.size], digests, strict=True))
    names = both[seen.size :]
    again = [position for position, name in enumerate(names) if name in known]
    read = digests_of(sums, again)
    changed = [labels[at] for at, digest in zip(again, read, strict=True) if known[names[at]] != digest]
    if changed:
        raise ValueError(
            f"{period} {_named(changed)} had other rows when it was monitored, and evidence cannot be withdrawn; start "
            "without the state, which watches all periods of the summary again."
        )
    # Days that were seen, and merged into months since, have been watched.
    skipped = {*known} | (coarser_periods(seen) & {*names})
    order = [position for position in np.argsort(labels, kind="stable").tolist() if names[position] not in skipped]
    late = [position for position in order if seen.size and not labels[position] > seen[-1]]
    if late:
        warnings.warn(
            f"{period} {_named([labels[position] for position in late])} arrived after {_named(seen[-1:])} had been "
            "monitored, and is ignored; to include it, start without the state, which watches all periods again.",
            UserWarning,
            stacklevel=4,
        )
    left = order[len(late) :]
    if due is None:
        if now is not None:
            raise ValueError("now has no effect without due.")
        return PeriodChoice(left, late, [], None)
    moment = parse_now(now)
    whole = np.concatenate([labels, seen]) if seen.size else labels
    when = due_times(period, whole, due)[: labels.size]
    return PeriodChoice(
        [position for position in left if when[position] <= moment],
        late,
        [position for position in left if when[position] > moment],
        when,
    )


def digests_of(sums: PeriodSums, positions: Sequence[int]) -> list[str]:
    """A few signs for the rows of each period, which do not depend on slices without rows, nor on their order.

    They are of the rows and of the exact sums of both proper scores of each slice, where the summary has such sums.
    """
    if not positions:
        return []
    sums = sums.whole
    axes = [_texts(labels) for labels in sums.slices.values()]
    grids = [grid.ravel() for grid in np.meshgrid(*axes, indexing="ij")]
    names = np.array([_BETWEEN.join(labels) for labels in zip(*grids, strict=True)] or [""])
    order = np.argsort(names, kind="stable")
    names = names[order]
    digests = []
    for values in _sums(sums, positions, names.size):
        kept = values[:, 0] > 0
        kept_in_order = values[order][kept[order]]
        text = _BETWEEN.join(names[kept[order]].tolist()).encode()
        digests.append(hashlib.blake2b(text + kept_in_order.tobytes(), digest_size=8).hexdigest())
    return digests


def _sums(sums: PeriodSums, positions: Sequence[int], slices: int) -> Iterator[npt.NDArray[Any]]:
    """Numbers that tell the rows of each slice, the number of rows first: (slices, numbers) of each period."""
    scores = sums.summary.source.scores
    if scores is not None:
        state = scores()
        parts = np.concatenate([state.rows[0, :, None], state.brier[0], state.log[0]], -1)
        yield from (parts.reshape(slices, sums.periods.size, -1)[:, position] for position in positions)
        return
    for position in positions:
        values = np.zeros((slices * sums.columns, 3))
        for block, cells in sums.cells(position):
            terms = (cells.rows, cells.events, cells.rows * cells.mean)
            values[block] = np.stack([cells.by_process(term) for term in terms], -1)
        yield values.reshape(slices, -1)


def _kind(labels: Labels) -> str:
    return "number" if labels.dtype.kind in "biuf" else labels.dtype.kind


def _texts(labels: Labels) -> npt.NDArray[np.str_]:
    """Labels as texts that do not change where others of another type come to them."""
    if labels.dtype.kind in "biuf":
        return labels.astype(np.float64).astype(np.str_)
    return np.datetime_as_string(labels, unit="s") if labels.dtype.kind == "M" else labels.astype(np.str_)


def _named(labels: Sequence[Any] | Labels) -> str:
    more = len(labels) - _MOST_NAMED
    return listed(map(slice_text, labels[:_MOST_NAMED])) + (f" and {more:,} more" if more > 0 else "")


@dataclass(frozen=True, eq=False)
class SegmentSums(PeriodSums):
    """Segments of one feature by period, all rows first; each segment is a process.

    Scores of a segment are known by the sums of a few cells, whose mean stands for them: evidence is a little smaller
    than that of fine cells, and holds as well.
    """

    cuts: Cuts
    lattice: xr.Dataset

    @classmethod
    def of_features(cls, given: Any, period: str, setting: Setting | str | int | None) -> "SegmentSums":
        """Sums of the summary that was passed to `calibdask.watch`.

        Raises
        ------
        TypeError, ValueError
            As `PeriodSums.of`; if the summary has no features, or those of another setting.
        """
        whole = PeriodSums.of("watch", given, period, None, setting)
        cuts = Summary.of(given).cuts
        if cuts is None:
            raise ValueError(
                "features expects a summary with features, but this one has none; add its periods by calibdask "
                "summarize DATA --features all --append STORE --period day=DAY."
            )
        if setting is not None and whole.setting != cuts.setting:
            raise ValueError(f"features of this summary are of the setting {cuts.setting}, got {setting!r}.")
        return cls(whole.summary, period, cuts.setting, cuts, segment_sums(Summary.of(given).dataset, period))

    @property
    def slices(self) -> dict[str, npt.NDArray[Any]]:
        """The segments, as texts."""
        texts = ["all rows", *(text for feature in self.cuts.features for text in feature.texts)]
        return {SEGMENT: np.array(texts)[self._numbers]}

    @cached_property
    def _numbers(self) -> npt.NDArray[np.intp]:
        """The numbers of the segments in the lattice: dates that are missing are watched once, by their first part."""
        ends = np.cumsum([1, *(feature.size for feature in self.cuts.features)])
        again = [int(ends[at + 1]) - 1 for at in missing_again(self.cuts.features)]
        return np.delete(np.arange(ends[-1]), again)

    @property
    def columns(self) -> int:
        """Segments have one column of scores."""
        return 1

    @property
    def whole(self) -> PeriodSums:
        """All rows of each period."""
        return PeriodSums(self.summary, self.period, self.setting)

    def part(self, positions: Sequence[int]) -> "SegmentSums":
        """Some periods, in memory."""
        there = super().part(positions)
        return replace(self, summary=there.summary, lattice=self.lattice.isel({self.period: positions}).load())

    def cells(self, position: int) -> Iterator[tuple[Index, PeriodCells]]:
        """The cells of a period, of all segments."""
        here = self.lattice.isel({self.period: position, SEGMENT: self._numbers})
        rows, events, score = (here[name].values for name in (ROWS, EVENTS, SCORE))
        inner = self.cuts.edges.thresholds(np.float64)[0, 0, 0]
        edges = np.r_[0.0, np.clip(inner, 0.0, 1.0), 1.0]
        yield np.arange(self._numbers.size), PeriodCells.of_sums(rows, events, exact.value(joined(score)), edges)


_MOST_BYTES = 1 << 28

# What the numbers of `calibdask.watch` are, by the name of the variable.
OVER_TIME: Mapping[str, PartInfo] = {
    "log_e": PartInfo("logarithm of the e-process against calibration within the tolerance", "statistic"),
    "pvalue": PartInfo("p-value that is valid at all periods", "pvalue"),
    "alarm": PartInfo("whether the e-process has ever reached 1 / alpha", "choice"),
    "found": PartInfo("whether the slice is a discovery of e-BH at this period", "choice"),
    "since": PartInfo("the period from which the evidence is largest", "choice"),
    "gap": PartInfo("observed rate minus mean prediction of all rows so far", "difference"),
    "error": PartInfo("mean absolute gap over 20 groups of scores of all rows so far", "error"),
    "log_detector": PartInfo("logarithm of the restarting detector", "statistic"),
    "detected": PartInfo("whether the restarting detector has reached 1 / alpha in this period", "choice"),
    "run_length": PartInfo("periods with rows since the detector was restarted", "count"),
    "period_gap": PartInfo("observed rate minus mean prediction of this period", "difference"),
    "period_pvalue": PartInfo("p-value of this period alone", "pvalue"),
}


def run_watch(
    summary: xr.Dataset | Summary,
    period: str,
    by: str | Sequence[str] | None,
    tolerance: float,
    alpha: float,
    setting: str | int | None,
    state: Mapping[str, Any] | str | None,
    due: Any,
    now: Any,
    features: bool,
) -> WatchResult:
    """Monitor the periods of a summary; arguments, dataset and errors as in `calibdask.watch`."""
    check_level(alpha, "alpha")
    if isinstance(tolerance, bool) or not 0 <= tolerance < 1:
        raise ValueError(f"tolerance expects a number from 0 to below 1 such as 0.01, got {tolerance!r}.")
    if features and by:
        raise ValueError("by has no effect with features, whose values are watched instead; omit one of them.")
    sums = (
        SegmentSums.of_features(summary, period, setting)
        if features
        else PeriodSums.of("watch", summary, period, by, setting)
    )
    layout = sums.summary.source.layout
    cells = sums.summary.source.finest(sums.setting).grid.cells
    groups = "" if sums.weight_periods is None else str(sums.summary.dataset.attrs.get(GROUPS, GROUPS))
    watched = MonitoringSettings(
        str(sums.setting), period, float(tolerance), float(alpha), layout.classes, cells, groups
    )
    past = _past(sums, watched, state)
    choice = choose_periods(sums, past.periods, past.digests, due, now)
    processes = SliceProcesses(sums, past)
    monitor = Monitor(watched.tolerance, watched.alpha)
    labels = sums.periods[choice.new]
    periods = np.concatenate([past.periods, labels]) if past.periods.size else labels
    columns: list[dict[str, npt.NDArray[Any]]] = []
    for number, blocks in enumerate(_cells(sums, choice.new), past.periods.size):
        moment = processes.advance(monitor, blocks, number)
        columns.append(period_numbers(processes, moment, monitor, periods, number))
    none = PeriodTotals.none(processes.state)
    last = columns[-1] if columns else period_numbers(processes, none, monitor, periods, periods.size - 1)
    over_time = {name: np.stack([column[name] for column in columns or [last]], -1) for name in last}
    digests = (*past.digests, *digests_of(sums, choice.new))
    saved = SavedState(watched, processes.slices, sums.columns, periods, digests, processes.state)
    pending = _pending(sums, choice)
    late = list(map(plain, sums.periods[choice.late]))
    attributes = _attributes(sums, saved, choice.new) | {"pending": json.dumps(pending), "late": json.dumps(late)}
    in_time = {name: values[..., : len(columns)] for name, values in over_time.items()}
    return WatchResult(_dataset(processes, in_time, {sums.period: labels}, attributes), saved)


def _cells(sums: PeriodSums, positions: list[int]) -> Iterator[Iterator[tuple[Index, PeriodCells]]]:
    """The cells of each period; of files as many periods are read together as fit a few hundred megabytes."""
    dataset = sums.summary.dataset
    together = int(_MOST_BYTES * sums.periods.size / max(1, dataset.nbytes))
    if not together or not any(variable.chunks for variable in dataset.variables.values()):
        yield from map(sums.cells, positions)
        return
    for start in range(0, len(positions), together):
        loaded = sums.part(positions[start : start + together])
        yield from map(loaded.cells, range(loaded.periods.size))


def _past(sums: PeriodSums, watched: MonitoringSettings, given: Mapping[str, Any] | str | None) -> SavedState:
    """The state to go on from; without one, that before the first period."""
    if given is None:
        size = int(np.prod([labels.size for labels in sums.slices.values()])) * sums.columns
        return SavedState(watched, sums.slices, sums.columns, sums.periods[:0], (), ProcessState.empty(size))
    try:
        past = SavedState.from_dict(json.loads(given) if isinstance(given, str) else given)
    except json.JSONDecodeError as error:
        raise ValueError(f"state expects the JSON text that an earlier cd.watch returned; {error}.") from error
    if past.watched != watched:
        raise ValueError(_other_choices(past.watched, watched))
    if [*past.slices] != [*sums.slices] or past.columns != sums.columns:
        raise ValueError(
            f"state has the slices {listed(past.slices) or 'none'}, and this call {listed(sums.slices) or 'none'}; "
            "give the same by."
        )
    return past


def _other_choices(past: MonitoringSettings, now: MonitoringSettings) -> str:
    """In which choices the state of one watch does not fit another."""
    differing = [
        (field.name, getattr(past, field.name), getattr(now, field.name)) for field in fields(MonitoringSettings)
    ]
    differing = [(name, before, after) for name, before, after in differing if before != after]
    before, after = (
        ", ".join(f"{name} {'none' if choice[at] == '' else choice[at]}" for name, *choice in differing)
        for at in (0, 1)
    )
    return (
        f"state was made with {before}, and this watch has {after}; use the earlier options, or start without the "
        "state."
    )


def _pending(sums: PeriodSums, choice: PeriodChoice) -> list[dict[str, Any]]:
    """Label, rows of one model and due date of each period that is not due yet."""
    if choice.due is None or not choice.pending:
        return []
    labels, rows = sums.periods, _rows(sums)
    return [
        {sums.period: plain(labels[position]), "rows": int(rows[position]), "due": plain(choice.due[position])}
        for position in choice.pending
    ]


def _rows(sums: PeriodSums) -> npt.NDArray[np.int64]:
    """The rows of each period, of the first model."""
    rows = sums.summary.dataset["rows"].isel(dict.fromkeys(sums.summary.batch, 0))
    return np.asarray(rows.sum([dim for dim in rows.dims if dim != sums.period]).values, np.int64)


def _attributes(sums: PeriodSums, saved: SavedState, new: list[int]) -> dict[str, Any]:
    summary, watched = sums.summary, saved.watched
    attributes: dict[str, Any] = {"rows": int(_rows(sums)[new].sum()), "alpha": watched.alpha}
    attributes |= {"tolerance": watched.tolerance, "period": sums.period, "slices": [*summary.slices]}
    if summary.batch:
        attributes["batch"] = [*summary.batch]
    if watched.groups:
        attributes |= {GROUPS: watched.groups, CLUSTER_NOTES: sums.cluster_notes(new)}
    return attributes | {"state": json.dumps(saved.to_dict())}


def _dataset(
    processes: SliceProcesses,
    values: Mapping[str, npt.NDArray[Any]],
    periods: Mapping[str, Labels],
    attributes: Mapping[str, Any],
) -> xr.Dataset:
    """The values by slice, class and, where there are such, period."""
    sums = processes.sums
    class_dim = summary_input(sums.summary).class_dim("class")
    coordinates: dict[Hashable, Any] = {
        name: (name, labels) for name, labels in (processes.slices | {**periods}).items()
    }
    classes = [class_dim] if sums.setting.per_class else []
    if classes:
        coordinates[class_dim] = (class_dim, sums.summary.classes)
    dims = [*processes.slices, *classes, *periods]
    values = {**values}
    if (clusters := values.pop("clusters", None)) is not None:
        coordinates["clusters"] = (dims, clusters, {"meaning": "sum of the weights of rows, of 1 for each cluster"})
    result = described(OVER_TIME, values, dims, coordinates, str(sums.setting), class_dim, **attributes)
    if clusters is not None:
        result["events"].attrs["meaning"] = "sum of the weights of outcomes"
    return result
