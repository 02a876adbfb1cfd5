"""HTML representation of dataclasses in notebooks: name, summary and a table of their parameters."""

import inspect
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, fields
from typing import Any

from calibdask.markup import Html

# Colours are inherited from the page, light or dark; explicit styles override the table layout of notebooks.
_FAINT = "opacity:0.6"
_FRAME = "display:inline-block;max-width:100%;overflow-x:auto;text-align:left;line-height:1.45"
_TABLE = "border-collapse:collapse;border:none;margin:0.5em 0 0 0;font-size:inherit;color:inherit"
_CELL = "text-align:left;vertical-align:top;padding:0.1em 1.4em 0.1em 0;border:none;background:none"
_HEAD = f"{_CELL};font-weight:600;border-bottom:1px solid rgba(128,128,128,0.5)"
_CODE = f"{_CELL};font-family:monospace;white-space:pre-wrap"
_RIGHT = "text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums"
_LONGEST = 300

# Cells of a row, and whether its value is the default.
Row = tuple[Sequence[str], bool]


class HtmlRepr:
    """A dataclass that notebooks show as a table of its parameters, faint where they have their defaults."""

    def _repr_html_(self) -> str:
        kind = type(self)
        return framed(_in_words(kind.__name__), _summary(kind), *self._more_html(), _choices(self))

    def _more_html(self) -> Iterable[Html]:
        """HTML before the table of parameters."""
        return ()


def framed(title: str, about: str, *parts: Html) -> Html:
    """A frame with a heading, a sentence, and further parts, which are HTML already.

    Examples
    --------
    >>> "<strong>This &amp; that</strong>" in framed("This & that", "A sentence.")
    True
    """
    head = Html("<strong>{}</strong>").format(title) if title else Html()
    description = Html('<div style="{}">{}</div>').format(_FAINT, about) if about else Html()
    return Html('<div style="{}">{}</div>').format(_FRAME, Html().join([head, description, *parts]))


def table_of(heading: Sequence[str], rows: Iterable[Row], *, right: Sequence[int] = (), code: bool = False) -> Html:
    """A table of texts; rows with default values are faint.

    Parameters
    ----------
    heading : sequence of str
        Headings of the columns.
    rows : iterable of (sequence of str, bool)
        Cells of each row, and whether its value is the default.
    right : sequence of int
        Which columns hold numbers.
    code : bool, default False
        Whether cells are source code.

    Examples
    --------
    >>> table_of(("choice", "value"), [(("bins", "<15>"), True)]).count("&lt;15&gt;")
    1
    >>> str(table_of(("choice", "value"), []))
    ''
    """

    def cells(tag: str, style: str, texts: Sequence[str]) -> Html:
        styles = [f"{style};{_RIGHT}" if column in right else style for column in range(len(texts))]
        # The last column holds sentences, which narrow pages would wrap after every word.
        styles[-1] += ";min-width:12em"
        cell = Html('<{tag} style="{style}">{text}</{tag}>')
        return Html().join(cell.format(tag=tag, style=own, text=text) for own, text in zip(styles, texts, strict=True))

    line = Html('<tr style="background:none;{}">{}</tr>')
    body = Html().join(
        line.format(_FAINT if default else "", cells("td", _CODE if code else _CELL, texts)) for texts, default in rows
    )
    table = Html('<table style="{}"><thead><tr>{}</tr></thead><tbody>{}</tbody></table>')
    return table.format(_TABLE, cells("th", _HEAD, heading), body) if body else Html()


def _choices(described: Any) -> Html:
    defaults = _defaults(type(described))
    values = {field.name: repr(getattr(described, field.name)) for field in fields(described) if field.init}
    rows = (((name, _short(value)), defaults.get(name) == value) for name, value in values.items())
    return table_of(("choice", "value"), rows, code=True)


def _defaults(kind: type) -> Mapping[str, str]:
    """Default values as text; the constructor may fill in more than the fields declare."""
    try:
        default = kind()
    except (TypeError, ValueError):
        return dict(_field_defaults(kind))
    return {field.name: repr(getattr(default, field.name)) for field in fields(default)}


def _field_defaults(kind: Any) -> Iterator[tuple[str, str]]:
    for field in fields(kind):
        if field.default is not MISSING:
            yield field.name, repr(field.default)
        elif field.default_factory is not MISSING:
            yield field.name, repr(field.default_factory())


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def class_words(name: str) -> list[str]:
    """The words of the name of a class.

    Examples
    --------
    >>> class_words("BrierScore"), class_words("SKCETest")
    (['Brier', 'Score'], ['SKCE', 'Test'])
    """
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", " ", name.lstrip("_")).split()


def _in_words(name: str) -> str:
    """The name of a class as words; abbreviations keep their capitals."""
    first, *others = class_words(name)
    return " ".join([first, *(word if word.isupper() else word.lower() for word in others)])


def _summary(kind: type) -> str:
    """The first line of the docstring without markup; empty for the generated docstring of a dataclass."""
    first = (inspect.getdoc(kind) or "").partition("\n")[0]
    generated = first.startswith(f"{kind.__name__}(")
    return "" if generated else re.sub(r"\s*\[\d+\]_", "", first).replace("`", "")
