"""``calibdask check``: limits that were declared beforehand, each met, broken or undecided."""

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import click

from calibdask.cli.gates import (
    checked_receipt,
    gate_options,
    limit_options,
    limits_of_options,
    receipt_and_gate_of,
    write_receipt,
)
from calibdask.cli.github_summary import GithubSummary, github_option
from calibdask.cli.help_groups import GroupedCommand
from calibdask.cli.model_data import score_models
from calibdask.cli.option_names import shown_warnings
from calibdask.cli.row_options import cluster_check_option, key_option, population_options, row_options
from calibdask.cli.rows_request import RowsRequest, rows_of
from calibdask.safe_text import visible

if TYPE_CHECKING:
    from calibdask.analyses.gating.gate import Gate

_FORMATS = {".json": "JSON", ".md": "Markdown", ".xml": "JUnit XML"}
_STATUS = {"met": 0, "broken": 1, "cannot be decided": 3}
_EXAMPLES = (
    ("calibdask check new.parquet --limit cutoff-error=0.01", "the recommended limit, independent of bins"),
    ("calibdask check new.parquet --limit ece=0.03 --by country --slice-limit ece=0.05", "also for each country"),
    ("calibdask check new.parquet --limits limits.toml --out check.md --out junit.xml", "limits from a file"),
    (
        "calibdask check new.parquet --baseline old.parquet --not-worse log-loss=0.001",
        "non-inferiority to another model",
    ),
    ("calibdask check new.parquet --limit calibration-slope.slope=0.9..1.1 --profile clinical", "a range"),
)
_EPILOG = """\b
Limits file (--limits):
  confidence = 0.95
  by = ["country"]
  groups = "patient"
  profile = "clinical"
  owner = "Model risk committee"
  declared = 2026-01-15
  [limits]
  cutoff-error = 0.01
  ece = 0.03
  "calibration-slope.slope" = [0.9, 1.1]
  [slice-limits]
  ece = 0.05
\b
In Python: cd.check(y_true, y_prob, {"cutoff-error": 0.01}); in tests:
calibdask.testing.assert_calibrated(y_true, y_prob, limit=0.03).
\b
Exit status: 0 all limits are met; 1 a limit is broken; 3 undecided; 2 invalid use or
input, or another error, explained in one line on stderr, with nothing written; 130
interrupted.
"""


@click.command(cls=GroupedCommand, epilog=_EPILOG, examples=_EXAMPLES)
@click.argument("data", metavar="DATA")
@limit_options
@click.option("--baseline", metavar="DATA_B", help="Scores of another model for the same rows, in the same order.")
@click.option(
    "--not-worse",
    metavar="METRIC=X",
    multiple=True,
    help="Maximum by which DATA may be worse than --baseline; repeatable.",
)
@click.option(
    "--confidence",
    type=float,
    metavar="LEVEL",
    help="Confidence of each decision, simultaneous over the slices of a column.  [default: 0.95]",
)
@click.option(
    "--n-boot", type=int, metavar="N", default=1000, show_default=True, help=("Bootstrap replicates of the intervals.")
)
@click.option("--seed", type=int, metavar="S", default=0, show_default=True, help="Seed of random numbers.")
@key_option
@population_options
@row_options
@cluster_check_option
@click.option("--json", "as_text", is_flag=True, help="Print JSON instead of a table.")
@click.option(
    "--out",
    metavar="FILE",
    multiple=True,
    help="Write the decisions: .md (pull requests), .xml (JUnit) or .json; repeatable.",
)
@click.option(
    "--receipt",
    metavar="FILE",
    help="Write a receipt, .json, with the fingerprint of the rows, numbers and decisions; see verify.",
)
@github_option
@click.option("--overwrite", is_flag=True, help="Replace existing files.")
def check(
    data: str,
    limits_of_all: tuple[str, ...],
    of_slices: tuple[str, ...],
    limits_path: str | None,
    profile: str | None,
    baseline: str | None,
    not_worse: tuple[str, ...],
    confidence: float | None,
    n_boot: int,
    seed: int,
    as_text: bool,
    out: tuple[str, ...],
    receipt: str | None,
    github: bool,
    overwrite: bool,
    **where: Any,
) -> None:
    """Test DATA against declared limits.

    DATA are scored rows or a summary. A limit is met if the whole confidence interval satisfies it, broken if none of
    the interval does, and undecided otherwise: too few rows give 'undecided'. Intervals of slices are simultaneous over
    all slices of a --by column.
    """
    from calibdask.analyses.gating.gate import headline, plain
    from calibdask.storage.atomic_replace import atomic_replacement
    from calibdask.storage.writers import check_apart, checked_output

    limits = limits_of_options(limits_path, limits_of_all, of_slices)
    if not (limits.limits or not_worse):
        raise click.UsageError(
            "check expects limits: --limit ece=0.03, or a file of them by --limits; a profile has none. calibdask "
            "report --profile shows its numbers without."
        )
    by = tuple(dict.fromkeys((*limits.by, *where["by"])))
    if any(limit.of_slices for limit in limits.limits) and not by:
        raise click.UsageError("--slice-limit has no effect without --by: there are no slices.")
    if bool(not_worse) != (baseline is not None):
        raise click.UsageError("--not-worse requires --baseline, and --baseline requires --not-worse.")
    for path in filter(None, (data, baseline, limits_path)):
        check_apart(path, {"--receipt": receipt, "--out": out})
    targets = [checked_output(target, tuple(_FORMATS), overwrite=overwrite) for target in out]
    if receipt is not None and not_worse:
        raise click.UsageError("--receipt is one of one model; leave out --not-worse.")
    kept = checked_receipt(receipt, overwrite=overwrite)
    summary = GithubSummary.asked(github)
    request = RowsRequest(data=data, **{**where, "by": by, "groups": where["groups"] or limits.groups or None})
    if baseline is None and request.key is not None:
        raise click.UsageError("--key has no effect without --baseline: it joins the rows of two files.")
    level = confidence if confidence is not None else limits.confidence or 0.95
    options = gate_options(limits, profile, confidence=level, n_boot=n_boot, seed=seed)
    gate, document = _checked(request, baseline, not_worse, options, with_receipt=kept is not None)
    with ExitStack() as written:
        for target in targets:
            part = written.enter_context(atomic_replacement(target))
            part.write_text(_text(gate, data, target.suffix.lower()), encoding="utf-8")
        if kept is not None:
            write_receipt(kept, document, written)
    summary.append(lambda: gate.document(_title(data)).to_markdown())
    if as_text:
        from calibdask.cli.tables import json_text

        click.echo(json_text(plain(gate)))
    else:
        from calibdask.cli.tables import print_document

        print_document(gate.document())
        for target in (*targets, *([] if kept is None else [kept])):
            click.echo(f"wrote {visible(target)}")
    if as_text and gate.outcome != "met":
        click.echo(f"calibdask: {headline(gate)}", err=True)
    click.get_current_context().exit(_STATUS[gate.outcome])


