"""Generates the table of names and options that the command line reads in place of the classes.

``python -m calibdask.analyses.signature_table`` writes it after a metric, a calibrator or an analysis has changed; a
test compares the file with the classes.
"""

import inspect
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from importlib.resources import files
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import calibdask
from calibdask.analyses.analysis import Analysis
from calibdask.analyses.catalogue import ANALYSES
from calibdask.calibrators.base import Calibrator
from calibdask.estimators.estimator import Estimator
from calibdask.html_repr import class_words

# The shell's names of calibrators leave these words out.
_CALIBRATOR_WORDS = {"Scaling", "Calibration", "Calibrator", "Binning"}
# An option of the rows at the shell, not of a calibrator.
_ROW_OPTION = "logits"
_KINDS = {int: "int", float: "float", bool: "bool", str: "word", Any: "any", NoneType: "none"}
_SEQUENCES = {tuple, list, Sequence}
# A description that refers to another class, as in "As for `ECE`.".
_REFERENCE = re.compile(r"As (?:in|for) `(?:calibdask\.)?(\w+)`")


def table() -> dict[str, dict[str, Any]]:
    """Name at the shell, public name, summary and choices of metrics, calibrators and analyses, as plain values."""
    public = {name: getattr(calibdask, name) for name in calibdask.__all__}
    metrics = {_metric_word(name): _metric(name, value) for name, value in public.items() if _is_metric(value)}
    calibrators = {
        _calibrator_word(name): _calibrator(name, value)
        for name, value in public.items()
        if inspect.isclass(value) and issubclass(value, Calibrator) and value is not Calibrator
    }
    analyses = {name: _analysis(analysis) for name, analysis in ANALYSES.items()}
    return {
        "metrics": dict(sorted(metrics.items())),
        "calibrators": dict(sorted(calibrators.items())),
        "analyses": dict(sorted(analyses.items())),
    }


def table_text() -> str:
    """The table as the file has it: one line for each metric and calibrator."""
    groups = []
    for group, entries in table().items():
        lines = [f"  {json.dumps(word)}: {json.dumps(entry)}" for word, entry in entries.items()]
        groups.append(f" {json.dumps(group)}: {{\n" + ",\n".join(lines) + "\n }")
    return "{\n" + ",\n".join(groups) + "\n}\n"


def described_parameters(docstring: str) -> dict[str, str]:
    """Descriptions of the parameters in a numpydoc docstring, by their names."""
    _, _, section = inspect.cleandoc(docstring).partition("Parameters\n----------\n")
    section = re.split(r"\n\n\w[\w ]*\n---+\n", section)[0]
    described: dict[str, str] = {}
    for entry in re.split(r"\n(?=\S)", section):
        head, _, text = entry.partition("\n")
        names = head.partition(" : ")[0].split(", ")
        described |= {name.strip(): " ".join(text.split()) for name in names}
    return described


def _metric_word(name: str) -> str:
    return "-".join(class_words(name)).lower().replace("_", "-")


def _calibrator_word(name: str) -> str:
    words = class_words(name)
    words = words[:-1] if words[-1] in _CALIBRATOR_WORDS else words
    return "-".join(words).lower()


def _is_metric(value: Any) -> bool:
    """Whether it is a class of estimators, or a function that presets some of its choices."""
    return issubclass(_metric_class(value), Estimator)


def _metric_class(value: Any) -> type:
    if inspect.isclass(value):
        return value
    if not inspect.isfunction(value) or not _takes_keywords(value):
        return object
    made = inspect.get_annotations(value).get("return")
    return made if inspect.isclass(made) else object


def _takes_keywords(function: Callable[..., Any]) -> bool:
    kinds = [parameter.kind for parameter in inspect.signature(function).parameters.values()]
    return inspect.Parameter.VAR_KEYWORD in kinds


def _metric(name: str, value: Any) -> dict[str, Any]:
    made = _metric_class(value)
    preset = set() if inspect.isclass(value) else _preset_fields(value, made)
    choices = {field: choice for field, choice in _fields(made).items() if field not in preset}
    return _entry(name, value, choices)


def _preset_fields(function: Callable[..., Any], made: Any) -> set[str]:
    """Fields that the function sets itself, so that no caller may."""
    preset = set()
    for field in fields(made):
        try:
            function(**{field.name: field.default})
        except TypeError:
            preset.add(field.name)
    return preset


def _fields(made: Any) -> dict[str, dict[str, Any]]:
    """Fields of a frozen description, with their docstrings, also from base classes."""
    hints = get_type_hints(made)
    choices = {field.name: _choice(hints[field.name], _field_default(field)) for field in fields(made)}
    for base in reversed(made.__mro__):
        if is_dataclass(base) and base.__doc__:
            _describe(choices, base.__doc__)
    return choices


