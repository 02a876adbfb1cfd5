"""Options that locate scored rows, shared by all commands that read them, and the reading itself."""

import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, cast

import click

from calibdask.cli.cluster_options import cluster_options
from calibdask.cli.option_names import as_options, options_of
from calibdask.cli.population_options import population_of
from calibdask.cluster import ClusterSpec, connected
from calibdask.cluster.threads import Threads
from calibdask.safe_text import message as one_line
from calibdask.safe_text import visible, without_credentials

if TYPE_CHECKING:
    from calibdask.calibrators.stored_map import StoredMap
    from calibdask.data.data import Data
    from calibdask.data.options import InputKeywords, PopulationKeywords, Task
    from calibdask.data.periods import Every
    from calibdask.data.population import Population
    from calibdask.data.shapes import Shape
    from calibdask.storage.location import MissingChunks
    from calibdask.storage.open_store import Store
    from calibdask.storage.readers import RowTable, StoredRows


def _one_or_several(context: click.Context, parameter: click.Parameter, given: tuple[str, ...]) -> Any:
    """The name, or names that were repeated; None without."""
    return list(given) if len(given) > 1 else next(iter(given), None)


by_option = click.option("--by", metavar="COLUMN", multiple=True, help="Slice by this column or array; repeatable.")
weight_option = click.option("--weight", metavar="COLUMN", help="Column or array of sample weights.")
_SLICES = (
    by_option,
    weight_option,
    click.option("--groups", metavar="COLUMN", help="Column of clusters of dependent rows, such as patients."),
)
# Of commands that take rows as independent: they read it to refuse it with the reason.
refused_groups_option = click.option("--groups", hidden=True)
_LABEL = click.option(
    "--label",
    metavar="NAME[,...]",
    multiple=True,
    callback=_one_or_several,
    help=(
        "Column or array of labels; or one column per class (one-hot or, with --task, multilabel), as for "
        "--score.  [default: label; labels in array files; or a common name]"
    ),
)
_SCORE = click.option(
    "--score",
    metavar="NAME[,...]",
    multiple=True,
    callback=_one_or_several,
    help=(
        "Column or array of P(y = 1); or one column per class, separated by commas, repeated, or as a quoted "
        "pattern such as 'prob_*'. Repeat NAME=COLUMN for several models."
    ),
)
_MISSING_CHUNKS = click.option(
    "--missing-chunks",
    type=click.Choice(["error", "fill"]),
    default="error",
    show_default=True,
    help="How to treat missing Zarr chunks.",
)
_PLACES = (
    _LABEL,
    _SCORE,
    click.option(
        "--skip-missing", is_flag=True, help="Skip rows without a label, score or weight, and print their number."
    ),
    _MISSING_CHUNKS,
)


_READING = (
    click.option(
        "--task",
        type=click.Choice(["binary", "multiclass", "multilabel"]),
        help="Meaning of the axes of labels and scores if both have the same shape.",
    ),
    click.option("--logits", is_flag=True, help="Scores are logits: apply the softmax or the sigmoid."),
    click.option("--labels", metavar="NAME,...", help="Classes in the order of the score columns."),
    click.option("--pos-label", metavar="NAME", help="Positive class, whose probability a single score column holds."),
    click.option("--ignore-label", metavar="NAME", help="Skip rows with this label, and print their number."),
)


def key_option(command: Callable[..., None]) -> Callable[..., None]:
    """Add the option of commands that compare models on shared rows."""
    option = click.option(
        "--key", metavar="COLUMN", help="Join the rows of several DATA on this column instead of by position."
    )
    return _with((option,), command)


def cluster_check_option(command: Callable[..., None]) -> Callable[..., None]:
    """Add the option of commands that look for clusters that nobody named."""
    option = click.option(
        "--cluster-check/--no-cluster-check",
        default=True,
        help="Without --groups: warn if rows that share a value of a column named like an identifier (patient_id) are "
        "dependent.  [default: --cluster-check]",
    )
    return _with((option,), command)


_PERIODS = (
    click.option(
        "--every",
        type=click.Choice(["day", "week", "month", "quarter", "year"]),
        help="Length of the periods into which the timestamps of --period COLUMN are cut.",
    ),
    click.option("--zone", metavar="NAME", help="Time zone of the periods, such as Europe/Paris."),
)


def period_options(command: Callable[..., None]) -> Callable[..., None]:
    """The options that cut timestamps into periods."""
    return _with(_PERIODS, command)


def check_every(period: str | None, every: str | None, zone: str | None) -> None:
    """Raise UsageError for options of periods without the ones that they belong to."""
    if every is not None and period is None:
        raise click.UsageError("--every has no effect without --period COLUMN, the column of timestamps.")
    if zone is not None and every is None:
        raise click.UsageError("--zone has no effect without --every.")


