"""A view of one analysis of a selection: its sentences first, then figures, then a table."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from string import Template
from typing import Any

import numpy as np
import xarray as xr

from calibdask.explore.cancellation import LatestOnly, error_text
from calibdask.explore.html_widgets import html_pane
from calibdask.explore.summaries.pool import Pool, Selection
from calibdask.explore.summaries.selection_widgets import selection_text
from calibdask.markup import Html
from calibdask.plot.style import BAND
from calibdask.render.html import element_html
from calibdask.results.document import Document, Element, Section, Sentence

# 0: chosen by the observed rate, which is known once the histogram has been read.
_SHARES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 20, 30, 40, 50, 60, 70, 80, 90)
_ACTED = {"by the observed rate": 0.0, **{f"{share} %": share / 100 for share in _SHARES}}
_CSS = Template("""
p { margin: 4px 0 8px; max-width: 60rem; overflow-wrap: anywhere; } code { font-size: .95em; }
.line { font-size: 1.15rem; font-weight: 600; } .quiet { color: var(--soft); font-size: 12.5px; }
.figures { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 21rem), 1fr)); gap: 8px 24px; }
figure { margin: 8px 0; max-width: 34rem; } figcaption { font-size: 12.5px; color: var(--soft); }
.picture { display: block; width: 100%; height: auto; }
.picture text { font: 10.5px system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif;
  fill: var(--soft, #56606a); }
.grid { stroke: var(--rule, #d9dee3); stroke-width: .7; }
.band { fill: var(--band, $band); fill-opacity: .15; } .ends { fill: var(--band, $band); fill-opacity: .27; }
.curve { fill: none; stroke: var(--ink, #1d2329); stroke-width: 2.1; stroke-linejoin: round; }
.reference { fill: none; stroke: var(--soft, #56606a); stroke-width: 1.7; stroke-dasharray: 6 4; }
.reference.dotted { stroke-dasharray: 1.5 3.5; }
.table { overflow-x: auto; } caption { text-align: left; color: var(--soft); }
table { border-collapse: collapse; margin: 8px 0; font-size: 13px; }
th, td { padding: 3px 14px 3px 0; text-align: right; white-space: nowrap;
  border-bottom: 1px solid var(--rule, #d9dee3); }
th { font-weight: 600; vertical-align: bottom; white-space: normal; max-width: 9rem; }
th:first-child, td:first-child { text-align: left; }
""").substitute(band=BAND)


@dataclass(frozen=True, eq=False)
class Answer:
    """Result of a view: texts, numbers and charts.

    Attributes
    ----------
    document : Document
    numbers : tuple of xarray.Dataset
        The results that it was made from, to save.
    offered : tuple of str and mapping, optional
        A slice to look at next: its name, and its position along dimensions.
    """

    document: Document
    numbers: tuple[xr.Dataset, ...] = ()
    offered: tuple[str, Mapping[str, int]] | None = None

    @classmethod
    def of(cls, *elements: Element, numbers: tuple[xr.Dataset, ...] = ()) -> "Answer":
        """An answer of these elements."""
        return cls(Document("", "", [Section("answer", "", elements)]), numbers)

    @property
    def words(self) -> Html:
        """The sentences, but for those in small letters."""
        return Html().join(element_html(element) for element in self.document.elements() if _is_said(element))

    @property
    def evidence(self) -> Html:
        """Figures, tables and small print, below each other."""
        elements = [element for element in self.document.elements() if not _is_said(element)]
        return Html().join(map(element_html, elements))


def _is_said(element: Element) -> bool:
    return isinstance(element, Sentence) and not element.quiet


class AnswerPage:
    """The state of one session: the widgets of a question, and the answer, found in the background.

    Parameters
    ----------
    pool : Pool
    document : bokeh document or None
        Where answers are shown; None: they are found at once.
    answer : function
        From a selection, a setting and the values of the widgets to the answer.
    words : str
        What is being computed.
    widgets : mapping from str to widget
        By their names in the URL.
    choose : function, optional
        Called with the position of a slice that the answer offers.
    """

    def __init__(
        self,
        pool: Pool,
        document: Any,
        answer: Callable[..., Answer],
        words: str,
        widgets: Mapping[str, Any],
        choose: Callable[[dict[str, int]], None] | None = None,
    ) -> None:
        import panel as pn

        self._pool, self._job, self._find, self._words = pool, LatestOnly(document), answer, words
        self._query: tuple[Any, ...] | None = None
        self._answer: Answer | None = None
        self.widgets = dict(widgets)
        wide: dict[str, Any] = {"sizing_mode": "stretch_width", "stylesheets": [_CSS]}
        self.busy, self.notes_text, self.shown = (html_pane(**wide) for _ in range(3))
        self.offer = pn.widgets.Button(label="", visible=False)
        if choose is not None:
            self.offer.on_click(lambda _: choose(self._offered))

    @property
    def listed(self) -> list[Any]:
        """Widgets of the page from top to bottom."""
        import panel as pn

        widgets = [pn.FlexBox(*self.widgets.values())] if self.widgets else []
        return [*widgets, self.busy, self.notes_text, self.offer, self.shown]

    def ask(self, selection: Selection, setting: str | int | None) -> None:
        """Answer for a selection."""
        if "act" in self.widgets:
            # One acts on scores of an outcome.
            self.widgets["act"].visible = setting != "confidence"
        values = [widget.value for widget in self.widgets.values()]
        query = (selection, setting, *values)
        if query == self._query:
            return
        self._query = query
        self.busy.object = Html("<span class='quiet'>computing: {} …</span>").format(self._words)
        self._job.start(lambda _: self._computed(selection, setting, values), show=self._show, fail=self._fail)

    def pause(self) -> None:
        """Stop working until it is asked again."""
        self._job.cancel()
        if self.busy.object:
            self._query = None

    def close(self) -> None:
        """Stop for good."""
        self._job.close()

    def frame(self) -> Any:
        """The numbers behind the answer."""
        if self._answer is None or not self._answer.numbers:
            raise ValueError("There are no numbers.")
        lines = [xr.Dataset.from_dataframe(numbers.to_dataframe().reset_index()) for numbers in self._answer.numbers]
        parts = [part.assign_coords(index=np.arange(part.sizes["index"])) for part in lines]
        return xr.concat(parts, "index", data_vars="all", join="outer").to_dataframe().reset_index(drop=True)

    def _computed(self, selection: Selection, setting: str | int | None, values: list[Any]) -> Answer:
        if not self._pool.rows(selection):
            raise ValueError("There are no rows in this selection.")
        return self._find(selection, setting, *values)

    @property
    def _offered(self) -> dict[str, int]:
        """The slice that the answer offers, by positions."""
        return dict(self._answer.offered[1]) if self._answer is not None and self._answer.offered else {}

    def _show(self, answer: Answer) -> None:
        assert self._query is not None
        selection = self._query[0]
        rows = f"{selection_text(self._pool, selection)}: {self._pool.rows(selection):,} rows"
        self._answer, self.busy.object, self.notes_text.object = answer, "", answer.words
        self.shown.object = answer.evidence + Html("<p class='quiet'>{}</p>").format(rows)
        self.offer.visible = answer.offered is not None
        if answer.offered is not None:
            self.offer.label = f"Select {answer.offered[0]}"

    def _fail(self, error: Exception) -> None:
        self._answer = None
        self.busy.object, self.shown.object, self.offer.visible = "", "", False
        self.notes_text.object = element_html(Sentence(error_text(error), lead=True))


def answer_pages(
    pool: Pool, document: Any, name: str, choose: Callable[[dict[str, int]], None]
) -> dict[str, AnswerPage]:
    """The views of decisions and of recalibration, by their names; slices that they offer are chosen."""
    import panel as pn

    def decided(*arguments: Any) -> Answer:
        # With what they need these modules take seconds, for which a page that is not opened need not wait.
        from calibdask.explore.summaries.decisions_answer import decisions

        return decisions(pool, name, *arguments)

    def recalibrated(*arguments: Any) -> Answer:
        from calibdask.explore.summaries.recalibration_answer import recalibration

        return recalibration(pool, name, *arguments)

    risk = pn.widgets.FloatInput(label="Risk allowed, %", value=5.0, start=0.1, end=99.0, step=1.0, width=140)
    act = pn.widgets.Select(label="Act on scores above", options=_ACTED, value=0.0, width=190)
    return {
        "decisions": AnswerPage(pool, document, decided, "risk and coverage", {"risk": risk, "act": act}),
        "recalibration": AnswerPage(pool, document, recalibrated, "maps fitted to parts of the rows", {}, choose),
    }
