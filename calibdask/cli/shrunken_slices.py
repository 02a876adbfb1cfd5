"""``calibdask evaluate --shrink``: the command `calibdask shrink` with the options of evaluate."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import click

from calibdask.cli.analysis_command import OutputFiles, run_with_defaults
from calibdask.cli.row_options import check_every
from calibdask.cli.rows_request import RowsRequest

# Options of evaluate that mean the same, or are for all commands.
_OUTPUT = ("as_text", "out", "overwrite")


def show_shrunken(given: Mapping[str, Any]) -> None:
    """Print, or write, the shrunken slices of one DATA.

    Raises
    ------
    click.UsageError
        If there are no slices, or several DATA, or options of metrics.
    """
    (data, *others) = given["data"]
    if others:
        raise click.UsageError("--shrink expects one DATA.")
    check_every(given["period"], given["every"], given["zone"])
    by = tuple(dict.fromkeys((*given["by"], *([given["period"]] if given["period"] else []))))
    if not by:
        raise click.UsageError("--shrink expects slices: --by COLUMN.")
    own = {field.name for field in fields(RowsRequest)}
    further = sorted(
        name for name, value in given.items() if name not in own and name not in _OUTPUT and _is_chosen(name, value)
    )
    if further:
        raise click.UsageError(
            f"--{further[0].replace('_', '-')} has no effect with --shrink; calibdask shrink --help lists its options."
        )
    where = {name: value for name, value in given.items() if name in own}
    request = RowsRequest(**{**where, "data": data, "by": by})
    output = OutputFiles.checked((data,), [given["out"]] if given["out"] else [], None, overwrite=given["overwrite"])
    run_with_defaults("shrink", request, output, as_text=given["as_text"])


def _is_chosen(name: str, value: Any) -> bool:
    """Whether an option was given, judging by its value."""
    context = click.get_current_context()
    source = context.get_parameter_source(name)
    return value not in (None, False, ()) and source is click.core.ParameterSource.COMMANDLINE
