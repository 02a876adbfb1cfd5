"""What commands that write reports share: models by their names, measured, and the page."""

import math
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

import click

from calibdask.cli.feature_names import feature_names
from calibdask.cli.gates import gated_rows, gated_summary
from calibdask.cli.metrics import PICTURES
from calibdask.cli.param_types import is_whole
from calibdask.cli.row_options import RowsRequest, noted, rows_of, skipped_rows, stem_of
from calibdask.safe_text import visible, without_credentials

if TYPE_CHECKING:
    import xarray as xr

    from calibdask.cli.gates import Gating
    from calibdask.engine.inputs.options import InputKeywords
    from calibdask.report import Measured
    from calibdask.report.over_time import Watching
    from calibdask.storage.open_store import Store
    from calibdask.storage.readers import Table
    from calibdask.storage.summary import Summary

_LEVEL, _UNIT = 0.95, 1000
_WORDS = "calibdask.words"
# Replicates of a comparison for each further model, times the level of its tests.
_REPLICATES = 8
# Options whose files are written.
_OUTPUTS = ("--out", "--report", "--receipt")


def named_data(given: Sequence[str]) -> dict[str, str]:
    """Files by the name of their model: ``NAME=FILE``, or the name of the file without its suffixes.

    What exists under the whole word is a file, such as ``day=1.csv``.

    Raises
    ------
    click.UsageError
        If two would have the same name.

    Examples
    --------
    >>> named_data(["forest=a/rows.csv", "b/logistic.parquet", "s3://bucket/x=1/part.csv.gz"])
    {'forest': 'a/rows.csv', 'logistic': 'b/logistic.parquet', 'part': 's3://bucket/x=1/part.csv.gz'}
    """
    files: dict[str, str] = {}
    for words in given:
        name, equals, data = words.partition("=")
        if Path(words).exists() or not (name and equals and data) or "/" in name:
            name, data = stem_of(words), words
        if name in files:
            raise click.UsageError(
                f"{files[name]} and {data} would both be called {name!r}; name one of them, as in NAME={data}."
            )
        files[name] = data
    return files


def measured(
    name: str, request: RowsRequest, store: "Store", *, watching: "Watching | None" = None, **options: Any
) -> "dict[str, Measured]":
    """The models in a store that was opened, by their names: one of scored rows, those of a summary.

    ``watching`` and ``options`` are of `calibdask.report.measure`.
    """
    from calibdask.cluster import connected
    from calibdask.progress import shown_progress
    from calibdask.storage.summary import Summary

    options |= {"source": source_of(request), "watching": watching}
    with connected(request.cluster), shown_progress(f"measuring {name}"), noted():
        if isinstance(store, Summary):
            return models_of_summary(name, request, store, **options)
        if watching is not None:
            request = _with_periods(request, watching)
        return models_of_rows(name, request, request.table(rows_of(store)), **options)


