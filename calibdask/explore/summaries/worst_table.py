"""The table of slices, the worst first, which fills up while one looks."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import xarray as xr

from calibdask.explore.summaries.measuring import Choice
from calibdask.explore.summaries.pools import Pool, Selection
from calibdask.explore.summaries.selecting import shown_label
from calibdask.explore.summaries.worst import RANKED, WorstFirst, ranked_metric

__all__ = ["WorstTable"]

# So many places are settled without being asked for, if that takes no more than so many seconds.
_PLACES, _SECONDS = 100, 15.0
# How long one looks at the table before it says more.
_STEP = 0.4
_LINES = 12
_FEW = 10


@dataclass(frozen=True)
class _Asked:
    """Which slices are to be ordered, and by what."""

    dims: tuple[str, ...]
    selection: Selection
    metric: str
    setting: str | int | None
    bins: int


class WorstTable:
    """Widgets and table; a click on a line chooses its slice.

    Parameters
    ----------
    pool : Pool
    choose : function
        Is told the position along each dimension of the slice that was clicked.
    resume : function
        Is called when the order is to be found out further, by `go_on`.
    """

    def __init__(self, pool: Pool, choose: Callable[[dict[str, int]], None], resume: Callable[[], None]) -> None:
        import panel as pn

        self._pool, self._choose = pool, choose
        self._asked = _Asked((), Selection(), next(iter(RANKED)), None, 0)
        self._found: dict[_Asked, WorstFirst] = {}
        self._thorough: set[_Asked] = set()
        self._shown: WorstFirst | None = None
        self._order: list[dict[str, int]] = []
        self._dims = pn.widgets.CheckButtonGroup(
            options=list(pool.slices), value=list(pool.slices[:1]), variant="outline", margin=(25, 10, 5, 10)
        )
        self._metric = pn.widgets.Select(label="Ordered by", options=list(RANKED), width=220)
        self._words = pn.pane.HTML("", sizing_mode="stretch_width")
        self._more = pn.widgets.Button(label="intervals of all slices", variant="outline", visible=False)
        self._table = pn.Column(sizing_mode="stretch_width")

        def go_on(_: Any) -> None:
            self._thorough.add(self._asked)
            self._more.visible = False
            resume()

        self._more.on_click(go_on)

    @property
    def widgets(self) -> dict[str, Any]:
        """Those that a link keeps."""
        return {"worst-by": self._dims, "worst-metric": self._metric} if self._pool.slices else {}

    @property
    def listed(self) -> list[Any]:
        """What the page shows, from above."""
        import panel as pn

        if not self._pool.slices:
            return []
        heading = pn.pane.HTML("<h2 style='font-size: 1.1rem; margin: 14px 0 0'>Worst slices first</h2>")
        several = [self._dims] if len(self._pool.slices) > 1 else []
        return [heading, pn.FlexBox(self._metric, *several), self._words, self._more, self._table]

    def ask(self, selection: Selection, choice: Choice) -> None:
        """Order the slices along the chosen dimensions, others pooled over a selection."""
        dims = tuple(dim for dim in self._pool.slices if dim in self._dims.value)
        self._asked = _Asked(dims, selection.without(dims), self._metric.value, choice.setting, choice.bins)

    def go_on(self) -> tuple[_Asked, bool]:
        """Find out more for a moment; what it was about, and whether that is enough."""
        asked = self._asked
        if not asked.dims:
            return asked, True
        if asked not in self._found:
            metric = ranked_metric(asked.metric, asked.setting, asked.bins)
            self._found[asked] = WorstFirst(self._pool, asked.dims, asked.selection, metric, asked.setting)
        worst, thorough = self._found[asked], asked in self._thorough
        done = worst.advance(_STEP, None if thorough else _PLACES)
        return asked, done or (not thorough and worst.seconds > _SECONDS)

    def show(self, asked: _Asked, *, enough: bool) -> None:
        """The order as far as it is known, unless another one has been asked for by then."""
        if asked != self._asked:
            return
        self._shown = self._found.get(asked)
        if self._shown is None:
            self._words.object, self._table[:], self._more.visible = "Choose what the slices are told by.", [], False
            return
        self._words.object = f"<span style='color: #4a5661'>{_told(self._shown)}</span>"
        self._more.visible = enough and not self._shown.done()
        self._order = self._shown.places()
        self._fill(self._shown.dataset(), asked)

    def frame(self) -> Any:
        """All slices in the order that is shown."""
        if self._shown is None:
            raise ValueError("There is no order of slices yet.")
        return self._shown.dataset().to_dataframe().reset_index(drop=True)

    def _fill(self, found: xr.Dataset, asked: _Asked) -> None:
        """Put lines into the table, a new one if its columns are others."""
        words = {dim: ("slice", [shown_label(label) for label in found[dim].values]) for dim in asked.dims}
        named = {name: f" {name}" if name in asked.dims else name for name in ("rows", "low", "high")}
        lines = found.drop_vars(asked.dims).rename({"value": asked.metric, **named}).assign(words)
        frame = lines[[*asked.dims, named["rows"], asked.metric, named["low"], named["high"]]].to_dataframe()
        frame = frame.reset_index(drop=True)
        table: Any = next(iter(self._table), None)
        if table is not None and list(table.value.columns) == list(frame.columns):
            # What is drawn anew loses a press of the mouse that has begun.
            if not table.value.equals(frame):
                table.value = frame
        else:
            self._table[:] = [self._tabulator(frame, len(asked.dims))]

    def _tabulator(self, frame: Any, dims: int) -> Any:
        import panel as pn
        from bokeh.models.widgets.tables import NumberFormatter

        rows, *numbers = frame.columns[dims:]
        four = {name: NumberFormatter(format="0.0000", nan_format="…", text_align="right") for name in numbers}
        table = pn.widgets.Tabulator(
            frame,
            formatters={rows: NumberFormatter(format="0,0", text_align="right"), **four},
            titles={rows: "rows", numbers[1]: "95 % from", numbers[2]: "to"},
            # As wide as numbers that are not there yet.
            widths=dict.fromkeys(numbers, 90),
            show_index=False,
            disabled=True,
            selectable=False,
            pagination="remote",
            page_size=_LINES,
            layout="fit_data_table",
            sizing_mode="stretch_width",
            sortable=False,
        )
        table.on_click(lambda event: self._choose(self._order[event.row]))
        return table


def _told(worst: WorstFirst) -> str:
    """How certain the order is, in words."""
    slices, empty = len(worst.rows), int((worst.rows == 0).sum())
    count = f"{slices - empty:,} slices{f', and {empty:,} without rows' if empty else ''}"
    if worst.done():
        order = ", in the order of the lower ends of their intervals: so large their errors are at least."
    else:
        order = (
            f". Intervals have been computed for {worst.with_intervals:,} of them; "
            f"the order of the first {worst.settled:,} cannot change any more."
        )
    few = int(((worst.rows > 0) & (worst.rows < _FEW)).sum())
    if few:
        order += f" {few:,} of them have fewer than {_FEW} rows, which tell next to nothing however sure they look."
    return f"{count}{order} A click on a line selects its slice."
