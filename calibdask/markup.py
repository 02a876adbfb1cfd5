"""HTML and Markdown in which texts of others are escaped: the one way from a text to either."""

import re
from typing import Any, Self

from markupsafe import Markup

from calibdask.safe_text import visible, visible_lines

# What marks something, or ends a cell; links that are made of mere addresses too.
_MARKS = re.compile(r"[\\`*_~#&\[\]<>|]|(?<=:)/(?=/)|(?<=www)\.", re.IGNORECASE)


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
    """
    return _MARKS.sub(r"\\\g<0>", visible(text))
