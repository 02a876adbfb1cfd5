"""`append`, `expire`, `drop_periods`, `recover_periods`: a summary that grows by periods, each whole or not at all."""

import dataclasses
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import xarray as xr

from calibdask.analyses.merging import merged_summary
from calibdask.engine.row_notes import RowNotes
from calibdask.errors import Damaged
from calibdask.safe_text import check_unicode, listed
from calibdask.storage.location import Location
from calibdask.storage.period_labels import COARSER, coarser, labels_of
from calibdask.storage.period_log import Label, Period, PeriodChange, PeriodLog, commit_after_loss, notes_of
from calibdask.storage.period_recovery import recover
from calibdask.storage.period_store import PeriodStore, united_slices
from calibdask.storage.summary import Summary
from calibdask.storage.summary_cluster_weights import WEIGHT_PERIODS, cluster_weighted, weighted_names
from calibdask.storage.summary_clusters import bucket_view
from calibdask.storage.summary_format import stored_states, with_notes
from calibdask.storage.summary_totals import TOTALS, with_totals


def append(
    summary: xr.Dataset | Summary,
    store: str | os.PathLike[str],
    period: str | Mapping[str, Any] = "day",
    *,
    replace: str | None = None,
) -> None:
    """Add periods to a stored summary, such as yesterday: each as a whole or not at all, even if interrupted.

    Parameters
    ----------
    summary : xarray.Dataset
        A result of `calibdask.summarize` with the settings, step, classes and dimensions of slices of the store.
    store : str or path
        A ``.zarr``, local or at any URL that fsspec knows; created by the first call. `calibdask.open_summary` and all
        commands that take a summary read it.
    period : str or mapping, default "day"
        The slice whose labels are periods, all of which are added at once; or the single period of the summary, such as
        ``{"day": "2026-11-22"}``. Labels are texts or whole numbers; dates become texts such as ``"2026-11-22"``, and
        midnight among other times of day ``"2026-11-22T00:00:00"``. Periods may be added in any order; they are read in
        the order of their labels.
    replace : str, optional
        The reason for replacing existing periods. It is stored with the time, in the attribute ``history`` of the
        summary.

    Raises
    ------
    TypeError
        If something is not a summary.
    ValueError
        If a period already exists and ``replace`` is None; if it was merged into a coarser one; if the summary does not
        match the stored ones, or the location cannot hold a store. The store remains unchanged.
    calibdask.errors.Unavailable
        If the store does not answer.

    Notes
    -----
    The numbers are written first, under a name that no reader uses; then one small file, which only one writer can
    create, adds them to the store. If the process is killed before that, nothing is added; the remains are removed by a
    call after a day, by the clock of the store. A period whose files are damaged can be replaced; all others stay
    readable. Several processes may write at the same time, on local file systems and on object stores with conditional
    writes (Amazon S3, Google Cloud Storage and compatible servers); elsewhere only one at a time, as a warning says.

    Slices that a period lacks, such as a country on a day without it, have no rows.

    Examples
    --------
    >>> import os, tempfile
    >>> import calibdask as cd
    >>> monday = cd.summarize([0, 1], [0.2, 0.4], settings=["binary"])
    >>> tuesday = cd.summarize([1, 1], [0.6, 0.8], settings=["binary"])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = os.path.join(folder, "summary.zarr")
    ...     cd.append(tuesday, store, {"day": "2026-11-24"})
    ...     cd.append(monday, store, {"day": "2026-11-23"})
    ...     days = cd.open_summary(store).load()
    >>> days.day.values.tolist(), cd.evaluate(days, metrics=cd.ECE(bins=2)).ece.values.round(6).tolist()
    (['2026-11-23', '2026-11-24'], [0.2, 0.3])
    """
    added = Summary.passed_to("append", summary)
    if replace is not None and not replace.strip():
        raise ValueError("replace expects the reason for replacing periods, got an empty text.")
    check_unicode("replace", [replace])
    target = PeriodStore.at(os.fspath(store))
    replacing = replace is not None
    begun = target.log(recover=replacing)
    name, parts = _parts(added, period, begun.periods)
    labels = [*parts]
    parts = _as_stored(parts, target, begun)
    first = Summary.of(parts[labels[0]])
    # Before anything is written, and again where others were faster.
    target.check_new(begun, name, labels, replacing=replacing)
    target.check_fits(begun, first, labels)
    for part in parts.values():
        _check_numbers(part)
    stay = notes_of(one for one in begun.periods.values() if one.label not in labels)
    RowNotes.merged([stay, added.notes]).others.warn(of_summary=True)

    def change(log: PeriodLog, added: tuple[Period, ...]) -> PeriodChange:
        target.check_new(log, name, labels, replacing=replacing)
        if not begun.periods:
            target.check_fits(log, first, labels)
        united_slices([*log.sorted, *added])
        there = [label for label in labels if label in log.periods]
        # What was merged into an old one is not to be added beside the new one.
        merged = {label: log.periods[label].merged for label in there}
        periods = tuple(dataclasses.replace(one, merged=merged.get(one.label, ())) for one in added)
        return PeriodChange(name, "replace" if there else "append", periods, tuple(there), replace or "")

    target.add([*parts.values()], change, recover=replacing, begun=begun)


