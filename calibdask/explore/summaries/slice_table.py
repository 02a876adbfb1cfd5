"""The table of slices, the worst first, which fills up while it is shown."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from calibdask.estimators.estimator import Estimator
from calibdask.explore.cancellation import error_text
from calibdask.explore.summaries.group_table import bar
from calibdask.explore.summaries.page_metrics import Choice
from calibdask.explore.summaries.pool import Pool, Selection
from calibdask.explore.summaries.selection_widgets import label_text
from calibdask.explore.summaries.slice_ranking import RANKING_METRICS, RankingMetric, SliceRanking
from calibdask.results.cautions import TOO_FEW_IN_A_SLICE

# So many ranks are settled without being asked for, if that takes no more than so many seconds.
_RANKS, _SECONDS = 100, 15.0
# Seconds between two updates of the table.
_STEP = 0.4
_LINES = 12
# The column of pictures; a dimension may have any name but one with a blank.
_BAR = " bar"


@dataclass(frozen=True)
class RankingQuery:
    """Which slices are to be ordered, and by what."""

    dims: tuple[str, ...]
    selection: Selection
    metric: str
    setting: str | int | None
    bins: int


class SliceTable:
    """Widgets and table; a click on a line chooses its slice.

    Parameters
    ----------
    pool : Pool
    own : mapping from str to Estimator
        A user's own errors, by their label: slices can be ordered by these too.
    choose : function
        Called with the position along each dimension of the slice that was clicked.
    resume : function
        Called when the ranking is to go on, by `advance`.
    """

    def __init__(
        self,
        pool: Pool,
        own: Mapping[str, Estimator],
        choose: Callable[[dict[str, int]], None],
        resume: Callable[[], None],
    ) -> None:
        import panel as pn

        self._pool, self._own, self._choose = pool, own, choose
        names = list(dict.fromkeys([*RANKING_METRICS, *own]))
        self._query = RankingQuery((), Selection(), names[0], None, 0)
        self._rankings: dict[RankingQuery, SliceRanking] = {}
        self._errors: dict[RankingQuery, str] = {}
        self._complete: set[RankingQuery] = set()
        self._shown: SliceRanking | None = None
        self._indexers: list[dict[str, int]] = []
        self.dims = pn.widgets.CheckButtonGroup(
            options=list(pool.slices), value=list(pool.slices[:1]), variant="outline", margin=(25, 10, 5, 10)
        )
        self.metric = pn.widgets.Select(label="Ordered by", options=names, width=220)
        self.note = pn.pane.HTML("", sizing_mode="stretch_width")
        self._all_intervals = pn.widgets.Button(label="intervals of all slices", variant="outline", visible=False)
        self.table = pn.Column(sizing_mode="stretch_width")

        def complete(_: Any) -> None:
            self._complete.add(self._query)
            self._all_intervals.visible = False
            resume()

        self._all_intervals.on_click(complete)

    @property
    def widgets(self) -> dict[str, Any]:
        """Those that a link keeps."""
        return {"worst-by": self.dims, "worst-metric": self.metric} if self._pool.slices else {}

    @property
    def listed(self) -> list[Any]:
        """What the page shows, from the top."""
        import panel as pn

        if not self._pool.slices:
            return []
        heading = pn.pane.HTML("<h2 style='font-size: 1.1rem; margin: 14px 0 0'>Worst slices first</h2>")
        several = [self.dims] if len(self._pool.slices) > 1 else []
        return [heading, pn.FlexBox(self.metric, *several), self.note, self._all_intervals, self.table]

    @property
    def chosen_dims(self) -> tuple[str, ...]:
        """The dimensions that tell the slices, in their order."""
        return tuple(dim for dim in self._pool.slices if dim in self.dims.value)

    def ask(self, selection: Selection, choice: Choice) -> None:
        """Order the slices along the chosen dimensions, others pooled over a selection."""
        dims = self.chosen_dims
        self._query = RankingQuery(dims, selection.without(dims), self.metric.value, choice.setting, choice.bins)

    def advance(self) -> tuple[RankingQuery, bool]:
        """Go on with the ranking for a moment; the query that it answers, and whether that is enough."""
        query = self._query
        if not query.dims or query in self._errors:
            return query, True
        complete = query in self._complete
        try:
            ranking = self._ranking(query)
            done = ranking.advance(_STEP, None if complete else _RANKS)
        except ValueError as error:
            # A metric that cannot be computed stops the ranking, and nothing else of the page.
            self._errors[query] = error_text(error)
            return query, True
        return query, done or (not complete and ranking.seconds > _SECONDS)

    def show(self, query: RankingQuery, *, enough: bool) -> None:
        """The order as far as it is known, unless another query has been made by then."""
        if query != self._query:
            return
        error = self._errors.get(query)
        self._shown = None if error else self._rankings.get(query)
        if self._shown is None:
            self.note.object = escape(error) if error else "Choose the dimensions of the slices."
            self.table[:], self._all_intervals.visible = [], False
            return
        self.note.object = f"<span style='color: var(--soft)'>{ranking_text(self._shown)}</span>"
        self._all_intervals.visible = enough and not self._shown.done()
        self._indexers = self._shown.indexers()
        self._fill(self._shown.dataset(), query)

    def choose_line(self, line: int) -> None:
        """Choose the slice of a line."""
        self._choose(self._indexers[line])

    def frame(self) -> Any:
        """All slices in the order that is shown."""
        if self._shown is None:
            raise ValueError("There is no order of slices yet.")
        return self._shown.dataset().to_dataframe().reset_index(drop=True)

    def _ranking(self, query: RankingQuery) -> SliceRanking:
        if query not in self._rankings:
            if query.metric in RANKING_METRICS:
                metric = RankingMetric.usual(query.metric, query.setting, query.bins)
            else:
                metric = RankingMetric.own(self._own[query.metric], query.setting)
            self._rankings[query] = SliceRanking(self._pool, query.dims, query.selection, metric)
        return self._rankings[query]

    def _fill(self, slices: xr.Dataset, query: RankingQuery) -> None:
        """Put lines into the table, a new one if its columns are others."""
        labels = {dim: ("slice", [label_text(label) for label in slices[dim].values]) for dim in query.dims}
        columns = {name: f" {name}" if name in query.dims else name for name in ("rows", "low", "high")}
        lines = slices.drop_vars(query.dims).rename({"value": query.metric, **columns}).assign(labels)
        lines = lines.assign({_BAR: ("slice", _bars(slices))})
        shown = [*query.dims, _BAR, query.metric, columns["low"], columns["high"], columns["rows"]]
        frame = lines[shown].to_dataframe().reset_index(drop=True)
        table: Any = next(iter(self.table), None)
        if table is not None and list(table.value.columns) == list(frame.columns):
            # What is drawn anew loses a press of the mouse that has begun.
            if not table.value.equals(frame):
                table.value = frame
        else:
            self.table[:] = [self._tabulator(frame, len(query.dims))]

    def _tabulator(self, frame: Any, dims: int) -> Any:
        import panel as pn
        from bokeh.models.widgets.tables import HTMLTemplateFormatter, NumberFormatter

        _, *numbers, rows = frame.columns[dims:]
        # Markup of numbers alone.
        bars = {_BAR: HTMLTemplateFormatter(template="<%= value %>")}
        four = {name: NumberFormatter(format="0.0000", nan_format="…", text_align="right") for name in numbers}
        table = pn.widgets.Tabulator(
            frame,
            formatters={rows: NumberFormatter(format="0,0", text_align="right"), **four, **bars},
            titles={_BAR: "interval", rows: "rows", numbers[1]: "95 % from", numbers[2]: "to"},
            # As wide as numbers that are not there yet.
            widths={**dict.fromkeys(numbers, 76), _BAR: 120, rows: 76},
            show_index=False,
            disabled=True,
            selectable=False,
            pagination="remote",
            page_size=_LINES,
            layout="fit_data_table",
            sizing_mode="stretch_width",
            sortable=False,
        )
        table.on_click(lambda event: self.choose_line(event.row))
        return table


def _bars(slices: xr.Dataset) -> npt.NDArray[np.object_]:
    """Values with their intervals as pictures, on one scale; a value alone where it has no interval yet."""
    value, low, high = (slices[name].values for name in ("value", "low", "high"))
    ends = np.stack([np.fmin(value, np.where(np.isnan(low), value, low)), np.where(np.isnan(high), value, high)])
    reach = 0.0, float(np.nanmax(ends, initial=0.0)) or 1.0
    bars = [
        bar(one, start, end, reach, certain=bool(start > 0)) if one == one else ""
        for one, start, end in zip(value.tolist(), *ends.tolist(), strict=True)
    ]
    return np.array(bars, object)


def ranking_text(ranking: SliceRanking) -> str:
    """How certain the order of a ranking is."""
    slices, empty = len(ranking.rows), int((ranking.rows == 0).sum())
    count = f"{slices - empty:,} slices{f', and {empty:,} without rows' if empty else ''}"
    if not ranking.has_intervals:
        order = ", in the order of their values: this metric has no intervals."
    elif ranking.done():
        order = (
            ", in the order of the lower ends of their intervals: their errors are at least that large, for certain; "
            f"ends are adjusted so that they hold for all {ranking.judged:,} slices at a time (Bonferroni)."
        )
    else:
        order = (
            f". Intervals have been computed for {ranking.with_intervals:,} of them; "
            f"the order of the first {ranking.settled:,} is final. Ends are adjusted so that they hold for all "
            f"{ranking.judged:,} slices at a time (Bonferroni)."
        )
    few = int(((ranking.rows > 0) & (ranking.rows < TOO_FEW_IN_A_SLICE)).sum())
    if few:
        least = TOO_FEW_IN_A_SLICE
        order += f" {few:,} of them have fewer than {least} rows, too few to rely on, however narrow the interval."
    return f"{count}{order} A click on a line selects its slice."
