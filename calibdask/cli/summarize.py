"""``calibdask summarize``: scored rows in, a small file out that ``calibdask evaluate`` takes in their place."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from calibdask.cli.param_types import SUMMARY_SETTING, ChoiceType
from calibdask.cli.row_options import RowsRequest, noted, row_options, rows_of, skipped_rows

if TYPE_CHECKING:
    from calibdask.storage.readers import StoredRows
    from calibdask.storage.summary import Summary
    from calibdask.storage.writers import Output

__all__ = ["FORMATS", "described", "summarize", "written"]

FORMATS = (".zarr", ".nc")
_EPILOG = """\b
Then, without the data:
  calibdask evaluate summary.zarr              all slices together
  calibdask evaluate summary.zarr --by day     each day by itself
  calibdask evaluate summary.zarr --ci 0.95    with intervals
\b
In Python: cd.evaluate(xarray.open_zarr("summary.zarr", consolidated=False)).
Summaries of further days are added to it by calibdask merge.
\b
Exit status: 0 success; 2 invalid use or input, explained in one line on stderr,
with nothing written; 130 interrupted.
"""


@click.command(epilog=_EPILOG)
@click.argument("data")
@click.option("--out", metavar="FILE", required=True, help=f"The summary to write: {', '.join(FORMATS)}.")
@click.option(
    "--setting",
    "settings",
    type=ChoiceType(SUMMARY_SETTING),
    multiple=True,
    help="Setting to include in the summary; repeatable.  [default: confidence and classwise]",
)
@click.option("--step", type=float, metavar="WIDTH", help="Largest width of a histogram cell.  [default: 0.0003]")
@row_options
@click.option("--overwrite", is_flag=True, help="Replace an existing summary.")
def summarize(out: str, settings: tuple[str | int, ...], step: float | None, overwrite: bool, **where: Any) -> None:
    """Summarize the scored rows in DATA, in one pass: fine histograms of scores and outcomes, by slice.

    DATA is what evaluate takes. The size of a summary does not depend on the number of rows.
    """
    from calibdask.storage.summary import Summary
    from calibdask.storage.writers import check_apart, checked_output

    request = RowsRequest(**where)
    check_apart(request.data, {"--out": out})
    target = checked_output(out, FORMATS, overwrite=overwrite)
    rows = rows_of(
        request.opened(),
        "summarize expects scored rows. Slices of a summary are added up by calibdask evaluate, summaries by "
        "calibdask merge.",
    )
    choices = {"settings": settings or None, "step": step}
    summary = _summarized(request, rows, {name: value for name, value in choices.items() if value is not None})
    size = written(summary, target)
    click.echo(f"wrote {target}: {described(Summary.of(summary))}, {size}")


def _summarized(request: RowsRequest, rows: "StoredRows", choices: dict[str, Any]) -> Any:
    import calibdask as cd
    from calibdask.cluster import connected
    from calibdask.progress import shown_progress
    from calibdask.storage.summary import Summary

    with connected(request.cluster), shown_progress("summarizing"), noted():
        table = request.table(rows)
        summary = cd.summarize(table.labels, table.scores, by=table.by or None, sample_weight=table.weights, **choices)
        return summary.assign_attrs(skipped_rows(table, Summary.of(summary).rows))


def written(summary: Any, target: "Output") -> str:
    """Write it; its size in words."""
    from calibdask.storage.writers import replacing, write_dataset

    with replacing(target) as part:
        write_dataset(summary, part)
        size = _size(part)
    return size


def described(summary: "Summary") -> str:
    """Rows, slices and classes in words."""
    slices = math.prod(summary.dataset.sizes[name] for name in summary.slices)
    return ", ".join(
        f"{number:,} {word if number == 1 else words}"
        for number, word, words in (
            (summary.rows, "row", "rows"),
            (slices, "slice", "slices"),
            (summary.source.layout.classes, "class", "classes"),
        )
    )


def _size(target: Path) -> str:
    """Bytes on disk in words."""
    files = [path for path in target.rglob("*") if path.is_file()] if target.is_dir() else [target]
    size = float(sum(path.stat().st_size for path in files))
    for unit in ("bytes", "kB", "MB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:,.3g} GB"
