"""Histograms on a grid that stand for the rows, from which some statistics can be computed."""

from typing import TYPE_CHECKING, Any, Protocol

from calibdask.statistics.layout import Layout
from calibdask.statistics.settings import Setting

if TYPE_CHECKING:
    from calibdask.statistics.bins.bin_sums import BinSums, BinSumsState
    from calibdask.statistics.bins.binnings import EqualMass
    from calibdask.statistics.bins.edges import Edges
    from calibdask.statistics.bins.grid import GridHistogram, GridState
    from calibdask.statistics.bins.sparse_grid import SparseGridState
    from calibdask.statistics.cluster_sums import SliceClusters
    from calibdask.statistics.counts import RowCountState
    from calibdask.statistics.score_sums import ScoreSumsState
    from calibdask.statistics.statistic import Statistic
    from calibdask.statistics.views.view import View


class Histograms(Protocol):
    """Stored histograms, or replicates of them; each method raises ValueError for what they do not determine."""

    layout: Layout

    def state(self, histogram: "GridHistogram") -> "GridState":
        """A stored histogram, one of its columns, or the sum over the parts of its cells."""

    def occupied(self, histogram: "GridHistogram") -> "SparseGridState | None":
        """The occupied cells of a histogram that `state` knows, where they alone are stored; None for others."""

    def finest(self, setting: Setting) -> "GridHistogram":
        """The histogram of a setting on the unit interval with the most cells."""

    def bin_sums(self, request: "BinSums") -> "BinSumsState":
        """Sums over bins whose edges are borders of cells."""

    def square_sums(self, request: "BinSums") -> "BinSumsState":
        """The sums with squared weights, if rows have weights."""

    def equal_mass_edges(self, binning: "EqualMass", setting: Setting) -> "Edges":
        """Edges of bins of equal mass, put on borders of cells."""

    def holds(self, statistic: "Statistic[Any]") -> bool:
        """Whether the state of a statistic of the rows themselves is stored too."""

    def row_count(self) -> "RowCountState":
        """Rows of positive weight in each slice."""

    def score_sums(self) -> "ScoreSumsState":
        """Sums of proper scores."""

    def seen_through(self, view: "View") -> "Histograms | None":
        """Histograms of the rows as a view of their clusters shows them; None if these do not determine them."""

    def clusters(self, setting: Setting) -> "SliceClusters":
        """Cluster totals of each slice, of the residuals in the first column of a setting."""
