"""The source for Dask arrays: one blockwise layer and one tree reduction a pass; only states reach the client."""

import itertools
import pickle
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property, partial, reduce
from typing import Any, TypeVar

import dask
import dask.array as da
import numpy as np
from dask.layers import ArrayValuesDep

from calibdask.engine.arrays import StrayValue, is_dask, unmasked
from calibdask.engine.progress_events import Stage, start_stage
from calibdask.engine.row_filter import RowFilter
from calibdask.engine.row_notes import OtherLabels
from calibdask.engine.rows import Rows, make_block
from calibdask.engine.sources import pair_schedule
from calibdask.engine.sources.reduction import packed, tree
from calibdask.engine.sources.source import RowSource, States, merged, states_of
from calibdask.engine.workers import Workers, scheduler, workers_in_force
from calibdask.statistics.block import Block
from calibdask.statistics.layout import Layout
from calibdask.statistics.pairs.pair_statistic import PairStatistic
from calibdask.statistics.pairs.target_reduction import TargetReduction
from calibdask.statistics.statistic import Statistic
from calibdask.statistics.validity import Validity

StateT = TypeVar("StateT")

# Merging chunks of the class axis must not make blocks larger than this.
_LARGEST_BLOCK_BYTES = 1 << 28
_LARGE_REQUEST_BYTES = 1 << 15
# Positions of rows whose global number is not known yet: number of the chunk times this, plus the row in the chunk.
_CHUNK_STRIDE = 1 << 40
# Blocks between which pairs are made, and states of pairs that are merged at a time.
_MOST_BLOCKS = 64
_FAN_IN = 16

# Names of the tasks in Dask, by which progress counts blocks and pairs of them.
_BLOCK, _COUNTED = "calibdask-block", "calibdask-rows"
_PAIR_TASKS = ("states_of", "pair_states", "fold")

# Their parameters in the interface; other arrays are features, by their names.
_PARAMETERS = {"labels": "y_true", "weights": "sample_weight", "groups": "by", "clusters": "groups"}


