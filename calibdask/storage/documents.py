"""Documents that users give, JSON and TOML: read whole, within limits of size and depth, before they are used."""

import json
import os
import re
import tomllib
from collections.abc import Callable, Sequence
from typing import Any

from calibdask.safe_text import visible
from calibdask.storage.location import Location

# Limits and facts take kilobytes; a map of a million steps, or the state of 10,000 slices, takes tens of megabytes.
_MOST_TOML, _MOST_JSON = 1 << 22, 1 << 30
_MOST_DEPTH = 64
# Dotted keys of TOML, of which tomllib keeps all beginnings: the memory for 100,000 parts would be 40 GB.
# Words are matched as a whole, by a group that looks ahead: possessive quantifiers match wrongly in Python 3.11.2.
_PART = r"""(?:(?=([\w-]+))\1|"[^"\\\n]*(?:\\.[^"\\\n]*)*"|'[^'\n]*')"""
_LONG_KEY = re.compile(rf"(?<![\w-])(?:{_PART}[ \t]*\.[ \t]*){{{_MOST_DEPTH}}}")
# A text of JSON with its quotation marks, as it is in a document without errors.
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"')
_TOO_DEEP = f"it is nested more than {_MOST_DEPTH} levels deep"


def read_json(place: str | os.PathLike[str] | Location, *, canonical: bool = False) -> Any:
    """The content of a JSON file at a path or a URL, read as by `parse_json`.

    Raises
    ------
    ValueError
        As `parse_json`; if it is not a regular file, or too large.
    OSError
        If it cannot be read.
    """
    return parse_json(read_bytes(place), canonical=canonical)


def read_toml(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The content of a TOML file.

    Raises
    ------
    ValueError
        If it is no TOML, or nested too deeply; if it is not a regular file, or too large.
    OSError
        If it cannot be read.
    """
    text = read_bytes(path, _MOST_TOML).decode("utf-8")
    if _LONG_KEY.search(text):
        raise ValueError(_TOO_DEEP)
    return _checked(tomllib.loads, text)


def read_bytes(place: str | os.PathLike[str] | Location, most_bytes: int = _MOST_JSON) -> bytes:
    """The content of a file.

    Raises
    ------
    ValueError
        If it is a pipe or a device, which may never end, or too large; of a URL, if it cannot be read.
    OSError
        If it cannot be read.
    """
    location = place if isinstance(place, Location) else Location.parse(os.fspath(place))
    location.check_file()
    if location.local:
        with open(location.path, "rb") as file:
            # A sparse file takes no room on the disk, and all of it in memory.
            is_small = os.fstat(file.fileno()).st_size <= most_bytes
            content = file.read(most_bytes + 1) if is_small else b""
    else:
        with location.reading(), location.open() as file:
            content = file.read(most_bytes + 1)
            is_small = True
    if len(content) > most_bytes or not is_small:
        raise ValueError(f"{location.url} is larger than {most_bytes >> 20:,} MB, and is not an expected document.")
    return bytes(content)


def parse_object(text: str | bytes) -> dict[str, Any]:
    """The JSON object of a text, by `parse_json`.

    Raises
    ------
    ValueError
        Also if it is another value.

    Examples
    --------
    >>> parse_object("[1]")
    Traceback (most recent call last):
    ValueError: a JSON object is expected, got [1]
    """
    value = parse_json(text)
    if not isinstance(value, dict):
        raise ValueError(f"a JSON object is expected, got {visible(json.dumps(value)[:40])}")
    return value


def parse_json(text: str | bytes, *, canonical: bool = False) -> Any:
    r"""The value of a JSON text in which each name of an object is there once.

    Raises
    ------
    ValueError
        If it is no JSON, has a name twice or NaN, or is nested too deeply; of bytes, if they are not UTF-8 without a
        byte order mark; with ``canonical``, if a number is written in another way than Python's shortest one, or a
        text with other escapes than Python's, with or without such of characters beyond ASCII.

    Examples
    --------
    >>> parse_json('{"a": [1, 0.5]}')
    {'a': [1, 0.5]}
    >>> parse_json('{"a": 1, "a": 2}')
    Traceback (most recent call last):
    ValueError: the name 'a' is there twice
    >>> parse_json("[1, 5e-1]", canonical=True)
    Traceback (most recent call last):
    ValueError: the number 5e-1 is expected as 0.5
    >>> parse_json(r'{"\u0061": 1}', canonical=True)
    Traceback (most recent call last):
    ValueError: the text "\u0061" is expected as "a"
    """
    if isinstance(text, bytes):
        text = _decoded(text)
    numbers: dict[str, Any] = {"parse_int": _canonical(int), "parse_float": _canonical(float)} if canonical else {}

    def parse(source: str) -> Any:
        return json.loads(source, object_pairs_hook=_unique, parse_constant=_refuse_constant, **numbers)

    document = _checked(parse, text)
    if canonical:
        for quoted in _QUOTED.findall(text):
            _check_escapes(quoted)
    return document


def _decoded(content: bytes) -> str:
    """Decode strictly: json would guess UTF-16 and UTF-32, so that two programs may read two documents."""
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"UTF-8 is expected, got the byte 0x{content[error.start]:02x} at {error.start:,}") from error
    if text.startswith("\ufeff"):
        raise ValueError("UTF-8 without a byte order mark is expected")
    return text


def _check_escapes(quoted: str) -> None:
    """Raise ValueError for a text that Python writes in another way: a search would not find it."""
    value = json.loads(quoted)
    spellings = [json.dumps(value, ensure_ascii=ascii_only) for ascii_only in (False, True)]
    if quoted not in spellings:
        raise ValueError(f"the text {visible(quoted[:40])} is expected as {visible(spellings[0][:40])}")


def _checked(parse: Callable[[Any], Any], text: str | bytes) -> Any:
    """Parse a text and limit the depth of the document, since later code may recurse."""
    try:
        document = parse(text)
    except RecursionError as error:
        raise ValueError(_TOO_DEEP) from error
    level = [document]
    for _ in range(_MOST_DEPTH + 1):
        level = [child for node in level for child in _children(node) if isinstance(child, dict | list)]
        if not level:
            return document
    raise ValueError(_TOO_DEEP)


def _children(node: Any) -> Sequence[Any]:
    return [*node.values()] if isinstance(node, dict) else node if isinstance(node, list) else []


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the name {visible(twice)!r} is there twice")
    return document


def _refuse_constant(word: str) -> Any:
    raise ValueError(f"a number is expected, got {word}")


def _canonical(kind: Callable[[str], Any]) -> Callable[[str], Any]:
    """Parse numbers in Python's canonical spelling only, which is unique."""

    def parsed(text: str) -> Any:
        number = kind(text)
        if repr(number) != text:
            raise ValueError(f"the number {text[:40]} is expected as {number!r}")
        return number

    return parsed
