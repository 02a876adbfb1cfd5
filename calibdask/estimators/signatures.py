"""Names and choices of the public estimators and calibrators, read from their sources.

The command line names metrics, completes them and refuses wrong ones before numpy is imported, which takes longer than
all of that. So nothing is imported here: the syntax trees of the modules that `calibdask` names are enough, and the
classes stay the only place where choices are declared.
"""

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import calibdask
from calibdask.estimators.choice import Choice
from calibdask.html_repr import class_words

_ESTIMATOR = ("calibdask.estimators.estimator", "Estimator")
_CALIBRATOR = ("calibdask.calibrators.base", "Calibrator")
# The shell's name of a calibrator does without them.
_CALIBRATES = {"Scaling", "Calibration", "Calibrator", "Binning"}
# What the command line says about all rows, and not about the calibrator.
_OF_ROWS = "logits"
_KINDS = {"int": "int", "float": "float", "bool": "bool", "str": "word", "Any": "any"}
_SEQUENCES = {"tuple", "list", "Sequence"}
# A description that another class has, as in "As for `ECE`.".
_REFERENCE = re.compile(r"As (?:in|for) `(?:calibdask\.)?(\w+)`")
# What the default panel calls it.
_VARIABLES = {"ece-a": "ece_equal_mass"}

# A definition, or the value of an alias, and the module that it is in.
_Node = tuple[str, Any]


@dataclass(frozen=True)
class Signature:
    """An estimator or a calibrator as the command line names it.

    Parameters
    ----------
    word : str
        The name at the shell, such as ``"density-ece"``.
    public : str
        The name in `calibdask`.
    summary : str
        The first line of its docstring.
    choices : mapping of str to Choice
        What it takes.
    """

    word: str
    public: str
    summary: str
    choices: Mapping[str, Choice] = field(default_factory=dict)

    @property
    def variable(self) -> str:
        """The name of the variable of its result."""
        return _VARIABLES.get(self.word, self.word.replace("-", "_"))

    @property
    def measures_vectors(self) -> bool:
        """Whether it measures whole score vectors, and what a lens shows of them."""
        return "setting" in self.choices and self.choices["setting"].default == "multiclass"

    @property
    def constructor(self) -> Any:
        """The class or function itself, which imports its module."""
        return getattr(calibdask, self.public)


@cache
def signatures() -> Mapping[str, Signature]:
    """All public estimators by their names at the shell, in alphabetical order.

    Examples
    --------
    >>> signatures()["skce-test"].choices["method"].words
    ('asymptotic', 'distribution-free')
    """
    read = (_signature(f"calibdask.{module}", name) for name, module in _public("estimators.", "calibrators."))
    return {signature.word: signature for signature in sorted(filter(None, read), key=lambda signature: signature.word)}


@cache
def calibrator_signatures() -> Mapping[str, Signature]:
    """All public calibrators by their names at the shell, in alphabetical order.

    Examples
    --------
    >>> list(calibrator_signatures()["platt"].choices), calibrator_signatures()["platt"].public
    (['slope', 'smooth_targets', 'setting'], 'PlattScaling')
    """
    read = (
        _calibrator_signature(f"calibdask.{module}", name)
        for name, module in _public("calibrators.", "analyses.multicalibration.")
    )
    return {signature.word: signature for signature in sorted(filter(None, read), key=lambda signature: signature.word)}


def _public(*rooms: str) -> Iterator[tuple[str, str]]:
    """Public names of these rooms, and their modules."""
    for name, module in calibdask._MODULES.items():
        if module.startswith(rooms):
            yield name, module


