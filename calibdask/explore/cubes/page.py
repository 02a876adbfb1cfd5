"""The page of a cube: any of its variables along any of its dimensions, down to single cells."""

from functools import partial
from typing import Any

import numpy as np
import xarray as xr

from calibdask.explore.cancellation import LatestOnly, error_text, on_next_tick
from calibdask.explore.cubes.cell_contents import failures
from calibdask.explore.cubes.controls import Controls
from calibdask.explore.cubes.drill_down import DrillDown
from calibdask.explore.cubes.figure import COLORS, DASHES, drawn
from calibdask.explore.cubes.picture import Picture, PicturePanel, Scales, label_text, picture_of
from calibdask.explore.cubes.reductions import FEW_CELLS, Reductions
from calibdask.explore.cubes.views import CubeView, is_complete, progress_text
from calibdask.explore.downloads import downloads
from calibdask.explore.html_widgets import html_pane
from calibdask.explore.server import PageContent
from calibdask.explore.url_state import bind_to_url
from calibdask.markup import Html
from calibdask.study.reading import cell_dims

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


def cube_page(cube: xr.Dataset, name: str, store: str | None) -> PageContent:
    """The page of a cube, or of any other numbers on named axes, for one session.

    Parameters
    ----------
    cube : xarray.Dataset
    name : str
        Heading.
    store : str or None
        URL of the cube; None for what is not the cube of a study.
    """
    return CubePage(cube, name, store).page()


_CHOOSE = "choose one"
# As many panels side by side as fit, all of the same width.
_GRID = {"display": "grid", "grid-template-columns": "repeat(auto-fit, minmax(min(100%, 340px), 1fr))"}


