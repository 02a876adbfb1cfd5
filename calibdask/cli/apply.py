"""``calibdask apply``: scored rows of any size with calibrated scores in the place of the scores."""

import sys
from typing import Any

import click

from calibdask.cli.help_groups import GroupedCommand
from calibdask.cli.row_options import rows_of, score_options, shown_warnings
from calibdask.safe_text import listed, visible

_EXAMPLES = (
    ("calibdask apply map.json rows.parquet --out calibrated.parquet", "all columns, the scores calibrated"),
    ("calibdask apply map.json rows.csv --out calibrated.zarr --score p_click", "from other columns, to arrays"),
    ("calibdask apply map.json rows.parquet --out both.parquet --score-name calibrated", "beside the scores"),
)
_EPILOG = """\b
Killed at any time, the same command goes on after the last chunk that was written,
and the result is the same to the last bit; until then there is nothing under the
name of the output, but a folder .OUT.unfinished beside it.
\b
Exit status: 0 success; 1 stopped from outside, the same command goes on; 2 invalid
use or input, explained in one line on stderr, with nothing written; 130 interrupted.
"""


@click.command(cls=GroupedCommand, epilog=_EPILOG, examples=_EXAMPLES)
@click.argument("map_path", metavar="MAP")
@click.argument("data", metavar="DATA")
@click.option(
    "--out",
    metavar="FILE",
    required=True,
    help="What to write: .zarr, a group of arrays labels, scores and further ones; or .parquet, a folder of Parquet "
    "files with all columns; or .csv.",
)
@click.option(
    "--score-name",
    metavar="NAME",
    help="Put the calibrated scores beside the scores, in columns or an array of this name.  [default: in their place]",
)
@score_options
@click.option(
    "--overwrite", is_flag=True, help="Replace an existing output, or one that was begun with something else."
)
def apply(map_path: str, data: str, out: str, **options: Any) -> None:
    """Write the rows in DATA with calibrated scores, by a MAP that calibdask calibrate wrote.

    DATA is what evaluate takes, with or without labels, and of any size: rows are read, mapped and written in chunks.
    The columns of the slices or features of a map are found by their names. Rows of slices that the map does not know
    have the map of all rows; those with values of features that it does not know, no offset by these. Both are counted.
    """
    from calibdask.calibrators.applying import apply_map
    from calibdask.calibrators.stored_map import StoredMap
    from calibdask.progress import shown_progress
    from calibdask.storage.open_store import open_store
    from calibdask.storage.writers import check_apart

    for given in (data, map_path):
        check_apart(given, {"--out": out})
    stored_map = StoredMap.read(map_path)
    rows = rows_of(open_store(data), "a map is applied to scored rows, and a summary holds none.")
    with shown_progress("applying"), shown_warnings():
        applied = apply_map(stored_map, rows, out, **options)
    if applied.resumed:
        sys.stderr.write(f"calibdask: went on at row {applied.resumed:,} of {applied.rows:,}\n")
    if applied.unknown:
        sys.stderr.write(
            f"calibdask: {applied.unknown:,} of {applied.rows:,} rows have values of {listed(stored_map.further)} "
            f"that the map does not know; they get {stored_map.calibrator.of_unknown}\n"
        )
    if applied.left_out:
        sys.stderr.write(
            f"calibdask: left out {visible(listed(applied.left_out))}, which it cannot hold; .parquet keeps all\n"
        )
    click.echo(f"wrote {visible(out)}: {applied.rows:,} rows, by {visible(stored_map.described)}")
