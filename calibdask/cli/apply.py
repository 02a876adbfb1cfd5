"""``calibdask apply``: scored rows of any size with calibrated scores in the place of the scores."""

import sys
from typing import Any

import click

from calibdask.cli.help_groups import GroupedCommand
from calibdask.cli.option_names import shown_warnings
from calibdask.cli.row_options import data_argument, score_options
from calibdask.cli.rows_request import rows_of
from calibdask.safe_text import listed, visible

_EXAMPLES = (
    ("calibdask apply map.json rows.parquet --out calibrated.parquet", "all columns, with calibrated scores"),
    (
        "calibdask apply map.json rows.csv --out calibrated.zarr --score p_click",
        "another score column, written as arrays",
    ),
    (
        "calibdask apply map.json rows.parquet --out both.parquet --score-name calibrated",
        "keep the original scores too",
    ),
)
_EPILOG = """\b
If the command is killed, run it again: it resumes after the last complete chunk, with
an identical result. Until the output is complete it is a folder .OUT.unfinished.
\b
Exit status: 0 success; 1 stopped, rerun to resume; 2 invalid use or input, explained
in one line on stderr, with nothing written; 130 interrupted.
"""


@click.command(cls=GroupedCommand, epilog=_EPILOG, examples=_EXAMPLES)
@click.argument("map_path", metavar="MAP")
@data_argument()
@click.option(
    "--out",
    metavar="FILE",
    required=True,
    help="Output: .zarr (arrays labels, scores and others), .parquet (folder with all columns) or .csv.",
)
@click.option(
    "--score-name",
    metavar="NAME",
    help="Write calibrated scores to this column or array.  [default: replace the scores]",
)
@score_options
@click.option("--skip-missing", is_flag=True, help="Keep rows without a score as they are, and print their number.")
@click.option("--overwrite", is_flag=True, help="Replace an existing output, or an unfinished one of other inputs.")
def apply(map_path: str, data: str, out: str, **options: Any) -> None:
    """Apply a calibration map to the rows in DATA.

    DATA is as for evaluate, with or without labels, and of any size: rows are read, mapped and written in chunks.
    Slices and features of the map are found by column name. Rows of unknown slices get the map of all rows; unknown
    feature values add no offset. Both are counted.
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
            f"that are unknown to the map; they get {stored_map.calibrator.of_unknown}\n"
        )
    if applied.missing:
        sys.stderr.write(f"calibdask: kept {applied.missing:,} of {applied.rows:,} rows without a score as they are\n")
    if applied.left_out:
        sys.stderr.write(
            f"calibdask: left out {visible(listed(applied.left_out))}, which it cannot hold; .parquet keeps all\n"
        )
    click.echo(f"wrote {visible(out)}: {applied.rows:,} rows, by {visible(stored_map.described)}")
    if applied.means:
        before, after = applied.means
        click.echo(f"mean score {before:.6g} before, {after:.6g} after")
