"""The page of a summary: slices pooled as they are chosen, compared, and the worst of them first."""

from collections.abc import Callable
from functools import partial
from typing import Any

import xarray as xr

from calibdask.explore.cancellation import LatestOnly, error_text, on_next_tick
from calibdask.explore.downloads import downloads
from calibdask.explore.html_widgets import html_pane
from calibdask.explore.server import PageContent
from calibdask.explore.summaries.answer_page import AnswerPage, answer_pages
from calibdask.explore.summaries.comparison_widgets import ComparisonWidgets
from calibdask.explore.summaries.groups_page import GroupsPage
from calibdask.explore.summaries.measuring import Measuring, banded
from calibdask.explore.summaries.metrics_table import curve_frame, diagram_frame, metrics_frame, metrics_table
from calibdask.explore.summaries.overview import Overview, OverviewQuery
from calibdask.explore.summaries.own_metrics import OwnMetrics
from calibdask.explore.summaries.page_metrics import DRAWN, RowChoice, SlowMetrics, refinements, without_interval
from calibdask.explore.summaries.page_texts import (
    CAUTION_STYLE,
    NOTE,
    SHARED,
    caution_lines,
    dot,
    heading,
    left_out,
    missing_lines,
    small,
)
from calibdask.explore.summaries.panel_grid import PanelGrid
from calibdask.explore.summaries.pool import Pool, Selection, pool_of
from calibdask.explore.summaries.reliability_panel import COLORS
from calibdask.explore.summaries.selection_widgets import SelectionWidgets, selection_text
from calibdask.explore.summaries.slice_table import SliceTable
from calibdask.explore.summaries.slices_over_time import period_dims
from calibdask.explore.summaries.steps import Measurement, PageStep, after
from calibdask.explore.summaries.time_page import TimePage
from calibdask.explore.url_state import bind_to_url
from calibdask.markup import Html
from calibdask.results.values import Results
from calibdask.storage.summary import Summary

_BINS = [10, 15, 20, 30, 60, 100]
_BINNINGS = {"by the scores": "auto", "of equal width": "uniform", "of equal mass": "equal-mass"}
_TOGETHER, _ALL_ROWS, _OVER_TIME, _GROUPS = "all periods together", "all rows", "over time", "groups by features"
_BEGUN, _OVERVIEW, _SINCE = "models and periods", "models, slices and periods", "onset of the worst miscalibration"
_ROWS = Html("{}{}: <b>{:,} rows</b>{}")
# Beside each other where there is room.
_BESIDE = {"flex-wrap": "wrap", "gap": "4px 20px"}
# Seconds before what takes longer begins: further choices are not to be slowed down by intervals of earlier ones.
_PAUSE = 0.3


def summary_page(summary: Summary, name: str, own: OwnMetrics | None = None, due: str | None = None) -> PageContent:
    """The page of a summary, for one session.

    Parameters
    ----------
    summary : Summary
        Its numbers are read when they are looked at.
    name : str
        Heading.
    own : OwnMetrics, optional
        A user's own estimators, shown beside the usual metrics.
    due : str, optional
        When the outcomes of a period are known, as for `calibdask.watch`.
    """
    return SummaryPage(pool_of(summary), name, own, due).page()