def _calibrator(name: str, value: type) -> dict[str, Any]:
    initializer: Any = getattr(value, "__init__")  # noqa: B009
    hints = get_type_hints(initializer)
    choices = {}
    for parameter in inspect.signature(initializer).parameters.values():
        if parameter.kind is not inspect.Parameter.KEYWORD_ONLY or parameter.name == _ROW_OPTION:
            continue
        choice = _choice(hints.get(parameter.name, object), _plain(parameter.default))
        if "any" in choice["kinds"] and not choice["words"]:
            # Words are checked by the class.
            choice["kinds"] = sorted({*choice["kinds"], "word"})
        if choice["words"] or {*choice["kinds"]} - {"none"}:
            choices[parameter.name] = choice
    _describe(choices, value.__doc__ or "")
    return _entry(name, value, choices)


def _analysis(analysis: type[Analysis]) -> dict[str, Any]:
    """Fields of an analysis, and further help texts of its command."""
    details = inspect.cleandoc(analysis.__doc__ or "").partition("\n\nParameters\n")[0].partition("\n\n")[2]
    shown = [field for field in fields(analysis) if field.metadata.get("shell", True)]  # type: ignore[arg-type]
    every = _fields(analysis)
    choices = {field.name: every[field.name] for field in shown}
    for field in shown:
        choices[field.name]["placeholder"] = field.metadata.get("placeholder", "")
        choices[field.name]["required"] = field.default is MISSING and field.default_factory is MISSING
    return _entry(analysis.__name__, analysis, choices) | {
        "module": analysis.__module__,
        "heading": analysis.heading,
        "inputs": analysis.inputs,
        "further_formats": list(analysis.further_formats),
        "resumes": analysis.resumes,
        "json_lines": analysis.json_lines,
        "details": " ".join(details.split("\n")),
        "examples": [list(example) for example in analysis.examples],
        "notes": analysis.notes,
        "json_shape": analysis.json_shape,
        "statuses": dict(analysis.statuses),
        "slices": analysis.slices,
        "weights": analysis.weights,
        "clusters": analysis.clusters,
        "takes_features": analysis.takes_features,
        "population": analysis.population,
    }


def _entry(name: str, value: Any, choices: Mapping[str, Any]) -> dict[str, Any]:
    summary = inspect.cleandoc(value.__doc__ or "").partition("\n")[0]
    return {"public": name, "summary": summary, "choices": choices}


def _describe(choices: Mapping[str, dict[str, Any]], docstring: str) -> None:
    """Add the descriptions in a docstring; where one refers to another class, the description there."""
    for field, text in described_parameters(docstring).items():
        if field in choices:
            choices[field]["description"] = _followed(field, text)


def _followed(field: str, text: str) -> str:
    other = _REFERENCE.match(text)
    if other is None or other[1] not in calibdask.__all__:
        return text
    return str(_fields(getattr(calibdask, other[1]))[field]["description"])


def _choice(hint: Any, default: Any) -> dict[str, Any]:
    kinds, words = _allowed(hint)
    return {"kinds": sorted(kinds), "words": words, "default": default, "description": ""}


def _allowed(hint: Any) -> tuple[set[str], list[str]]:
    """The kinds of values, and the words, that a type allows."""
    origin = get_origin(hint)
    if origin in (Union, UnionType):
        kinds: set[str] = set()
        words: list[str] = []
        for part in get_args(hint):
            part_kinds, part_words = _allowed(part)
            kinds |= part_kinds
            words += [word for word in part_words if word not in words]
        return kinds, words
    if origin is Literal:
        return set(), [str(word) for word in get_args(hint)]
    if Estimator in get_args(hint) and issubclass(origin, Mapping):
        return {"metrics"}, []
    if origin in _SEQUENCES:
        within = set(_types_within(hint))
        return {"list"} if {int, float} & within else {"texts"} if str in within else set(), []
    if hint in _KINDS:
        return {_KINDS[hint]}, []
    if inspect.isclass(hint) and hint.__module__.startswith("calibdask."):
        return {"metric" if issubclass(hint, Estimator) else hint.__name__.lower()}, []
    return set(), []


def _types_within(hint: Any) -> Iterator[Any]:
    for part in get_args(hint):
        yield part
        yield from _types_within(part)


def _field_default(field: Field[Any]) -> Any:
    if field.default_factory is not MISSING:
        return getattr(field.default_factory, "__name__", None)
    return _plain(field.default)


def _plain(default: Any) -> Any:
    """The default, if JSON can hold it."""
    if isinstance(default, tuple):
        return [_plain(value) for value in default]
    return default if isinstance(default, int | float | str | bool) else None


def main() -> None:
    """Write the table beside the module that reads it."""
    path = files("calibdask.estimators").joinpath("signatures.json")
    with open(str(path), "w", encoding="utf-8") as file:
        file.write(table_text())


if __name__ == "__main__":
    main()
