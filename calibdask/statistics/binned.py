"""Sums by bin: all that binned calibration measures need to know of the data."""

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from calibdask.kernels import binning
from calibdask.statistics import exact
from calibdask.statistics.block import Block
from calibdask.statistics.edges import Edges
from calibdask.statistics.exact import Array, Counts, Sums
from calibdask.statistics.settings import Setting
from calibdask.statistics.statistic import Statistic

__all__ = ["BinSums", "BinSumsState"]

_KINDS = {"none": binning.PLAIN, "squares": binning.SQUARES, "offsets": binning.OFFSETS}
_SECOND = {"none": 0, "squares": 2, "offsets": 3}


class BinSumsState(NamedTuple):
    """Sums of rows by (batch, group, column, bin); see `calibdask.statistics.exact` for the type of sums.

    ``rows`` of positive weight; sums of w, w**2, w * outcome and w * score; ``second`` with a leading axis:
    for squares w * score**2 and w * score * outcome, for offsets w * t, w * t * outcome and w * t * score with t the
    position of the score within its bin, from 0 to 1.
    """

    rows: Counts
    weight: Sums
    weight_square: Sums
    outcome: Sums
    score: Sums
    second: Sums


@dataclass(frozen=True)
class BinSums(Statistic):
    """Count, outcome and score by bin, for every column of a setting.

    Parameters
    ----------
    setting : Setting
        Which columns of (score, outcome).
    edges : Edges
        The bins.
    second : {"none", "squares", "offsets"}
        Further sums: for decompositions of the Brier score, or for linear binning.

    Notes
    -----
    One pass; memory batch * groups * columns * bins * 72 bytes, with
    further sums up to 120.
    """

    setting: Setting
    edges: Edges
    second: Literal["none", "squares", "offsets"] = "none"

    def from_block(self, block: Block) -> BinSumsState:
        """Sums of one block."""
        layout = block.layout
        columns = block.columns(self.setting)
        shape = (layout.batch, layout.groups, columns.scores.shape[-1], self.edges.bins)
        cells = shape[1] * shape[2] * shape[3]
        weighted = block.weights is not None
        n_second = _SECOND[self.second]
        counts = np.zeros((layout.batch, 2, cells), np.int64)
        sums = (
            np.zeros((layout.batch, 4 + n_second, cells))
            if weighted
            else np.zeros((layout.batch, 1 + n_second, cells, 2), np.int64)
        )
        bins = _KernelBins(self.edges, columns.scores.dtype, shape)
        for b in range(layout.batch):
            options = (columns.first_class, block.group, *bins.of(b), _KINDS[self.second], counts[b], sums[b])
            scores, labels = columns.of(b)
            if weighted:
                binning.weighted_bin_sums(scores, labels, block.weights_of(b), *options)
            else:
                binning.bin_sums(scores, labels, *options)
        return _weighted_state(counts, sums, shape) if weighted else _exact_state(counts, sums, shape)

    def merge(self, a: BinSumsState, b: BinSumsState) -> BinSumsState:
        """Sums of both."""
        return BinSumsState(a.rows + b.rows, *(exact.add(x, y) for x, y in zip(a[1:], b[1:], strict=True)))


class _KernelBins:
    """Edges in the form that the kernels take, for each batch element."""

    def __init__(self, edges: Edges, dtype: npt.DTypeLike, shape: tuple[int, ...]) -> None:
        self._bins = edges.bins
        self._lower = edges.lower_bounds() if edges.uniform else np.zeros(0)
        self._thresholds = edges.thresholds(dtype)
        widths = np.diff(edges.values, axis=-1)
        self._left = np.broadcast_to(np.nan_to_num(edges.values[..., :-1]), shape)
        self._width = np.broadcast_to(np.where(widths > 0, widths, np.inf), shape)

    def of(self, b: int) -> tuple[int, Array, npt.NDArray[np.floating], Array, Array]:
        """Number of bins, lower bounds, thresholds, left edges and widths."""
        thresholds = self._thresholds[b % self._thresholds.shape[0]]
        return self._bins, self._lower, thresholds, self._left[b].ravel(), self._width[b].ravel()


def _exact_state(counts: Counts, sums: Counts, shape: tuple[int, ...]) -> BinSumsState:
    count, hits = (counts[:, k].reshape(shape) for k in range(2))
    words = np.moveaxis(sums, 1, 0).reshape(sums.shape[1], *shape, 2)
    rows = exact.from_counts(count)
    return BinSumsState(count, rows, rows, exact.from_counts(hits), words[0], words[1:])


def _weighted_state(counts: Counts, sums: Array, shape: tuple[int, ...]) -> BinSumsState:
    floats = np.moveaxis(sums, 1, 0).reshape(sums.shape[1], *shape)
    weight, weight_square, outcome, score = floats[:4]
    return BinSumsState(counts[:, 0].reshape(shape), weight, weight_square, outcome, score, floats[4:])
