"""``calibdask report``: one page for whoever signs off a model, or looks at a study."""

from typing import TYPE_CHECKING, Any

import click

from calibdask.cli.reporting import FORMATS, Remembering, command_line, measured, named_data, write_models
from calibdask.cli.rows import RowsRequest, row_options

if TYPE_CHECKING:
    from pathlib import Path

    from calibdask.engine.writers import Output

__all__ = ["report"]

_EPILOG = """\b
Examples:
  calibdask report holdout.parquet --by country --out report.html
  calibdask report old=a.csv new=b.csv --weight w --out report.html
  calibdask report summary.zarr --out report.html
  calibdask report cube.zarr --out study.html
\b
Exit status: 0 done; 2 bad use or bad input, said in one line on stderr, with
nothing written; 130 interrupted.
"""


@click.command(cls=Remembering, epilog=_EPILOG)
@click.argument("data", metavar="DATA...", nargs=-1, required=True)
@click.option("--out", metavar="FILE", required=True, help="The page to write: .html.")
@click.option("--title", help="Its heading.")
@click.option("--ci", type=float, metavar="LEVEL", default=0.95, show_default=True, help="Level of intervals.")
@click.option("--n-boot", type=int, metavar="N", default=200, show_default=True, help="Replicates behind them.")
@click.option("--seed", type=int, metavar="S", default=0, show_default=True, help="Of random numbers.")
@row_options
@click.option("--overwrite", is_flag=True, help="Replace a page that is there.")
def report(data: tuple[str, ...], out: str, title: str | None, overwrite: bool, **given: Any) -> None:
    """Write a report on the models in DATA: one page that opens without a network, and prints.

    DATA are scored rows or summaries, as evaluate takes them; several are several models, called by the names of their
    files, or NAME as in NAME=FILE. Or one cube of a study, as run makes it. Each column that --by names makes slices by
    itself; of a summary all slices are shown, or those that --by names.

    A verdict in plain words, metrics with intervals, reliability diagrams and curves, slices, tests, warnings, and how
    to make it again. Rows are read once or twice for a model (equal-mass bins of big data take up to three passes), and
    once more for each column of slices.
    """
    from calibdask.engine.intervals import checked_interval
    from calibdask.engine.writers import replacing

    intervals = {name: given.pop(name) for name in ("ci", "n_boot", "seed")}
    checked_interval(*intervals.values())
    target, named = _checked(data, out, overwrite=overwrite)
    cubes = [path for path in named.values() if _is_cube(path)]
    _check_alone(cubes, named, given)
    with replacing(target) as part:
        if cubes:
            _write_cube(cubes[0], part, title)
        else:
            models: dict[str, Any] = {}
            for name, path in named.items():
                found = measured(name, RowsRequest(data=path, **given), **intervals)
                models |= {f"{name} {each}" if each in models else each: one for each, one in found.items()}
            write_models(part, models, title)
    click.echo(f"wrote {target}")


def _checked(data: tuple[str, ...], out: str, *, overwrite: bool) -> "tuple[Output, dict[str, str]]":
    """Where the page goes, and what is read, before any of it is."""
    from calibdask.engine.writers import check_apart, checked_output

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
    for option in ("by", "weight", "label", "score"):
        if given[option]:
            raise click.UsageError(f"--{option} means nothing to {cubes[0]}: it is the cube of a study.")


def _write_cube(path: str, part: "Path", title: str | None) -> None:
    from calibdask.report import write_cube_report

    write_cube_report(part, path, title=title, command=command_line())
