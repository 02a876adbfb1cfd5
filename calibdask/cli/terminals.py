"""Streams as they are: terminals without some characters, readers that have gone, and streams that are closed."""

import codecs
import os
import sys
from typing import Any

# Characters of tables, sentences and charts; all others become their number, as in Python and JSON.
_SUBSTITUTES = {
    **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2212\u2500\u2501", "-"),
    **dict.fromkeys("\u2502\u2503", "|"),
    **dict.fromkeys("\u2588\u2587\u2586\u2585\u2584\u2583\u2582\u2581\u25cf\u2022\u25a0", "#"),
    **dict.fromkeys("\u00a0\u202f\u2009", " "),
    "\u00d7": "x",
    "\u00b7": "*",
    "\u2026": "...",
    "\u2264": "<=",
    "\u2265": ">=",
    "\u00b1": "+-",
    "\u2192": "->",
}


def _substituted(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lost = error.object[error.start : error.end]
    return "".join(_SUBSTITUTES.get(sign) or sign.encode("unicode_escape").decode() for sign in lost), error.end


codecs.register_error("calibdask-substitute", _substituted)


def open_closed_streams() -> None:
    """Open the streams with which a process begins where they are closed (``>&-``).

    The next file that is opened would else have their number, and get what libraries print. Standard input is then
    empty, printing to stdout fails as on a full disk, and stderr goes nowhere.
    """
    for number, mode in ((0, os.O_RDONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            # The lowest number that is free: that of the stream, as those before it are open.
            os.open(os.devnull, mode)
    if sys.stdin is None:
        sys.stdin = os.fdopen(0, encoding="utf-8", closefd=False)
    if sys.stdout is None:
        sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)


def substitute_characters() -> None:
    """Print a substitute for each character that the encoding of stdout or stderr lacks, in place of an error."""
    for stream in (sys.stdout, sys.stderr):
        encoding = codecs.lookup(getattr(stream, "encoding", None) or "utf-8").name
        if not encoding.startswith("utf-") and hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="calibdask-substitute")


def is_encodable(text: str) -> bool:
    """Whether stdout can show a text as it is."""
    try:
        text.encode(getattr(sys.stdout, "encoding", None) or "utf-8")
    except UnicodeEncodeError:
        return False
    return True


def print_to_stderr(text: str) -> None:
    """Print a text to stderr; where that is closed or its disk is full, the status alone says how it went."""
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except (AttributeError, OSError, ValueError):
        discard_output(sys.stderr)


def discard_output(stream: Any) -> None:
    """Discard the buffer of a stream, which the interpreter would fail to write when it ends."""
    try:
        descriptor = stream.fileno()
    except (AttributeError, OSError, ValueError):
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)
