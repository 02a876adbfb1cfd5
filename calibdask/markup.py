"""HTML, Markdown and figures in which texts of others are words: the one way from a text to each of them."""

import re
from typing import Any, Self

from markupsafe import Markup

from calibdask.safe_text import visible, visible_lines

# What marks something, or ends a cell; links that are made of mere addresses too.
_MARKS = re.compile(r"[\\`*_~&\[\]<>|]|(?<=:)/(?=/)|(?<=www)\.", re.IGNORECASE)
# GitHub looks for people, issues and formulas in the text that is left, whatever was escaped.
_REFERENCES = re.compile(r"[@#$]")


# What begins or ends a formula in the figures and titles of Bokeh.
_FORMULA = re.compile(r"\$(?=\$)|\\(?=[\[\]()])")
# A sign that joins its neighbours, and is not seen.
_JOINER = "\u2060"


class Html(Markup):
    r"""HTML; a text that is formatted into it, joined with it or added to it is escaped, and its signs all show.

    It is made of literals: whoever sees ``Html("...")`` sees all of the markup. Pages, pictures and widgets take
    anything else for a text, so that code that forgets to escape shows markup as words, and never runs it.

    Examples
    --------
    >>> Html("<b>{}</b> of {:,} rows").format("<i>a</i>\x07", 1200)
    Html('<b>&lt;i&gt;a&lt;/i&gt;\\x07</b> of 1,200 rows')
    >>> Html("<br>").join(["one & two", Html("<b>three</b>")])
    Html('one &amp; two<br><b>three</b>')
    """

    @classmethod
    def escape(cls, s: Any, /) -> Self:
        """A text as HTML; HTML stays as it is."""
        return super().escape(s if hasattr(s, "__html__") else visible_lines(s))


def in_markdown(text: object) -> str:
    r"""A text in one line of Markdown, whose signs mean nothing there.

    Examples
    --------
    >>> in_markdown("a_b | [x](http://y) <i>\x07")
    'a\\_b \\| \\[x\\](http:\\//y) \\<i\\>\\\\x07'
    >>> in_markdown("@me, #1")
    '<span>@</span>me, <span>#</span>1'
    """
    return _REFERENCES.sub(r"<span>\g<0></span>", _MARKS.sub(r"\\\g<0>", visible(text)))


def in_figure(text: object) -> str:
    r"""A text for a figure or a title of Bokeh, which takes text between ``$$`` for a formula, and for HTML.

    Examples
    --------
    >>> in_figure("a $$b$$ \\(c\\)").replace("\u2060", "|")
    'a $|$b$|$ \\|(c\\|)'
    """
    return _FORMULA.sub(rf"\g<0>{_JOINER}", visible_lines(text))
