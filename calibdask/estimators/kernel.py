"""What estimators and tests with a kernel on the simplex have in common."""

import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from calibdask.described import Described
from calibdask.estimators.checks import check_choice, check_whole
from calibdask.estimators.estimator import Estimation, Estimator
from calibdask.estimators.median_distance import median_distance
from calibdask.estimators.multiclass_setting import check_setting, looked_at
from calibdask.statistics.counts import RowCount
from calibdask.statistics.exact import Counts
from calibdask.statistics.frozen import FrozenArray
from calibdask.statistics.layout import Layout
from calibdask.statistics.lenses import Lens
from calibdask.statistics.pair_kernel import Distance, KernelTerm, PairKernel, Profile
from calibdask.statistics.sample import RowSample, RowSampleState
from calibdask.statistics.statistic import Asking, Derived

__all__ = ["FittedKernel", "Kernel", "KernelEstimator", "KernelTest", "check_pairs", "counted", "said"]

Bandwidth = Literal["median", "median-full"] | float

# Medians of distances are those of all pairs up to this number of rows, or of fewer where there are many classes.
_SAMPLE_ROWS = 10_000
_SAMPLE_NUMBERS = 1 << 22


@dataclass(frozen=True, kw_only=True)
class Kernel(Described):
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
        The distance d. The Gaussian of a total variation is positive definite for two classes, not in general.
    bandwidth : float, "median" or "median-full", default "median"
        A number, or the median of the distances of all pairs of rows, or that of the whole n x n matrix with its zero
        diagonal.
    matrix : array of shape (K, K), optional
        Positive semi-definite M; None: the identity.

    Raises
    ------
    ValueError
        If a choice is unknown, the bandwidth not positive or the matrix not positive semi-definite.

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
        """The kernel but for its bandwidth."""
        return KernelTerm(self.profile, self.distance, self.matrix)


@dataclass(frozen=True, kw_only=True)
class KernelEstimator(Estimator):
    """The choices that make a kernel; `calibdask.SKCE` documents them."""

    kernel: Profile | Kernel | Sequence[Kernel] = "exponential"
    distance: Distance | None = None
    bandwidth: Bandwidth | None = None
    matrix: Any = None
    setting: Lens | str | int = "multiclass"
    seed: int = 0

    def __post_init__(self) -> None:
        check_setting(self.setting)
        check_whole("seed", self.seed, 0)
        if isinstance(self.kernel, str):
            (made,) = self.kernels
            for field in ("distance", "bandwidth", "matrix"):
                object.__setattr__(self, field, getattr(made, field))
        else:
            given: Any = (self.kernel,) if isinstance(self.kernel, Kernel) else self.kernel
            if not isinstance(given, Sequence) or not given or not all(isinstance(each, Kernel) for each in given):
                raise ValueError(f"kernel expects a word, a cd.Kernel or several of them, got {self.kernel!r}.")
            # What the word alone would have filled in is not a choice.
            usual = self.distance in (None, "tv"), self.bandwidth in (None, "median"), self.matrix is None
            if not all(usual):
                raise ValueError("Give distance, bandwidth and matrix to each cd.Kernel, or not as cd.Kernel at all.")
            object.__setattr__(self, "kernel", tuple(given))
            for field in ("distance", "bandwidth", "matrix"):
                object.__setattr__(self, field, None)

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        """The terms of the kernel."""
        if not isinstance(self.kernel, str):
            return (self.kernel,) if isinstance(self.kernel, Kernel) else tuple(self.kernel)
        given = {"distance": self.distance, "bandwidth": self.bandwidth, "matrix": self.matrix}
        chosen: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
        return (Kernel(profile=self.kernel, **chosen),)

    def estimate(self) -> Estimation:
        """What the rows say, looked at in the chosen setting."""
        return looked_at(self.setting, self._estimate())

    def _estimate(self) -> Estimation:
        raise NotImplementedError

    def sampled(self, size: int) -> Generator[Any, Any, RowSampleState]:
        """Ask for a sample of at least ``size`` rows: that of the bandwidths, which is known, where it has as many."""
        layout = yield Layout()
        known = _sample_rows(layout) if any(isinstance(each.bandwidth, str) for each in self.kernels) else 0
        sample: RowSampleState = yield RowSample(max(size, known), self.seed)
        return sample

    def fitted(self) -> Generator[Any, Any, tuple[PairKernel, dict[str, Any]]]:
        """Ask for the kernel with its bandwidths, and what to note about them."""
        fitted: tuple[PairKernel, dict[str, Any]] = yield FittedKernel(self.kernels, self.seed)
        return fitted


