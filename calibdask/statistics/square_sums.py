"""Sums of squared weights by bin and outcome."""

from dataclasses import dataclass

import numpy as np

from calibdask.statistics import exact
from calibdask.statistics.bins.bin_sums import BinSums, BinSumsState
from calibdask.statistics.bins.histograms import Histograms
from calibdask.statistics.derived import Derived
from calibdask.statistics.exact import Array
from calibdask.statistics.layout import Layout
from calibdask.statistics.prefetch import Prefetch, together
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
        return histograms.square_sums(self.sums)


def with_squares(sums: BinSums) -> Requests[tuple[BinSumsState, BinSumsState]]:
    """The sums by bin, and those with w**2 in place of w, in one pass."""
    plain, squares = yield from together([sums, SquareSums(sums)])
    return plain, squares


def square_weights(sums: BinSumsState, squares: BinSumsState | None) -> tuple[Array, Array]:
    """Sums of w**2 and of w**2 o by bin, from `SquareSums` or, without weights, from plain sums.

    In replicates of rows that were drawn twice, by sampling and again, twice these sums.
    """
    if squares is not None:
        return exact.value(squares.weight), exact.value(squares.outcome)
    weight, square = exact.value(sums.weight), exact.value(sums.weight_square)
    share = np.divide(square, weight, out=np.ones_like(weight), where=weight > 0)
    return square, share * exact.value(sums.outcome)


def squares_ahead(sums: BinSums) -> Requests[SquareSums | None]:
    """A request for these sums with squared weights in one pass; None without weights."""
    if not (yield from Layout()).weighted:
        return None
    request = SquareSums(sums)
    yield from Prefetch(request)
    return request
