"""`Analysis`: what a user asks of data, as a frozen description; the pattern that all surfaces share."""

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any, ClassVar, Literal

import xarray as xr

from calibdask.data.data import Data
from calibdask.engine.row_notes import warning_once
from calibdask.html_repr import HtmlRepr
from calibdask.results.build import noted_rows
from calibdask.results.document import Document, Sentence
from calibdask.results.format import plain
from calibdask.storage.compatibility import POPULATION

# The settings of scores that summaries hold; the number of a class is one too.
SettingName = Literal["confidence", "classwise", "binary"]
# What an exit status of the shell says: all is well, something was found or broken, nothing can be decided.
Outcome = Literal["met", "found", "undecided"]
# What the command of an analysis reads: scored rows or a summary; these with limits of a file and the scores of a
# baseline; the scores of several models for the same rows; a summary.
Inputs = Literal["rows", "limits", "models", "summary"]
# Headings of the help text of the command line.
Heading = Literal["Measure", "Decide", "Find and watch", "Fix"]


class Analysis(HtmlRepr, ABC):
    """A question about calibration: from data to numbers, and from numbers to a document.

    A subclass is a frozen dataclass in a file of its own, named once in `calibdask.analyses.catalogue`. Its fields are
    the options of the command with its name, in the order of their declaration, but for those with the metadata
    ``{"shell": False}``; its docstring is the help text. Results record the fields, but for those with the metadata
    ``{"recorded": False}``, which the document does without. `compute` computes, `document` presents; the shell, pages,
    the explorer and Markdown show that document.

    Class attributes
    ----------------
    name : str
        Of the command, and in results.
    heading : str
        The heading above the command in the help text of the command line.
    inputs : {"rows", "limits", "models", "summary"}
        What the command reads.
    further_formats : sequence of str
        Formats of ``--out`` beside those of all analyses.
    resumes : bool
        Whether a result has the attributes ``state``, from which a later run with the field ``state`` goes on, and
        ``alarms``, which are reported once.
    json_format : int
        Version of the JSON, which grows when what programs rely on changes.
    json_head : sequence of str
        Attributes of the result at the head of its JSON.
    json_lines : str
        The records that the shell prints in a line each, together with the head; empty for one document.
    json_shape : str
        What the JSON holds, as the help text of the command shows it.
    examples : sequence of (str, str)
        Commands, and what each does.
    notes : str
        What the help text says besides.
    slices, weights, clusters, takes_features, population : bool
        Whether rows may have slices, weights, clusters of dependent rows, further columns that describe them, and a
        target population.
    statuses : mapping from outcome to str
        What each exit status means here.
    """

    name: ClassVar[str]
    heading: ClassVar[Heading]
    inputs: ClassVar[Inputs] = "rows"
    further_formats: ClassVar[Sequence[str]] = ()
    resumes: ClassVar[bool] = False
    json_format: ClassVar[int] = 1
    json_head: ClassVar[Sequence[str]] = ("rows", "passes", "calibdask_version")
    json_lines: ClassVar[str] = ""
    json_shape: ClassVar[str] = ""
    examples: ClassVar[Sequence[tuple[str, str]]] = ()
    notes: ClassVar[str] = ""
    slices: ClassVar[bool] = True
    weights: ClassVar[bool] = False
    clusters: ClassVar[bool] = False
    takes_features: ClassVar[bool] = False
    population: ClassVar[bool] = False
    statuses: ClassVar[Mapping[Outcome, str]] = {"met": "done"}

    def run(self, data: Data) -> xr.Dataset:
        """The numbers: a dataset whose variables say what they are.

        The attribute ``analysis`` is the request, ``population`` the population that they are of, if it was chosen.
        """
        with warning_once():
            data.warn_of_labels()
            result = self.compute(data).assign_attrs(analysis=self.to_text())
        population = data.population_text
        return result.assign_attrs({POPULATION: population}) if population else result

    @abstractmethod
    def compute(self, data: Data) -> xr.Dataset:
        """The numbers of `run`."""

    def to_text(self) -> str:
        """Name and fields as JSON, from which `calibdask.analyses.catalogue.analysis_of` makes the analysis again."""
        recorded = [field for field in fields(self) if field.metadata.get("recorded", True)]  # type: ignore[arg-type]
        values = {field.name: getattr(self, field.name) for field in recorded}
        return json.dumps({"name": self.name, "fields": values}, default=_plain_field)

    @abstractmethod
    def document(self, result: xr.Dataset) -> Document:
        """The document of a result: sentences, tables and figures, for every surface."""

    @abstractmethod
    def records(self, result: xr.Dataset) -> dict[str, Any]:
        """The body of the JSON."""

    def lines(self, result: xr.Dataset) -> list[dict[str, Any]] | None:
        """The lines of CSV and Parquet; None for a line of each slice, with the variables as columns."""
        return None

    def outcome(self, result: xr.Dataset) -> Outcome:
        """Outcome that determines the exit status."""
        return "met"

    def conclusion(self, result: xr.Dataset) -> str:
        """Sentence that the shell prints to stderr beside JSON if the exit status is not 0."""
        return ""

    def to_json(self, result: xr.Dataset) -> dict[str, Any]:
        """The result as plain values for JSON: its head, and its records."""
        head = {name: plain(result.attrs[name]) for name in self.json_head if name in result.attrs}
        return {"format": self.json_format, **head, **noted_rows(result.attrs), **self.records(result)}

    def to_json_lines(self, result: xr.Dataset) -> list[dict[str, Any]]:
        """The records of ``json_lines``, each with the head."""
        head = self.to_json(result)
        return [{**head, **record} for record in head.pop(self.json_lines)]


def population_sentences(result: xr.Dataset) -> list[Sentence]:
    """The population that the numbers are of, if it was chosen."""
    population = result.attrs.get(POPULATION)
    return [] if population is None else [Sentence(f"All numbers are {population}.", quiet=True, name="population")]


def _plain_field(value: Any) -> Any:
    """Numbers and texts for a field of another type, such as a sequence or a length of time."""
    return list(value) if isinstance(value, Iterable) else str(value)
