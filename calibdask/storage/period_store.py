"""A store of periods: summaries by day, say, that are added one by one, and read as one summary.

::

    summary.zarr/
      zarr.json                  the mark of such a store, with the head of its log
      log/00000000.jsonl ...     what was added, replaced and merged (`calibdask.storage.period_log`)
      periods/<name>.zarr        the summary of one period; never changed once the log has it
      periods/<name>.zip         its sums over all slices (`calibdask.storage.period_totals`)
      periods/<writer>.lease     who is writing (`calibdask.storage.leases`)

What the log does not name is not in the store: it is being written, or was when somebody was killed, or has been
replaced. A later change removes it after a day.
"""

import json
import os
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from shutil import rmtree
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from calibdask import __version__
from calibdask.errors import Unavailable
from calibdask.safe_text import listed
from calibdask.storage.atomic_replace import atomic_replacement, named_errors, owned_name
from calibdask.storage.compatibility import check_compatible, shared_attributes
from calibdask.storage.leases import Lease, sweep
from calibdask.storage.location import Location
from calibdask.storage.manifest import content_hash
from calibdask.storage.open_store import PERIODS
from calibdask.storage.period_arrays import Manifests, PeriodArray, chunk_sizes, occupied_arrays
from calibdask.storage.period_head import FOLDER, Head, check_mark
from calibdask.storage.period_labels import check_kind, other_spelling, overlap, within
from calibdask.storage.period_log import (
    PARTS,
    Label,
    LogChange,
    Period,
    PeriodChange,
    PeriodLog,
    commit,
    commit_after_loss,
    notes_of,
)
from calibdask.storage.period_totals import ArchiveMembers, PeriodSumsArray, summed
from calibdask.storage.repeated_groups import write_repeated
from calibdask.storage.retry import with_retries
from calibdask.storage.slice_labels import Labels, as_index, positions, united
from calibdask.storage.sparse_files import decoded
from calibdask.storage.summary import Summary
from calibdask.storage.summary_format import FORMAT, MARK, extra_attributes, rows_of, stored_notes, with_notes
from calibdask.storage.summary_totals import TOTALS, with_fill, with_totals
from calibdask.storage.writers import checked_output, texts_settled
from calibdask.storage.zarr_files import open_group

# A writer that others took for dead writes its numbers again, so often at most.
_MOST_TRIES = 5


