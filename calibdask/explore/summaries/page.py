"""The page of a summary: slices pooled as they are chosen, compared, and the worst of them first."""

from collections.abc import Callable
from functools import partial
from html import escape
from time import sleep
from typing import Any

import xarray as xr

from calibdask.explore.exports import downloads
from calibdask.explore.latest import Latest, Stopped, Watch, error_words
from calibdask.explore.link import remember
from calibdask.explore.serving import Page
from calibdask.explore.summaries.figures import COLORS
from calibdask.explore.summaries.measuring import Choice, Refinement, cautions, later, quick, without_interval
from calibdask.explore.summaries.pictures import Pictures
from calibdask.explore.summaries.pools import Pool, Selection, pool_of
from calibdask.explore.summaries.second import SecondWidgets
from calibdask.explore.summaries.selecting import SelectionWidgets, worded
from calibdask.explore.summaries.table import curve_frame, diagram_frame, metrics_frame, metrics_table
from calibdask.explore.summaries.worst_table import WorstTable

__all__ = ["summary_page"]

_BINS = [10, 15, 20, 30, 60, 100]
_BINNINGS = {"of equal width": "uniform", "of equal mass": "equal-mass"}
# Whoever goes on choosing is not to be slowed down by intervals of what has been chosen before: a pause in seconds.
_PAUSE = 0.3
_ORDER = "order of the slices"
_NOTE = (
    "Values, intervals of binned errors and the pointwise band are there at once; the simultaneous band and the "
    "intervals of smoothed errors follow. All intervals: 95 %, 200 replicates, those that calibdask.evaluate gives."
)

# What is computed, in words; how; and how it is shown.
_Step = tuple[str, Callable[[], Any], Callable[[Any], object]]


def summary_page(summary: xr.Dataset, name: str) -> Page:
    """The page of a summary, for one session.

    Parameters
    ----------
    summary : xarray.Dataset
        What `calibdask.summarize` made; its numbers are read when they are looked at.
    name : str
        Heading.
    """
    return _SummaryPage(pool_of(summary), name).page()


