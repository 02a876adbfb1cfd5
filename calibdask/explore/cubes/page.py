"""The page of a cube: any of its variables along any of its dimensions, down to single cells."""

from functools import partial
from html import escape
from typing import Any

import xarray as xr

from calibdask.explore.cubes.cells import failures
from calibdask.explore.cubes.controls import Controls
from calibdask.explore.cubes.drawing import Panel, Picture, Scales, picture_of, worded
from calibdask.explore.cubes.drill import Drill
from calibdask.explore.cubes.figure import drawn
from calibdask.explore.cubes.reductions import FEW_CELLS, Reductions
from calibdask.explore.cubes.views import View, cells_told
from calibdask.explore.exports import downloads
from calibdask.explore.latest import Latest, error_words, soon
from calibdask.explore.link import remember
from calibdask.explore.serving import Page
from calibdask.study.reading import cell_dims

__all__ = ["cube_page"]


def cube_page(cube: xr.Dataset, name: str, store: str | None) -> Page:
    """The page of a cube, or of any other numbers on named axes, for one session.

    Parameters
    ----------
    cube : xarray.Dataset
    name : str
        Heading.
    store : str or None
        Where the cube is; None for what is no cube of a study.
    """
    return _CubePage(cube, name, store).page()


_CHOOSE = "choose one"
# As many panels side by side as fit, all of the same width.
_GRID = {"display": "grid", "grid-template-columns": "repeat(auto-fit, minmax(min(100%, 340px), 1fr))"}


