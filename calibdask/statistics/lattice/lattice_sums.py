"""Sums of rows by segment and by cell of scores: what an audit computes all its numbers from."""

from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from calibdask.kernels import lattice
from calibdask.statistics import exact
from calibdask.statistics.bins.edges import Edges
from calibdask.statistics.block import Block
from calibdask.statistics.exact import Array, Counts, Sums
from calibdask.statistics.lattice.coding import Coding
from calibdask.statistics.lattice.lattice_rows import LatticeRows
from calibdask.statistics.lattice.segments import Segments, Subset
from calibdask.statistics.layout import Layout
from calibdask.statistics.settings import Setting
from calibdask.statistics.statistic import Statistic


class FillingPlan(NamedTuple):
    """Groups of features that are tabulated row by row, and the marginal sums computed from them.

    Attributes
    ----------
    sizes : array of shape (features,)
        Values of each feature.
    groups : array of shape (groups, k)
        The features of each group; -1 ends it.
    values : array of shape (groups,)
        Combinations of the values of each group.
    steps : array of shape (steps, 5)
        Sums over one feature of a table (outer, size, inner): where it begins, where the sums go, and its shape.
    step_ends, target_ends : array of shape (groups + 1,)
        The steps of a group, and its targets, are those from its entry to before the next one.
    targets : array of shape (targets, 3)
        Sums of segments: where they begin, the number of the first segment, and how many follow each other.
    """

    sizes: Counts
    groups: Counts
    values: Counts
    steps: Counts
    step_ends: Counts
    targets: Counts
    target_ends: Counts

    @property
    def places(self) -> int:
        """Places that the sums of one group take."""
        ends = self.steps[:, 1] + self.steps[:, 2] * self.steps[:, 4]
        return int(max(self.values.max(), ends.max(initial=0)))


@lru_cache(maxsize=8)
def filling_plan(segments: Segments, most: int) -> FillingPlan:
    """The plan of tables of at most about so many combinations."""
    groups = segments.groups(most)
    tables = [_Tables.of(segments, group, served) for group, served in groups]
    widest = max(len(group) for group, _ in groups)
    padded = [[*group, *[-1] * (widest - len(group))] for group, _ in groups]
    return FillingPlan(
        np.array(segments.sizes, np.int64),
        np.array(padded, np.int64).reshape(len(groups), widest),
        np.array([_count(segments, group) for group, _ in groups], np.int64),
        np.array([step for table in tables for step in table.steps], np.int64).reshape(-1, 5),
        np.array([0, *accumulate(len(table.steps) for table in tables)], np.int64),
        np.array([target for table in tables for target in table.targets], np.int64).reshape(-1, 3),
        np.array([0, *accumulate(len(table.targets) for table in tables)], np.int64),
    )


class _Tables(NamedTuple):
    """The steps of one group, and where the sums of segments are after them."""

    steps: list[tuple[int, int, int, int, int]]
    targets: list[tuple[int, int, int]]

    @classmethod
    def of(cls, segments: Segments, group: Subset, served: list[Subset]) -> "_Tables":
        """Sums of each subset from the smallest table that has its features, and one more."""
        places = {group: 0}
        end = _count(segments, group)
        steps: list[tuple[int, int, int, int, int]] = []

        def place(subset: Subset) -> int:
            nonlocal end
            if subset not in places:
                wider = [tuple(sorted((*subset, further))) for further in group if further not in subset]
                above = next((features for features in wider if features in places), wider[0])
                source = place(above)
                (axis,) = (at for at, feature in enumerate(above) if feature not in subset)
                outer, inner = _count(segments, above[:axis]), _count(segments, above[axis + 1 :])
                steps.append((source, end, outer, segments.sizes[above[axis]], inner))
                places[subset] = end
                end += outer * inner
            return places[subset]

        targets = [(place(subset), segments.first(subset), _count(segments, subset)) for subset in served]
        return cls(steps, targets)


def _count(segments: Segments, subset: Subset) -> int:
    return int(np.prod([segments.sizes[i] for i in subset], dtype=np.int64))


# Tables of one cell stay in the cache of the processor while its rows pass; few rows are not worth wide ones.
_TABLE_BYTES, _FEW_TABLE_BYTES, _FEW_ROWS = 1 << 15, 1 << 12, 1 << 16
_ROW_BYTES = 32
_ROWS_AT_ONCE = 1 << 18


