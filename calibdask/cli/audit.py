"""``calibdask audit``: scored rows with further columns in, the groups for whom scores are wrong out."""

import json
from contextlib import ExitStack
from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING, Any

import click

from calibdask.cli.command_line import repeatable_command
from calibdask.cli.data_names import source_of
from calibdask.cli.feature_names import feature_names
from calibdask.cli.help_groups import GroupedCommand
from calibdask.cli.results import RESULTS
from calibdask.cli.row_options import RowsRequest, place_options, rows_of, shown_warnings
from calibdask.cli.summary_input import refuse_row_options
from calibdask.safe_text import visible

if TYPE_CHECKING:
    from pathlib import Path

    import xarray as xr

    from calibdask.storage.atomic_replace import Output
    from calibdask.storage.readers import StoredRows

_FORMAT = 1
_FOUND, _UNDECIDED = 1, 3
_ALL = "all"
# Lines of a table; files have all segments.
_MOST_LINES = 20
_PAGES = (".html",)
_HEAD = ("rows", "passes", "calibdask_version", "setting", "depth", "min_rows", "alpha", "segments", "conclusion")
_NUMBERS = ("gap", "gap_low", "gap_high", "ece", "ece_chance", "ecce", "sigma", "slope", "pvalue", "pvalue_adjusted")
_EXAMPLES = (
    ("calibdask audit rows.parquet --features age,country,phone", "subgroups with miscalibrated scores"),
    ("calibdask audit rows.parquet --features all --depth 3", "subgroups by up to three columns"),
    ("calibdask audit rows.parquet --features all --report audit.html", "also a report to read and print"),
    ("calibdask audit rows.parquet --features all --one-way", "also a table of each column"),
    ("calibdask audit summary.zarr --min-rows 1000", "a summary made with --features"),
    ("calibdask calibrate rows.parquet --features all --out map.json", "then: a map that corrects the findings"),
)
_EPILOG = """\b
JSON (--json, --out FILE.json):
  {"format": 1, "rows": int, "passes": int, "calibdask_version": str, "setting": str,
   "depth": int, "min_rows": int, "alpha": float, "segments": int, "conclusion": str,
   "not_excluded": {ROWS: float},
   "found": [{"segment": str, "features": [str], "described": bool, "rows": int,
              "events": int, "mean_score": float, "frequency": float, "gap": float, "gap_low": float,
              "gap_high": float, "ece": float, "ece_chance": float, "ecce": float,
              "sigma": float, "slope": float or null, "pvalue": float,
              "pvalue_adjusted": float, "log_e": float, "discovery": bool}]}
\b
"not_excluded": upper bound of the absolute gap of all subgroups of at least ROWS rows,
simultaneous at confidence 1 - alpha. --out FILE.csv, .nc and .zarr hold all subgroups.
\b
Exit status: 0 no finding; 1 a subgroup is miscalibrated; 3 undecided, as no subgroup has
--min-rows rows; 2 invalid use or input, explained in one line on stderr, with
nothing written; 130 interrupted.
"""


@click.command(cls=GroupedCommand, epilog=_EPILOG, examples=_EXAMPLES)
@click.argument("data", metavar="DATA")
@click.option(
    "--features",
    metavar="NAME[,...]|all",
    multiple=True,
    help="Columns that define subgroups; repeatable. all: every column except labels, scores and weights.",
)
@click.option(
    "--depth",
    type=click.IntRange(min=1),
    help=("Maximum number of columns per subgroup.  [default: 2; for a summary, its own]"),
)
@click.option(
    "--min-rows",
    type=click.IntRange(min=1),
    metavar="N",
    default=100,
    show_default=True,
    help=("Minimum rows of a subgroup."),
)
@click.option(
    "--alpha",
    type=float,
    metavar="LEVEL",
    default=0.05,
    show_default=True,
    help=("False-alarm rate for all subgroups together."),
)
@click.option(
    "--values",
    type=int,
    metavar="N",
    help="Maximum number of values per column.  [default: 5 bins of a number, 50 categories, fewer with many columns]",
)
@click.option(
    "--setting", metavar="binary|confidence|CLASS", help=("Scores and outcomes to audit.  [default: from the columns]")
)
@click.option("--weight", metavar="COLUMN", help="Column or array of sample weights.")
@place_options
@click.option("--one-way", is_flag=True, help="Also print a table of each single column.")
@click.option("--json", "as_text", is_flag=True, help="Print JSON instead of tables.")
@click.option("--out", metavar="FILE", help=f"Write the result: {', '.join(RESULTS)}.")
@click.option("--report", metavar="FILE", help="Also write a report, .html, with a table of each column.")
@click.option("--overwrite", is_flag=True, help="Replace existing --out and --report files.")
def audit(
    data: str,
    features: tuple[str, ...],
    depth: int | None,
    min_rows: int,
    alpha: float,
    values: int | None,
    setting: str | None,
    weight: str | None,
    one_way: bool,
    as_text: bool,
    out: str | None,
    report: str | None,
    overwrite: bool,
    **where: Any,
) -> None:
    """Find significantly miscalibrated subgroups.

    All subgroups by up to --depth columns are tested together: a calibrated model has a false finding with probability
    at most --alpha. Numbers are cut at quantiles; dates by year, month, weekday and hour; rare categories are pooled;
    missing is a category.

    DATA may be a summary made by summarize --features; its subgroups are audited without the rows.
    """
    import calibdask as cd
    from calibdask.storage.atomic_replace import atomic_replacement
    from calibdask.storage.summary import Summary
    from calibdask.storage.writers import check_apart, checked_output

    check_apart(data, {"--out": out, "--report": report})
    target = None if out is None else checked_output(out, RESULTS, overwrite=overwrite)
    page = None if report is None else checked_output(report, _PAGES, overwrite=overwrite)
    request = RowsRequest(data=data, by=(), weight=weight, **where)
    given: dict[str, Any] = {"depth": depth, "min_rows": min_rows, "alpha": alpha}
    store = request.opened()

    begun = perf_counter()
    if isinstance(store, Summary):
        _refuse_for_summary(request, features, setting, values)
        result, messages = cd.audit(store, **given), list[str]()
    else:
        chosen = int(setting) if setting is not None and setting.isdecimal() else setting
        result, messages = _of_rows(request, rows_of(store), features, {**given, "values": values, "setting": chosen})
    with ExitStack() as written:
        if target is not None:
            _write(result, written, target)
        if page is not None:
            _write_page(result, written.enter_context(atomic_replacement(page)), source_of(request))
    if as_text:
        click.echo(_as_json(result))
    else:
        _show(result, one_way, messages, perf_counter() - begun)
        for path in filter(None, (target, page)):
            click.echo(f"wrote {visible(path)}")
    if bool(result.found.any()):
        click.get_current_context().exit(_FOUND)
    if not result.sizes["segment"]:
        click.get_current_context().exit(_UNDECIDED)


