"""The difference of two reliability curves, with its interval, as a panel of its own."""

from collections.abc import Sequence

import numpy as np

from calibdask.explore.summaries.difference import Bounded, difference
from calibdask.explore.summaries.reliability_panel import empty_figure, pane_of
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
