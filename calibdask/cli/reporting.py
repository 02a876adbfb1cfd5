"""Shared code of commands that write reports: names of models, measurement, and the page."""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from calibdask.cli.command_line import repeatable_command
from calibdask.cli.data_names import size_of, source_of
from calibdask.cli.option_names import shown_warnings
from calibdask.cli.rows_request import RowsRequest, feature_names, rows_of
from calibdask.safe_text import visible

if TYPE_CHECKING:
    from pathlib import Path

    import xarray as xr

    from calibdask.analyses.gating.check import Check
    from calibdask.data.options import PopulationKeywords
    from calibdask.report import Measured
    from calibdask.report.over_time import Watching
    from calibdask.storage.open_store import Store
    from calibdask.storage.row_table import RowTable
    from calibdask.storage.summary import Summary

# Replicates of a comparison for each further model, times the level of its tests.
_REPLICATES = 8


def measured(
    name: str,
    request: RowsRequest,
    store: "Store",
    table: "RowTable | None" = None,
    *,
    watching: "Watching | None" = None,
    **options: Any,
) -> "dict[str, Measured]":
    """Measured models of an opened store by name: one for scored rows, all models of a summary.

    ``table`` are the rows, if they were read; ``watching`` and ``options`` are of `calibdask.report.measure`.
    """
    from calibdask.cluster import connected
    from calibdask.progress import shown_progress
    from calibdask.storage.summary import Summary

    options |= {"source": source_of(request), "watching": watching}
    with connected(request.cluster), shown_progress(f"measuring {name}"), shown_warnings():
        if isinstance(store, Summary):
            models = models_of_summary(name, request, store, **options)
        else:
            if table is None:
                table = with_periods(request, watching).table(rows_of(store))
            models = models_of_rows(name, request, table, **options)
    for pending in dict.fromkeys(model.over_time.unused_rows for model in models.values() if model.over_time):
        if pending:
            click.echo(f"calibdask: left out {visible(pending)}, whose outcomes are not all known", err=True)
    return models


def with_audit(
    models: "dict[str, Measured]",
    request: RowsRequest,
    store: "Store",
    features: tuple[str, ...],
    watching: "Watching | None" = None,
) -> "dict[str, Measured]":
    """The model with an audit of its groups: by these columns, or as a summary with features has them.

    Raises
    ------
    click.UsageError
        If a summary has its features already, or there are several models.
    """
    from dataclasses import replace

    import calibdask as cd
    from calibdask.progress import shown_progress
    from calibdask.storage.summary import Summary

    if isinstance(store, Summary):
        if features:
            raise click.UsageError(f"--features has no effect on {request.data}: it is a stored summary.")
        if store.cuts is None or store.batch:
            return models
        result = cd.audit(store.dataset)
    elif not features:
        return models
    else:
        if len(models) > 1:
            raise click.UsageError("--features expects one model per DATA, got one for each label.")
        rows = rows_of(store)
        table = replace(request, by=(), feature_columns=feature_names(request, rows, features)).table(rows)
        with request.connected(table), shown_progress("auditing"), shown_warnings():
            result = cd.audit(table, **request.reading)
    due = None if watching is None else watching.due
    notes = [] if due is None else ["The audit of subgroups includes rows of pending periods."]
    return {name: replace(model, audited=result, notes=(*model.notes, *notes)) for name, model in models.items()}


def with_periods(request: RowsRequest, watching: "Watching | None") -> RowsRequest:
    """A request that reads periods and versions too, if calibration is monitored over time."""
    from dataclasses import replace

    if watching is None:
        return request
    if request.weight is not None:
        raise click.UsageError("--period has no effect with --weight: bets on outcomes need the weight of each row.")
    return replace(request, by=tuple(dict.fromkeys((*request.by, *watching.names))))


