"""The command of an analysis, derived from its description: options, help, output and exit status."""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Any

import click

from calibdask.cli.alarm_reports import REPORT_NAMES, REPORT_OPTIONS, AlarmReports
from calibdask.cli.analysis_inputs import INPUTS, AnalysisInput, RowsInput, input_options
from calibdask.cli.gates import checked_receipt, write_receipt
from calibdask.cli.github_summary import GithubSummary, github_option
from calibdask.cli.help_groups import GroupedCommand
from calibdask.cli.metric_options import first_clause, option_metavar
from calibdask.cli.param_types import ChoiceType, MetricType
from calibdask.cli.results import RESULTS, write_result
from calibdask.cli.rows_request import RowsRequest
from calibdask.estimators.choice import Choice
from calibdask.estimators.signatures import AnalysisSignature, analysis_signatures
from calibdask.safe_text import visible

if TYPE_CHECKING:
    from calibdask.analyses.analysis import Analysis
    from calibdask.results.document import Document
    from calibdask.storage.atomic_replace import Output

# Beside datasets, documents can be written.
FORMATS = (*RESULTS, ".md", ".txt")
# Exit statuses by outcome.
STATUSES = {"met": 0, "found": 1, "undecided": 3}
# What a description says of a field that is not chosen.
_ABSENT = re.compile(r"\bNone: ((?:[^.;]|\.\d)+)")


def analysis_command(word: str) -> click.Command:
    """The command of an analysis that is in the catalogue.

    Its options are the fields of the analysis, then those of its data, and ``--json``, ``--out`` and ``--overwrite``.
    """
    signature = analysis_signatures()[word]

    def run(
        as_text: bool, out: tuple[str, ...], report: str | None, github: bool, overwrite: bool, **options: Any
    ) -> int:
        choices = {name: options.pop(name) for name in signature.choices}
        reporting = {name: options.pop(name) for name in REPORT_NAMES if signature.resumes}
        data = INPUTS[signature.inputs](**options)
        further = {"--state": reporting.get("state"), "--metrics-file": reporting.get("metrics_file")}
        further |= {"--receipt": options.get("receipt")}
        formats = (*FORMATS, *signature.further_formats)
        files = OutputFiles.checked(data.files, out, report, further, formats, overwrite=overwrite)
        files = replace(files, github=GithubSummary.asked(github))
        reports = AlarmReports.of(**reporting) if reporting else AlarmReports()
        return run_analysis(signature, data, choices, files, reports, as_text=as_text)

    command: Any = run
    argument, *options = input_options(signature)
    fields = [
        field_option(choice, is_required=name in signature.required) for name, choice in signature.choices.items()
    ]
    reporting = REPORT_OPTIONS if signature.resumes else ()
    for option in reversed([argument, *fields, *options, *reporting, *_output_options(signature)]):
        command = option(command)
    help_text = "\n\n".join(filter(None, (signature.summary, signature.details)))
    decorate = click.command(
        word, cls=GroupedCommand, help=help_text, epilog=_epilog(signature), examples=signature.examples
    )
    made: click.Command = decorate(command)
    return made


def _output_options(signature: AnalysisSignature) -> list[Any]:
    formats = ", ".join((*FORMATS, *signature.further_formats))
    return [
        click.option("--json", "as_text", is_flag=True, help="Print JSON."),
        click.option("--out", metavar="FILE", multiple=True, help=f"Write the result: {formats}; repeatable."),
        click.option("--report", metavar="FILE", help="Also write a page: .html."),
        github_option,
        click.option("--overwrite", is_flag=True, help="Replace existing --out and --report files."),
    ]


def field_option(choice: Choice, *, is_required: bool = False) -> Callable[[Any], Any]:
    """The option of a field of an analysis."""
    names = [f"--{choice.name.replace('_', '-')}", choice.name]
    text = f"{first_clause(choice.description)}."
    if choice.is_flag:
        return click.option(*names, is_flag=True, default=choice.default, help=text)
    absent = _ABSENT.search(choice.description)
    if absent is not None:
        text += f"  [default: {absent[1]}]"
    if "metrics" in choice.kinds:
        names[0] = names[0].removesuffix("s")
        metavar = "NAME[(CHOICE=VALUE,...)][,...]"
        return click.option(*names, type=MetricType(), metavar=metavar, multiple=True, help=text)
    if "texts" in choice.kinds:
        names[0] = names[0].removesuffix("s")
        return click.option(*names, metavar=choice.placeholder, multiple=True, help=text)
    # A required option must not have a default, not even None.
    default = {} if is_required else {"default": choice.default, "show_default": choice.default is not None}
    value_type, metavar = ChoiceType(choice), option_metavar(choice)
    return click.option(*names, type=value_type, metavar=metavar, required=is_required, help=text, **default)


def _field_value(choice: Choice, given: Any) -> Any:
    """The value of a field; metrics by name, None for none."""
    if "metrics" not in choice.kinds:
        return given
    from calibdask.estimators.metrics import with_distinct_names

    expressions = [expression for expressions in given for expression in expressions]
    return with_distinct_names((one.signature.variable, one.make()) for one in expressions) or None