def _calibrator_signature(module: str, name: str) -> Signature | None:
    """That of a class of calibrators; None for their base class, and for anything else."""
    node = _names(module)[name]
    if (module, name) == _CALIBRATOR or not isinstance(node, ast.ClassDef) or not _derives(module, name, _CALIBRATOR):
        return None
    words = class_words(name)
    words = words[:-1] if words[-1] in _CALIBRATES else words
    described = _described(ast.get_docstring(node) or "")
    choices = {
        choice.name: replace(choice, description=_referred(choice.name, described.get(choice.name, "")))
        for choice in _arguments(module, node)
        # What no text can say is for Python.
        if choice.name != _OF_ROWS and (choice.kinds - {"none"} or choice.words)
    }
    summary = (ast.get_docstring(node) or "").partition("\n")[0]
    return Signature("-".join(words).lower(), name, summary, choices)


def _arguments(module: str, node: ast.ClassDef) -> Iterator[Choice]:
    """The keyword arguments of a class, or of the nearest base that has some."""
    made = next((line for line in node.body if isinstance(line, ast.FunctionDef) and line.name == "__init__"), None)
    if made is None:
        for base in node.bases:
            where = _resolved(module, base.id) if isinstance(base, ast.Name) else None
            if where is not None and isinstance(where[1], ast.ClassDef):
                yield from _arguments(*where)
        return
    for argument, default in zip(made.args.kwonlyargs, made.args.kw_defaults, strict=True):
        kinds, words = (frozenset[str](), ()) if argument.annotation is None else _allowed(module, argument.annotation)
        # Of any kind: its words are for the class to know.
        kinds |= {"word"} if "any" in kinds and not words else frozenset()
        yield Choice(argument.arg, kinds, words, _default(default))


def _signature(module: str, name: str) -> Signature | None:
    """That of a class, or of a function that returns one with some choices made; None if it is neither."""
    node = _names(module)[name]
    if isinstance(node, ast.FunctionDef):
        made = _made(module, node)
        if made is None:
            return None
        where, fixed = made
        choices = {name: choice for name, choice in _choices(*where).items() if name not in fixed}
    elif isinstance(node, ast.ClassDef) and _is_estimator(module, name):
        choices = _choices(module, node)
    else:
        return None
    summary = (ast.get_docstring(node) or "").partition("\n")[0]
    return Signature("-".join(class_words(name)).lower().replace("_", "-"), name, summary, choices)


def _made(module: str, function: ast.FunctionDef) -> tuple[tuple[str, ast.ClassDef], set[str]] | None:
    """The class that a preset returns, and the choices that it makes itself."""
    if function.args.kwarg is None or not isinstance(function.returns, ast.Name):
        return None
    where = _resolved(module, function.returns.id)
    if where is None or not isinstance(where[1], ast.ClassDef) or not _is_estimator(module, function.returns.id):
        return None
    calls = [node.value for node in function.body if isinstance(node, ast.Return) and isinstance(node.value, ast.Call)]
    fixed = {keyword.arg for call in calls for keyword in call.keywords if keyword.arg is not None}
    return (where[0], where[1]), fixed


def _is_estimator(module: str, name: str) -> bool:
    return _derives(module, name, _ESTIMATOR)


def _derives(module: str, name: str, root: tuple[str, str]) -> bool:
    """Whether a name is a class, and the root or derived from it."""
    where = _resolved(module, name)
    if where is None or not isinstance(where[1], ast.ClassDef):
        return False
    if (where[0], where[1].name) == root:
        return True
    return any(_derives(where[0], base.id, root) for base in where[1].bases if isinstance(base, ast.Name))


@cache
def _names(module: str) -> dict[str, Any]:
    """What a module defines; for what it imports from calibdask, the module and the name there."""
    path = Path(calibdask.__file__).parent.joinpath(*module.split(".")[1:]).with_suffix(".py")
    names: dict[str, Any] = {}
    for node in ast.parse(path.read_bytes()).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            names[node.name] = node
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            names[node.targets[0].id] = node.value
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("calibdask."):
            names |= {alias.asname or alias.name: (node.module, alias.name) for alias in node.names}
    return names


def _resolved(module: str, name: str) -> _Node | None:
    """Where a name is defined; None for what is not of calibdask."""
    node = _names(module).get(name)
    if isinstance(node, tuple):
        return _resolved(*node)
    return None if node is None else (module, node)


