"""``calibdask report``: one page for the approval of models, or about a study."""

from collections.abc import Iterable, Sequence, Sized
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from calibdask.cli.reporting import Remembering, audited, command_line, measured, named_data, write_models
from calibdask.cli.row_options import RowsRequest, row_options
from calibdask.safe_text import visible

if TYPE_CHECKING:
    from pathlib import Path

    from calibdask.report.decision_table import Limits
    from calibdask.report.over_time import Watching
    from calibdask.storage.open_store import Store, StoredCube
    from calibdask.storage.replacing import Output

_EPILOG = """\b
Examples:
  calibdask report holdout.parquet --by country --out report.html
  calibdask report holdout.parquet --by country --limit 0.03 --out report.html
  calibdask report old=a.csv new=b.csv --weight w --out report.html
  calibdask report summary.zarr --out report.html
  calibdask report summary.zarr --period day --by country --out report.html
  calibdask report cube.zarr --out study.html
\b
Exit status: 0 success, whatever the decision; 2 invalid use or input, explained in
one line on stderr, with nothing written; 130 interrupted.
"""

_WATCHING = ("period", "tolerance", "alpha", "model_version", "due", "now")


@click.command(cls=Remembering, epilog=_EPILOG)
@click.argument("data", metavar="DATA...", nargs=-1, required=True)
@click.option("--out", metavar="FILE", required=True, help="The page to write: .html.")
@click.option("--title", help="Heading of the page.")
@click.option("--ci", type=float, metavar="LEVEL", default=0.95, show_default=True, help="Level of intervals.")
@click.option("--n-boot", type=int, metavar="N", default=200, show_default=True, help="Replicates of the intervals.")
@click.option("--seed", type=int, metavar="S", default=0, show_default=True, help="Seed of random numbers.")
@click.option(
    "--limit",
    type=float,
    metavar="X",
    help="Largest calibration error accepted, as a fraction such as 0.03: the page begins with a decision.",
)
@click.option("--slice-limit", type=float, metavar="Y", help="The same for each slice.  [default: --limit]")
@click.option(
    "--features",
    metavar="NAME[,...]|all",
    multiple=True,
    help="Columns that describe groups: the page shows for whom the scores are wrong, by all groups that they make.",
)
@click.option(
    "--period",
    metavar="COLUMN",
    help="The periods, such as days: the page shows calibration over time, with alarms that hold at all of them.",
)
@click.option(
    "--tolerance",
    type=float,
    metavar="X",
    default=0.0,
    show_default=True,
    help="With --period: how far, as a fraction, frequencies may be from scores without being off.",
)
@click.option(
    "--alpha",
    type=float,
    metavar="A",
    default=0.05,
    show_default=True,
    help="With --period: the share of calibrated models that ever raise an alarm, at most.",
)
@click.option(
    "--model-version",
    metavar="COLUMN",
    help="With --period: the version of the model, whose changes are marked; or a coordinate of the periods.",
)
@click.option(
    "--due", metavar="TIME", help="With --period: when outcomes are known, such as 30d; before it is pending."
)
@click.option("--now", metavar="DATE", help="With --due: the moment, in universal time.  [default: the present one]")
@row_options
@click.option("--overwrite", is_flag=True, help="Replace an existing page.")
def report(
    data: tuple[str, ...],
    out: str,
    title: str | None,
    limit: float | None,
    slice_limit: float | None,
    features: tuple[str, ...],
    overwrite: bool,
    **given: Any,
) -> None:
    """Write a report on the models in DATA: one page that opens without a network, and prints.

    DATA are scored rows or summaries, as evaluate takes them; several are several models, named after their files,
    or NAME as in NAME=FILE. Or one cube of a study, as run makes it. Each column that --by names makes slices by
    itself; of a summary all slices are shown, or those that --by names.

    A verdict in plain words, metrics with intervals, reliability diagrams and curves, slices, tests, warnings, and how
    to reproduce it. Rows are read once or twice for a model (equal-mass bins of big data take up to three passes), and
    once more for each column of slices.

    With --period the page shows calibration over time too, of all rows and by each column that --by names: gaps,
    evidence that keeps its word however often one looks, since when, and whether people or behaviour changed.

    With --features the groups that these columns make are audited too, with all rows together; a summary that has
    features has them audited.

    With --limit each model and each slice is judged by its calibration error (the ECE, if it is measured): met, if the
    upper end of what is not excluded is at most the limit; broken, if the lower end is above it; otherwise undecided,
    with the rows that would do. Not excluded is what lies in the interval, or between ends that hold with few rows and
    few events too: at 95 %, a limit that is the true error is met in 2.5 % of data sets at most, and broken likewise.
    """
    from calibdask.inference.choice import check_interval
    from calibdask.report.writing import decision_lines
    from calibdask.storage.open_store import StoredCube, open_store
    from calibdask.storage.replacing import replacing

    intervals = {name: given.pop(name) for name in ("ci", "n_boot", "seed")}
    check_interval(*intervals.values())
    watching = _watching(*(given.pop(name) for name in _WATCHING))
    limits = _limits(limit, slice_limit)
    target, named = _checked(data, out, overwrite=overwrite)
    stores = {name: open_store(path) for name, path in named.items()}
    cubes = [store for store in stores.values() if isinstance(store, StoredCube)]
    if cubes:
        _check_alone(cubes[0], stores)
    _check_slices(stores.values(), given["by"], slice_limit)
    lines: list[str] = []
    with replacing(target) as part:
        if cubes:
            _write_cube(cubes[0], part, title)
        else:
            models: dict[str, Any] = {}
            for name, store in stores.items():
                request = RowsRequest(data=named[name], **given)
                own = measured(name, request, store, watching=watching, **intervals)
                own = audited(own, request, store, features)
                models |= {f"{name} {model}" if model in models else model: one for model, one in own.items()}
            write_models(part, models, title, limit=limit, slice_limit=slice_limit)
            lines = decision_lines(models, limits)
    for line in lines:
        click.echo(visible(line))
    click.echo(f"wrote {visible(target)}")


