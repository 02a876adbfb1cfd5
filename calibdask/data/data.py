"""The data of an analysis: rows or states, with all input options; the only place that detects what users pass."""

import os
import warnings
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from calibdask.data.arrays import read_arrays
from calibdask.data.blocks import read_blocks, read_stream
from calibdask.data.clusters import CLUSTERS, identifier_numbers
from calibdask.data.containers import columns_of, has_columns, has_fields
from calibdask.data.input import Input
from calibdask.data.named_columns import named_columns
from calibdask.data.options import InputOptions, refuse_for_summary
from calibdask.data.population import Population
from calibdask.data.slices import named
from calibdask.data.soft_labels import SoftRows
from calibdask.data.streams import RowStream
from calibdask.data.top_scores import TopScores
from calibdask.engine.arrays import is_number
from calibdask.errors import RowsRequired
from calibdask.safe_text import listed
from calibdask.storage.columns import alike_classes
from calibdask.storage.compatibility import POPULATION
from calibdask.storage.readers import StoredRows
from calibdask.storage.row_table import RowTable
from calibdask.storage.summary import Summary, is_summary
from calibdask.storage.summary_clusters import GROUPS


@dataclass(frozen=True, eq=False)
class Data:
    """The data of one analysis, as the user passed them, and how they are read.

    Rows, whose labels and scores are arrays of any kind, a stream of batches or blocks; or states: a summary, or what
    an accumulator has added up. Nothing is read but names, types and, for columns, what was named.

    Attributes
    ----------
    labels : arrays, `RowStream`, or blocks
    scores : array, or mapping from model to array, or None
        None where ``labels`` are a stream or blocks, which have scores and weights inside.
    by : mapping from name to array, or sequence of names, or None
        Slices; of a summary the names of those that are kept, None for all.
    weights : array or None
    features : mapping from name to array, or None
        Further columns.
    options : InputOptions
    summary : Summary or None
    states : function or None
        Makes the input of states that were added up.
    top : TopScores or None
        The largest scores of each row, in place of all.
    guess : str
        The columns that were taken for labels and scores because of their names, in a sentence.
    identifiers : mapping from name to array
        Columns that look like identifiers, which are checked for dependent rows.
    """

    labels: Any = None
    scores: Any = None
    by: Any = None
    weights: Any = None
    features: Mapping[str, Any] | None = None
    options: InputOptions = field(default_factory=InputOptions)
    summary: Summary | None = None
    states: Callable[[], Input] | None = None
    top: TopScores | None = None
    guess: str = ""
    identifiers: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        y_true: Any,
        y_prob: Any = None,
        by: Any = None,
        sample_weight: Any = None,
        options: InputOptions | None = None,
        *,
        are_features: bool = False,
    ) -> "Data":
        """Data from the arguments that the user passed.

        Parameters
        ----------
        y_true, y_prob, by, sample_weight
            As for `calibdask.evaluate`; ``y_prob`` may be a mapping from the names of models to their scores. Data that
            were opened already are returned as they are.
        options : InputOptions, optional
        are_features : bool, default False
            Whether ``by`` names features of a file: texts in a CSV that look like numbers are numbers then.

        Raises
        ------
        ValueError
            If a file cannot be read, columns do not exist or several could be meant, or options do not apply.
        """
        options = InputOptions() if options is None else options
        if options.population is not None and not isinstance(options.population, Population):
            raise TypeError(
                f"population expects a calibdask.Population, such as Population(prevalence=0.02), got "
                f"{options.population!r}."
            )
        if isinstance(y_true, cls):
            return y_true
        if _are_metrics(y_prob):
            raise ValueError(
                "The second argument is y_prob, the scores, got metrics; pass metrics by keyword if a frame or file "
                "replaces labels and scores, as in evaluate(data, metrics=...)."
            )
        if isinstance(y_prob, TopScores):
            labels, scores = y_prob.rows(y_true)
            return cls(labels, scores, named(by), sample_weight, options=y_prob.options(options), top=y_prob)
        if y_prob is None:
            return cls._of_one(y_true, by, sample_weight, options, are_features)
        if is_summary(y_true):
            raise ValueError("A summary replaces labels and scores; y_prob does not apply.")
        if options.label is not None or options.score is not None:
            raise ValueError(
                "label and score name columns of a frame, which replaces y_true and y_prob: evaluate(frame, label=..., "
                "score=...). With arrays, omit label and score."
            )
        return cls(y_true, y_prob, named(by), sample_weight, options=options)

    @classmethod
    def _of_one(cls, given: Any, by: Any, sample_weight: Any, options: InputOptions, are_features: bool) -> "Data":
        """Everything in one object: states, a file, a container of columns, or blocks."""
        if isinstance(given, str | os.PathLike):
            given = _opened(given, by, sample_weight, options, are_features)
            if isinstance(given, RowTable):
                return cls._of_table(given, by, options)
        if is_summary(given):
            return cls._of_summary(Summary.of(given), by, sample_weight, options)
        if isinstance(given, RowTable):
            if any(one is not None for one in (options.label, options.score, by, sample_weight)):
                raise ValueError(
                    "Rows from read_rows already have their labels, scores, slices and weights; name the columns in "
                    "read_rows."
                )
            if options.groups is not None:
                groups = options.groups
                given = replace(given, groups=_column_of_table(given, groups) if isinstance(groups, str) else groups)
            return cls._of_table(given, None, options)
        if hasattr(given, "_as_input"):
            refuse_for_summary(options)
            if options.population is not None:
                raise ValueError("population expects rows or a summary, got an accumulator; evaluate its rows.")
            return cls(states=given._as_input, options=options)
        if isinstance(given, list) and given and all(isinstance(row, Mapping) for row in given):
            import pandas as pd

            given = pd.DataFrame(given)
        is_named = options.label is not None or options.score is not None
        if not (is_named or has_columns(given) or has_fields(given)):
            if by is not None or sample_weight is not None:
                raise ValueError(
                    "Blocks contain their weights, as (y_true, y_prob, sample_weight), and do not support by."
                )
            return cls(given, options=options)
        rows = named_columns(given, columns_of(given), by, sample_weight, options)
        if rows.names.guess:
            warnings.warn(rows.names.guess, UserWarning, stacklevel=4)
        return cls._of_table(rows, None, options)

    @classmethod
    def _of_table(cls, table: RowTable, by: Any, options: InputOptions) -> "Data":
        """Rows whose columns are known; slices have the names that ``by`` gives their columns."""
        slices = {name: table.by[column] for name, column in by.items()} if isinstance(by, Mapping) else table.by
        options = replace(
            options,
            skip_missing=options.skip_missing or table.skip_missing,
            groups=table.groups,
            groups_name=options.groups_name or table.groups_name,
        )
        own = (table.labels, table.scores, slices, table.weights)
        identifiers = {} if options.groups is not None else table.identifiers
        return cls(*own, options=options, guess=table.names.guess, identifiers=identifiers)

    @classmethod
    def _of_summary(cls, summary: Summary, by: Any, sample_weight: Any, options: InputOptions) -> "Data":
        """The states of a summary."""
        refuse_for_summary(options)
        if sample_weight is not None:
            raise ValueError("A summary already has its weights and slices; sample_weight does not apply.")
        if by is not None and (not isinstance(by, str | list | tuple) or not all(isinstance(n, str) for n in by)):
            raise ValueError("A summary already has its weights and slices; by expects the names of some slices.")
        names = [by] if isinstance(by, str) else by
        if options.population is not None:
            summary = options.population.summary_of(summary)
        return cls(by=None if names is None else tuple(names), options=options, summary=summary)

    @property
    def has_rows(self) -> bool:
        """Whether these are rows; states cannot be read row by row."""
        return self.summary is None and self.states is None

    @property
    def models(self) -> tuple[Any, ...]:
        """Names of several models; of blocks, which have them inside, and of one model none."""
        named = self.labels.models if isinstance(self.labels, RowStream) else self.scores
        return tuple(named) if isinstance(named, Mapping) else ()

    @property
    def population_text(self) -> str:
        """The population that numbers are of, as text; empty unless it was chosen."""
        if self.summary is not None:
            return str(self.summary.dataset.attrs.get(POPULATION, ""))
        return "" if self.options.population is None else str(self.options.population.text)

    @property
    def slice_names(self) -> tuple[Any, ...]:
        """Names of the slices."""
        if self.summary is not None and self.by is None:
            return self.summary.slices
        return tuple(self.by or ())

    def rows_for(self, caller: str, why: str) -> "Data":
        """These data, which must be rows.

        Raises
        ------
        RowsRequired
            If they are states: ``caller`` expects rows, ``why``.
        """
        if not self.has_rows:
            raise RowsRequired(f"{caller} expects rows, {why}; got a summary, which has none.")
        if self.top is not None:
            # Refuses with the reason: most scores of each row are not there.
            np.asarray(self.top)
        return self

    def sliced(self, names: Iterable[Hashable]) -> "Data":
        """The data with only these slices."""
        wanted = tuple(names)
        if self.states is not None:
            return self
        if self.summary is not None:
            return replace(self, by=tuple(map(str, wanted)))
        return replace(self, by={name: self.by[name] for name in wanted})

    def with_groups_as_slices(self) -> "Data":
        """The rows with their clusters, if any, in place of slices."""
        groups = self.options.groups
        if groups is None:
            return self
        return replace(self, by={CLUSTERS: groups}, options=replace(self.options, groups=None, groups_name=""))

    def pooled(self) -> "Data":
        """The data with slices of a summary added up unless ``by`` names them."""
        return self.sliced(()) if self.summary is not None and self.by is None else self

    def with_scores(self, scores: Any) -> "Data":
        """The data with other scores: an array, or a mapping from model to array."""
        return replace(self, scores=scores)

    def read(self, *, takes_groups: bool = False, takes_shares: bool = False) -> Input:
        """The source that answers requests, with its axes.

        Parameters
        ----------
        takes_groups : bool, default False
            Whether the analysis accounts for clusters of rows; others would ignore them.
        takes_shares : bool, default False
            Whether it accepts soft labels.

        Raises
        ------
        ValueError
            If shapes or types do not match, or rows have clusters that the analysis would ignore.
        """
        if self.options.soft_labels:
            rows = SoftRows.of(self, is_supported=takes_shares)
            return replace(rows.weighted_data.read(takes_groups=True), soft=rows)
        read = replace(self._read(), guess=self.guess)
        if read.source.layout.clustered and not takes_groups:
            mend = "Leave groups (--groups) out"
            if not self.has_rows:
                mend = "Summarize the rows without groups (--groups), or drop_dims('cluster_bucket') in Python,"
            raise ValueError(
                f"groups is not supported here: this analysis assumes independent rows. {mend} to get numbers for "
                "independent rows, or give one row per cluster."
            )
        population: Population | None = self.options.population
        if population is None or self.summary is not None:
            return read
        if self.top is not None:
            raise ValueError("population expects all scores of each row, got only the largest ones.")
        return population.input_of(read)

    def warn_of_labels(self) -> None:
        """Warn if several labels of a summary count as negative; labels of rows are known once they are read."""
        if self.summary is not None:
            self.summary.notes.others.warn(of_summary=True)

    def _read(self) -> Input:
        if self.states is not None:
            return self.states()
        if self.summary is not None:
            self.warn_of_labels()
            return summary_input(self.summary if self.by is None else self.summary.pooled(self.by))
        if isinstance(self.labels, RowStream):
            return read_stream(replace(self.labels, by=self.by or {}), self.options)
        if self.scores is None:
            return read_blocks(self.labels, self.options)
        if isinstance(self.scores, Mapping):
            return read_arrays(self.labels, self.scores, self.by, self.weights, self.options)
        is_checked = bool(self.identifiers) and not self.features
        hashed = {str(name): identifier_numbers(values) for name, values in self.identifiers.items() if is_checked}
        features = hashed if is_checked else self.features
        read = read_arrays(self.labels, self.scores, self.by, self.weights, self.options, features)
        read = replace(read, features=(), identifiers=tuple(hashed)) if is_checked else read
        return read if self.top is None else self.top.input(read)


