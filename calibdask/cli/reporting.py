"""What commands that write reports have in common: models by their names, measured, and the page."""

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

import click

from calibdask.cli.choices import is_whole
from calibdask.cli.metrics import CURVE, DIAGRAM
from calibdask.cli.rows import RowsRequest, noted, stem_of

if TYPE_CHECKING:
    from pathlib import Path

    from calibdask.report import Measured

__all__ = ["Remembering", "command_line", "measured", "named_data", "write_evaluation", "write_models"]

_LEVEL = 0.95
_WORDS = "calibdask.words"


def named_data(given: Sequence[str]) -> dict[str, str]:
    """Files by the name of their model: ``NAME=FILE``, or the name of the file without its suffixes.

    Raises
    ------
    click.UsageError
        If two would have the same name.

    Examples
    --------
    >>> named_data(["forest=a/rows.csv", "b/logistic.parquet", "s3://bucket/x=1/part.csv.gz"])
    {'forest': 'a/rows.csv', 'logistic': 'b/logistic.parquet', 'part': 's3://bucket/x=1/part.csv.gz'}
    """
    found: dict[str, str] = {}
    for words in given:
        name, equals, data = words.partition("=")
        if not (name and equals and data) or "/" in name:
            name, data = stem_of(words), words
        if name in found:
            raise click.UsageError(
                f"{found[name]} and {data} would both be called {name!r}; name one of them, as in NAME={data}."
            )
        found[name] = data
    return found


def measured(
    name: str,
    request: RowsRequest,
    metrics: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = None,
    **options: Any,
) -> "dict[str, Measured]":
    """The models in a file, by their names: one of scored rows, those of a summary.

    ``metrics`` makes those that are wanted from those that the data have by default; ``options`` are of
    `calibdask.report.measure`.
    """
    from calibdask.cluster import connected
    from calibdask.engine.summary_files import open_summary
    from calibdask.progress import shown_progress

    summary = open_summary(request.data)
    options["source"] = PurePosixPath(request.data.rstrip("/")).name
    with connected(request.cluster), shown_progress(f"measuring {name}"), noted():
        if summary is None:
            return {name: _of_rows(request, metrics, options)}
        with summary:
            return dict(_of_summary(name, request, summary, metrics, options))


def _of_rows(request: RowsRequest, metrics: Callable[..., Any] | None, options: dict[str, Any]) -> "Measured":
    from dataclasses import replace

    from calibdask.estimators.panel import default_metrics
    from calibdask.report import measure

    table = request.table()
    chosen = None if metrics is None else metrics(default_metrics(table.classes, table.vector))
    found = measure(table.labels, table.scores, chosen, by=table.by, sample_weight=table.weights, **options)
    return replace(found, weights=request.weight or "")


def _of_summary(
    name: str, request: RowsRequest, summary: Any, metrics: Callable[..., Any] | None, options: dict[str, Any]
) -> "Iterator[tuple[str, Measured]]":
    """Each of its models; with ``--by`` the slices that it names, otherwise all."""
    from calibdask.cli.stored import panel, pooled, refuse_row_options
    from calibdask.engine.summaries import extra_dims
    from calibdask.readout import parts
    from calibdask.report import measure

    refuse_row_options(request)
    kept = pooled(summary, request.by, request.data) if request.by else summary
    for words, one in parts(kept, extra_dims(kept)):
        chosen = None if metrics is None else metrics(panel(one, options.get("setting")))
        yield words or name, measure(one, metrics=chosen, **options)


class Remembering(click.Command):
    """A command that knows the words it was called with, for whoever wants to call it again."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Keep them, and read them."""
        ctx.meta[_WORDS] = tuple(args)
        return super().parse_args(ctx, args)


def command_line() -> str:
    """The command that is running, as it was typed."""
    context = click.get_current_context()
    return shlex.join(["calibdask", str(context.info_name), *context.meta[_WORDS]])


def write_models(
    part: "Path",
    models: "Mapping[str, Measured]",
    title: str | None = None,
    *,
    limit: float | None = None,
    slice_limit: float | None = None,
) -> None:
    """Write the page."""
    from calibdask.report import write_report

    options: dict[str, Any] = {"limit": limit, "slice_limit": slice_limit}
    write_report(part, models, title=title or None, command=command_line(), **options)


def write_evaluation(
    part: "Path",
    request: RowsRequest,
    chosen: Mapping[str, Any],
    options: Mapping[str, Any],
    intervals: Mapping[str, Any],
) -> None:
    """Write the page of ``calibdask evaluate --report``: what was evaluated, with all that a report adds to it."""
    setting = options["setting"]
    drawn = {} if is_whole(setting) else {"setting": setting, "k": options["k"]}
    wanted = {name: each for name, each in chosen.items() if name not in (DIAGRAM, CURVE)}
    write_models(
        part, measured(stem_of(request.data), request, lambda _: wanted, **drawn, **{"ci": _LEVEL, **intervals})
    )
