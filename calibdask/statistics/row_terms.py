"""Sums over rows of functions of the score and the outcome, for every column of a setting."""

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from calibdask.kernels import row_terms
from calibdask.statistics import exact
from calibdask.statistics.bins.grid_bins import cell_sums
from calibdask.statistics.bins.histograms import Histograms
from calibdask.statistics.block import Block
from calibdask.statistics.exact import Sums
from calibdask.statistics.settings import Setting
from calibdask.statistics.statistic import SumStatistic, Weigh

Term = Literal["spiegelhalter", "excess", "logarithm", "saturated"]

_KINDS = {
    "spiegelhalter": row_terms.SPIEGELHALTER,
    "excess": row_terms.EXCESS,
    "logarithm": row_terms.LOGARITHM,
    "saturated": row_terms.SATURATED,
}


# Positions in the cells next to 0 and 1 are rounded by less.
_NEAR = 1e-14


class RowTermsState(NamedTuple):
    """Sums (2, batch, groups, columns); see `calibdask.statistics.exact` for their type."""

    sums: Sums


@dataclass(frozen=True)
class RowTerms(SumStatistic[RowTermsState]):
    """Sums over rows of two terms, for every column of a setting.

    ==================  ============================================================================================
    ``spiegelhalter``   w (o - s)(1 - 2 s), the excess of the Brier score over its expectation, and its variance
                        (w (1 - 2 s))**2 s (1 - s)
    ``excess``          the square of that excess, and its third cumulant (w (1 - 2 s))**3 s (1 - s)(1 - 2 s)
    ``logarithm``       -w log(s or 1 - s) / 16, by the outcome, and w
    ``saturated``       w where s or 1 - s is below ``smallest``, and w
    ==================  ============================================================================================

    Parameters
    ----------
    setting : Setting
        Which columns of (score, outcome).
    term : {"spiegelhalter", "excess", "logarithm", "saturated"}
        The terms.
    smallest : float, default 0
        For the logarithm: scores of 0 are clipped at this one; -log of the smallest positive double is 745. For
        ``saturated``: smaller scores are 0.

    Notes
    -----
    Without weights each term is rounded to 2**-44; sums of the rounded terms are exact.
    """

    counts = 0

    setting: Setting
    term: Term
    smallest: float = 0.0

    def from_block(self, block: Block) -> RowTermsState:
        """Sums of one block."""
        layout, columns = block.layout, block.columns(self.setting)
        kind, smallest = _KINDS[self.term], self.smallest
        # Batch elements first: the sums of each are contiguous, so that kernels are compiled for one layout.
        shape = (layout.batch, 2, layout.groups, self.setting.columns(layout.classes))
        weighted = block.weights is not None
        sums = exact.zeros(shape, weighted=weighted)
        for b in range(layout.batch):
            scores, labels = columns.of(b)
            if weighted:
                options = (block.weights_of(b), block.group, smallest, sums[b])
                row_terms.weighted_term_sums(kind, scores, labels, columns.first_class, *options)
            else:
                row_terms.term_sums(kind, scores, labels, columns.first_class, block.group, smallest, sums[b])
        return RowTermsState(np.ascontiguousarray(sums.swapaxes(0, 1)))

    @property
    def is_reweighted(self) -> bool:
        """Some terms are linear in the weights."""
        return self.term in ("logarithm", "saturated")

    def reweighted(self, state: RowTermsState, weigh: Weigh) -> RowTermsState:
        """Sums of w times each term."""
        return RowTermsState(weigh(exact.value(state.sums), 1, 1))

    def from_histograms(self, histograms: Histograms) -> RowTermsState:
        """Sums in which the rows of a cell with one outcome have their mean score."""
        histogram = histograms.finest(self.setting)
        cells = cell_sums(histograms.state(histogram), histogram.grid)
        score = np.divide(cells.score, cells.mass, out=np.zeros_like(cells.mass), where=cells.mass > 0).clip(0.0, 1.0)
        outcome = np.array([0.0, 1.0])[:, None]
        if self.term == "logarithm":
            chosen = np.where(outcome == 1, score, 1 - score)
            terms = -np.log(np.maximum(chosen, self.smallest)) * cells.mass / 16, cells.mass
        elif self.term == "saturated":
            # Scores that are so near to 0 or 1 have the position of the edge.
            terms = cells.mass * (np.minimum(score, 1 - score) < max(self.smallest, _NEAR)), cells.mass
        elif self.term == "excess":
            slope, variance = 1 - 2 * score, score * (1 - score)
            # Of unequal weights a lower bound of the sum of cubes.
            cube = np.divide(cells.square**2, cells.mass, out=np.zeros_like(cells.square), where=cells.mass > 0)
            terms = cells.square * (slope * (outcome - score)) ** 2, cube * slope**4 * variance
        else:
            slope = 1 - 2 * score
            terms = cells.mass * (outcome - score) * slope, cells.square * slope**2 * score * (1 - score)
        return RowTermsState(np.stack([term.sum((-1, -2)) for term in terms]))
