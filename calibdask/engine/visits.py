"""The order in which pairs of blocks are visited, in bounded memory."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain, islice
from typing import Any

from calibdask.engine.source import States, states_of
from calibdask.statistics.block import Block
from calibdask.statistics.folds import RowFold
from calibdask.statistics.pairs import PairStatistic

__all__ = ["HELD_BYTES", "ROWS", "fold_jobs", "pair_jobs", "pair_states"]

# Rows of a block whose pairs are one job.
ROWS = 1 << 11
# Blocks of a strip are held together, all others are read once for each strip.
HELD_BYTES = 1 << 28

_Blocks = Callable[[], Iterator[Block]]


def pair_states(earlier: Block, later: Block, statistics: tuple[PairStatistic, ...]) -> States:
    """States of the pairs of a row of one block and a row of the other."""
    return tuple(statistic.from_pair(earlier, later) for statistic in statistics)


def pair_jobs(blocks: _Blocks, statistics: tuple[PairStatistic, ...]) -> Iterator[Callable[[], States]]:
    """What computes the states of every block and of every pair of blocks, the earlier block first, each once."""
    for strip, rest in _strips(blocks):
        for place, block in enumerate(strip):
            yield partial(states_of, block, statistics)
            yield from (partial(pair_states, earlier, block, statistics) for earlier in strip[:place])
        for block in rest:
            yield from (partial(pair_states, earlier, block, statistics) for earlier in strip)


def fold_jobs(
    blocks: _Blocks, statistic: RowFold, side_by_side: Callable[[Iterable[Callable[[], Any]]], list[Any]]
) -> Iterator[Callable[[], States]]:
    """What computes the state of every block of targets, once all blocks have been folded into it in order."""
    for strip, _ in _strips(blocks):
        held = [statistic.begin(target) for target in strip]
        for turn in range(statistic.rounds):
            for source in blocks():
                held = side_by_side(
                    partial(statistic.fold, each, turn, target, source)
                    for each, target in zip(held, strip, strict=True)
                )
        yield from (partial(_finished, statistic, *pair) for pair in zip(held, strip, strict=True))


def _finished(statistic: RowFold, held: Any, target: Block) -> States:
    return (statistic.finish(held, target),)


def _strips(blocks: _Blocks) -> Iterator[tuple[list[Block], Iterator[Block]]]:
    """Consecutive blocks that are held together, and all blocks after them."""
    done = 0
    while True:
        running = islice(blocks(), done, None)
        strip: list[Block] = []
        size, later = 0, None
        for block in running:
            size += block.scores.nbytes
            if strip and size > HELD_BYTES:
                later = block
                break
            strip.append(block)
        yield strip, iter(()) if later is None else chain((later,), running)
        if later is None:
            return
        done += len(strip)
