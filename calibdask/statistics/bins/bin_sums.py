"""Sums by bin: the statistic behind all binned calibration measures."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from calibdask.kernels import bin_sums
from calibdask.kernels.bin_numbers import GIVEN, MOST_EXACT_BINS, UNIFORM_RIGHT
from calibdask.kernels.sparse_bins import FEWEST_COLUMNS, sparse_bin_sums
from calibdask.statistics import exact
from calibdask.statistics.bins.edges import Edges
from calibdask.statistics.bins.histograms import Histograms
from calibdask.statistics.block import Block
from calibdask.statistics.exact import Array, Counts, Sums
from calibdask.statistics.frozen import read_only
from calibdask.statistics.settings import Setting
from calibdask.statistics.statistic import Statistic, SumStatistic

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
class BinSums(SumStatistic[BinSumsState]):
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
    One pass; memory batch * groups * columns * bins * 72 bytes, with further sums up to 120.
    """

    setting: Setting
    edges: Edges
    second: Literal["none", "squares", "offsets"] = "none"

    weighting = ((0, 0), (0, 1), (0, 2), (0, 1), (0, 1), (1, 1))

    def from_block(self, block: Block) -> BinSumsState:
        """Sums of one block."""
        layout = block.layout
        columns = block.columns(self.setting)
        shape = (layout.batch, layout.groups, columns.scores.shape[-1], self.edges.bins)
        cells = shape[1] * shape[2] * shape[3]
        weighted = block.weights is not None
        n_second = _SECOND[self.second]
        counts = np.zeros((layout.batch, 2, cells), np.int64)
        sums = exact.zeros((layout.batch, (4 if weighted else 1) + n_second, cells), weighted=weighted)
        bins = _KernelBins(self, columns.scores.dtype, shape)
        if self._sparse(block, shape[2]):
            for b in range(layout.batch):
                scores, labels = columns.packed_of(b)
                sparse_bin_sums(scores, labels, columns.first_class, *bins.shared(b), counts[b], sums[b, 0])
            return _exact_state(counts, sums, shape)
        for b in range(layout.batch):
            options = (columns.first_class, block.group, *bins.of(b, weighted=weighted), counts[b], sums[b])
            if weighted:
                bin_sums.weighted_bin_sums(*columns.of(b), block.weights_of(b), *options)
            else:
                bin_sums.bin_sums(*columns.packed_of(b), *options)
        return _weighted_state(counts, sums, shape) if weighted else _exact_state(counts, sums, shape)

    has_calibrated_form = True

    def as_calibrated(
        self, state: BinSumsState, total: Callable[[Any, int], Any], noise: Callable[[Any, int], Any]
    ) -> BinSumsState:
        """Sums of all rows, with outcomes that add up to the scores, plus noise."""
        score, outcome = exact.value(state.score), exact.value(state.outcome)
        expected = total(score, 0)
        return BinSumsState(
            np.rint(total(state.rows, 0)).astype(np.int64),
            total(exact.value(state.weight), 0),
            total(exact.value(state.weight_square), 0),
            expected + noise(outcome - score, 0),
            expected,
            total(exact.value(state.second), 1),
        )

    def follows_from(self, other: Statistic[Any]) -> bool:
        """Plain sums follow from those with further ones."""
        if self.second != "none" or not isinstance(other, BinSums) or other.second == "none":
            return False
        return replace(self, second=other.second) == other

    def extracted_from(self, state: BinSumsState) -> BinSumsState:
        """The plain sums."""
        return state._replace(second=state.second[:0])

    def from_histograms(self, histograms: Histograms) -> BinSumsState:
        """Sums over bins whose edges are borders of cells."""
        return histograms.bin_sums(self)

    def _sparse(self, block: Block, columns: int) -> bool:
        """Whether few scores lie beyond the first bin: there are many columns, and all share their bins."""
        plain = self.second == "none" and block.weights is None and block.layout.groups == 1
        shared = self.edges.values.shape[1] * self.edges.values.shape[2] == 1 and self.edges.bins > 1
        return plain and shared and columns >= FEWEST_COLUMNS


class _KernelBins:
    """Edges of each batch element in the form that kernels take."""

    def __init__(self, sums: BinSums, dtype: npt.DTypeLike, shape: tuple[int, ...]) -> None:
        edges = sums.edges
        self._bins = edges.bins
        self._kind = edges.kind
        self._single = np.dtype(dtype) == np.float32
        self._second = sums.second
        # One column and slice: cells are bins.
        self._alone = shape[1] * shape[2] == 1
        self._thresholds = edges.thresholds(dtype)
        widths = np.diff(edges.values, axis=-1)
        self._left = np.broadcast_to(np.nan_to_num(edges.values[..., :-1]), shape)
        self._width = np.broadcast_to(np.where(widths > 0, widths, np.inf), shape)

    def shared(self, b: int) -> tuple[int, int, npt.NDArray[np.floating]]:
        """Number of bins, their kind, and the thresholds of all columns."""
        return self._bins, self._kind, self._thresholds[b % self._thresholds.shape[0], 0, 0]

    def of(self, b: int, *, weighted: bool) -> tuple[Any, ...]:
        """Number of bins, and the ways to find them; what else is summed, left edges and widths: None where unused."""
        right = self._kind == UNIFORM_RIGHT
        ways: tuple[Any, ...]
        if self._kind == GIVEN:
            ways = None, None, self._thresholds[b % self._thresholds.shape[0]]
        elif self._single and self._bins <= MOST_EXACT_BINS:
            ways = None, right, None
        else:
            ways = right, None, None
        squares, positions = (True if self._second == name else None for name in ("squares", "offsets"))
        # Edges of uniform bins that are cells are computed; a look-up is slower.
        looked_up = positions and (weighted or not (right and self._alone))
        edges = (read_only(self._left[b].ravel()), read_only(self._width[b].ravel())) if looked_up else (None, None)
        return self._bins, *ways, squares, positions, *edges


def _exact_state(counts: Counts, sums: Counts, shape: tuple[int, ...]) -> BinSumsState:
    count, hits = (counts[:, k].reshape(shape) for k in range(2))
    words = np.moveaxis(sums, 1, 0).reshape(sums.shape[1], *shape, 2)
    rows = exact.from_counts(count)
    return BinSumsState(count, rows, rows, exact.from_counts(hits), words[0], words[1:])


def _weighted_state(counts: Counts, sums: Array, shape: tuple[int, ...]) -> BinSumsState:
    floats = np.moveaxis(sums, 1, 0).reshape(sums.shape[1], *shape)
    weight, weight_square, outcome, score = floats[:4]
    return BinSumsState(counts[:, 0].reshape(shape), weight, weight_square, outcome, score, floats[4:])