def _of_rows(
    request: RowsRequest, rows: "StoredRows", features: tuple[str, ...], given: dict[str, Any]
) -> "tuple[xr.Dataset, list[str]]":
    """The audit of rows by these columns, and the warnings shown meanwhile."""
    import calibdask as cd
    from calibdask.progress import shown_progress

    with shown_warnings() as messages:
        names = feature_names(request, rows, features)
        # They travel in the place of slices.
        table = replace(request, by=(), feature_columns=names).table(rows)
        with request.connected(table), shown_progress("auditing"):
            result = cd.audit(table, **given, **request.reading)
        request.note_excluded(result.attrs)
        return result, messages


def _refuse_for_summary(
    request: RowsRequest, features: tuple[str, ...], setting: str | None, values: int | None
) -> None:
    """Raise UsageError for options that only rows have a use for."""
    refuse_row_options(request)
    given = {"--features": bool(features), "--setting": setting is not None, "--values": values is not None}
    if named := [option for option, is_given in given.items() if is_given]:
        raise click.UsageError(
            f"{named[0]} has no effect on {request.data}: it is a stored summary, whose columns are cut already."
        )


def _show(result: "xr.Dataset", one_way: bool, messages: list[str], seconds: float) -> None:
    """Print the audit, or each column by itself, and notes on columns that were not shown before."""
    from calibdask.analyses.auditing.audit_document import audit_lines, one_way_lines
    from calibdask.cli.tables import console, print_lines, rule_of
    from calibdask.render.text_layout import asides
    from calibdask.render.text_table import foot_lines

    shown = console()
    lines = one_way_lines(result, rule_of(shown)) if one_way else audit_lines(result, rule_of(shown), _MOST_LINES)
    print_lines(lines, shown)
    for note in json.loads(result.attrs["notes"]):
        if not any(note in message for message in messages):
            print_lines(asides(f"{note}.", shown.width), shown)
    print_lines(foot_lines(result, shown.width, f"{seconds:.2f} s"), shown)
    if why := result.attrs.get("passes_why"):
        print_lines(asides(f"{why}.", shown.width), shown)


def _as_json(result: "xr.Dataset") -> str:
    from calibdask.cli.tables import json_text
    from calibdask.results.format import plain

    found = result.isel(segment=result.found.values)
    names = (*_NUMBERS, "log_e", "discovery")
    records = [
        {
            "segment": str(one.segment.values),
            "features": [name for name in str(one.features.values).split(", ") if name],
            "described": bool(one.described),
            **{name: plain(one[name].values) for name in ("rows", "events", "mean_score", "frequency", *names)},
        }
        for one in (found.isel(segment=i) for i in range(found.sizes["segment"]))
    ]
    head = {"format": _FORMAT, **{name: plain(result.attrs[name]) for name in _HEAD}}
    return json_text({**head, "not_excluded": json.loads(result.attrs["not_excluded"]), "found": records})


def _write_page(result: "xr.Dataset", part: "Path", source: str) -> None:
    from calibdask.report import write_audit_report

    write_audit_report(part, result, source=source, command=repeatable_command())


def _write(result: "xr.Dataset", written: ExitStack, target: "Output") -> None:
    """Write every segment; as JSON those that were found."""
    from calibdask.storage.atomic_replace import atomic_replacement
    from calibdask.storage.writers import write_dataset

    part = written.enter_context(atomic_replacement(target))
    if target.suffix.lower() == ".json":
        part.write_text(_as_json(result) + "\n", encoding="utf-8")
    elif target.suffix.lower() == ".csv":
        from calibdask.render.spreadsheet import without_formulas

        without_formulas(result.to_dataframe().reset_index()).to_csv(part, index=False)
    else:
        write_dataset(result, part)
