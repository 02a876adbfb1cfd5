"""Kernels on the simplex, and the base classes of estimators and tests with a kernel."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from calibdask.estimators.checks import check_choice, check_whole
from calibdask.estimators.interval import NoInterval
from calibdask.estimators.multiclass_setting import VectorEstimator, VectorSetting, check_setting
from calibdask.html_repr import HtmlRepr
from calibdask.kernels import pairs
from calibdask.statistics.counts import RowCount
from calibdask.statistics.derived import Derived
from calibdask.statistics.exact import Counts
from calibdask.statistics.frozen import FrozenArray
from calibdask.statistics.layout import Layout
from calibdask.statistics.pairs.pair_kernel import Distance, KernelTerm, PairKernel, Profile
from calibdask.statistics.request import Requests
from calibdask.statistics.sample import RowSample, RowSampleState

_CODES = {"tv": pairs.TV, "euclidean": pairs.EUCLIDEAN}
# Up to this number of distances are stored; with more, the range around the median is narrowed first.
_KEPT = 1 << 20
_CELL_BITS = 20
_KEY_BITS = 62  # keys of doubles below 2


def median_distance(scores: npt.NDArray[np.floating], distance: Distance, *, full: bool) -> float:
    """Median of the distances of rows (n, K): of pairs i < j, or of the ``full`` matrix with its zero diagonal.

    The mean of the two middle distances for an even number; NaN without pairs. O(n**2 K) time, 16 MB.

    Examples
    --------
    >>> median_distance(np.array([[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]]), "tv", full=False)
    0.5
    """
    n = len(scores)
    count = n * n if full else n * (n - 1) // 2
    if count == 0:
        return math.nan
    ranks = (count - 1) // 2, count // 2
    if full:
        # Every distance occurs twice, after the zeros of the diagonal.
        ranks = (ranks[0] - n) // 2, (ranks[1] - n) // 2
    return sum(_distances_of_ranks(scores, distance, ranks)) / 2


def _distances_of_ranks(
    scores: npt.NDArray[np.floating], distance: Distance, ranks: tuple[int, int]
) -> tuple[float, float]:
    """The distances of pairs i < j at these ranks; 0 for a negative rank. Ranks differ by 0 or 1."""
    low, high = ranks
    if high < 0:
        return 0.0, 0.0
    if low < 0:
        return 0.0, _distances_of_ranks(scores, distance, (high, high))[0]
    count, start, width = len(scores) * (len(scores) - 1) // 2, 0, _KEY_BITS
    while count > _KEPT and width > 0:
        shift = max(0, width - _CELL_BITS)
        counts = np.zeros(1 << (width - shift), np.int64)
        _scan(scores, distance, start, width, shift, counts, np.zeros(0))
        below = np.cumsum(counts)
        cell, other = np.searchsorted(below, (low, high), side="right").tolist()
        if cell != other:
            # They lie in two cells: find them separately.
            lower, upper = (_distances_of_ranks(scores, distance, (rank, rank))[0] for rank in ranks)
            return lower, upper
        count = int(counts[cell])
        low, high = (rank - int(below[cell]) + count for rank in (low, high))
        start, width = start + (cell << shift), shift
    if width == 0:
        value = float(np.int64(start).view(np.float64))
        return value, value
    kept = np.empty(count)
    _scan(scores, distance, start, width, width, np.zeros(1, np.int64), kept)
    kept.partition((low, high))
    return float(kept[low]), float(kept[high])


def _scan(scores: Any, distance: Distance, start: int, width: int, shift: int, counts: Any, kept: Any) -> None:
    """Count or keep the distances of pairs i < j whose key is one of 2**width from ``start`` on."""
    pairs.distances(scores, scores, True, _CODES[distance], start, start + (1 << width) - 1, shift, counts, kept)


Bandwidth = Literal["median", "median-full"] | float

# Medians of distances use all pairs of up to this number of rows; of fewer rows where there are many classes.
_SAMPLE_ROWS = 10_000
_SAMPLE_NUMBERS = 1 << 22


@dataclass(frozen=True, kw_only=True)
class Kernel(HtmlRepr):
    """A kernel on the simplex, k(p, q) = f(d(p, q) / bandwidth) * M.

    ::

        exponential  f(x) = exp(-x)
        gaussian     f(x) = exp(-x**2 / 2)
        tv           d(p, q) = sum_c |p_c - q_c| / 2
        euclidean    d(p, q) = sqrt(sum_c (p_c - q_c)**2)

    Parameters
    ----------
    profile : {"exponential", "gaussian"}
        The function f.
    distance : {"tv", "euclidean"}
        The distance d. The Gaussian kernel of the total variation distance is positive definite for two classes, but
        not in general.
    bandwidth : float, "median" or "median-full", default "median"
        A number, or the median of the distances between all pairs of rows, or the median of the whole n x n matrix with
        its zero diagonal.
    matrix : array of shape (K, K), optional
        Positive semi-definite M; None: the identity.

    Raises
    ------
    ValueError
        If a parameter is invalid, the bandwidth not positive or the matrix not positive semi-definite.

    Examples
    --------
    >>> import calibdask as cd
    >>> wide_and_narrow = cd.Kernel(bandwidth=1.0), cd.Kernel(bandwidth=0.1)
    >>> cd.skce([0, 1, 1], [[0.9, 0.1], [0.4, 0.6], [0.3, 0.7]], kernel=wide_and_narrow, estimator="biased") > 0
    True
    """

    profile: Profile = "exponential"
    distance: Distance = "tv"
    bandwidth: Bandwidth = "median"
    matrix: Any = None

    def __post_init__(self) -> None:
        check_choice("kernel", self.profile, ("exponential", "gaussian"))
        check_choice("distance", self.distance, ("tv", "euclidean"))
        object.__setattr__(self, "bandwidth", _checked_bandwidth(self.bandwidth))
        if self.matrix is not None and not isinstance(self.matrix, FrozenArray):
            object.__setattr__(self, "matrix", FrozenArray(_checked_matrix(self.matrix)))

    @property
    def term(self) -> KernelTerm:
        """The kernel without its bandwidth."""
        return KernelTerm(self.profile, self.distance, self.matrix)


@dataclass(frozen=True, kw_only=True)
class KernelEstimator(VectorEstimator):
    """The parameters of a kernel, documented in `calibdask.SKCE`."""

    kernel: Profile | Kernel | Sequence[Kernel] = "exponential"
    distance: Distance | None = None
    bandwidth: Bandwidth | None = None
    matrix: Any = None
    setting: VectorSetting = "multiclass"
    seed: int = 0

    def __post_init__(self) -> None:
        check_setting(self.setting)
        check_whole("seed", self.seed, 0)
        if isinstance(self.kernel, str):
            (made,) = self.kernels
            for field in ("distance", "bandwidth", "matrix"):
                object.__setattr__(self, field, getattr(made, field))
        else:
            kernels: Any = (self.kernel,) if isinstance(self.kernel, Kernel) else self.kernel
            if not isinstance(kernels, Sequence) or not kernels or not all(isinstance(k, Kernel) for k in kernels):
                raise ValueError(
                    f"kernel expects 'exponential', 'gaussian', a cd.Kernel or a sequence of them, got {self.kernel!r}."
                )
            # Values that the name of a kernel alone would have filled in do not conflict.
            defaults = self.distance in (None, "tv"), self.bandwidth in (None, "median"), self.matrix is None
            if not all(defaults):
                raise ValueError("With cd.Kernel, give distance, bandwidth and matrix to each cd.Kernel instead.")
            object.__setattr__(self, "kernel", tuple(kernels))
            for field in ("distance", "bandwidth", "matrix"):
                object.__setattr__(self, field, None)

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        """The terms of the kernel."""
        if not isinstance(self.kernel, str):
            return (self.kernel,) if isinstance(self.kernel, Kernel) else tuple(self.kernel)
        parameters = {"distance": self.distance, "bandwidth": self.bandwidth, "matrix": self.matrix}
        chosen: dict[str, Any] = {name: value for name, value in parameters.items() if value is not None}
        return (Kernel(profile=self.kernel, **chosen),)

    def sample(self, layout: Layout, size: int) -> RowSample:
        """A sample of at least ``size`` rows: that of the bandwidths where it is large enough."""
        requested = _sample_rows(layout) if any(isinstance(kernel.bandwidth, str) for kernel in self.kernels) else 0
        return RowSample(max(size, requested), self.seed)

    def sampled(self, size: int) -> Requests[RowSampleState]:
        """Request a sample of at least ``size`` rows."""
        return (yield from self.sample((yield from Layout()), size))

    def fitted(self) -> Requests[tuple[PairKernel, dict[str, Any]]]:
        """Request the kernel with its bandwidths, and notes about them."""
        return (yield from FittedKernel(self.kernels, self.seed))


@dataclass(frozen=True, kw_only=True)
class KernelTest(KernelEstimator):
    """A test whose null distribution holds for unweighted rows."""

    def interval(self, layout: Layout) -> NoInterval:
        """None: a test has a p-value instead."""
        return NoInterval()

    # No: the null distribution holds for unweighted rows.
    supports_weights = False


@dataclass(frozen=True)
class FittedKernel(Derived[tuple[PairKernel, dict[str, Any]]]):
    """A kernel with its bandwidths for each (batch, group), and notes about them."""

    kernels: tuple[Kernel, ...]
    seed: int

    def derive(self) -> Requests[tuple[PairKernel, dict[str, Any]]]:
        """Request a sample of rows where a bandwidth is a median."""
        layout = yield from Layout()
        for kernel in self.kernels:
            if kernel.matrix is not None and kernel.matrix.values.shape[0] != layout.classes:
                raise ValueError(
                    f"matrix expects a row for each of the {layout.classes} outcomes, got {len(kernel.matrix.values)}."
                )
        shape = (layout.batch, layout.groups)
        values = [np.full(shape, kernel.bandwidth) for kernel in self.kernels if not isinstance(kernel.bandwidth, str)]
        notes: dict[str, Any] = {}
        if len(values) < len(self.kernels):
            sample = yield from RowSample(_sample_rows(layout), self.seed)
            values = [_bandwidths(kernel, sample, shape) for kernel in self.kernels]
            most, sampled = int(sample.rows.max(initial=0)), int(np.bincount(sample.stratum).max(initial=0))
            if most > sampled:
                notes["bandwidth_sample"] = f"median over the pairs of {sampled:,} of {most:,} rows"
        terms = tuple(kernel.term for kernel in self.kernels)
        bandwidths = np.stack(values)
        return PairKernel(terms, FrozenArray(bandwidths)), {"bandwidth": note_values(bandwidths), **notes}

    # Yes: bandwidths are not re-estimated.
    fixed_in_replicates = True

    def tiled(self, answer: tuple[PairKernel, dict[str, Any]], times: int) -> tuple[PairKernel, dict[str, Any]]:
        """Repeat the bandwidths for every replicate."""
        kernel, notes = answer
        return replace(kernel, bandwidths=FrozenArray(np.tile(kernel.bandwidths.values, (1, times, 1)))), notes


def _sample_rows(layout: Layout) -> int:
    """Number of rows of each (batch, group) whose distances determine a median."""
    return min(_SAMPLE_ROWS, _SAMPLE_NUMBERS // layout.classes)


def _bandwidths(kernel: Kernel, sample: RowSampleState, shape: tuple[int, int]) -> npt.NDArray[np.float64]:
    """The bandwidth of each (batch, group), NaN where there is no pair of rows."""
    if not isinstance(kernel.bandwidth, str):
        return np.full(shape, kernel.bandwidth)
    medians = np.empty(shape)
    for b, g in np.ndindex(shape):
        scores = np.ascontiguousarray(sample.of(b, g).scores, np.float64)
        medians[b, g] = median_distance(scores, kernel.distance, full=kernel.bandwidth == "median-full")
    if not medians.any():
        raise ValueError(
            f"bandwidth={kernel.bandwidth!r} expects distances that are mostly positive, but their median is 0; give "
            "bandwidth as a number."
        )
    # With several (batch, group), those whose median is 0 or missing have no result.
    return np.where(medians > 0, medians, np.nan)


def row_counts(layout: Layout) -> Requests[Counts]:
    """Rows of positive weight, (batch, groups); requested only where they are unknown."""
    if layout.rows is not None:
        return np.full((layout.batch, layout.groups), layout.rows)
    state = yield from RowCount()
    return np.asarray(state.rows)


def check_pairs(name: str, rows: Counts, most: float, instead: str, block: int | None = None) -> None:
    """Raise ValueError if there are more than ``most`` pairs of rows, in total or within blocks."""
    if isinstance(most, bool) or not isinstance(most, int | float | np.number):
        raise ValueError(f"max_pairs expects a number, got {most!r}.")
    pairs = sum(n * ((n if block is None else min(n, block)) - 1) // 2 for n in rows.ravel().tolist())
    if pairs > most:
        raise ValueError(
            f"{name} would visit {pairs:,} pairs of rows, more than max_pairs={most:,.0f}. Raise max_pairs, or "
            f"{instead}."
        )


def note_values(values: npt.NDArray[Any]) -> Any:
    """Values of each (batch, group) as an attribute: a number, or lists without axes of size 1."""
    return np.squeeze(values).tolist()


def _checked_bandwidth(bandwidth: Any) -> Bandwidth:
    if isinstance(bandwidth, str):
        check_choice("bandwidth", bandwidth, ("median", "median-full"))
        return "median" if bandwidth == "median" else "median-full"
    if isinstance(bandwidth, bool) or not isinstance(bandwidth, int | float | np.number) or not bandwidth > 0:
        raise ValueError(f"bandwidth expects a positive number, 'median' or 'median-full', got {bandwidth!r}.")
    if not math.isfinite(bandwidth):
        raise ValueError(f"bandwidth expects a finite number, got {bandwidth!r}.")
    return float(bandwidth)


def _checked_matrix(matrix: Any) -> npt.NDArray[np.float64]:
    values = np.asarray(matrix, np.float64)
    if values.ndim != 2 or values.shape[0] != values.shape[1] or not np.isfinite(values).all():
        raise ValueError(f"matrix expects finite numbers of shape (K, K), got shape {values.shape}.")
    size = np.abs(values).max(initial=0.0)
    if size == 0 or np.abs(values - values.T).max() > 1e-12 * size:
        raise ValueError("matrix expects a symmetric matrix that is not zero.")
    smallest = float(np.linalg.eigvalsh(values)[0])
    if smallest < -1e-10 * size:
        raise ValueError(f"matrix expects a positive semi-definite matrix; its smallest eigenvalue is {smallest:.3g}.")
    return values