def may_have_rows(given: Any) -> bool:
    """Whether something that the user passed may hold rows: anything but a summary or an accumulator."""
    return not (is_summary(given) or hasattr(given, "_as_input"))


def summary_of(given: Any) -> Summary | None:
    """The summary that this is, or that is stored under this path; None if it is something else."""
    if isinstance(given, str | os.PathLike):
        from calibdask.storage.open_store import open_store

        store = open_store(os.fspath(given))
        return store if isinstance(store, Summary) else None
    return Summary.of(given) if is_summary(given) else None


def summary_input(summary: Summary) -> Input:
    """The input that a summary is."""
    names = tuple(map(str, summary.batch))
    said = str(summary.dataset.attrs.get(POPULATION, ""))
    options = InputOptions(groups_name=str(summary.dataset.attrs.get(GROUPS, "")))
    own = (summary.source, (), summary.axes, summary.class_labels, names)
    return Input(*own, options=options, population=said, stored_notes=summary.notes)


def _opened(path: Any, by: Any, sample_weight: Any, options: InputOptions, are_features: bool) -> Summary | RowTable:
    """The summary, or the rows, under a path."""
    from calibdask.storage.open_store import open_store

    store = open_store(os.fspath(path))
    if isinstance(store, Summary):
        return store
    if not isinstance(store, StoredRows):
        raise ValueError(f"{store.url} is {store.kind}, which holds no scored rows; {store.mend}.")
    slicing = by.values() if isinstance(by, Mapping) else [by] if isinstance(by, str) else by or ()
    columns = [*slicing]
    if not all(isinstance(name, str) for name in (*columns, "" if sample_weight is None else sample_weight)):
        raise ValueError("by and sample_weight of a file expect names of its columns.")
    if not isinstance(options.groups, str | None):
        raise ValueError("groups of a file expects the name of one of its columns.")
    read = partial(
        store.read,
        label=options.label,
        weight=sample_weight,
        groups=options.groups,
        by=() if are_features else columns,
        features=columns if are_features else (),
        checks_clusters=options.checks_clusters and not isinstance(options.score, Mapping),
    )
    if not isinstance(options.score, Mapping):
        return read(score=options.score)
    tables = {name: read(score=score) for name, score in options.score.items()}
    names = alike_classes({name: table.names for name, table in tables.items()})
    scores = {name: _of_classes(table.scores, names[name].classes) for name, table in tables.items()}
    return replace(next(iter(tables.values())), scores=scores)


def _of_classes(scores: Any, classes: Any) -> Any:
    """Scores whose columns are of these classes."""
    return scores.assign_coords({"class": list(classes)}) if hasattr(scores, "dims") else scores


def _column_of_table(table: RowTable, name: str) -> Any:
    """A column of rows that were read, by which they may be sliced too."""
    if name not in table.by:
        raise ValueError(
            f"groups={name!r} is not one of the columns that were read, {listed(table.by) or 'none'}; name it in "
            "read_rows(..., groups=...)."
        )
    return table.by[name]


def _are_metrics(given: Any) -> bool:
    """Whether something is a metric, the name of one, or several of these; texts of numbers are no names."""
    some: Sequence[Any] = [given]
    if isinstance(given, Mapping):
        some = list(given.values())
    elif isinstance(given, list | tuple):
        some = given
    is_name = all(isinstance(one, str) and not is_number(one) for one in some) and len(some) > 0
    return is_name or any(hasattr(type(one), "estimate") for one in some)
