"""Pages as self-contained HTML: nothing to download, and no script but the one that copies a command."""

from base64 import b64encode
from functools import cache
from hashlib import sha256
from importlib.resources import files
from string import Template
from typing import Any

from calibdask.markup import Html
from calibdask.plot.over_time import style
from calibdask.plot.style import BAND, BARS, OVER, SERIES, UNDER
from calibdask.report.blocks import Code, Page
from calibdask.safe_text import visible_lines


def rendered(page: Page) -> str:
    """The page as one HTML file; all texts of data are escaped."""
    has_copies = any(isinstance(block, Code) and block.copied for section in page.sections for block in section.blocks)
    script = _text("copy.js").strip()
    # The page allows this script by its hash, and no other.
    digest = b64encode(sha256(script.encode()).digest()).decode()
    given = {"has_copies": has_copies, "script": Html(script), "script_hash": digest}
    return str(_template().render(page=page, style=_style(), **given))


@cache
def _template() -> Any:
    from jinja2 import Environment, StrictUndefined

    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, finalize=_shown)
    return environment.from_string(_text("page.html.jinja"))


def _shown(value: Any) -> Any:
    """Texts of data with signs that do not show written out; HTML stays as it is."""
    return visible_lines(value) if isinstance(value, str) and not hasattr(value, "__html__") else value


@cache
def _style() -> Html:
    colours = {f"series{number}": colour for number, colour in enumerate(SERIES)}
    given = {"over": OVER, "under": UNDER, "bar": BARS, "band": BAND, **colours}
    return Html(Template(_text("page.css")).substitute(given) + style())


def _text(name: str) -> str:
    return files("calibdask.report").joinpath(name).read_text(encoding="utf-8")
