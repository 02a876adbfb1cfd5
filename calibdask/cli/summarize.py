"""``calibdask summarize``: scored rows in, a small file out that ``calibdask evaluate`` takes in their place."""

import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from calibdask.cli.help_groups import GroupedCommand
from calibdask.cli.model_data import check_key, model_requests, same_rows
from calibdask.cli.option_names import shown_warnings
from calibdask.cli.param_types import SUMMARY_SETTING, ChoiceType
from calibdask.cli.period_request import COARSER, PeriodRequest
from calibdask.cli.row_options import (
    check_every,
    data_argument,
    features_option,
    key_option,
    period_options,
    population_options,
    refused_share_options,
    row_options,
)
from calibdask.cli.rows_request import RowsRequest, feature_names, rows_of
from calibdask.safe_text import visible

if TYPE_CHECKING:
    import xarray as xr

    from calibdask.storage.atomic_replace import Output
    from calibdask.storage.readers import StoredRows
    from calibdask.storage.summary import Summary

FORMATS = (".zarr", ".nc")
_EPILOG = """\b
Then, without the data:
  calibdask evaluate summary.zarr              pool all slices
  calibdask evaluate summary.zarr --by day     one result per day
  calibdask evaluate summary.zarr --ci 0.95    with intervals
\b
In Python: cd.evaluate(cd.open_summary("summary.zarr")).
Existing summaries are merged by calibdask merge.
\b
With --features, calibdask audit accepts the summary too. Appended periods use the cuts
of the first; for summaries to merge, give the cuts by --cuts.
\b
--append is atomic, works in any order and with concurrent writers, and writes a store
that is read like any summary. Appending an existing period is an error. --drop also
removes a period with corrupted files. --recover makes a store with a damaged log
readable again, and prints what was lost. --expire counts from the latest stored period,
not from today.
\b
Exit status: 0 success; 2 invalid use or input, explained in one line on stderr,
with nothing written; 3 --recover could not keep everything; 130 interrupted.
"""


_EXAMPLES = (
    ("calibdask summarize rows.parquet --out summary.zarr", "one small file instead of all rows"),
    ("calibdask summarize rows.parquet --by day --by country --out summary.zarr", "by day and country"),
    ("calibdask summarize visits.parquet --groups patient --out summary.zarr", "for intervals of clusters"),
    ("calibdask summarize yesterday.parquet --append summary.zarr --period day=2026-11-22", "append a day"),
    ("calibdask summarize rows.parquet --features age,country --out groups.zarr", "to audit without the rows"),
    ("calibdask summarize --append summary.zarr --expire 90d --into month", "merge old days into months"),
    ("calibdask summarize old=a.parquet new=b.parquet --out models.zarr", "two models on the same rows"),
)


@click.command(cls=GroupedCommand, epilog=_EPILOG, examples=_EXAMPLES)
@data_argument("DATA...", required=False)
@click.option("--out", metavar="FILE", help=f"The summary to write: {', '.join(FORMATS)}.")
@click.option(
    "--append", metavar="STORE", help=("Append a period to this store of summaries: .zarr, created if missing.")
)
@click.option(
    "--period",
    metavar="NAME[=LABEL]",
    help="Period of DATA, such as day=2026-11-22; or a column of periods, or of timestamps (--every).",
)
@click.option("--replace", is_flag=True, help="Replace the stored period.")
@click.option("--reason", metavar="TEXT", help="Reason for a replacement, removal or recovery; stored.")
@click.option("--drop", metavar="LABEL", multiple=True, help="Remove this period; needs --reason; repeatable.")
@click.option("--recover", is_flag=True, help="Go back to the last intact state of a damaged log; needs --reason.")
@click.option("--expire", metavar="DAYS", help="Merge periods older than this, such as 90d, into coarser ones.")
@click.option("--into", type=click.Choice(COARSER), help="Coarser period for --expire.  [default: month]")
@click.option(
    "--setting",
    "settings",
    type=ChoiceType(SUMMARY_SETTING),
    multiple=True,
    help="Setting to include in the summary; repeatable.  [default: confidence and classwise]",
)
@click.option("--step", type=float, metavar="WIDTH", help="Maximum width of a histogram cell.  [default: 0.0003]")
@click.option("--buckets", type=int, metavar="N", help="With --groups: number of buckets of clusters.  [default: 64]")
@features_option("Columns that describe subgroups, for audit")
@click.option(
    "--depth",
    type=click.IntRange(min=1),
    help=("With --features: maximum number of columns per subgroup.  [default: 2]"),
)
@click.option(
    "--values",
    type=int,
    metavar="N",
    help=("With --features: maximum number of values per column.  [default: as audit]"),
)
@click.option("--cuts", metavar="FILE", help="Cut columns as in this summary, so that both can be merged.")
@period_options
@population_options
@key_option
@row_options
@refused_share_options
@click.option("--overwrite", is_flag=True, help="Replace an existing summary.")
def summarize(
    data: tuple[str, ...],
    out: str | None,
    settings: tuple[str | int, ...],
    step: float | None,
    buckets: int | None,
    overwrite: bool,
    append: str | None,
    period: str | None,
    replace: bool,
    reason: str | None,
    drop: tuple[str, ...],
    recover: bool,
    expire: str | None,
    into: str | None,
    features: tuple[str, ...],
    depth: int | None,
    values: int | None,
    cuts: str | None,
    **where: Any,
) -> None:
    """Summarize scored rows by fine histograms, in one pass.

    DATA is as for evaluate; several DATA, or NAME=DATA, are models of the same rows in one summary. The size of a
    summary does not depend on the number of rows.
    """
    from calibdask.engine.row_notes import warning_once
    from calibdask.storage.summary import Summary
    from calibdask.storage.writers import check_apart, checked_output

    periods = PeriodRequest(
        append=append,
        period=period,
        replace=replace,
        reason=reason,
        expire=expire,
        into=into,
        drop=drop,
        recover=recover,
    )
    periods.check(data, out, overwrite=overwrite)
    if append is not None and any(where[name] is not None for name in ("prevalence", "train_prevalence")):
        raise click.UsageError(
            "--append adds rows as they are, whose frequencies differ from period to period: give --prevalence and "
            "--train-prevalence to the command that reads the store. --sampling-rate alone is possible."
        )
    if not data:
        periods.change_old()
        return
    check_every(periods.column, where["every"], where["zone"])
    if periods.column is not None:
        where["by"] = tuple(dict.fromkeys((*where["by"], periods.column)))
        where["period"] = periods.column
    requests = model_requests(data, where)
    check_key(requests)
    for request in requests.values():
        check_apart(request.data, {"--out": out, "--append": append})
    target = None if out is None else checked_output(out, FORMATS, overwrite=overwrite)
    if target is None:
        periods.check_new()
    mend = (
        "summarize expects scored rows. Slices of a summary are added up by calibdask evaluate, summaries by "
        "calibdask merge."
    )
    stored = {name: rows_of(request.opened(), mend) for name, request in requests.items()}
    choices: dict[str, Any] = {"settings": settings or None, "step": step, "depth": depth, "values": values}
    if buckets is not None and where["groups"] is None:
        raise click.UsageError("--buckets has no effect without --groups.")
    choices["buckets"] = buckets
    if period is not None and where["groups"] is not None:
        name, equals, label = period.partition("=")
        choices["period"] = {name: label} if equals else name
    choices["cuts"] = periods.cuts() if cuts is None else _cuts(cuts)
    choices = {name: value for name, value in choices.items() if value is not None}
    with warning_once():
        summary = _summarized(requests, stored, choices, features)
        words = described(Summary.of(summary))
        if target is not None:
            click.echo(f"wrote {visible(target)}: {words}, {written(summary, target)}")
            return
        periods.add(summary, words)
        if expire is not None:
            periods.merge_old()