def models_of_rows(
    name: str, request: RowsRequest, table: "RowTable", *, check: "Check | None" = None, **options: Any
) -> "dict[str, Measured]":
    """The model of scored rows, measured; where every class is a problem of its own, each class like a model."""
    from dataclasses import replace

    import calibdask as cd
    from calibdask.data.data import Data
    from calibdask.data.options import InputOptions
    from calibdask.report import measure

    watching = options.get("watching")

    def model(labels: Any, scores: Any, reading: "PopulationKeywords") -> "Measured":
        own = replace(table, labels=labels, scores=scores)
        given = measure(own, reading=reading, check=check, **options)
        if check is not None:
            periods = () if watching is None else watching.names
            unwatched = {name: codes for name, codes in own.by.items() if name not in periods}
            data = Data.of(replace(own, by=unwatched), options=InputOptions(**reading))
            receipt = given.receipt
            fingerprint = cd.fingerprint(data) if receipt is None else receipt["data"]["fingerprint"]
            given = replace(given, fingerprint=fingerprint)
        over_time = given.over_time
        pending = over_time.pending if over_time is not None and over_time.unused_rows else None
        used = int(given.result.attrs["rows"]) + (0 if pending is None else int(pending.rows.sum()))
        request.note_excluded(given.excluded, used)
        size = size_of(request.data)
        return replace(given, weights=request.weight or "", notes=(*given.notes, *request.notes), size=size)

    if request.task != "multilabel":
        return {name: model(table.labels, table.scores, request.reading_of_population)}
    if request.population is not None:
        raise click.UsageError("--prevalence has no effect with --task multilabel: every class has its own.")
    shape = request.shape(table)
    names = request.reading.get("labels") or table.names.classes or list(range(shape.columns or 0))
    reading: PopulationKeywords = {"task": "binary", "logits": request.logits}
    return {
        f"{name} {words}": model(table.labels[:, number], table.scores[:, number], reading)
        for number, words in enumerate(names)
    }


def models_of_summary(name: str, request: RowsRequest, summary: "Summary", **options: Any) -> "dict[str, Measured]":
    """The models of a summary, measured; with ``--by`` by the slices that it names, otherwise by all."""
    from calibdask.cli.rows_request import pooled, refuse_row_options
    from calibdask.report import measure
    from calibdask.results.values import named_strata
    from calibdask.storage.summary import Summary

    refuse_row_options(request)
    if options.get("with_receipt"):
        raise click.UsageError("--receipt needs rows; a summary has none.")
    watching = options.get("watching")
    by = request.by
    if by and watching is not None:
        # The version may be a coordinate of the periods.
        by = tuple(dict.fromkeys((*by, *(name for name in watching.names if name in summary.slices))))
    kept = pooled(summary, by) if by else summary
    models = {}
    for words, dataset in named_strata(kept.dataset, kept.batch):
        model = Summary.of(dataset)
        models[words or name] = measure(model, by=by or None, **options)
    return models


def write_models(
    part: "Path",
    models: "Mapping[str, Measured]",
    title: str | None = None,
    facts: "Mapping[str, str] | None" = None,
    compared: "xr.Dataset | str" = "",
) -> None:
    """Write the page."""
    from calibdask.report import write_report

    write_report(part, models, title=title or None, command=repeatable_command(), facts=facts, compared=compared)


def compared_models(
    requests: Mapping[str, RowsRequest],
    stores: "Mapping[str, Store]",
    watching: "Watching | None" = None,
    **options: Any,
) -> Any:
    """Result of `calibdask.compare` for several files against the first one, or the reason why it is impossible.

    Rows are resampled, as far as reports do that for other numbers.
    """
    import calibdask as cd
    from calibdask.cli.model_data import same_rows
    from calibdask.cluster import connected
    from calibdask.progress import shown_progress
    from calibdask.report.measuring import MOST_RESAMPLED
    from calibdask.report.over_time import due_rows
    from calibdask.storage.summary import Summary

    first, *others = requests.values()
    if not others:
        return ""
    if any(isinstance(store, Summary) for store in stores.values()):
        return "that takes scored rows, and a summary has none."
    if first.task == "multilabel":
        return "every class is evaluated separately here; see calibdask compare."
    with connected(first.cluster), shown_progress("comparing"), shown_warnings():
        try:
            stored = {name: rows_of(store) for name, store in stores.items()}
            requests = {name: with_periods(request, watching) for name, request in requests.items()}
            tables = same_rows("a comparison", requests, stored)
            rows = next(iter(tables.values()))
            models = {name: table.scores for name, table in tables.items()}
            # Enough for p-values that are small after adjustment for the number of models.
            least = math.ceil(_REPLICATES * len(others) / (1 - options["ci"]))
            options["n_boot"] = max(options["n_boot"], least)
            if math.prod(rows.scores.shape) * options["n_boot"] > MOST_RESAMPLED:
                return f"resampling {rows.scores.shape[0]:,} rows would take minutes; calibdask compare does it."
            data = due_rows(first.data_of(rows).with_scores(models), watching)
            return cd.compare(data.sliced(()), **options)
        except (ValueError, click.UsageError) as reason:
            return reason.message if isinstance(reason, click.UsageError) else str(reason)
