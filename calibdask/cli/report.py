"""``calibdask report``: one page for whoever signs off a model, or looks at a study."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from calibdask.cli.reporting import Remembering, command_line, measured, named_data, write_models
from calibdask.cli.rows import RowsRequest, row_options

if TYPE_CHECKING:
    from pathlib import Path

    from calibdask.engine.writers import Output
    from calibdask.report.decision import Limits

__all__ = ["report"]

_EPILOG = """\b
Examples:
  calibdask report holdout.parquet --by country --out report.html
  calibdask report holdout.parquet --by country --limit 0.03 --out report.html
  calibdask report old=a.csv new=b.csv --weight w --out report.html
  calibdask report summary.zarr --out report.html
  calibdask report cube.zarr --out study.html
\b
Exit status: 0 done, whatever is decided; 2 bad use or bad input, said in one line
on stderr, with nothing written; 130 interrupted.
"""


@click.command(cls=Remembering, epilog=_EPILOG)
@click.argument("data", metavar="DATA...", nargs=-1, required=True)
@click.option("--out", metavar="FILE", required=True, help="The page to write: .html.")
@click.option("--title", help="Its heading.")
@click.option("--ci", type=float, metavar="LEVEL", default=0.95, show_default=True, help="Level of intervals.")
@click.option("--n-boot", type=int, metavar="N", default=200, show_default=True, help="Replicates behind them.")
@click.option("--seed", type=int, metavar="S", default=0, show_default=True, help="Of random numbers.")
@click.option(
    "--limit",
    type=float,
    metavar="X",
    help="Largest calibration error accepted, as a fraction such as 0.03: the page begins with a decision.",
)
@click.option("--slice-limit", type=float, metavar="Y", help="The same for each slice.  [default: --limit]")
@row_options
@click.option("--overwrite", is_flag=True, help="Replace a page that is there.")
def report(
    data: tuple[str, ...],
    out: str,
    title: str | None,
    limit: float | None,
    slice_limit: float | None,
    overwrite: bool,
    **given: Any,
) -> None:
    """Write a report on the models in DATA: one page that opens without a network, and prints.

    DATA are scored rows or summaries, as evaluate takes them; several are several models, called by the names of their
    files, or NAME as in NAME=FILE. Or one cube of a study, as run makes it. Each column that --by names makes slices by
    itself; of a summary all slices are shown, or those that --by names.

    A verdict in plain words, metrics with intervals, reliability diagrams and curves, slices, tests, warnings, and how
    to make it again. Rows are read once or twice for a model (equal-mass bins of big data take up to three passes), and
    once more for each column of slices.

    With --limit each model and each slice is judged by its calibration error (the ECE, if it is measured): met, if the
    upper end of its interval is at most the limit; broken, if the lower end is above it; else it cannot be decided.
    """
    from calibdask.engine.intervals import checked_interval
    from calibdask.engine.writers import replacing
    from calibdask.report.writing import decision_lines

    intervals = {name: given.pop(name) for name in ("ci", "n_boot", "seed")}
    checked_interval(*intervals.values())
    limits = _limits(limit, slice_limit)
    target, named = _checked(data, out, overwrite=overwrite)
    cubes = [path for path in named.values() if _is_cube(path)]
    _check_alone(cubes, named, {**given, "limit": limit, "slice_limit": slice_limit})
    _check_slices(named, given["by"], slice_limit)
    lines: list[str] = []
    with replacing(target) as part:
        if cubes:
            _write_cube(cubes[0], part, title)
        else:
            models: dict[str, Any] = {}
            for name, path in named.items():
                found = measured(name, RowsRequest(data=path, **given), **intervals)
                models |= {f"{name} {each}" if each in models else each: one for each, one in found.items()}
            write_models(part, models, title, limit=limit, slice_limit=slice_limit)
            lines = decision_lines(models, limits)
    for line in lines:
        click.echo(line)
    click.echo(f"wrote {target}")


def _limits(limit: float | None, slice_limit: float | None) -> "Limits":
    """What is accepted; bad ones are called as they were typed."""
    from calibdask.report.decision import Limits

    for option, value in {"--limit": limit, "--slice-limit": slice_limit}.items():
        if value is not None and not 0 < value < 1:
            raise click.UsageError(
                f"{option} expects a fraction between 0 and 1, such as 0.03 for 3 percentage points, got {value:g}."
            )
    return Limits(limit, slice_limit)


def _check_slices(named: dict[str, str], by: Sequence[str], slice_limit: float | None) -> None:
    """Refuse a limit of slices that nobody asked for; summaries have their own."""
    from calibdask.engine.summaries import extra_dims
    from calibdask.engine.summary_files import open_summary

    if slice_limit is None or by:
        return
    for path in named.values():
        summary = open_summary(path)
        if summary is None:
            raise click.UsageError(f"--slice-limit means nothing without --by: {path} holds rows.")
        with summary:
            if not set(summary["rows"].dims) - set(extra_dims(summary)):
                raise click.UsageError(f"--slice-limit means nothing to {path}: it is a summary without slices.")


def _checked(data: tuple[str, ...], out: str, *, overwrite: bool) -> "tuple[Output, dict[str, str]]":
    """Where the page goes, and what is read, before any of it is."""
    from calibdask.engine.writers import check_apart, checked_output
    from calibdask.report.writing import FORMATS

    named = named_data(data)
    for path in named.values():
        check_apart(path, {"--out": out})
    return checked_output(out, FORMATS, overwrite=overwrite), named


def _is_cube(path: str) -> bool:
    from calibdask.study.cube import Cube

    return Cube(path).is_cube


def _check_alone(cubes: list[str], named: dict[str, str], given: dict[str, Any]) -> None:
    """Refuse what means nothing to a cube."""
    if not cubes:
        return
    if len(named) > 1:
        raise click.UsageError(f"{cubes[0]} is the cube of a study, which has a report of its own; name it alone.")
    source = click.get_current_context().get_parameter_source
    for option in ("by", "weight", "label", "score", "ci", "n_boot", "seed", "limit", "slice_limit"):
        if source(option) is ParameterSource.COMMANDLINE:
            raise click.UsageError(
                f"--{option.replace('_', '-')} means nothing to {cubes[0]}: it is the cube of a study."
            )


def _write_cube(path: str, part: "Path", title: str | None) -> None:
    from calibdask.report import write_cube_report

    write_cube_report(part, path, title=title, command=command_line())
