"""Sums over rows of functions of the score and the outcome, for every column of a setting."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from calibdask.kernels import row_terms
from calibdask.statistics import exact
from calibdask.statistics.block import Block
from calibdask.statistics.exact import Sums
from calibdask.statistics.settings import Setting
from calibdask.statistics.statistic import Statistic

__all__ = ["LogTerms", "RowTerms", "RowTermsState", "SpiegelhalterTerms"]


class RowTermsState(NamedTuple):
    """Sums (2, batch, groups, columns); see `calibdask.statistics.exact` for their type."""

    sums: Sums


@dataclass(frozen=True)
class RowTerms(Statistic):
    """Sums over rows of two terms; without weights each is rounded to 2**-44, and sums are exact then."""

    setting: Setting

    @property
    def _kind(self) -> tuple[int, float]:
        """Which terms, and the score at which logarithms are clipped."""
        raise NotImplementedError

    def from_block(self, block: Block) -> RowTermsState:
        """Sums of one block."""
        layout, columns = block.layout, block.columns(self.setting)
        kind, smallest = self._kind
        shape = (2, layout.batch, layout.groups, self.setting.columns(layout.classes))
        weighted = block.weights is not None
        sums = np.zeros(shape) if weighted else np.zeros((*shape, 2), np.int64)
        for b in range(layout.batch):
            scores, labels = columns.of(b)
            if weighted:
                options = (block.weights_of(b), block.group, smallest, sums[:, b])
                row_terms.weighted_term_sums(kind, scores, labels, columns.first_class, *options)
            else:
                row_terms.term_sums(kind, scores, labels, columns.first_class, block.group, smallest, sums[:, b])
        return RowTermsState(sums)

    def merge(self, a: RowTermsState, b: RowTermsState) -> RowTermsState:
        """Sums of both."""
        return RowTermsState(exact.add(a.sums, b.sums))


@dataclass(frozen=True)
class SpiegelhalterTerms(RowTerms):
    """Sums of w (o - s)(1 - 2 s), what the Brier score exceeds its expectation by, and (w (1 - 2 s))**2 s (1 - s)."""

    @property
    def _kind(self) -> tuple[int, float]:
        return row_terms.SPIEGELHALTER, 0.0


@dataclass(frozen=True)
class LogTerms(RowTerms):
    """Sums of -w log(s or 1 - s) / 16, by the outcome, and of w.

    Parameters
    ----------
    smallest : float
        Scores of 0 are clipped at this one; -log of the smallest positive double is 745.
    """

    smallest: float

    @property
    def _kind(self) -> tuple[int, float]:
        return row_terms.LOGARITHM, self.smallest
