"""Replicates of sums over bins, at a cost in the number of bins: neither rows nor cells of histograms are resampled.

The scores of each bin and outcome are represented by two nodes with the same sums of powers up to the third (by three,
up to the fifth, where squares of scores are summed), Gauss nodes of all scores of the bin. Rows drawn
with replacement are one multinomial draw over (bin, outcome, node): the sums over bins then have the means,
the variances and covariances, and for rows, outcomes and scores the third cumulants too, that they have when all cells
are resampled.

Replicates that are ``calibrated`` have the rows of the data in each bin and outcomes drawn with their scores for
probabilities: binomially for the nodes of all rows of a bin. Nodes need not stand for whole numbers of rows: what their
fractions add up to, up to one row less than there are nodes, has the mean of its scores. The expected number of
positive outcomes of a bin stays the same, and of its variance, sum s (1 - s), it is too large by half the squared width
of the bin at most, that of a row or two. (All rows at the mean score of the bin would add a share of the variance up to
the width of the bin: a fifteenth of it where scores crowd at 0.) Of rows with weights, cells are resampled for that.

With weights the rows of a bin and outcome count as equally heavy: a Poisson number of rows at each node, of the one
weight for which the mean and the variance of their total are those of a Poisson bootstrap.
"""

from threading import get_ident
from typing import NamedTuple

import numpy as np

from calibdask.statistics.bins.bin_sums import BinSums, BinSumsState
from calibdask.statistics.bins.grid import Grid
from calibdask.statistics.bins.grid_bins import HistogramSums, borders, second_sums
from calibdask.statistics.exact import Array, Counts
from calibdask.statistics.replicates.histograms import generator

# Scores whose variance is below this count as one score: its root is below the rounding of positions in cells.
_EQUAL = 1e-27


class BinNodes(NamedTuple):
    """Weights and scores of the nodes of each bin, (bins, nodes); unused nodes have weight 0."""

    weight: Array
    score: Array


def gauss_nodes(weight: Array, score: Array, lengths: Counts, nodes: int) -> BinNodes:
    """Gauss rule of the scores of each bin, exact for powers up to 2 * nodes - 1.

    Bins follow each other, with ``lengths`` scores each, at least one; weights are not negative. Nodes lie between the
    smallest and the largest score of positive weight in their bin. Computed by the procedure of Stieltjes, whose sums
    have terms of one sign, and the eigenvalues of the Jacobi matrix.
    """
    starts = np.cumsum(lengths) - lengths

    def total(terms: Array) -> Array:
        return np.asarray(np.add.reduceat(terms, starts), np.float64)

    whole = norm = total(weight)
    matrix = np.zeros((lengths.size, nodes, nodes))
    before, polynomial = np.zeros_like(score), np.ones_like(score)
    terms, fall = weight, np.zeros(lengths.size)
    for k in range(nodes):
        centre = np.divide(total(terms * score), norm, out=np.zeros_like(norm), where=norm > 0)
        matrix[:, k, k] = centre
        if k == nodes - 1:
            break
        before, polynomial = (
            polynomial,
            (score - np.repeat(centre, lengths)) * polynomial - np.repeat(fall, lengths) * before,
        )
        terms = weight * polynomial * polynomial
        following = total(terms)
        fall = np.divide(following, norm, out=np.zeros_like(norm), where=norm > 0)
        fall[fall < _EQUAL] = 0.0
        norm = np.where(fall > 0, following, 0.0)
        matrix[:, k, k + 1] = matrix[:, k + 1, k] = np.sqrt(fall)
    values, vectors = np.linalg.eigh(matrix)
    return BinNodes(whole[:, None] * vectors[:, 0] ** 2, values)


# Replicates have random numbers in common by this many: each is drawn after those before it.
AT_ONCE = 100
# A node that stands for less than this share of a row is dropped.
_NO_ROW = 1e-9
# Keys of other replicates are shorter.
_PURPOSE = 3


