"""The numbers of a picture as a table under it, and the one legend of several panels."""

import numpy as np

from calibdask.explore.cubes.figure import COLORS, DASHES
from calibdask.explore.cubes.picture import Picture, label_text
from calibdask.markup import Html

# Columns beyond these are in the CSV file.
_MOST_COLUMNS = 24
_DASHES = {"solid": "none", "dashed": "6 3", "dotted": "2 3", "dotdash": "2 3 7 3"}
_STYLE = Html("""<style>
.cube-numbers { overflow-x: auto; } .cube-numbers table { border-collapse: collapse; font-size: 12.5px;
  font-variant-numeric: tabular-nums; }
.cube-numbers caption { text-align: left; font-weight: 600; padding: 6px 0 2px; }
.cube-numbers th, .cube-numbers td { text-align: right; padding: 2px 12px 2px 0; border-bottom: 1px solid var(--rule);
  white-space: nowrap; }
.cube-numbers th { font-weight: 600; } .cube-numbers tbody th { text-align: left; font-weight: 500; }
</style>""")


def number_table(picture: Picture) -> Html:
    """A line for each line of the picture, a column for each label along its x axis, as HTML.

    Examples
    --------
    >>> from calibdask.explore.cubes.picture import PictureLine, PicturePanel
    >>> lines = [PictureLine("plain", {}, np.array([0.25, np.nan]))]
    >>> picture = Picture([10, 100], "size", "error", False, False, [PicturePanel("", {}, lines)])
    >>> "<td>0.25</td><td>–</td>" in number_table(picture)
    True
    """
    columns = range(min(len(picture.x), _MOST_COLUMNS))
    names = [label_text(picture.x[column]) for column in columns]
    head = Html().join(Html("<th scope='col'>{}</th>").format(name) for name in names)
    several = len(picture.panels) > 1
    body = []
    for panel in picture.panels:
        for line in panel.lines:
            name = " · ".join(filter(None, (panel.title if several else "", line.label))) or "all"
            cells = Html().join(Html("<td>{}</td>").format(_number(float(line.value[column]))) for column in columns)
            body.append(Html("<tr><th scope='row'>{}</th>{}</tr>").format(name, cells))
    more = f" (the first {_MOST_COLUMNS} of {len(picture.x)})" if len(picture.x) > _MOST_COLUMNS else ""
    by = f", by {picture.x_name}{more}" if picture.x_name else ""
    table = Html("<table><caption>{}</caption><thead><tr><td></td>{}</tr></thead><tbody>{}</tbody></table>").format(
        f"{picture.y_name}{by}", head, Html().join(body)
    )
    frame = Html("{}<div class='cube-numbers' tabindex='0' role='region' aria-label='Numbers'>{}</div>")
    return frame.format(_STYLE, table)


def legend_html(picture: Picture) -> Html:
    """The names of the lines with their colours, once for all panels; nothing for a single panel, which has its own."""
    if len(picture.panels) < 2 or len(picture.panels[0].lines) < 2:
        return Html()
    items = Html().join(
        Html("<span style='white-space: nowrap'>{} {}</span>").format(_stroke(number), line.label)
        for number, line in enumerate(picture.panels[0].lines)
    )
    return Html("<div style='display: flex; flex-wrap: wrap; gap: 2px 16px'>{}</div>").format(items)


def _stroke(number: int) -> Html:
    """The look of a line, as `figure.drawn` draws it."""
    dash = _DASHES[DASHES[number // len(COLORS) % len(DASHES)]]
    return Html(
        "<svg width='24' height='8' aria-hidden='true'>"
        "<line x1='0' x2='24' y1='4' y2='4' stroke='{}' stroke-width='3' stroke-dasharray='{}'/></svg>"
    ).format(COLORS[number % len(COLORS)], dash)


def _number(value: float) -> str:
    return f"{value:.4g}" if np.isfinite(value) else "–"