class SummaryPage:
    """The state of one session; its widgets and panes are attributes."""

    def __init__(self, pool: Pool, name: str, own: OwnMetrics | None = None, due: str | None = None) -> None:
        import panel as pn

        self._pool, self._name, self._document = pool, name, pn.state.curdoc
        self._own = own or OwnMetrics()
        self._quick, self._slow = LatestOnly(self._document), LatestOnly(self._document)
        self._is_waiting = self._is_busy = False
        self._shown: tuple[RowChoice, list[Selection]] | None = None
        self._measuring = Measuring(pool, self._own)
        self._results: list[xr.Dataset] = []
        self._titles: list[str] = []
        self._overview_query: OverviewQuery | None = None
        self._steps: list[PageStep] = []
        self._make_widgets()
        self.time = TimePage(pool, self._document, due) if period_dims(pool) else None
        self.groups = None if pool.cuts is None else GroupsPage(pool, self._document)
        self.answers = answer_pages(pool, self._document, name, self.first.choose)
        views = [
            _ALL_ROWS if self.time is None else _TOGETHER,
            *([] if self.time is None else [_OVER_TIME]),
            *([] if self.groups is None else [_GROUPS]),
            *self.answers,
        ]
        self.view = pn.widgets.RadioButtonGroup(options=views, value=views[0], variant="outline", margin=(8, 10))
        self.view.styles = {"max-width": "calc(100% - 20px)"}
        self.slices = SliceTable(pool, self._own.errors(pool.source.layout), self.first.choose, self._rank_slices)
        self.overview = Overview(pool, self.first.toggle)
        # Room for what comes and goes: a click is not to move what the next one is for.
        self.head = html_pane(styles={"flex": "1 1 18rem", "min-height": "2.5em"})
        self.clear = pn.widgets.Button(label="Clear selection", variant="outline", disabled=True, margin=(5, 10))
        self.clear.on_click(lambda _: self.first.clear())
        self.cautions = html_pane(sizing_mode="stretch_width", stylesheets=[CAUTION_STYLE], margin=(0, 10))
        self.cautions.styles = {"min-height": "1.5em"}
        self.busy = html_pane(sizing_mode="stretch_width", margin=(0, 10), styles={"min-height": "1.4em"})
        box = pn.Row(sizing_mode="stretch_width", styles={"flex-wrap": "wrap", "gap": "4px 12px"})
        self.panel_grid, self.plots = PanelGrid(box), pn.Column(box, sizing_mode="stretch_width")
        self.numbers = html_pane(sizing_mode="stretch_width")
        self.note = html_pane(small(NOTE), sizing_mode="stretch_width")

    def page(self) -> PageContent:
        """The page, with its first numbers on the way."""
        import panel as pn

        bind_to_url(self.widgets)
        for widget in self.widgets.values():
            widget.param.watch(self._changed, "value")
        if self._document is None:
            self._refresh()
        else:
            pn.state.on_session_destroyed(lambda _: self._close())
            if self._other_view is None:
                # While the browser loads what shows it.
                self._quick.start(lambda _: self._measuring.measured(*self.chosen()), show=_ignore, fail=_ignore)
            # Before that a browser may miss what is put on the page.
            pn.state.onload(self._refresh)
        frames = {"metrics": metrics_frame, "diagram": diagram_frame, "curve": curve_frame}
        tables: dict[str, Callable[[], Any]] = {key: partial(self._frame, frame) for key, frame in frames.items()}
        if self._pool.slices:
            tables["slices"] = self.slices.frame
        buttons = downloads(name := self._name.partition(".")[0], tables, self.plots)
        plots, beside = ({"flex": f"{wide}px", "min-width": "0"} for wide in ("3 1 560", "2 1 460"))
        left = pn.Column(self.plots, sizing_mode="stretch_width", styles=plots)
        right = pn.Column(*self.slices.listed, sizing_mode="stretch_width", styles=beside)
        middle = pn.Row(left, *([right] if self.slices.listed else []), sizing_mode="stretch_width", styles=_BESIDE)
        top = pn.Row(
            self.head, *([self.clear] if self._pool.slices else []), sizing_mode="stretch_width", styles=_BESIDE
        )
        main = [top, self.cautions, *self.overview.listed, self.busy, middle, self.numbers, self.note, buttons]
        views = {self.view.options[0]: main}
        if self.time is not None:
            views[_OVER_TIME] = [*self.time.listed, downloads(name, {"over-time": self.time.frame})]
        if self.groups is not None:
            views[_GROUPS] = [*self.groups.listed, downloads(name, {"groups": self.groups.frame})]
        for view, answered in self.answers.items():
            views[view] = [*answered.listed, downloads(name, {view: answered.frame})]
        columns = {view: pn.Column(sizing_mode="stretch_width") for view in views}

        def show_view(*_: Any) -> None:
            for view, column in columns.items():
                column.visible = view == self.view.value
                if column.visible and not column.objects:
                    # Only what has been opened is sent to the browser.
                    column.objects = views[view]
            # Groups have cells of scores, and so have answers.
            is_binned = self.view.value not in (_GROUPS, *self.answers)
            self.bins.visible = self.binning.visible = self.limit.visible = is_binned

        show_view()
        self.view.param.watch(show_view, "value")
        return PageContent(self._name, self._side(), [self.view, *columns.values()])

    @property
    def _other_view(self) -> TimePage | GroupsPage | AnswerPage | None:
        """The view that is shown in place of the metrics, if one is."""
        return {_OVER_TIME: self.time, _GROUPS: self.groups, **self.answers}.get(self.view.value)

    @property
    def _other_views(self) -> list[TimePage | GroupsPage | AnswerPage]:
        return [view for view in (self.time, self.groups, *self.answers.values()) if view is not None]

    def _frame(self, make: Callable[[list[xr.Dataset], list[str]], Any]) -> Any:
        """A table to save."""
        if not self._results:
            raise ValueError("There are no numbers yet.")
        return make(self._results, self._titles)

    def _make_widgets(self) -> None:
        import panel as pn

        settings = self._pool.settings()
        wide = {"width": 305}
        self.setting = pn.widgets.Select(
            label="Setting", options=settings, value=next(iter(settings.values())), visible=len(settings) > 1, **wide
        )
        self.bins = pn.widgets.Select(label="Bins", options=_BINS, value=15, width=90)
        self.binning = pn.widgets.Select(label="Binning", options=_BINNINGS, width=195)
        self.limit = pn.widgets.FloatInput(
            label="Limit of the ECE", value=None, start=0.0, end=1.0, step=0.005, placeholder="none", width=140
        )
        self.compare = pn.widgets.Checkbox(label="Compare with a second selection, B", value=False)
        self.first, self.second = SelectionWidgets(self._pool, "a"), ComparisonWidgets(self._pool)

    @property
    def widgets(self) -> dict[str, Any]:
        """All widgets by their names in the URL."""
        own = {"setting": self.setting, "bins": self.bins, "binning": self.binning, "limit": self.limit}
        own["compare"] = self.compare
        further = [part.widgets for part in (self.first, self.second, self.slices, self.overview)]
        further += [view.widgets for view in self._other_views]
        return {**own, "view": self.view, **{name: widget for part in further for name, widget in part.items()}}

    def _side(self) -> list[Any]:
        import panel as pn

        first = pn.Column(heading("A", COLORS[0]), visible=self.compare.value)
        second = pn.Column(heading("B", COLORS[1]), *self.second.listed, visible=self.compare.value)
        for only_of_two in (first, second):
            self.compare.link(only_of_two, value="visible")
        chosen = [first, *self.first.listed, self.compare, second] if self.first.listed else []
        return [self.setting, pn.Row(self.bins, self.binning), self.limit, *chosen]

    def _changed(self, *_: Any) -> None:
        """A choice has changed: several changes at once make one new view."""
        if not self._is_waiting:
            self._is_waiting = True
            on_next_tick(self._document, self._refresh)

    def _refresh(self) -> None:
        """Start the fast computations and cancel earlier ones."""
        self._is_waiting = False
        for view in self._other_views:
            if view is not self._other_view:
                view.pause()
        if self._other_view is not None:
            # What is not seen waits.
            self._quick.cancel()
            self._slow.cancel()
            self._stop(None)
            self._shown = None
            self._ask_other_view()
            return
        selections, choice = self.chosen()
        first = selections[0]
        self.slices.ask(selections[0], choice)
        before = self._overview_query
        self._overview_query = self.overview.query(first, choice, self.limit.value, self.slices.chosen_dims)
        self.clear.disabled = not first.slices
        if (choice, selections) == self._shown:
            if self._overview_query != before:
                others = [step for step in self._steps if step.description not in (_BEGUN, _OVERVIEW, _SINCE)]
                self._steps = self._with_overview(others)
            self._rank_slices()
            return
        self._slow.cancel()
        self._steps, self._shown, self._is_busy = [], None, False
        if not self._pool.is_read(choice.setting):
            self.busy.object = small("reading the summary …")
        self._quick.start(
            lambda _: self._measuring.measured(selections, choice),
            show=lambda measurements: self._show(selections, choice, measurements),
            fail=lambda error: self._fail(selections, error),
        )

    def chosen(self) -> tuple[list[Selection], RowChoice]:
        """The selections, and how they are looked at."""
        first = self.first.selection()
        selections = [first, *([self.second.selection(first)] if self.compare.value else [])]
        return selections, RowChoice(self.setting.value, self.bins.value, self.binning.value)

    def _ask_other_view(self) -> None:
        match self._other_view:
            case GroupsPage() as groups:
                groups.ask(self.first.selection())
            case TimePage() | AnswerPage() as view:
                view.ask(self.first.selection(), self.setting.value)

    def _show(self, selections: list[Selection], choice: RowChoice, measurements: list[Measurement]) -> None:
        """Show the fast results, then the others step by step."""
        self._shown = (choice, selections)
        self._results = [measurement.result for measurement in measurements]
        self._titles = [selection_text(self._pool, selection) for selection in selections]
        is_banded = banded(selections, choice)
        steps = [
            self._refining(number, refinement)
            for number, measurement in enumerate(measurements)
            for refinement in self._refinements(measurement, choice, banded=is_banded)
        ]
        # All of one kind, then all of the next: what takes longest is last.
        kinds = [step.description for step in steps]
        self._steps = self._with_overview(sorted(steps, key=lambda step: kinds.index(step.description)))
        self.head.object, self.cautions.object = self._described(selections), caution_lines(self._results)
        shared = SHARED if len(selections) > 1 else ""
        missing = missing_lines(measurements[0].reasons)
        self.note.object = small(NOTE + shared + left_out(without_interval(measurements[0].pooled, choice))) + missing
        self._draw()
        self._rank_slices()

    def _refinements(self, measurement: Measurement, choice: RowChoice, *, banded: bool) -> list[SlowMetrics]:
        shown = {part.metric for part in Results(measurement.result)}
        return [
            *self._own.refinements(measurement.complete, choice.setting, shown),
            *refinements(measurement.pooled, choice, banded=banded),
        ]

    def _draw(self, *, panels: bool = True) -> None:
        """Show the numbers, and the panels unless they are as they were."""
        import panel as pn

        with pn.io.hold():
            self.plots.visible = True
            if panels:
                self.panel_grid.show(self._results)
            pending = {name for step in self._steps for name in step.names}
            self.numbers.object = metrics_table(self._results, pending)

    def _refining(self, number: int, refinement: SlowMetrics) -> PageStep:
        """The step that computes some intervals of one of the results."""

        def show(more: xr.Dataset) -> None:
            self._results[number] = self._results[number].assign(more.data_vars)
            self._draw(panels=not DRAWN.isdisjoint(refinement.names))

        return PageStep(refinement.description, refinement.names, lambda _: refinement.compute(), show)

    def _with_overview(self, others: list[PageStep]) -> list[PageStep]:
        """Order the steps: tiles, map and line first, steps that read all slices last."""
        query, overview = self._overview_query, self.overview
        assert query is not None
        slices = [
            PageStep(_OVERVIEW, (), partial(overview.computed, query), partial(overview.show, query)),
            PageStep(_SINCE, (), partial(overview.since, query), partial(overview.show_since, query)),
        ]
        if not overview.waits(query):
            return [*slices, *others]
        return [PageStep(_BEGUN, (), partial(overview.begun, query), partial(overview.show, query)), *others, *slices]

    def _rank_slices(self) -> None:
        """Rank slices before the last of the steps, which takes longest."""
        self._steps = [step for step in self._steps if not step.is_ranking]
        self._steps.insert(max(0, len(self._steps) - len(self._results)), self._ranking)
        if not self._is_busy:
            self._go_on()

    @property
    def _ranking(self) -> PageStep:
        """The step that ranks slices for a moment, and then goes on with it if it is worth it."""

        def show(progress: tuple[Any, bool]) -> None:
            query, enough = progress
            self.slices.show(query, enough=enough)
            if not enough and not any(step.is_ranking for step in self._steps):
                self._steps.insert(0, self._ranking)

        return PageStep("order of the slices", (), lambda _: self.slices.advance(), show, is_ranking=True)

    def _go_on(self) -> None:
        """Take the next step, after which the page shows more."""
        pause = 0.0 if self._is_busy else _PAUSE
        self._is_busy = bool(self._steps)
        if not self._steps:
            self.busy.object = ""
            return
        step = self._steps.pop(0)
        self.busy.object = small(f"computing: {step.description} …")

        def show(result: Any) -> None:
            step.show(result)
            self._go_on()

        self._slow.start(lambda token: after(pause, token, step.compute), show=show, fail=self._stop)

    def _fail(self, selections: list[Selection], error: Exception) -> None:
        """Nothing can be shown of a selection."""
        self._results, self._titles, self.numbers.object = [], [], ""
        self.plots.visible = False
        self.head.object = self._described(selections) + Html("<p><b>{}</b></p>").format(error_text(error))
        self.cautions.object = ""
        self._stop(None)

    def _stop(self, error: Exception | None) -> None:
        """Take no further steps, because of an error if there is one."""
        self._steps, self._is_busy = [], False
        self.busy.object = "" if error is None else Html("<b>{}</b>").format(error_text(error))

    def _described(self, selections: list[Selection]) -> Html:
        """The selections with their rows."""
        lines = []
        for letter, color, selection in zip("AB", COLORS, selections, strict=False):
            mark = Html("{} <b>{}</b> ").format(dot(color), letter) if len(selections) > 1 else ""
            rows, slices = self._pool.rows(selection), self._pool.numbers(selection).size
            count = f", {slices:,} of {self._pool.slice_count:,} slices" if self._pool.slices else ""
            lines.append(_ROWS.format(mark, selection_text(self._pool, selection), rows, count))
        return Html("<br>").join(lines)

    def _close(self) -> None:
        self._quick.close()
        self._slow.close()
        for view in self._other_views:
            view.close()


def _ignore(_: Any) -> None:
    """Ignore the result of a precomputation; it and its errors are requested again."""
