"""Panel widgets that escape every text that is not `Html`.

Every HTML that the explorer shows passes here; the names of these widgets occur nowhere else in it. Other widgets, such
as selects, buttons and figures, show texts as they are.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache, lru_cache
from types import SimpleNamespace
from typing import Any

import xarray as xr

from calibdask.markup import Html, in_figure


def html_pane(content: str = "", **look: Any) -> Any:
    """A pane of HTML; its ``object`` is escaped whenever it is replaced."""
    return _kinds().HtmlPane(content, **look)


def html_table(
    frame: Any = None, *, html: Collection[str] = (), titles: Mapping[str, str] | None = None, **look: Any
) -> Any:
    """A table of a data frame, whose titles and cells are texts, but for cells that are `Html`.

    Parameters
    ----------
    frame : pandas.DataFrame, optional
        Made by `table_frame`; replaced by way of ``value``.
    html : collection of str
        Columns that show HTML: their cells are `Html`, or escaped.
    titles : mapping from str to str, optional
        Of columns that are not titled by their names.
    """
    formatters = {**look.pop("formatters", {}), **{name: {"type": "html"} for name in html}}
    return _kinds().Table(frame, titles=dict(titles or {}), formatters=formatters, **look)


def table_frame(columns: Mapping[str, Iterable[Any]]) -> Any:
    """A data frame for a table, whose cells stay `Html`: made from texts, pandas would keep mere texts."""
    lists = {name: list(cells) for name, cells in columns.items()}
    frame = xr.Dataset({name: ("line", cells) for name, cells in lists.items()}).to_dataframe().reset_index(drop=True)
    has_html = [name for name, cells in lists.items() if any(isinstance(cell, Html) for cell in cells)]
    frame = frame[list(lists)].astype(dict.fromkeys(has_html, object))
    for name in has_html:
        # In place: a new column would be one of texts.
        frame.loc[:, name] = lists[name]
    return frame


def multi_choice(options: Mapping[str, Any], **look: Any) -> Any:
    """A box of chosen labels."""
    return _kinds().MultiChoice(options=dict(options), **look)


def label_slider(options: Mapping[str, Any], **look: Any) -> Any:
    """A slider that shows one of its labels at a time."""
    return _kinds().LabelSlider(options=dict(options), **look)


def range_slider(label: str, last: int, *, texts: Sequence[str] | None = None, **look: Any) -> Any:
    """A slider of two ends along positions from 0 to the last, which its title shows, by their texts if there are any.

    The title is a text. What hovers over the handles would be HTML, and there is none.
    """
    import panel as pn
    from bokeh.models import CustomJSTickFormatter

    if texts is not None:
        look["format"] = CustomJSTickFormatter(args={"texts": list(texts)}, code="return texts[Math.round(tick)]")
    value = look.pop("value", None) or (0, last)
    # Bokeh puts a title with a formula into the page as HTML.
    return pn.widgets.IntRangeSlider(label=in_figure(label), start=0, end=last, value=value, tooltips=False, **look)


def notify(messages: Sequence[str]) -> None:
    """Show messages until they are clicked away."""
    import panel as pn

    notifications = pn.state.notifications
    if notifications is not None:
        for message in messages:
            notifications.warning(str(Html.escape(message)), duration=0)


def _shows_html(formatter: Any) -> bool:
    """Whether a formatter of Tabulator takes cells for markup."""
    kind = formatter.get("type") if isinstance(formatter, Mapping) else formatter
    return kind == "html"


@lru_cache(maxsize=4)
def _bold(options: tuple[object, ...]) -> tuple[str, ...]:
    """Options in bold type; Panel asks for them several times, and replicates have 10^5."""
    # Formatting `Html` takes four times as long.
    return tuple(f"<b>{Html.escape(option)}</b>" for option in options)


@cache
def _kinds() -> SimpleNamespace:
    """Subclasses of Panel widgets, created on first use because importing Panel takes a second."""
    import panel as pn

    class HtmlPane(pn.pane.HTML):
        def _transform_object(self, obj: Any) -> Any:
            return super()._transform_object(str(Html.escape("" if obj is None else obj)))

    class TableWidget(pn.widgets.Tabulator):
        def _get_column_definitions(self, col_names: list[str], df: Any) -> Any:
            columns = super()._get_column_definitions(col_names, df)
            for column in columns:
                column.title = str(Html.escape(column.title))
            return columns

        def _process_column(self, values: Any, col: str, df: Any = None) -> Any:
            cells = super()._process_column(values, col, df)
            # Whoever chose the formatter: each cell on its way to the browser passes here.
            if _shows_html(self.formatters.get(col)):
                return [str(Html.escape("" if cell is None else cell)) for cell in cells]
            return cells

    class MultiChoice(pn.widgets.MultiChoice):
        @property
        def labels(self) -> list[str]:
            return [str(Html.escape(option)) for option in self.options]

    class LabelSlider(pn.widgets.DiscreteSlider):
        @property
        def labels(self) -> list[str]:
            title = Html.escape(f"{self.label}: " if self.label else "")
            return [f"{title}{option}" for option in _bold(tuple(self.options))]

    return SimpleNamespace(HtmlPane=HtmlPane, Table=TableWidget, MultiChoice=MultiChoice, LabelSlider=LabelSlider)
