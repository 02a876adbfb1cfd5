"""The order in which pairs of blocks are visited, in bounded memory."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain, islice
from typing import Any

from calibdask.engine.sources.source import States, states_of
from calibdask.statistics.block import Block
from calibdask.statistics.pairs.pair_statistic import PairStatistic
from calibdask.statistics.pairs.target_reduction import TargetReduction

# Rows of a block whose pairs are one job.
ROWS = 1 << 11
# Blocks of a strip are held together, all others are read once for each strip.
HELD_BYTES = 1 << 28

_Blocks = Callable[[], Iterator[Block]]


def pair_states(earlier: Block, later: Block, statistics: tuple[PairStatistic[Any], ...]) -> States:
    """States of the pairs of a row of one block and a row of the other."""
    return tuple(statistic.from_pair(earlier, later) for statistic in statistics)


def pair_jobs(blocks: _Blocks, statistics: tuple[PairStatistic[Any], ...]) -> Iterator[Callable[[], States]]:
    """Jobs for the states of every block and of every pair of blocks, the earlier block first, each once."""
    for strip, rest in _strips(blocks):
        for position, block in enumerate(strip):
            yield partial(states_of, block, statistics)
            yield from (partial(pair_states, earlier, block, statistics) for earlier in strip[:position])
        for block in rest:
            yield from (partial(pair_states, earlier, block, statistics) for earlier in strip)


def fold_jobs(
    blocks: _Blocks,
    reduction: TargetReduction[Any, Any],
    in_parallel: Callable[[Iterable[Callable[[], Any]]], list[Any]],
) -> Iterator[Callable[[], States]]:
    """Jobs for the state of every block of targets, once all blocks have been folded into it in order."""
    for strip, _ in _strips(blocks):
        held = [reduction.begin(target) for target in strip]
        for turn in range(reduction.rounds):
            for source in blocks():
                held = in_parallel(
                    partial(reduction.fold, fold, turn, target, source)
                    for fold, target in zip(held, strip, strict=True)
                )
        yield from (partial(_finished, reduction, *pair) for pair in zip(held, strip, strict=True))


def _finished(reduction: TargetReduction[Any, Any], held: Any, target: Block) -> States:
    return (reduction.finish(held, target),)


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
