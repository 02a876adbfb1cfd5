"""A store of periods: summaries by day, say, that are added one by one, and read as one summary.

::

    summary.zarr/
      zarr.json                  the mark of such a store
      log/00000000.jsonl ...     what was added, replaced and merged (`calibdask.storage.period_log`)
      periods/<name>.zarr        the summary of one period; never changed once the log has it
      periods/<name>.zip         its sums over all slices (`calibdask.storage.period_totals`)

What the log does not name is not in the store: it is being written, or was when somebody was killed, or has been
replaced. The next change removes it once it is a day old.
"""

import json
import math
import os
import re
import time
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from shutil import rmtree
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from calibdask import __version__
from calibdask.safe_text import listed
from calibdask.storage.alike import check_alike
from calibdask.storage.checked_store import CHECKS
from calibdask.storage.location import Location
from calibdask.storage.open_store import PERIODS
from calibdask.storage.period_arrays import PeriodArray, block_sizes
from calibdask.storage.period_labels import check_kind
from calibdask.storage.period_log import FOLDER, Change, Label, Period, PeriodLog, commit
from calibdask.storage.period_totals import Members, PeriodSumsArray, summed
from calibdask.storage.replacing import owned_name, replacing
from calibdask.storage.retry import with_retries
from calibdask.storage.slice_labels import Labels, as_index, positions, united
from calibdask.storage.summary import Summary
from calibdask.storage.summary_format import extra_attributes
from calibdask.storage.summary_totals import TOTALS, with_fill, with_totals
from calibdask.storage.writers import checked_output, texts_settled, write_dataset
from calibdask.storage.zarr_files import open_group

_MARKED = {"zarr_format": 3, "node_type": "group", "attributes": {PERIODS: 1}}
_PARTS = "periods"
# What nobody needs is kept so long: somebody may be writing it, or reading it.
_GRACE_SECONDS = 86_400.0
_OWNED = re.compile(r"/\.?([0-9a-f]+)-[0-9a-f]+-\d+-[0-9a-f]+\.(?:zarr|zip|partial)$")


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
            raise ValueError(
                f"{location.url} was written whole, and periods cannot be added to it; begin a store under another "
                "name, where calibdask.append puts all its periods at once."
            )
        return cls(location)

    def log(self) -> PeriodLog:
        """What is there now."""
        return PeriodLog.read(self.location)

    def write(self, summary: xr.Dataset, merged: Iterable[str] = ()) -> Period:
        """Write the summary of one period, which nobody sees before the log has it.

        Parameters
        ----------
        summary : xarray.Dataset
            Its second dimension, or the first where there are no models, is that of the period, of size 1.
        merged : iterable of str
            Finer periods that it stands for.
        """
        self._make()
        stem = f"{_PARTS}/{owned_name()}"
        place = self.location.child(f"{stem}.zarr")
        given = Summary.of(summary)
        axes = summary["rows"].dims[len(given.batch) :]
        if place.local:
            Path(place.path).parent.mkdir(exist_ok=True)
            write_dataset(summary, Path(place.path), _chunks(given))
            attributes = json.loads(Path(place.path, "zarr.json").read_bytes())["attributes"]
        else:
            with replacing(place) as part:
                write_dataset(summary, part, _chunks(given))
                attributes = json.loads((part / "zarr.json").read_bytes())["attributes"]
        label = summary[axes[0]].values.tolist()[0]
        slices = {str(axis): summary[axis].values for axis in axes[1:]}
        own = summary.isel({axes[0]: 0})
        totals = summed(own, axes[1:])
        if totals is not None:
            file = self.location.child(f"{stem}.zip")
            with_retries(partial(file.fs.pipe_file, file.path, totals))
        sums = attributes[CHECKS]["arrays"]
        name = "" if totals is None else f"{stem}.zip"
        return Period(label, f"{stem}.zarr", slices, own["rows"].values, sums, tuple(merged), name)

    def commit(self, added: Sequence[Period], change: Callable[[PeriodLog], Change]) -> None:
        """Make a change that adds periods (`calibdask.storage.period_log.commit`), and remove what nobody needs."""
        log = commit(self.location, change)
        periods = (*log.periods.values(), *added)
        self._sweep({name for period in periods for name in (period.folder, period.totals)}, log.gone)

    def check_new(self, log: PeriodLog, name: str, labels: Sequence[Label], *, replacing: bool) -> None:
        """Raise ValueError if periods cannot be added under these labels."""
        url = self.location.url
        if log.dimension not in ("", name):
            raise ValueError(f"{url} holds summaries by {log.dimension}, and periods called {name} were given.")
        there = [str(label) for label in labels if label in log.periods]
        if there and not replacing:
            raise ValueError(
                f"{url} has the {name} {listed(there)} already, and its rows would count twice; to put this in its "
                "place, give replace='the reason' (--replace --reason TEXT at the shell)."
            )
        if gone := [(label, log.merged[label]) for label in labels if label in log.merged]:
            raise ValueError(
                f"{url} has the {name} {gone[0][0]} within {gone[0][1]}, into which it was merged, and its rows would "
                f"count twice; to change them, summarize all rows of {gone[0][1]}, and replace that."
            )
        check_kind(name, [*labels, *log.periods])

    def check_fits(self, log: PeriodLog, summary: Summary) -> None:
        """Raise ValueError unless a summary of a period is like those that are there."""
        if not log.periods:
            return
        there = Summary.of(self.part(log.sorted[-1]))
        check_alike(there, summary, f"append expects summaries like those of {self.location.url},")
        if lost := {*there.dataset.data_vars} ^ {*summary.dataset.data_vars}:
            raise ValueError(
                f"append expects the variables of {self.location.url}, and {listed(sorted(map(str, lost)))} are in one "
                "of both only; summarize the data again."
            )

    def part(self, period: Period) -> xr.Dataset:
        """The summary of one period, read when it is needed."""
        location = self.location.child(period.folder)
        node = open_group(location)
        with location.reading("a period"), texts_settled():
            return xr.open_zarr(node.store, group=node.path or None, consolidated=False, chunks=None)

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
        last = Summary.of(self.part(periods[-1]))
        dims, batch = last.dataset["rows"].dims, len(last.batch)
        models = last.dataset["rows"].shape[:batch]
        labels = united_slices(periods)
        rows = _rows(periods, labels, models)
        files, members = tuple(period.totals for period in periods), Members()
        root = f"{node.path}/" if node.path else ""
        variables: dict[str, Any] = {"rows": (dims, rows)}
        totals: dict[str, Any] = {"rows": (dims[: batch + 1], rows.sum(tuple(range(batch + 1, rows.ndim))))}
        for name, variable in last.dataset.data_vars.items():
            if name not in (*TOTALS, "rows"):
                own = variable.shape[len(dims) :]
                place = (self.location, node.store.unchecked, root, str(name))
                array = PeriodArray(*place, periods, labels, models, own, variable.dtype)
                variables[str(name)] = (variable.dims, array.lazy())
                of_all = PeriodSumsArray(self.location, str(name), files, models, own, members)
                totals[str(name)] = ((*dims[: batch + 1], *variable.dims[len(dims) :]), of_all.lazy())
        axes = {str(dims[batch]): np.array([period.label for period in periods])}
        whole = _dataset(variables, {**axes, **labels}, last, log)
        by_period = Summary.of(_dataset(totals, axes, last, log), self.location.url) if all(files) else None
        return replace(Summary.of(whole, self.location.url), by_period=by_period)

    def _make(self) -> None:
        """The folder with its mark, if it is not there."""
        mark = json.dumps(_MARKED).encode()
        if not self.location.local:
            if not self.location.has("zarr.json"):
                with_retries(lambda: self.location.fs.pipe_file(self.location.child("zarr.json").path, mark))
            return
        target = Path(self.location.path)
        if target.exists():
            return
        room = target.with_name(f".{target.name}.{owned_name()}.partial")
        room.mkdir()
        (room / FOLDER).mkdir()
        (room / "zarr.json").write_bytes(mark)
        # Another writer may have been first.
        with suppress(OSError):
            os.rename(room, target)
        rmtree(room, ignore_errors=True)

    def _sweep(self, kept: set[str], gone: Mapping[str, str]) -> None:
        """Remove what was never added or was replaced, a day later; what others have added meanwhile is younger."""
        for folder in (_PARTS, FOLDER):
            within = self.location.child(folder)
            within.fs.invalidate_cache(within.path)
            for path in with_retries(partial(within.fs.ls, within.path, detail=False)):
                name = f"{folder}/{str(path).rstrip('/').rpartition('/')[2]}"
                if name in kept or not _is_old(name, gone.get(name)):
                    continue
                with suppress(OSError):
                    within.fs.rm(path, recursive=True)