def score_options(command: Callable[..., None]) -> Callable[..., None]:
    """The options of a command that reads rows whether they have labels or not."""
    return _with((_LABEL, _SCORE, _MISSING_CHUNKS), command)


def row_options(command: Callable[..., None]) -> Callable[..., None]:
    """The options of a command that reads scored rows."""
    return _with(_SLICES, place_options(command))


def place_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the reading options of commands that pool all rows."""
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
    groups: str | None = None
    feature_columns: tuple[str, ...] = ()
    period: str | None = None
    every: "Every | None" = None
    zone: str | None = None
    key: str | None = None
    prevalence: str | None = None
    train_prevalence: str | None = None
    sampling_rate: str | None = None
    cluster_check: bool = False
    map_path: str | None = None
    soft_labels: bool = False

    def opened(self) -> "Store":
        """Open DATA: scored rows, a summary, of the population that was asked for, the cube of a study or a result."""
        store = self._opened()
        population = self.population
        if population is not None:
            from calibdask.storage.summary import Summary

            return population.summary_of(store) if isinstance(store, Summary) else store
        return store

    def _opened(self) -> "Store":
        from calibdask.storage.open_store import open_store

        with shown_warnings():
            return open_store(self.data)

    @cached_property
    def stored_map(self) -> "StoredMap | None":
        """The map that is applied to the scores."""
        if self.map_path is None:
            return None
        from calibdask.calibrators.stored_map import StoredMap

        stored_map = StoredMap.read(self.map_path)
        if self.task == "multilabel":
            raise click.UsageError("--map has no effect with --task multilabel: a map is of one problem.")
        if self.logits and not stored_map.takes_logits:
            raise click.UsageError(f"--logits has no effect with the map {stored_map.url}, which takes probabilities.")
        return stored_map

    @property
    def map_attributes(self) -> dict[str, str]:
        """Attributes of results that describe the applied map."""
        return {} if self.stored_map is None else {"map": self.stored_map.described}

    def table(self, rows: "StoredRows") -> "RowTable":
        """The rows that were opened, with calibrated scores if there is a map."""
        stored_map = self.stored_map
        columns = self.by if stored_map is None else tuple(dict.fromkeys((*self.by, *stored_map.further)))
        with shown_warnings():
            table = rows.read(
                label=self.label,
                score=self.score,
                by=columns,
                weight=self.weight,
                skip_missing=self.skip_missing,
                missing_chunks=self.missing_chunks,
                features=self.feature_columns,
                groups=self.groups,
                instants=self._instants,
                identifiers=self._identifiers(rows),
            )
            if self.period is not None:
                table = self._with_periods(table, rows)
        if stored_map is None:
            return table
        width = 1 if table.scores.ndim == 1 else int(table.scores.shape[-1])
        stored_map.check(rows.url, width, table.names.classes)
        scores = stored_map.apply_lazily(table.scores, table.by)
        return replace(table, scores=scores, by={name: table.by[name] for name in self.by})

    def _identifiers(self, rows: "StoredRows") -> list[str]:
        """The columns that are checked for dependent rows."""
        if not self.cluster_check or self.groups is not None:
            return []
        from calibdask.storage.identifier_names import stored_identifiers

        used = filter(None, (*self.by, *self.feature_columns, self.weight, self.key, self.period))
        return stored_identifiers(rows, self.label, self.score, list(used))

    @property
    def _instants(self) -> tuple[str, ...]:
        """The columns of times that are compared, or put on the clock of another zone."""
        return tuple(name for name in (self.key, self.period if self.zone else None) if name is not None)

    def _with_periods(self, table: "RowTable", rows: "StoredRows") -> "RowTable":
        """The rows with periods in place of the timestamps of the column ``period``."""
        from calibdask.data.periods import check_periods, periods
        from calibdask.storage.text_types import OFFSETS

        name = str(self.period)
        if name not in table.by:
            return table
        if self.every is None:
            check_periods(name, table.by[name])
            return table
        # Timestamps without a zone are taken as UTC, and so are instants.
        own = None if self.zone is None else rows.zone_of(name)
        if own not in (None, "UTC", OFFSETS):
            raise click.UsageError(
                f"--zone has no effect on {name}, whose timestamps have the zone {own} already; leave --zone out."
            )
        return replace(table, by={**table.by, name: periods(table.by[name], self.every, self.zone)})

    def connected(self, table: "RowTable | None" = None) -> AbstractContextManager[Any]:
        """Context in which Dask computes; rows in memory need no Dask, which then is not imported."""
        if table is not None and table.in_memory and isinstance(self.cluster, Threads):
            return nullcontext()
        return connected(self.cluster)

    @property
    def population(self) -> "Population | None":
        """The population that numbers are of; None: that of the sample."""
        return population_of(self.prevalence, self.train_prevalence, self.sampling_rate)

    @property
    def reading(self) -> "InputKeywords":
        """How the arrays are to be read, as arguments of `calibdask.evaluate`; scores from a map are never logits."""
        given: InputKeywords = {}
        if self.task is not None:
            given["task"] = self.task
        if self.logits and self.stored_map is None:
            given["logits"] = True
        if self.labels is not None:
            given["labels"] = [name.strip() for name in self.labels.split(",")]
        if self.pos_label is not None:
            given["pos_label"] = self.pos_label
        if self.ignore_label is not None:
            given["ignore_label"] = self.ignore_label
        return given

    @property
    def reading_of_population(self) -> "PopulationKeywords":
        """Reading options together with the population."""
        given = cast("PopulationKeywords", self.reading)
        if self.population is not None:
            given["population"] = self.population
        return given

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes of reports about the scores."""
        return tuple(f"Scores were calibrated before: {words}." for words in self.map_attributes.values())

    def shape(self, table: "RowTable") -> "Shape":
        """How the arrays are read; shares have the shape of the scores."""
        from calibdask.data.options import InputOptions
        from calibdask.data.shapes import Shape

        return Shape.of([0] if self.soft_labels else table.labels, table.scores, InputOptions(**self.reading))

    def data_of(self, table: "RowTable") -> "Data":
        """The rows that were read, with the options that say how."""
        from calibdask.data.data import Data
        from calibdask.data.options import InputOptions

        return Data.of(table, options=InputOptions(**self.reading_of_population, soft_labels=self.soft_labels))

    def fingerprint_of(self, table: "RowTable") -> str:
        """Fingerprint of labels, scores and weights, in one pass; empty for several problems at once."""
        from calibdask.analyses.receipts.fingerprint import fingerprint_of

        read = self.data_of(replace(table, by={}, groups=None, groups_name="", identifiers={})).read()
        return "" if read.batch else fingerprint_of(read).whole

    def note_excluded(self, attributes: Mapping[str, Any], rows: int | None = None) -> None:
        """Say on stderr how many rows were left out, and why; ``rows`` are left where no attribute says how many."""
        left = attributes["rows"] if rows is None else rows
        ignored, skipped = attributes.get("rows_ignored"), attributes.get("rows_skipped")
        total = left + (ignored or 0) + (skipped or 0)
        if ignored is not None:
            label = visible(self.ignore_label)
            sys.stderr.write(f"calibdask: left out {ignored:,} of {total:,} rows, whose label is {label}\n")
        if negatives := attributes.get("negative_labels"):
            sys.stderr.write(f"calibdask: labels other than {self.pos_label} count as negative: {visible(negatives)}\n")
        if skipped is not None:
            sys.stderr.write(f"calibdask: left out {skipped:,} of {total:,} rows{missing_values(attributes)}\n")


