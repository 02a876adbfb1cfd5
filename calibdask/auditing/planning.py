"""How a lattice is filled: what it takes is known before the first row is read, and what fits is said."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from calibdask.statistics.bins.edges import Edges
from calibdask.statistics.exact import Counts
from calibdask.statistics.lattice.coding import Coding, missing_again, name_of
from calibdask.statistics.lattice.lattice_sums import LatticeSums
from calibdask.statistics.lattice.segments import Segments, subsets_of
from calibdask.statistics.settings import Setting

# A part of the lattice that is filled in one pass; every thread has one of its own.
_PART_BYTES = 1 << 28
_MOST_PARTS = 8
_BYTES, _WEIGHTED_BYTES = 32, 40


@dataclass(frozen=True)
class LatticePlan:
    """The segments of features up to a depth, in parts that fit into memory."""

    setting: Setting
    edges: Edges
    features: tuple[Coding, ...]
    depth: int
    weighted: bool

    def __post_init__(self) -> None:
        most = _PART_BYTES * _MOST_PARTS // (_WEIGHTED_BYTES if self.weighted else _BYTES)
        sizes = [feature.size for feature in self.features]
        count = segment_count(sizes, self.depth)
        if count * self.edges.bins > most:
            fits = max(
                (d for d in range(1, self.depth) if segment_count(sizes, d) * self.edges.bins <= most), default=0
            )
            cells = most // count
            what = [f"depth={fits} ({segment_count(sizes, fits):,} segments)"] if fits else []
            what += [f"score_cells={cells}"] if cells >= 8 else []
            raise ValueError(
                f"audit expects at most {most:,} cells of segments and scores, got {count:,} segments of up to "
                f"{self.depth} of {len(sizes)} features times {self.edges.bins} cells; what fits: "
                f"{' or '.join([*what, 'fewer features or values'])}."
            )

    @cached_property
    def segments(self) -> Segments:
        """All of them."""
        sizes = tuple(feature.size for feature in self.features)
        return Segments(sizes, subsets_of(len(sizes), min(self.depth, len(sizes))))

    def parts(self) -> Iterator[LatticeSums]:
        """The statistics that fill the lattice, each in a pass of its own."""
        row = self.edges.bins * (_WEIGHTED_BYTES if self.weighted else _BYTES)
        ends = np.cumsum(self.segments.counts) * row
        part = (ends - 1) // _PART_BYTES
        for number in np.unique(part).tolist():
            here = [subset for subset, at in zip(self.segments.subsets, part.tolist(), strict=True) if at == number]
            yield LatticeSums(self.setting, self.edges, self.features, tuple(here))

    def kept(self, part: Segments, rows: Counts, first: int, min_rows: int) -> npt.NDArray[np.intp]:
        """The segments of a part, which begins with number ``first``, that are looked at: those of enough rows.

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