def drop_periods(store: str | os.PathLike[str], periods: Sequence[Label], reason: str) -> None:
    """Remove periods from a stored summary, such as a day whose files are damaged or whose rows were wrong.

    Parameters
    ----------
    store : str or path
        Where `calibdask.append` adds periods.
    periods : sequence of str or int
        Their labels.
    reason : str
        The reason for the removal. It is stored with the time, in the attribute ``history`` of the summary.

    Raises
    ------
    ValueError
        If the store or the period does not exist, or the reason is empty. The store remains unchanged.

    Notes
    -----
    The period is not read, so a period with missing or damaged files can be removed as well. Its files are removed
    by a call of `append` after a day. This also gives up records that were lost at the end of the log.

    Examples
    --------
    >>> import os, tempfile
    >>> import calibdask as cd
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = os.path.join(folder, "summary.zarr")
    ...     for day in ("2026-11-23", "2026-11-24"):
    ...         cd.append(cd.summarize([0, 1], [0.2, 0.4], settings=["binary"]), store, {"day": day})
    ...     cd.drop_periods(store, ["2026-11-23"], reason="test rows")
    ...     cd.open_summary(store).day.values.tolist()
    ['2026-11-24']
    """
    if not reason.strip():
        raise ValueError("reason expects the reason for removing periods, got an empty text.")
    check_unicode("reason", [reason])
    target = PeriodStore.at(os.fspath(store))
    if not target.log(recover=True).periods:
        raise ValueError(f"{target.location.url} expects a store with periods added by calibdask.append, got none.")

    def change(log: PeriodLog) -> PeriodChange:
        # Earlier versions took labels that are refused now.
        removed = [
            label if label in log.periods else labels_of(log.dimension, [label], log.periods)[0] for label in periods
        ]
        if unknown := [label for label in removed if label not in log.periods]:
            there = listed([period.label for period in log.sorted])
            raise ValueError(f"{target.location.url} has no {log.dimension} {listed(unknown)}; it has {there}.")
        return PeriodChange(log.dimension, "drop", (), tuple(dict.fromkeys(removed)), reason)

    commit_after_loss(target.location, change)


def recover_periods(store: str | os.PathLike[str], reason: str) -> dict[str, Any]:
    """Take a stored summary with a damaged log back to its last intact state.

    Parameters
    ----------
    store : str or path
        Where `calibdask.append` adds periods.
    reason : str
        Why it is recovered. It is kept, with the time, in the attribute ``history`` of the summary that is read.

    Returns
    -------
    dict
        ``damaged``: the files of the log that were damaged or missing; if it is empty, nothing was changed. ``date``:
        when the last record of the state was written. ``undone``: periods that intact records behind the first damaged
        one added, replaced or removed. ``missing``: periods of the state whose numbers are gone or damaged; they are
        left out. ``lost``: files with numbers that do not belong to the state; the next `append` after a day removes
        them. ``periods``: all periods of the store now.

    Raises
    ------
    ValueError
        If there is no such store, or no intact state; if the reason is empty.
    calibdask.errors.Unavailable
        If the store does not respond.

    Notes
    -----
    The state is the one after the last record before the first damaged one. Later records are undone even if they are
    intact, because the damaged one may have merged, replaced or removed their periods: periods that were removed or
    replaced since then are back as they were. Compare ``periods`` with the ones you expect, and append the others
    again. If there is a copy of the damaged file, restore it instead of recovering. No file of the log is removed. Stop
    all other writers first.

    Examples
    --------
    >>> import os, tempfile
    >>> from pathlib import Path
    >>> import calibdask as cd
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = os.path.join(folder, "summary.zarr")
    ...     for day in ("2026-11-23", "2026-11-24"):
    ...         cd.append(cd.summarize([0, 1], [0.2, 0.4], settings=["binary"]), store, {"day": day})
    ...     written = Path(store, "log", "00000001.jsonl").write_text("lost in a crash")
    ...     found = cd.recover_periods(store, "the disk was full")
    ...     days = cd.open_summary(store).day.values.tolist()
    >>> found["damaged"], len(found["lost"]), days
    (['log/00000001.jsonl'], 1, ['2026-11-23'])
    """
    if not reason.strip():
        raise ValueError("reason expects why the store is recovered, got an empty text.")
    check_unicode("reason", [reason])
    found = recover(PeriodStore(Location.parse(os.fspath(store))), reason)
    values = {one.name: getattr(found, one.name) for one in dataclasses.fields(found)}
    return {name: value if isinstance(value, str) else [*value] for name, value in values.items()}