def _is_old(name: str, gone: str | None) -> bool:
    """Whether a name that a writer made (`owned_name`) is older than the time of grace, as is its removal."""
    begun = _OWNED.search(name)
    if begun is None:
        return False
    latest = max(int(begun[1], 16), 0.0 if gone is None else datetime.fromisoformat(gone).timestamp())
    return time.time() - latest > _GRACE_SECONDS


def united_slices(periods: Sequence[Period]) -> dict[str, Labels]:
    """The labels of all slices, by dimension; raises ValueError where they are not of one kind."""
    labels = {}
    for name in periods[0].slices:
        given = [period.slices[name] for period in periods]
        labels[name] = united(name, [*map(as_index, given)], [own.dtype for own in given])
    return labels


def _dataset(variables: Mapping[str, Any], axes: Mapping[str, Labels], last: Summary, log: PeriodLog) -> xr.Dataset:
    """The variables on these axes, with all else that the last period says."""
    coordinates: dict[Hashable, Any] = {
        name: coordinate.variable
        for name, coordinate in last.dataset.coords.items()
        if not {*coordinate.dims} & {*last.slices}
    }
    attributes = {**extra_attributes(last.batch), "calibdask_version": __version__}
    if log.history:
        attributes["history"] = json.dumps(log.history)
    return with_fill(with_totals(xr.Dataset(variables, {**coordinates, **axes}, attributes), last.batch))


def _rows(periods: Sequence[Period], labels: Mapping[str, Labels], models: tuple[int, ...]) -> npt.NDArray[np.int64]:
    rows = np.zeros((*models, len(periods), *(len(own) for own in labels.values())), np.int64)
    before = (slice(None),) * len(models)
    for number, period in enumerate(periods):
        at: tuple[Any, ...] = np.ix_(*(positions(period.slices[name], own) for name, own in labels.items()))
        rows[(*before, number, *at)] = period.rows
    return rows


def _chunks(summary: Summary) -> dict[str, tuple[int, ...]]:
    """The chunks of histograms: all cells of some slices."""
    dataset = summary.dataset
    first, last = len(summary.batch) + 1, dataset["rows"].ndim
    chunks = {}
    for name in summary.histogram_variables:
        shape = dataset[name].shape
        slice_bytes = math.prod(shape[:first]) * math.prod(shape[last:]) * dataset[name].dtype.itemsize
        chunks[name] = (*shape[:first], *block_sizes(shape[first:last], slice_bytes), *shape[last:])
    return chunks
