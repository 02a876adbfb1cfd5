"""Memory plan of a lattice, known before the first pass; the error names a feasible size."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np
import numpy.typing as npt

from calibdask.engine.workers import Workers, number_of_threads
from calibdask.statistics.bins.edges import Edges
from calibdask.statistics.exact import Counts
from calibdask.statistics.lattice.coding import Coding, missing_again, name_of
from calibdask.statistics.lattice.lattice_sums import LatticeSums
from calibdask.statistics.lattice.segments import Segments, Subset, subsets_of
from calibdask.statistics.settings import Setting

# A part of the lattice that is filled in one pass, at most.
_PART_BYTES = 1 << 28
_MOST_PARTS = 8
# States of blocks that are being filled, or wait to be added up, for each thread; and a sum, what is added, and both.
_WAITING, _SUMS = 2, 3
_BYTES, _WEIGHTED_BYTES = 32, 40
_FEWEST_CELLS = 8


@dataclass(frozen=True)
class LatticePlan:
    """The segments of features up to a depth, in parts that fit into memory.

    ``copies`` are filled at a time. All states, of every thread, take at most half of the memory of this machine. Each
    of the ``workers`` of a cluster holds the states of one part, in at most half of its memory; this process keeps all.
    """

    setting: Setting
    edges: Edges
    features: tuple[Coding, ...]
    depth: int
    weighted: bool
    copies: int = 1
    workers: Workers | None = None

    def __post_init__(self) -> None:
        sizes = [feature.size for feature in self.features]
        if not self._fits(sizes, self.depth, self.edges.bins):
            count, needed = segment_count(sizes, self.depth), self._bytes(sizes, self.depth, self.edges.bins)
            copies = f", {self.copies} times over" if self.copies > 1 else ""
            raise ValueError(
                f"audit expects lattices of at most {_megabytes(self._most_bytes)} here, for {self._room}, "
                f"got {_megabytes(needed)}: "
                f"{count:,} segments of up to {self.depth} of {len(sizes)} features times {self.edges.bins} cells of "
                f"scores{copies}; feasible: {' or '.join([*self._feasible_plans(sizes), 'fewer features or values'])}."
            )

    def _feasible_plans(self, sizes: list[int]) -> Iterator[str]:
        """The largest depth, number of cells and number of values that fit, each by itself."""
        cells, depth = self.edges.bins, self.depth
        if found := next((d for d in range(depth - 1, 0, -1) if self._fits(sizes, d, cells)), 0):
            segments = f"{segment_count(sizes, found):,} segments"
            yield f"depth={found} ({segments}) of {_megabytes(self._bytes(sizes, found, cells))}"
        if found := next((c for c in range(cells - 1, _FEWEST_CELLS - 1, -1) if self._fits(sizes, depth, c)), 0):
            yield f"score_cells={found} of {_megabytes(self._bytes(sizes, depth, found))}"
        for values in range(max(sizes) - 1, 1, -1):
            fewer = [min(size, values + coding.missing) for size, coding in zip(sizes, self.features, strict=True)]
            if self._fits(fewer, depth, cells):
                yield f"values={values} of {_megabytes(self._bytes(fewer, depth, cells))}"
                break

    def _fits(self, sizes: list[int], depth: int, cells: int) -> bool:
        """Whether a lattice fits, in as few passes as may be, and the largest of its tables for every thread."""
        total = self._bytes(sizes, depth, cells)
        largest = int(np.prod(sorted(sizes)[-depth:], dtype=np.float64)) * cells * self._row
        states = self.copies * self._states * largest
        if self.workers is None:
            return total <= self._most_bytes and states + self.copies * total <= _memory() // 2
        return total <= self._most_bytes and states <= self._memory // 2

    def _bytes(self, sizes: list[int], depth: int, cells: int) -> int:
        """Memory of a lattice."""
        return segment_count(sizes, depth) * cells * self._row

    @property
    def _row(self) -> int:
        """Bytes of a segment and cell."""
        return _WEIGHTED_BYTES if self.weighted else _BYTES

    @property
    def _part_bytes(self) -> int:
        """Bytes per part, such that the states of all threads and the kept results fit."""
        if self.workers is None:
            return min(_PART_BYTES, _memory() // 2 // (self.copies * (self._states + _MOST_PARTS)))
        here, there = _memory() // (_SUMS + _MOST_PARTS), self._memory // self._states
        return min(_PART_BYTES, min(here, there) // (2 * self.copies))

    @property
    def _states(self) -> int:
        """States of a part that there are at a time where blocks are computed."""
        threads = number_of_threads() if self.workers is None else self.workers.threads
        return _WAITING * threads + _SUMS

    @property
    def _memory(self) -> int:
        """Bytes of memory where blocks are computed."""
        return _memory() if self.workers is None or self.workers.memory is None else self.workers.memory

    @property
    def _room(self) -> str:
        """That memory in words."""
        if self.workers is None:
            return f"{_threads(number_of_threads())} in half of {_megabytes(self._memory)} of memory"
        return f"workers of {_threads(self.workers.threads)} in half of their {_megabytes(self._memory)} of memory"

    @property
    def _most_bytes(self) -> int:
        return self._part_bytes * _MOST_PARTS

    @cached_property
    def segments(self) -> Segments:
        """All of them."""
        sizes = tuple(feature.size for feature in self.features)
        return Segments(sizes, subsets_of(len(sizes), min(self.depth, len(sizes))))

    def parts(self) -> Iterator[LatticeSums]:
        """The statistics that fill the lattice, each in a pass of its own."""
        here: list[Subset] = []
        size, most = 0, self._part_bytes // (self.edges.bins * self._row)
        for subset, count in zip(self.segments.subsets, self.segments.counts.tolist(), strict=True):
            if here and size + count > most:
                yield LatticeSums(self.setting, self.edges, self.features, tuple(here))
                here, size = [], 0
            here.append(subset)
            size += count
        yield LatticeSums(self.setting, self.edges, self.features, tuple(here))

    def kept(self, part: Segments, rows: Counts, first: int, min_rows: int) -> npt.NDArray[np.intp]:
        """Segments with enough rows of a part that begins with number ``first``.

        Segments of the same rows by construction are looked at once.
        """
        distinct = self._distinct[first : first + part.count]
        return np.flatnonzero((rows >= min_rows) & distinct)

    @cached_property
    def _distinct(self) -> npt.NDArray[np.bool_]:
        """Segments without those by parts of dates that are missing, but for the first part of each."""
        again = {*missing_again(self.features)}
        distinct = np.ones(self.segments.count, np.bool_)
        for subset, first, count in zip(
            self.segments.subsets, self.segments.base.tolist(), self.segments.counts.tolist(), strict=True
        ):
            values = distinct[first : first + count].reshape([self.segments.sizes[i] for i in subset])
            for axis, feature in enumerate(subset):
                if feature in again:
                    values[(slice(None),) * axis + (-1,)] = False
        return distinct

    def name(self, feature: int) -> str:
        """The name of a feature, of dates with the part."""
        return name_of(self.features[feature])

    def text(self, segments: Segments, number: int) -> str:
        """A segment as a conjunction."""
        subset, values = segments.describe(number)
        return ", ".join(self._texts[i][value] for i, value in zip(subset, values, strict=True)) or "all rows"

    @cached_property
    def _texts(self) -> tuple[tuple[str, ...], ...]:
        return tuple(feature.texts for feature in self.features)


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.0f} MB" if size >= 1e7 else f"{size / 1e6:.2g} MB"


def _threads(threads: int) -> str:
    return "one thread" if threads == 1 else f"{threads} threads"


@cache
def _memory() -> int:
    """Bytes of memory of this machine."""
    import psutil

    return int(psutil.virtual_memory().total)


def segment_count(sizes: list[int], depth: int) -> int:
    """Segments of up to ``depth`` features with so many values.

    Examples
    --------
    >>> segment_count([5] * 20, 2), segment_count([5] * 20, 3)
    (4851, 147351)
    """
    by_depth = [1, *[0] * depth]
    for size in sizes:
        for d in range(depth, 0, -1):
            by_depth[d] += by_depth[d - 1] * size
    return sum(by_depth)
