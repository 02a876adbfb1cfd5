"""Power sums of residuals by the value of an identifier, which show whether rows of one value are dependent."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from calibdask.kernels.cluster_codes import cluster_codes
from calibdask.statistics.block import NO_GROUPS, Block
from calibdask.statistics.exact import Counts
from calibdask.statistics.frozen import read_only
from calibdask.statistics.layout import Layout
from calibdask.statistics.settings import Setting
from calibdask.statistics.statistic import Statistic

# Values whose sums are kept, and bits of their hashes.
MOST_VALUES = 1 << 13
_HASH_BITS = 52
# Powers of residuals are whole numbers of this unit: sums of 2**31 rows fit an int64.
UNIT = 2.0**-32
POWERS = 4


class IdentifierSumsState(NamedTuple):
    """Sums of the sampled values in the order of their hashes, (values,) each.

    One value of 2**level is in the sample, all at level 0. ``rows`` of positive weight; ``powers`` (4, values) the sums
    of r, r**2, r**3, r**4 with r = o - s, in units of 2**-32.
    """

    level: npt.NDArray[np.int64]
    value: Counts
    rows: Counts
    powers: Counts


@dataclass(frozen=True)
class IdentifierSums(Statistic[IdentifierSumsState]):
    """Power sums of the residuals by the value of a further column, of the first column of a setting and first model.

    Parameters
    ----------
    setting : Setting
        Which columns of (score, outcome).
    column : int
        Number of the further column, which holds hashes of 52 bits; negative numbers stand for missing values.

    Notes
    -----
    Of more than 8192 values a random sample of at least half as many is kept: those with the smallest hashes, which
    are in the sample in whichever blocks their rows are. Rows of other values cost a comparison each.
    """

    setting: Setting
    column: int

    def from_block(self, block: Block) -> IdentifierSumsState:
        """Sums of one block."""
        hashes: npt.NDArray[Any] = block.features[self.column]
        counts = hashes >= 0
        if block.weights is not None:
            counts = counts & (np.nan_to_num(block.weights_of(0)) > 0)
        level = max(0, int(counts.sum()) // MOST_VALUES).bit_length()
        sample = _sampled(hashes, counts, level)
        while sample.size > MOST_VALUES:
            level += 1
            sample = _sampled(hashes, counts, level)
        while level > 0 and (larger := _sampled(hashes, counts, level - 1)).size <= MOST_VALUES:
            level, sample = level - 1, larger
        chosen = sample.rows
        scores, labels = block.columns(self.setting).of(0)
        clipped = np.nan_to_num(scores[chosen, 0].astype(np.float64)).clip(0.0, 1.0)
        residual = (labels[chosen] == block.columns(self.setting).first_class) - clipped
        values, codes = np.unique(sample.values, return_inverse=True)
        powers = np.zeros((POWERS, values.size), np.int64)
        term = np.ones_like(residual)
        for power in powers:
            term = term * residual
            np.add.at(power, codes, np.rint(term / UNIT).astype(np.int64))
        rows = np.bincount(codes, minlength=values.size)
        return IdentifierSumsState(np.array([level]), values, rows, powers)

    def merge(self, a: IdentifierSumsState, b: IdentifierSumsState) -> IdentifierSumsState:
        """Sums of both, of the values below the lower threshold."""
        level = max(int(a.level[0]), int(b.level[0]))
        parts = [_below(state, level) for state in (a, b)]
        values, codes = np.unique(np.concatenate([part.value for part in parts]), return_inverse=True)
        rows, powers = np.zeros(values.size, np.int64), np.zeros((POWERS, values.size), np.int64)
        at = np.split(codes, [parts[0].value.size])
        for part, places in zip(parts, at, strict=True):
            # Values of one state are distinct.
            rows[places] += part.rows
            powers[:, places] += part.powers
        state = IdentifierSumsState(np.array([level]), values, rows, powers)
        while state.value.size > MOST_VALUES:
            level += 1
            state = _below(state, level)
        return state

    def bytes(self, layout: Layout) -> int:
        """Memory of a state."""
        return 8 * (POWERS + 2) * MOST_VALUES


class _Sample(NamedTuple):
    """Rows whose value is in the sample, their hashes, and the number of distinct ones."""

    rows: npt.NDArray[np.int64]
    values: Counts
    size: int


def _sampled(hashes: npt.NDArray[Any], counts: npt.NDArray[np.bool_], level: int) -> _Sample:
    rows = np.flatnonzero(counts & (hashes < (1 << (_HASH_BITS - level))))
    values = hashes[rows].astype(np.int64)
    codes, first = np.empty((2, values.size), np.int64)
    return _Sample(rows, values, cluster_codes(read_only(values), NO_GROUPS, codes, first))


def _below(state: IdentifierSumsState, level: int) -> IdentifierSumsState:
    """The values of a sample of this level."""
    kept = state.value < (1 << (_HASH_BITS - level))
    return IdentifierSumsState(np.array([level]), *(sums[..., kept] for sums in state[1:]))
