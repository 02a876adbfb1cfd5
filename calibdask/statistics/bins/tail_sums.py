"""Sums of scores, and of their distances from 1, to full relative precision: for logarithms of means next to 0 or 1."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from calibdask.statistics.bins.edges import Edges
from calibdask.statistics.block import Block
from calibdask.statistics.exact import Array, Counts, Sums
from calibdask.statistics.settings import Setting
from calibdask.statistics.statistic import Statistic

# A sum is a number with this many digits of 32 bits, the lowest in units of 2**-1152, which no double goes below.
_DIGITS, _DIGIT_BITS, _POINT = 38, 32, 1152
_DIGIT = np.uint64((1 << _DIGIT_BITS) - 1)
_MANTISSA_BITS = 53


class TailSumsState(NamedTuple):
    """Sums of w * score and of w * (1 - score), (2, batch, groups, columns, bins).

    Without weights digits along a last axis, the lowest first.
    """

    sums: Sums

    @property
    def values(self) -> Array:
        """The sums as float64."""
        if self.sums.dtype != np.int64:
            return np.asarray(self.sums, np.float64)
        place = _DIGIT_BITS * np.arange(_DIGITS) - _POINT
        return np.asarray(np.ldexp(self.sums.astype(np.float64), place)[..., ::-1].sum(-1), np.float64)


@dataclass(frozen=True)
class TailSums(Statistic[TailSumsState]):
    """The sums of `BinSums` that hold for means next to 0 or 1, where its unit of 2**-52 is too coarse.

    Parameters
    ----------
    setting : Setting
        Which columns of (score, outcome).
    edges : Edges
        The bins.

    Notes
    -----
    Without weights sums of doubles, whatever their size, are exact. Memory: 608 bytes for each column, bin and slice.
    O(n log bins) time, more than for `BinSums`.
    """

    setting: Setting
    edges: Edges

    @property
    def adds(self) -> bool:
        """Whether states merge by addition: True, up to carries."""
        return True

    def from_block(self, block: Block) -> TailSumsState:
        """Sums of one block."""
        layout, columns = block.layout, block.columns(self.setting)
        thresholds = self.edges.thresholds(columns.scores.dtype)
        shape = (2, layout.batch, layout.groups, columns.scores.shape[-1], self.edges.bins)
        weighted = block.weights is not None
        sums = np.zeros(shape if weighted else (*shape, _DIGITS), np.float64 if weighted else np.uint64)
        for b, g, index in block.strata:
            weights = block.weights_of(b)[index] if weighted else None
            for c in range(shape[3]):
                score = columns.column(b, c, index)[0].astype(np.float64).clip(0.0, 1.0)
                own = thresholds[tuple(at % size for at, size in zip((b, g, c), thresholds.shape[:3], strict=True))]
                bins = np.searchsorted(own, score)
                for end, values in enumerate((score, 1.0 - score)):
                    _add(values, bins, weights, sums[end, b, g, c])
        return TailSumsState(sums if weighted else _carried(sums.view(np.int64)))

    def merge(self, a: TailSumsState, b: TailSumsState) -> TailSumsState:
        """Sums of both."""
        total = a.sums + b.sums
        return TailSumsState(_carried(total) if total.dtype == np.int64 else total)


def _add(values: Array, bins: Counts, weights: Array | None, sums: npt.NDArray[Any]) -> None:
    """Add values in [0, 1] to the sums of their bins, (bins,) with weights or else digits (bins, digits)."""
    if weights is not None:
        np.add.at(sums, bins, weights * values)
        return
    fraction, exponent = np.frexp(values)
    mantissa = np.ldexp(fraction, _MANTISSA_BITS).astype(np.uint64)
    digit, shift = np.divmod(np.where(values > 0, exponent - _MANTISSA_BITS + _POINT, 0), _DIGIT_BITS)
    # A mantissa is moved in two parts, each of which stays below 2**64.
    for place, part in enumerate((mantissa & _DIGIT, mantissa >> np.uint64(_DIGIT_BITS))):
        moved = part << shift.astype(np.uint64)
        np.add.at(sums, (bins, digit + place), moved & _DIGIT)
        np.add.at(sums, (bins, digit + place + 1), moved >> np.uint64(_DIGIT_BITS))


def _carried(digits: Counts) -> Counts:
    """Digits below 2**32 again, but for the highest."""
    digits = digits.copy()
    for place in range(_DIGITS - 1):
        digits[..., place + 1] += digits[..., place] >> _DIGIT_BITS
        digits[..., place] &= int(_DIGIT)
    return digits