def expire(store: str | os.PathLike[str], after: str | int = "90d", into: str = "month") -> dict[str, list[str]]:
    """Merge old periods of a stored summary into coarser ones, such as days into months.

    Parameters
    ----------
    store : str or path
        A store of `calibdask.append` whose periods are dates.
    after : str or int, default "90d"
        A coarser period is merged once it ended this many days before the start of the latest stored period; the clock
        is not used.
    into : {"day", "month", "year"}, default "month"
        The coarser period, labelled by the first part of the date: ``"2026-08"``.

    Returns
    -------
    dict
        The merged periods, by the coarser periods that now contain them. The attribute ``history`` of the summary lists
        them as well.

    Raises
    ------
    ValueError
        If the store does not exist, its periods are not dates, or another process has changed them meanwhile; if
        ``after`` or ``into`` is invalid.

    Notes
    -----
    Sums over all periods stay the same, to the last bit without weights. A coarser period is sorted among the finer
    ones by its label, ``"2026-08" < "2026-09-01"``. None of its days can be added any more, whether or not it existed:
    to change a month, replace it by a summary of all of its rows. Memory: a coarser period, and one variable of a finer
    one at a time. The files of merged periods are removed by a call of `append` or `expire` after a day, so that
    current readers can finish.

    For `calibdask.watch` a month is a single period, within which it learns nothing. A state that includes the days
    continues from them: it uses only later periods.

    Examples
    --------
    >>> import os, tempfile
    >>> import calibdask as cd
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = os.path.join(folder, "summary.zarr")
    ...     for day in ("2026-08-30", "2026-08-31", "2026-12-01"):
    ...         cd.append(cd.summarize([0, 1], [0.2, 0.4], settings=["binary"]), store, {"day": day})
    ...     merged = cd.expire(store, "90d")
    ...     summary = cd.open_summary(store).load()
    >>> merged, summary.day.values.tolist(), summary.rows.values.tolist()
    ({'2026-08': ['2026-08-30', '2026-08-31']}, ['2026-08', '2026-12-01'], [4, 2])
    """
    days = re.fullmatch(r"(\d+)d", after) if isinstance(after, str) else None
    if days is None and (not isinstance(after, int) or after < 0):
        raise ValueError(f"after expects a number of days such as '90d', got {after!r}.")
    if into not in COARSER:
        raise ValueError(f"into expects one of {listed(COARSER)}, got {into!r}.")
    target = PeriodStore.at(os.fspath(store))
    log = target.log()
    if not log.periods:
        raise ValueError(f"{target.location.url} expects a store with periods added by calibdask.append, got none.")
    notes_of(log.sorted).others.warn(of_summary=True)
    groups = coarser(log.periods, int(after if days is None else days[1]), into)
    damage: list[Damaged] = []
    for name, labels in groups.items():
        try:
            _merge_periods(target, log, name, labels)
        except Damaged as error:
            damage.append(error)
    if damage:
        # All other groups are merged by now.
        raise damage[0]
    return groups


