"""The command of an analysis, derived from its description: options, help, output and exit status."""

from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any

import click

from calibdask.cli.data_names import source_of
from calibdask.cli.feature_names import feature_names
from calibdask.cli.help_groups import GroupedCommand
from calibdask.cli.metric_options import first_clause, option_metavar
from calibdask.cli.param_types import ChoiceType
from calibdask.cli.population_options import population_options
from calibdask.cli.results import RESULTS, write_result
from calibdask.cli.row_options import RowsRequest, by_option, place_options, rows_of, shown_warnings, weight_option
from calibdask.estimators.choice import Choice
from calibdask.estimators.signatures import AnalysisSignature, analysis_signatures
from calibdask.safe_text import visible

if TYPE_CHECKING:
    import xarray as xr

    from calibdask.analyses.analysis import Analysis
    from calibdask.data.data import Data
    from calibdask.results.document import Document
    from calibdask.storage.atomic_replace import Output
    from calibdask.storage.open_store import Store

# Beside datasets, documents can be written.
FORMATS = (*RESULTS, ".md", ".txt")
# Exit statuses by outcome.
STATUSES = {"met": 0, "found": 1, "undecided": 3}
_FEATURES = click.option(
    "--features",
    metavar="NAME[,...]|all",
    multiple=True,
    help="Columns that describe subgroups, repeatable; all: every column besides labels, scores and weights.",
)


def analysis_command(word: str) -> click.Command:
    """The command of an analysis that is in the catalogue.

    Its options are the fields of the analysis, then those of the rows, and ``--json``, ``--out`` and ``--overwrite``.
    """
    signature = analysis_signatures()[word]

    def run(data: str, as_text: bool, out: str | None, report: str | None, overwrite: bool, **options: Any) -> int:
        choices = {name: options.pop(name) for name in signature.choices}
        features = options.pop("features", ())
        request = RowsRequest(data=data, **{"weight": None, "by": (), **options})
        files = OutputFiles.checked(request.data, out, report, overwrite=overwrite)
        return run_analysis(signature, request, choices, features, files, as_text=as_text)

    command: Any = run
    for option in reversed(_output_options()):
        command = option(command)
    command = _data_options(signature)(command)
    for choice in reversed(list(signature.choices.values())):
        command = _field_option(choice, is_required=choice.name in signature.required)(command)
    command = click.argument("data", metavar="DATA")(command)
    help_text = "\n\n".join(filter(None, (signature.summary, signature.details)))
    decorate = click.command(
        word, cls=GroupedCommand, help=help_text, epilog=_epilog(signature), examples=signature.examples
    )
    made: click.Command = decorate(command)
    return made


def _data_options(signature: AnalysisSignature) -> Any:
    """The options of rows that the analysis has a use for."""
    chosen: list[tuple[Any, bool]] = [
        (_FEATURES, signature.features),
        (by_option, signature.slices),
        (weight_option, signature.weights),
        (population_options, signature.population),
    ]

    def decorate(command: Any) -> Any:
        command = place_options(command)
        for option in reversed([option for option, is_used in chosen if is_used]):
            command = option(command)
        return command

    return decorate


def _output_options() -> list[Any]:
    return [
        click.option("--json", "as_text", is_flag=True, help="Print JSON."),
        click.option("--out", metavar="FILE", help=f"Write the result: {', '.join(FORMATS)}."),
        click.option("--report", metavar="FILE", help="Also write a page: .html."),
        click.option("--overwrite", is_flag=True, help="Replace existing --out and --report files."),
    ]


def _field_option(choice: Choice, *, is_required: bool) -> Any:
    names = [f"--{choice.name.replace('_', '-')}", choice.name]
    text = first_clause(choice.description)
    if choice.is_flag:
        return click.option(*names, is_flag=True, default=choice.default, help=f"{text}.")
    value_type = ChoiceType(choice)
    if is_required:
        return click.option(*names, type=value_type, metavar=option_metavar(choice), required=True, help=f"{text}.")
    return click.option(
        *names,
        type=value_type,
        metavar=option_metavar(choice),
        default=choice.default,
        show_default=choice.default is not None,
        help=f"{text}.",
    )


