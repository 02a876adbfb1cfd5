"""Small texts of the page of a summary: what is missing, what to be aware of, and marks of selections."""

from html import escape
from typing import Any

import xarray as xr

from calibdask.explore.summaries.page_metrics import cautions


def left_out(names: list[str]) -> str:
    """What has no interval on the page."""
    if not names:
        return ""
    metrics = " and ".join(name.replace("_", " ") for name in names)
    return f" With so many classes those of {metrics} take too long for a page; calibdask.evaluate gives them."


def missing_lines(reasons: dict[str, str]) -> str:
    """The metrics that are not shown, and why."""
    return "".join(
        f"<div style='color: var(--caution)'>Not shown: {escape(reason)}</div>" for reason in reasons.values()
    )


def small(text: str) -> str:
    """A note."""
    return f"<small style='color: var(--soft)'>{text}</small>"


def caution_lines(results: list[xr.Dataset]) -> str:
    """What to be aware of."""
    several = len(results) > 1
    lines = [
        f"<div style='color: var(--caution)'>⚠ {f'{letter}: ' if several else ''}{escape(message)}</div>"
        for letter, result in zip("AB", results, strict=False)
        for message in cautions(result)
    ]
    return "".join(lines)


def dot(color: str) -> str:
    """The mark of a selection."""
    return f"<span style='color: {color}'>●</span>"


def heading(letter: str, color: str) -> Any:
    """Over the widgets of a selection."""
    import panel as pn

    return pn.pane.HTML(f"{dot(color)} <b>Selection {letter}</b>", margin=(8, 10, 0, 10))