class _CubePage:
    """The state of one session."""

    def __init__(self, cube: xr.Dataset, name: str, store: str | None) -> None:
        import panel as pn

        self._cube, self._name, self._store = cube, name, store
        self._document = pn.state.curdoc
        self._reductions = Reductions(cube)
        self._work, self._states = Latest(self._document), Latest(self._document)
        self._drill = Drill(cube, self._reductions, self._document)
        self._controls = Controls(cube, self._changed)
        self._is_waiting = False
        # Panels that are drawn, and the data of their marks.
        self._rings: list[tuple[Picture, Panel, Any]] = []
        self._view: View | None = None
        self._shown: xr.Dataset | None = None
        self._cells = pn.Column(sizing_mode="stretch_width")
        self._words = pn.pane.HTML("", sizing_mode="stretch_width", css_classes=["what"])
        self._notes = pn.pane.HTML("", sizing_mode="stretch_width", css_classes=["notes"])
        self._progress = pn.indicators.Progress(value=0, max=100, sizing_mode="stretch_width", height=6, visible=False)
        self._figure = pn.Column(sizing_mode="stretch_width")

    def page(self) -> Page:
        """The page, with its first view on the way."""
        import panel as pn

        side = self._controls.side
        remember({**self._controls.widgets, "point": self._drill.point, "cell": self._drill.cell})
        if self._document is None:
            self._begin()
        else:
            # What is put on a page before it has loaded may be lost.
            pn.state.onload(self._begin)
            pn.state.on_session_destroyed(lambda _: self._close())
        files = downloads(self._name.partition(".")[0], {"figure": self._table}, self._figure)
        hint = "A click on a name in the legend mutes its line; one on a point shows what is behind it."
        main = [
            self._cells,
            self._words,
            self._progress,
            self._figure,
            self._notes,
            pn.pane.HTML(f"<span style='color:#555'>{hint}</span>", sizing_mode="stretch_width"),
            files,
            self._drill.layout,
        ]
        return Page(self._name, side, main)

    def _begin(self) -> None:
        if cell_dims(self._cube):
            self._tell_cells()
        self._refresh()

    def _tell_cells(self) -> None:
        """Say how far the cube is, and what has failed in it."""
        cube, store = self._cube, self._store
        self._states.start(
            lambda _: (cells_told(cube), failures(cube, store)),
            show=lambda found: self._show_cells(*found),
            fail=lambda error: self._show_cells(str(error), []),
            # A chunk for each task: states of a large cube take a while to read.
            is_quick=cube["status"].size <= FEW_CELLS,
        )

    def _show_cells(self, told: str, broken: list[tuple[dict[str, Any], str]]) -> None:
        import panel as pn

        study = str(self._cube.attrs.get("study", ""))
        words: list[Any] = [pn.pane.HTML(f"<span class='cells'>{escape(study)}: {escape(told)}</span>", margin=(4, 10))]
        if not told.startswith("all "):
            again = pn.widgets.Button(label="read again", variant="outline", height=28, margin=(0, 5))
            again.js_on_click(code="window.location.reload()")
            words.append(again)
        self._cells[:] = [pn.Row(*words), *([self._broken(broken)] if broken else [])]

    def _broken(self, broken: list[tuple[dict[str, Any], str]]) -> Any:
        """Cells that have failed, to choose from."""
        import panel as pn

        cells = {" · ".join(worded(label, dim) for dim, label in at.items()): (at, text) for at, text in broken}
        choice = pn.widgets.Select(label="Cells that have failed", options=[_CHOOSE, *cells], width=300)

        def chosen(event: Any) -> None:
            if event.new in cells:
                self._drill.fail(*cells[event.new])

        choice.param.watch(chosen, "value")
        return choice

    def _changed(self) -> None:
        """Something has been chosen: several changes at once make one new view."""
        if not self._is_waiting:
            self._is_waiting = True
            soon(self._document, self._refresh)

    def _refresh(self) -> None:
        self._is_waiting = False
        view = self._controls.view()
        # Whatever is on its way is of another choice.
        self._work.stop()
        self._words.object = f"<span style='font-size:1.05em'>{escape(view.words())}</span>"
        if view == self._view:
            self._draw()
            return
        try:
            is_quick = self._reductions.is_at_hand(view)
        except ValueError as error:
            self._fail(error)
            return
        self._figure.loading, self._progress.value, self._progress.visible = not is_quick, 0, not is_quick
        self._work.start(
            lambda watch: self._reductions.shown(view, watch),
            show=lambda shown: self._show(view, shown),
            fail=self._fail,
            tell=lambda share: self._progress.param.update(value=round(100 * share)),
            is_quick=is_quick,
        )

    def _show(self, view: View, shown: xr.Dataset) -> None:
        self._view, self._shown = view, shown
        self._drill.settle(view, shown)
        self._draw()

    def _fail(self, error: Exception) -> None:
        self._view = self._shown = None
        self._figure.loading, self._progress.visible = False, False
        self._figure[:] = []
        self._notes.object = f"<b>{escape(error_words(error))}</b>"

    def _draw(self) -> None:
        if self._view is None or self._shown is None:
            return
        self._figure.loading, self._progress.visible = False, False
        scales = self._controls.scales
        chosen = Scales(scales["x"].value, scales["y"].value, self._controls.same.value)
        picture = picture_of(self._view, self._shown, chosen)
        self._notes.object = "<br>".join(map(escape, picture.notes))
        self._rings = []
        self._figure[:] = [self._panels(picture, same=chosen.same)]
        self._mark()

    def _mark(self) -> None:
        """A ring around the point that is looked at."""
        at = self._drill.at
        for picture, panel, ring in self._rings:
            place = None if at is None or set(at) != set(self._kept) else picture.place(panel, at)
            ring.data = {"x": [], "y": []} if place is None else {"x": [place[0]], "y": [place[1]]}

    @property
    def _kept(self) -> tuple[str, ...]:
        return self._view.kept if self._view else ()

    def _panels(self, picture: Picture, *, same: bool) -> Any:
        """All panels, side by side as far as there is room."""
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

    def _listening(self, picture: Picture, panel: Panel, *, same: bool) -> Any:
        """The panel, whose points can be tapped."""
        from bokeh.models import ColumnDataSource
        from holoviews.streams import Tap

        ring = ColumnDataSource({"x": [], "y": []})
        self._rings.append((picture, panel, ring))
        plot = drawn(picture, panel, same=same, ring=ring)

        def tapped(x: Any, y: Any) -> None:
            if x is None or y is None or self._view is None or self._shown is None:
                return
            at = picture.nearest(panel, x, y)
            if at is not None:
                # Streams are told without the lock of the document.
                soon(self._document, partial(self._go, self._view, self._shown, at))

        tap = Tap(source=plot)
        tap.add_subscriber(tapped)
        return plot

    def _go(self, view: View, shown: xr.Dataset, at: dict[str, Any]) -> None:
        self._drill.point_at(at)
        self._mark()
        # The address is on its way before values are read.
        soon(self._document, partial(self._open, view, shown))

    def _open(self, view: View, shown: xr.Dataset) -> None:
        if self._shown is shown:
            self._drill.settle(view, shown)

    def _table(self) -> Any:
        """What the figure shows, as a table."""
        if self._shown is None:
            raise ValueError("There is no figure yet.")
        shown = self._shown
        return (shown if shown.sizes else shown.expand_dims("all")).to_dataframe().reset_index()

    def _close(self) -> None:
        self._work.close()
        self._states.close()
        self._drill.close()
