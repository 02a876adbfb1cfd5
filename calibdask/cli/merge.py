"""``calibdask merge``: stored summaries of different rows as one."""

import click

from calibdask.cli.option_names import shown_warnings
from calibdask.cli.summarize import FORMATS, described, written
from calibdask.safe_text import visible

_EPILOG = """\b
Example: one summary per day, merged into one:
  calibdask summarize monday.parquet --by day --out monday.zarr
  calibdask summarize tuesday.parquet --by day --out tuesday.zarr
  calibdask merge monday.zarr tuesday.zarr --out week.zarr
\b
Exit status: 0 success; 2 invalid use or input, explained in one line on stderr,
with nothing written; 130 interrupted.
"""


@click.command(epilog=_EPILOG)
@click.argument("summaries", metavar="SUMMARY...", nargs=-1, required=True)
@click.option("--out", metavar="FILE", required=True, help=f"The summary to write: {', '.join(FORMATS)}.")
@click.option("--overwrite", is_flag=True, help="Replace an existing summary.")
def merge(summaries: tuple[str, ...], out: str, overwrite: bool) -> None:
    """Merge summaries of different rows into one.

    Slices are united, and common slices are added. The summaries must have the same settings, step, classes and slice
    dimensions, and all or none must have weights. The result equals the summary of all rows together. Give each summary
    once.
    """
    import calibdask as cd
    from calibdask.storage.open_store import open_store
    from calibdask.storage.summary import Summary
    from calibdask.storage.writers import check_apart, checked_output, place_of

    for url in summaries:
        check_apart(url, {"--out": out})
    places = [*map(place_of, summaries)]
    if twice := next((url for url, place in zip(summaries, places, strict=True) if places.count(place) > 1), None):
        raise click.UsageError(f"{twice} is given more than once, so its rows would count several times.")
    target = checked_output(out, FORMATS, overwrite=overwrite)
    parts = []
    for url in summaries:
        store = open_store(url)
        if not isinstance(store, Summary):
            raise click.UsageError(f"{url} is {store.kind}; merge expects summaries that calibdask summarize wrote.")
        parts.append(store)
    with shown_warnings():
        summary = cd.merge(*parts)
    for part in parts:
        part.dataset.close()
    size = written(summary, target)
    click.echo(f"wrote {visible(target)}: {described(Summary.of(summary))}, {size}")