class CubePage:
    """The state of one session; its widgets and panes are attributes."""

    def __init__(self, cube: xr.Dataset, name: str, store: str | None) -> None:
        import panel as pn

        self._cube, self._name, self._store = cube, name, store
        self._document = pn.state.curdoc
        self.reductions = Reductions(cube)
        self.work, self._states = LatestOnly(self._document), LatestOnly(self._document)
        self._drill = DrillDown(cube, self.reductions, self._document)
        self.controls = Controls(cube, self._changed)
        self._is_waiting = False
        # The panels, and the data of the ring that marks a point in each.
        self._rings: list[tuple[Picture, PicturePanel, Any]] = []
        self.view: CubeView | None = None
        self._shown: xr.Dataset | None = None
        # There from the start: what is found out later changes texts only, as in the heading, and adds no widgets.
        self._done = html_pane("", margin=(4, 10))
        self._again = pn.widgets.Button(label="reload", variant="outline", height=28, margin=(0, 5), visible=False)
        self._again.js_on_click(code="window.location.reload()")
        self._failed = pn.widgets.Select(label="Failed cells", options=[_CHOOSE], width=300, visible=False)
        self._failed.param.watch(self._open_failed, "value")
        self._failures: dict[str, tuple[dict[str, Any], str]] = {}
        rows = [pn.Row(self._done, self._again), self._failed] if cell_dims(cube) else []
        self._cells = pn.Column(*rows, sizing_mode="stretch_width")
        self.heading = html_pane("", sizing_mode="stretch_width", css_classes=["what"])
        self._notes = html_pane("", sizing_mode="stretch_width", css_classes=["notes"])
        self._progress = pn.indicators.Progress(value=0, max=100, sizing_mode="stretch_width", height=6, visible=False)
        self.figure = pn.Column(sizing_mode="stretch_width")
        self._legend, self.table = (html_pane("", sizing_mode="stretch_width") for _ in range(2))

    def page(self) -> PageContent:
        """The page, with its first view on the way."""
        import panel as pn

        side = self.controls.side
        bind_to_url({**self.controls.widgets, "point": self._drill.point, "cell": self._drill.cell})
        if self._document is None:
            self._begin()
        else:
            # What is put on a page before it has loaded may be lost.
            pn.state.onload(self._begin)
            pn.state.on_session_destroyed(lambda _: self._close())
        buttons = downloads(self._name.partition(".")[0], {"figure": self._table}, self.figure)
        hint = "Click a point for details; click a name in a legend to hide its line."
        main = [
            self._cells,
            self.heading,
            self._progress,
            self._legend,
            self.figure,
            self._notes,
            html_pane(Html("<span style='color:var(--soft)'>{}</span>").format(hint), sizing_mode="stretch_width"),
            self.table,
            buttons,
            self._drill.layout,
        ]
        return PageContent(self._name, side, main)

    def _begin(self) -> None:
        if cell_dims(self._cube):
            self._report_cells()
        self._refresh()

    def _report_cells(self) -> None:
        """Show how many cells of the cube are done, and which have failed."""
        cube, store = self._cube, self._store
        self._states.start(
            lambda _: (progress_text(cube), is_complete(cube), failures(cube, store)),
            show=lambda state: self._show_cells(*state),
            fail=lambda error: self._show_cells(str(error), False, []),
            # A chunk for each task: the states of a large cube take a while to read.
            is_quick=cube["status"].size <= FEW_CELLS,
        )

    def _show_cells(self, progress: str, complete: bool, failed: list[tuple[dict[str, Any], str]]) -> None:
        study = str(self._cube.attrs.get("study", ""))
        self._done.object = Html("<span class='cells'>{}: {}</span>").format(study, progress)
        self._again.visible = not complete
        self._failures = {
            " · ".join(label_text(label, dim) for dim, label in at.items()): (at, text) for at, text in failed
        }
        self._failed.param.update(options=[_CHOOSE, *self._failures], visible=bool(failed))

    def _open_failed(self, event: Any) -> None:
        """Show the error of a cell that was chosen."""
        if event.new in self._failures:
            self._drill.fail(*self._failures[event.new])

    def _changed(self) -> None:
        """A choice has changed: several changes at once make one new view."""
        if not self._is_waiting:
            self._is_waiting = True
            on_next_tick(self._document, self._refresh)

    def _refresh(self) -> None:
        self._is_waiting = False
        view = self.controls.view()
        # What is being computed belongs to another choice.
        self.work.cancel()
        self.heading.object = Html("<span style='font-size:1.05em'>{}</span>").format(view.text())
        if view == self.view:
            self._draw()
            return
        try:
            is_quick = self.reductions.is_at_hand(view)
        except ValueError as error:
            self._fail(error)
            return
        self.figure.loading, self._progress.value, self._progress.visible = not is_quick, 0, not is_quick
        self.work.start(
            lambda token: self.reductions.values_of(view, token),
            show=lambda shown: self._show(view, shown),
            fail=self._fail,
            report=lambda share: self._progress.param.update(value=round(100 * share)),
            is_quick=is_quick,
        )

    def _show(self, view: CubeView, shown: xr.Dataset) -> None:
        self.view, self._shown = view, shown
        self._drill.settle(view, shown)
        self._draw()

    def _fail(self, error: Exception) -> None:
        self.view = self._shown = None
        self.figure.loading, self._progress.visible = False, False
        self.figure[:] = []
        self._legend.object = self.table.object = ""
        self._notes.object = Html("<b>{}</b>").format(error_text(error))

    def _draw(self) -> None:
        if self.view is None or self._shown is None:
            return
        self.figure.loading, self._progress.visible = False, False
        scales = self.controls.scales
        chosen = Scales(scales["x"].value, scales["y"].value, self.controls.same.value)
        picture = picture_of(self.view, self._shown, chosen)
        self._notes.object = Html("<br>").join(picture.notes)
        self._legend.object, self.table.object = legend_html(picture), number_table(picture)
        self._rings = []
        self.figure[:] = [self._panels(picture, same=chosen.same)]

    def _mark(self) -> None:
        """Mark the point that is open by a ring."""
        for picture, panel, ring in self._rings:
            data = self._ringed(picture, panel)
            if ring.data != data:
                ring.data = data

    def _ringed(self, picture: Picture, panel: PicturePanel) -> dict[str, Any]:
        """Where the ring of a panel is: at the point that is open, or nowhere."""
        at, kept = self._drill.at, self.view.kept if self.view else ()
        point = None if at is None or set(at) != set(kept) else picture.position(panel, at)
        return {"x": [], "y": []} if point is None else {"x": [point[0]], "y": [point[1]]}

    def _panels(self, picture: Picture, *, same: bool) -> Any:
        """All panels, side by side where there is room."""
        import panel as pn

        panes = [
            pn.pane.HoloViews(
                self._listening(picture, panel, same=same),
                sizing_mode="stretch_width",
                styles={"min-width": "0"},
                margin=(0, 8, 8, 0),
                linked_axes=False,
            )
            for panel in picture.panels
        ]
        return pn.Row(*panes, sizing_mode="stretch_width", styles=_GRID)

    def _listening(self, picture: Picture, panel: PicturePanel, *, same: bool) -> Any:
        """The panel, whose points can be tapped."""
        from bokeh.models import ColumnDataSource
        from holoviews.streams import Tap

        # With its point: a change may overtake the message that puts the figure on the page.
        ring = ColumnDataSource(self._ringed(picture, panel))
        self._rings.append((picture, panel, ring))
        plot = drawn(picture, panel, same=same, ring=ring)

        def tapped(x: Any, y: Any) -> None:
            if x is None or y is None or self.view is None or self._shown is None:
                return
            at = picture.nearest(panel, x, y)
            if at is not None:
                # Streams are called without the lock of the document.
                on_next_tick(self._document, partial(self._go, self.view, self._shown, at))

        tap = Tap(source=plot)
        tap.add_subscriber(tapped)
        return plot

    def _go(self, view: CubeView, shown: xr.Dataset, at: dict[str, Any]) -> None:
        self._drill.point_at(at)
        self._mark()
        # The URL is updated before values are read.
        on_next_tick(self._document, partial(self._open, view, shown))

    def _open(self, view: CubeView, shown: xr.Dataset) -> None:
        if self._shown is shown:
            self._drill.settle(view, shown)

    def _table(self) -> Any:
        """The numbers of the figure as a table."""
        if self._shown is None:
            raise ValueError("There is no figure yet.")
        shown = self._shown
        return (shown if shown.sizes else shown.expand_dims("all")).to_dataframe().reset_index()

    def _close(self) -> None:
        self.work.close()
        self._states.close()
        self._drill.close()
