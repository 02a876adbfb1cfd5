"""The table of slices, the worst first, which fills up while it is shown."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import xarray as xr

from calibdask.analyses.shrinkage import are_many_and_small
from calibdask.estimators.estimator import Estimator
from calibdask.explore.cancellation import error_text
from calibdask.explore.html_widgets import html_pane, html_table, table_frame
from calibdask.explore.summaries.group_table import bar
from calibdask.explore.summaries.page_metrics import RowChoice
from calibdask.explore.summaries.page_texts import simultaneous
from calibdask.explore.summaries.pool import Pool, Selection
from calibdask.explore.summaries.selection_widgets import label_text
from calibdask.explore.summaries.shrunken_ranking import SHRUNKEN, ShrunkenRanking
from calibdask.explore.summaries.slice_ranking import RANKING_METRICS, RankingMetric, SliceRanking
from calibdask.explore.summaries.slices_over_time import period_dims
from calibdask.markup import Html
from calibdask.results.cautions import TOO_FEW_IN_A_SLICE
from calibdask.results.format import signed_column

# So many ranks are settled without being asked for, if that takes no more than so many seconds.
_RANKS, _SECONDS = 100, 15.0
# Seconds between two updates of the table.
_STEP = 0.4
_LINES = 12
# Lines of the table, which all are sent to the browser: others are in the file, and found by the filters.
_MOST_LINES = 120
# Slices by all dimensions but the period are told apart at first if they are no more.
_MOST_TOGETHER = 100
_BAR_WIDTH = 68.0
_SLICE, _GAP, _ERROR, _ROWS = "slice", "gap", "error", "rows"
# In two lines, so that all columns are seen in a narrow window.
_SHEET = """
.tabulator { font-size: 13px; } .tabulator-cell { padding: 4px 3px !important; }
.tabulator-col-content { padding: 4px 3px !important; }
.tabulator-cell { white-space: normal !important; height: auto !important; line-height: 1.3; }
.tabulator-col-title { white-space: normal !important; line-height: 1.25; }
.tabulator-cell .side { white-space: nowrap; display: flex; justify-content: space-between; align-items: center; }
.tabulator-cell small { color: var(--soft); white-space: nowrap; }
"""


@dataclass(frozen=True)
class RankingQuery:
    """Query of the ranking: slices and metric."""

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
        names = list(dict.fromkeys([*RANKING_METRICS, SHRUNKEN, *own]))
        usual = SHRUNKEN if pool.slices and _are_many_and_small(pool) else names[0]
        self._query = RankingQuery((), Selection(), usual, None, 0)
        self._rankings: dict[RankingQuery, SliceRanking] = {}
        self._errors: dict[RankingQuery, str] = {}
        self._complete: set[RankingQuery] = set()
        self._shown: SliceRanking | None = None
        self._indexers: list[dict[str, int]] = []
        self.dims = pn.widgets.CheckButtonGroup(
            options=list(pool.slices), value=_usual_dims(pool), variant="outline", margin=(25, 10, 5, 10)
        )
        self.metric = pn.widgets.Select(label="Ordered by", options=names, value=usual, width=220)
        self.note = html_pane(sizing_mode="stretch_width")
        self._all_intervals = pn.widgets.Button(label="intervals of all slices", variant="outline", visible=False)
        self.table = pn.Column(sizing_mode="stretch_width")

        def complete(_: Any) -> None:
            self._complete.add(self._query)
            self._all_intervals.visible = False
            resume()

        self._all_intervals.on_click(complete)

    @property
    def widgets(self) -> dict[str, Any]:
        """Widgets whose values are kept in the URL."""
        return {"worst-by": self.dims, "worst-metric": self.metric} if self._pool.slices else {}

    @property
    def listed(self) -> list[Any]:
        """Widgets of the table from top to bottom."""
        import panel as pn

        if not self._pool.slices:
            return []
        heading = html_pane(Html("<h2 style='font-size: 1.1rem; margin: 14px 0 0'>Worst slices first</h2>"))
        several = [self.dims] if len(self._pool.slices) > 1 else []
        return [heading, pn.FlexBox(self.metric, *several), self.note, self._all_intervals, self.table]

    @property
    def chosen_dims(self) -> tuple[str, ...]:
        """The dimensions that tell the slices, in their order."""
        return tuple(dim for dim in self._pool.slices if dim in self.dims.value)

    def ask(self, selection: Selection, choice: RowChoice) -> None:
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
            ranking.measure_gaps(_MOST_LINES)
        except ValueError as error:
            # A metric that cannot be computed stops the ranking, and nothing else of the page.
            self._errors[query] = error_text(error)
            return query, True
        return query, done or (not complete and ranking.seconds > _SECONDS)

    def show(self, query: RankingQuery, *, enough: bool) -> None:
        """Show the order so far, unless the query has changed."""
        if query != self._query:
            return
        error = self._errors.get(query)
        self._shown = None if error else self._rankings.get(query)
        if self._shown is None:
            self.note.object = error or "Choose the dimensions of the slices."
            self.table[:], self._all_intervals.visible = [], False
            return
        self.note.object = Html("<span style='color: var(--soft)'>{}</span>").format(ranking_text(self._shown))
        self._all_intervals.visible = enough and not self._shown.done()
        self._indexers = self._shown.indexers(_MOST_LINES)
        self._fill(self._shown.dataset(_MOST_LINES), query)

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
            self._rankings[query] = self._new_ranking(query)
        return self._rankings[query]

    def _new_ranking(self, query: RankingQuery) -> SliceRanking:
        if query.metric == SHRUNKEN:
            return ShrunkenRanking(self._pool, query.dims, query.selection, query.setting)
        if query.metric in RANKING_METRICS:
            metric = RankingMetric.usual(query.metric, query.setting, query.bins)
        else:
            metric = RankingMetric.from_estimator(self._own[query.metric], query.setting)
        return SliceRanking(self._pool, query.dims, query.selection, metric)

    def _fill(self, slices: xr.Dataset, query: RankingQuery) -> None:
        """Put lines into the table, a new one if its columns are others."""
        names = zip(*([label_text(label) for label in slices[dim].values] for dim in query.dims), strict=True)
        error, low, high = (slices[name].values for name in ("value", "low", "high"))
        columns: dict[str, Any] = {_SLICE: [" · ".join(labels) for labels in names]}
        if query.setting != "classwise":
            columns[_GAP] = _gap_cells(slices)
        columns[_ERROR] = [_error_cell(*ends) for ends in zip(error.tolist(), low.tolist(), high.tolist(), strict=True)]
        columns[_ROWS] = slices["rows"].values
        frame = table_frame(columns)
        name = query.dims[0] if len(query.dims) == 1 else _SLICE
        titles = {_SLICE: name, _GAP: "too high | too low", _ERROR: query.metric}
        table: Any = next(iter(self.table), None)
        if table is not None and list(table.value.columns) == list(frame.columns) and table.titles == titles:
            # What is drawn anew loses a press of the mouse that has begun.
            if not table.value.equals(frame):
                table.value = frame
        else:
            self.table[:] = [self._tabulator(frame, titles)]

    def _tabulator(self, frame: Any, titles: dict[str, str]) -> Any:
        from bokeh.models.widgets.tables import NumberFormatter

        table = html_table(
            frame,
            html=(_GAP, _ERROR),
            formatters={
                # Long names in several lines.
                _SLICE: {"type": "textarea"},
                _ROWS: NumberFormatter(format="0,0", text_align="right"),
            },
            titles=titles,
            widths={_GAP: 124, _ERROR: 110, _ROWS: 76},
            configuration={"columnDefaults": {"headerSort": False, "minWidth": 56}},
            stylesheets=[_SHEET],
            show_index=False,
            disabled=True,
            selectable=False,
            pagination="remote",
            page_size=_LINES,
            layout="fit_columns",
            sizing_mode="stretch_width",
            sortable=False,
        )
        table.on_click(lambda event: self.choose_line(event.row))
        return table


def _usual_dims(pool: Pool) -> list[str]:
    """The dimensions that tell slices apart at first: all but the period, if those are few, else the first."""
    periods = period_dims(pool)[:1]
    others = [dim for dim in pool.slices if dim not in periods]
    few = prod(len(pool.labels[dim]) for dim in others) <= _MOST_TOGETHER
    return others if others and few else (others or list(pool.slices))[:1]


def _are_many_and_small(pool: Pool) -> bool:
    """Whether the slices shown at first are so many and small that their raw order is mostly noise."""
    rows = pool.group_rows(pool.groups(_usual_dims(pool), Selection()))
    return are_many_and_small(rows[rows > 0])


def _gap_cells(slices: xr.Dataset) -> list[Html]:
    """Mean gaps with intervals as pictures, on one scale, and in points; none of slices that are not measured yet."""
    ends = np.stack([100 * slices[name].values for name in ("mean_gap", "mean_gap_low", "mean_gap_high")])
    # 0 in the middle: the sides of all tables are the same.
    reach = float(np.nanmax(np.abs(ends), initial=0.0)) or 1.0
    return [
        Html("<span class='side'>{} {}</span>").format(
            bar(gap, low, high, (-reach, reach), certain=low > 0 or high < 0, width=_BAR_WIDTH), text
        )
        if gap == gap
        else Html()
        for (gap, low, high), text in zip(ends.T.tolist(), signed_column(ends[0].tolist()), strict=True)
    ]


def _error_cell(value: float, low: float, high: float) -> Html:
    """An error, and its interval beneath it, as soon as there is one."""
    if value != value:
        return Html()
    interval = "…" if low != low else f"{low:.4f} to {high:.4f}"
    return Html("{:.4f}<br><small>{}</small>").format(value, interval)


def ranking_text(ranking: SliceRanking) -> str:
    """How certain the order of a ranking is."""
    slices, empty = len(ranking.rows), int((ranking.rows == 0).sum())
    count = f"{slices - empty:,} slices{f', and {empty:,} without rows' if empty else ''}"
    if isinstance(ranking, ShrunkenRanking):
        order = ", ordered by shrunken mean gaps (empirical Bayes); intervals have average coverage over the slices."
    elif not ranking.has_intervals:
        order = ", in the order of their values: this metric has no intervals."
    elif ranking.done():
        order = (
            ", ordered by the lower confidence bounds of their errors; intervals are "
            f"{simultaneous(ranking.judged, 'slices')} (Bonferroni)."
        )
    else:
        order = (
            f". Intervals have been computed for {ranking.with_intervals:,} of them; "
            f"the order of the first {ranking.settled:,} is final. Intervals are "
            f"{simultaneous(ranking.judged, 'slices')} (Bonferroni)."
        )
    few = int(((ranking.rows > 0) & (ranking.rows < TOO_FEW_IN_A_SLICE)).sum())
    if few and not isinstance(ranking, ShrunkenRanking):
        least = TOO_FEW_IN_A_SLICE
        order += f" {few:,} of them have fewer than {least} rows, too few to rely on, however narrow the interval."
    if slices - empty > _MOST_LINES:
        order += f" The first {_MOST_LINES:,} are shown; use the filters to find the others, and the file has all."
    return f"{count}{order} Click a row to select its slice."