def _watching(
    period: str | None, tolerance: float, alpha: float, version: str | None, due: str | None, now: str | None
) -> "Watching | None":
    """How calibration is watched over time, if it is."""
    from calibdask.report.over_time import Watching

    if period is not None:
        return Watching(period, tolerance, alpha, version, due, now)
    source = click.get_current_context().get_parameter_source
    for option in _WATCHING[1:]:
        if source(option) is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"--{option.replace('_', '-')} has no effect without --period.")
    return None


def _limits(limit: float | None, slice_limit: float | None) -> "Limits":
    """What is accepted; bad ones are called as they were typed."""
    from calibdask.report.decision_table import Limits

    for option, value in {"--limit": limit, "--slice-limit": slice_limit}.items():
        if value is not None and not 0 < value < 1:
            raise click.UsageError(
                f"{option} expects a fraction between 0 and 1, such as 0.03 for 3 percentage points, got {value:g}."
            )
    return Limits(limit, slice_limit)


def _check_slices(stores: "Iterable[Store]", by: Sequence[str], slice_limit: float | None) -> None:
    """Refuse a limit of slices that nobody asked for; summaries have their own."""
    from calibdask.storage.summary import Summary

    if slice_limit is None or by:
        return
    for store in stores:
        if not isinstance(store, Summary):
            raise click.UsageError(f"--slice-limit has no effect without --by: {store.url} holds rows.")
        if not store.slices:
            raise click.UsageError(f"--slice-limit has no effect on {store.url}: it is a summary without slices.")


def _checked(data: tuple[str, ...], out: str, *, overwrite: bool) -> "tuple[Output, dict[str, str]]":
    """Where the page goes, and what is read, before any of it is."""
    from calibdask.report.writing import FORMATS
    from calibdask.storage.writers import check_apart, checked_output

    named = named_data(data)
    for path in named.values():
        check_apart(path, {"--out": out})
    return checked_output(out, FORMATS, overwrite=overwrite), named


def _check_alone(cube: "StoredCube", stores: "Sized") -> None:
    """Refuse what has no effect on a cube."""
    if len(stores) > 1:
        raise click.UsageError(f"{cube.url} is the cube of a study, which has a report of its own; name it alone.")
    source = click.get_current_context().get_parameter_source
    rows = (
        "by",
        *_WATCHING,
        "features",
        "weight",
        "label",
        "score",
        "task",
        "logits",
        "labels",
        "pos_label",
        "ignore_label",
    )
    for option in (*rows, "ci", "n_boot", "seed", "limit", "slice_limit"):
        if source(option) is ParameterSource.COMMANDLINE:
            raise click.UsageError(
                f"--{option.replace('_', '-')} has no effect on {cube.url}: it is the cube of a study."
            )


def _write_cube(cube: "StoredCube", part: "Path", title: str | None) -> None:
    from calibdask.report import write_cube_report

    write_cube_report(part, cube, title=title, command=command_line())