@dataclass(frozen=True, eq=False)
class PeriodStore:
    """Where periods are added and read; see the module."""

    location: Location

    @classmethod
    def at(cls, path: str) -> "PeriodStore":
        """The store of a path or URL, which need not exist yet.

        Raises
        ------
        ValueError
            If something else is there, or nothing can be written there.
        """
        checked_output(path, (".zarr",), overwrite=True)
        location = Location.parse(path)
        if location.is_zarr and PERIODS not in open_group(location).attrs:
            check_mark(location)
            raise ValueError(
                f"{location.url} was written as a whole, so periods cannot be added to it; start a store under another "
                "name, where calibdask.append adds all its periods at once."
            )
        return cls(location)

    def log(self, *, recover: bool = False, begun: PeriodLog | None = None) -> PeriodLog:
        """Current log; with ``recover`` also if the last records were lost; ``begun`` is as in `PeriodLog.read`."""
        return PeriodLog.read(self.location, recover=recover, begun=begun)

    def add(
        self,
        parts: Sequence[xr.Dataset],
        change: Callable[[PeriodLog, tuple[Period, ...]], PeriodChange],
        *,
        merged: Sequence[str] = (),
        recover: bool = False,
        begun: PeriodLog | None = None,
    ) -> None:
        """Write summaries of one period each, add them to the log, and remove what nobody needs.

        Parameters
        ----------
        parts : sequence of xarray.Dataset
            The second dimension, or the first where there are no models, is that of the period, of size 1.
        change : function
            The change of the log, given the log and the new periods.
        merged : sequence of str
            Finer periods that they stand for.
        recover : bool, default False
            Accept that records at the end of the log were lost.
        begun : PeriodLog, optional
            The log as it was read before.

        Raises
        ------
        Unavailable
            If other processes take this one for dead again and again, and remove what it writes.
        """
        with named_errors(self.location, Path(self.location.path)):
            self._make()
            for _ in range(_MOST_TRIES):
                with Lease(self.location.child(PARTS)) as lease:
                    added = tuple(self._write(part, lease.writer, number, merged) for number, part in enumerate(parts))
                    was_held: bool = lease.is_held
                    if not was_held:
                        # What others may have removed is not added. Without its lease it must not stay there either.
                        self._discard(added)
                        continue
                    making = LogChange(partial(_changed, change, added), begun)
                    log = commit_after_loss(self.location, making.make) if recover else commit(self.location, making)
                    if lease.is_held:
                        gone = [(name.removeprefix(f"{PARTS}/"), record) for name, record in log.gone.items() if record]
                        kept = partial(self._kept, log)
                        sweep(self.location.child(PARTS), lease.writer, kept, gone, self.location.child(FOLDER))
                        return
                # The record is there, and its numbers may be gone: they are written again, in their place.
                change, recover = _rewritten, False
            raise Unavailable(
                f"{self.location.url}: other processes assumed that this one was dead, and removed its files; check "
                "the clocks and the load of the machines, and run it again."
            )

    def _discard(self, added: Iterable[Period]) -> None:
        for name in (name for period in added for name in (period.folder, period.totals) if name):
            place = self.location.child(name)
            with suppress(OSError):
                place.fs.rm(place.path, recursive=True)

    def _kept(self, begun: PeriodLog) -> set[str]:
        """The names of the folder of periods that belong to the store."""
        periods = self.log(begun=begun).periods.values()
        return {name.removeprefix(f"{PARTS}/") for period in periods for name in (period.folder, period.totals)}

    def _write(self, summary: xr.Dataset, writer: str, number: int, merged: Iterable[str]) -> Period:
        """Write the summary of one period, which nobody sees before the log has it."""
        stem = f"{PARTS}/{writer}.{number}"
        place = self.location.child(f"{stem}.zarr")
        given = Summary.of(summary)
        axes = summary["rows"].dims[len(given.batch) :]
        if place.local:
            write_repeated(summary, Path(place.path), chunk_sizes(given))
            manifest = content_hash(Path(place.path, "zarr.json").read_bytes())
        else:
            with atomic_replacement(place) as part:
                write_repeated(summary, part, chunk_sizes(given))
                manifest = content_hash((part / "zarr.json").read_bytes())
        label = summary[axes[0]].values.tolist()[0]
        slices = {str(axis): summary[axis].values for axis in axes[1:]}
        own = summary.isel({axes[0]: 0})
        totals = summed(own, axes[1:])
        hashes: Mapping[str, str] = {}
        if totals is not None:
            content, hashes = totals
            file = self.location.child(f"{stem}.zip")
            with_retries(partial(file.fs.pipe_file, file.path, content))
        name = "" if totals is None else f"{stem}.zip"
        files = f"{stem}.zarr", slices, own["rows"].values, manifest, tuple(merged), name, hashes
        return Period(label, *files, notes=stored_notes(summary).to_text())

    def check_new(self, log: PeriodLog, name: str, labels: Sequence[Label], *, replacing: bool) -> None:
        """Raise ValueError if periods cannot be added under these labels."""
        url = self.location.url
        if log.dimension not in ("", name):
            raise ValueError(f"{url} holds summaries by {log.dimension}, but the given periods are called {name}.")
        there = [str(label) for label in labels if label in log.periods]
        if there and not replacing:
            raise ValueError(
                f"{url} has the {name} {listed(there)} already, and its rows would count twice; to replace it, give "
                "replace='the reason' (--replace --reason TEXT at the shell)."
            )
        if gone := [(label, log.merged[label]) for label in labels if label in log.merged]:
            raise ValueError(
                f"{url} has the {name} {gone[0][0]} within {gone[0][1]}, into which it was merged, and its rows would "
                f"count twice; to change them, summarize all rows of {gone[0][1]}, and replace it."
            )
        check_kind(name, [*labels, *log.periods])
        merged_into = [str(one.label) for one in log.periods.values() if one.merged]
        for label in labels:
            others = [one for one in log.periods if one != label]
            if same := other_spelling(label, others):
                raise ValueError(f"{url} has the {name} {same}, which {label} spells differently; give {same}.")
            if coarser := within(label, [one for one in merged_into if one != label]):
                raise ValueError(
                    f"{url} has {coarser}, into which periods were merged, and {name} {label} is within it; to add "
                    f"rows to it, summarize all rows of {coarser}, and replace it."
                )
        if both := overlap([label for label in labels if label not in log.periods], [*labels, *log.periods]):
            raise ValueError(
                f"{url} expects labels of {name} that do not overlap, got {both[1]}, which is within {both[0]}: "
                "its rows would count twice; add periods of one length (midnight: T00:00:00), or leave them out of one."
            )

    def check_fits(self, log: PeriodLog, summary: Summary, replaced: Iterable[Label] = ()) -> None:
        """Raise ValueError unless a summary of a period is like those that are there, and stay there."""
        there = self.readable(log, replaced)
        if there is None:
            return
        check_compatible(there, summary, f"append expects summaries like those of {self.location.url},")
        if lost := {*there.dataset.data_vars} ^ {*summary.dataset.data_vars}:
            raise ValueError(
                f"append expects the variables of {self.location.url}, and {listed(sorted(map(str, lost)))} are in "
                "only one of the two; summarize the data again."
            )

    def readable(self, log: PeriodLog, replaced: Iterable[Label] = ()) -> Summary | None:
        """The summary of the last period that is not damaged; None if there are no periods.

        Raises
        ------
        Damaged
            If there are some, and all are damaged.
        """
        without = {*replaced}
        error: ValueError | None = None
        for period in reversed(log.sorted):
            if period.label in without:
                continue
            try:
                return Summary.of(self.part(period))
            except (Unavailable, PermissionError):
                raise
            except ValueError as damage:
                error = error or damage
        if error is not None:
            raise error
        return None

    def part(self, period: Period) -> xr.Dataset:
        """The summary of one period, read when it is needed.

        Raises
        ------
        Damaged
            If its manifest is missing, or is not the one that the log names.
        """
        location = self.location.child(period.folder)
        try:
            Manifests(self.location).of(period)
            node = open_group(location)
            with location.reading("a period"), texts_settled():
                opened = xr.open_zarr(node.store, group=node.path or None, consolidated=False, chunks=None)
                return decoded(opened, MARK, FORMAT)
        except (Unavailable, PermissionError):
            raise
        except ValueError as error:
            raise period.damaged(str(error).rstrip(".")) from error

    def summary(self, node: Any) -> Summary:
        """All periods as one summary.

        Parameters
        ----------
        node : zarr.Group
            The store (`calibdask.storage.array_files.open_group`).

        Raises
        ------
        ValueError
            If it has no periods yet.
        """
        log = self.log()
        if not log.periods:
            raise ValueError(f"{self.location.url} has no periods yet; add one by calibdask summarize --append.")
        periods = tuple(log.sorted)
        last = self.readable(log)
        assert last is not None
        dims, batch = last.dataset["rows"].dims, len(last.batch)
        models = last.dataset["rows"].shape[:batch]
        labels = united_slices(periods)
        rows = _rows(periods, labels, models)
        members, manifests = ArchiveMembers(), Manifests(self.location)
        occupied = occupied_arrays(periods, labels, last, self.part, manifests)
        root = f"{node.path}/" if node.path else ""
        variables: dict[str, Any] = {"rows": (dims, rows)}
        totals: dict[str, Any] = {"rows": (dims[: batch + 1], rows.sum(tuple(range(batch + 1, rows.ndim))))}
        for name, variable in last.dataset.data_vars.items():
            if name not in (*TOTALS, "rows"):
                # Numbers of periods lack models, and slices that are no periods.
                along = {axis: own for axis, own in labels.items() if axis in variable.dims}
                before = models if {*last.batch} <= {*variable.dims} else ()
                own = variable.shape[len(before) + 1 + len(along) :]
                place = (self.location, node.store.unchecked, root, str(name))
                array = PeriodArray(*place, periods, along, before, own, variable.dtype, manifests)
                variables[str(name)] = (variable.dims, occupied[str(name)] if name in occupied else array.lazy())
                of_all = PeriodSumsArray(self.location, str(name), periods, models, own, members)
                totals[str(name)] = ((*dims[: batch + 1], *variable.dims[len(dims) :]), of_all.lazy())
        axes = {str(dims[batch]): np.array([period.label for period in periods])}
        whole = _dataset(variables, {**axes, **labels}, last, log)
        has_totals = all(period.totals for period in periods)
        by_period = Summary.of(_dataset(totals, axes, last, log), self.location.url) if has_totals else None
        return replace(Summary.of(whole, self.location.url), by_period=by_period, period=str(dims[batch]))

    def _make(self) -> None:
        """The folder with its mark, if it is not there."""
        mark = Head().content
        if not self.location.local:
            if not self.location.has("zarr.json"):
                with_retries(lambda: self.location.fs.pipe_file(self.location.child("zarr.json").path, mark))
            return
        target = Path(self.location.path)
        if target.exists():
            (target / PARTS).mkdir(exist_ok=True)
            return
        room = target.with_name(f".{target.name}.{owned_name()}.partial")
        try:
            for folder in (FOLDER, PARTS):
                (room / folder).mkdir(parents=True)
            (room / "zarr.json").write_bytes(mark)
            # Another writer may have been first.
            with suppress(OSError):
                os.rename(room, target)
        finally:
            rmtree(room, ignore_errors=True)


