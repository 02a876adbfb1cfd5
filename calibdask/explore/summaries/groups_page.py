"""The view of groups by features: those that are off, what they are part of, and each column by its values."""

import json
from typing import Any

import xarray as xr

from calibdask.analyses.auditing.audit_document import conclusion_of
from calibdask.analyses.auditing.audit_texts import points_up
from calibdask.explore.cancellation import LatestOnly, error_text
from calibdask.explore.html_widgets import html_pane
from calibdask.explore.summaries.audited_groups import AuditedGroups, GroupsQuery
from calibdask.explore.summaries.group_table import TABLE_WIDTH, GroupTable
from calibdask.explore.summaries.pool import Pool, Selection
from calibdask.explore.summaries.reliability_panel import ReliabilityPanel
from calibdask.markup import Html
from calibdask.results.format import counted, points_of

_LEAST = {f"{rows:,} rows": rows for rows in (30, 100, 300, 1000, 3000, 10_000, 100_000)}
_ALPHAS = {"5 %": 0.05, "1 %": 0.01, "0.1 %": 0.001}
_DESCRIBED, _FOUND, _ALL = "that explain the miscalibration", "that are miscalibrated", "all"
_CSS = """
h2 { font-size: 1.1rem; margin: 14px 0 4px; } p { margin: 4px 0; max-width: 60rem; overflow-wrap: anywhere; }
.line { font-size: 1.15rem; font-weight: 600; } .quiet { color: var(--soft); font-size: 12.5px; }
"""
_READING = Html(
    "<p class='quiet'>Gap: observed rate minus mean prediction, in points; below 0 the scores are too high "
    "(orange). Intervals are pointwise, p is adjusted for all subgroups. Click a row to select its subgroup.</p>"
)


