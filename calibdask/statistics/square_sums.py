"""Sums of squared weights by bin and outcome."""

from dataclasses import dataclass

import numpy as np

from calibdask.statistics.bins.bin_sums import BinSums, BinSumsState
from calibdask.statistics.bins.grid import GridState
from calibdask.statistics.bins.grid_bins import bin_sums, cell_sums
from calibdask.statistics.bins.histograms import Histograms
from calibdask.statistics.derived import Derived
from calibdask.statistics.layout import Layout
from calibdask.statistics.prefetch import together
from calibdask.statistics.request import Requests
from calibdask.statistics.statistic import ViewedStatistic
from calibdask.statistics.views.squared_weights import SquaredWeights


@dataclass(frozen=True)
class SquareSums(Derived[BinSumsState]):
    """`BinSums` with squared weights; without weights, `BinSums` itself.

    Parameters
    ----------
    sums : BinSums
        The bins, and the further sums.

    Notes
    -----
    They take the same pass over the data as ``sums``.
    """

    sums: BinSums

    def derive(self) -> Requests[BinSumsState]:
        """Request the sums of the rows with squared weights."""
        layout = yield from Layout()
        if not layout.weighted:
            return (yield from self.sums)
        return (yield from self.sums.viewed_by(SquaredWeights()))

    def from_histograms(self, histograms: Histograms) -> Requests[BinSumsState]:
        """From the squared weights of the cells, at the mean score of the rows of each cell and outcome."""
        if not histograms.layout.weighted:
            return (yield from self.sums)
        if histograms.holds(ViewedStatistic(SquaredWeights(), self.sums)):
            return (yield from self.derive())
        finest = histograms.finest(self.sums.setting)
        state = yield from finest
        mass = np.asarray(state.mass, np.float64)
        position = np.divide(state.distance, mass, out=np.zeros_like(mass), where=mass > 0)
        squared = GridState(state.square, state.square * position, state.square, state.rows)
        return bin_sums(self.sums, cell_sums(squared, finest.grid), finest.grid)


def with_squares(sums: BinSums) -> Requests[tuple[BinSumsState, BinSumsState]]:
    """The sums by bin, and those with w**2 in place of w, in one pass."""
    plain, squares = yield from together([sums, SquareSums(sums)])
    return plain, squares
