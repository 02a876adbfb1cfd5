"""``calibdask evaluate --panel tests``: estimates and p-values of stored predictions, file beside file."""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, fields
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from calibdask.cli.hypothesis_panel import CONSISTENCY, Choices
from calibdask.cli.results import RESULTS, write_result
from calibdask.cli.row_options import RowsRequest, rows_of, shown_warnings
from calibdask.cluster import ClusterSpec
from calibdask.safe_text import visible

if TYPE_CHECKING:
    from calibdask.storage.readers import StoredRows

# The name of the panel.
TESTS = "tests"
TESTS_HELP = """\b
--panel tests prints one column per DATA and one row per number: estimates of the ECE,
SKCE and MMCE, and p-values of tests. Slices, weights and summaries are not supported.
Estimates and tests over all pairs of rows are skipped for files with more than
--max-pairs, as noted below the table. If whole score vectors are measured (the
default), the ECE, the MMCE and Spiegelhalter's test refer to the largest score, or to
P(y = 1) for a single score column.
\b
--conventions published reproduces the tables of Widmann et al. 2019: the median
bandwidth includes the zero diagonal of the n x n matrix, the variance in asymptotic
tests of linear and block estimates has their divisor, and consistency resampling
redraws predictions together with labels (which rejects calibrated models).
\b
JSON of --panel tests:
  {"calibdask_version": str, "setting": str, "conventions": str, "seed": int,
   "files": [{"file": str, "rows": int, "passes": int, "classes": int,
              "metrics": {NAME: {"value": float, "estimator": str}}}]}
\b
Tests have "statistic", "pvalue" and "assumes" instead of "value"; SKCE tests also
"estimate". Skipped numbers are null, and "note" gives the reason.
"""

_OPTIONS = (
    click.option(
        "--conventions",
        type=click.Choice(["ours", "published"]),
        help="Conventions of --panel tests; see below.  [default: ours]",
    ),
    click.option(
        "--consistency",
        type=click.Choice(CONSISTENCY),
        multiple=True,
        help=(
            "Statistic of the consistency test in --panel tests: the ECE, or the multiclass ECE on these cells; "
            "repeatable.  [default: ece]"
        ),
    ),
)


