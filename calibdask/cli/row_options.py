"""What commands that read scored rows have in common: the options that say where the rows are, and reading them."""

import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

import click

from calibdask.cli.cluster_options import cluster_options
from calibdask.cluster import ClusterSpec, connected
from calibdask.cluster.threads import Threads
from calibdask.safe_text import message as one_line
from calibdask.safe_text import visible, without_credentials

if TYPE_CHECKING:
    from calibdask.engine.inputs.options import InputKeywords, Task
    from calibdask.engine.inputs.shapes import Shape
    from calibdask.storage.location import MissingChunks
    from calibdask.storage.open_store import Store
    from calibdask.storage.readers import StoredRows, Table


def _one_or_several(context: click.Context, parameter: click.Parameter, given: tuple[str, ...]) -> Any:
    """The name, or names that were repeated; None without."""
    return list(given) if len(given) > 1 else next(iter(given), None)


_SLICES = (
    click.option("--by", metavar="COLUMN", multiple=True, help="Slice by this column or array; repeatable."),
    click.option("--weight", metavar="COLUMN", help="Column or array of sample weights."),
)
_LABEL = click.option(
    "--label",
    metavar="NAME[,...]",
    multiple=True,
    callback=_one_or_several,
    help="Column or array of labels; or a column for each class, one-hot or multilabel (--task), as --score.  "
    "[default: label, labels in array files, or the one usual name]",
)
_SCORE = click.option(
    "--score",
    metavar="NAME[,...]",
    multiple=True,
    callback=_one_or_several,
    help="Column of scores, first part of columns, or array; or a column for each class, in their order, between "
    "commas or repeated; or a quoted pattern such as 'prob_*'.",
)
_MISSING_CHUNKS = click.option(
    "--missing-chunks",
    type=click.Choice(["error", "fill"]),
    default="error",
    show_default=True,
    help="What chunks are that are not in a Zarr store: lost, or the fill value.",
)
_PLACES = (
    _LABEL,
    _SCORE,
    click.option(
        "--skip-missing", is_flag=True, help="Leave out rows without a label, a score or a weight, and say how many."
    ),
    _MISSING_CHUNKS,
)


_READING = (
    click.option(
        "--task",
        type=click.Choice(["binary", "multiclass", "multilabel"]),
        help="What the axes of labels and scores mean, where both have the same shape.",
    ),
    click.option("--logits", is_flag=True, help="The scores are logits: take their softmax, or their sigmoid."),
    click.option("--labels", metavar="NAME,...", help="The classes in the order of the score columns."),
    click.option("--pos-label", metavar="NAME", help="The class whose probability a single column of scores is."),
    click.option("--ignore-label", metavar="NAME", help="Leave out the rows with this label, and say how many."),
)


def score_options(command: Callable[..., None]) -> Callable[..., None]:
    """The options of a command that reads rows whether they have labels or not."""
    return _with((_LABEL, _SCORE, _MISSING_CHUNKS), command)


def row_options(command: Callable[..., None]) -> Callable[..., None]:
    """The options of a command that reads scored rows."""
    return _with(_SLICES, place_options(command))


def place_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Those of a command that takes all rows together, each for one."""
    return _with(_PLACES, _with(_READING, cluster_options(command)))


def _with(options: Sequence[Callable[..., Any]], command: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(options):
        command = option(command)
    return command


@dataclass(frozen=True, kw_only=True)
class RowsRequest:
    """Where the rows are, what in them is what, and where to work."""

    data: str
    by: tuple[str, ...]
    weight: str | None
    label: str | list[str] | None
    score: str | list[str] | None
    cluster: ClusterSpec
    task: "Task | None" = None
    logits: bool = False
    labels: str | None = None
    pos_label: str | None = None
    ignore_label: str | None = None
    skip_missing: bool = False
    missing_chunks: "MissingChunks" = "error"

    def opened(self) -> "Store":
        """Open DATA: scored rows, a summary, the cube of a study or a result."""
        from calibdask.storage.open_store import open_store

        with noted():
            return open_store(self.data)

    def table(self, rows: "StoredRows") -> "Table":
        """The rows that were opened."""
        with noted():
            return rows.read(
                label=self.label,
                score=self.score,
                by=self.by,
                weight=self.weight,
                skip_missing=self.skip_missing,
                missing_chunks=self.missing_chunks,
            )

    def connected(self, table: "Table | None" = None) -> AbstractContextManager[Any]:
        """What Dask computes on inside the block; Dask is not imported for rows in memory, which need none of it."""
        if table is not None and table.in_memory and isinstance(self.cluster, Threads):
            return nullcontext()
        return connected(self.cluster)

    @property
    def reading(self) -> "InputKeywords":
        """How the arrays are to be read, as arguments of `calibdask.evaluate`."""
        given: InputKeywords = {}
        if self.task is not None:
            given["task"] = self.task
        if self.logits:
            given["logits"] = True
        if self.labels is not None:
            given["labels"] = [name.strip() for name in self.labels.split(",")]
        if self.pos_label is not None:
            given["pos_label"] = self.pos_label
        if self.ignore_label is not None:
            given["ignore_label"] = self.ignore_label
        return given

    @property
    def notes(self) -> tuple[str, ...]:
        """What reports say about the scores besides."""
        return ()

    def shape(self, table: "Table") -> "Shape":
        """How the arrays are read."""
        from calibdask.engine.inputs.options import InputOptions
        from calibdask.engine.inputs.shapes import Shape

        return Shape.of(table.labels, table.scores, InputOptions(**self.reading))

    def note_ignored(self, attributes: Mapping[str, Any]) -> None:
        """Say how many rows were left out for their label."""
        ignored = attributes.get("rows_ignored")
        if ignored is not None:
            total = ignored + attributes.get("rows", 0)
            label = visible(self.ignore_label)
            sys.stderr.write(f"calibdask: left out {ignored:,} of {total:,} rows, whose label is {label}\n")


def skipped_rows(table: "Table", rows: int) -> dict[str, int]:
    """What a result of so many rows says about those left out, which is said on stderr too."""
    if table.skipped is None:
        return {}
    skipped = table.skipped(rows)
    sys.stderr.write(
        f"calibdask: left out {skipped:,} of {rows + skipped:,} rows, without a label, a score or a weight\n"
    )
    return {"rows_skipped": skipped}


def rows_of(store: "Store", mend: str = "give the scored rows that it was made from.") -> "StoredRows":
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
    name = PurePosixPath(without_credentials(data)).name
    return name.partition(".")[0] or name


@dataclass(frozen=True)
class _Notes:
    """Shows what the library warns its users of as one line, once, and other warnings as they are."""

    show: Callable[..., None]
    told: list[str] = field(default_factory=list)

    def __call__(self, message: Warning | str, category: type[Warning], *where: Any, **options: Any) -> None:
        """Show a warning."""
        said = one_line(message)
        if not issubclass(category, UserWarning):
            self.show(said, category, *where, **options)
        elif said not in self.told:
            self.told.append(said)
            sys.stderr.write(f"calibdask: {said}\n")


@contextmanager
def noted() -> Iterator[list[str]]:
    """Show what the library warns its users of as one line, without the places in its code; what has been told so."""
    with warnings.catch_warnings():
        shown = warnings.showwarning
        notes = shown if isinstance(shown, _Notes) else _Notes(shown)
        warnings.showwarning = notes
        yield notes.told