class LatticeState(NamedTuple):
    """Sums by segment (and cell); see `calibdask.statistics.exact` for the type of sums.

    By segment and cell: ``rows`` of positive weight, ``hits`` among them; sums of w * score, and with weights of w and
    w * outcome, which are empty without. By segment: sums of w**2 s (1 - s) and, with weights, of w**2 and w**2 *
    outcome. ``largest``: the largest weight.
    """

    rows: Counts
    hits: Counts
    score: Sums
    weight: Array
    outcome: Array
    spread: Sums
    weight_square: Array
    outcome_square: Array
    largest: Array


@dataclass(frozen=True)
class LatticeSums(Statistic[LatticeState]):
    """Rows, outcomes and scores by segment and cell of scores, for all conjunctions of values of some features.

    Parameters
    ----------
    setting : Setting
        Of one column.
    edges : Edges
        Of the cells of scores.
    features : tuple of Coding
    subsets : tuple of tuple of int
        The features of the segments; see `Segments`.

    Notes
    -----
    Scores are rounded to multiples of 2**-40. One pass; memory 32 bytes for each segment and cell, with weights 40.
    """

    setting: Setting
    edges: Edges
    features: tuple[Coding, ...]
    subsets: tuple[Subset, ...]

    @property
    def segments(self) -> Segments:
        """The numbering."""
        return Segments(tuple(feature.size for feature in self.features), self.subsets)

    def bytes(self, layout: Layout) -> int:
        """Memory of a state."""
        return self.segments.count * self.edges.bins * (40 if layout.weighted else 32)

    def from_block(self, block: Block) -> LatticeState:
        """Sums of one block."""
        rows = LatticeRows.of(block, self.setting, self.edges, self.features)
        state = self._empty(weighted=rows.weights is not None, largest=float(block.weights_of(0).max(initial=0.0)))
        table_bytes = _FEW_TABLE_BYTES if block.rows < _FEW_ROWS else _TABLE_BYTES
        plan = filling_plan(self.segments, table_bytes // _ROW_BYTES)
        for first in range(0, rows.cells.size, _ROWS_AT_ONCE):
            some = _Sorted.of(rows, first, min(rows.cells.size, first + _ROWS_AT_ONCE), self.edges.bins)
            tables = np.empty((len(some.terms), plan.places, 4), some.terms.dtype)
            given = (some.codes, some.starts, some.terms, tuple(plan), tables, state.rows, state.hits)
            if rows.weights is None:
                lattice.fill(*given, state.score, state.spread)
            else:
                sums = state.weight, state.outcome, state.score
                lattice.fill_weighted(*given, *sums, state.spread, state.weight_square, state.outcome_square)
        return state

    def _empty(self, *, weighted: bool, largest: float) -> LatticeState:
        """Sums of nothing."""
        shape = (self.segments.count, self.edges.bins)
        weight, outcome = (np.zeros(shape if weighted else 0) for _ in range(2))
        return LatticeState(
            rows=np.zeros(shape, np.int64),
            hits=np.zeros(shape, np.int64),
            score=exact.zeros(shape, weighted=weighted),
            weight=weight,
            outcome=outcome,
            spread=exact.zeros(shape[:1], weighted=weighted),
            weight_square=np.zeros(shape[0] if weighted else 0),
            outcome_square=np.zeros(shape[0] if weighted else 0),
            largest=np.asarray(largest, np.float64),
        )

    def merge(self, a: LatticeState, b: LatticeState) -> LatticeState:
        """Sums of both."""
        return LatticeState(
            rows=a.rows + b.rows,
            hits=a.hits + b.hits,
            score=exact.add(a.score, b.score),
            weight=a.weight + b.weight,
            outcome=a.outcome + b.outcome,
            spread=exact.add(a.spread, b.spread),
            weight_square=a.weight_square + b.weight_square,
            outcome_square=a.outcome_square + b.outcome_square,
            largest=np.asarray(np.maximum(a.largest, b.largest)),
        )


class _Sorted(NamedTuple):
    """Some rows sorted by score cell, with their sums."""

    codes: npt.NDArray[np.uint8]
    starts: Counts
    terms: npt.NDArray[Any]

    @classmethod
    def of(cls, rows: LatticeRows, first: int, last: int, cells: int) -> "_Sorted":
        """Rows from first to before last."""
        codes, starts, order = rows.sorted(rows.cells, first, last, cells)
        if rows.weights is None:
            terms: npt.NDArray[Any] = np.empty((1, order.size, 4), np.int64)
            lattice.sort_terms(rows.hits, rows.scores, order, terms)
        else:
            terms = np.empty((2, order.size, 4))
            lattice.sort_weighted_terms(rows.hits, rows.scores, rows.weights, order, terms)
        return cls(codes, starts, terms)
