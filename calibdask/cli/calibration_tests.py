"""``calibdask test``: estimates and p-values of stored predictions, file beside file."""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import click

from calibdask.cli.choices import BandwidthType, SettingType, kernel_options
from calibdask.cli.entries import CONSISTENCY, Choices
from calibdask.cli.results import RESULTS, write_result
from calibdask.cli.rows import RowsRequest, noted, place_options
from calibdask.cluster import Place

__all__ = ["calibration_tests"]

_EPILOG = """\b
--conventions published has those of the tables of Widmann et al. 2019: the
median bandwidth over the n x n matrix with its zero diagonal, the divisor of the
variance in asymptotic tests of linear and block estimates, and consistency
resampling of predictions together with labels (which rejects calibrated models).
\b
JSON (--json, --out FILE.json):
  {"calibdask_version": str, "setting": str, "conventions": str, "seed": int,
   "files": [{"file": str, "rows": int, "passes": int, "classes": int,
              "metrics": {NAME: {"value": float, "estimator": str}}}]}
\b
Tests have "statistic", "pvalue" and "assumes" in place of "value", those of the
SKCE also "estimate". What is left out of a file is null, and its "note" says why.
\b
Exit status: 0 done; 2 bad use or bad input, said in one line on stderr, with
nothing written; 130 interrupted.
"""


@dataclass(frozen=True, kw_only=True)
class _Request:
    """What the user asked for, besides what is computed."""

    data: tuple[str, ...]
    conventions: str
    label: str | None
    score: str | None
    cluster: Place
    as_text: bool
    out: str | None
    overwrite: bool
    choices: Choices

    @classmethod
    def of(cls, given: dict[str, Any]) -> "_Request":
        choices = {name: given.pop(name) for name in Choices.__dataclass_fields__ if name in given}
        return cls(**given, choices=Choices(published=given["conventions"] == "published", **choices))

    def rows(self, path: str) -> RowsRequest:
        return RowsRequest(data=path, by=(), weight=None, label=self.label, score=self.score, cluster=self.cluster)


def _kernel(command: Callable[..., None]) -> Callable[..., None]:
    for option in (
        click.option("--bandwidth", type=BandwidthType("median", "median-full"), help="Its width, or a rule for it."),
        click.option("--kernel", type=click.Choice(["exponential", "gaussian"]), help="Kernel of SKCE and CME."),
    ):
        command = option(command)
    return command


@click.command("test", epilog=_EPILOG)
@click.argument("data", nargs=-1, required=True)
@click.option(
    "--setting",
    type=SettingType("multiclass", "confidence", "binary", "largest-K"),
    default="multiclass",
    show_default=True,
    help="What of the predictions is looked at.",
)
@click.option(
    "--conventions",
    type=click.Choice(["ours", "published"]),
    default="ours",
    show_default=True,
    help="Choices where none is given: see below.",
)
@_kernel
@kernel_options
@click.option(
    "--consistency",
    type=click.Choice(CONSISTENCY),
    multiple=True,
    default=("ece",),
    show_default=True,
    help="ECE tested by consistency resampling: plain, or multi-class with these bins; repeatable.",
)
@click.option("--seed", type=int, metavar="S", default=0, show_default=True, help="Of random numbers.")
@place_options
@click.option("--json", "as_text", is_flag=True, help="Print JSON instead of a table.")
@click.option("--out", metavar="FILE", help=f"Write the result: {', '.join(RESULTS)}.")
@click.option("--overwrite", is_flag=True, help="Replace a file that is there.")
def calibration_tests(**given: Any) -> None:
    """Test the calibration of the scored rows in each DATA: a column for each file, a row for each number.

    DATA is what evaluate takes, but for summaries. Tests take no weights. Estimates and tests over all pairs of rows
    are left out of files with more than --max-pairs, which the table says.

    Where whole score vectors are looked at, ECE, MMCE and Spiegelhalter's test are those of the largest score, or of
    P(y = 1) where that is the one column of scores.
    """
    from calibdask.engine.writers import check_apart, checked_output

    request = _Request.of(given)
    for path in request.data:
        check_apart(path, {"--out": request.out})
    target = None if request.out is None else checked_output(request.out, RESULTS, overwrite=request.overwrite)
    _check(request)

    from calibdask.cli.comparison import Comparison
    from calibdask.cli.tables import console

    begun = perf_counter()
    comparison = Comparison(request.choices, request.conventions, _columns(request))
    text = comparison.as_json()
    if target is not None:
        with ExitStack() as written:
            write_result(comparison.dataset(), text, written, target)
    if request.as_text:
        click.echo(text)
        return
    shown = console()
    comparison.show(shown, seconds=perf_counter() - begun)
    if target is not None:
        shown.print(f"wrote {target}", style="dim", markup=False)


def _check(request: _Request) -> None:
    """Find bad options and files that are not there before any work is done."""
    from calibdask.cli.stored import refuse_summary
    from calibdask.engine.location import located
    from calibdask.engine.readers import reader_of

    _ = request.choices.entries
    for path in request.data:
        reader_of(located(path))
        refuse_summary(path, "test expects scored rows.")


def _columns(request: _Request) -> tuple[Any, ...]:
    from calibdask.cluster import connected
    from calibdask.progress import shown_progress

    columns = []
    with connected(request.cluster), noted():
        for path in request.data:
            with shown_progress(f"testing {Path(path).name}"):
                columns.append(_column(request, path))
    return tuple(columns)


def _column(request: _Request, path: str) -> Any:
    """What one file tells.

    Raises
    ------
    ValueError
        If it tells nothing; the message names the file.
    """
    import calibdask as cd
    from calibdask.cli.comparison import Column

    try:
        table = request.rows(path).table()
        rows = _row_count(table.labels)
        entries = request.choices.entries
        reasons = {entry.name: request.choices.left_out(entry, rows, table.vector) for entry in entries}
        chosen = {entry.name: entry.estimator for entry in entries if reasons[entry.name] is None}
        result = cd.evaluate(table.labels, table.scores, chosen)
    except ValueError as error:
        raise ValueError(str(error) if path in str(error) else f"{path}: {error}") from error
    left_out = {name: reason for name, reason in reasons.items() if reason is not None}
    return Column(path=path, classes=table.classes, result=result, left_out=left_out)


def _row_count(labels: Any) -> int:
    """The number of rows; where chunks do not know their size they are counted, in a pass of its own."""
    import numpy as np

    if not np.isnan(labels.shape[0]):
        return int(labels.shape[0])
    counts = labels.map_blocks(
        _lengths, dtype=np.int64, meta=np.empty(0, np.int64), chunks=((1,) * labels.numblocks[0],)
    )
    return int(counts.sum().compute())


def _lengths(block: Any) -> Any:
    import numpy as np

    return np.array([len(block)])
