"""``calibdask threshold``: from which confidence on answers may go out unseen."""

from typing import TYPE_CHECKING, Any

import click

from calibdask.cli.help_groups import GroupedCommand
from calibdask.cli.param_types import SUMMARY_SETTING, ChoiceType
from calibdask.cli.row_options import RowsRequest, place_options, rows_of, shown_warnings
from calibdask.safe_text import visible

if TYPE_CHECKING:
    import xarray as xr

_FORMAT = 1
# Some slice has no threshold.
_UNDECIDED = 3
_HEAD = ("rows", "rows_skipped", "rows_ignored", "passes", "calibdask_version", "setting", "risk", "confidence")
_NUMBERS = ("threshold", "coverage", "risk", "risk_high", "answers", "errors", "pvalue", "rows", "sentence")
_EPILOG = """\b
JSON (--json):
  {"format": 1, "rows": int, "passes": int, "calibdask_version": str, "setting": str,
   "risk": float, "confidence": float, "least_rows": int,
   "thresholds": [{"by": {COLUMN: value}, "threshold": float or null, "coverage": float,
                   "risk": float, "risk_high": float, "answers": int, "errors": int,
                   "pvalue": float, "rows": int, "sentence": str,
                   "planned_coverage": {"2": float, "5": float, "10": float, "inf": float}}]}
\b
"planned_coverage": with so many times the rows and errors as frequent as in these.
With slices all thresholds together keep the risk with the confidence stated.
\b
Exit status: 0 every slice has a threshold; 2 invalid use or input, explained in one line
on stderr; 3 in some slice none qualifies; 130 interrupted.
"""
_EXAMPLES = (
    ("calibdask threshold rows.parquet --risk 0.05", "automate down to which confidence, with at most 5 % errors"),
    ("calibdask threshold rows.parquet --risk 0.01 --by country", "in each country, adjusted for their number"),
    ("calibdask threshold summary.zarr --risk 0.05 --json", "from a summary, for a program"),
)


@click.command(cls=GroupedCommand, epilog=_EPILOG, examples=_EXAMPLES)
@click.argument("data", metavar="DATA")
@click.option("--risk", type=float, metavar="SHARE", required=True, help="Largest share of errors that may go out.")
@click.option(
    "--confidence", type=float, metavar="LEVEL", default=0.95, show_default=True, help="Probability of the guarantee."
)
@click.option(
    "--setting",
    type=ChoiceType(SUMMARY_SETTING),
    help="What an answer is.  [default: the class with the largest score]",
)
@click.option("--by", metavar="COLUMN", multiple=True, help="Slice by this column or array; repeatable.")
@place_options
@click.option("--json", "as_text", is_flag=True, help="Print JSON instead of sentences.")
def threshold(data: str, risk: float, confidence: float, setting: str | int | None, as_text: bool, **where: Any) -> int:
    """Choose the lowest confidence above which answers may go out unseen, with a guarantee on their errors.

    DATA is a file of scored rows as evaluate takes it, or a summary. In 95 of 100 data sets, by default, the true share
    of errors above the threshold is at most the risk.
    """
    from calibdask.results.format import slice_text
    from calibdask.storage.summary import Summary

    # Weights do not apply: the guarantee counts rows.
    request = RowsRequest(data=data, weight=None, **where)
    store = request.opened()
    choices = {"risk": risk, "confidence": confidence, "setting": setting}
    result = _of_summary(request, store, choices) if isinstance(store, Summary) else _of_rows(request, store, choices)
    records = _records(result)
    if as_text:
        click.echo(_as_json(result, records))
    else:
        for record in records:
            words = ", ".join(f"{name} {slice_text(label)}" for name, label in record["by"].items())
            click.echo(visible(f"{words}: {record['sentence']}" if words else record["sentence"]))
    return _UNDECIDED if any(record["threshold"] is None for record in records) else 0


def _of_summary(request: RowsRequest, summary: Any, choices: dict[str, Any]) -> "xr.Dataset":
    import calibdask as cd
    from calibdask.cli.summary_input import pooled, refuse_row_options

    refuse_row_options(request)
    with summary.dataset, shown_warnings():
        return cd.threshold(pooled(summary, request.by), by=request.by, **choices)


def _of_rows(request: RowsRequest, store: Any, choices: dict[str, Any]) -> "xr.Dataset":
    import calibdask as cd
    from calibdask.progress import shown_progress

    rows = rows_of(store)
    with request.connected(), shown_progress("choosing"), shown_warnings():
        table = request.table(rows)
        result = cd.threshold(request.data_of(table), **choices)
        request.note_excluded(result.attrs)
        return result


def _records(result: "xr.Dataset") -> list[dict[str, Any]]:
    """A record for each slice."""
    from calibdask.results.format import plain
    from calibdask.results.values import Results

    dims = [str(dim) for dim in result["threshold"].dims]
    records = []
    for at, labels in Results(result).strata(dims):
        here = result.isel(at)
        planned = zip(result["times"].values.tolist(), here["planned_coverage"].values.tolist(), strict=True)
        numbers = {name: plain(here[name].values) for name in _NUMBERS}
        by = {dim: plain(label) for dim, label in labels.items()}
        records.append({"by": by, **numbers, "planned_coverage": {f"{times:g}": plain(of) for times, of in planned}})
    return records


def _as_json(result: "xr.Dataset", records: list[dict[str, Any]]) -> str:
    from calibdask.cli.tables import json_text
    from calibdask.results.format import plain

    head = {name: plain(result.attrs[name]) for name in (*_HEAD, "least_rows") if name in result.attrs}
    return json_text({"format": _FORMAT, **head, "thresholds": records})
