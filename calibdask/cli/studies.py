"""``calibdask run`` and ``calibdask status``: studies into cubes, and their progress."""

import click

from calibdask.cli.option_names import shown_warnings
from calibdask.cli.row_options import cluster_options
from calibdask.cli.stopping import TERMINATED, stopped_by_term
from calibdask.cluster import ClusterSpec
from calibdask.safe_text import visible, visible_address, visible_lines

_FAILED = 3
_SHOWN_ERRORS = 3
_EPILOG = """\b
Exit status: 0 success; 1 stopped by an outage (lost cluster, full disk); 2 invalid
use; 3 finished with failed cells; 130 interrupted; 143 stopped by SIGTERM after the
cells in progress. The same command resumes the run.
"""


@click.command(epilog=_EPILOG)
@click.argument("study")
@click.option("--store", metavar="CUBE", required=True, help="Cube to fill: a path or a URL.")
@cluster_options
@click.option("--set", "settings", metavar="NAME=VALUE", multiple=True, help="Set a parameter or a preset; repeatable.")
@click.option(
    "--lay-out",
    is_flag=True,
    help=("Only create the empty cube; with --shard, shard 0 creates it and the others wait."),
)
@click.option("--shard", metavar="INDEX/COUNT", help="Compute this part of an existing cube; the first is 0/COUNT.")
@click.option("--overwrite", is_flag=True, help="Replace an existing cube.")
@click.pass_context
def run(
    context: click.Context,
    study: str,
    store: str,
    cluster: ClusterSpec,
    settings: tuple[str, ...],
    lay_out: bool,
    shard: str | None,
    overwrite: bool,
) -> None:
    """Compute the missing cells of STUDY.

    STUDY is a folder with a file study.py, or module:object. It is code: run only studies that you trust. A run can be
    stopped at any time; the same command resumes it.
    """
    from calibdask.progress import cell_progress
    from calibdask.study import running
    from calibdask.study.loading import load_study

    chosen = load_study(study).with_settings(dict(map(_pair, settings)))
    part = None if shard is None else _shard(shard)
    if lay_out and part is not None:
        running.lay_out_together(chosen, store, part)
    elif lay_out:
        counts = running.lay_out(chosen, store, overwrite=overwrite)
        click.echo(f"{visible_address(store)}: laid out, {counts.done} of {counts.total} cells done")
        return
    with stopped_by_term() as stop, cell_progress(f"running {chosen.name}"), shown_warnings():
        counts = running.run(chosen, store, cluster, overwrite=overwrite, shard=part, stop=stop)
    whose = "cells" if shard is None else f"cells of shard {shard}"
    click.echo(
        f"{visible_address(store)}: {counts.done} of {counts.total} {whose} done, {counts.computed} computed now"
    )
    if stop():
        click.echo("calibdask: stopped by TERM; run the same command again to resume", err=True)
        context.exit(TERMINATED)
    if counts.failed:
        what = "1 cell" if counts.failed == 1 else f"{counts.failed} cells"
        click.echo(f"calibdask: {what} failed; see calibdask status {visible_address(store)}", err=True)
        context.exit(_FAILED)


@click.command(epilog=_EPILOG)
@click.argument("store")
@click.option("--all", "everything", is_flag=True, help="Show the errors of all failed cells.")
@click.pass_context
def status(context: click.Context, store: str, everything: bool) -> None:
    """Show the progress and the errors of a study cube."""
    from calibdask.study.cube import Cube
    from calibdask.study.running import count_cells
    from calibdask.study.study import coordinates_of

    cube = Cube(store)
    fingerprint = cube.fingerprint
    counts = count_cells(cube)
    done = f"{counts.done} of {counts.total} cells done, {counts.failed} failed, {counts.todo} to do"
    click.echo(f"{visible(fingerprint['study'])}: {done}")
    errors = cube.errors()
    for number in list(errors)[: None if everything else _SHOWN_ERRORS]:
        at = ", ".join(f"{name} = {value}" for name, value in coordinates_of(fingerprint["cells"], number).items())
        click.echo(f"\ncell {visible(at)}\n{visible_lines(errors[number].rstrip())}")
    if not everything and len(errors) > _SHOWN_ERRORS:
        click.echo(f"\n... and {len(errors) - _SHOWN_ERRORS} more; --all shows them.")
    if counts.failed:
        context.exit(_FAILED)


def _shard(text: str) -> tuple[int, int]:
    index, slash, count = text.partition("/")
    if not (slash and index.isdecimal() and count.isdecimal() and int(index) < int(count)):
        raise click.UsageError(f"--shard expects INDEX/COUNT with INDEX from 0 to below COUNT, got {text!r}.")
    return int(index), int(count)


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise click.UsageError(f"--set expects NAME=VALUE, got {text!r}.")
    return name.strip(), value
