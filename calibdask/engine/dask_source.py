"""The source for Dask arrays: one blockwise layer and one tree reduction a pass; only states reach the client."""

import itertools
import pickle
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property, partial, reduce
from typing import Any

import dask
import dask.array as da
import numpy as np
from dask.layers import ArrayValuesDep

from calibdask.engine import visits
from calibdask.engine.arrays import is_dask
from calibdask.engine.reduction import packed, tree
from calibdask.engine.rows import Rows, make_block
from calibdask.engine.source import RowSource, States, merged, states_of
from calibdask.engine.watching import Stage, enter
from calibdask.statistics.block import Block
from calibdask.statistics.folds import RowFold
from calibdask.statistics.layout import Layout
from calibdask.statistics.pairs import PairStatistic
from calibdask.statistics.statistic import State, Statistic
from calibdask.statistics.validity import Validity

__all__ = ["DaskSource"]

# Merging chunks of the class axis must not make blocks larger than this.
_LARGEST_BLOCK_BYTES = 1 << 28
_LARGE_REQUEST_BYTES = 1 << 15
# Positions of rows whose global number is not known yet: chunk number times this, plus the row in the chunk.
_CHUNK_STRIDE = 1 << 40
# Blocks between which pairs are made, and states of pairs that are merged at a time.
_MOST_BLOCKS = 64
_FAN_IN = 16

# What Dask calls the tasks, so that those who watch can count blocks, and pairs of them.
_BLOCK, _COUNTED = "calibdask-block", "calibdask-rows"
_PAIR_TASKS = ("states_of", "pair_states", "fold")

# What the user calls them.
_SAID = {"labels": "y_true", "weights": "sample_weight", "groups": "by"}


