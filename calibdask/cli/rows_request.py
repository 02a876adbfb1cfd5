"""The rows of a command: where they are, what in them is what, and where to work."""

import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Literal, cast

import click

from calibdask.cli.option_names import shown_warnings
from calibdask.cli.row_options import ALL
from calibdask.cluster import ClusterSpec, connected
from calibdask.cluster.threads import Threads
from calibdask.safe_text import visible, visible_address, without_credentials

if TYPE_CHECKING:
    from calibdask.calibrators.stored_map import StoredMap
    from calibdask.data.data import Data
    from calibdask.data.options import InputKeywords, PopulationKeywords, Task
    from calibdask.data.periods import Every
    from calibdask.data.population import Population
    from calibdask.data.shapes import Shape
    from calibdask.storage.location import MissingChunks
    from calibdask.storage.open_store import Store
    from calibdask.storage.readers import StoredRows
    from calibdask.storage.row_table import RowTable
    from calibdask.storage.summary import Summary


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
    text: tuple[str, ...] = ()
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
    # Logits become probabilities as rows are read: beside scores of a map, which are probabilities.
    as_probabilities: bool = False
    soft_labels: bool = False
    raters: bool = False

    def opened(self) -> "Store":
        """Open DATA: scored rows, a summary, of the population that was asked for, the cube of a study or a result."""
        from calibdask.storage.open_store import open_store

        with shown_warnings():
            store = open_store(self.data)
        population = self.population
        if population is None:
            return store
        from calibdask.storage.summary import Summary

        return population.summary_of(store) if isinstance(store, Summary) else store

    @cached_property
    def stored_map(self) -> "StoredMap | None":
        """The map that is applied to the scores."""
        if self.map_path is None:
            return None
        from calibdask.calibrators.stored_map import StoredMap

        stored_map = StoredMap.read(self.map_path)
        if self.task == "multilabel":
            raise click.UsageError("--map has no effect with --task multilabel: a map is for a single problem.")
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
                text=self.text,
                missing_chunks=self.missing_chunks,
                features=self.feature_columns,
                groups=self.groups,
                instants=self._instants,
                checks_clusters=self.cluster_check,
            )
            if self.period is not None:
                table = self._with_periods(table, rows)
        if stored_map is None and self.logits and self.as_probabilities:
            from calibdask.calibrators.mapping import probabilities_of_logits

            return replace(table, scores=probabilities_of_logits(table.scores, skip_missing=self.skip_missing))
        if stored_map is None:
            return table
        width = 1 if table.scores.ndim == 1 else int(table.scores.shape[-1])
        stored_map.check(rows.url, width, table.names.classes)
        scores = stored_map.apply_lazily(table.scores, table.by, skip_missing=self.skip_missing)
        return replace(table, scores=scores, by={name: table.by[name] for name in self.by})

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
                f"--zone has no effect on {name}, whose timestamps already have the zone {own}; omit --zone."
            )
        if self.zone is not None and own is None:
            sys.stderr.write(
                f"calibdask: the timestamps of {visible(name)} have no time zone, and were taken as UTC; without "
                "--zone they are taken as they are\n"
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
        if self.logits and self.stored_map is None and not self.as_probabilities:
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

        soft: bool | Literal["raters"] = "raters" if self.raters else self.soft_labels
        return Data.of(table, options=InputOptions(**self.reading_of_population, soft_labels=soft))

    def fingerprint_of(self, table: "RowTable") -> str:
        """Fingerprint of labels, scores and weights, in one pass; empty for several problems at once."""
        from calibdask.analyses.receipts.fingerprint import fingerprint_of

        read = self.data_of(replace(table, by={}, groups=None, groups_name="", identifiers={})).read()
        return "" if read.batch else fingerprint_of(read).whole

    def warn_of_rows_of_the_fit(self, rows: "StoredRows", number: int | None) -> None:
        """Say on stderr that the map was fitted to these ``number`` rows.

        The fingerprint takes a pass of its own, so it is only taken of as many rows as the map was fitted to.
        """
        stored_map = self.stored_map
        if stored_map is None or not stored_map.fingerprint or number != stored_map.rows:
            return
        as_fitted = replace(self, map_path=None, by=(), logits=stored_map.takes_logits)
        if as_fitted.fingerprint_of(as_fitted.table(rows)) == stored_map.fingerprint:
            click.echo(
                f"calibdask: these are the rows that {visible_address(stored_map.url)} was fitted to, on which errors "
                "look smaller than they are; evaluate the map on other rows",
                err=True,
            )

    def note_excluded(self, attributes: Mapping[str, Any], rows: int | None = None) -> None:
        """Say on stderr how many rows were left out, and why; ``rows`` are left where no attribute says how many."""
        from calibdask.results.build import missing_values

        left = attributes["rows"] if rows is None else rows
        ignored, skipped = attributes.get("rows_ignored"), attributes.get("rows_skipped")
        total = left + (ignored or 0) + (skipped or 0)
        if ignored is not None:
            label = visible(self.ignore_label)
            sys.stderr.write(f"calibdask: left out {ignored:,} of {total:,} rows, whose label is {label}\n")
        if skipped is not None:
            sys.stderr.write(f"calibdask: left out {skipped:,} of {total:,} rows{missing_values(attributes)}\n")


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
        raise click.UsageError(f"{store.url} is already a stored summary; {mend}")
    raise click.UsageError(f"{store.url} is {store.kind}, which holds no scored rows; {store.mend}.")


def stem_of(data: str) -> str:
    """The name of a file without suffixes; of a group in a store its own name."""
    name = PurePosixPath(without_credentials(data)).name
    return name.partition(".")[0] or name


def feature_names(request: RowsRequest, rows: "StoredRows", given: tuple[str, ...]) -> tuple[str, ...]:
    """The columns that were named, ``all`` for every one besides labels, scores, weights and clusters.

    Raises
    ------
    click.UsageError
        If none is named.
    """
    from calibdask.storage.readers import further_columns

    names = tuple(dict.fromkeys(name.strip() for words in given for name in words.split(",") if name.strip()))
    if not names:
        raise click.UsageError("Missing option '--features': name columns that describe groups, or all.")
    if names != (ALL,):
        return names
    used = [name for name in (request.weight, request.groups) if name is not None]
    return tuple(further_columns(rows, request.label, request.score, used))


def population_of(
    prevalence: str | None, train_prevalence: str | None, sampling_rate: str | None
) -> "Population | None":
    """The population of these options; None without any: that of the sample."""
    shares = {
        "prevalence": _shares("--prevalence", prevalence),
        "train_prevalence": _shares("--train-prevalence", train_prevalence),
        "sampling_rate": _shares("--sampling-rate", sampling_rate),
    }
    if all(share is None for share in shares.values()):
        return None
    from calibdask.data.population import Population

    return Population(**shares)


def _shares(option: str, given: str | None) -> "float | list[float] | None":
    """A share, or several between commas."""
    if given is None:
        return None
    try:
        shares = [float(word) for word in given.split(",")]
    except ValueError:
        raise click.UsageError(f"{option} expects a share such as 0.02, or one for each class, got {given}.") from None
    return shares[0] if len(shares) == 1 else shares


def refuse_row_options(request: RowsRequest) -> None:
    """Raise UsageError for options that only rows have a use for."""
    given = {"label": request.label, "score": request.score, "weight": request.weight, **request.reading}
    given |= {"groups": request.groups, "map": request.map_path}
    given |= {"skip_missing": request.skip_missing or None, "text": request.text or None}
    if request.missing_chunks != "error":
        given["missing_chunks"] = request.missing_chunks
    for name, value in given.items():
        option = f"--{name.replace('_', '-')}"
        if value is not None:
            raise click.UsageError(
                f"{option} has no effect on {request.data}: it is a stored summary, which holds no rows."
            )


def pooled(summary: "Summary", by: Sequence[str]) -> "Summary":
    """The summary with these slices, in this order; all others are added up.

    Raises
    ------
    click.UsageError
        If it does not have these slices.
    """
    from calibdask.engine.axes import slice_dimension

    for name in by:
        # Columns whose names results need for themselves, such as rows, are slices of other names.
        if not {name, slice_dimension(name)} & {*summary.slices}:
            there = ", ".join(summary.slices) or "none"
            raise click.UsageError(f"--by {name} expects a slice of the summary {summary.url}; it has {there}.")
    return summary.pooled(by)


def panel(summary: "Summary", setting: str | int | None, *, full: bool = False) -> dict[str, Any]:
    """The metrics to compute when none are named, for those that name no setting with this one."""
    from calibdask.analyses.clustered import supported_panel
    from calibdask.analyses.evaluation import usual_metrics

    metrics, layout = usual_metrics(summary.source, setting, full=full), summary.source.layout
    return supported_panel(metrics, layout)