def tests_options(command: Callable[..., None]) -> Callable[..., None]:
    """The options of the panel alone."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def refuse_tests_options(given: dict[str, Any]) -> None:
    """Remove the options of the panel, which have no effect on another one.

    Raises
    ------
    click.UsageError
        If one of them is given.
    """
    for name in ("conventions", "consistency"):
        if given.pop(name):
            raise click.UsageError(f"--{name} has no effect without --panel {TESTS}.")


@dataclass(frozen=True, kw_only=True)
class _Request:
    """Options of the user besides the choice of numbers."""

    data: tuple[str, ...]
    conventions: str
    label: str | None
    score: str | None
    task: Any
    logits: bool
    labels: str | None
    pos_label: str | None
    ignore_label: str | None
    skip_missing: bool
    missing_chunks: Any
    cluster: ClusterSpec
    as_text: bool
    out: str | None
    overwrite: bool
    choices: Choices

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> "_Request":
        defaults: dict[str, Any] = {"conventions": "ours", "consistency": ("ece",), "setting": "multiclass", "seed": 0}
        settled: dict[str, Any] = {
            name: defaults.get(name) if value in (None, ()) else value for name, value in given.items()
        }
        published = settled["conventions"] == "published"
        choices = Choices(published=published, **{name: settled[name] for name in _names(Choices) - {"published"}})
        return cls(choices=choices, **{name: settled[name] for name in _names(cls) - {"choices"}})

    def rows(self, path: str) -> RowsRequest:
        reading = ("task", "logits", "labels", "pos_label", "ignore_label", "label", "score")
        names = (*reading, "skip_missing", "missing_chunks", "cluster")
        own: dict[str, Any] = {name: getattr(self, name) for name in names}
        return RowsRequest(data=path, by=(), weight=None, **own)


def _names(kind: Any) -> set[str]:
    return {field.name for field in fields(kind)}


def run_tests(given: Mapping[str, Any]) -> None:
    """Compute, print and write the panel.

    Raises
    ------
    click.UsageError
        If an option is given that has no effect on it.
    """
    from calibdask.storage.writers import check_apart, checked_output

    _refuse_others(given)
    request = _Request.of(given)
    for path in request.data:
        check_apart(path, {"--out": request.out})
    target = None if request.out is None else checked_output(request.out, RESULTS, overwrite=request.overwrite)
    opened = _opened(request)

    from calibdask.cli.hypothesis_table import FileTable
    from calibdask.cli.tables import console

    begun = perf_counter()
    table = FileTable(request.choices, request.conventions, _columns(request, opened))
    if target is not None:
        with ExitStack() as written:
            write_result(table.dataset(), table.as_json, written, target)
    if request.as_text:
        click.echo(table.as_json())
        return
    shown = console()
    table.show(shown, seconds=perf_counter() - begun)
    if target is not None:
        shown.print(f"wrote {visible(target)}", style="dim", markup=False)


def _refuse_others(given: Mapping[str, Any]) -> None:
    """Refuse the options of evaluate that have no effect on this panel."""
    context = click.get_current_context()
    used = _names(_Request) | _names(Choices)
    options = {parameter.name: parameter.opts[0] for parameter in context.command.get_params(context)}
    for name in given:
        if name not in used and context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"{options[name]} has no effect with --panel {TESTS}.")


def _opened(request: _Request) -> "dict[str, StoredRows]":
    """The rows of all files: bad options and missing files are found before any work is done."""
    from calibdask.storage.open_store import open_store

    _ = request.choices.entries
    return {path: rows_of(open_store(path), f"--panel {TESTS} expects scored rows.") for path in request.data}


def _columns(request: _Request, opened: "dict[str, StoredRows]") -> tuple[Any, ...]:
    from calibdask.cluster import connected
    from calibdask.progress import shown_progress

    columns = []
    with connected(request.cluster), shown_warnings():
        for path in request.data:
            with shown_progress(f"testing {Path(path).name}"):
                columns.append(_column(request, opened[path]))
    return tuple(columns)


def _column(request: _Request, stored: "StoredRows") -> Any:
    """The numbers of one file.

    Raises
    ------
    ValueError
        If it has none; the message names the file.
    """
    import calibdask as cd
    from calibdask.cli.hypothesis_table import FileResult

    path = stored.url
    try:
        asked = request.rows(path)
        table = asked.table(stored)
        shape = asked.shape(table)
        rows = _row_count(table.labels)
        entries = request.choices.entries
        reasons = {entry.name: request.choices.left_out(entry, rows, shape.vector) for entry in entries}
        chosen = {entry.name: entry.estimator for entry in entries if reasons[entry.name] is None}
        result = cd.evaluate(asked.data_of(table), metrics=chosen)
        asked.note_excluded(result.attrs)
    except ValueError as error:
        raise ValueError(str(error) if path in str(error) else f"{path}: {error}") from error
    left_out = {name: reason for name, reason in reasons.items() if reason is not None}
    return FileResult(path=path, classes=shape.classes, result=result, left_out=left_out)


def _row_count(labels: Any) -> int:
    """The number of rows; where chunks do not know their size they are counted, in a pass of its own."""
    import numpy as np

    if not np.isnan(labels.shape[0]):
        return int(labels.shape[0])
    from calibdask.engine.scheduler import scheduler

    labels = labels if labels.ndim == 1 else labels[:, 0]
    counts = labels.map_blocks(
        _lengths, dtype=np.int64, meta=np.empty(0, np.int64), chunks=((1,) * labels.numblocks[0],)
    )
    return int(counts.sum().compute(scheduler=scheduler()))


def _lengths(block: Any) -> Any:
    import numpy as np

    return np.array([len(block)])