class DaskSource(RowSource):
    """Answers from Dask arrays: scores (batch, n, K or 1), labels and weights (1 or batch, n), groups (n,)."""

    def __init__(self, scores: Any, others: dict[str, Any], layout: Layout, validity: Validity) -> None:
        super().__init__(layout, validity)
        self._scores = _whole_rows(scores, others.values())
        chunks = self._scores.chunks[1]
        self._others = {name: _aligned(name, array, chunks) for name, array in others.items() if array is not None}
        self._sizes_known = not any(np.isnan(size) for size in chunks)

    def _pass(self, statistics: tuple[Statistic, ...]) -> States:
        """One pass through the scheduler in force (threads, or the current distributed client)."""
        reduced = self._reduced(statistics)
        enter(Stage(f"pass {self.passes}", total=self._scores.numblocks[1], tasks=(_BLOCK,)))
        (result,) = dask.compute(reduced)
        states: States = result.item()
        return states

    def _reduced(self, asked: tuple[Statistic, ...]) -> Any:
        """An array of one element that holds the merged states."""
        # A large request (edges of many slices) travels once, as a key of the graph, and not inside every task.
        large = len(pickle.dumps(asked)) > _LARGE_REQUEST_BYTES
        ordered = any(statistic.ordered for statistic in asked)
        boxes = self._by_chunk(_block_states, ordered, asked=dask.delayed(asked, traverse=False) if large else asked)
        each = sum(statistic.bytes(self.layout) for statistic in asked)
        return tree(boxes, partial(merged, asked), axis=1, each=each, name=_BLOCK)

    def _by_chunk(self, function: Callable[..., Any], ordered: bool, **options: Any) -> Any:
        """What a function of the block of each chunk packs, (1, chunks, 1); ordered blocks know where they are."""
        place = self._places if ordered else self._starts()[:, None]
        arguments: list[Any] = [self._scores, "bnk", ArrayValuesDep((self._scores.chunks[1],), place), "n"]
        for array in self._others.values():
            arguments += [array, "bn"[-array.ndim :]]
        return da.blockwise(
            partial(_with_block, function, self.layout, tuple(self._others)),
            "bnk",  # all axes stay: Dask does not fuse a layer that contracts one with the layers that it reads
            *arguments,
            dtype=object,
            meta=np.empty((0, 0, 0), object),
            adjust_chunks={"b": 1, "n": 1, "k": 1},
            align_arrays=False,
            **options,
        )

    def _pairs(self, statistics: tuple[PairStatistic, ...]) -> States:
        """Tasks for pairs of blocks, strip by strip: blocks of a strip stay, those after it are read once for it."""
        blocks = self._small_blocks()
        asked = dask.delayed(statistics, traverse=False)
        strips = []
        for start, stop in self._strips(len(blocks)):
            strip = [_states(block, asked) for block in blocks[start:stop]]
            for place in range(start, len(blocks)):
                earlier = blocks[start : min(stop, place)]
                strip += [_pair_states(each, blocks[place], asked) for each in earlier]
            self._enter_pairs(len(strip))
            (states,) = dask.compute(_reduced_states(strip, asked))
            self.passes += 1
            strips.append(states)
        return reduce(partial(merged, statistics), strips)

    def _fold(self, statistic: RowFold) -> State:
        """For each block of targets a chain of tasks through all blocks."""
        blocks = self._small_blocks()
        asked = dask.delayed(statistic, traverse=False)
        strips = []
        for start, stop in self._strips(len(blocks)):
            finished = []
            for target in blocks[start:stop]:
                held = _begun(asked, target)
                for turn in range(statistic.rounds):
                    for block in blocks:
                        held = _folded(asked, held, turn, target, block)
                finished.append(_finished(asked, held, target))
            self._enter_pairs((stop - start) * statistic.rounds * len(blocks))
            (states,) = dask.compute(_reduced_states(finished, dask.delayed((statistic,), traverse=False)))
            self.passes += 1
            strips.append(states)
        (state,) = reduce(partial(merged, (statistic,)), strips)
        return state

    def _enter_pairs(self, count: int) -> None:
        enter(Stage(f"pass {self.passes + 1}", "pairs of blocks", count, _PAIR_TASKS))

    def _strips(self, blocks: int) -> list[tuple[int, int]]:
        rows = self.rows or 1
        size = self._scores.dtype.itemsize * self._scores.shape[0] * self._scores.shape[2] * max(1, rows // blocks)
        step = max(1, visits.HELD_BYTES // size)
        return [(start, min(blocks, start + step)) for start in range(0, blocks, step)]

    def _small_blocks(self) -> list[Any]:
        """Blocks of few rows as delayed objects."""
        starts = self._places[:, 0].tolist()
        rows = self.rows or 0
        sizes = tuple(b - a for a, b in itertools.pairwise([*starts, rows]))
        # Many rows mean many pairs of blocks: no more than some thousand tasks.
        most = max(visits.ROWS, -(-rows // _MOST_BLOCKS))
        smaller, *others = (
            _with_sizes(array, sizes, axis).rechunk({axis: most})
            for array, axis in ((self._scores, 1), *((array, array.ndim - 1) for array in self._others.values()))
        )
        named = dict(zip(self._others, others, strict=True))
        boxes = DaskSource(smaller, named, self.layout, self._validity)._by_chunk(_block_itself, True)
        return [_unpacked(box) for box in boxes.to_delayed().ravel()]

    def _starts(self) -> np.ndarray:
        """Global number of the first row of each chunk, or a stand-in where sizes are unknown."""
        sizes = self._scores.chunks[1]
        if self._sizes_known:
            return np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)
        return np.arange(len(sizes)) * _CHUNK_STRIDE

    @cached_property
    def _places(self) -> np.ndarray:
        """For each chunk the number of its first row and the rows of each slice before it, (chunks, 1 + groups).

        Where Dask does not know it a pass over the slices, or the labels, counts rows.
        """
        if self._sizes_known and "groups" not in self._others:
            starts = self._starts()
            return np.stack([starts, starts], axis=1)
        told = self._others.get("groups", self._others["labels"])
        counts = da.blockwise(
            partial(_rows_by_group, self.layout.groups, "groups" in self._others),
            "bn"[-told.ndim :],
            told,
            "bn"[-told.ndim :],
            dtype=object,
            meta=np.empty((0,) * told.ndim, object),
            adjust_chunks={"b": 1, "n": 1},
            token=_COUNTED,
        )
        enter(Stage("counting rows", total=told.numblocks[-1], tasks=(_COUNTED,)))
        rows = np.stack(counts.compute().ravel().tolist())
        before = np.cumsum(rows, axis=0) - rows
        return np.concatenate([before.sum(axis=1, keepdims=True), before], axis=1)

    def _row_of(self, position: int) -> int:
        """Global row number of a position; counts the rows of earlier chunks where sizes are unknown."""
        if self._sizes_known or "_places" in self.__dict__:
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


def _with_sizes(array: Any, sizes: tuple[int, ...], axis: int) -> Any:
    """The array with chunk sizes along an axis that Dask may not know."""
    chunks = tuple(sizes if place == axis else each for place, each in enumerate(array.chunks))
    return da.Array(array.dask, array.name, chunks, dtype=array.dtype)


def _with_block(
    function: Callable[..., Any],
    layout: Layout,
    names: tuple[str, ...],
    scores: Any,
    place: Any,
    *others: Any,
    **options: Any,
) -> np.ndarray:
    """What a function makes of the block of one chunk, packed into an object array of one element, (1, 1, 1)."""
    given = dict(zip(names, others, strict=True))
    rows = Rows(np.asarray(scores), given["labels"], given.get("weights"), given.get("groups"))
    start, *before = np.asarray(place).ravel().tolist()
    block = make_block(rows, layout, start, np.array(before, np.int64) if before else None)
    return packed(function(block, **options), 3)


def _block_states(block: Block, asked: tuple[Statistic, ...]) -> States:
    return states_of(block, asked)


def _block_itself(block: Block) -> Block:
    return block


def _rows_by_group(groups: int, grouped: bool, told: Any) -> np.ndarray:
    """Rows of each slice in one chunk, packed."""
    told = np.asarray(told)
    counts = np.bincount(told, minlength=groups) if grouped else np.array([told.shape[-1]])
    return packed(counts.astype(np.int64), told.ndim)


def _begin(statistic: RowFold, target: Block) -> Any:
    return statistic.begin(target)


def _fold(statistic: RowFold, held: Any, turn: int, target: Block, block: Block) -> Any:
    return statistic.fold(held, turn, target, block)


def _finish(statistic: RowFold, held: Any, target: Block) -> States:
    return (statistic.finish(held, target),)


def _merge(statistics: tuple[Statistic, ...], states: Sequence[States]) -> States:
    return reduce(partial(merged, statistics), states)


# Functions of what tasks before them return.
_unpacked = dask.delayed(np.ndarray.item, pure=True)
_states = dask.delayed(states_of, pure=True)
_pair_states = dask.delayed(visits.pair_states, pure=True)
_begun = dask.delayed(_begin, pure=True)
_folded = dask.delayed(_fold, pure=True)
_finished = dask.delayed(_finish, pure=True)
_merged = dask.delayed(_merge, pure=True)


def _reduced_states(states: list[Any], statistics: Any) -> Any:
    """A tree of tasks that merges delayed states in order."""
    while len(states) > 1:
        states = [_merged(statistics, states[at : at + _FAN_IN]) for at in range(0, len(states), _FAN_IN)]
    return states[0]