def audited(
    models: "dict[str, Measured]", request: RowsRequest, store: "Store", features: tuple[str, ...]
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
            raise click.UsageError("--features expects one model of each DATA, got one for each label.")
        rows = rows_of(store)
        table = replace(request, by=feature_names(request, rows, features)).table(rows)
        with request.connected(table), shown_progress("auditing"), noted():
            result = cd.audit(table, **request.reading)
    return {name: replace(model, audited=result) for name, model in models.items()}


def _with_periods(request: RowsRequest, watching: "Watching") -> RowsRequest:
    """A request that reads periods and versions too."""
    from dataclasses import replace

    if request.weight is not None:
        raise click.UsageError("--period has no effect with --weight: bets on outcomes need the weight of each row.")
    return replace(request, by=tuple(dict.fromkeys((*request.by, *watching.names))))


def models_of_rows(
    name: str, request: RowsRequest, table: "Table", *, gating: "Gating | None" = None, **options: Any
) -> "dict[str, Measured]":
    """The model of scored rows, measured; where every class is a problem of its own, each class like a model."""
    from dataclasses import replace

    from calibdask.report import measure

    watching = options.get("watching")

    def model(labels: Any, scores: Any, reading: "InputKeywords") -> "Measured":
        given = measure(labels, scores, by=table.by, sample_weight=table.weights, reading=reading, **options)
        if gating is not None:
            given = gated_rows(given, labels, scores, table, reading, gating, watching)
        request.note_ignored(given.result.attrs)
        skipped = skipped_rows(table, given.result.attrs["rows"]).get("rows_skipped", 0)
        notes = [
            *request.notes,
            *([f"{skipped:,} rows without a label, a score or a weight were left out."] if skipped else []),
        ]
        size = size_of(request.data)
        return replace(given, weights=request.weight or "", notes=(*given.notes, *notes), size=size)

    if request.task != "multilabel":
        return {name: model(table.labels, table.scores, request.reading)}
    shape = request.shape(table)
    names = request.reading.get("labels") or table.names.classes or list(range(shape.columns or 0))
    reading: InputKeywords = {"task": "binary", "logits": request.logits}
    return {
        f"{name} {words}": model(table.labels[:, number], table.scores[:, number], reading)
        for number, words in enumerate(names)
    }


def models_of_summary(
    name: str, request: RowsRequest, summary: "Summary", *, gating: "Gating | None" = None, **options: Any
) -> "dict[str, Measured]":
    """The models of a summary, measured; with ``--by`` by the slices that it names, otherwise by all."""
    from calibdask.cli.summary_input import pooled, refuse_row_options
    from calibdask.report import measure
    from calibdask.results.values import named_strata
    from calibdask.storage.summary import Summary

    refuse_row_options(request)
    watching = options.get("watching")
    by = request.by
    if by and watching is not None:
        # The version may be a coordinate of the periods.
        by = tuple(dict.fromkeys((*by, *(name for name in watching.names if name in summary.slices))))
    kept = pooled(summary, by) if by else summary
    models = {}
    for words, dataset in named_strata(kept.dataset, kept.batch):
        model = Summary.of(dataset)
        given = measure(model, by=by or None, **options)
        models[words or name] = given if gating is None else gated_summary(given, model, by or model.slices, gating)
    return models


class Remembering(click.Command):
    """A command that remembers its arguments, so that reports can name the command that made them."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Keep them, and read them."""
        ctx.meta[_WORDS] = tuple(args)
        return super().parse_args(ctx, args)


def command_line() -> str:
    """The command that is running, as it was typed."""
    return _shown(click.get_current_context().meta[_WORDS])


def repeatable_command() -> str:
    """The command that is running, writing beside the files that it has written: it runs again as it is printed."""
    words = list(click.get_current_context().meta[_WORDS])
    for place, word in enumerate(words):
        option, equals, path = word.partition("=")
        if option not in _OUTPUTS:
            continue
        if equals:
            words[place] = f"{option}={_again(path)}"
        elif place + 1 < len(words):
            words[place + 1] = _again(words[place + 1])
    return _shown(words)


def _shown(words: Sequence[str]) -> str:
    name = str(click.get_current_context().info_name)
    return visible(shlex.join(map(without_credentials, ["calibdask", name, *words])))


def _again(path: str) -> str:
    """The name of another file beside this one."""
    stem, dot, suffix = path.rpartition(".")
    return f"{stem}-again.{suffix}" if dot else f"{path}-again"


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


def compared_models(requests: Mapping[str, RowsRequest], stores: "Mapping[str, Store]", **options: Any) -> Any:
    """What `calibdask.compare` gives of several files of the same rows, the first one the baseline; or why not.

    Rows are resampled, as far as reports do that for other numbers.
    """
    import calibdask as cd
    from calibdask.cli.same_rows import same_rows
    from calibdask.cluster import connected
    from calibdask.progress import shown_progress
    from calibdask.report.measuring import MOST_RESAMPLED
    from calibdask.storage.summary import Summary

    first, *others = requests.values()
    if not others:
        return ""
    if any(isinstance(store, Summary) for store in stores.values()):
        return "that takes scored rows, and a summary has none."
    if first.task == "multilabel":
        return "every class is a problem of its own here; see calibdask compare."
    with connected(first.cluster), shown_progress("comparing"), noted():
        try:
            stored = {name: rows_of(store) for name, store in stores.items()}
            tables = same_rows("a comparison", requests, stored, may_skip=True)
            rows = next(iter(tables.values()))
            scores = {name: table.scores for name, table in tables.items()}
            # Enough for p-values that are small after adjustment for the number of models.
            least = math.ceil(_REPLICATES * len(others) / (1 - options["ci"]))
            options["n_boot"] = max(options["n_boot"], least)
            if math.prod(rows.scores.shape) * options["n_boot"] > MOST_RESAMPLED:
                return f"resampling {rows.scores.shape[0]:,} rows would take minutes; calibdask compare does it."
            result = cd.compare(rows.labels, scores, sample_weight=rows.weights, **options, **first.reading)
            if rows.skipped is not None:
                result.attrs["rows_skipped"] = rows.skipped(result.attrs["rows"])
            return result
        except (ValueError, click.UsageError) as reason:
            return reason.message if isinstance(reason, click.UsageError) else str(reason)


def evaluation_options(
    request: RowsRequest, chosen: Mapping[str, Any], options: Mapping[str, Any], intervals: Mapping[str, Any]
) -> dict[str, Any]:
    """Options of `calibdask.report.measure` for ``calibdask evaluate --report``: what is evaluated is shown besides."""
    from calibdask.report.shown import Shown

    setting = options["setting"]
    return {
        "metrics": {name: metric for name, metric in chosen.items() if name not in PICTURES},
        **({} if is_whole(setting) else {"setting": setting, "k": options["k"]}),
        "ci": _LEVEL,
        **intervals,
        "source": source_of(request),
        "shown": Shown(chosen, intervals),
    }


def size_of(data: str) -> str:
    """How large a local file is, in words; empty for folders, patterns and URLs, which nobody has to list for it."""
    path = Path(data)
    if not path.is_file():
        return ""
    size, units = float(path.stat().st_size), ["bytes", "kB", "MB", "GB", "TB"]
    while size >= _UNIT and len(units) > 1:
        size, units = size / _UNIT, units[1:]
    return f"{size:.3g} {units[0]}"


def source_of(request: RowsRequest) -> str:
    """What a report calls the data."""
    return visible(PurePosixPath(without_credentials(request.data).rstrip("/")).name)