@cache
def _choices(module: str, node: ast.ClassDef) -> dict[str, Choice]:
    """The fields of a class, those of its bases first, with what its docstring says of them."""
    choices: dict[str, Choice] = {}
    for base in node.bases:
        where = _resolved(module, base.id) if isinstance(base, ast.Name) else None
        if where is not None and isinstance(where[1], ast.ClassDef):
            choices |= _choices(where[0], where[1])
    # Only dataclasses have fields.
    for line in node.body if node.decorator_list else ():
        if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name) and not _is_shared(line.annotation):
            kinds, words = _allowed(module, line.annotation)
            choices[line.target.id] = Choice(line.target.id, kinds, words, _default(line.value))
    for name, text in _described(ast.get_docstring(node) or "").items():
        if name in choices:
            choices[name] = replace(choices[name], description=_referred(name, text))
    return choices


def _referred(name: str, text: str) -> str:
    """The description of a choice; where it refers to another class, the description there."""
    other = _REFERENCE.match(text)
    if other is None or other[1] not in calibdask._MODULES:
        return text
    where = f"calibdask.{calibdask._MODULES[other[1]]}"
    return _choices(where, _names(where)[other[1]])[name].description


def _is_shared(annotation: ast.expr) -> bool:
    """Whether it belongs to the class and is no field."""
    return "ClassVar" in ast.unparse(annotation)


def _allowed(module: str, annotation: ast.expr) -> tuple[frozenset[str], tuple[str, ...]]:
    """The kinds of values, and the words, that an annotation allows."""
    if isinstance(annotation, ast.BinOp):
        sides = [_allowed(module, side) for side in (annotation.left, annotation.right)]
        return sides[0][0] | sides[1][0], tuple(dict.fromkeys((*sides[0][1], *sides[1][1])))
    if isinstance(annotation, ast.Constant):
        return frozenset({"none"} if annotation.value is None else ()), ()
    if isinstance(annotation, ast.Subscript) and isinstance(annotation.value, ast.Name):
        return _of_subscript(annotation.value.id, annotation.slice)
    if not isinstance(annotation, ast.Name):
        return frozenset(), ()
    if annotation.id in _KINDS:
        return frozenset({_KINDS[annotation.id]}), ()
    where = _resolved(module, annotation.id)
    if where is None:
        return frozenset(), ()
    if isinstance(where[1], ast.ClassDef):
        kind = "metric" if _is_estimator(module, annotation.id) else annotation.id.lower()
        return frozenset({kind}), ()
    return _allowed(where[0], where[1])


def _of_subscript(name: str, inside: ast.expr) -> tuple[frozenset[str], tuple[str, ...]]:
    """Words of ``Literal``; sequences of numbers, and of nothing else."""
    if name == "Literal":
        return frozenset(), tuple(str(node.value) for node in ast.walk(inside) if isinstance(node, ast.Constant))
    numbers = any(isinstance(node, ast.Name) and node.id in ("int", "float") for node in ast.walk(inside))
    return frozenset({"list"} if name in _SEQUENCES and numbers else ()), ()


def _default(value: ast.expr | None) -> Any:
    """The default: its value, the name of what makes it, or its source."""
    if value is None:
        return None
    if isinstance(value, ast.Call):
        made = [keyword.value for keyword in value.keywords if keyword.arg == "default_factory"]
        return ast.unparse(made[0]) if made else None
    try:
        return ast.literal_eval(value)
    except ValueError:
        return ast.unparse(value)


def _described(docstring: str) -> dict[str, str]:
    """Descriptions of the parameters in a numpydoc docstring, by their names."""
    _, _, section = docstring.partition("Parameters\n----------\n")
    section = re.split(r"\n\n\w[\w ]*\n---+\n", section)[0]
    described: dict[str, str] = {}
    for entry in re.split(r"\n(?=\S)", section):
        head, _, text = entry.partition("\n")
        names = head.partition(" : ")[0].split(", ")
        described |= {name.strip(): " ".join(text.split()) for name in names}
    return described
