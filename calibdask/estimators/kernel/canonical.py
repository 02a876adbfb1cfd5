"""Calibration error of whole score vectors by Dirichlet kernels."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy
from typing_extensions import override

from calibdask.estimators.about import About, Description, PartInfo
from calibdask.estimators.checks import check_choice, check_whole
from calibdask.estimators.kernel.base import check_pairs, note_values, row_counts
from calibdask.estimators.multiclass_setting import VectorEstimator, VectorSetting, check_setting
from calibdask.estimators.parts import Estimate, calibration_error
from calibdask.statistics import exact
from calibdask.statistics.derived import Derived
from calibdask.statistics.exact import Array, Counts
from calibdask.statistics.frozen import FrozenArray
from calibdask.statistics.layout import Layout
from calibdask.statistics.pairs.neighbours import NeighbourSums
from calibdask.statistics.request import Requests
from calibdask.statistics.sample import RowSample

_SAMPLE_ROWS = 1000
# The fixed-point sums of densities hold up to this number of rows.
_MOST_ROWS = 1 << 19
_CANDIDATES = tuple(np.geomspace(1e-4, 1.0, 33).tolist())
# Stands for the logarithm of a density of 0: the smallest double is about exp(-745).
_LEAST = -745.0


@dataclass(frozen=True, kw_only=True)
class KernelCanonicalECE(VectorEstimator):
    """Expected calibration error of whole score vectors by Dirichlet kernels with leave-one-out estimates.

    ::

        (1/n) sum_j d(r_j, p_j),   r_j = sum_{i != j} k_ij e_yi / sum_{i != j} k_ij,
        k_ij = density at p_j of the Dirichlet distribution with parameters p_i / h + 1

    Parameters
    ----------
    bandwidth : float or "likelihood", default "likelihood"
        The bandwidth h; or the one of 33 values from 1e-4 to 1 that maximises the leave-one-out likelihood of the
        predictions of a random sample of 1000 rows.
    distance : {"tv", "euclidean", "squared-euclidean"}, default "tv"
        As in `calibdask.MulticlassECE`; the L1 distance of [1]_ is twice the total variation.
    setting : {"multiclass", "confidence", "binary"}, int or `calibdask.Lens`
        Whole score vectors, the largest score, one class against the rest, or the model derived by a lens.
    seed : int, default 0
        Seed of the sample.
    max_pairs : int, default 10**10
        Maximum number of pairs of rows; more raise an error.

    Raises
    ------
    ValueError
        If a parameter is invalid; if there are more pairs than ``max_pairs`` or more than 2**19 rows.

    Notes
    -----
    Rows whose neighbours all have density 0 are left out and counted in the attribute ``rows_without_neighbours``. The
    bias of the ratio decreases with the number of rows; with few rows it is upward, as for all calibration errors.

    With weights r_j = sum_{i != j} w_i k_ij e_yi / sum_{i != j} w_i k_ij, and the mean is weighted; the bandwidth is
    chosen without weights.

    O(n**2 K) time in two rounds, as the distance of a row requires the densities of all others. The result does not
    depend on chunks: densities are summed as multiples of 2**-44 of the largest one. Intervals take 2 ``n_boot`` times
    as long: for tens of thousands of rows use few replicates.

    References
    ----------
    .. [1] Popordanoska, Sayer & Blaschko, A consistent and differentiable Lp canonical calibration error estimator,
       2022.
    .. [2] Ouimet & Tolosana-Delgado, Asymptotic properties of Dirichlet kernel density estimators, 2022.

    Examples
    --------
    >>> import numpy as np, calibdask as cd
    >>> rng = np.random.default_rng(0)
    >>> scores = rng.dirichlet([1, 1, 1], 500)
    >>> result = cd.evaluate(np.argmax(scores, axis=1), scores, cd.KernelCanonicalECE(bandwidth=0.02))
    >>> 0.2 < float(result.kernel_canonical_ece) < 0.5
    True
    """

    about = About(
        "Canonical calibration error by kernels",
        "The mean over rows of the distance between their score vector and the label frequencies of the rows around "
        "it, weighted by Dirichlet kernels.",
        "Popordanoska, Sayer & Blaschko, A consistent and differentiable Lp canonical calibration error "
        "estimator, 2022",
        "canonical ECE",
    )

    compares_pairs = True

    bandwidth: float | Literal["likelihood"] = "likelihood"
    distance: Literal["tv", "euclidean", "squared-euclidean"] = "tv"
    setting: VectorSetting = "multiclass"
    seed: int = 0
    max_pairs: float = 10**10

    def __post_init__(self) -> None:
        check_setting(self.setting)
        check_choice("distance", self.distance, ("tv", "euclidean", "squared-euclidean"))
        check_whole("seed", self.seed, 0)
        bandwidth = self.bandwidth
        number = isinstance(bandwidth, int | float | np.number) and not isinstance(bandwidth, bool)
        if not (bandwidth == "likelihood" or (number and 0 < float(bandwidth) < np.inf)):
            raise ValueError(f"bandwidth expects a positive number or 'likelihood', got {bandwidth!r}.")

    @override
    def describe(self, layout: Layout) -> Description:
        meaning = "mean distance between score vectors and label frequencies, by kernels"
        return {"": PartInfo(meaning, "error", bounds=(0.0, 2.0))}

    def _estimate(self) -> Requests[Estimate]:
        layout = yield from Layout()
        rows = yield from row_counts(layout)
        check_pairs("KernelCanonicalECE", rows, self.max_pairs, "use cd.MulticlassECE(), which needs no pairs")
        if rows.max() > _MOST_ROWS:
            raise ValueError(f"KernelCanonicalECE expects up to {_MOST_ROWS:,} rows in a slice, got {rows.max():,}.")
        bandwidths = yield from self._bandwidths(rows)
        state = yield from NeighbourSums(FrozenArray(bandwidths), self.distance)
        with np.errstate(divide="ignore", invalid="ignore"):
            values = exact.value(state.total) / exact.value(state.weight)
        notes = {"bandwidth": note_values(bandwidths), "rows_without_neighbours": note_values(state.alone)}
        return {"": calibration_error(values[..., None], most=2.0, **notes)}

    def _bandwidths(self, rows: Counts) -> Requests[Array]:
        if isinstance(self.bandwidth, str):
            return (yield from _LikelihoodBandwidth(self.seed))
        return np.full(rows.shape, float(self.bandwidth))


@dataclass(frozen=True)
class _LikelihoodBandwidth(Derived[Array]):
    """The bandwidth of each (batch, group) that maximises the leave-one-out likelihood of its predictions."""

    seed: int

    # Yes: the bandwidth is not re-estimated.
    fixed_in_replicates = True

    def tiled(self, answer: Array, times: int) -> Array:
        """Repeat the bandwidths for every replicate."""
        return np.tile(answer, (times, 1))

    def derive(self) -> Requests[Array]:
        sample = yield from RowSample(_SAMPLE_ROWS, self.seed)
        bandwidths = np.full(sample.rows.shape, np.nan)
        for b, g in np.ndindex(bandwidths.shape):
            scores = sample.of(b, g).scores.astype(np.float64)
            if len(scores) > 1:
                bandwidths[b, g] = max(_CANDIDATES, key=_likelihood(scores))
        return bandwidths


def _likelihood(scores: Array) -> Callable[[float], float]:
    """Leave-one-out log likelihood: the sum of the log densities at each row of the kernels around all others."""
    there = scores > 0
    # 0 log 0 = 0; where only the other score is 0 the density is 0.
    exponents = scores @ np.log(scores, where=there, out=np.zeros_like(scores)).T
    exponents[there.astype(np.float64) @ (~there).T.astype(np.float64) > 0] = -np.inf
    np.fill_diagonal(exponents, -np.inf)

    def of(bandwidth: float) -> float:
        alpha = scores / bandwidth + 1
        constant = scipy.special.gammaln(alpha.sum(axis=1)) - scipy.special.gammaln(alpha).sum(axis=1)
        terms = exponents / bandwidth
        terms += constant[:, None]
        largest = np.maximum(terms.max(0), _LEAST)
        terms -= largest
        with np.errstate(divide="ignore"):
            return float(np.maximum(np.log(np.exp(terms, out=terms).sum(0)) + largest, _LEAST).sum())

    return of
