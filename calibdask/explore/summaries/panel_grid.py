"""Panels of reliability diagrams and curves, drawn once and then updated, of one selection or two."""

from collections.abc import Sequence
from typing import Any

import xarray as xr

from calibdask.explore.summaries.difference_panel import DifferencePanel
from calibdask.explore.summaries.page_metrics import CURVE, DIAGRAM, MARKS, SMOOTH
from calibdask.explore.summaries.reliability_panel import ReliabilityPanel
from calibdask.results.reliability import BinnedReliability, SmoothReliability


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
