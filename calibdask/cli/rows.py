"""What commands that read scored rows have in common: the options that say where the rows are, and reading them."""

import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, TextIO

import click

from calibdask.cli.where import cluster_options
from calibdask.cluster import Place

__all__ = ["RowsRequest", "noted", "place_options", "row_options", "stem_of"]

_SLICES = (
    click.option("--by", metavar="COLUMN", multiple=True, help="Slice by this column or array; repeatable."),
    click.option("--weight", metavar="COLUMN", help="Column or array of sample weights."),
)
_PLACES = (
    click.option(
        "--label", metavar="NAME", help="Column or array of labels.  [default: label, or labels in array files]"
    ),
    click.option("--score", metavar="NAME", help="Column, first part of columns, or array of scores."),
)


def row_options(command: Callable[..., None]) -> Callable[..., None]:
    """The options of a command that reads scored rows."""
    return _with(_SLICES, place_options(command))


def place_options(command: Callable[..., None]) -> Callable[..., None]:
    """Those of a command that takes all rows together, each for one."""
    return _with(_PLACES, cluster_options(command))


def _with(options: Sequence[Callable[..., Any]], command: Callable[..., None]) -> Callable[..., None]:
    for option in reversed(options):
        command = option(command)
    return command


@dataclass(frozen=True, kw_only=True)
class RowsRequest:
    """Where the rows are, what in them is what, and where to work."""

    data: str
    by: tuple[str, ...]
    weight: str | None
    label: str | None
    score: str | None
    cluster: Place

    def table(self) -> Any:
        """The rows."""
        from calibdask.engine.readers import read_rows

        return read_rows(self.data, label=self.label, score=self.score, by=self.by, weight=self.weight)


def stem_of(data: str) -> str:
    """The name of a file without suffixes; of a group in a store its own name."""
    name = PurePosixPath(data).name
    return name.partition(".")[0] or name


@contextmanager
def noted() -> Iterator[None]:
    """Show what the library warns its users of as one line, without the places in its code."""
    show = warnings.showwarning

    def note(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        if category is UserWarning:
            sys.stderr.write(f"calibdask: {' '.join(str(message).split())}\n")
        else:
            show(message, category, filename, lineno, file, line)

    with warnings.catch_warnings():
        warnings.showwarning = note
        yield
