"""Panels of reliability diagrams and curves, drawn once and then updated, of one selection or two."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr

from calibdask.explore.summaries.difference import Bounded, difference
from calibdask.explore.summaries.page_metrics import CURVE, DIAGRAM, MARKS, SMOOTH
from calibdask.explore.summaries.reliability_panel import ReliabilityPanel, empty_figure, pane_of
from calibdask.markup import in_figure
from calibdask.plot.style import BAND, DIAGONAL, LIMITS, LINE, SCORE
from calibdask.results.reliability import BinnedReliability, SmoothReliability

# Within a bandwidth of a score, on both sides: of fewer rows a curve says little, and its difference nothing.
_FEWEST_NEAR = 20
_COLUMNS = ("score", "value", "low", "high")
_TOOLTIPS = [
    ("score", "@score{0.0000}"),
    ("B − A, points", "@value{+0.00}"),
    ("95 % pointwise", "@low{+0.00} to @high{+0.00}"),
]


class DifferencePanel:
    """Difference of the observed rates of two selections by score, in points."""

    def __init__(self) -> None:
        from bokeh.models import ColumnDataSource, HoverTool

        self.upper = empty_figure(450, LIMITS)
        self.upper.html_attributes = {"role": "group", "aria-label": "Difference of the curves; CSV: curve has numbers"}
        self.upper.xaxis.axis_label, self.upper.yaxis.axis_label = SCORE, "difference of the frequency, points"
        self.upper.hspan(y=0, line_color=DIAGONAL, line_dash="dashed")
        self.source = ColumnDataSource({name: [] for name in _COLUMNS})
        self.upper.varea("score", "low", "high", source=self.source, color=BAND, alpha=0.3)
        line = self.upper.line("score", "value", source=self.source, color=LINE, line_width=2.2)
        self.upper.add_tools(HoverTool(renderers=[line], tooltips=_TOOLTIPS, mode="vline"))
        self.layers = [{"difference": self.source}]
        self.pane = pane_of([self.upper], small=False)

    def show(self, title: str, selections: Sequence[tuple[BinnedReliability, SmoothReliability | None]]) -> None:
        """Show the difference of two other curves."""
        (bins, first), (others, second) = selections
        assert first is not None
        assert second is not None
        near = np.minimum(_near(bins, first), _near(others, second))
        known = near >= _FEWEST_NEAR
        ends = difference(*(Bounded(curve.reliability, curve.low, curve.high) for curve in (first, second)))
        columns = {name: np.where(known, 100 * np.asarray(getattr(ends, name)), np.nan) for name in _COLUMNS[1:]}
        self.source.data = {"score": first.score, **columns}
        words = "B − A by score, 95 % pointwise"
        self.upper.title.text = in_figure(" · ".join(filter(None, (title, words))))


def _near(bins: BinnedReliability, curve: SmoothReliability) -> np.ndarray:
    """About how many rows are near each score."""
    return np.nan_to_num(bins.rows * curve.density * 2 * curve.bandwidth)


class PanelGrid:
    """All panels: for one setting bins and curve, of two selections bins and difference; for several classes one each.

    Parameters
    ----------
    box : panel.Row
        Where they are shown. It is filled anew only if the number of panels, or of selections, changes: updating
        panels takes milliseconds.
    """

    def __init__(self, box: Any) -> None:
        self._box = box
        self.panels: list[ReliabilityPanel | DifferencePanel] = []
        self._shape = (0, 0)

    def show(self, results: Sequence[xr.Dataset]) -> None:
        """Draw one result of `page_metrics.quick`, or two with curves of equal classes."""
        selections = [_by_class(result, MARKS, SMOOTH) for result in results]
        classes = len(selections[0])
        is_new = (classes, len(results)) != self._shape
        if is_new:
            kinds = [(True, False), (False, True)] if classes == 1 else [(True, True)] * classes
            self.panels = [ReliabilityPanel(len(results), bins=bins, curve=curve) for bins, curve in kinds]
            if classes == 1 and len(results) == 2:
                # Two curves over each other do not show whether they differ.
                self.panels[1:] = [DifferencePanel()]
            self._shape = (classes, len(results))
        for number, panel in enumerate(self.panels):
            shown = [by_class[number if len(by_class) > 1 else 0] for by_class in selections]
            if isinstance(panel, DifferencePanel):
                # Of curves at the same scores, which those that follow the rows are not.
                shown = [_by_class(result, DIAGRAM, CURVE)[0] for result in results]
            panel.show(shown[0][0], [(bins, curve) for _, bins, curve in shown])
        if is_new:
            # With their contents: changes may overtake the message that puts panels on the page.
            self._box.objects = [panel.pane for panel in self.panels]


def _by_class(result: xr.Dataset, diagram: str, curve: str) -> list[tuple[str, BinnedReliability, SmoothReliability]]:
    """Heading, bins and curve of each class that has a curve; once, without a heading, where there are no classes."""
    bins, curves = BinnedReliability.by_class(result, diagram), SmoothReliability.by_class(result, curve)
    pairs = zip(curves.items(), bins.values(), strict=True)
    return [(f"class {label}" if label else "", of_class, fitted) for (label, fitted), of_class in pairs]
