"""Sums over rows of functions of the score and the outcome, for every column of a setting."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from calibdask.kernels.fixed_sums import fixed_sum
from calibdask.statistics import exact
from calibdask.statistics.block import Block
from calibdask.statistics.exact import Array, Sums
from calibdask.statistics.settings import Setting
from calibdask.statistics.statistic import Statistic

__all__ = ["LogTerms", "RowTerms", "RowTermsState", "SpiegelhalterTerms"]


class RowTermsState(NamedTuple):
    """Sums (terms, batch, groups, columns); see `calibdask.statistics.exact` for their type."""

    sums: Sums


@dataclass(frozen=True)
class RowTerms(Statistic):
    """Sums over rows of some terms, each within +-128.

    Without weights every term is rounded to 2**-44 and the sums are exact then.
    """

    setting: Setting

    @property
    @abstractmethod
    def count(self) -> int:
        """Number of terms."""

    @abstractmethod
    def terms(self, score: Array, hit: NDArray[np.bool_], weight: Array) -> tuple[Array, ...]:
        """Terms of rows with these scores in [0, 1], outcomes and weights (1 without weights)."""

    def from_block(self, block: Block) -> RowTermsState:
        """Sums of one block."""
        layout, columns = block.layout, block.columns(self.setting)
        shape = (self.count, layout.batch, layout.groups, self.setting.columns(layout.classes))
        weighted = block.weights is not None
        sums = np.zeros(shape) if weighted else np.zeros((*shape, 2), np.int64)
        for b, g, index in block.places:
            weight = block.weights_of(b)[index] if weighted else np.ones(index.size)
            for c in range(shape[3]):
                # Weights that are none are told by the validity check.
                with np.errstate(over="ignore", invalid="ignore"):
                    for t, values in enumerate(self.terms(*columns.column(b, c, index), weight)):
                        if weighted:
                            sums[t, b, g, c] = values.sum()
                        else:
                            fixed_sum(values, sums[t, b, g, c])
        return RowTermsState(sums)

    def merge(self, a: RowTermsState, b: RowTermsState) -> RowTermsState:
        """Sums of both."""
        return RowTermsState(exact.add(a.sums, b.sums))


@dataclass(frozen=True)
class SpiegelhalterTerms(RowTerms):
    """w (o - s)(1 - 2 s), what the Brier score exceeds its expectation by, and its variance if calibrated."""

    @property
    def count(self) -> int:
        """The excess and its variance."""
        return 2

    def terms(self, score: Array, hit: NDArray[np.bool_], weight: Array) -> tuple[Array, ...]:
        """W (o - s)(1 - 2 s) and (w (1 - 2 s))**2 s (1 - s)."""
        slope = weight * (1 - 2 * score)
        return slope * (hit - score), slope**2 * score * (1 - score)


@dataclass(frozen=True)
class LogTerms(RowTerms):
    """w times the logarithmic score over 16, and w.

    Parameters
    ----------
    smallest : float
        Scores of 0 are clipped at this one; -log of the smallest positive double is 745.
    """

    smallest: float

    @property
    def count(self) -> int:
        """The score and the weight."""
        return 2

    def terms(self, score: Array, hit: NDArray[np.bool_], weight: Array) -> tuple[Array, ...]:
        """-w log(s or 1 - s) / 16 and w."""
        chosen = np.maximum(np.where(hit, score, 1 - score), self.smallest)
        return -weight * np.log(chosen) / 16, weight
