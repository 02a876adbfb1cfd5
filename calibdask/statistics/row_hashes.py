"""Order-independent sums of row hashes, which any single change of a row changes."""

import hashlib
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from calibdask.kernels import row_hashes
from calibdask.statistics.block import Block
from calibdask.statistics.frozen import FrozenArray
from calibdask.statistics.statistic import Statistic

PARTS = row_hashes.PARTS
_NONE = np.zeros(0, np.uint64)


class RowHashesState(NamedTuple):
    """Rows, and sums of hashes modulo 2**64 as int64, shapes (batch,) and (batch, words)."""

    rows: npt.NDArray[np.int64]
    sums: npt.NDArray[np.int64]


@dataclass(frozen=True)
class RowHashes(Statistic[RowHashesState]):
    """Sums of hashes of the labels, scores, weights and slices of rows; slices include clusters where there are any.

    Parameters
    ----------
    keys : FrozenArray of int64, shape (groups,)
        A word for each slice, from its labels.
    """

    keys: FrozenArray

    def from_block(self, block: Block) -> RowHashesState:
        """Sums of one block; numbers count, not their types: float32 is widened, and -0 is 0."""
        batch = block.layout.batch
        sums = np.zeros((batch, row_hashes.WORDS), np.uint64)
        keys = self.keys.values.astype(np.int64).view(np.uint64)
        group = block.group
        if block.layout.clustered and block.clusters is not None:
            # A word for each row: of its slice and of its cluster.
            keys = _mixed(keys[group] if group.size else np.repeat(keys[:1], block.rows), block.clusters)
            group = np.arange(block.rows, dtype=np.int32)
        for b in range(batch):
            weights = _NONE if block.weights is None else _words(block.weights_of(b))
            labels = block.labels_of(b).astype(np.int64).view(np.uint64)
            scores = _words(block.scores[b % len(block.scores)])
            row_hashes.row_hashes(labels, scores, weights, group, keys, SEEDS, sums[b])
        return RowHashesState(np.full(batch, block.rows, np.int64), sums.view(np.int64))

    def merge(self, a: RowHashesState, b: RowHashesState) -> RowHashesState:
        """Sums of both, modulo 2**64."""
        return RowHashesState(a.rows + b.rows, (a.sums.view(np.uint64) + b.sums.view(np.uint64)).view(np.int64))


def _words(numbers: npt.NDArray[np.floating]) -> npt.NDArray[np.uint64]:
    return (np.ascontiguousarray(numbers, np.float64) + 0.0).view(np.uint64)


def _mixed(keys: npt.NDArray[np.uint64], clusters: npt.NDArray[np.int64]) -> npt.NDArray[np.uint64]:
    """Words of keys and clusters, a bijection of either."""
    words = clusters.view(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    words = (words ^ (words >> np.uint64(33))) * np.uint64(0xFF51AFD7ED558CCD)
    return keys + (words ^ (words >> np.uint64(33)))


def text_hash(text: str) -> int:
    """A word of 64 bits, signed, for a text."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little", signed=True)


def _seeds() -> npt.NDArray[np.uint64]:
    """Nothing up the sleeve: words of the names of the sums."""
    return np.array([text_hash(f"calibdask {word}") for word in range(row_hashes.WORDS)], np.int64).view(np.uint64)


SEEDS = _seeds()
