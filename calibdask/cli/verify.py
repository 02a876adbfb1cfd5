"""``calibdask verify``: check a receipt against the data."""

from typing import TYPE_CHECKING, Any

import click

from calibdask.cli.help_groups import GroupedCommand
from calibdask.cli.model_data import check_one_model
from calibdask.cli.option_names import shown_warnings
from calibdask.cli.row_options import data_argument, refused_share_options, row_options
from calibdask.cli.rows_request import RowsRequest, rows_of
from calibdask.safe_text import listed, visible

if TYPE_CHECKING:
    from collections.abc import Mapping

_EXAMPLES = (
    ("calibdask check new.parquet --limit ece=0.03 --receipt receipt.json", "test limits and keep a receipt"),
    ("calibdask verify receipt.json new.parquet", "verification by a second party"),
    ("calibdask verify receipt.json copy.csv --weight w", "a copy in another format; name the weights again"),
)
_EPILOG = """\b
In Python: cd.verify("receipt.json", y_true, y_prob).
\b
A receipt does not prove who made it. Sign the file, and check the signature:
  minisign -Sm receipt.json
  minisign -Vm receipt.json -p minisign.pub
\b
Exit status: 0 all agrees; 1 a difference, which is named; 2 invalid use or input, or
another error, explained in one line on stderr; 130 interrupted.
"""
_MOST_LINES = 5


@click.command(cls=GroupedCommand, epilog=_EPILOG, examples=_EXAMPLES)
@click.argument("receipt", metavar="RECEIPT")
@data_argument()
@row_options
@refused_share_options
def verify(receipt: str, data: str, **where: Any) -> None:
    """Recompute the numbers of a receipt and compare them.

    Numbers must agree to the last bit. The rows may have another order, format or chunking. Slices are those of the
    receipt.
    """
    from dataclasses import replace

    import calibdask as cd
    from calibdask.analyses.receipts.stored_receipt import read_receipt
    from calibdask.progress import shown_progress

    try:
        given = read_receipt(receipt)
    except OSError as error:
        raise click.UsageError(f"{receipt} cannot be read: {error.strerror}.") from error
    request = RowsRequest(data=data, **where)
    check_one_model("verify", request)
    if not request.by:
        request = replace(request, by=tuple(map(str, given["request"].get("by", ()))))
    if request.groups is None:
        request = replace(request, groups=given["request"].get("groups"))
    recorded = [*request.reading, *(["skip_missing"] if request.skip_missing else [])]
    if recorded:
        options = listed([f"--{name.replace('_', '-')}" for name in recorded])
        raise click.UsageError(f"The receipt records how rows are read; omit {options}.")
    if given["request"].get("skip_missing"):
        request = replace(request, skip_missing=True)
    rows = rows_of(request.opened())
    with request.connected(), shown_progress("verifying"), shown_warnings():
        table = request.table(rows)
        outcome = cd.verify(given, table)
    for problem in outcome.problems[:_MOST_LINES]:
        click.echo(visible(problem))
    if len(outcome.problems) > _MOST_LINES:
        click.echo(f"and {len(outcome.problems) - _MOST_LINES} more.")
    if outcome.agrees:
        click.echo(f"The receipt agrees: {outcome.again['data']['rows']:,} rows, hash {given['hash']}.")
        click.echo(visible(_covered(outcome.again)))
    click.get_current_context().exit(0 if outcome.agrees else 1)


def _covered(receipt: "Mapping[str, Any]") -> str:
    """Which columns and rows the receipt covers, and which rows it does not."""
    from calibdask.results.build import unused_rows
    from calibdask.results.format import joined

    request = receipt["request"]
    columns = ["labels", "scores", *(["weights"] if request["weighted"] else [])]
    columns += [f"slices by {name}" for name in request["by"]]
    columns += [f"groups by {request['groups']}"] if "groups" in request else []
    others = unused_rows(receipt.get("excluded", {})).replace("not used", "not covered")
    return f"Covered: {joined(columns)}; no other columns. {others}".rstrip()