class ResampledBins:
    """Replicates of the sums over bins of whole cells, along the first axis as in `replicates.histograms`.

    The edges are those of the data, the same for all replicates. Random numbers are keyed by the seed, the column and
    the number of the replicate alone.
    """

    def __init__(self, request: BinSums, cells: HistogramSums, grid: Grid, *, calibrated: bool = False) -> None:
        self._request, self._calibrated = request, calibrated
        self._squares = request.second != "none"
        self._shape = cells.mass.shape[:3]
        at = borders(request, grid, self._shape)

        def column(stratum: tuple[int, ...]) -> "_Rows | _Labels":
            square = cells.square[stratum] if cells.weighted else None
            of_stratum = _Cells(cells.mass[stratum], cells.score[stratum], square, at[stratum])
            return (_Labels if calibrated else _Rows)(of_stratum, 3 if self._squares else 2)

        self._columns = {stratum: column(stratum) for stratum in np.ndindex(self._shape)}
        self._begun: dict[tuple[int, int], _Begun] = {}

    def draw(self, seed: int, replicates: range, power: int = 1) -> BinSumsState:
        """The sums of these replicates, with this power of the weights for weights."""
        squares = self._squares
        table = np.empty((7 if squares else 5, len(replicates), *self._shape, self._request.edges.bins))
        for start in range(replicates.start // AT_ONCE * AT_ONCE, replicates.stop, AT_ONCE):
            first, last = max(replicates.start, start), min(replicates.stop, start + AT_ONCE)
            at, generators = self._generators(seed, start, first, power)
            here = slice(first - replicates.start, last - replicates.start)
            for random, (stratum, column) in zip(generators, self._columns.items(), strict=True):
                drawn = column.draw(random, last - at)[first - at :]
                table[(slice(None), here, *stratum)] = _sums(drawn, column.score, column.unit**power, squares=squares)
                if squares and isinstance(column, _Labels):
                    table[(5, here, *stratum)] = column.squares
            self._begun[get_ident(), power] = _Begun(seed, start, last, generators)
        sums = table.reshape(len(table), -1, *self._shape[1:], table.shape[-1])
        rows, weight, weight_square, outcome, scores = sums[:5]
        plain = BinSumsState(np.rint(rows).astype(np.int64), weight, weight_square, outcome, scores, sums[:0])
        return plain._replace(second=second_sums(self._request, plain, sums[5], sums[6])) if squares else plain

    def _generators(self, seed: int, start: int, first: int, power: int) -> tuple[int, list[np.random.Generator]]:
        """The number of the next replicate, up to ``first``, and random numbers of each column for it.

        Each thread goes on where it has stopped: of many columns it draws a few replicates at a time. After an error it
        begins anew.
        """
        begun = self._begun.pop((get_ident(), power), None)
        if begun and begun[:2] == (seed, start) and begun.following <= first:
            return begun.following, begun.generators
        keys = ((_PURPOSE, int(self._calibrated), stratum[2], start // AT_ONCE) for stratum in self._columns)
        return start, [generator(seed, key) for key in keys]


class _Begun(NamedTuple):
    """Progress of replicates that share random numbers."""

    seed: int
    start: int
    following: int
    generators: list[np.random.Generator]


class _Cells:
    """The cells of one column, (outcomes, cells), and the first cell of each bin."""

    def __init__(self, mass: Array, score: Array, square: Array | None, at: Counts) -> None:
        self.weighted = square is not None
        self._mass, self._score, self._square, self._at = mass, score, square, at

    def pooled(self) -> "_Cells":
        """Rows of both outcomes taken together."""
        square = None if self._square is None else self._square.sum(0, keepdims=True)
        return _Cells(self._mass.sum(0, keepdims=True), self._score.sum(0, keepdims=True), square, self._at)

    def nodes(self, number: int) -> tuple[Array, Array, Array, Array]:
        """Weights and scores of the nodes, (outcomes, bins, nodes), and sums of w and w**2, (outcomes, bins, 1)."""
        lengths = np.diff(self._at)
        there, outcomes = np.flatnonzero(lengths), len(self._mass)
        mean = np.divide(self._score, self._mass, out=np.zeros_like(self._mass), where=self._mass > 0)
        nodes = gauss_nodes(self._mass.ravel(), mean.ravel(), np.tile(lengths[there], outcomes), number)
        weight, score = np.zeros((2, outcomes, lengths.size, number))
        weight[:, there], score[:, there] = (values.reshape(outcomes, -1, number) for values in nodes)
        total, square = np.zeros((2, outcomes, lengths.size, 1))
        for sums, cells in ((total, self._mass), (square, self._mass if self._square is None else self._square)):
            sums[:, there, 0] = np.add.reduceat(cells, self._at[there], axis=1)
        return weight, score, total, square


class _Rows:
    """Rows of one column drawn with replacement; see the module."""

    def __init__(self, cells: _Cells, nodes: int) -> None:
        weight, self.score, mass, square = cells.nodes(nodes)
        self.unit = np.divide(square, mass, out=np.ones_like(mass), where=mass > 0)
        self._poisson = cells.weighted
        self._expected = np.where(weight > _NO_ROW * self.unit, weight / self.unit, 0.0)

    def draw(self, random: np.random.Generator, replicates: int) -> Array:
        """Number of rows at each node, (replicates, outcomes, bins, nodes)."""
        drawn = np.zeros((replicates, *self._expected.shape))
        there = self._expected > 0
        expected = self._expected[there]
        if self._poisson:
            drawn[:, there] = random.poisson(expected, (replicates, expected.size))
        elif expected.size:
            rows = expected.sum()
            drawn[:, there] = random.multinomial(int(np.rint(rows)), expected / rows, replicates)
        return drawn


class _Labels:
    """Outcomes of one column drawn with the scores for probabilities; see the module."""

    def __init__(self, cells: _Cells, nodes: int) -> None:
        weight, score, rows, _ = cells.pooled().nodes(nodes)
        whole = np.floor(weight + _NO_ROW)
        rest = np.maximum(rows - whole.sum(-1, keepdims=True), 0.0)
        self.squares = (weight * score**2).sum((0, -1))
        of_rest = ((weight - whole) * score).sum(-1, keepdims=True) / np.maximum(rest, 1.0)
        self.score = np.concatenate([score, of_rest], -1).clip(0.0, 1.0)
        self.unit = np.ones_like(rows)
        self._rows = np.concatenate([whole, rest], -1).astype(np.int64)

    def draw(self, random: np.random.Generator, replicates: int) -> Array:
        """Number of rows with each outcome at each node, (replicates, outcomes, bins, nodes)."""
        drawn = np.zeros((replicates, 2, *self._rows.shape[1:]))
        drawn[:, 1] = random.binomial(self._rows, self.score, (replicates, *self._rows.shape))[:, 0]
        drawn[:, 0] = self._rows - drawn[:, 1]
        return drawn


def _sums(drawn: Array, score: Array, unit: Array, *, squares: bool) -> Array:
    """Sums of rows, w, w**2, w * outcome, w * score, and of w * score**2 and w * score * outcome if ``squares``.

    Shape (5 or 7, replicates, bins). Added up term by term: a replicate is the same to the last bit whichever others
    are drawn with it.
    """
    rows = _over_nodes(drawn)
    mass, scored = rows * unit[..., 0], _over_nodes(drawn * (score * unit))
    by_outcome = [rows, mass, mass * unit[..., 0], scored]
    if squares:
        by_outcome.append(_over_nodes(drawn * (score**2 * unit)))
    total = [sums[:, 0] + sums[:, 1] for sums in by_outcome]
    plain = [*total[:3], mass[:, 1], total[3]]
    return np.stack([*plain, total[4], scored[:, 1]] if squares else plain)


def _over_nodes(values: Array) -> Array:
    """Sums along the last axis."""
    total = values[..., 0] + values[..., 1]
    for node in range(2, values.shape[-1]):
        total += values[..., node]
    return total
