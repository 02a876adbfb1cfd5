"""The command of an analysis, derived from its description: options, help, output and exit status."""

from collections.abc import Iterable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import click

from calibdask.cli.help_groups import GroupedCommand
from calibdask.cli.metric_options import first_clause, option_metavar
from calibdask.cli.param_types import ChoiceType
from calibdask.cli.population_options import population_options
from calibdask.cli.results import RESULTS, write_result
from calibdask.cli.row_options import RowsRequest, place_options, row_options, rows_of, shown_warnings
from calibdask.estimators.choice import Choice
from calibdask.estimators.signatures import AnalysisSignature, analysis_signatures
from calibdask.safe_text import visible

if TYPE_CHECKING:
    import xarray as xr

    from calibdask.analyses.analysis import Analysis
    from calibdask.data.data import Data
    from calibdask.storage.open_store import Store

# Beside datasets, documents can be written.
_DOCUMENTS = (".md", ".html", ".txt")
FORMATS = (*RESULTS, *_DOCUMENTS)
_STATUSES = {"met": 0, "found": 1, "undecided": 3}
_BY = click.option("--by", metavar="COLUMN", multiple=True, help="Slice by this column or array; repeatable.")


def analysis_command(word: str) -> click.Command:
    """The command of an analysis that is in the catalogue.

    Its options are the fields of the analysis, then those of the rows, and ``--json``, ``--out`` and ``--overwrite``.
    """
    signature = analysis_signatures()[word]

    def run(data: str, as_text: bool, out: str | None, overwrite: bool, **options: Any) -> int:
        choices = {name: options.pop(name) for name in signature.choices}
        request = RowsRequest(data=data, **{"weight": None, "by": (), **options})
        return _run(signature, request, choices, as_text=as_text, out=out, overwrite=overwrite)

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
    options = row_options if signature.weights else place_options

    def add(command: Any) -> Any:
        with_data = population_options(options(command))
        return _BY(with_data) if signature.slices and not signature.weights else with_data

    return add


def _output_options() -> list[Any]:
    return [
        click.option("--json", "as_text", is_flag=True, help="Print JSON."),
        click.option("--out", metavar="FILE", help=f"Write the result: {', '.join(FORMATS)}."),
        click.option("--overwrite", is_flag=True, help="Replace an existing --out file."),
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
    statuses = [f"{_STATUSES[outcome]} {meaning}" for outcome, meaning in signature.statuses.items()]
    statuses += ["2 invalid use or input, explained in one line on stderr, with nothing written", "130 interrupted"]
    statuses.sort(key=lambda text: int(text.partition(" ")[0]))
    parts.append(f"Exit status: {'; '.join(statuses)}.")
    return "\n\n".join(parts)


def _run(
    signature: AnalysisSignature,
    request: RowsRequest,
    choices: dict[str, Any],
    *,
    as_text: bool,
    out: str | None,
    overwrite: bool,
) -> int:
    """Compute, write, print; the exit status."""
    from calibdask.analyses.analysis import STATUS
    from calibdask.cli.tables import print_document
    from calibdask.storage.writers import check_apart, checked_output

    check_apart(request.data, {"--out": out})
    target = None if out is None else checked_output(out, FORMATS, overwrite=overwrite)
    analysis: Analysis = signature.constructor(**choices)
    result = _result(analysis, request, request.opened())
    if target is not None:
        with ExitStack() as written:
            if target.suffix.lower() in _DOCUMENTS:
                _write_document(analysis, result, written, target)
            else:
                write_result(result, lambda: _json_text(analysis, result), written, target)
    if as_text:
        click.echo(_json_text(analysis, result))
    else:
        print_document(analysis.document(result))
        if target is not None:
            click.echo(f"wrote {visible(target)}")
    return STATUS[analysis.outcome(result)]


def _result(analysis: "Analysis", request: RowsRequest, store: "Store") -> "xr.Dataset":
    """The result of rows, or of a summary."""
    from calibdask.progress import shown_progress
    from calibdask.storage.summary import Summary

    if isinstance(store, Summary):
        with store.dataset, shown_warnings():
            return analysis.run(_summary_data(request, store))
    rows = rows_of(store)
    with request.connected(), shown_progress(f"computing: {analysis.name}"), shown_warnings():
        table = request.table(rows)
        result = analysis.run(request.data_of(table))
        request.note_excluded(result.attrs)
        return result


def _summary_data(request: RowsRequest, summary: Any) -> "Data":
    from calibdask.cli.summary_input import pooled, refuse_row_options
    from calibdask.data.data import Data

    refuse_row_options(request)
    return Data.of(pooled(summary, request.by), by=request.by)


def _json_text(analysis: "Analysis", result: "xr.Dataset") -> str:
    from calibdask.cli.tables import json_text

    return json_text(analysis.to_json(result))


def _write_document(analysis: "Analysis", result: "xr.Dataset", written: ExitStack, target: Any) -> None:
    from calibdask.render.html import page
    from calibdask.storage.atomic_replace import atomic_replacement

    document = analysis.document(result)
    match target.suffix.lower():
        case ".md":
            content = document.to_markdown()
        case ".html":
            content = page(document)
        case _:
            content = document.to_text()
    part = written.enter_context(atomic_replacement(target))
    part.write_text(content, encoding="utf-8")


def analysis_commands() -> Iterable[click.Command]:
    """The commands of all analyses that follow the pattern."""
    return map(analysis_command, analysis_signatures())
