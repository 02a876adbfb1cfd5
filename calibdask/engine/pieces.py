"""The source for rows in memory, or coming block by block from an iterator."""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import chain

from calibdask.engine.rows import Rows, make_block
from calibdask.engine.source import Source, States, merged, states_of
from calibdask.engine.verdict import raise_if_invalid
from calibdask.statistics.layout import Layout
from calibdask.statistics.statistic import Statistic
from calibdask.statistics.validity import Validity

__all__ = ["PieceSource", "pieces"]

# Rows are taken in pieces of about this many scores, so that what kernels make of them stays small.
_PIECE_SCORES = 1 << 22
_FEWEST_ROWS = 1 << 15


def pieces(rows: Rows) -> Iterator[Rows]:
    """Consecutive pieces of rows; one, empty, of no rows."""
    step = max(_FEWEST_ROWS, _PIECE_SCORES // max(1, rows.scores.shape[0] * rows.width))
    for start in range(0, max(1, rows.count), step):
        yield rows.part(start, start + step)


class PieceSource(Source):
    """Answers from an iterator of consecutive rows, which it asks for anew in each pass."""

    def __init__(self, iterate: Callable[[], Iterator[Rows]], layout: Layout, validity: Validity) -> None:
        self.layout = layout
        self._iterate = iterate
        self._validity = validity
        self.rows: int | None = None

    def answer(self, statistics: tuple[Statistic, ...]) -> States:
        """One pass, pieces side by side on threads, merged in order."""
        asked = statistics if self.rows is not None else (*statistics, self._validity)
        total = _total(asked, self._iterate(), self.layout)
        if self.rows is None:
            raise_if_invalid(total[-1], self._validity, self.layout)
            self.rows = int(total[-1].rows)
        return total[: len(statistics)]


def _total(asked: tuple[Statistic, ...], rows: Iterator[Rows], layout: Layout) -> States:
    """Merged states of all pieces; only few pieces are ahead of the merging, so memory stays bounded."""

    def states(start: int, piece: Rows) -> States:
        return states_of(make_block(piece, layout, start), asked)

    first = next(rows)
    second = next(rows, None)
    total = states(0, first)
    if second is None:
        return total
    threads = os.cpu_count() or 1
    start = first.count
    with ThreadPoolExecutor(threads) as pool:
        ahead = []
        for piece in chain([second], rows):
            ahead.append(pool.submit(states, start, piece))
            start += piece.count
            if len(ahead) > 2 * threads:
                total = merged(asked, total, ahead.pop(0).result())
        for future in ahead:
            total = merged(asked, total, future.result())
    return total
