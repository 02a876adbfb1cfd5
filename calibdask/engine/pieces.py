"""The source for rows in memory, or coming block by block from an iterator."""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from itertools import chain
from typing import Any

import numpy as np

from calibdask.engine import visits
from calibdask.engine.rows import Rows, make_block
from calibdask.engine.source import RowSource, States, merged, states_of
from calibdask.engine.watching import Stage, enter, tell
from calibdask.statistics.block import Block
from calibdask.statistics.folds import RowFold
from calibdask.statistics.layout import Layout
from calibdask.statistics.pairs import PairStatistic
from calibdask.statistics.statistic import State, Statistic
from calibdask.statistics.validity import Validity

__all__ = ["PieceSource", "piece_count", "pieces"]

# Rows are taken in pieces of about this many scores, so that what kernels make of them stays small.
_PIECE_SCORES = 1 << 22
_FEWEST_ROWS = 1 << 15

_Job = Callable[[], States]


def pieces(rows: Rows) -> Iterator[Rows]:
    """Consecutive pieces of rows; one, empty, of no rows."""
    return _cut(rows, _step(rows))


def piece_count(rows: Rows) -> int:
    """How many pieces these are."""
    return max(1, -(-rows.count // _step(rows)))


def _step(rows: Rows) -> int:
    return max(_FEWEST_ROWS, _PIECE_SCORES // max(1, rows.scores.shape[0] * rows.width))


def _cut(rows: Rows, step: int) -> Iterator[Rows]:
    for start in range(0, max(1, rows.count), step):
        yield rows.part(start, start + step)


class PieceSource(RowSource):
    """Answers from an iterator of consecutive rows, which it asks for anew in each pass.

    ``count`` is the number of pieces, 0 where the first pass has yet to count them.
    """

    def __init__(
        self, iterate: Callable[[], Iterator[Rows]], layout: Layout, validity: Validity, count: int = 0
    ) -> None:
        super().__init__(layout, validity)
        self._iterate = iterate
        self._count = count

    def _pass(self, statistics: tuple[Statistic, ...]) -> States:
        """Pieces side by side on threads, merged in order; what blocks are made from is copied there too."""
        ordered = any(statistic.ordered for statistic in statistics)
        made = _makers(self._iterate(), self.layout, ordered=ordered)
        jobs = (partial(_states, make, statistics) for make in made)
        enter(Stage(f"pass {self.passes}", total=self._count))
        states, self._count = _total(statistics, jobs, self._count)
        return states

    def _pairs(self, statistics: tuple[PairStatistic, ...]) -> States:
        blocks = -(-(self.rows or 0) // visits.ROWS)
        pairs = blocks * (blocks + 1) // 2
        enter(Stage(f"pass {self.passes + 1}", "pairs of blocks", pairs))
        return _total(statistics, visits.pair_jobs(self._blocks, statistics), pairs)[0]

    def _fold(self, statistic: RowFold) -> State:
        enter(Stage(f"pass {self.passes + 1}", "blocks"))
        (state,), _ = _total((statistic,), visits.fold_jobs(self._blocks, statistic, _side_by_side))
        return state

    def _blocks(self) -> Iterator[Block]:
        """Blocks small enough for many tasks to be made of their pairs."""
        self.passes += 1
        small = chain.from_iterable(_cut(rows, visits.ROWS) for rows in self._iterate())
        return (make() for make in _makers(small, self.layout, ordered=True))


def _states(make: Callable[[], Block], statistics: tuple[Statistic, ...]) -> States:
    return states_of(make(), statistics)


def _makers(rows: Iterator[Rows], layout: Layout, *, ordered: bool) -> Iterator[Callable[[], Block]]:
    """What makes each block, with the number of its first row and, for ordered statistics, the rows before it."""
    start = 0
    before = np.zeros(layout.groups, np.int64) if ordered else None
    for piece in rows:
        yield partial(make_block, piece, layout, start, before)
        start += piece.count
        if before is not None:
            counts = piece.count if piece.group is None else np.bincount(piece.group, minlength=layout.groups)
            before = before + counts


def _total(asked: tuple[Statistic, ...], jobs: Iterator[_Job], expected: int = 0) -> tuple[States, int]:
    """Merged states of all jobs, and how many these were; only few are ahead of the merging: memory stays bounded.

    Whoever watches is told how many are done, of about as many as are ``expected``; 0: nobody knows.
    """
    total, done = next(jobs)(), 1
    second = next(jobs, None)
    if second is None:
        return total, done
    threads = _threads()

    def merge(future: "Future[States]") -> None:
        nonlocal total, done
        total, done = merged(asked, total, future.result()), done + 1
        tell(done, max(done, expected) if expected else 0)

    with ThreadPoolExecutor(threads) as pool:
        ahead: deque[Future[States]] = deque()
        for job in chain([second], jobs):
            ahead.append(pool.submit(job))
            if len(ahead) > 2 * threads:
                merge(ahead.popleft())
        for future in ahead:
            merge(future)
    return total, done


def _side_by_side(jobs: Iterable[Callable[[], Any]]) -> list[Any]:
    with ThreadPoolExecutor(_threads()) as pool:
        return list(pool.map(lambda job: job(), jobs))


def _threads() -> int:
    """One for each core that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
