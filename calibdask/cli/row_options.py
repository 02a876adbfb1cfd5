"""What commands that read scored rows have in common: the options that say where the rows are, and reading them."""

import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, TextIO

import click

from calibdask.cli.cluster_options import cluster_options
from calibdask.cluster import ClusterSpec

if TYPE_CHECKING:
    from calibdask.storage.open_store import Store
    from calibdask.storage.readers import StoredRows, Table

__all__ = ["RowsRequest", "noted", "place_options", "row_options", "rows_of", "stem_of"]

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
    cluster: ClusterSpec

    def opened(self) -> "Store":
        """Open DATA: scored rows, a summary, the cube of a study or a result."""
        from calibdask.storage.open_store import open_store

        return open_store(self.data)

    def table(self, rows: "StoredRows") -> "Table":
        """The rows that were opened."""
        return rows.read(label=self.label, score=self.score, by=self.by, weight=self.weight)


def rows_of(store: "Store", mend: str = "") -> "StoredRows":
    """What was opened, if it may be scored rows.

    Raises
    ------
    click.UsageError
        If it is anything else; the message ends in how to mend it, for a summary in ``mend``.
    """
    from calibdask.storage.readers import StoredRows

    if isinstance(store, StoredRows):
        return store
    from calibdask.storage.summary import Summary

    if isinstance(store, Summary):
        raise click.UsageError(f"{store.url} is a stored summary already; {mend}")
    raise click.UsageError(f"{store.url} is {store.kind}, which holds no scored rows; {store.mend}.")


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
