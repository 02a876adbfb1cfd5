"""Calibration error of whole score vectors by kernels on the simplex."""

from collections.abc import Generator
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
from scipy import special

from calibdask.estimators.checks import check_choice, check_whole
from calibdask.estimators.estimator import Estimation, Estimator, Meanings, calibration_error
from calibdask.estimators.kernel import check_pairs, counted, said
from calibdask.estimators.multiclass_setting import check_setting, looked_at
from calibdask.statistics import exact
from calibdask.statistics.exact import Array, Counts
from calibdask.statistics.frozen import FrozenArray
from calibdask.statistics.layout import Layout
from calibdask.statistics.lenses import Lens
from calibdask.statistics.neighbours import NeighbourSums
from calibdask.statistics.sample import RowSample
from calibdask.statistics.statistic import Asking, Derived

__all__ = ["KernelCanonicalECE"]

_SAMPLE_ROWS = 1000
# Sums of densities have room for so many rows.
_MOST_ROWS = 1 << 19
_CANDIDATES = tuple(np.geomspace(1e-4, 1.0, 33).tolist())
# Stands for the logarithm of a density of 0: the smallest double is about exp(-745).
_LEAST = -745.0


@dataclass(frozen=True, kw_only=True)
class KernelCanonicalECE(Estimator):
    """Expected calibration error of whole score vectors by Dirichlet kernels, each row left out of its own estimate.

    ::

        (1/n) sum_j d(r_j, p_j),   r_j = sum_{i != j} k_ij e_yi / sum_{i != j} k_ij,
        k_ij = density at p_j of the Dirichlet distribution with parameters p_i / h + 1

    Parameters
    ----------
    bandwidth : float or "likelihood", default "likelihood"
        The bandwidth h; or that of 33 values from 1e-4 to 1 under which the predictions of a random sample of 1000
        rows, each left out in turn, are most likely.
    distance : {"tv", "euclidean", "squared-euclidean"}, default "tv"
        As in `calibdask.MulticlassECE`; the L1 distance of [1]_ is twice the total variation.
    setting : {"multiclass", "confidence", "binary"}, int or `calibdask.Lens`
        What is looked at.
    seed : int, default 0
        Of the sample.
    max_pairs : int, default 10**10
        Refuse to visit more pairs of rows than these.

    Raises
    ------
    ValueError
        If choices are unknown; if there are more pairs than ``max_pairs`` or more than 2**19 rows.

    Notes
    -----
    Rows whose neighbours all have density 0 are left out and counted in the attribute ``rows_without_neighbours``. The
    ratio has a bias that shrinks with more rows; for few it is upward, as of all calibration errors.

    With weights r_j = sum_{i != j} w_i k_ij e_yi / sum_{i != j} w_i k_ij, and the mean is weighted; the bandwidth is
    chosen without them.

    O(n**2 K) time in two rounds, since each row needs the densities of all others before its distance is known. The
    result does not depend on chunks: densities are summed as multiples of 2**-44 of the largest one. Intervals take
    ``n_boot`` times that, twice: for tens of thousands of rows ask for few replicates.

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

    bandwidth: float | Literal["likelihood"] = "likelihood"
    distance: Literal["tv", "euclidean", "squared-euclidean"] = "tv"
    setting: Lens | str | int = "multiclass"
    seed: int = 0
    max_pairs: float = 10**10

    def __post_init__(self) -> None:
        check_setting(self.setting)
        check_choice("distance", self.distance, ("tv", "euclidean", "squared-euclidean"))
        check_whole("seed", self.seed, 0)
        given = self.bandwidth
        number = isinstance(given, int | float | np.number) and not isinstance(given, bool)
        if not (given == "likelihood" or (number and 0 < float(given) < np.inf)):
            raise ValueError(f"bandwidth expects a positive number or 'likelihood', got {given!r}.")

    @property
    def name(self) -> str:
        """``kernel_canonical_ece``."""
        return "kernel_canonical_ece"

    def meanings(self, layout: Layout) -> Meanings:
        """In words."""
        return {"": "mean distance of score vectors from frequencies, by kernels"}

    @property
    def is_error(self) -> bool:
        """An error."""
        return True

    def estimate(self) -> Estimation:
        """Distances of all rows, looked at in the chosen setting."""
        return looked_at(self.setting, self._estimate())

    def _estimate(self) -> Estimation:
        layout = yield Layout()
        rows = yield from counted(layout)
        check_pairs("KernelCanonicalECE", rows, self.max_pairs, "take cd.MulticlassECE(), which needs no pairs")
        if rows.max() > _MOST_ROWS:
            raise ValueError(f"KernelCanonicalECE expects up to {_MOST_ROWS:,} rows in a slice, got {rows.max():,}.")
        bandwidths = yield from self._bandwidths(rows)
        state = yield NeighbourSums(FrozenArray(bandwidths), self.distance)
        with np.errstate(divide="ignore", invalid="ignore"):
            values = exact.value(state.total) / exact.value(state.weight)
        notes = {"bandwidth": said(bandwidths), "rows_without_neighbours": said(state.alone)}
        return {"": calibration_error(values[..., None], most=2.0, **notes)}

    def _bandwidths(self, rows: Counts) -> Generator[Any, Any, Array]:
        if isinstance(self.bandwidth, str):
            found: Array = yield _Likeliest(self.seed)
            return found
        return np.full(rows.shape, float(self.bandwidth))


@dataclass(frozen=True)
class _Likeliest(Derived):
    """The bandwidth of each place under which its predictions are most likely."""

    seed: int

    @property
    def kept(self) -> bool:
        """A bandwidth is chosen once."""
        return True

    def repeated(self, answer: Array, times: int) -> Array:
        """The same bandwidths for every replicate."""
        return np.tile(answer, (times, 1))

    def derive(self) -> Asking:
        sample = yield RowSample(_SAMPLE_ROWS, self.seed)
        found = np.full(sample.rows.shape, np.nan)
        for b, g in np.ndindex(found.shape):
            scores = sample.of(b, g).scores.astype(np.float64)
            if len(scores) > 1:
                found[b, g] = max(_CANDIDATES, key=partial(_likelihood, scores))
        return found


def _likelihood(scores: Array, bandwidth: float) -> float:
    """Sum of the log densities at each row of the kernels around all others."""
    alpha = scores / bandwidth + 1
    constant = special.gammaln(alpha.sum(axis=1)) - special.gammaln(alpha).sum(axis=1)
    # xlogy has 0 log 0 = 0; where only the other score is 0 the density is 0.
    with np.errstate(divide="ignore"):
        logs = np.where(scores > 0, np.log(scores, where=scores > 0, out=np.zeros_like(scores)), 0.0)
    density = constant[:, None] + (scores / bandwidth) @ logs.T
    density[(scores > 0).astype(np.float64) @ (scores == 0).T.astype(np.float64) > 0] = -np.inf
    np.fill_diagonal(density, -np.inf)
    with np.errstate(divide="ignore"):
        return float(np.maximum(special.logsumexp(density, axis=0), _LEAST).sum())
