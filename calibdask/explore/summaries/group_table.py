"""A table of groups with small bars; a click on a line selects its group."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from calibdask.analyses.auditing.audit_texts import small_pvalue
from calibdask.explore.html_widgets import html_table, table_frame
from calibdask.markup import Html
from calibdask.plot.style import OVER, UNDER
from calibdask.results.format import signed_column
from calibdask.statistics.exact import Array

_LINES = 12
# Pages to turn to, where there are none.
_ONE_PAGE = ".tabulator-footer { display: none; }"
_WIDTH, _HEIGHT, _MARGIN = 108.0, 14.0, 4.0
_BAR, _GAP, _FROM, _TO, _ROWS, _P = "interval", "gap", "from", "to", "rows", "p, adjusted"
# In pixels. Whatever is beside a table leaves it that much: a number whose end is cut off is another number.
_WORDS, _WIDTHS = 160, {_BAR: 116, _GAP: 60, _FROM: 60, _TO: 60, _ROWS: 84, _P: 108}
TABLE_WIDTH = _WORDS + sum(_WIDTHS.values()) + 16


class GroupTable:
    """The table.

    Parameters
    ----------
    choose : function
        Called with the group of the line that was clicked.
    heading : str
        Over the column of groups.
    """

    def __init__(self, choose: Callable[[int], None], heading: str = "group") -> None:
        import panel as pn

        self._choose, self._heading = choose, heading
        self._groups: list[int] = []
        self.box = pn.Column(sizing_mode="stretch_width")

    def show(self, result: xr.Dataset, groups: Sequence[int]) -> None:
        """Show these groups of an audit, in this order; gaps are in points."""
        self._groups = list(groups)
        frame = _frame(result, self._groups, self._heading)
        table: Any = next(iter(self.box), None)
        sheets = [] if len(frame) > _LINES else [_ONE_PAGE]
        if not self._groups:
            self.box[:] = []
        elif table is None or table.stylesheets != sheets:
            self.box[:] = [self._tabulator(frame, sheets)]
        elif not table.value.equals(frame):
            table.value = frame

    def choose_line(self, line: int) -> None:
        """Choose the group of a line."""
        self._choose(self._groups[line])

    def _tabulator(self, frame: Any, sheets: list[str]) -> Any:
        from bokeh.models.widgets.tables import NumberFormatter

        table = html_table(
            frame,
            html=(_BAR,),
            formatters={
                # Long texts in several lines.
                self._heading: {"type": "textarea"},
                _ROWS: NumberFormatter(format="0,0", text_align="right"),
            },
            text_align=dict.fromkeys((_GAP, _FROM, _TO, _P), "right"),
            widths=_WIDTHS | {self._heading: _WORDS},
            show_index=False,
            disabled=True,
            selectable=False,
            pagination="remote",
            stylesheets=sheets,
            page_size=_LINES,
            layout="fit_data_table",
            sizing_mode="stretch_width",
            sortable=False,
        )
        table.on_click(lambda event: self.choose_line(event.row))
        return table


def _frame(result: xr.Dataset, groups: Sequence[int], heading: str) -> Any:
    """The columns of the table."""
    shown = result.isel(segment=list(groups))
    gap, low, high = (100 * shown[name].values for name in ("gap", "gap_low", "gap_high"))
    ends = np.concatenate([low, high, [0.0]])
    reach = float(ends.min()), float(max(ends.max(), ends.min() + 1e-9))
    numbers = zip(gap.tolist(), low.tolist(), high.tolist(), shown.found.values.tolist(), strict=True)
    bars = [bar(one, start, end, reach, certain=certain) for one, start, end, certain in numbers]
    columns: dict[str, Any] = {
        heading: shown.segment.values.astype(object),
        _BAR: bars,
        **_points({_GAP: gap, _FROM: low, _TO: high}),
        _ROWS: shown["rows"].values,
        _P: np.array([small_pvalue(p).replace("-", "−") for p in shown.pvalue_adjusted.values], object),
    }
    return table_frame(columns)


def _points(columns: Mapping[str, Array]) -> dict[str, npt.NDArray[np.object_]]:
    """Points with their sign, with equal digits in all columns."""
    texts = np.array(signed_column(np.concatenate([*columns.values()]).tolist(), 2), object)
    return dict(zip(columns, np.split(texts, len(columns)), strict=True))


def bar(
    gap: float, low: float, high: float, reach: tuple[float, float], *, certain: bool, width: float = _WIDTH
) -> Html:
    """A gap with its interval as a picture, against 0; in colour where the group is significantly miscalibrated."""

    def x(value: float) -> str:
        return f"{_MARGIN + (width - 2 * _MARGIN) * (value - reach[0]) / (reach[1] - reach[0]):.1f}"

    color, middle = (OVER if gap < 0 else UNDER) if certain else "#7a858f", _HEIGHT / 2
    return Html(
        '<svg width="{width:.0f}" height="{height:.0f}" aria-hidden="true">'
        '<line x1="{zero}" x2="{zero}" y1="0" y2="{height:.0f}" stroke="#b8c0c8"/>'
        '<line x1="{low}" x2="{high}" y1="{middle}" y2="{middle}" stroke="{color}" stroke-width="2"/>'
        '<circle cx="{gap}" cy="{middle}" r="3.2" fill="{color}"/></svg>'
    ).format(width=width, height=_HEIGHT, zero=x(0), low=x(low), high=x(high), gap=x(gap), middle=middle, color=color)