class DaskSource(RowSource):
    """Answers from Dask arrays: scores (batch, n, K or 1), labels and weights (1 or batch, n), groups (n,)."""

    def __init__(
        self,
        scores: Any,
        others: dict[str, Any],
        layout: Layout,
        validity: Validity,
        row_filter: RowFilter | None = None,
    ) -> None:
        super().__init__(layout, validity)
        self._scores = _whole_rows(scores, others.values())
        chunks = self._scores.chunks[1]
        self._others = {name: _aligned(name, array, chunks) for name, array in others.items() if array is not None}
        self._filter = row_filter
        self._lazy_labels: Any = None
        self._unknown: Callable[[], Any] | None = None
        # Of the rows that are left, if some are left out.
        self._sizes_known = row_filter is None and not any(np.isnan(size) for size in chunks)

    @property
    def workers(self) -> Workers | None:
        """Workers of the active client."""
        return workers_in_force()

    def _pass(self, statistics: tuple[Statistic[Any], ...]) -> States:
        """One pass through the scheduler in force (threads, or the current distributed client)."""
        reduced = self._reduced(statistics)
        start_stage(Stage(f"pass {self.passes}", total=self._scores.numblocks[1], tasks=(_BLOCK,)))
        labels = self._lazy_labels if self.rows is None else None
        try:
            result, others = dask.compute(reduced, labels, scheduler=scheduler())
        except StrayValue:
            self._refuse_first_stray()
            raise
        if others is not None:
            self.other_labels = others.item()
        states: States = result.item()
        return states

    def _refuse_first_stray(self) -> None:
        """Raise `StrayValue` for the first row with one, whatever block was read first."""
        start, found = 0, list[StrayValue]()
        for number in range(self._scores.numblocks[1]):
            for block in (self._scores.blocks[:, number], *(one.blocks[..., number] for one in self._others.values())):
                rows = block.shape[1 if block.ndim == 3 else -1]
                try:
                    rows = block.compute(scheduler=scheduler()).shape[1 if block.ndim == 3 else -1]
                except StrayValue as error:
                    found.append(error.after(start))
            if not all(error.is_text for error in found):
                break
            start += rows
        if found:
            raise min(found, key=lambda error: (error.is_text, error.row)) from None

    def take_other_labels(self, others: Any, unknown: Callable[[], Any] | None = None) -> None:
        """Set the labels besides the positive one, which a collection of Dask finds in the first pass."""
        self._unknown = unknown
        if is_dask(others):
            self._lazy_labels = others
        else:
            super().take_other_labels(others)

    def find_labels(self) -> OtherLabels:
        """As of other sources; labels that are no class are searched only now."""
        if self._unknown is None:
            return self.other_labels
        found: OtherLabels = self._unknown().compute(scheduler=scheduler()).item()
        return found

    def _reduced(self, statistics: tuple[Statistic[Any], ...]) -> Any:
        """An array of one element that holds the merged states."""
        # A large request (edges of many slices) travels once, as a key of the graph, and not inside every task.
        large = len(pickle.dumps(statistics)) > _LARGE_REQUEST_BYTES
        ordered = any(statistic.ordered for statistic in statistics)
        sent = dask.delayed(statistics, traverse=False) if large else statistics
        boxes = self._by_chunk(states_of, ordered, statistics=sent)
        size = sum(statistic.bytes(self._memory_layout) for statistic in statistics)
        return tree(boxes, partial(merged, statistics), axis=1, size=size, name=_BLOCK)

    def _by_chunk(self, function: Callable[..., Any], ordered: bool, **options: Any) -> Any:
        """Packed results of a function of each block, (1, chunks, 1); ordered blocks know their position."""
        positions = self._chunk_starts if ordered else self._starts()[:, None]
        arguments: list[Any] = [self._scores, "bnk", ArrayValuesDep((self._scores.chunks[1],), positions), "n"]
        for array in self._others.values():
            arguments += [array, "bn"[-array.ndim :]]
        return da.blockwise(
            partial(_with_block, function, self.layout, tuple(self._others), self._filter),
            "bnk",  # all axes stay: Dask does not fuse a layer that contracts one with the layers that it reads
            *arguments,
            dtype=object,
            meta=np.empty((0, 0, 0), object),
            adjust_chunks={"b": 1, "n": 1, "k": 1},
            align_arrays=False,
            **options,
        )

    def _pairs(self, statistics: tuple[PairStatistic[Any], ...]) -> States:
        """Tasks for pairs of blocks, strip by strip: blocks of a strip stay, those after it are read once for it."""
        blocks = self._small_blocks()
        sent = dask.delayed(statistics, traverse=False)
        strips = []
        for start, stop in self._strips(len(blocks)):
            strip = [_states(block, sent) for block in blocks[start:stop]]
            for number in range(start, len(blocks)):
                earlier = blocks[start : min(stop, number)]
                strip += [_pair_states(block, blocks[number], sent) for block in earlier]
            self._start_pairs(len(strip))
            (states,) = dask.compute(_reduced_states(strip, sent), scheduler=scheduler())
            self.passes += 1
            strips.append(states)
        return reduce(partial(merged, statistics), strips)

    def _targets(self, reduction: TargetReduction[Any, StateT]) -> StateT:
        """For each block of targets a chain of tasks through all blocks."""
        blocks = self._small_blocks()
        sent = dask.delayed(reduction, traverse=False)
        strips = []
        for start, stop in self._strips(len(blocks)):
            finished = []
            for target in blocks[start:stop]:
                held = _begun(sent, target)
                for turn in range(reduction.rounds):
                    for block in blocks:
                        held = _folded(sent, held, turn, target, block)
                finished.append(_finished(sent, held, target))
            self._start_pairs((stop - start) * reduction.rounds * len(blocks))
            sent_reduction = dask.delayed((reduction,), traverse=False)
            (states,) = dask.compute(_reduced_states(finished, sent_reduction), scheduler=scheduler())
            self.passes += 1
            strips.append(states)
        (state,) = reduce(partial(merged, (reduction,)), strips)
        return state

    def _start_pairs(self, count: int) -> None:
        start_stage(Stage(f"pass {self.passes + 1}", "pairs of blocks", count, _PAIR_TASKS))

    def _strips(self, blocks: int) -> list[tuple[int, int]]:
        rows = self.rows or 1
        size = self._scores.dtype.itemsize * self._scores.shape[0] * self._scores.shape[2] * max(1, rows // blocks)
        step = max(1, pair_schedule.HELD_BYTES // size)
        return [(start, min(blocks, start + step)) for start in range(0, blocks, step)]

    def _small_blocks(self) -> list[Any]:
        """Blocks of few rows as delayed objects."""
        starts = self._chunk_starts[:, 0].tolist()
        rows = self.rows or 0
        sizes = tuple(b - a for a, b in itertools.pairwise([*starts, rows]))
        # Many rows mean many pairs of blocks: no more than some thousand tasks.
        most = max(pair_schedule.ROWS, -(-rows // _MOST_BLOCKS))
        scores, kept = self._scores, self._others
        if self._filter is not None:
            scores, kept = self._filter.kept_arrays(scores, kept)
        smaller, *others = (
            _with_sizes(array, sizes, axis).rechunk({axis: most})
            for array, axis in ((scores, 1), *((array, array.ndim - 1) for array in kept.values()))
        )
        rechunked = dict(zip(kept, others, strict=True))
        boxes = DaskSource(smaller, rechunked, self.layout, self._validity)._by_chunk(_block_itself, True)
        return [_unpacked(box) for box in boxes.to_delayed().ravel()]

    def _starts(self) -> np.ndarray:
        """Global number of the first row of each chunk, or a placeholder where sizes are unknown."""
        sizes = self._scores.chunks[1]
        if self._sizes_known:
            return np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)
        return np.arange(len(sizes)) * _CHUNK_STRIDE

    @cached_property
    def _chunk_starts(self) -> np.ndarray:
        """For each chunk the number of its first row and the rows of each slice before it, (chunks, 1 + groups).

        Where Dask does not know the sizes, a pass over the slices, or the labels, counts rows.
        """
        if self._sizes_known and "groups" not in self._others:
            starts = self._starts()
            return np.stack([starts, starts], axis=1)
        if self._filter is not None:
            return self._starts_of(self._by_chunk(_rows_of_block, False))
        counted = self._others.get("groups", self._others["labels"])
        counts = da.blockwise(
            partial(_rows_by_group, self.layout.groups, "groups" in self._others),
            "bn"[-counted.ndim :],
            counted,
            "bn"[-counted.ndim :],
            dtype=object,
            meta=np.empty((0,) * counted.ndim, object),
            adjust_chunks={"b": 1, "n": 1},
            token=_COUNTED,
        )
        return self._starts_of(counts)

    def _starts_of(self, counts: Any) -> np.ndarray:
        """The starts of all chunks from their packed numbers of rows by slice."""
        start_stage(Stage("counting rows", total=self._scores.numblocks[1], tasks=(_COUNTED,)))
        rows = np.stack(counts.compute(scheduler=scheduler()).ravel().tolist())
        before = np.cumsum(rows, axis=0) - rows
        return np.concatenate([before.sum(axis=1, keepdims=True), before], axis=1)

    def _row_of(self, position: int) -> int:
        """Global row number of a position; counts the rows of earlier chunks where sizes are unknown."""
        if self._sizes_known or "_chunk_starts" in self.__dict__:
            return position
        chunk, row = divmod(position, _CHUNK_STRIDE)
        if chunk == 0:
            return row
        if self._filter is not None:
            return row + int(self._chunk_starts[chunk, 0])
        return row + int(self._scores[0, :, 0].blocks[:chunk].compute_chunk_sizes().shape[0])


def _whole_rows(scores: Any, others: Iterable[Any]) -> Any:
    """Scores in chunks of whole rows of all batch elements that are not too large."""
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
    parameter = _PARAMETERS.get(name, name)
    if not is_dask(array):
        if any(np.isnan(size) for size in chunks):
            raise ValueError(
                f"{parameter} in memory expects known chunk sizes of the scores; call compute_chunk_sizes()."
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
            f"y_prob and {parameter} expect equal chunks if sizes are unknown; y_prob has {len(chunks)} "
            f"chunks, {parameter} {len(rechunked.chunks[-1])}. Call compute_chunk_sizes() on both first."
        )
    return rechunked


def _with_sizes(array: Any, sizes: tuple[int, ...], axis: int) -> Any:
    """The array with given chunk sizes along an axis, where Dask may not know them."""
    chunks = tuple(sizes if number == axis else known for number, known in enumerate(array.chunks))
    return da.Array(array.dask, array.name, chunks, dtype=array.dtype)


def _with_block(
    function: Callable[..., Any],
    layout: Layout,
    names: tuple[str, ...],
    row_filter: RowFilter | None,
    scores: Any,
    position: Any,
    *others: Any,
    **options: Any,
) -> np.ndarray:
    """The result of a function of the block of one chunk, packed into an object array of one element, (1, 1, 1)."""
    arrays = dict(zip(names, map(unmasked, others), strict=True))
    features = tuple(array for name, array in arrays.items() if name not in _PARAMETERS)
    rows = Rows(
        np.asarray(unmasked(scores)),
        arrays["labels"],
        arrays.get("weights"),
        arrays.get("groups"),
        features,
        clusters=arrays.get("clusters"),
    )
    if row_filter is not None:
        rows = row_filter.kept(rows)
    start, *before = np.asarray(position).ravel().tolist()
    block = make_block(rows, layout, start, np.array(before, np.int64) if before else None)
    return packed(function(block, **options), 3)


def _rows_of_block(block: Block) -> np.ndarray:
    """Rows of each slice in one block."""
    if not block.group.size and block.layout.groups == 1:
        return np.array([block.rows], np.int64)
    return np.bincount(block.group, minlength=block.layout.groups).astype(np.int64)


def _block_itself(block: Block) -> Block:
    return block


def _rows_by_group(groups: int, grouped: bool, counted: Any) -> np.ndarray:
    """Rows of each slice in one chunk, packed."""
    counted = np.asarray(counted)
    counts = np.bincount(counted, minlength=groups) if grouped else np.array([counted.shape[-1]])
    return packed(counts.astype(np.int64), counted.ndim)


def _begin(reduction: TargetReduction[Any, Any], target: Block) -> Any:
    return reduction.begin(target)


def _fold(reduction: TargetReduction[Any, Any], held: Any, turn: int, target: Block, block: Block) -> Any:
    return reduction.fold(held, turn, target, block)


def _finish(reduction: TargetReduction[Any, Any], held: Any, target: Block) -> States:
    return (reduction.finish(held, target),)


def _merge(statistics: tuple[Statistic[Any], ...], states: Sequence[States]) -> States:
    return reduce(partial(merged, statistics), states)


# Functions of the results of earlier tasks.
_unpacked = dask.delayed(np.ndarray.item, pure=True)
_states = dask.delayed(states_of, pure=True)
_pair_states = dask.delayed(pair_schedule.pair_states, pure=True)
_begun = dask.delayed(_begin, pure=True)
_folded = dask.delayed(_fold, pure=True)
_finished = dask.delayed(_finish, pure=True)
_merged = dask.delayed(_merge, pure=True)


def _reduced_states(states: list[Any], statistics: Any) -> Any:
    """A tree of tasks that merges delayed states in order."""
    while len(states) > 1:
        states = [_merged(statistics, states[at : at + _FAN_IN]) for at in range(0, len(states), _FAN_IN)]
    return states[0]