def _epilog(signature: AnalysisSignature) -> str:
    """The shape of the JSON, and the exit status."""
    parts = [f"\b\n{part}" for part in signature.notes.split("\n\n") if part]
    if signature.json_shape:
        shape = "\n".join(f"  {line}" for line in signature.json_shape.splitlines())
        uses = "a line for each alarm, also the input of --on-alarm" if signature.json_lines else "--out FILE.json"
        parts.append(f"\b\nJSON (--json, {uses}):\n{shape}")
    statuses = [f"{STATUSES[outcome]} {meaning}" for outcome, meaning in signature.statuses.items()]
    failed = "a failed COMMAND, or invalid use or input" if signature.resumes else "invalid use or input"
    statuses += [f"2 {failed}, explained in one line on stderr, with nothing written", "130 interrupted"]
    statuses.sort(key=lambda text: int(text.partition(" ")[0]))
    parts.append(f"Exit status: {'; '.join(statuses)}.")
    return "\n\n".join(parts)


@dataclass(frozen=True)
class OutputFiles:
    """The files to write."""

    out: "tuple[Output, ...]" = ()
    report: "Output | None" = None
    receipt: "Output | None" = None
    github: GithubSummary = field(default_factory=GithubSummary)

    @classmethod
    def checked(
        cls,
        data: Iterable[str],
        out: Sequence[str],
        report: str | None,
        further: Mapping[str, str | None] | None = None,
        formats: tuple[str, ...] = FORMATS,
        *,
        overwrite: bool,
    ) -> "OutputFiles":
        """Files that may be written, where these data are read, and ``further`` files are written."""
        from calibdask.storage.writers import check_apart, checked_output

        further = further or {}
        for path in data:
            check_apart(path, {**further, "--out": out, "--report": report})
        return cls(
            tuple(checked_output(one, formats, overwrite=overwrite) for one in out),
            None if report is None else checked_output(report, (".html",), overwrite=overwrite),
            checked_receipt(further.get("--receipt"), overwrite=overwrite),
        )

    @property
    def paths(self) -> "list[Output]":
        """All of them."""
        return [path for path in (*self.out, self.report, self.receipt) if path is not None]


def run_analysis(
    signature: AnalysisSignature,
    data: AnalysisInput,
    choices: Mapping[str, Any],
    files: OutputFiles,
    reports: AlarmReports,
    *,
    as_text: bool,
) -> int:
    """Compute, write, report alarms, print; the exit status."""
    from calibdask.cli.tables import json_text, print_document

    values = {name: _field_value(signature.choices[name], given) for name, given in choices.items()}
    analysis: Analysis = signature.constructor(**values)
    result = reports.with_earlier(data.result(reports.resumed(analysis)))
    # Pages and terminals show the same document, which JSON does without.
    document = cache(lambda: analysis.document(result))

    def in_json() -> str:
        return json_text(analysis.to_json(result))

    if not reports.is_dry:
        with ExitStack() as written:
            for path in files.out:
                write_result(result, in_json, written, path, lines=analysis.lines, document=document)
            if files.report is not None:
                _write_page(document(), result.attrs.get("rows"), data.source, written, files.report)
            if files.receipt is not None:
                write_receipt(files.receipt, json.loads(result.attrs["receipt"]), written)
            reports.write(result, written)
    with reports.reporting(analysis, result):
        if not reports.is_dry:
            files.github.append(lambda: document().to_markdown())
        if not as_text:
            print_document(document())
            wrote = [f"wrote {visible(path)}" for path in files.paths]
            lines = ["dry run: nothing was written or run"] if reports.is_dry else wrote
            click.echo("".join(f"{line}\n" for line in lines), nl=False)
        elif signature.json_lines:
            records = analysis.to_json_lines(result)
            click.echo("".join(f"{json.dumps(record, allow_nan=False)}\n" for record in records), nl=False)
        else:
            click.echo(in_json())
    status = STATUSES[analysis.outcome(result)]
    if status and as_text and (words := analysis.conclusion(result)):
        click.echo(f"calibdask: {words}", err=True)
    return status


def run_with_defaults(
    word: str, request: RowsRequest, files: OutputFiles | None = None, *, as_text: bool = False
) -> int:
    """Run the analysis of a command on behalf of an option of another command."""
    signature = analysis_signatures()[word]
    choices = {name: choice.default for name, choice in signature.choices.items()}
    return run_analysis(signature, RowsInput(request), choices, files or OutputFiles(), AlarmReports(), as_text=as_text)


def _write_page(document: "Document", rows: Any, source: str, written: ExitStack, target: "Output") -> None:
    from calibdask.cli.command_line import repeatable_command
    from calibdask.report.writing import write_analysis_report
    from calibdask.storage.atomic_replace import atomic_replacement

    part = written.enter_context(atomic_replacement(target))
    write_analysis_report(part, document, rows=rows, source=source, command=repeatable_command())
