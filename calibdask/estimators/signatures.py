"""Names and options of the public metrics, calibrators and analyses, without their modules.

The command line names metrics, completes them and refuses wrong ones before numpy is imported, which takes longer than
all of that. So they are read from a table, which `calibdask.analyses.signature_table` generates from the classes.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from importlib.resources import files
from typing import Any

import calibdask
from calibdask.estimators.choice import Choice

# What the default panel calls it.
_VARIABLES = {"ece-a": "ece_equal_mass"}


@dataclass(frozen=True)
class CallSignature:
    """A metric or a calibrator as the command line names it.

    Parameters
    ----------
    word : str
        The name at the shell, such as ``"density-ece"``.
    public : str
        The name in `calibdask`.
    summary : str
        The first line of its docstring.
    choices : mapping of str to Choice
        Its options.
    """

    keyword: str
    public: str
    summary: str
    choices: Mapping[str, Choice] = field(default_factory=dict)

    @property
    def variable(self) -> str:
        """The name of the variable of its result."""
        return _VARIABLES.get(self.keyword, self.keyword.replace("-", "_"))

    @property
    def measures_vectors(self) -> bool:
        """Whether it measures whole score vectors, as a lens shows them."""
        return "setting" in self.choices and self.choices["setting"].default == "multiclass"

    @property
    def constructor(self) -> Any:
        """The class or function itself, which imports its module."""
        return getattr(calibdask, self.public)


@cache
def signatures() -> Mapping[str, CallSignature]:
    """All public metrics by their names at the shell, in alphabetical order.

    Examples
    --------
    >>> signatures()["skce-test"].choices["method"].words
    ('asymptotic', 'distribution-free')
    """
    return _read("metrics")


@cache
def calibrator_signatures() -> Mapping[str, CallSignature]:
    """All public calibrators by their names at the shell, in alphabetical order.

    Examples
    --------
    >>> list(calibrator_signatures()["platt"].choices), calibrator_signatures()["platt"].public
    (['slope', 'mean', 'shrink', 'smooth_targets', 'setting'], 'PlattScaling')
    """
    return _read("calibrators")


@dataclass(frozen=True)
class AnalysisSignature:
    """An analysis as its command presents it, see `calibdask.analyses.analysis.Analysis`."""

    word: str
    public: str
    summary: str
    choices: Mapping[str, Choice]
    required: frozenset[str]
    module: str
    heading: str
    inputs: str
    further_formats: list[str]
    resumes: bool
    json_lines: str
    details: str
    examples: tuple[tuple[str, str], ...]
    notes: str
    json_shape: str
    statuses: Mapping[str, str]
    slices: bool
    weights: bool
    clusters: bool
    takes_features: bool
    population: bool

    @property
    def constructor(self) -> Any:
        """The class itself, which imports its module."""
        return getattr(import_module(self.module), self.public)


@cache
def analysis_signatures() -> Mapping[str, AnalysisSignature]:
    """All analyses that follow the pattern, by the names of their commands.

    Examples
    --------
    >>> list(analysis_signatures()["threshold"].choices)
    ['risk', 'confidence', 'setting']
    """
    return {word: _analysis(word, **entry) for word, entry in _table()["analyses"].items()}


def _analysis(word: str, choices: Mapping[str, Any], examples: list[list[str]], **others: Any) -> AnalysisSignature:
    required = frozenset(name for name, choice in choices.items() if choice["required"])
    plain = {name: {key: value for key, value in of.items() if key != "required"} for name, of in choices.items()}
    made = {name: _choice(name, **choice) for name, choice in plain.items()}
    pairs = tuple((command, does) for command, does in examples)
    return AnalysisSignature(word, choices=made, required=required, examples=pairs, **others)


def _read(group: str) -> dict[str, CallSignature]:
    entries = _table()[group]
    return {word: _signature(word, **entry) for word, entry in entries.items()}


@cache
def _table() -> Any:
    return json.loads(files("calibdask.estimators").joinpath("signatures.json").read_text(encoding="utf-8"))


def _signature(word: str, public: str, summary: str, choices: Mapping[str, Any]) -> CallSignature:
    return CallSignature(word, public, summary, {name: _choice(name, **choice) for name, choice in choices.items()})


def _choice(
    name: str, kinds: list[str], words: list[str], default: Any, description: str, placeholder: str = ""
) -> Choice:
    plain_default = tuple(default) if isinstance(default, list) else default
    return Choice(name, frozenset(kinds), tuple(words), plain_default, description, placeholder)
