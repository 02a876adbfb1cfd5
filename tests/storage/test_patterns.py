"""Regular expressions of the package match alike on all versions of Python that it supports."""

import importlib
import pkgutil
import re
from collections.abc import Iterator
from typing import Any

import pytest

import calibdask

# Both came with Python 3.11, and match wrongly until 3.11.4 (github.com/python/cpython/issues/106052).
_FAULTY = {"POSSESSIVE_REPEAT", "ATOMIC_GROUP"}


def operations(parsed: Any) -> Iterator[str]:
    """Names of all operations of a parsed pattern."""
    for item in parsed:
        if isinstance(item, re._parser.SubPattern | list | tuple):
            yield from operations(item)
        elif isinstance(item, re._constants._NamedIntConstant):
            yield item.name


def is_faulty(pattern: "re.Pattern[Any]") -> bool:
    return bool(_FAULTY & {*operations(re._parser.parse(pattern.pattern, pattern.flags & ~re.DEBUG))})


@pytest.mark.parametrize(
    ("text", "expected"), [("a++b", True), ("x(?:a|b*+)c", True), ("(?>a)", True), ("a+b?", False)]
)
def test_faulty_patterns_are_recognized(text: str, expected: bool) -> None:
    assert is_faulty(re.compile(text)) == expected


def test_no_pattern_has_possessive_quantifiers() -> None:
    patterns = {}
    for module in pkgutil.walk_packages(calibdask.__path__, "calibdask."):
        if module.name.endswith("__main__"):
            continue
        for name, value in vars(importlib.import_module(module.name)).items():
            if isinstance(value, re.Pattern):
                patterns[f"{module.name}.{name}"] = value
    assert len(patterns) > 20
    assert [name for name, pattern in patterns.items() if is_faulty(pattern)] == []
