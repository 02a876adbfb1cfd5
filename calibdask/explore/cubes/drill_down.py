"""Drill-down at a point of the figure: distribution, cells ordered worst first, and one cell."""

import json
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import xarray as xr

from calibdask.explore.cancellation import CancelToken, LatestOnly, error_text, on_next_tick
from calibdask.explore.cubes.cell_contents import curve_note, numbers_at, plots_at, status_at
from calibdask.explore.cubes.figure import histogram
from calibdask.explore.cubes.picture import label_text
from calibdask.explore.cubes.reductions import Reductions, worst_first
from calibdask.explore.cubes.views import CubeView, labels_of
from calibdask.explore.downloads import downloads
from calibdask.explore.html_widgets import html_pane, html_table
from calibdask.markup import Html
from calibdask.plot.panels import pairs_of

_MOST_ROWS = 20_000
_PAGE = 10
# Numbers of a cell that are visible without unfolding them.
_FEW_NUMBERS = 15


class DrillDown:
    """The part of the page below the figure.

    Parameters
    ----------
    dataset : xarray.Dataset
    reductions : Reductions
        Of it.
    document : bokeh document or None
        Of the session.
    """

    def __init__(self, dataset: xr.Dataset, reductions: Reductions, document: Any) -> None:
        import panel as pn

        self._dataset, self._reductions = dataset, reductions
        self._document = document
        self._work, self._cell_work = LatestOnly(document), LatestOnly(document)
        self._view: CubeView | None = None
        self._table: Any = None
        # Labels as text, for the URL; never visible.
        self.point = pn.widgets.TextInput(label="point", visible=False)
        self.cell = pn.widgets.TextInput(label="cell", visible=False)
        self._head = html_pane("", sizing_mode="stretch_width")
        self._distribution = pn.Column(sizing_mode="stretch_width", styles=_HALF)
        self._row_table = pn.Column(sizing_mode="stretch_width", styles=_HALF)
        self._cell = pn.Column(sizing_mode="stretch_width")
        self._tabulator = self._made_table()
        pair = pn.Row(self._distribution, self._row_table, styles=_WRAP, sizing_mode="stretch_width")
        self.layout = pn.Column(
            self._head, pair, self._cell, self.point, self.cell, sizing_mode="stretch_width", visible=False
        )

    def _made_table(self) -> Any:
        """Made once: Bokeh warns of tables that are added later."""
        table = html_table(
            pagination="remote",
            page_size=_PAGE,
            show_index=False,
            disabled=True,
            selectable=1,
            layout="fit_data_stretch",
            sizing_mode="stretch_width",
            formatters={"value": {"type": "money", "precision": 5}},
            theme="simple",
            # The order is that of the heading.
            configuration={"columnDefaults": {"headerSort": False}},
        )
        table.on_click(lambda event: self._clicked(event.row))
        return table

    @property
    def at(self) -> dict[str, Any] | None:
        """The labels of the point that is open; None for none."""
        return self._labels(self.point.value)

    def settle(self, view: CubeView, shown: xr.Dataset) -> None:
        """A new view is shown: keep the point if the view has it, or else close."""
        self._view = view
        at = self.at
        if at is None or set(at) != set(view.kept) or any(at[dim] not in labels_of(shown, dim) for dim in at):
            self.point.value = self.cell.value = ""
            self.layout.visible = False
            return
        value = float(shown["value"].isel({dim: labels_of(shown, dim).index(label) for dim, label in at.items()}))
        self._open(view, at, value)

    def point_at(self, at: Mapping[str, Any]) -> None:
        """Keep a point in the URL; `settle` opens it."""
        self._work.cancel()
        self._cell_work.cancel()
        self.point.value, self.cell.value = _text(at), ""

    def fail(self, at: Mapping[str, Any], text: str) -> None:
        """Show a cell that has failed."""
        self.layout.visible = True
        self._head.object, self._distribution[:], self._row_table[:] = "", [], []
        self._cell[:] = [*self._of_cell(at), _pre(text)]

    def close(self) -> None:
        """Cancel running jobs."""
        self._work.close()
        self._cell_work.close()

    def _open(self, view: CubeView, at: dict[str, Any], value: float) -> None:
        where = " · ".join(label_text(label, dim) for dim, label in at.items())
        self._head.object = Html("<h3 style='margin:.8em 0 0'>Behind {}: {:.5g}</h3>").format(
            where or "the point", value
        ) + Html("<div style='color:var(--soft)'>{}</div>").format(view.text())
        self.layout.visible = True
        self._distribution[:], self._cell[:] = [_note("reading …")], []
        self._row_table[:] = [_note("reading …")] if view.steps else []
        self._work.start(
            lambda token: self._read(view, at, token),
            show=lambda values: self._show(view, value, *values),
            fail=lambda error: _show_error(self._distribution, error),
            report=lambda share: self._distribution.__setitem__(slice(None), [_note(f"reading: {share:.0%}")]),
        )

    def _read(self, view: CubeView, at: dict[str, Any], token: CancelToken) -> tuple[Any, Any]:
        rows = self._reductions.rows(view, at, token)
        within = rows.values[~np.isnan(rows.values)]
        if len(view.steps) < 2:
            return rows, within
        try:
            return rows, self._reductions.finite(view, at, token)
        except ValueError:
            return rows, within

    def _show(self, view: CubeView, value: float, rows: xr.DataArray, values: np.ndarray) -> None:

        if not view.steps:
            self._distribution[:] = []
            self._row_table[:] = []
            self._pick({})
            return
        if values.size:
            head = Html("<b>All {:,} values</b>: {}").format(values.size, view.quantity)
            plot = histogram(values, view.name, [("the point", value), ("their median", float(np.median(values)))])
            self._distribution[:] = [html_pane(head), _pane(plot)]
        else:
            self._distribution[:] = [_note("There are no values here.")]
        signed = view.reference is not None and view.reference.is_signed
        self._table = worst_first(rows, signed=signed)
        self._show_rows(view, len(self._table))

    def _show_rows(self, view: CubeView, number: int) -> None:
        """Show a table of the values that the last steps aggregate."""
        what = view.steps[0].text() if len(view.steps) > 1 else view.quantity
        more = f", the first {_MOST_ROWS:,}" if number > _MOST_ROWS else ""
        words = Html("<b>{:,} underlying values, worst first{}</b>: {}. Choose one to see its cell.")
        head = words.format(number, more, what)
        self._tabulator.param.update(value=self._table.head(_MOST_ROWS), page=1, selection=[])
        self._row_table[:] = [html_pane(head), self._tabulator]
        at = self._labels(self.cell.value)
        if at is not None:
            self._pick(at)

    def _clicked(self, row: int) -> None:
        names = [name for name in self._table.columns if name != "value"]
        at = {name: _plain(self._table[name].iloc[row]) for name in names}
        self.cell.value = _text(at)
        pick = partial(self._pick, self._labels(self.cell.value) or at)
        # The URL is updated before values are read.
        on_next_tick(self._document, pick)

    def _pick(self, row: dict[str, Any]) -> None:
        """Show one row: its own values, and what else the cube holds at its labels."""
        view, point = self._view, self.at or {}
        if view is None:
            return
        at = {**dict(view.at), **point, **row}
        self._cell[:] = [_note("reading …")]

        def read(token: CancelToken) -> tuple[Any, ...]:
            values = self._reductions.unaggregated(view, {**point, **row}, token) if len(view.steps) > 1 else None
            return values, plots_at(self._dataset, at), numbers_at(self._dataset, at)

        self._cell_work.start(
            read,
            show=lambda contents: self._show_cell(view, at, self._value(row), *contents),
            fail=lambda error: _show_error(self._cell, error),
        )

    def _value(self, row: Mapping[str, Any]) -> float | None:
        """The number of a row of the table."""
        if not row or self._table is None or not set(row) <= set(self._table.columns):
            return None
        same = np.logical_and.reduce([(self._table[dim] == label).to_numpy() for dim, label in row.items()])
        return float(self._table["value"].to_numpy()[same][0]) if same.any() else None

    def _show_cell(
        self,
        view: CubeView,
        at: dict[str, Any],
        value: float | None,
        values: xr.DataArray | None,
        plots: list[Any],
        numbers: list[dict[str, Any]],
    ) -> None:
        import panel as pn

        parts: list[Any] = []
        name = " of ".join(step.name for step in reversed(view.steps[:-1])) or view.name
        if values is not None and int(values.count()) > 1:
            finite = values.values[values.notnull().values]
            marks = [("median", float(np.median(finite)))]
            if value is not None and name != "median":
                marks.insert(0, (name, value))
            buttons = downloads("cell", {"values": lambda: _frame(values)})
            head = html_pane(Html("<b>Its {:,} values</b>: {}").format(finite.size, view.quantity))
            box = [head, _pane(histogram(finite, view.name, marks)), buttons]
            parts.append(pn.Column(*box, sizing_mode="stretch_width", styles=_HALF))
        if numbers:
            parts.append(pn.Column(_numbers(numbers), sizing_mode="stretch_width", styles=_HALF))
        drawn = [_wrapped(plot) for plot in plots]
        pair = [pn.Row(*parts, styles=_WRAP, sizing_mode="stretch_width")] if parts else []
        chosen = [] if value is None else [_note(f"{name} {value:.5g}, as chosen")]
        note = curve_note(self._dataset, plots)
        self._cell[:] = [*self._of_cell(at), *chosen, *drawn, *pair, *([_note(note)] if note else [])]

    def _of_cell(self, at: Mapping[str, Any]) -> list[Any]:

        where = " · ".join(label_text(label, dim) for dim, label in at.items())
        status = status_at(self._dataset, at)
        state = f" ({status})" if status not in ("", "done") else ""
        heading = Html("<h3 style='margin:.8em 0 .2em'>{}{}</h3>").format(where, state)
        return [html_pane(heading, sizing_mode="stretch_width")]

    def _labels(self, text: str | None) -> dict[str, Any] | None:
        """Labels out of the URL, where they are text; None if there are none such."""
        try:
            texts = json.loads(text) if text else None
            if not isinstance(texts, dict):
                return None
            known = {dim: {str(label): label for label in labels_of(self._dataset, dim)} for dim in texts}
            return {dim: known[dim][label] for dim, label in texts.items()}
        except (ValueError, KeyError, TypeError):
            return None


