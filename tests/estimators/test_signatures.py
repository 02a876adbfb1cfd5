"""The table of names and options agrees with the classes, and reading it imports nothing heavy."""

import subprocess
import sys
from dataclasses import fields
from importlib.resources import files
from typing import Any, get_type_hints

import pytest

import calibdask as cd
from calibdask.analyses.signature_table import table_text
from calibdask.estimators.choice import Choice
from calibdask.estimators.estimator import Estimator
from calibdask.estimators.signatures import signatures


def is_public_estimator(name: str) -> bool:
    value = getattr(cd, name)
    try:
        made = value if isinstance(value, type) else get_type_hints(value).get("return") if callable(value) else None
    except NameError:
        # A type that is imported for type checkers only, which no estimator is.
        return False
    return isinstance(made, type) and issubclass(made, Estimator)


def test_the_table_is_that_of_the_classes() -> None:
    """After a change: ``python -m calibdask.analyses.signature_table``."""
    stored = files("calibdask.estimators").joinpath("signatures.json").read_text(encoding="utf-8")
    assert stored == table_text()


def test_every_public_estimator_is_there() -> None:
    assert {signature.public for signature in signatures().values()} == set(filter(is_public_estimator, cd.__all__))


@pytest.mark.parametrize("word", signatures())
def test_choices_are_the_fields(word: str) -> None:
    signature = signatures()[word]
    estimator = signature.constructor()
    own = {field.name: field for field in fields(estimator)}
    assert set(signature.choices) <= set(own)
    if isinstance(signature.constructor, type):
        assert list(signature.choices) == list(own)
    for choice in signature.choices.values():
        signature.constructor(**{choice.name: own[choice.name].default} if not choice.kinds & {"metric"} else {})
        assert choice.kinds or choice.words


def refusal(constructor: Any, **choices: Any) -> str:
    try:
        constructor(**choices)
    except ValueError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("word", signatures())
def test_the_class_knows_the_words(word: str) -> None:
    signature = signatures()[word]
    for name, choice in signature.choices.items():
        for value in choice.words:
            assert choice.accepts(value)
            assert f"{name} expects one of" not in refusal(signature.constructor, **{name: value})
        if choice.words and not choice.kinds & {"word", "any", "metric"}:
            assert not choice.accepts("unknown")
            assert refusal(signature.constructor, **{name: "unknown"})


def test_an_unknown_word_is_refused_here_as_by_the_class() -> None:
    choice = signatures()["ece"].choices["norm"]
    assert choice == Choice("norm", frozenset(), ("l1", "l2", "max"), "l1", "How gaps are pooled.")
    assert not choice.accepts("l7")


def test_nothing_heavy_is_imported() -> None:
    heavy = {"numpy", "dask", "xarray", "numba", "scipy"}
    code = "import sys; from calibdask.estimators.expression import parse_metrics; parse_metrics('ece(bins=10)')"
    subprocess.run([sys.executable, "-c", f"{code}; assert not {heavy} & set(sys.modules)"], check=True)


def test_descriptions_follow_references() -> None:
    choices: Any = signatures()["saturation"].choices
    assert choices["setting"].words == ("confidence", "classwise", "binary", "top-k")
    assert choices["step"].description == "Largest width of a cell of the grid."