@dataclass(frozen=True, kw_only=True)
class KernelTest(KernelEstimator):
    """A test, whose distribution is that of equal rows."""

    @property
    def tests(self) -> bool:
        """A test."""
        return True

    @property
    def weighs(self) -> bool:
        """Takes no weights."""
        return False


@dataclass(frozen=True)
class FittedKernel(Derived):
    """A kernel with its bandwidths in every place, and notes about them."""

    kernels: tuple[Kernel, ...]
    seed: int

    def derive(self) -> Asking:
        """Ask for a sample of rows where medians are wanted."""
        layout = yield Layout()
        for kernel in self.kernels:
            if kernel.matrix is not None and kernel.matrix.values.shape[0] != layout.classes:
                raise ValueError(
                    f"matrix expects a row for each of the {layout.classes} outcomes, got {len(kernel.matrix.values)}."
                )
        shape = (layout.batch, layout.groups)
        values = [np.full(shape, each.bandwidth) for each in self.kernels if not isinstance(each.bandwidth, str)]
        notes: dict[str, Any] = {}
        if len(values) < len(self.kernels):
            sample = yield RowSample(_sample_rows(layout), self.seed)
            values = [_bandwidths(kernel, sample, shape) for kernel in self.kernels]
            most, sampled = int(sample.rows.max(initial=0)), int(np.bincount(sample.place).max(initial=0))
            if most > sampled:
                notes["bandwidth_sample"] = f"median over the pairs of {sampled:,} of {most:,} rows"
        terms = tuple(kernel.term for kernel in self.kernels)
        bandwidths = np.stack(values)
        return PairKernel(terms, FrozenArray(bandwidths)), {"bandwidth": said(bandwidths), **notes}

    @property
    def kept(self) -> bool:
        """A kernel is chosen once."""
        return True

    def repeated(self, answer: tuple[PairKernel, dict[str, Any]], times: int) -> tuple[PairKernel, dict[str, Any]]:
        """The same bandwidths for every replicate."""
        kernel, notes = answer
        return replace(kernel, bandwidths=FrozenArray(np.tile(kernel.bandwidths.values, (1, times, 1)))), notes


def _sample_rows(layout: Layout) -> int:
    """Rows of each place between which distances are looked at."""
    return min(_SAMPLE_ROWS, _SAMPLE_NUMBERS // layout.classes)


def _bandwidths(kernel: Kernel, sample: Any, shape: tuple[int, int]) -> npt.NDArray[np.float64]:
    """The bandwidth of each place, NaN where it has no pair of rows."""
    if not isinstance(kernel.bandwidth, str):
        return np.full(shape, kernel.bandwidth)
    found = np.empty(shape)
    for b, g in np.ndindex(shape):
        scores = np.ascontiguousarray(sample.of(b, g).scores, np.float64)
        found[b, g] = median_distance(scores, kernel.distance, full=kernel.bandwidth == "median-full")
    if not found.any():
        raise ValueError(
            f"bandwidth={kernel.bandwidth!r} expects distances that are mostly positive, but their median is 0; give "
            "bandwidth as a number."
        )
    # Of several places, those without a median have no result.
    return np.where(found > 0, found, np.nan)


def counted(layout: Layout) -> Generator[Any, Any, Counts]:
    """Rows of positive weight in each place, (batch, groups); asks only where they are not known."""
    if layout.rows is not None:
        return np.full((layout.batch, layout.groups), layout.rows)
    state = yield RowCount()
    return np.asarray(state.rows)


def check_pairs(name: str, rows: Counts, most: float, instead: str, block: int | None = None) -> None:
    """Refuse to visit more pairs of rows, in all or in blocks, than ``most``."""
    if isinstance(most, bool) or not isinstance(most, int | float | np.number):
        raise ValueError(f"max_pairs expects a number, got {most!r}.")
    pairs = sum(n * ((n if block is None else min(n, block)) - 1) // 2 for n in rows.ravel().tolist())
    if pairs > most:
        raise ValueError(
            f"{name} would visit {pairs:,} pairs of rows, more than max_pairs={most:,.0f}. Raise max_pairs, or "
            f"{instead}."
        )


def said(values: npt.NDArray[Any]) -> Any:
    """Numbers of each place for an attribute: a number, or lists without axes of size 1."""
    return np.squeeze(values).tolist()


def _checked_bandwidth(bandwidth: Any) -> Bandwidth:
    if isinstance(bandwidth, str):
        check_choice("bandwidth", bandwidth, ("median", "median-full"))
        return bandwidth  # type: ignore[return-value]
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