# Layouts add up the minimum widths of their items, even where these wrap: so these are given as styles.
_HALF = {"flex": "1 1 320px", "min-width": "min(280px, 100%)", "max-width": "100%"}
_WRAP = {"flex-wrap": "wrap", "gap": "12px"}


def _text(at: Mapping[str, Any]) -> str:
    return json.dumps({dim: str(label) for dim, label in at.items()}, ensure_ascii=False)


def _frame(values: xr.DataArray) -> Any:
    """Values with their labels, in the order of the cube."""
    return values.to_dataframe("value").reset_index().dropna(subset="value")


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) and value.dtype.kind not in "mM" else value


def _show_error(column: Any, error: Exception) -> None:
    column[:] = [_note(error_text(error))]


def _pane(plot: Any) -> Any:
    """A plot, whose axes are its own."""
    import panel as pn

    return pn.pane.HoloViews(plot, sizing_mode="stretch_width", linked_axes=False)


def _wrapped(layout: Any) -> Any:
    """Panels of a layout, the small plot of each beneath it, as many side by side as fit.

    Bokeh gives the figures of a grid no room if the grid is added to a page that is open already.
    """
    import panel as pn

    styles = {"flex": "0 0 auto", "max-width": "100%"}
    panels = [pn.Column(*map(_pane, pair), styles=styles) for pair in pairs_of(layout)]
    return pn.Row(*panels, styles={"flex-wrap": "wrap"}, sizing_mode="stretch_width")


def _note(text: str) -> Any:

    return html_pane(Html("<span style='color:var(--soft)'>{}</span>").format(text), sizing_mode="stretch_width")


def _pre(text: str) -> Any:

    return html_pane(Html("<pre style='white-space:pre-wrap'>{}</pre>").format(text), sizing_mode="stretch_width")


def _numbers(numbers: list[dict[str, Any]]) -> Any:
    """A small table, folded beyond a few lines."""
    lines = [
        Html(
            "<tr><td>{variable}</td><td style='color:var(--soft)'>{where}</td>"
            "<td style='text-align:right'>{value:.5g}</td></tr>"
        ).format(**number)
        for number in numbers
    ]
    tables = [
        Html("<table style='border-spacing:10px 1px;font-size:.92em'>{}</table>").format(Html().join(part))
        for part in (lines[:_FEW_NUMBERS], lines[_FEW_NUMBERS:])
    ]
    more = Html("<details><summary>{:,} more</summary>{}</details>").format(len(lines) - _FEW_NUMBERS, tables[1])
    folded = more if len(lines) > _FEW_NUMBERS else ""
    return html_pane(
        Html("<b>Other variables of the cell</b>{}{}").format(tables[0], folded), sizing_mode="stretch_width"
    )