class GroupsPage:
    """The state of one session: widgets and panes, filled in the background.

    Parameters
    ----------
    pool : Pool
        Of a summary with features.
    document : bokeh document or None
        Where results are shown; None: all is computed at once.
    """

    def __init__(self, pool: Pool, document: Any) -> None:
        import panel as pn

        cuts = pool.cuts
        assert cuts is not None
        self._pool, self._job = pool, LatestOnly(document)
        self._query: GroupsQuery | None = None
        self._groups: AuditedGroups | None = None
        depths = list(range(1, min(cuts.depth, len(cuts.features)) + 1))
        narrow = {"width": 125}
        self.depth = pn.widgets.Select(label="Columns at most", options=depths, value=depths[-1], **narrow)
        self.least = pn.widgets.Select(label="Subgroups of at least", options=_LEAST, value=100, **narrow)
        self.alpha = pn.widgets.Select(label="Found by chance", options=_ALPHAS, **narrow)
        self.which = pn.widgets.Select(label="Subgroups", options=[_DESCRIBED, _FOUND, _ALL], width=190)
        self.column = pn.widgets.Select(label="Column", options=[""], width=230)
        self.group = pn.widgets.TextInput(label="Selected subgroup", value="", visible=False)
        self.column.param.watch(lambda _: self._draw_column(), "value")
        self.which.param.watch(lambda _: self._draw_ranked(), "value")
        self.group.param.watch(lambda _: self._draw_selected(), "value")
        wide: dict[str, Any] = {"sizing_mode": "stretch_width", "stylesheets": [_CSS]}
        self.head, self.busy, self.selected = (html_pane(**wide) for _ in range(3))
        self.ranked, self.values = GroupTable(self._select), GroupTable(self._select, "value")
        self.wholes, self.parts = GroupTable(self._select, "it is part of"), GroupTable(self._select, "its parts")
        self.panel = ReliabilityPanel(1, bins=True)
        # It stands below words, not beside other panels.
        self.panel.pane.styles = {"max-width": "620px", "width": "100%"}

    @property
    def widgets(self) -> dict[str, Any]:
        """All widgets by their names in the URL."""
        chosen = {"depth": self.depth, "least": self.least, "alpha": self.alpha, "groups": self.which}
        return {
            **{f"audit-{name}": widget for name, widget in chosen.items()},
            "column": self.column,
            "group": self.group,
        }

    @property
    def listed(self) -> list[Any]:
        """Widgets of the page from top to bottom."""
        import panel as pn

        def beside(*items: Any, wide: int) -> Any:
            styles = {"flex": f"1 1 {wide}px", "min-width": f"min({wide}px, 100%)"}
            return pn.Column(*items, sizing_mode="stretch_width", styles=styles)

        def row(*items: Any) -> Any:
            return pn.Row(*items, sizing_mode="stretch_width", styles={"flex-wrap": "wrap", "gap": "4px 20px"})

        chosen = pn.FlexBox(self.which, self.depth, self.least, self.alpha)
        diagram = beside(self.selected, self.panel.pane, wide=320)
        around = pn.Column(self.wholes.box, self.parts.box, sizing_mode="stretch_width")
        note = html_pane(
            Html("<p class='quiet'>{}</p>").format(_READING), stylesheets=[_CSS], sizing_mode="stretch_width"
        )
        return [
            self.head,
            chosen,
            self.busy,
            row(beside(self.ranked.box, around, wide=TABLE_WIDTH), diagram),
            html_pane(Html("<h2>One column at a time</h2>"), stylesheets=[_CSS]),
            self.column,
            self.values.box,
            note,
        ]

    def ask(self, selection: Selection) -> None:
        """Show the groups of a selection of slices."""
        query = GroupsQuery(selection, self.depth.value, self.least.value, self.alpha.value)
        if query == self._query:
            return
        self._query = query
        self.busy.object = Html("<span class='quiet'>computing: all subgroups …</span>")
        self._job.start(lambda _: AuditedGroups.of(self._pool, query), show=self._show, fail=self._fail)

    def pause(self) -> None:
        """Stop working until it is asked again."""
        self._job.cancel()
        if self.busy.object:
            self._query = None

    def close(self) -> None:
        """Stop for good."""
        self._job.close()

    def frame(self) -> Any:
        """All groups, in the order of their evidence."""
        if self._groups is None:
            raise ValueError("There are no numbers yet.")
        return self._groups.result.to_dataframe().reset_index()

    def _show(self, groups: AuditedGroups) -> None:
        import panel as pn

        self._groups = groups
        with pn.io.hold():
            self.busy.object = ""
            self.head.object = _head(groups)
            columns = groups.columns
            self.column.options = columns or [""]
            if self.column.value not in columns:
                self.column.value = columns[0] if columns else ""
            if self.group.value not in groups.lines_by_key:
                self.group.value = groups.keys[0] if groups.keys else ""
            self._draw_ranked()
            self._draw_column()
            self._draw_selected()

    def _fail(self, error: Exception) -> None:
        self.busy.object = Html("<b>{}</b>").format(error_text(error))

    def _select(self, line: int) -> None:
        """Select a group, which the page shows everywhere."""
        assert self._groups is not None
        self.group.value = self._groups.keys[line]

    def _draw_ranked(self) -> None:
        groups = self._groups
        if groups is None:
            return
        chosen = {_DESCRIBED: groups.described, _FOUND: groups.found}.get(self.which.value)
        self.ranked.show(groups.result, chosen() if chosen is not None else range(len(groups.texts)))

    def _draw_column(self) -> None:
        if self._groups is not None:
            self.values.show(self._groups.result, self._groups.of_column(self.column.value))

    def _draw_selected(self) -> None:
        groups = self._groups
        if groups is None:
            return
        line = groups.lines_by_key.get(self.group.value or "")
        self.panel.pane.visible = line is not None
        wholes, parts = ([], []) if line is None else groups.around(line)
        self.wholes.show(groups.result, wholes)
        self.parts.show(groups.result, parts)
        if line is None:
            self.selected.object = ""
            return
        text = _group_text(groups.result.isel(segment=line))
        self.selected.object = Html("<h2>{}</h2><p>{}</p>").format(groups.texts[line], text)
        self.panel.show("", [(groups.bins(line), None)])


def _group_text(one: xr.Dataset) -> str:
    """A group in words."""
    gap, low, high = points_of(*(float(one[name]) for name in ("gap", "gap_low", "gap_high")))
    off = f"{gap} points, {low} to {high}"
    return (
        f"{counted(int(one['rows']), 'row')}, mean score {float(one['mean_score']):.4f}, frequency "
        f"{float(one['frequency']):.4f}: gap {off}; calibration error over cells of "
        f"scores {float(one['ece']):.4f}, by chance {float(one['ece_chance']):.4f}."
    )


def _head(groups: AuditedGroups) -> Html:
    """The conclusion, and the errors that cannot be ruled out."""
    attributes = groups.result.attrs
    excluded = "; ".join(
        f"of at least {int(size):,} rows up to {points_up(error)} points"
        for size, error in json.loads(attributes["not_excluded"]).items()
    )
    not_excluded = f" Errors that cannot be ruled out for subgroups {excluded}." if excluded else ""
    looked = f"{counted(int(attributes['segments']), 'subgroup')} of {attributes['rows']:,} rows."
    return Html("<p class='line'>{}</p><p class='quiet'>{}{}</p>").format(
        conclusion_of(groups.result), looked, not_excluded
    )
