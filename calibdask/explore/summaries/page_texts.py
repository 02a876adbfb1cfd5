"""Short texts of the page of a summary: missing numbers, warnings, and labels of selections."""

from typing import Any

import xarray as xr

from calibdask.explore.html_widgets import html_pane
from calibdask.explore.summaries.page_metrics import cautions
from calibdask.markup import Html


def left_out(names: list[str]) -> str:
    """Names of metrics without an interval on the page."""
    if not names:
        return ""
    metrics = " and ".join(name.replace("_", " ") for name in names)
    return f" With this many classes, the intervals of {metrics} take too long for this page; use calibdask.evaluate."


def missing_lines(reasons: dict[str, str]) -> Html:
    """The metrics that are not shown, and why."""
    line = Html("<div style='color: var(--caution)'>Not shown: {}</div>")
    return Html().join(map(line.format, reasons.values()))


def small(text: str) -> Html:
    """A note."""
    return Html("<small style='color: var(--soft)'>{}</small>").format(text)


# Closed, it is a line high whatever there is to say: what is below stays where it is from one selection to the next.
CAUTION_STYLE = """
details { color: var(--caution); font-size: 13px; } p { margin: 2px 0 2px 1.1em; } .none { color: var(--soft); }
summary, .none { height: 1.5em; line-height: 1.5em; overflow: hidden; white-space: nowrap; text-overflow: ellipsis;
  cursor: pointer; margin: 0; font-size: 13px; }
details[open] summary { white-space: normal; height: auto; }
"""


def caution_lines(results: list[xr.Dataset]) -> Html:
    """Warnings: the first one and their number, expandable."""
    several = len(results) > 1
    words = [
        f"{f'{letter}: ' if several else ''}{message}"
        for letter, result in zip("AB", results, strict=False)
        for message in cautions(result)
    ]
    if not words:
        return Html("<p class='none'>No warnings</p>")
    first, *others = words
    count = f"{len(words)} warnings: " if others else ""
    below = Html().join(map(Html("<p>⚠ {}</p>").format, others))
    return Html("<details><summary>⚠ {}{}</summary>{}</details>").format(count, first, below)


# What an interval holds for, in captions.
ALONE = "this selection alone"
NOTE = (
    "Values, intervals of binned errors and the pointwise band are shown at once; the "
    "intervals of smoothed errors follow. All intervals of diagrams and numbers: 95 %, "
    f"{ALONE}, 200 replicates, as calibdask.evaluate gives them."
)
SHARED = (
    " Intervals of differences assume that the selections share no rows; if they do, or are models of the same rows, "
    "the intervals are conservative."
)


def simultaneous(cells: int, what: str = "cells") -> str:
    """Coverage of intervals that are adjusted for their number.

    Examples
    --------
    >>> simultaneous(180), simultaneous(1)
    ('simultaneous over 180 cells', 'this selection alone')
    """
    return f"simultaneous over {cells:,} {what}" if cells > 1 else ALONE


def dot(color: str) -> Html:
    """The mark of a selection."""
    return Html("<span style='color: {}'>●</span>").format(color)


def heading(letter: str, color: str) -> Any:
    """Over the widgets of a selection."""
    return html_pane(Html("{} <b>Selection {}</b>").format(dot(color), letter), margin=(8, 10, 0, 10))
