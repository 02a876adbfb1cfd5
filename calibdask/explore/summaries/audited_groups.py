"""Groups of a summary with features: their audit, their cells of scores, and what contains what."""

from collections import Counter
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import scipy
import xarray as xr

from calibdask.analyses.auditing.audit import audit
from calibdask.analyses.auditing.summarized import summary_lattice
from calibdask.explore.summaries.pool import Pool, Selection
from calibdask.results.reliability import BinnedReliability
from calibdask.statistics import exact
from calibdask.statistics.lattice.lattice_sums import LatticeState
from calibdask.statistics.lattice.segments import Segments
from calibdask.storage.summary import Summary
from calibdask.storage.summary_lattice import Cuts

# Points of a diagram: neighbouring cells are one where a group has more.
_MOST_BINS = 15
_LEVEL = 0.95


@dataclass(frozen=True)
class GroupsQuery:
    """Query of an audit: rows and options."""

    selection: Selection
    depth: int
    min_rows: int
    alpha: float


@dataclass(frozen=True, eq=False)
class AuditedGroups:
    """The audit of some slices of a summary, its groups in the order of their evidence.

    Attributes
    ----------
    result : xarray.Dataset
        Of `calibdask.audit`.
    cuts : Cuts
    state : LatticeState
        The sums that it was computed from.
    """

    result: xr.Dataset
    cuts: Cuts
    state: LatticeState

    @classmethod
    def of(cls, pool: Pool, query: GroupsQuery) -> "AuditedGroups":
        """Read the sums of the slices, and audit them."""
        slices = {dim: list(positions) for dim, positions in query.selection.slices}
        summary = Summary.of(pool.summary.isel(slices))
        result = audit(summary, depth=query.depth, min_rows=query.min_rows, alpha=query.alpha)
        return cls(result, *summary_lattice(summary, query.depth))

    @cached_property
    def segments(self) -> Segments:
        """The numbering."""
        return self.cuts.segments

    @cached_property
    def numbers(self) -> npt.NDArray[np.int64]:
        """The numbers of the groups."""
        return np.asarray(self.result["number"].values)

    @cached_property
    def _lines(self) -> dict[int, int]:
        return {number: line for line, number in enumerate(self.numbers.tolist())}

    @property
    def texts(self) -> list[str]:
        """Names of the subgroups."""
        return [str(text) for text in self.result.segment.values]

    @cached_property
    def lines_by_key(self) -> dict[str, int]:
        """The lines of the groups by what addresses call them: their texts, and the number where another has it too."""
        repeated = {text for text, times in Counter(self.texts).items() if times > 1}
        named = zip(self.texts, self.numbers.tolist(), strict=True)
        keys = [f"{text} [{number}]" if text in repeated else text for text, number in named]
        return {key: line for line, key in enumerate(keys)}

    @cached_property
    def keys(self) -> list[str]:
        """Unique keys of the subgroups in the URL."""
        return list(self.lines_by_key)

    @property
    def columns(self) -> list[str]:
        """The columns by themselves, the strongest evidence first."""
        single = (self.result.depth == 1).values
        return list(dict.fromkeys(self.result["features"].values[single].tolist()))

    def described(self) -> list[int]:
        """The subgroups that explain the miscalibration."""
        return self._where(self.result.described.values)

    def found(self) -> list[int]:
        """All significant subgroups."""
        return self._where(self.result.found.values)

    def of_column(self, name: str) -> list[int]:
        """The values of a column, in their order."""
        here = self._where((self.result.depth == 1).values & (self.result["features"] == name).values)
        return sorted(here, key=lambda line: int(self.numbers[line]))

    def around(self, line: int) -> tuple[list[int], list[int]]:
        """The groups that contain one by leaving out a column, and its parts by a further one."""
        number = int(self.numbers[line])
        wholes = [self._lines[parent] for parent in self.segments.parents(number) if parent in self._lines]
        subset, values = self.segments.describe(number)
        parts = []
        for further in range(len(self.segments.sizes)):
            wider = tuple(sorted((*subset, further)))
            if further in subset or len(wider) > self.cuts.depth:
                continue
            at = wider.index(further)
            for value in range(self.segments.sizes[further]):
                part = self.segments.number(wider, (*values[:at], value, *values[at:]))
                if part in self._lines:
                    parts.append(self._lines[part])
        return wholes, sorted(parts)

    def bins(self, line: int) -> BinnedReliability:
        """The reliability diagram of a group: up to 15 bins of neighbouring cells of scores, with about equal rows."""
        number = int(self.numbers[line])
        rows, events = self.state.rows[number], self.state.hits[number]
        score = exact.value(self.state.score[number])
        ranks = (np.cumsum(rows) - rows / 2) / max(int(rows.sum()), 1)
        first = np.flatnonzero(np.diff(np.floor(ranks * _MOST_BINS), prepend=-1.0))
        edges = self.cuts.edges.values.ravel()
        rows, events, score = (np.add.reduceat(values, first) for values in (rows, events, score))
        lower, upper = edges[first], edges[[*first[1:], edges.size - 1]]
        kept = rows > 0
        rows, events, score, lower, upper = (values[kept] for values in (rows, events, score, lower, upper))
        tail = (1 - _LEVEL) / 2
        low = np.where(events > 0, scipy.special.betaincinv(np.maximum(events, 1), rows - events + 1, tail), 0.0)
        high = np.where(
            events < rows, scipy.special.betaincinv(events + 1, np.maximum(rows - events, 1), 1 - tail), 1.0
        )
        count = rows.astype(np.float64)
        return BinnedReliability(score / rows, events / rows, count, count, lower, upper, low, high)

    def _where(self, chosen: npt.NDArray[np.bool_]) -> list[int]:
        return [int(line) for line in np.flatnonzero(chosen)]
