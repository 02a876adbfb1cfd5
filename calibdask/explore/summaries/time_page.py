"""The page of time of a summary: since when which slices are off, on what evidence, and what has changed."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import xarray as xr

from calibdask.explore.cancellation import CancelToken, LatestOnly, error_text
from calibdask.explore.html_widgets import html_pane
from calibdask.explore.summaries.pool import Pool, Selection
from calibdask.explore.summaries.selection_widgets import label_text, range_widget, selection_text
from calibdask.explore.summaries.slices_over_time import (
    SlicesOverTime,
    TimeQuery,
    pending_positions,
    pending_rows,
    period_dims,
    periods_of,
)
from calibdask.explore.summaries.time_texts import READ_ON, alarm_text, alarms_first, evidence_line
from calibdask.markup import Html
from calibdask.plot.changes import GapChange, change_list, change_picture, change_text
from calibdask.plot.over_time import (
    evidence_picture,
    gap_picture,
    small_caption,
    small_picture,
    small_range,
    style,
)
from calibdask.results.format import counted
from calibdask.results.over_time import (
    VERSIONS,
    GapEnds,
    Mark,
    OverTime,
    evidence_text,
    headline,
    others_text,
    points_text,
    ranked,
    version_marks,
)

_TOLERANCES = {"none": 0.0, "0.5 points": 0.005, "1 point": 0.01, "2 points": 0.02, "5 points": 0.05}
_ALPHAS = {"1 in 20": 0.05, "1 in 100": 0.01, "1 in 1,000": 0.001}
_MOST_SMALL, _MOST_CHANGES = 24, 10
_COLUMNS = ("rows", "gap", "gap_low", "gap_high", "period_gap", "period_low", "period_high", "log_e", "alarm")
_CSS = """
.figures { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 21rem), 1fr)); gap: 8px 24px; }
.figures.small { grid-template-columns: repeat(auto-fill, minmax(min(46%, 11rem), 1fr)); gap: 8px 16px; }
figure { margin: 0; max-width: 34rem; } .small figure { max-width: 16rem; }
figcaption { font-size: 12.5px; color: var(--soft); overflow-wrap: anywhere; }
h2 { font-size: 1.1rem; margin: 14px 0 4px; } p { margin: 4px 0; max-width: 60rem; }
.time .running, .time .alone { stroke: var(--ink, #1d2329); } .time path.sequence { fill: var(--band, #555); }
.time .since { fill: var(--broken); } .time .alarm { stroke: var(--broken); }
.time text.beginning, .time text.alarming { fill: var(--broken); }
.line { font-size: 1.15rem; font-weight: 600; } .quiet { color: var(--soft); font-size: 12.5px; }
"""
_READING = (
    "Gaps: observed rate minus mean prediction so far, with a confidence sequence valid at all periods; faint: each "
    "period alone with an ordinary interval. Above 0 scores are too low. Evidence: the share of calibrated "
    "models that ever reach the dashed line is at most the false-alarm rate. Shaded: the period over which the "
    "evidence grows."
)


class TimePage:
    """The state of one session: widgets and panes, filled on demand and in the background.

    Parameters
    ----------
    pool : Pool
        With at least one dimension that can be a period.
    document : bokeh document or None
        Where results are shown; None: all is computed at once.
    due : str, optional
        When the outcomes of a period are known, as for `calibdask.watch`: before that it is pending, and not watched.
    """

    def __init__(self, pool: Pool, document: Any, due: str | None = None) -> None:

        self._pool = pool
        # For each dimension of periods, the positions of those that are not due.
        self._pending = {} if due is None else {dim: pending_positions(pool, dim, due) for dim in period_dims(pool)}
        self._job = LatestOnly(document)
        self._query: TimeQuery | None = None
        self._windows: tuple[tuple[int, int], tuple[int, int]] | None = None
        self._whole: SlicesOverTime | None = None
        self._slices: SlicesOverTime | None = None
        self._change: list[GapChange] | None = None
        self._since: tuple[OverTime, GapEnds] | None = None
        self._error = ""
        self._make_widgets()
        wide: dict[str, Any] = {"sizing_mode": "stretch_width", "stylesheets": [style(), _CSS]}
        self.head, self.pictures, self.changes, self.small, self.busy = (html_pane(**wide) for _ in range(5))

    def _make_widgets(self) -> None:
        import panel as pn

        pool = self._pool
        periods = period_dims(pool)
        slices = [dim for dim in pool.slices if dim != periods[0]]
        coordinates = [str(name) for name in pool.summary.coords if pool.summary[name].dims == (periods[0],)]
        versions = [*(name for name in coordinates if name not in pool.axes), *slices]
        usual = next((name for name in VERSIONS if name in versions), "")
        by = next((dim for dim in slices if dim not in VERSIONS), "")
        self.period = pn.widgets.Select(label="Period", options=periods, width=150, visible=len(periods) > 1)
        self.tolerance = pn.widgets.Select(label="Tolerated gap", options=_TOLERANCES, width=110)
        self.alpha = pn.widgets.Select(label="False alarms", options=_ALPHAS, width=110)
        options = {"none": "", **{dim: dim for dim in pool.slices}}
        self.by = pn.widgets.Select(label="Slices", options=options, value=by, width=150, visible=bool(slices))
        marked = {"none": "", **{name: name for name in versions}}
        self.version = pn.widgets.Select(
            label="Version of the model", options=marked, value=usual, width=150, visible=bool(versions)
        )
        self.sliders = {dim: self._window_widgets(dim) for dim in periods}

    def _window_widgets(self, period: str) -> tuple[Any, Any]:
        """Where a change is measured from and to: the first half and the second."""
        labels = periods_of(self._pool, period)
        half = max(1, len(labels) // 2)
        before = range_widget("before", labels, (0, half - 1))
        after = range_widget("after", labels, (min(half, len(labels) - 1), len(labels) - 1))
        return before, after

    @property
    def widgets(self) -> dict[str, Any]:
        """All widgets by their names in the URL."""
        named = {"period": self.period, "tolerance": self.tolerance, "alpha": self.alpha}
        sliders = {
            f"{name}-{dim}": widget
            for dim, pair in self.sliders.items()
            for name, widget in zip(("before", "after"), pair, strict=True)
        }
        return {**named, "time-by": self.by, "version": self.version, **sliders}

    @property
    def listed(self) -> list[Any]:
        """Widgets of the page from top to bottom."""
        import panel as pn

        windows = [widget for pair in self.sliders.values() for widget in pair]
        chosen = pn.FlexBox(self.period, self.by, self.tolerance, self.alpha, self.version)
        self._show_sliders()
        heading = html_pane(Html("<h2>Changes from before to after</h2>"), stylesheets=[_CSS])
        below = [heading, pn.FlexBox(*windows), self.changes]
        return [self.head, chosen, self.pictures, self.busy, self.small, *below]

    def ask(self, selection: Selection, setting: str | int | None) -> None:
        """Show a selection over time: all rows first, then slices and changes, in the background."""
        by = self.by.value if self.by.value != self.period.value else ""
        pending = self._pending.get(self.period.value, ())
        query = TimeQuery(self.period.value, selection, setting, self.tolerance.value, self.alpha.value, by, pending)
        self._show_sliders()
        before, after = (widget.value for widget in self.sliders[query.period])
        windows = (tuple(before), tuple(after))
        if query != self._query:
            self._query, self._windows = query, windows
            self._whole = self._slices = self._change = self._since = None
            self._error = ""
        elif windows != self._windows:
            self._windows, self._change, self._error = windows, None, ""
        self._draw()
        self._go_on()

    def pause(self) -> None:
        """Stop working until it is asked again."""
        self._job.cancel()

    def close(self) -> None:
        """Stop for good."""
        self._job.close()

    def frame(self) -> Any:
        """All numbers that are shown, by slice and period."""
        processes = [*self._of(self._whole), *self._of(self._slices)]
        if not processes:
            raise ValueError("There are no numbers yet.")
        columns = {
            "slice": [np.full(one.periods.size, one.label or "all rows", object) for one in processes],
            processes[0].period: [one.periods for one in processes],
            **{name: [getattr(one, name) for one in processes] for name in _COLUMNS},
        }
        lines = {name: ("line", np.concatenate(parts)) for name, parts in columns.items()}
        return xr.Dataset(lines).to_dataframe().reset_index(drop=True)

    def _show_sliders(self) -> None:
        for dim, pair in self.sliders.items():
            for widget in pair:
                widget.visible = dim == self.period.value and widget.end > 0

    def _go_on(self) -> None:
        """Take the next step, after which the page shows more; nothing if there is none."""
        query = self._query
        assert query is not None
        leading = self._leading()
        if self._whole is None or not self._whole.done:
            alone = replace(query, by="")
            self._step("all rows", lambda token: {"_whole": self._over_time(self._whole, alone, token)})
        elif self._change is None and not self._error:
            self._step(f"change between two windows of {query.period}", lambda _: self._changed(query))
        elif query.by and (self._slices is None or not self._slices.done):
            so_far = 0 if self._slices is None else self._slices.ready
            words = f"slices by {query.by}, {so_far:,} so far"
            self._step(words, lambda token: {"_slices": self._over_time(self._slices, query, token)})
        elif leading is not None and leading.is_off and self._since is None:
            self._step("gap since then", lambda _: {"_since": (leading, self._source_of(leading).since(leading))})
        else:
            self.busy.object = ""

    def _step(self, words: str, job: Callable[[CancelToken], dict[str, Any]]) -> None:
        """Run a job off the event loop, and store its results as attributes."""
        self.busy.object = Html("<span class='quiet'>computing: {} …</span>").format(words)

        def show(results: dict[str, Any]) -> None:
            for name, result in results.items():
                setattr(self, name, result)
            self._draw()
            self._go_on()

        self._job.start(job, show=show, fail=self._fail)

    def _fail(self, error: Exception) -> None:
        self.busy.object = Html("<b>{}</b>").format(error_text(error))

    def _over_time(self, slices: SlicesOverTime | None, query: TimeQuery, token: CancelToken) -> SlicesOverTime:
        """One more step of what has been begun, or the first."""
        slices = slices or SlicesOverTime(self._pool, query)
        slices.step(token.is_cancelled)
        return slices

    def _changed(self, query: TimeQuery) -> dict[str, Any]:
        """Decomposition of the change, for the class that changed most, or the reason why there is none."""
        assert self._windows is not None
        slices = self._slices or (SlicesOverTime(self._pool, query) if query.by else self._whole)
        assert slices is not None
        kept: dict[str, Any] = {"_slices": slices} if query.by else {}
        try:
            change = slices.change(*self._windows)
        except ValueError as error:
            return kept | {"_error": error_text(error)}
        class_dim = change.attrs["class_dim"]
        if class_dim in change.dims:
            change = change.isel({class_dim: int(abs(change["all_total"]).argmax(class_dim))})
        return kept | {"_change": change_list(change, _MOST_CHANGES)}

    def _source_of(self, process: OverTime) -> SlicesOverTime:
        """The slices or the total that monitored the process."""
        is_slice = self._slices is not None and self._slices.query.by in process.at
        slices = self._slices if is_slice else self._whole
        assert slices is not None
        return slices

    @staticmethod
    def _of(slices: SlicesOverTime | None) -> list[OverTime]:
        return [] if slices is None else slices.processes()

    def _leading(self) -> OverTime | None:
        return headline(self._of(self._whole), self._of(self._slices))

    def _draw(self) -> None:
        import panel as pn

        whole, slices = self._of(self._whole), self._of(self._slices)
        with pn.io.hold():
            self.head.object = self._head(whole, slices)
            self.pictures.object = self._pictures(whole, headline(whole, slices))
            self.small.object = self._small(whole, slices)
            self.changes.object = self._changes()

    def _head(self, whole: Sequence[OverTime], slices: Sequence[OverTime]) -> Html:
        assert self._query is not None
        selection = self._query.selection
        rows = f"{selection_text(self._pool, selection)}: {self._pool.rows(selection):,} rows"
        leading = headline(whole, slices)
        if leading is None:
            words = "" if self._whole is None or not self._whole.done else "There are no rows in any period."
            return Html("<p class='line'>{}</p><p class='quiet'>{}</p>").format(words, rows)
        since = self._since[1] if self._since is not None and self._since[0].at == leading.at else None
        others = others_text(leading, [*whole, *slices])
        notes = () if self._whole is None else self._whole.notes
        clustered = Html().join(Html("<p class='quiet'>{}.</p>").format(note[:1].upper() + note[1:]) for note in notes)
        return Html(
            "<p class='line'>{}</p><p>{}</p><p class='quiet'>{}</p>{}"
            "<p class='quiet'>{} In the documentation: <cite>{}</cite>.</p>"
        ).format(
            alarm_text(leading, self._model(selection), since), others, rows, clustered, evidence_line(leading), READ_ON
        )

    def _model(self, selection: Selection) -> str:
        """The name of the model that is watched; empty where there is one alone."""
        places = dict(selection.models)
        return " · ".join(label_text(self._pool.labels[dim][places.get(dim, 0)]) for dim in self._pool.models)

    def _marks(self) -> list[Mark]:
        if not self.version.value or self._query is None or self.version.value == self._query.period:
            return []
        marks = version_marks(self._pool.summary, self._query.period, self.version.value)
        return [mark for mark in marks if mark.period == mark.period]

    def _pictures(self, whole: Sequence[OverTime], leading: OverTime | None) -> Html:
        """All rows, and the slice that is off."""
        order = ranked(whole)[:1]
        if not order:
            return Html()
        assert self._query is not None
        pending = pending_rows(self._pool, self._query)
        marks, figures, selected = self._marks(), [], selection_text(self._pool, self._query.selection)
        for process in [*order, *([leading] if leading is not None and leading not in order else [])]:
            # Pending rows are known of all rows together.
            given = (process, marks, pending if process in order else None)
            whom = process.label or selected
            figures += [
                _figure(gap_picture(*given), f"{whom}: {points_text(process.running)} so far"),
                _figure(evidence_picture(*given), f"{whom}: evidence {evidence_text(process.evidence)}"),
            ]
        more = " Dotted lines: a new version of the model." * bool(marks)
        more += " Grey: not due, and not tested." * (pending is not None)
        return Html("<div class='figures'>{}</div><p class='quiet'>{}{}</p>").format(
            Html().join(figures), _READING, more
        )

    def _small(self, whole: Sequence[OverTime], slices: Sequence[OverTime]) -> Html:
        """Slices, those with alarms first, then the largest; and classes, the most evidence first."""
        parts = []
        classes = ranked(whole) if len(whole) > 1 else []
        by = "" if self._query is None else self._query.by
        for name, order in (("class", classes), (by, alarms_first(slices))):
            if not order:
                continue
            shown = order[:_MOST_SMALL]
            powers = small_range(shown)
            figures = Html().join(_figure(small_picture(one, powers), small_caption(one)) for one in shown)
            count = counted(len(order), "slice") if name else ""
            if len(shown) < len(order):
                count = f"The first {len(shown):,} of {count}"
            if name == by and self._slices is not None and not self._slices.done:
                count += f" so far; there are {self._slices.count:,}"
            which = "most evidence first" if name == "class" and order is classes else "alarms first, then the largest"
            parts.append(Html("<h2>By {}, {}</h2><p class='quiet'>{}</p>").format(name, which, count))
            parts.append(Html("<div class='figures small'>{}</div>").format(figures))
        return Html().join(parts)

    def _changes(self) -> Html:
        if self._error:
            return Html("<p>{}</p>").format(self._error)
        if not self._change:
            return Html()
        text = f"Change of the mean gap of all rows: {change_text(self._change[0])}."
        ends = "Each row counts once; no intervals, as rows of a cluster are dependent"
        caption = f"{ends if self._pool.clustered else 'With intervals'}; the largest contributions first."
        picture = _figure(change_picture(self._change, text), caption)
        return Html("<p>{}</p><div class='figures'>{}</div>").format(text, picture)


def _figure(picture: Html, caption: str) -> Html:
    return Html("<figure>{}<figcaption>{}</figcaption></figure>").format(picture, caption)