class _SummaryPage:
    """The state of one session."""

    def __init__(self, pool: Pool, name: str) -> None:
        import panel as pn

        self._pool, self._name, self._document = pool, name, pn.state.curdoc
        self._quick, self._slow = Latest(self._document), Latest(self._document)
        self._is_waiting = self._is_busy = False
        self._shown: tuple[Choice, list[Selection]] | None = None
        self._results: list[xr.Dataset] = []
        self._named: list[str] = []
        self._pending: set[str] = set()
        self._steps: list[_Step] = []
        self._make_widgets()
        self._worst = WorstTable(pool, self._a.choose, self._order_slices)
        self._head = pn.pane.HTML("", sizing_mode="stretch_width")
        self._busy = pn.pane.HTML("", sizing_mode="stretch_width", margin=(0, 10))
        box = pn.Row(sizing_mode="stretch_width", styles={"flex-wrap": "wrap", "gap": "4px 12px"})
        self._pictures, self._picture = Pictures(box), pn.Column(box, sizing_mode="stretch_width")
        self._numbers = pn.pane.HTML("", sizing_mode="stretch_width")
        self._note = pn.pane.HTML(_small(_NOTE), sizing_mode="stretch_width")

    def page(self) -> Page:
        """The page, with what is asked for first on the way."""
        import panel as pn

        remember(self._widgets)
        for widget in self._widgets.values():
            widget.param.watch(self._changed, "value")
        if self._document is None:
            self._refresh()
        else:
            pn.state.on_session_destroyed(lambda _: self._close())
            # Before that a browser may miss what is put on the page.
            pn.state.onload(self._refresh)
        frames = {"metrics": metrics_frame, "diagram": diagram_frame, "curve": curve_frame}
        tables: dict[str, Callable[[], Any]] = {word: partial(self._frame, frame) for word, frame in frames.items()}
        if self._pool.slices:
            tables["slices"] = self._worst.frame
        files = downloads(self._name.partition(".")[0], tables, self._picture)
        main = [self._head, self._picture, self._busy, self._numbers, self._note, files, *self._worst.listed]
        return Page(self._name, self._side(), main)

    def _frame(self, make: Callable[[list[xr.Dataset], list[str]], Any]) -> Any:
        """A table to save."""
        if not self._results:
            raise ValueError("There are no numbers yet.")
        return make(self._results, self._named)

    def _make_widgets(self) -> None:
        import panel as pn

        settings = self._pool.settings()
        wide = {"width": 305}
        self._setting = pn.widgets.Select(
            label="Setting", options=settings, value=next(iter(settings.values())), visible=len(settings) > 1, **wide
        )
        self._bins = pn.widgets.Select(label="Bins", options=_BINS, value=15, width=90)
        self._binning = pn.widgets.Select(label="Binning", options=_BINNINGS, width=195)
        self._compare = pn.widgets.Checkbox(label="Compare with a second selection, B", value=False)
        self._a, self._b = SelectionWidgets(self._pool, "a"), SecondWidgets(self._pool)

    @property
    def _widgets(self) -> dict[str, Any]:
        own = {"setting": self._setting, "bins": self._bins, "binning": self._binning, "compare": self._compare}
        return {**own, **self._a.widgets, **self._b.widgets, **self._worst.widgets}

    def _side(self) -> list[Any]:
        import panel as pn

        first = pn.Column(_heading("A", COLORS[0]), visible=self._compare.value)
        second = pn.Column(_heading("B", COLORS[1]), *self._b.listed, visible=self._compare.value)
        for only_of_two in (first, second):
            self._compare.link(only_of_two, value="visible")
        chosen = [first, *self._a.listed, self._compare, second] if self._a.listed else []
        return [self._setting, pn.Row(self._bins, self._binning), *chosen]

    def _changed(self, *_: Any) -> None:
        """Something has been chosen: several changes at once make one new view."""
        if self._document is None:
            self._refresh()
        elif not self._is_waiting:
            self._is_waiting = True
            self._document.add_next_tick_callback(self._refresh)

    def _refresh(self) -> None:
        """Begin with what is quick; all that has been begun for another choice is called off."""
        self._is_waiting = False
        choice = Choice(self._setting.value, self._bins.value, self._binning.value)
        first = self._a.selection()
        selections = [first, *([self._b.selection(first)] if self._compare.value else [])]
        self._worst.ask(selections[0], choice)
        if (choice, selections) == self._shown:
            self._order_slices()
            return
        self._slow.stop()
        self._steps, self._shown, self._is_busy = [], None, False
        if not self._pool.is_read(choice.setting):
            self._busy.object = _small("reading the summary …")
        self._quick.start(
            lambda _: self._measured(selections, choice),
            show=lambda found: self._show(selections, choice, found),
            fail=lambda error: self._fail(selections, error),
        )

    def _measured(self, selections: list[Selection], choice: Choice) -> list[tuple[xr.Dataset, xr.Dataset]]:
        """The summary of each selection, and what is quick to say of it."""
        found: list[tuple[xr.Dataset, xr.Dataset]] = []
        for selection in selections:
            if not self._pool.rows(selection):
                raise ValueError("There are no rows in this selection.")
            pooled = self._pool.pooled(selection, choice.setting)
            like = found[0][1] if found else None
            found.append((pooled, quick(pooled, choice, banded=_banded(selections, choice), like=like)))
        return found

    def _show(self, selections: list[Selection], choice: Choice, found: list[tuple[xr.Dataset, xr.Dataset]]) -> None:
        """What is quick; then, step by step, the rest."""
        self._shown = (choice, selections)
        self._results = [result for _, result in found]
        self._named = [worded(self._pool, selection) for selection in selections]
        banded = _banded(selections, choice)
        steps = [(i, step) for i, (pooled, _) in enumerate(found) for step in later(pooled, choice, banded=banded)]
        # All of one kind, then all of the next: what takes longest is last.
        kinds = [step.words for _, step in steps]
        steps.sort(key=lambda step: kinds.index(step[1].words))
        self._pending = {name for _, step in steps for name in step.names}
        self._head.object = self._described(selections) + _warned(self._results)
        self._note.object = _small(_NOTE + _left_out(without_interval(found[0][0], choice)))
        self._draw()
        self._steps = [self._refining(*step) for step in steps]
        self._order_slices()

    def _draw(self) -> None:
        import panel as pn

        with pn.io.hold():
            self._picture.visible = True
            self._pictures.show(self._results)
            self._numbers.object = metrics_table(self._results, self._pending)

    def _refining(self, number: int, refinement: Refinement) -> _Step:
        """The step that makes some intervals of one of the results."""

        def show(more: xr.Dataset) -> None:
            self._results[number] = self._results[number].assign(more.data_vars)
            self._draw()

        return refinement.words, refinement.compute, show

    def _order_slices(self) -> None:
        """Order slices before the last of the steps, which takes longest."""
        self._steps = [step for step in self._steps if step[0] != _ORDER]
        self._steps.insert(max(0, len(self._steps) - len(self._results)), self._ordering)
        if not self._is_busy:
            self._go_on()

    @property
    def _ordering(self) -> _Step:
        """The step that orders slices for a moment, and then goes on with it if it is worth it."""

        def show(found: tuple[Any, bool]) -> None:
            asked, enough = found
            self._worst.show(asked, enough=enough)
            if not enough and not any(words == _ORDER for words, *_ in self._steps):
                self._steps.insert(0, self._ordering)

        return _ORDER, self._worst.go_on, show

    def _go_on(self) -> None:
        """Take the next step, after which the page shows more."""
        pause = 0.0 if self._is_busy else _PAUSE
        self._is_busy = bool(self._steps)
        if not self._steps:
            self._busy.object = ""
            return
        words, job, show = self._steps.pop(0)
        self._busy.object = _small(f"computing: {words} …")

        def shown(found: Any) -> None:
            show(found)
            self._go_on()

        self._slow.start(lambda watch: _after(pause, watch, job), show=shown, fail=self._stop)

    def _fail(self, selections: list[Selection], error: Exception) -> None:
        """Nothing can be shown of a selection."""
        self._results, self._named, self._numbers.object = [], [], ""
        self._picture.visible = False
        self._head.object = f"{self._described(selections)}<p><b>{escape(error_words(error))}</b></p>"
        self._stop(None)

    def _stop(self, error: Exception | None) -> None:
        """No further steps, because of an error if there is one."""
        self._steps, self._is_busy = [], False
        self._busy.object = "" if error is None else f"<b>{escape(error_words(error))}</b>"

    def _described(self, selections: list[Selection]) -> str:
        """The selections in words, with their rows."""
        lines = []
        for number, selection in enumerate(selections):
            mark = f"{_dot(COLORS[number])} <b>{'AB'[number]}</b> " if len(selections) > 1 else ""
            rows, slices = self._pool.rows(selection), self._pool.numbers(selection).size
            count = f", {slices:,} of {self._pool.slice_count:,} slices" if self._pool.slices else ""
            lines.append(f"{mark}{escape(worded(self._pool, selection))}: <b>{rows:,} rows</b>{count}")
        return "<br>".join(lines)

    def _close(self) -> None:
        self._quick.close()
        self._slow.close()


