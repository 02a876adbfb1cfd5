"""Input of analyses: a source, and the names and labels of its axes."""

from dataclasses import dataclass, field
from typing import Any

from calibdask.data.features import FeatureColumn
from calibdask.data.options import InputOptions
from calibdask.data.soft_labels import SoftRows
from calibdask.engine.axes import Axis
from calibdask.engine.row_notes import RowNotes
from calibdask.engine.sources.source import Source

# What a result calls the rows that lack something.
_MISSING = {role: f"missing_{role}s" for role in ("label", "score", "weight", "slice")}


@dataclass(frozen=True)
class Input:
    """A source, and the user's names and labels of its axes.

    Attributes
    ----------
    source : Source
    batch : tuple of Axis
        Models, replicates, or classes that are problems of their own.
    by : tuple of Axis
        Slices; of a summary also dimensions such as models, whose names are ``batch_names``.
    classes : array or None
        Names of the classes.
    are_ranks : bool
        Whether columns of scores are their ranks in each row rather than classes.
    features : tuple of FeatureColumn
        Further columns of the rows.
    identifiers : tuple of str
        Names of the further columns, where these are hashes of identifiers that are checked for dependent rows.
    guess : str
        The columns that were taken for labels and scores because of their names, in a sentence.
    options : InputOptions
        How the rows were read.
    population : str
        The population that the rows are weighted to, in words; empty: that of the sample.
    stored_notes : RowNotes or None
        The notes of states on their rows; None with rows, whose first pass makes them.
    soft : SoftRows or None
        The rows with soft labels, of which the source has weighted parts; None without soft labels.
    """

    source: Source
    batch: tuple[Axis, ...] = ()
    by: tuple[Axis, ...] = ()
    classes: Any = None
    batch_names: tuple[str, ...] = ()
    are_ranks: bool = False
    features: tuple[FeatureColumn, ...] = ()
    identifiers: tuple[str, ...] = ()
    guess: str = ""
    options: InputOptions = field(default_factory=InputOptions)
    population: str = ""
    stored_notes: RowNotes | None = None
    soft: SoftRows | None = None

    @property
    def slice_names(self) -> list[str]:
        """Names of the slices."""
        return [str(axis.name) for axis in self.by if str(axis.name) not in self.batch_names]

    @property
    def attributes(self) -> dict[str, Any]:
        """Attributes of results that describe the input after a pass: guessed columns, rows left out."""
        extra: dict[str, Any] = {"guessed_columns": self.guess} if self.guess else {}
        extra |= self.notes.attributes
        if self.population:
            extra["population"] = self.population
        if self.source.layout.clustered:
            extra["groups"] = self.options.groups_name or "groups"
        return extra

    @property
    def notes(self) -> RowNotes:
        """The notes on the rows, after a pass."""
        if self.stored_notes is not None:
            return self.stored_notes
        found, counts = self.source.excluded, {}
        if self.options.ignore_label is not None:
            counts["rows_ignored"] = found["ignored"]
        if self.options.skip_missing:
            skipped = "cells_skipped" if self.options.task == "multilabel" else "rows_skipped"
            counts[skipped] = found["skipped"]
            counts |= {name: found[role] for role, name in _MISSING.items()}
        return RowNotes(counts, self.source.other_labels, self.source.rows or 0)

    def class_dim(self, name: str) -> str:
        """The dimension of the classes of one problem: another name where classes are problems of their own."""
        taken = {*self.batch_names, *(str(axis.name) for axis in self.batch)}
        return f"{name}_value" if name in taken else name
