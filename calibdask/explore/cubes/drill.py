"""What stands behind a point of the figure: its distribution, its cells worst first, and one of these cells."""

import json
from collections.abc import Mapping
from functools import partial
from html import escape
from typing import Any

import numpy as np
import xarray as xr

from calibdask.explore.cubes.cells import numbers_at, pictures_at, status_at, told_of_curves
from calibdask.explore.cubes.drawing import worded
from calibdask.explore.cubes.figure import histogram
from calibdask.explore.cubes.reductions import Reductions, worst_first
from calibdask.explore.cubes.views import View, labels_of
from calibdask.explore.exports import downloads
from calibdask.explore.latest import Latest, Watch, error_words, soon
from calibdask.plot.panels import pairs_of

__all__ = ["Drill"]

_MOST_ROWS = 20_000
_PAGE = 10
# Numbers of a cell that are seen without unfolding them.
_FEW_NUMBERS = 15


class Drill:
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
        self._work, self._cell_work = Latest(document), Latest(document)
        self._view: View | None = None
        self._table: Any = None
        # Texts of labels, for the address; never seen.
        self.point = pn.widgets.TextInput(label="point", visible=False)
        self.cell = pn.widgets.TextInput(label="cell", visible=False)
        self._head = pn.pane.HTML("", sizing_mode="stretch_width")
        self._spread = pn.Column(sizing_mode="stretch_width", styles=_HALF)
        self._rows = pn.Column(sizing_mode="stretch_width", styles=_HALF)
        self._one = pn.Column(sizing_mode="stretch_width")
        self._tabulator = self._made_table()
        pair = pn.Row(self._spread, self._rows, styles=_WRAP, sizing_mode="stretch_width")
        self.layout = pn.Column(
            self._head, pair, self._one, self.point, self.cell, sizing_mode="stretch_width", visible=False
        )

    def _made_table(self) -> Any:
        """Made once: Bokeh warns of tables that come later."""
        import panel as pn

        table = pn.widgets.Tabulator(
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

    def settle(self, view: View, shown: xr.Dataset) -> None:
        """A new view is shown: stay at the point if it has it, or else close."""
        self._view = view
        at = self.at
        if at is None or set(at) != set(view.kept) or any(at[dim] not in labels_of(shown, dim) for dim in at):
            self.point.value = self.cell.value = ""
            self.layout.visible = False
            return
        value = float(shown["value"].isel({dim: labels_of(shown, dim).index(label) for dim, label in at.items()}))
        self._open(view, at, value)

    def point_at(self, at: Mapping[str, Any]) -> None:
        """Keep a point in the address; `settle` opens it."""
        self._work.stop()
        self._cell_work.stop()
        self.point.value, self.cell.value = _text(at), ""

    def fail(self, at: Mapping[str, Any], text: str) -> None:
        """Show a cell that has failed."""
        self.layout.visible = True
        self._head.object, self._spread[:], self._rows[:] = "", [], []
        self._one[:] = [*self._of_cell(at), _pre(text)]

    def close(self) -> None:
        """Call off what runs."""
        self._work.close()
        self._cell_work.close()

    def _open(self, view: View, at: dict[str, Any], value: float) -> None:
        where = " · ".join(worded(label, dim) for dim, label in at.items())
        self._head.object = (
            f"<h3 style='margin:.8em 0 0'>Behind {escape(where) or 'the point'}: {value:.5g}</h3>"
            f"<div style='color:#555'>{escape(view.words())}</div>"
        )
        self.layout.visible = True
        self._spread[:], self._one[:] = [_note("reading ...")], []
        self._rows[:] = [_note("reading ...")] if view.steps else []
        self._work.start(
            lambda watch: self._read(view, at, watch),
            show=lambda found: self._show(view, value, *found),
            fail=lambda error: self._told(self._spread, error),
            tell=lambda share: self._spread.__setitem__(slice(None), [_note(f"reading: {share:.0%}")]),
        )

    def _read(self, view: View, at: dict[str, Any], watch: Watch) -> tuple[Any, Any]:
        rows = self._reductions.rows(view, at, watch)
        within = rows.values[~np.isnan(rows.values)]
        if len(view.steps) < 2:
            return rows, within
        try:
            return rows, self._reductions.raw(view, at, watch)
        except ValueError:
            return rows, within

    def _show(self, view: View, value: float, rows: xr.DataArray, raw: np.ndarray) -> None:
        import panel as pn

        if not view.steps:
            self._spread[:] = []
            self._rows[:] = []
            self._pick({})
            return
        if raw.size:
            head = f"<b>All {raw.size:,} values</b>: {escape(view.quantity)}"
            picture = histogram(raw, view.name, [("the point", value), ("their median", float(np.median(raw)))])
            self._spread[:] = [pn.pane.HTML(head), _pane(picture)]
        else:
            self._spread[:] = [_note("There are no values here.")]
        signed = view.reference is not None and view.reference.is_signed
        self._table = worst_first(rows, signed=signed)
        self._list(view, len(self._table))

    def _list(self, view: View, number: int) -> None:
        """A table of what the last steps aggregate."""
        import panel as pn

        word = view.steps[0].words() if len(view.steps) > 1 else view.quantity
        more = f", the first {_MOST_ROWS:,}" if number > _MOST_ROWS else ""
        head = f"<b>{number:,} values behind it, worst first{more}</b>: {escape(word)}. Choose one to see its cell."
        self._tabulator.param.update(value=self._table.head(_MOST_ROWS), page=1, selection=[])
        self._rows[:] = [pn.pane.HTML(head), self._tabulator]
        at = self._labels(self.cell.value)
        if at is not None:
            self._pick(at)

    def _clicked(self, row: int) -> None:
        names = [name for name in self._table.columns if name != "value"]
        at = {name: _plain(self._table[name].iloc[row]) for name in names}
        self.cell.value = _text(at)
        pick = partial(self._pick, self._labels(self.cell.value) or at)
        # The address is on its way before values are read.
        soon(self._document, pick)

    def _pick(self, row: dict[str, Any]) -> None:
        """Show one row: its own values, and what else the cube holds there."""
        view, point = self._view, self.at or {}
        if view is None:
            return
        at = {**dict(view.at), **point, **row}
        self._one[:] = [_note("reading ...")]

        def read(watch: Watch) -> tuple[Any, ...]:
            each = self._reductions.each(view, {**point, **row}, watch) if len(view.steps) > 1 else None
            return each, pictures_at(self._dataset, at), numbers_at(self._dataset, at)

        self._cell_work.start(
            read,
            show=lambda found: self._show_cell(view, at, self._value(row), *found),
            fail=lambda error: self._told(self._one, error),
        )

    def _value(self, row: Mapping[str, Any]) -> float | None:
        """The number of a row of the table."""
        if not row or self._table is None or not set(row) <= set(self._table.columns):
            return None
        same = np.logical_and.reduce([(self._table[dim] == label).to_numpy() for dim, label in row.items()])
        return float(self._table["value"].to_numpy()[same][0]) if same.any() else None

    def _show_cell(
        self,
        view: View,
        at: dict[str, Any],
        value: float | None,
        each: xr.DataArray | None,
        pictures: list[Any],
        numbers: list[dict[str, Any]],
    ) -> None:
        import panel as pn

        parts: list[Any] = []
        name = " of ".join(step.name for step in reversed(view.steps[:-1])) or view.name
        if each is not None and int(each.count()) > 1:
            raw = each.values[each.notnull().values]
            marks = [("median", float(np.median(raw)))]
            if value is not None and name != "median":
                marks.insert(0, (name, value))
            files = downloads("cell", {"values": lambda: _frame(each)})
            head = pn.pane.HTML(f"<b>Its {raw.size:,} values</b>: {escape(view.quantity)}")
            box = [head, _pane(histogram(raw, view.name, marks)), files]
            parts.append(pn.Column(*box, sizing_mode="stretch_width", styles=_HALF))
        if numbers:
            parts.append(pn.Column(_numbers(numbers), sizing_mode="stretch_width", styles=_HALF))
        drawn = [_wrapped(each) for each in pictures]
        pair = [pn.Row(*parts, styles=_WRAP, sizing_mode="stretch_width")] if parts else []
        chosen = [] if value is None else [_note(f"{name} {value:.5g}, as chosen")]
        told = told_of_curves(self._dataset, pictures)
        self._one[:] = [*self._of_cell(at), *chosen, *drawn, *pair, *([_note(told)] if told else [])]

    def _of_cell(self, at: Mapping[str, Any]) -> list[Any]:
        import panel as pn

        where = escape(" · ".join(worded(label, dim) for dim, label in at.items()))
        status = status_at(self._dataset, at)
        words = f"<h3 style='margin:.8em 0 .2em'>{where}{f' ({status})' if status not in ('', 'done') else ''}</h3>"
        return [pn.pane.HTML(words, sizing_mode="stretch_width")]

    def _told(self, place: Any, error: Exception) -> None:
        place[:] = [_note(error_words(error))]

    def _labels(self, text: str | None) -> dict[str, Any] | None:
        """Labels by their texts, as they stand in the address; None if there are none such."""
        try:
            asked = json.loads(text) if text else None
            if not isinstance(asked, dict):
                return None
            known = {dim: {str(label): label for label in labels_of(self._dataset, dim)} for dim in asked}
            return {dim: known[dim][label] for dim, label in asked.items()}
        except (ValueError, KeyError, TypeError):
            return None


# Layouts add up the least widths of what they hold, even of what wraps: so these are given as styles.
_HALF = {"flex": "1 1 320px", "min-width": "min(280px, 100%)", "max-width": "100%"}
_WRAP = {"flex-wrap": "wrap", "gap": "12px"}


def _text(at: Mapping[str, Any]) -> str:
    return json.dumps({dim: str(label) for dim, label in at.items()}, ensure_ascii=False)


def _frame(values: xr.DataArray) -> Any:
    """Values with their labels, in the order of the cube."""
    return values.to_dataframe("value").reset_index().dropna(subset="value")


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) and value.dtype.kind not in "mM" else value


