"""The test of calibration by conditional mean embeddings (CME) at test locations."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import scipy
from typing_extensions import override

from calibdask.estimators.about import PVALUE, About, Description, PartInfo
from calibdask.estimators.checks import check_choice, check_whole
from calibdask.estimators.kernel.base import KernelTest, note_values
from calibdask.estimators.kernel.drawn_outcomes import DrawnOutcomes, sample_size, share_reaching
from calibdask.estimators.parts import Estimate, Number
from calibdask.statistics import exact
from calibdask.statistics.exact import Array, Counts
from calibdask.statistics.frozen import FrozenArray
from calibdask.statistics.layout import Layout
from calibdask.statistics.pairs.locations import LocationSums
from calibdask.statistics.request import Requests
from calibdask.statistics.sample import RowSampleState

# With fewer effective rows outcomes are drawn.
_MANY_ROWS = 300
# Directions whose variance is a smaller share of the largest one are ignored. Observed variances that are smaller still
# consist of rounding: outcomes that are the same would have different statistics.
_SMALLEST_SHARE, _SMALLEST_OBSERVED_SHARE = 1e-4, 1e-7
# Largest variance that rounding z to 2**-44 produces from 0.
_ROUNDED = 2.0**-42
# Their covariance is a matrix of this order.
_MOST_LOCATIONS = 4096


_ASSUMES = (
    f"rows are independent; from {_MANY_ROWS} effective rows on the statistic is approximately chi-square distributed, "
    "with fewer outcomes are drawn from the predictions"
)


@dataclass(frozen=True, kw_only=True)
class CMETest(KernelTest):
    """Test of calibration by the conditional mean embedding at test locations.

    For locations (q_j, l_j), j = 1..m, rows give z_ij = (e_yi - p_i)^T k(p_i, q_j) e_lj, of mean 0 if the model is
    calibrated. With their mean zbar and covariance S, ::

        T = n zbar^T S**-1 zbar   is approximately chi-square distributed with m degrees of freedom.

    This is valid for many rows, but not if a few rows with unlikely outcomes make up most of T. The effective number of
    rows is n**2 m (m + 2) / sum_i E (z_i^T S**-1 z_i)**2, with the expectation given the predictions of a sample of up
    to 2000 rows: n if z were normal, and at most the number of events with rare outcomes. Below 300 the p-value is (1 +
    #{T* >= T}) / (1 + draws), T* with outcomes drawn from the predictions of the sample.

    Parameters
    ----------
    locations : int, or (array of shape (m, K), array of shape (m,)), default 10
        Number of test locations: predictions of a random sample of rows, with labels drawn from them; the p-value
        remains valid, as it is conditional on the predictions. Or scores and labels.
    covariance : {"observed", "calibrated"}, optional
        How S, the covariance of z, is estimated: the sample covariance with the divisor n - 1, as in [1]_; or the mean
        over rows of the covariance of z given the prediction p under calibration, computed from the covariance of the
        residual, diag(p) - p p^T. None: observed for given locations; calibrated for random locations, which may lie
        close to each other and make the observed covariance almost singular.
    draws : int, default 1000
        Draws of outcomes.
    kernel, distance, bandwidth, matrix, setting, seed
        As in `calibdask.SKCE`.

    Raises
    ------
    ValueError
        If parameters are invalid or do not fit the data; if there are weights.

    Notes
    -----
    Parts ``statistic`` and ``pvalue``; the attribute ``degrees_of_freedom`` is the rank of S, lower than m if locations
    are redundant: directions of z whose variance is below 1e-4 of the largest (observed: 1e-7) are ignored. NaN unless
    there are more rows than locations. The attribute ``effective_rows`` is their effective number. O(n m**2 K) time in
    two passes, for any number of rows.

    With up to 2000 rows drawn p-values are exact: the statistics of the labels and of the draws come from the same
    computation, so equal outcomes are tied. In simulations of calibrated models chi-square p-values below 0.01 occurred
    in up to 11 % of data sets with 50 rows and rare outcomes, and in 5 % with 5 expected outcomes in 500 rows; in these
    cases outcomes are drawn.

    References
    ----------
    .. [1] Widmann, Lindsten & Zachariah, Calibration tests beyond classification, 2021, section 5.
    .. [2] Jitkrittum et al., Interpretable distribution features with maximum testing power, 2016.

    Examples
    --------
    >>> import numpy as np, calibdask as cd
    >>> rng = np.random.default_rng(0)
    >>> scores = rng.dirichlet([1, 1, 1], 2000)
    >>> result = cd.evaluate(rng.integers(0, 3, 2000), scores, cd.CMETest())
    >>> float(result.cme_test_pvalue) < 0.05
    True
    """

    about = About(
        "Test of calibration at test locations",
        "A chi-square test of whether residuals, smoothed by a kernel around a few test locations, are 0 there.",
        "Widmann, Lindsten & Zachariah, Calibration tests beyond classification, 2021",
        "CME test",
    )

    locations: Any = 10
    covariance: Literal["observed", "calibrated"] | None = None
    draws: int = 1000

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.locations, tuple):
            object.__setattr__(self, "locations", _checked_locations(self.locations))
        else:
            check_whole("locations", self.locations, 1, _MOST_LOCATIONS)
        if self.covariance is None:
            explicit = isinstance(self.locations, tuple)
            object.__setattr__(self, "covariance", "observed" if explicit else "calibrated")
        check_choice("covariance", self.covariance, ("observed", "calibrated"))
        check_whole("draws", self.draws, 1)

    @override
    def describe(self, layout: Layout) -> Description:
        return {
            "statistic": PartInfo("chi-square statistic of residuals at the test locations", "statistic"),
            "pvalue": PartInfo(PVALUE, "pvalue"),
        }

    def _estimate(self) -> Requests[Estimate]:
        layout = yield from Layout()
        if layout.weighted:
            raise ValueError(
                "CMETest does not support sample_weight: its null distribution is valid only for unweighted rows."
            )
        kernel, notes = yield from self.fitted()
        size = sample_size(self.draws, layout.classes)
        sample = yield from self.sampled(size if isinstance(self.locations, tuple) else max(size, int(self.locations)))
        scores, labels = self._test_locations(layout, sample)
        calibrated = self.covariance == "calibrated"
        locations = LocationSums(kernel, FrozenArray(scores), FrozenArray(labels), calibrated)
        state = yield from locations
        first, second = exact.value(state.first), exact.value(state.second)
        statistic, freedom = _chi_square(state.rows, first, second, calibrated)
        statistic = kernel.where_bandwidth(statistic)
        pvalue, effective = scipy.special.chdtrc(freedom, statistic), np.full(statistic.shape, np.nan)
        for b, g in zip(*np.nonzero(np.isfinite(statistic)), strict=True):
            sampled = sample.of(b, g, size)
            outcomes = DrawnOutcomes(sampled.scores.astype(np.float64), int(state.rows[b, g]), self.draws, self.seed)
            drawn = _DrawnStatistics(outcomes, locations.values(sampled.scores, b, g), calibrated)
            effective[b, g] = drawn.effective_rows
            if effective[b, g] < _MANY_ROWS:
                # Computed as those that are drawn, so that the same outcomes have the same statistic.
                of_labels = drawn.of_labels(sampled.labels) if len(sampled.labels) == outcomes.rows else statistic[b, g]
                rounding = float(np.finfo(sampled.scores.dtype).eps ** 0.5 * of_labels)
                pvalue[b, g] = share_reaching(of_labels, drawn.of_draws(), rounding)
        notes = {
            **notes,
            "degrees_of_freedom": note_values(freedom),
            "effective_rows": note_values(effective),
            "assumes": _ASSUMES,
        }
        return {"statistic": Number(statistic, notes=notes), "pvalue": Number(pvalue, notes=notes)}

    def _test_locations(self, layout: Layout, sample: RowSampleState) -> tuple[Array, Counts]:
        """Scores (batch, groups, m, K) and labels (batch, groups, m) of the locations."""
        shape = (layout.batch, layout.groups)
        if isinstance(self.locations, tuple):
            points, codes = (array.values for array in self.locations)
            if points.shape[1] != layout.classes or codes.max() >= layout.classes:
                raise ValueError(
                    f"locations expects scores of {layout.classes} outcomes and their numbers as labels, got scores of "
                    f"{points.shape[1]} and labels up to {codes.max()}."
                )
            return np.broadcast_to(points, (*shape, *points.shape)), np.broadcast_to(codes, (*shape, *codes.shape))
        scores = np.full((*shape, self.locations, layout.classes), 1.0 / layout.classes)
        for b, g in np.ndindex(shape):
            rows = sample.of(b, g, int(self.locations)).scores
            scores[b, g, : len(rows)] = rows
        generator = np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(self.locations,)))
        cumulative = np.cumsum(scores, axis=-1)
        uniform = generator.random(self.locations)[:, None] * cumulative[..., -1:]
        return scores, np.minimum((cumulative <= uniform).sum(axis=-1), layout.classes - 1)


def _chi_square(rows: Counts, first: Array, second: Array, calibrated: bool) -> tuple[Array, Array]:
    """The statistic n zbar^T S**-1 zbar over the directions that vary, and their number."""
    n = rows[..., None].astype(np.float64)
    enough = rows > first.shape[-1]
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = first / n
        if calibrated:
            covariance = second / n[..., None]
        else:
            covariance = (second - n[..., None] * mean[..., :, None] * mean[..., None, :]) / (n[..., None] - 1)
    covariance[~enough] = 0.0
    variance, directions = np.linalg.eigh(covariance)
    varies = _varying(variance, calibrated)
    along = np.einsum("...ji,...j->...i", directions, np.where(enough[..., None], mean, 0.0))
    with np.errstate(divide="ignore", invalid="ignore"):
        total = (n * np.where(varies, along**2 / variance, 0.0)).sum(axis=-1)
    freedom = np.where(enough, varies.sum(axis=-1), np.nan)
    if calibrated:
        # Wrong scores of 0 or 1, which cannot be if the model is calibrated: residuals although none varies.
        certain = enough & (freedom == 0) & (np.abs(mean) > _ROUNDED**0.5).any(-1)
        total, freedom = np.where(certain, np.inf, total), np.where(certain, first.shape[-1], freedom)
    return np.where(enough, total, np.nan), freedom


def _varying(variance: Array, calibrated: bool) -> npt.NDArray[np.bool_]:
    """Mask of the directions with enough variance, given variances in increasing order."""
    smallest = _SMALLEST_SHARE if calibrated else _SMALLEST_OBSERVED_SHARE
    return np.asarray(variance > np.maximum(smallest * variance[..., -1:], _ROUNDED))


@dataclass(frozen=True, eq=False)
class _DrawnStatistics:
    """The statistic of one stratum with outcomes of a calibrated model; ``z`` (sampled, K, m)."""

    outcomes: DrawnOutcomes
    z: Array
    calibrated: bool

    @property
    def effective_rows(self) -> float:
        """Number of normal rows that would give the statistic this variance."""
        rows = self.outcomes.rows
        chances = self.outcomes.scores * self.outcomes.repeats[:, None] / rows
        variance, directions = np.linalg.eigh(np.einsum("nc,ncj,nck->jk", chances, self.z, self.z))
        varies = _varying(variance, self.calibrated)
        freedom = int(varies.sum())
        squares = ((self.z @ directions[:, varies]) ** 2 / variance[varies]).sum(axis=-1)
        fourth = float((chances * squares**2).sum())
        return rows * freedom * (freedom + 2) / fourth if fourth else 0.0

    def of_draws(self) -> Array:
        """Statistics of all draws, (draws,)."""
        return np.concatenate([self._of(counts) for counts in self.outcomes])

    def of_labels(self, labels: Counts) -> float:
        """Statistic for labels of the sampled rows."""
        return float(self._of(np.eye(self.z.shape[1])[labels][None])[0])

    def _of(self, counts: Array) -> Array:
        """How often each outcome of each prediction occurs, (draws, sampled, K)."""
        drawn, terms = counts.reshape(len(counts), -1), self.z.reshape(-1, self.z.shape[-1])
        second = np.broadcast_to(self._expected, (len(drawn), self._expected.size))
        if not self.calibrated:
            second = drawn @ self._products
        totals = drawn @ terms, second.reshape(-1, terms.shape[1], terms.shape[1])
        return _chi_square(np.full(len(drawn), self.outcomes.rows), *totals, self.calibrated)[0]

    @cached_property
    def _products(self) -> Array:
        """Products z z^T of each outcome of each prediction, (sampled * K, m * m)."""
        terms = self.z.reshape(-1, self.z.shape[-1])
        return np.asarray((terms[:, :, None] * terms[:, None, :]).reshape(len(terms), -1))

    @cached_property
    def _expected(self) -> Array:
        """Sum of z z^T that the predictions expect, (m * m,)."""
        weights = self.outcomes.scores * self.outcomes.repeats[:, None]
        return np.asarray(weights.reshape(-1) @ self._products)


def _checked_locations(locations: Any) -> tuple[FrozenArray, FrozenArray]:
    if len(locations) == 2 and all(isinstance(array, FrozenArray) for array in locations):
        return locations[0], locations[1]
    expected = "locations expects a number, or (scores of shape (m, K), integer labels from 0 on of shape (m,))"
    if len(locations) != 2:
        raise ValueError(f"{expected}, got {len(locations)} items.")
    scores, labels = np.asarray(locations[0], np.float64), np.asarray(locations[1])
    if scores.ndim != 2 or labels.shape != scores.shape[:1] or not len(labels) or labels.dtype.kind not in "iub":
        raise ValueError(f"{expected}, got shapes {scores.shape} and {labels.shape} of {labels.dtype}.")
    if not (np.isfinite(scores).all() and (scores >= 0).all() and (labels.astype(np.int64) >= 0).all()):
        raise ValueError(f"{expected}; scores must be finite, and scores and labels not negative.")
    return FrozenArray(scores), FrozenArray(labels.astype(np.int64))
