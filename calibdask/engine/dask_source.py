"""The source for Dask arrays: one blockwise layer and one tree reduction a pass; only states reach the client."""

import pickle
from collections.abc import Iterable
from functools import partial
from typing import Any

import dask
import dask.array as da
import numpy as np
from dask.layers import ArrayValuesDep

from calibdask.engine.arrays import is_dask
from calibdask.engine.reduction import packed, tree
from calibdask.engine.rows import Rows, make_block
from calibdask.engine.source import Source, States, merged, states_of
from calibdask.engine.verdict import raise_if_invalid
from calibdask.statistics.layout import Layout
from calibdask.statistics.statistic import Statistic
from calibdask.statistics.validity import Validity

__all__ = ["DaskSource"]

# Merging chunks of the class axis must not make blocks larger than this.
_LARGEST_BLOCK_BYTES = 1 << 28
_LARGE_REQUEST_BYTES = 1 << 15
# Positions of rows whose global number is not known yet: chunk number times this, plus the row in the chunk.
_CHUNK_STRIDE = 1 << 40

# What the user calls them.
_SAID = {"labels": "y_true", "weights": "sample_weight", "groups": "by"}


class DaskSource(Source):
    """Answers from Dask arrays: scores (batch, n, K or 1), labels and weights (1 or batch, n), groups (n,)."""

    def __init__(self, scores: Any, others: dict[str, Any], layout: Layout, validity: Validity) -> None:
        self.layout = layout
        self._validity = validity
        self.rows: int | None = None
        self._scores = _whole_rows(scores, others.values())
        chunks = self._scores.chunks[1]
        self._others = {name: _aligned(name, array, chunks) for name, array in others.items() if array is not None}
        self._sizes_known = not any(np.isnan(size) for size in chunks)

    def answer(self, statistics: tuple[Statistic, ...]) -> States:
        """One pass through the scheduler in force (threads, or the current distributed client)."""
        asked = statistics if self.rows is not None else (*statistics, self._validity)
        (result,) = dask.compute(self._reduced(asked))
        total: States = result.item()
        if self.rows is None:
            raise_if_invalid(total[-1], self._validity, self.layout, self._row_of)
            self.rows = int(total[-1].rows)
        return total[: len(statistics)]

    def _reduced(self, asked: tuple[Statistic, ...]) -> Any:
        """An array of one element that holds the merged states."""
        chunks = self._scores.chunks[1]
        arguments: list[Any] = [self._scores, "bnk", ArrayValuesDep((chunks,), self._starts()), "n"]
        for array in self._others.values():
            arguments += [array, "bn"[-array.ndim :]]
        # A large request (edges of many slices) travels once, as a key of the graph, and not inside every task.
        large = len(pickle.dumps(asked)) > _LARGE_REQUEST_BYTES
        boxes = da.blockwise(
            partial(_block_states, self.layout, tuple(self._others)),
            "bnk",  # all axes stay: Dask does not fuse a layer that contracts one with the layers that it reads
            *arguments,
            dtype=object,
            meta=np.empty((0, 0, 0), object),
            adjust_chunks={"b": 1, "n": 1, "k": 1},
            align_arrays=False,
            asked=dask.delayed(asked, traverse=False) if large else asked,
        )
        each = sum(statistic.bytes(self.layout) for statistic in asked)
        return tree(boxes, partial(merged, asked), axis=1, each=each)

    def _starts(self) -> np.ndarray:
        """Global number of the first row of each chunk, or a stand-in where sizes are unknown."""
        sizes = self._scores.chunks[1]
        if self._sizes_known:
            return np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)
        return np.arange(len(sizes)) * _CHUNK_STRIDE

    def _row_of(self, position: int) -> int:
        """Global row number of a position; counts the rows of earlier chunks where sizes are unknown."""
        if self._sizes_known:
            return position
        chunk, row = divmod(position, _CHUNK_STRIDE)
        if chunk == 0:
            return row
        return row + int(self._scores[0, :, 0].blocks[:chunk].compute_chunk_sizes().shape[0])


def _whole_rows(scores: Any, others: Iterable[Any]) -> Any:
    """Scores whose chunks hold whole rows of all batch elements, and that are not too large."""
    if not is_dask(scores):
        rows = next(array for array in others if is_dask(array)).chunks[-1]
        if any(np.isnan(size) for size in rows):
            raise ValueError("Scores in memory expect known chunk sizes of the others; call compute_chunk_sizes().")
        return da.from_array(scores, chunks=(-1, rows, -1))
    merged_axes = scores.rechunk({0: -1, 2: -1}) if scores.numblocks[0] * scores.numblocks[2] > 1 else scores
    rows = merged_axes.chunks[1]
    row_bytes = merged_axes.dtype.itemsize * merged_axes.shape[0] * merged_axes.shape[2]
    largest = max(1, _LARGEST_BLOCK_BYTES // max(1, row_bytes))
    if any(np.isnan(size) for size in rows) or max(rows) <= largest or merged_axes is scores:
        return merged_axes
    return scores.rechunk({0: -1, 1: largest, 2: -1})


def _aligned(name: str, array: Any, chunks: tuple[float, ...]) -> Any:
    """An array with the chunks of the scores along its last axis."""
    if not is_dask(array):
        if any(np.isnan(size) for size in chunks):
            raise ValueError(
                f"{_SAID[name]} in memory expects known chunk sizes of the scores; call compute_chunk_sizes()."
            )
        return da.from_array(array, chunks=(*[-1] * (array.ndim - 1), chunks))
    rechunked = array.rechunk({0: -1}) if array.ndim == 2 and array.numblocks[0] > 1 else array
    if rechunked.chunks[-1] == chunks:
        return rechunked
    unknown = any(np.isnan(size) for size in (*chunks, *rechunked.chunks[-1]))
    if not unknown:
        return rechunked.rechunk({rechunked.ndim - 1: chunks})
    if len(rechunked.chunks[-1]) != len(chunks):
        raise ValueError(
            f"y_prob and {_SAID[name]} expect equal chunks where sizes are unknown; y_prob has {len(chunks)} chunks, "
            f"{_SAID[name]} {len(rechunked.chunks[-1])}. Call compute_chunk_sizes() on both first."
        )
    return rechunked


def _block_states(
    layout: Layout, names: tuple[str, ...], scores: Any, start: Any, *others: Any, asked: tuple[Statistic, ...]
) -> np.ndarray:
    """States of one chunk, packed into an object array of one element, (1, 1, 1)."""
    given = dict(zip(names, others, strict=True))
    rows = Rows(np.asarray(scores), given["labels"], given.get("weights"), given.get("groups"))
    return packed(states_of(make_block(rows, layout, int(start)), asked), 3)
