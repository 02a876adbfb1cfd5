"""Matrix-valued kernels on the simplex, and rows in the form that sums over pairs take."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from calibdask.kernels import pairs, residuals
from calibdask.statistics.block import Block
from calibdask.statistics.exact import Array, Counts
from calibdask.statistics.frozen import FrozenArray

Profile = Literal["exponential", "gaussian"]
Distance = Literal["tv", "euclidean"]

_PROFILES = {"exponential": pairs.EXPONENTIAL, "gaussian": pairs.GAUSSIAN}
_DISTANCES = {"tv": pairs.TV, "euclidean": pairs.EUCLIDEAN}
# exp(-x) is 0 for anything larger, and single precision can represent it.
_STEEPEST = 1e30


class PairRows(NamedTuple):
    """The rows of one stratum (batch element and slice) of a block that have a positive weight.

    ``number`` (n,) are their numbers in the block; ``scores`` (n, K); ``left`` (n, K) residuals e_y - p; ``right``
    (terms, n, K) residuals times the matrix of each term; ``weights`` (n,), empty without weights. All but the weights
    are of the type of the scores.
    """

    number: Counts
    scores: npt.NDArray[np.floating]
    left: npt.NDArray[np.floating]
    right: npt.NDArray[np.floating]
    weights: Array

    def part(self, start: int, stop: int) -> "PairRows":
        """Rows from start to before stop."""
        here = slice(start, stop)
        right = np.ascontiguousarray(self.right[:, here])
        return PairRows(self.number[here], self.scores[here], self.left[here], right, self.weights[here])

    def squares(self) -> Array:
        """<r_i, M r_i> of every row: h_ii, since kernels are 1 at distance 0."""
        values = np.empty(len(self.scores))
        residuals.squares(self.left, self.right, values)
        return values


@dataclass(frozen=True)
class KernelTerm:
    """k(d(p, q) / bandwidth) * M, with M the identity where ``matrix`` is None."""

    profile: Profile
    distance: Distance
    matrix: FrozenArray | None = None

    @property
    def largest(self) -> float:
        """Largest eigenvalue of M."""
        return 1.0 if self.matrix is None else float(np.linalg.eigvalsh(self.matrix.values)[-1])

    def scale(self, bandwidth: Array) -> Array:
        """Factor of the distances of `calibdask.kernels.pairs` in the exponent."""
        with np.errstate(over="ignore", divide="ignore"):
            if self.profile == "exponential":
                scale = (0.5 if self.distance == "tv" else 1.0) / bandwidth
            else:
                scale = (0.125 if self.distance == "tv" else 0.5) / bandwidth**2
        return np.minimum(scale, _STEEPEST)

    def values(self, bandwidth: float, p: Array, q: Array) -> Array:
        """The scalar kernel of predictions (..., K), in double precision."""
        gaps = p - q
        far = np.abs(gaps).sum(axis=-1) if self.distance == "tv" else (gaps**2).sum(axis=-1)
        if self.profile == "exponential" and self.distance == "euclidean":
            far = np.sqrt(far)
        if self.profile == "gaussian" and self.distance == "tv":
            far = far**2
        return np.asarray(np.exp(-far * self.scale(np.asarray(bandwidth))))


@dataclass(frozen=True)
class PairKernel:
    """A sum of terms with their bandwidths, divided by `bound` so that |h_ij| <= 2.

    Parameters
    ----------
    terms : tuple of KernelTerm
        The terms of the sum.
    bandwidths : FrozenArray of float64, shape (terms, batch, groups)
        Of each term in every stratum; NaN where a stratum has none, and so no result.
    """

    terms: tuple[KernelTerm, ...]
    bandwidths: FrozenArray

    @cached_property
    def bound(self) -> float:
        """Sum of the largest eigenvalues of the matrices, the supremum of the kernel's norm."""
        return sum(term.largest for term in self.terms)

    def where_bandwidth(self, values: Array) -> Array:
        """Values (batch, groups), NaN where there is no bandwidth."""
        return np.where(np.isnan(self.bandwidths.values).any(axis=0), np.nan, values)

    @cached_property
    def kinds(self) -> Counts:
        """Profile and distance of each term, as numbers."""
        return np.array([(_PROFILES[term.profile], _DISTANCES[term.distance]) for term in self.terms])

    @cached_property
    def _scales(self) -> Array:
        """Scales of the terms in every stratum, (batch, groups, terms)."""
        values = np.nan_to_num(self.bandwidths.values, nan=1.0)
        return np.stack([term.scale(nu) for term, nu in zip(self.terms, values, strict=True)], axis=-1)

    def scales(self, b: int, g: int, dtype: npt.DTypeLike) -> npt.NDArray[np.floating]:
        """Scales of the terms in a stratum."""
        return self._scales[b, g].astype(dtype)

    def rows(self, block: Block, b: int, index: Counts) -> PairRows:
        """Rows of batch element b; rows of slices are cached in the block, which is paired many times."""
        key = (self, b, int(index[0]), index.size) if block.group.size else None
        if key in block.prepared:
            prepared: PairRows = block.prepared[key]
            return prepared
        weights = block.weights_of(b)
        weights = weights[index] if weights.size else weights
        rows = self.pair_rows(index, block.matrix_of(b)[index], block.labels_of(b)[index], weights)
        if key is not None:
            block.prepared[key] = rows
        return rows

    def pair_rows(
        self, index: Counts, scores: npt.NDArray[np.floating], labels: npt.NDArray[np.integer], weights: Array
    ) -> PairRows:
        """Rows with these scores (n, K), labels and weights."""
        scores = np.ascontiguousarray(scores)
        left = np.empty_like(scores)
        residuals.residuals(scores, labels, left)
        right = np.stack([self.multiplied(term, left) for term in self.terms])
        return PairRows(index, scores, left, right, weights)

    def multiplied(self, term: KernelTerm, left: Any) -> Any:
        """Rows (n, K) times the matrix of a term, divided by the bound."""
        if term.matrix is None:
            return left / left.dtype.type(self.bound)
        out = np.empty_like(left)
        residuals.multiplied(left, term.matrix.values / self.bound, out)
        return out