def _pane(picture: Any) -> Any:
    """A picture, whose axes are its own."""
    import panel as pn

    return pn.pane.HoloViews(picture, sizing_mode="stretch_width", linked_axes=False)


def _wrapped(layout: Any) -> Any:
    """Panels of a layout, the small picture of each beneath it, as many side by side as fit.

    Bokeh gives the figures of a grid no room if the grid comes to a page that is there already.
    """
    import panel as pn

    styles = {"flex": "0 0 auto", "max-width": "100%"}
    panels = [pn.Column(*map(_pane, pair), styles=styles) for pair in pairs_of(layout)]
    return pn.Row(*panels, styles={"flex-wrap": "wrap"}, sizing_mode="stretch_width")


def _note(words: str) -> Any:
    import panel as pn

    return pn.pane.HTML(f"<span style='color:#555'>{escape(words)}</span>", sizing_mode="stretch_width")


def _pre(text: str) -> Any:
    import panel as pn

    return pn.pane.HTML(f"<pre style='white-space:pre-wrap'>{escape(text)}</pre>", sizing_mode="stretch_width")


def _numbers(numbers: list[dict[str, Any]]) -> Any:
    """A small table, of which much is folded."""
    import panel as pn

    lines = [
        f"<tr><td>{escape(each['variable'])}</td><td style='color:#555'>{escape(each['where'])}</td>"
        f"<td style='text-align:right'>{each['value']:.5g}</td></tr>"
        for each in numbers
    ]
    tables = [
        f"<table style='border-spacing:10px 1px;font-size:.92em'>{''.join(some)}</table>"
        for some in (lines[:_FEW_NUMBERS], lines[_FEW_NUMBERS:])
    ]
    more = f"<details><summary>{len(lines) - _FEW_NUMBERS:,} more</summary>{tables[1]}</details>"
    folded = more if len(lines) > _FEW_NUMBERS else ""
    return pn.pane.HTML(f"<b>What else the cell holds</b>{tables[0]}{folded}", sizing_mode="stretch_width")