def missing_values(attributes: Mapping[str, Any]) -> str:
    """Numbers of rows left out by missing value, as text.

    Examples
    --------
    >>> missing_values({"missing_labels": 20, "missing_scores": 1, "missing_weights": 0})
    ' with missing values (label 20, score 1)'
    """
    counts = {role: attributes.get(f"missing_{role}s", 0) for role in ("label", "score", "weight")}
    named = ", ".join(f"{role} {count:,}" for role, count in counts.items() if count)
    return f" with missing values{f' ({named})' if named else ''}"


def rows_of(store: "Store", mend: str = "give the scored rows that it was made from.") -> "StoredRows":
    """The opened store if it may hold scored rows; otherwise a ValueError.

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
    """Shows each user warning of the library once, on one line, and other warnings unchanged."""

    show: Callable[..., None]
    lines: list[str] = field(default_factory=list)

    def __call__(self, message: Warning | str, category: type[Warning], *where: Any, **options: Any) -> None:
        """Show a warning."""
        context = click.get_current_context(silent=True)
        line = one_line(as_options(str(message), options_of(context.command if context else None)))
        if not issubclass(category, UserWarning):
            self.show(line, category, *where, **options)
        elif line not in self.lines:
            self.lines.append(line)
            sys.stderr.write(f"calibdask: {line}\n")


@contextmanager
def shown_warnings() -> Iterator[list[str]]:
    """Show user warnings on one line without code locations; yields the lines shown so far."""
    with warnings.catch_warnings():
        shown = warnings.showwarning
        notes = shown if isinstance(shown, _Notes) else _Notes(shown)
        warnings.showwarning = notes
        yield notes.lines