def _checked(
    request: RowsRequest,
    baseline: str | None,
    not_worse: tuple[str, ...],
    options: dict[str, Any],
    *,
    with_receipt: bool,
) -> "tuple[Gate, dict[str, Any]]":
    """The decisions on the opened data, and their receipt."""
    from dataclasses import replace

    import calibdask as cd
    from calibdask.cli.model_data import same_rows
    from calibdask.cli.rows_request import refuse_row_options
    from calibdask.progress import shown_progress
    from calibdask.storage.summary import Summary

    store = request.opened()
    if isinstance(store, Summary):
        if store.source.layout.clustered:
            # It has its clusters inside.
            request = replace(request, groups=None)
        refuse_row_options(request)
        if baseline is not None or with_receipt:
            raise click.UsageError("--baseline and --receipt need rows; a summary has none.")
        with store.dataset, request.connected(), shown_progress("checking"), shown_warnings():
            return cd.check(store, by=list(request.by) or None, **options), {}
    rows = rows_of(store)
    document: dict[str, Any] = {}
    with request.connected(), shown_progress("checking"), shown_warnings():
        if baseline is None:
            if score_models(request.score) is not None:
                raise click.UsageError(
                    "--score NAME=COLUMN names models to compare by --baseline; without it, check expects the columns "
                    "of one model: --score COLUMN."
                )
            table = request.table(rows)
        else:
            models = score_models(request.score)
            other = replace(request, data=baseline) if models is None else _of_column(request, models, baseline)
            own = request if models is None else replace(request, score=_judged_column(models, baseline))
            requests = {"model": own, "baseline": other}
            tables = same_rows("check", requests, {"model": rows, "baseline": rows_of(other.opened())})
            table = tables["model"]
            options = {**options, "baseline": tables["baseline"].scores, "not_worse": list(not_worse)}
        if with_receipt:
            document, measured = receipt_and_gate_of(table, options, request.reading_of_population)
            assert measured is not None
            gate = measured
        else:
            gate = cd.check(request.data_of(table), **options)
        request.note_excluded(gate.result.attrs)
    return gate, document


def _of_column(request: RowsRequest, models: dict[str, str], baseline: str) -> RowsRequest:
    """The request for the scores of the baseline, a column of the file."""
    from dataclasses import replace

    if baseline not in models:
        names = ", ".join(map(visible, models))
        raise click.UsageError(f"--baseline expects one of the models of --score, {names}, got {visible(baseline)}.")
    return replace(request, score=models[baseline])


def _judged_column(models: dict[str, str], baseline: str) -> str:
    """The column of the one model that is judged."""
    judged = [column for name, column in models.items() if name != baseline]
    if len(judged) != 1:
        raise click.UsageError(f"check judges one model; --score names {', '.join(models)}.")
    return judged[0]


def _title(data: str) -> str:
    from calibdask.cli.rows_request import stem_of

    return f"Calibration of {visible(stem_of(data))}"


def _text(gate: "Gate", data: str, suffix: str) -> str:
    """The decisions in the format of this suffix."""
    import json

    from calibdask.analyses.gating.gate import plain
    from calibdask.cli.command_line import command_line

    if suffix == ".json":
        return json.dumps(plain(gate) | {"command": command_line()}, indent=1, ensure_ascii=False) + "\n"
    from calibdask.render.junit import junit

    document = gate.document(_title(data))
    return junit(document) if suffix == ".xml" else document.to_markdown()