def _merge_periods(target: PeriodStore, log: PeriodLog, name: str, labels: Sequence[str]) -> None:
    """Put one coarser period in the place of finer ones."""
    finer = [log.periods[label] for label in labels]
    parts = [target.part(one).isel({log.dimension: 0}, drop=True) for one in finer]
    batch = Summary.of(parts[0]).batch
    whole = merged_summary([Summary.of(with_totals(part, batch)) for part in parts])
    merged = [label for one in finer for label in (*one.merged, one.label) if label != name]

    def change(now: PeriodLog, added: tuple[Period, ...]) -> PeriodChange:
        if [one.folder for one in finer] != [
            now.periods[label].folder if label in now.periods else "" for label in labels
        ]:
            raise ValueError(
                f"Another process has changed {name} of {target.location.url} meanwhile; call expire again."
            )
        return PeriodChange(log.dimension, "expire", added, tuple(labels))

    part = _of_one(Summary.of(whole), log.dimension, name)
    target.add([part], change, merged=[*dict.fromkeys(map(str, merged))])


def _parts(
    summary: Summary, period: str | Mapping[str, Any], stored: Iterable[Label]
) -> tuple[str, dict[Label, xr.Dataset]]:
    """The name of the periods, and the summary of each by its label, which is spelled as those that are stored."""
    if isinstance(period, Mapping):
        if len(period) != 1:
            raise ValueError(f"period expects one name and label, such as {{'day': '2026-11-22'}}, got {dict(period)}.")
        ((name, value),) = period.items()
        if name in summary.dataset.variables or name in summary.dataset.dims:
            raise ValueError(
                f"The summary has something called {name!r} already; give period={name!r} if its labels are periods, "
                "or another name."
            )
        (label,) = labels_of(name, [value], stored)
        return name, {label: _of_one(summary, name, label)}
    if period not in summary.slices:
        raise ValueError(
            f"period expects one of the slices of the summary, {listed(summary.slices) or 'none'}, got {period!r}; of "
            f"a summary of one period give {{{period!r}: '2026-11-22'}}."
        )
    labels = labels_of(period, summary.dataset[period].values, stored)
    notes = summary.notes.of_periods(labels)
    singles = (summary.dataset.isel({period: at}, drop=True) for at in range(len(labels)))
    parts = (Summary.of(with_notes(with_totals(one, summary.batch), notes)) for one in singles)
    return period, {label: _of_one(part, period, label) for label, part in zip(labels, parts, strict=True)}


def _of_one(summary: Summary, name: str, label: Label) -> xr.Dataset:
    """The summary with a dimension of one period, in the order in which it is stored."""
    dataset = summary.dataset
    slices = sorted(summary.slices)
    for dim in slices:
        index = dataset.indexes.get(dim)
        mixed = index is not None and index.dtype == object and not all(isinstance(label, str) for label in index)
        if index is None or mixed or not index.is_unique:
            raise ValueError(
                f"append expects labels along the slices {dim!r}, each once, texts, numbers or dates; give them by "
                "assign_coords, or unite slices by calibdask.merge."
            )
    sums = [str(variable) for variable in dataset.data_vars if variable not in TOTALS]
    expanded = dataset.assign({variable: dataset[variable].expand_dims({name: [label]}) for variable in sums})
    return with_totals(expanded.transpose(*summary.batch, name, *slices, ...), summary.batch).load()


def _as_stored(parts: dict[Label, xr.Dataset], target: PeriodStore, log: PeriodLog) -> dict[Label, xr.Dataset]:
    """Drop cluster weights of the parts if the store was begun without them, by an earlier version.

    Raises
    ------
    ValueError
        If the store has them, and the parts do not.
    """
    extra = {label: weighted_names(part.data_vars) for label, part in parts.items()}
    clustered = any(bucket_view(part) is not None for part in parts.values())
    stored = target.readable(log, parts) if clustered or any(extra.values()) else None
    if stored is None or (WEIGHT_PERIODS in stored.dataset) == all(extra.values()):
        return parts
    if WEIGHT_PERIODS in stored.dataset:
        raise ValueError(
            "append expects a summary in which each cluster counts once in a period, as the store has it; got one that "
            "has only buckets of clusters. Summarize arrays, a file or a reader that can be read twice, with this "
            "version."
        )
    return {label: part.drop_vars(extra[label]) for label, part in parts.items()}


def _check_numbers(part: xr.Dataset) -> None:
    """Raise ValueError unless histograms and score sums agree with the number of rows."""
    for one in (part, cluster_weighted(part)):
        for state in () if one is None else stored_states(one).values():
            state()
    scores = Summary.of(part).source.scores
    if scores is not None:
        scores()
