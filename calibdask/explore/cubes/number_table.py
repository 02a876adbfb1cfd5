"""The numbers of a picture as a table under it, and the one legend of several panels."""

from html import escape

import numpy as np

from calibdask.explore.cubes.figure import COLORS, DASHES
from calibdask.explore.cubes.picture import Picture, label_text

# Columns beyond these are in the CSV file.
_MOST_COLUMNS = 24
_DASHES = {"solid": "none", "dashed": "6 3", "dotted": "2 3", "dotdash": "2 3 7 3"}
_STYLE = """<style>
.cube-numbers { overflow-x: auto; } .cube-numbers table { border-collapse: collapse; font-size: 12.5px;
  font-variant-numeric: tabular-nums; }
.cube-numbers caption { text-align: left; font-weight: 600; padding: 6px 0 2px; }
.cube-numbers th, .cube-numbers td { text-align: right; padding: 2px 12px 2px 0; border-bottom: 1px solid var(--rule);
  white-space: nowrap; }
.cube-numbers th { font-weight: 600; } .cube-numbers tbody th { text-align: left; font-weight: 500; }
</style>"""


def number_table(picture: Picture) -> str:
    """A line for each line of the picture, a column for each label along its x axis, as HTML.

    Examples
    --------
    >>> from calibdask.explore.cubes.picture import Line, Panel
    >>> lines = [Line("plain", {}, np.array([0.25, np.nan]))]
    >>> picture = Picture([10, 100], "size", "error", False, False, [Panel("", {}, lines)])
    >>> "<td>0.25</td><td>–</td>" in number_table(picture)
    True
    """
    columns = range(min(len(picture.x), _MOST_COLUMNS))
    names = [label_text(picture.x[column]) for column in columns]
    head = "".join(f"<th scope='col'>{escape(name)}</th>" for name in names)
    several = len(picture.panels) > 1
    body = []
    for panel in picture.panels:
        for line in panel.lines:
            name = " · ".join(filter(None, (panel.title if several else "", line.label))) or "all"
            cells = "".join(f"<td>{_number(float(line.value[column]))}</td>" for column in columns)
            body.append(f"<tr><th scope='row'>{escape(name)}</th>{cells}</tr>")
    more = f" (the first {_MOST_COLUMNS} of {len(picture.x)})" if len(picture.x) > _MOST_COLUMNS else ""
    by = f", by {picture.x_name}{more}" if picture.x_name else ""
    caption = escape(f"{picture.y_name}{by}")
    table = f"<table><caption>{caption}</caption><thead><tr><td></td>{head}</tr></thead><tbody>{''.join(body)}</tbody>"
    return f"{_STYLE}<div class='cube-numbers' tabindex='0' role='region' aria-label='Numbers'>{table}</table></div>"


def legend_html(picture: Picture) -> str:
    """The names of the lines with their colours, once for all panels; nothing for a single panel, which has its own."""
    if len(picture.panels) < 2 or len(picture.panels[0].lines) < 2:
        return ""
    items = "".join(
        f"<span style='white-space: nowrap'>{_stroke(number)} {escape(line.label)}</span>"
        for number, line in enumerate(picture.panels[0].lines)
    )
    return f"<div style='display: flex; flex-wrap: wrap; gap: 2px 16px'>{items}</div>"


def _stroke(number: int) -> str:
    """The look of a line, as `figure.drawn` draws it."""
    dash = _DASHES[DASHES[number // len(COLORS) % len(DASHES)]]
    look = f"stroke='{COLORS[number % len(COLORS)]}' stroke-width='3' stroke-dasharray='{dash}'"
    return f"<svg width='24' height='8' aria-hidden='true'><line x1='0' x2='24' y1='4' y2='4' {look}/></svg>"


def _number(value: float) -> str:
    return f"{value:.4g}" if np.isfinite(value) else "–"