def _banded(selections: list[Selection], choice: Choice) -> bool:
    """Whether there is time for bands at once: not for those of all classes twice."""
    return len(selections) == 1 or choice.setting != "classwise"


def _after(pause: float, watch: Watch, job: Callable[[], Any]) -> Any:
    """Do a job after a pause, unless it has been called off by then."""
    sleep(pause)
    if watch.is_stopped():
        raise Stopped
    return job()


def _left_out(names: list[str]) -> str:
    """What has no interval on the page."""
    if not names:
        return ""
    words = " and ".join(name.replace("_", " ") for name in names)
    return f" Over so many classes those of {words} take too long for a page; calibdask.evaluate gives them too."


def _small(words: str) -> str:
    return f"<small style='color: #5f6b76'>{words}</small>"


def _warned(results: list[xr.Dataset]) -> str:
    """What to beware of."""
    several = len(results) > 1
    lines = [
        f"<div style='color: #8a4b00'>⚠ {f'{letter}: ' if several else ''}{escape(words)}</div>"
        for letter, result in zip("AB", results, strict=False)
        for words in cautions(result)
    ]
    return "".join(lines)


def _dot(color: str) -> str:
    return f"<span style='color: {color}'>●</span>"


def _heading(letter: str, color: str) -> Any:
    import panel as pn

    return pn.pane.HTML(f"{_dot(color)} <b>Selection {letter}</b>", margin=(8, 10, 0, 10))
