"""``calibdask compare``: compare models on shared rows and state which is better."""

from contextlib import ExitStack
from functools import cache
from typing import TYPE_CHECKING, Any

import click

from calibdask.cli.help_groups import GroupedCommand
from calibdask.cli.model_data import model_requests
from calibdask.cli.param_types import MetricType
from calibdask.cli.results import RESULTS as _TABLES
from calibdask.cli.results import write_result
from calibdask.cli.row_options import key_option, row_options, rows_of, shown_warnings
from calibdask.cli.same_rows import same_rows
from calibdask.safe_text import visible

if TYPE_CHECKING:
    import xarray as xr


_RESULTS = (*_TABLES, ".md")
_EPILOG = """\b
JSON (--json, --out FILE.json):
  {"format": 1, "rows": int, "passes": int, "calibdask_version": str, "ci": float,
   "n_boot": int, "seed": int, "baseline": str, "verdict": [str],
   "comparisons": [{"by": {COLUMN: value}, "model": str, "rows": int,
                    "better": bool or null,
                    "metrics": {NAME: {"baseline": float, "model": float,
                      "difference": float, "low": float, "high": float,
                      "pvalue": float}}}]}
\b
"better" refers to the first proper score; null means inconclusive. Differences are model
minus baseline. With slices, or more than two models, there are also "pvalue_holm" and
"pvalue_bh", adjusted for multiple comparisons.
\b
Exit status: 0 success, whichever model is better; 2 invalid use or input, explained in one
line on stderr, with nothing written; 130 interrupted.
"""
_EXAMPLES = (
    ("calibdask compare old.parquet new.parquet", "which model is better, and which is better calibrated"),
    ("calibdask compare old=a.csv new=b.csv --by country", "by country, adjusted for multiple comparisons"),
    ("calibdask compare a.npz b.npz c.npz --baseline b --json", "several models, as JSON"),
)


@click.command(cls=GroupedCommand, epilog=_EPILOG, examples=_EXAMPLES)
@click.argument("data", metavar="A B...", nargs=-1, required=True)
@click.option(
    "--metric",
    "metrics",
    type=MetricType(),
    metavar="NAME[(CHOICE=VALUE,...)][,...]",
    multiple=True,
    help="Metric to compare, as in evaluate; repeatable.  [default: proper scores and binned errors]",
)
@click.option("--baseline", metavar="NAME", help="Baseline model.  [default: the first]")
@click.option(
    "--ci", type=float, metavar="LEVEL", default=0.95, show_default=True, help=("Confidence level of the intervals.")
)
@click.option(
    "--ci-method",
    type=click.Choice(["percentile", "bca"]),
    help="Method of the intervals.  [default: percentile]",
)
@click.option(
    "--n-boot",
    type=int,
    metavar="N",
    default=1000,
    show_default=True,
    help="Bootstrap replicates of the rows; the smallest p-value is 2 / (N + 1).",
)
@click.option("--seed", type=int, metavar="S", default=0, show_default=True, help="Seed of random numbers.")
@key_option
@row_options
@click.option("--json", "as_text", is_flag=True, help="Print JSON instead of a table.")
@click.option("--out", metavar="FILE", help=f"Write the result: {', '.join(_RESULTS)}.")
@click.option("--overwrite", is_flag=True, help="Replace an existing --out file.")
def compare(
    data: tuple[str, ...],
    metrics: tuple[Any, ...],
    baseline: str | None,
    as_text: bool,
    out: str | None,
    overwrite: bool,
    ci: float,
    ci_method: Any,
    n_boot: int,
    seed: int,
    **where: Any,
) -> None:
    """Compare models on the same rows; A is the baseline.

    Each DATA is a file of scored rows as for evaluate, or NAME=FILE, with the same rows in the same order. Labels must
    agree; slices and weights are those of A. In every bootstrap replicate all models are evaluated on the same
    resampled rows, so differences between models are precise.
    """
    from calibdask.storage.writers import check_apart, checked_output

    requests = model_requests(data, where)
    if len(requests) < 2:
        raise click.UsageError(
            "compare expects two models or more, got one: several DATA, or --score NAME=COLUMN for each column of one."
        )
    if baseline is not None and baseline not in requests:
        raise click.UsageError(f"--baseline expects one of {', '.join(requests)}, got {baseline}.")
    for request in requests.values():
        check_apart(request.data, {"--out": out})
    target = None if out is None else checked_output(out, _RESULTS, overwrite=overwrite)
    named = _metrics(metrics)
    stored = {name: rows_of(request.opened(), "compare expects scored rows.") for name, request in requests.items()}

    import calibdask as cd
    from calibdask.analyses.comparison_document import comparison_document, comparison_json
    from calibdask.cli.tables import json_text, print_document
    from calibdask.cluster import connected
    from calibdask.progress import shown_progress

    first = next(iter(requests.values()))
    with connected(first.cluster), shown_progress("comparing"), shown_warnings():
        tables = same_rows("compare", requests, stored)
        rows = first.data_of(next(iter(tables.values())))
        result = cd.compare(
            rows.with_scores({name: table.scores for name, table in tables.items()}),
            metrics=named or None,
            baseline=baseline,
            ci=ci,
            ci_method=ci_method,
            n_boot=n_boot,
            seed=seed,
        )
        first.note_excluded(result.attrs)
    document = cache(lambda: comparison_document(result))

    def in_json() -> str:
        return json_text(comparison_json(result))

    if target is not None:
        with ExitStack() as written:
            write_result(result, in_json, written, target, frame=lambda: _frame(result), document=document)
    if as_text:
        click.echo(in_json())
        return
    print_document(document())
    if target is not None:
        click.echo(f"wrote {visible(target)}")


def _metrics(given: tuple[Any, ...]) -> dict[str, Any]:
    """Estimators by name."""
    from calibdask.estimators.metrics import with_distinct_names

    expressions = [expression for expressions in given for expression in expressions]
    return with_distinct_names([(expression.signature.variable, expression.make()) for expression in expressions])


def _frame(result: "xr.Dataset") -> Any:
    """A data frame with a line for each slice, model and metric."""
    import pandas as pd

    from calibdask.analyses.comparison_document import comparison_rows

    return pd.DataFrame(comparison_rows(result))