def _cuts(path: str) -> "xr.Dataset":
    """The summary whose cuts are taken."""
    import calibdask as cd

    return cd.open_summary(path)


def _features(
    requests: dict[str, RowsRequest], stored: "dict[str, StoredRows]", choices: dict[str, Any], given: tuple[str, ...]
) -> tuple[str, ...]:
    """The columns that describe groups; raises UsageError for options that do not go with them."""
    from calibdask.storage.summary import Summary

    if not given and "cuts" not in choices:
        if named := [name for name in ("depth", "values") if name in choices]:
            raise click.UsageError(f"--{named[0]} has no effect without --features.")
        return ()
    (request, *others), (rows, *_) = requests.values(), stored.values()
    if others or request.by or request.weight:
        what = "one DATA" if others else "rows without --by: name its columns in --features"
        raise click.UsageError(f"--features expects {what if not request.weight else 'rows without --weight'}.")
    if "cuts" in choices:
        if named := [name for name in ("depth", "values") if name in choices]:
            raise click.UsageError(f"--{named[0]} has no effect on existing cuts.")
        cuts = Summary.of(choices["cuts"]).cuts
        if not given and cuts is not None:
            return cuts.names
    return feature_names(request, rows, given)


def _summarized(
    requests: dict[str, RowsRequest],
    stored: "dict[str, StoredRows]",
    choices: dict[str, Any],
    features: tuple[str, ...],
) -> "xr.Dataset":
    import calibdask as cd
    from calibdask.cluster import connected
    from calibdask.progress import shown_progress
    from calibdask.storage.summary import Summary

    first, *others = requests.values()
    names = _features(requests, stored, choices, features)
    with connected(first.cluster), shown_progress("summarizing"), shown_warnings():
        if not others:
            (rows,) = stored.values()
            if names:
                # They travel in the place of slices.
                table = replace(first, by=(), feature_columns=names).table(rows)
                summary = cd.summarize(table, features=names, **first.reading_of_population, **choices)
            else:
                summary = cd.summarize(first.data_of(first.table(rows)), **choices)
        else:
            tables = same_rows("summarize of several DATA", requests, stored)
            data = first.data_of(next(iter(tables.values())))
            models = {name: table.scores for name, table in tables.items()}
            summary = cd.summarize(data.with_scores(models), **choices)
        first.note_excluded(summary.attrs, Summary.of(summary).rows)
        return summary


def written(summary: Any, target: "Output") -> str:
    """Write it; its size in words."""
    from calibdask.storage.atomic_replace import atomic_replacement
    from calibdask.storage.writers import write_dataset

    with atomic_replacement(target) as part:
        write_dataset(summary, part)
        size = _size(part)
    return size


def described(summary: "Summary") -> str:
    """Rows, slices and classes in words."""
    slices = math.prod(summary.dataset.sizes[name] for name in summary.slices)
    buckets = summary.source.layout.buckets
    return ", ".join(
        f"{number:,} {word if number == 1 else words}"
        for number, word, words in (
            *(
                (summary.dataset.sizes[name], name, f"{name}{'es' if name.endswith('s') else 's'}")
                for name in summary.batch
            ),
            (summary.rows, "row", "rows"),
            (slices, "slice", "slices"),
            (summary.source.layout.classes, "class", "classes"),
            *([(buckets, "", "buckets of clusters")] if buckets else []),
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
