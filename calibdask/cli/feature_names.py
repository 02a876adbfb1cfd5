"""The option ``--features``: columns that describe groups, by their names."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from calibdask.cli.row_options import RowsRequest

if TYPE_CHECKING:
    from calibdask.storage.readers import StoredRows

_ALL = "all"


def features_option(use: str = "Columns that describe subgroups") -> Callable[[Any], Any]:
    """The option ``--features``; ``use`` states the purpose of the columns."""
    help_text = f"{use}; repeatable. all: every column besides labels, scores and weights."
    return click.option("--features", metavar=f"NAME[,...]|{_ALL}", multiple=True, help=help_text)


def feature_names(request: RowsRequest, rows: "StoredRows", given: tuple[str, ...]) -> tuple[str, ...]:
    """The columns that were named, ``all`` for every one besides labels, scores and weights.

    Raises
    ------
    click.UsageError
        If none is named.
    """
    from calibdask.storage.readers import further_columns

    names = tuple(dict.fromkeys(name.strip() for words in given for name in words.split(",") if name.strip()))
    if not names:
        raise click.UsageError("Missing option '--features': name columns that describe groups, or all.")
    if names != (_ALL,):
        return names
    return tuple(further_columns(rows, request.label, request.score, [request.weight] if request.weight else []))
