"""Pages as self-contained HTML: no scripts, and nothing to download."""

from functools import cache
from importlib.resources import files
from string import Template
from typing import Any

from markupsafe import Markup

from calibdask.plot.over_time import style
from calibdask.plot.style import BAND, BARS, OVER, UNDER
from calibdask.report.blocks import Page
from calibdask.safe_text import visible_lines


def rendered(page: Page) -> str:
    """The page as one HTML file; all texts of data are escaped."""
    return str(_template().render(page=page, style=_style()))


@cache
def _template() -> Any:
    from jinja2 import Environment, StrictUndefined

    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, finalize=_shown)
    return environment.from_string(_text("page.html.jinja"))


def _shown(value: Any) -> Any:
    """Texts of data with signs that do not show written out; Markup is made here."""
    return visible_lines(value) if isinstance(value, str) and not isinstance(value, Markup) else value


@cache
def _style() -> Markup:
    return Markup(Template(_text("page.css")).substitute(over=OVER, under=UNDER, bar=BARS, band=BAND) + style())


def _text(name: str) -> str:
    return files("calibdask.report").joinpath(name).read_text(encoding="utf-8")