def _epilog(signature: AnalysisSignature) -> str:
    """The shape of the JSON, and the exit status."""
    parts = []
    if signature.json_shape:
        shape = "\n".join(f"  {line}" for line in signature.json_shape.splitlines())
        parts.append(f"\b\nJSON (--json, --out FILE.json):\n{shape}")
    statuses = [f"{STATUSES[outcome]} {meaning}" for outcome, meaning in signature.statuses.items()]
    statuses += ["2 invalid use or input, explained in one line on stderr, with nothing written", "130 interrupted"]
    statuses.sort(key=lambda text: int(text.partition(" ")[0]))
    parts.append(f"Exit status: {'; '.join(statuses)}.")
    return "\n\n".join(parts)


@dataclass(frozen=True)
class OutputFiles:
    """The files to write."""

    out: "Output | None"
    report: "Output | None"

    @classmethod
    def checked(cls, data: str, out: str | None, report: str | None, *, overwrite: bool) -> "OutputFiles":
        """Files that may be written."""
        from calibdask.storage.writers import check_apart, checked_output

        check_apart(data, {"--out": out, "--report": report})
        return cls(
            None if out is None else checked_output(out, FORMATS, overwrite=overwrite),
            None if report is None else checked_output(report, (".html",), overwrite=overwrite),
        )


def run_analysis(
    signature: AnalysisSignature,
    request: RowsRequest,
    choices: dict[str, Any],
    features: tuple[str, ...],
    files: OutputFiles,
    *,
    as_text: bool,
) -> int:
    """Compute, write, print; the exit status."""
    from calibdask.cli.tables import json_text, print_document

    analysis: Analysis = signature.constructor(**choices)
    result = _result(analysis, request, request.opened(), features)
    # Pages and terminals show the same document, which JSON does without.
    document = cache(lambda: analysis.document(result))

    def in_json() -> str:
        return json_text(analysis.to_json(result))

    with ExitStack() as written:
        if files.out is not None:
            write_result(result, in_json, written, files.out, document=document)
        if files.report is not None:
            _write_page(document(), result.attrs.get("rows"), request, written, files.report)
    if as_text:
        click.echo(in_json())
    else:
        print_document(document())
        for path in filter(None, (files.out, files.report)):
            click.echo(f"wrote {visible(path)}")
    return STATUSES[analysis.outcome(result)]


def _result(analysis: "Analysis", request: RowsRequest, store: "Store", features: tuple[str, ...]) -> "xr.Dataset":
    """The result of rows, or of a summary."""
    from calibdask.progress import shown_progress
    from calibdask.storage.summary import Summary

    if isinstance(store, Summary):
        if features:
            raise click.UsageError(
                f"--features has no effect on {request.data}: it is a stored summary, whose columns are cut already."
            )
        with store.dataset, shown_warnings():
            return analysis.run(_summary_data(analysis, request, store))
    rows = rows_of(store)
    with shown_warnings():
        if analysis.features:
            request = replace(request, feature_columns=feature_names(request, rows, features))
        table = request.table(rows)
        with request.connected(table), shown_progress(f"computing: {analysis.name}"):
            result = analysis.run(_rows_data(analysis, request, table))
            request.note_excluded(result.attrs)
            return result


def _rows_data(analysis: "Analysis", request: RowsRequest, table: Any) -> "Data":
    if not analysis.features:
        return request.data_of(table)
    from calibdask.data.named_features import data_with_features
    from calibdask.data.options import InputOptions

    return data_with_features(table, None, None, None, InputOptions(**request.reading))


def _summary_data(analysis: "Analysis", request: RowsRequest, summary: Any) -> "Data":
    from calibdask.cli.summary_input import pooled, refuse_row_options
    from calibdask.data.data import Data

    refuse_row_options(request)
    if analysis.features:
        # Segments take the place of slices, which are added up.
        return Data(summary=summary)
    return Data.of(pooled(summary, request.by), by=request.by)


def _write_page(document: "Document", rows: Any, request: RowsRequest, written: ExitStack, target: "Output") -> None:
    from calibdask.cli.command_line import repeatable_command
    from calibdask.report.writing import write_analysis_report
    from calibdask.storage.atomic_replace import atomic_replacement

    part = written.enter_context(atomic_replacement(target))
    source = source_of(request)
    write_analysis_report(part, document, rows=rows, source=source, command=repeatable_command())


def analysis_commands() -> Iterable[click.Command]:
    """The commands of all analyses that follow the pattern."""
    return map(analysis_command, analysis_signatures())
