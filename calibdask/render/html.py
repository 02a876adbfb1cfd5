"""Documents as HTML: self-contained pages, and fragments for notebooks and other pages.

A page needs nothing from a network, and runs no script but the one that copies a command.
"""

from base64 import b64encode
from functools import cache
from hashlib import sha256
from importlib.resources import files
from string import Template
from typing import Any

from calibdask.markup import Html
from calibdask.plot.over_time import style
from calibdask.plot.style import BAND, BARS, OVER, SERIES, UNDER
from calibdask.results.document import Code, Document, Element
from calibdask.safe_text import visible_lines

_TEMPLATES = ("page.html.jinja", "elements.jinja")


def page(document: Document) -> str:
    """The document as one HTML file; all texts of data are escaped."""
    has_copies = any(isinstance(element, Code) and element.copied for element in document.elements())
    script = _text("copy.js").strip()
    # The page allows this script by its hash, and no other.
    digest = b64encode(sha256(script.encode()).digest()).decode()
    script_options = {"has_copies": has_copies, "script": Html(script), "script_hash": digest}
    template = _environment().get_template("page.html.jinja")
    return str(template.render(document=document, style=_style(), **script_options))


def html(document: Document) -> Html:
    """The elements of a document below each other, without a style; all texts of data are escaped."""
    return Html().join(map(element_html, document.elements()))


def element_html(element: Element) -> Html:
    """One element without a style."""
    return Html(_elements().element(element))


@cache
def _elements() -> Any:
    return _environment().get_template("elements.jinja").module


@cache
def _environment() -> Any:
    from jinja2 import DictLoader, Environment, StrictUndefined

    templates = DictLoader({name: _text(name) for name in _TEMPLATES})
    return Environment(
        loader=templates, autoescape=True, undefined=StrictUndefined, trim_blocks=True, finalize=_visible_text
    )


def _visible_text(value: Any) -> Any:
    """Texts of data with signs that do not show written out; HTML stays as it is."""
    return visible_lines(value) if isinstance(value, str) and not hasattr(value, "__html__") else value


@cache
def _style() -> Html:
    series = {f"series{number}": colour for number, colour in enumerate(SERIES)}
    colours = {"over": OVER, "under": UNDER, "bar": BARS, "band": BAND, **series}
    return Html(Template(_text("page.css")).substitute(colours) + style())


def _text(name: str) -> str:
    return files("calibdask.render").joinpath(name).read_text(encoding="utf-8")