def _changed(
    change: Callable[[PeriodLog, tuple[Period, ...]], PeriodChange], added: tuple[Period, ...], log: PeriodLog
) -> PeriodChange:
    return change(log, added)


def _rewritten(log: PeriodLog, added: tuple[Period, ...]) -> PeriodChange:
    """Periods in the place of those whose numbers others have removed."""
    replaced = [(period, log.periods[period.label]) for period in added if period.label in log.periods]
    there = [replace(period, merged=before.merged) for period, before in replaced]
    reason = "another process took the writer for dead and removed its numbers"
    return PeriodChange(log.dimension, "replace", tuple(there), tuple(period.label for period in there), reason)


def united_slices(periods: Sequence[Period]) -> dict[str, Labels]:
    """The labels of all slices, by dimension; raises ValueError where they are not of one kind."""
    labels = {}
    for name in periods[0].slices:
        given = _distinct(period.slices[name] for period in periods)
        labels[name] = united(name, [*map(as_index, given)], [own.dtype for own in given])
    return labels


def _distinct(given: Iterable[Labels]) -> list[Labels]:
    """Labels that differ from those before them: most periods have the slices of the one before."""
    distinct: list[Labels] = []
    for labels in given:
        last = distinct[-1] if distinct else None
        if last is None or labels.dtype != last.dtype or not np.array_equal(labels, last):
            distinct.append(labels)
    return distinct


