"""The source for rows in memory, or coming block by block from an iterator."""

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from itertools import chain
from typing import Any, TypeVar

import numpy as np

from calibdask.engine.progress_events import Stage, advance, start_stage
from calibdask.engine.rows import Rows, make_block
from calibdask.engine.sources import pair_schedule
from calibdask.engine.sources.source import RowSource, States, merged, states_of
from calibdask.engine.workers import in_parallel, number_of_threads
from calibdask.statistics.block import Block
from calibdask.statistics.layout import Layout
from calibdask.statistics.pairs.pair_statistic import PairStatistic
from calibdask.statistics.pairs.target_reduction import TargetReduction
from calibdask.statistics.statistic import Statistic
from calibdask.statistics.validity import Validity

# Rows are taken in pieces of about this many scores, so that the buffers of kernels stay small.
_PIECE_SCORES = 1 << 22
_FEWEST_ROWS = 1 << 15

StateT = TypeVar("StateT")

_Job = Callable[[], States]


def pieces(rows: Rows) -> Iterator[Rows]:
    """Consecutive pieces of rows; a single empty one if there are no rows."""
    return _cut(rows, _step(rows))


def piece_count(rows: Rows) -> int:
    """Number of these pieces."""
    return max(1, -(-rows.count // _step(rows)))


def _step(rows: Rows) -> int:
    return max(_FEWEST_ROWS, _PIECE_SCORES // max(1, rows.scores.shape[0] * rows.width))


def _cut(rows: Rows, step: int) -> Iterator[Rows]:
    for start in range(0, max(1, rows.count), step):
        yield rows.part(start, start + step)


class MemorySource(RowSource):
    """Answers from an iterator of consecutive rows, created anew for each pass.

    ``count`` is the number of pieces, 0 where it is not known before the first pass.

    Attributes
    ----------
    is_read_anew : bool
        Whether each pass reads the rows, which may have changed since the last one, and not arrays in memory.
    """

    def __init__(
        self,
        iterate: Callable[[], Iterator[Rows]],
        layout: Layout,
        validity: Validity,
        count: int = 0,
        *,
        is_read_anew: bool = True,
    ) -> None:
        super().__init__(layout, validity)
        self._iterate = iterate
        self._count = count
        self.is_read_anew = is_read_anew

    def _pass(self, statistics: tuple[Statistic[Any], ...]) -> States:
        """Pieces in parallel on threads, merged in order; what blocks are made from is copied there too."""
        ordered = any(statistic.ordered for statistic in statistics)
        makers = _makers(self._iterate(), self.layout, ordered=ordered)
        jobs = (partial(_states, make, statistics) for make in makers)
        start_stage(Stage(f"pass {self.passes}", total=self._count))
        states, self._count = _total(statistics, jobs, self._count)
        return states

    def _pairs(self, statistics: tuple[PairStatistic[Any], ...]) -> States:
        blocks = -(-(self.rows or 0) // pair_schedule.ROWS)
        pairs = blocks * (blocks + 1) // 2
        start_stage(Stage(f"pass {self.passes + 1}", "pairs of blocks", pairs))
        return _total(statistics, pair_schedule.pair_jobs(self._blocks, statistics), pairs)[0]

    def _targets(self, reduction: TargetReduction[Any, StateT]) -> StateT:
        start_stage(Stage(f"pass {self.passes + 1}", "blocks"))
        jobs = pair_schedule.fold_jobs(self._blocks, reduction, in_parallel)
        (state,), _ = _total((reduction,), jobs)
        return state

    def _blocks(self) -> Iterator[Block]:
        """Blocks so small that their pairs make many jobs."""
        self.passes += 1
        small = chain.from_iterable(_cut(rows, pair_schedule.ROWS) for rows in self._iterate())
        return (make() for make in _makers(small, self.layout, ordered=True))


def _states(make: Callable[[], Block], statistics: tuple[Statistic[Any], ...]) -> States:
    return states_of(make(), statistics)


def _makers(rows: Iterator[Rows], layout: Layout, *, ordered: bool) -> Iterator[Callable[[], Block]]:
    """Functions that make the blocks, with the number of the first row and, for ordered statistics, the rows before."""
    start = 0
    before = np.zeros(layout.groups, np.int64) if ordered else None
    for piece in rows:
        yield partial(make_block, piece, layout, start, before)
        start += piece.count
        if before is not None:
            counts = piece.count if piece.group is None else np.bincount(piece.group, minlength=layout.groups)
            before = before + counts


def _total(statistics: tuple[Statistic[Any], ...], jobs: Iterator[_Job], expected: int = 0) -> tuple[States, int]:
    """Merged states of all jobs, and their number; few jobs run ahead of the merging, so that memory stays bounded.

    ``expected`` is the approximate number of jobs for the progress display; 0 where it is not known.
    """
    total, done = next(jobs)(), 1
    second = next(jobs, None)
    if second is None:
        return total, done
    threads = number_of_threads()

    def merge(future: "Future[States]") -> None:
        nonlocal total, done
        total, done = merged(statistics, total, future.result()), done + 1
        advance(done, max(done, expected) if expected else 0)

    with ThreadPoolExecutor(threads) as pool:
        ahead: deque[Future[States]] = deque()
        for job in chain([second], jobs):
            ahead.append(pool.submit(job))
            if len(ahead) > 2 * threads:
                merge(ahead.popleft())
        for future in ahead:
            merge(future)
    return total, done
