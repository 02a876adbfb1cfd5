"""Binnings choose the edges of bins; equal-mass edges need order statistics of the scores."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, Literal

import numpy as np

from calibdask.kernels.key_sums import sums_by_bin
from calibdask.statistics.bins.bin_sums import BinSums, BinSumsState
from calibdask.statistics.bins.edges import Closed, Edges, uniform_edges
from calibdask.statistics.bins.histograms import Histograms
from calibdask.statistics.bins.masses import Masses
from calibdask.statistics.counts import RowCount
from calibdask.statistics.derived import Derived
from calibdask.statistics.exact import Array, Counts, from_counts
from calibdask.statistics.frozen import FrozenArray
from calibdask.statistics.layout import Layout
from calibdask.statistics.order.quantiles import Ordered, neighbours
from calibdask.statistics.order.ranks import KeyCounts
from calibdask.statistics.request import Requests
from calibdask.statistics.settings import Setting


def sums_between(tables: list[Ordered], edges: Edges) -> BinSumsState | None:
    """The state of `BinSums` for these edges, to the last bit; None where cells do not determine it.

    ``tables`` are those of each (batch, group, column), without weights, and all inner edges lie within (0, 1).
    """
    thresholds = np.ascontiguousarray(edges.thresholds(np.float64).reshape(len(tables), -1))
    counts = np.zeros((len(tables), 2, edges.bins), np.int64)
    words = np.zeros((len(tables), edges.bins, 2), np.int64)
    for stratum, table in enumerate(tables):
        fields = (np.require(f, requirements=["C", "W"]) for f in (table.low, table.high, table.rows, table.hits))
        score = np.require(table.score, requirements=["C", "W"])
        if not sums_by_bin(*fields, score, thresholds[stratum], counts[stratum], words[stratum]):
            return None
    shape = (*edges.values.shape[:3], edges.bins)
    count, hits = (counts[:, i].reshape(shape) for i in range(2))
    rows, second = from_counts(count), np.zeros((0, *shape, 2), np.int64)
    return BinSumsState(count, rows, rows, from_counts(hits), words.reshape(*shape, 2), second)


# Leading bits of the mantissa that keys in a cell of the first pass share.
_COARSEST, _FINEST = 8, 12

BinCount = int | Literal["sqrt"]
Rule = Literal["division", "linspace", "floor", "phantom"]


def number_of_bins(bins: BinCount, rows: Counts) -> Counts:
    """The number itself, or the square root of the number of rows, rounded down."""
    if bins != "sqrt":
        return np.full_like(rows, bins)
    roots = np.sqrt(rows).astype(np.int64)
    # A float square root may be one too high just below a perfect square.
    return np.maximum(1, roots - (roots * roots > rows))


def _rule_edges(rule: Rule, bins: int, low: float, high: float, dtype: str) -> Array:
    """Edges of uniform bins as different tools compute them; they matter where a score ties with an edge."""
    if rule == "division":
        return uniform_edges(bins, low, high)
    if rule == "linspace":
        return np.linspace(low, high, bins + 1)
    if rule == "phantom":
        return np.r_[_torch_edges(bins, low, high, np.dtype(dtype)), np.nextafter(high, 2.0)]
    # The smallest double whose product with the number of bins reaches i; i / bins is at most one step away.
    i = np.arange(bins + 1)
    edges = np.nextafter(i / bins, -np.inf)
    for _ in range(2):
        edges = np.where(edges * bins < i, np.nextafter(edges, np.inf), edges)
    return np.r_[0.0, edges[1:]]


def _torch_edges(bins: int, low: float, high: float, dtype: np.dtype[Any]) -> Array:
    """Edges as torch.linspace has them: the upper half counted down from the upper end, rounded once in the type."""
    one = dtype.type
    step = Fraction(float((one(high) - one(low)) / one(bins)))
    up = [Fraction(low) + i * step for i in range((bins + 1) // 2)]
    down = [Fraction(high) - i * step for i in range(bins - len(up), -1, -1)]
    # A double holds the exact value for float32, and is the value for float64: rounded once either way.
    return np.array([float(one(float(edge))) for edge in up + down])


class Binning(ABC):
    """A frozen description of how edges are chosen."""

    closed: Closed

    @abstractmethod
    def edges(self, setting: Setting) -> Requests[Edges]:
        """Edges of the columns of a setting."""

    def edges_of_cells(self, histograms: Histograms, setting: Setting) -> Requests[Edges]:
        """Edges for histograms on a grid; by default computed as for rows."""
        return self.edges(setting)


@dataclass(frozen=True)
class Uniform(Binning):
    """Bins of equal width: edges low + (high - low) i / bins; ``bins="sqrt"`` means floor(sqrt(n)).

    ``rule`` other than ``"division"`` reproduces how other tools decide ties with an edge: ``"linspace"``
    (scikit-learn, netcal), ``"floor"``, the bin floor(s * bins) (the code of Posocco & Bonnefoy), and ``"phantom"``,
    edges as torch computes them in the type of the scores, and a bin of its own for a score of exactly 1
    (torchmetrics).
    """

    bins: BinCount = 15
    range: tuple[float, float] = (0.0, 1.0)
    closed: Closed = "right"
    rule: Rule = "division"

    def edges(self, setting: Setting) -> Requests[Edges]:
        """The edges; needs at most the number of rows."""
        rows = np.zeros((1, 1), np.int64)
        if self.bins == "sqrt":
            layout = yield from Layout()
            rows = np.full((1, 1), layout.rows) if layout.rows is not None else (yield from RowCount()).rows
        bins = number_of_bins(self.bins, rows)
        if self.rule == "division" and bins.size == 1 and self.range == (0.0, 1.0):
            return Edges(FrozenArray(uniform_edges(bins.item())[None, None, None]), self.closed, uniform=True)
        dtype = (yield from Layout()).dtype if self.rule == "phantom" else "float64"
        edges = [_rule_edges(self.rule, number, *self.range, dtype) for number in bins.ravel().tolist()]
        return Edges(FrozenArray(padded(edges).reshape(*bins.shape, 1, -1)), self.closed)


@dataclass(frozen=True)
class Explicit(Binning):
    """Bins with given edges, the outer ones included."""

    values: tuple[float, ...]
    closed: Closed = "right"

    def edges(self, setting: Setting) -> Requests[Edges]:
        """The edges; needs no data."""
        yield from ()
        return Edges(FrozenArray(np.reshape(np.array(self.values, np.float64), (1, 1, 1, -1))), self.closed)


@dataclass(frozen=True)
class EqualMass(Binning):
    """Bins with equally many rows: edge i is the midpoint of the sorted scores number floor(i n / bins) and the next.

    Equal scores are never split: duplicate edges are dropped. With weights an edge is the first score at which the
    cumulative weight reaches its target (halfway to the next score where it is reached exactly): floor(i N / bins), N
    the sum of the weights, if all of them are whole numbers, as if rows were repeated; else floor(i n / bins) times the
    mean weight, so that equal weights change nothing.

    Edges are exact order statistics of all rows, whatever the chunks, in bounded memory: two passes find them (one up
    to 4096 rows of up to 128 columns), which is certain for float32 scores and usual for float64 ones; float64 scores
    by the hundred million, or crammed into a tiny range, can take up to four. Plain sums by bin come with them, unless
    there are weights, another rule, or edges that take more than two passes: then they take one pass more.

    ``rule="last"`` is that of the code of Posocco & Bonnefoy: every bin but the last has floor(n / bins) rows, and
    duplicate edges stay. ``rule="percentile"`` is scikit-learn's: linear interpolation at (n - 1) i / bins.
    """

    bins: BinCount = 15
    range: tuple[float, float] = (0.0, 1.0)
    closed: Closed = "right"
    rule: Literal["spread", "last", "percentile"] = "spread"

    def edges(self, setting: Setting) -> Requests[Edges]:
        """The edges; needs key counts and their refinements."""
        layout = yield from Layout()
        shape = (layout.batch, layout.groups, setting.columns(layout.classes))
        strata = int(np.prod(shape))
        cells = yield from KeyCounts(setting, self._bits(layout, strata))
        rows = cells.rows_of(strata)
        numbers = number_of_bins(self.bins, rows)
        masses = Masses.of_keys(cells, rows, weighted=layout.weighted)
        slack = masses.slack if layout.weighted else None
        ranks = [self._ranks(total, bins) for total, bins in zip(masses.total.tolist(), numbers.tolist(), strict=True)]
        targets = padded([rank for rank, _ in ranks]) * masses.unit[:, None]
        ordered = yield from neighbours(setting, cells, shape, targets, slack)
        between = padded([share for _, share in ranks])
        inner = self._between(ordered.below, ordered.above, between)
        array = FrozenArray(padded([self._column(row) for row in inner]).reshape(*shape, -1))
        if layout.weighted or self.rule != "spread":
            return Edges(array, self.closed)
        return MassEdges(array, self.closed, sums=sums_between(ordered.tables, Edges(array, self.closed)))

    def edges_of_cells(self, histograms: Histograms, setting: Setting) -> Requests[Edges]:
        """Edges on borders of cells."""
        yield from ()
        return histograms.equal_mass_edges(self, setting)

    def _bits(self, layout: Layout, strata: int) -> int:
        """Fineness of the first cells, such that the cells around all edges hold about a quarter of a million rows.

        Where the number of rows is not known, as fine as fits in the cache.
        """
        if layout.rows is None or self.bins == "sqrt":
            bits = _FINEST + 1 - strata.bit_length()
        else:
            bits = (max(self.bins, 16) * max(1, layout.rows)).bit_length() - 19
        return min(max(_COARSEST, bits), _FINEST)

    def _ranks(self, total: int, bins: int) -> tuple[Array, Array]:
        """Cumulative count below each inner edge, and its position between the neighbouring scores."""
        i = np.arange(1, bins)
        if self.rule == "percentile":
            # Through per cent, as NumPy does, for the same rounding.
            position = (total - 1) * (np.linspace(0, 1, bins + 1)[1:-1] * 100 / 100)
            return np.floor(position) + 1, position - np.floor(position)
        ranks = np.asarray(i * (total // bins) if self.rule == "last" else i * total // bins, np.float64)
        return ranks, np.full(bins - 1, 0.5)

    def _between(self, below: Array, above: Array, share: Array) -> Array:
        """The midpoint; for percentiles interpolated from the nearer end, as NumPy does."""
        if self.rule != "percentile":
            return (below + above) / 2
        return np.where(share < 0.5, below + (above - below) * share, above - (above - below) * (1 - share))

    def _column(self, inner: Array) -> Array:
        """Outer edges and the inner ones that split something."""
        low, high = self.range
        inner = inner[np.isfinite(inner)]
        if self.rule == "spread":
            inner = np.unique(inner[(inner > low) & (inner < high)])
        return np.r_[low, inner, high]


def padded(rows: list[Array]) -> Array:
    """Rows of different lengths as one array, padded with NaN."""
    table = np.full((len(rows), max(row.size for row in rows)), np.nan)
    for number, row in enumerate(rows):
        table[number, : row.size] = row
    return table


@dataclass(frozen=True)
class MassEdges(Edges):
    """Edges of bins of equal mass, with the sums by bin where finding the edges has determined them."""

    sums: BinSumsState | None = field(default=None, compare=False, repr=False)

    def __reduce__(self) -> tuple[type[Edges], tuple[Any, ...]]:
        """Only the edges are sent to workers."""
        return Edges, (self.array, self.closed)


@dataclass(frozen=True)
class BinEdges(Derived[Edges]):
    """The edges that a binning gives the columns of a setting."""

    binning: Binning
    setting: Setting

    # Bins are chosen once.
    fixed_in_replicates = True

    def tiled(self, answer: Edges, times: int) -> Edges:
        """Repeat the edges for every replicate."""
        if isinstance(answer, MassEdges):
            # The sums between them are those of the data, not of replicates.
            answer = Edges(answer.array, answer.closed)
        if len(answer.values) == 1:
            return answer
        return replace(answer, array=FrozenArray(np.tile(answer.values, (times, 1, 1, 1))))

    def derive(self) -> Requests[Edges]:
        """Edges of the binning."""
        return self.binning.edges(self.setting)

    def from_histograms(self, histograms: Histograms) -> Requests[Edges]:
        """Edges of the binning; equal-mass edges lie on borders of cells."""
        return self.binning.edges_of_cells(histograms, self.setting)


def binned_sums(setting: Setting, edges: Edges) -> Requests[BinSumsState]:
    """Plain sums by bin: those that came with the edges, or requested."""
    if isinstance(edges, MassEdges) and edges.sums is not None:
        return edges.sums
    return (yield from BinSums(setting, edges))