def _dataset(variables: Mapping[str, Any], axes: Mapping[str, Labels], last: Summary, log: PeriodLog) -> xr.Dataset:
    """The variables on these axes, with all else that the last period says."""
    coordinates: dict[Hashable, Any] = {
        name: coordinate.variable
        for name, coordinate in last.dataset.coords.items()
        if not {*coordinate.dims} & {*last.slices}
    }
    attributes = {
        **extra_attributes(last.batch),
        **shared_attributes(last.dataset),
        "calibdask_version": __version__,
    }
    if log.history:
        attributes["history"] = json.dumps(log.history)
    whole = with_fill(with_totals(xr.Dataset(variables, {**coordinates, **axes}, attributes), last.batch))
    return with_notes(whole, notes_of(log.sorted).of_rows(rows_of(whole)))


def _rows(periods: Sequence[Period], labels: Mapping[str, Labels], models: tuple[int, ...]) -> npt.NDArray[np.int64]:
    rows = np.zeros((*models, len(periods), *(len(own) for own in labels.values())), np.int64)
    before = (slice(None),) * len(models)
    for number, period in enumerate(periods):
        at: tuple[Any, ...] = np.ix_(*(positions(period.slices[name], own) for name, own in labels.items()))
        rows[(*before, number, *at)] = period.rows
    return rows
