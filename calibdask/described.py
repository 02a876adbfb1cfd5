"""How descriptions show themselves in notebooks: their name, what they are, and a table of their choices."""

import inspect
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, fields
from html import escape
from typing import Any

__all__ = ["Described", "framed", "table_of"]

# Colours are those of the page, light or dark, and notebooks must not lay the table out in their own way.
_FAINT = "opacity:0.6"
_FRAME = "display:inline-block;max-width:100%;overflow-x:auto;text-align:left;line-height:1.45"
_TABLE = "border-collapse:collapse;border:none;margin:0.5em 0 0 0;font-size:inherit;color:inherit"
_CELL = "text-align:left;vertical-align:top;padding:0.1em 1.4em 0.1em 0;border:none;background:none"
_HEAD = f"{_CELL};font-weight:600;border-bottom:1px solid rgba(128,128,128,0.5)"
_CODE = f"{_CELL};font-family:monospace;white-space:pre-wrap"
_RIGHT = "text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums"
_LONGEST = 300

# Cells of a row, and whether it says something usual.
Row = tuple[Sequence[str], bool]


class Described:
    """A dataclass that notebooks show as a table of its choices, faint where they are as they are without a word."""

    def _repr_html_(self) -> str:
        kind = type(self)
        return framed(_in_words(kind.__name__), _summary(kind), *self._more_html(), _choices(self))

    def _more_html(self) -> Iterable[str]:
        """What stands before the choices."""
        return ()


def framed(title: str, about: str, *parts: str) -> str:
    """A heading, a sentence about it, and what follows, which is HTML already.

    Examples
    --------
    >>> "<strong>This &amp; that</strong>" in framed("This & that", "What is looked at.")
    True
    """
    head = f"<strong>{escape(title)}</strong>" if title else ""
    said = f'<div style="{_FAINT}">{escape(about)}</div>' if about else ""
    return f'<div style="{_FRAME}">{head}{said}{"".join(parts)}</div>'


def table_of(heading: Sequence[str], rows: Iterable[Row], *, right: Sequence[int] = (), code: bool = False) -> str:
    """A table of texts; rows that say something usual are faint.

    Parameters
    ----------
    heading : sequence of str
        Words above the columns.
    rows : iterable of (sequence of str, bool)
        Cells of each row, and whether it says something usual.
    right : sequence of int
        Which columns hold numbers.
    code : bool, default False
        Whether cells are words of a program.

    Examples
    --------
    >>> table_of(("choice", "value"), [(("bins", "<15>"), True)]).count("&lt;15&gt;")
    1
    >>> table_of(("choice", "value"), [])
    ''
    """

    def cells(tag: str, style: str, texts: Sequence[str]) -> str:
        styles = [f"{style};{_RIGHT}" if place in right else style for place in range(len(texts))]
        # Sentences come last, and narrow pages would leave them a word a line.
        styles[-1] += ";min-width:12em"
        return "".join(f'<{tag} style="{own}">{escape(text)}</{tag}>' for own, text in zip(styles, texts, strict=True))

    body = "".join(
        f'<tr style="background:none;{_FAINT if usual else ""}">{cells("td", _CODE if code else _CELL, texts)}</tr>'
        for texts, usual in rows
    )
    head = f"<thead><tr>{cells('th', _HEAD, heading)}</tr></thead>"
    return f'<table style="{_TABLE}">{head}<tbody>{body}</tbody></table>' if body else ""


def _choices(described: Any) -> str:
    usual = _usual(type(described))
    values = {each.name: repr(getattr(described, each.name)) for each in fields(described) if each.init}
    rows = (((name, _short(value)), usual.get(name) == value) for name, value in values.items())
    return table_of(("choice", "value"), rows, code=True)


def _usual(kind: type) -> Mapping[str, str]:
    """How choices read that nobody has made: the class may fill in more than its fields say."""
    try:
        made = kind()
    except (TypeError, ValueError):
        return dict(_defaults(kind))
    return {each.name: repr(getattr(made, each.name)) for each in fields(made)}


def _defaults(kind: Any) -> Iterator[tuple[str, str]]:
    for each in fields(kind):
        if each.default is not MISSING:
            yield each.name, repr(each.default)
        elif each.default_factory is not MISSING:
            yield each.name, repr(each.default_factory())


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def _in_words(name: str) -> str:
    """The name of a class as words; capitals of their own stay."""
    first, *others = re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", " ", name.lstrip("_")).split()
    return " ".join([first, *(word if word.isupper() else word.lower() for word in others)])


def _summary(kind: type) -> str:
    """The first line of the docstring without its marks; none where a dataclass has only made up its own."""
    first = (inspect.getdoc(kind) or "").partition("\n")[0]
    made_up = first.startswith(f"{kind.__name__}(")
    return "" if made_up else re.sub(r"\s*\[\d+\]_", "", first).replace("`", "")
