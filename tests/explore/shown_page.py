"""What a page of the explorer shows, and the widgets of its address, without a browser."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import panel as pn

from calibdask.explore.server import PageContent


@dataclass(frozen=True)
class ShownPage:
    """A page and its widgets by their names in the address."""

    page: PageContent
    widgets: Mapping[str, Any]

    def choose(self, **values: Any) -> None:
        """Choose values of widgets; ``_`` stands for the hyphens of names."""
        for name, value in values.items():
            self.widgets[name.replace("_", "-")].value = value

    @property
    def visible_items(self) -> list[Any]:
        """All that can be seen."""
        return [item for part in (*self.page.side, *self.page.main) for item in _visible(part)]

    @property
    def text(self) -> str:
        """All words, with their markup."""
        return "\n".join(item.object for item in self.visible_items if isinstance(item, pn.pane.HTML))

    @property
    def figures(self) -> list[Any]:
        """The upper figure of each panel."""
        return [item.object.children[0] for item in self.visible_items if isinstance(item, pn.pane.Bokeh)]

    @property
    def sources(self) -> list[dict[str, Any]]:
        """The columns of all panels, by selection."""
        drawn = [renderer.data_source for figure in self.figures for renderer in figure.renderers]
        return [source.data for source in dict.fromkeys(drawn) if "score" in source.data]

    @property
    def table(self) -> Any:
        """The table of the worst slices."""
        (table,) = (item for item in self.visible_items if isinstance(item, pn.widgets.Tabulator))
        return table

    def click(self, line: int) -> None:
        """Click on a line of the table."""
        from panel.models.tabulator import CellClickEvent

        self.table._process_event(CellClickEvent(None, column=self.table.value.columns[0], row=line))


def _visible(item: Any) -> Iterator[Any]:
    if not item.visible:
        return
    yield item
    for child in getattr(item, "objects", ()):
        yield from _visible(child)
