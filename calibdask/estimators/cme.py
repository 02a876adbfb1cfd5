"""Test of calibration at test locations."""

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy import special

from calibdask.estimators.checks import check_choice, check_whole
from calibdask.estimators.estimator import PVALUE, Estimation, Meanings, Part
from calibdask.estimators.kernel import KernelTest, said
from calibdask.statistics import exact
from calibdask.statistics.exact import Array
from calibdask.statistics.frozen import FrozenArray
from calibdask.statistics.layout import Layout
from calibdask.statistics.locations import LocationSums

__all__ = ["CMETest"]

# Directions whose variance is a smaller share of the largest are none.
_SMALLEST_SHARE, _SMALLEST_OBSERVED_SHARE = 1e-4, 1e-10
# What rounding z to 2**-44 makes of a variance of 0.
_ROUNDED = 2.0**-42


@dataclass(frozen=True, kw_only=True)
class CMETest(KernelTest):
    """Test of calibration by the conditional mean embedding at test locations.

    For locations (q_j, l_j), j = 1..m, rows give z_ij = (e_yi - p_i)^T k(p_i, q_j) e_lj, of mean 0 if the model is
    calibrated. With their mean zbar and covariance S, ::

        n zbar^T S**-1 zbar   has about a chi-square distribution with m degrees of freedom.

    Parameters
    ----------
    locations : int, or (array of shape (m, K), array of shape (m,)), default 10
        Their number: predictions of a random sample of rows, with labels drawn from them, which leaves the p-value as
        it is, since it holds given the predictions. Or scores and labels.
    covariance : {"observed", "calibrated"}, optional
        S is the sample covariance of z with the divisor n - 1, as in [1]_; or the mean over rows of the covariance that
        z has given the prediction p if the model is calibrated, from that of the residual, diag(p) - p p^T. None:
        observed for locations that are given, calibrated for random ones, which may lie near each other: with the
        observed covariance, a quarter of calibrated data sets of 1000 binary rows with uniform scores is rejected at
        5 %, and most where outcomes are rare.
    kernel, distance, bandwidth, matrix, setting, seed
        As in `calibdask.SKCE`.

    Raises
    ------
    ValueError
        If choices are unknown or do not fit the data; if there are weights.

    Notes
    -----
    Parts ``statistic`` and ``pvalue``; the attribute ``degrees_of_freedom`` is the rank of S, lower than m where
    locations say the same; directions of z whose variance is below 1e-4 of the largest (observed: 1e-10) are left out.
    NaN with no more rows than locations. O(n m**2 K) time in one pass (more for the sample and the bandwidth), any
    number of rows.

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

    locations: Any = 10
    covariance: Literal["observed", "calibrated"] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.locations, tuple):
            object.__setattr__(self, "locations", _checked_locations(self.locations))
        else:
            check_whole("locations", self.locations, 1)
        if self.covariance is None:
            given = isinstance(self.locations, tuple)
            object.__setattr__(self, "covariance", "observed" if given else "calibrated")
        check_choice("covariance", self.covariance, ("observed", "calibrated"))

    @property
    def name(self) -> str:
        """``cme_test``."""
        return "cme_test"

    def meanings(self, layout: Layout) -> Meanings:
        """In words."""
        return {"statistic": "residuals at the test locations, chi-square", "pvalue": PVALUE}

    def _estimate(self) -> Estimation:
        layout = yield Layout()
        if layout.weighted:
            raise ValueError("CMETest takes no sample_weight: its distribution is that of equal rows.")
        kernel, notes = yield from self.fitted()
        scores, labels = yield from self._located(layout)
        calibrated = self.covariance == "calibrated"
        state = yield LocationSums(kernel, FrozenArray(scores), FrozenArray(labels), calibrated)
        first, second = exact.value(state.first), exact.value(state.second)
        statistic, freedom = _chi_square(state.rows, first, second, calibrated)
        statistic = kernel.known(statistic)
        assumes = "rows are independent and many more than locations: the statistic is about chi-square distributed"
        notes = {**notes, "degrees_of_freedom": said(freedom), "assumes": assumes}
        pvalue = special.chdtrc(freedom, statistic)
        return {"statistic": Part(statistic, notes=notes), "pvalue": Part(pvalue, notes=notes)}

    def _located(self, layout: Layout) -> Generator[Any, Any, tuple[Array, Any]]:
        """Scores (batch, groups, m, K) and labels (batch, groups, m) of the locations."""
        shape = (layout.batch, layout.groups)
        if isinstance(self.locations, tuple):
            given, codes = (each.values for each in self.locations)
            if given.shape[1] != layout.classes or codes.max() >= layout.classes:
                raise ValueError(
                    f"locations expects scores of {layout.classes} outcomes and their numbers as labels, got scores of "
                    f"{given.shape[1]} and labels up to {codes.max()}."
                )
            return np.broadcast_to(given, (*shape, *given.shape)), np.broadcast_to(codes, (*shape, *codes.shape))
        sample = yield from self.sampled(int(self.locations))
        scores = np.full((*shape, self.locations, layout.classes), 1.0 / layout.classes)
        for b, g in np.ndindex(shape):
            found = sample.of(b, g, int(self.locations)).scores
            scores[b, g, : len(found)] = found
        generator = np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(self.locations,)))
        reached = np.cumsum(scores, axis=-1)
        uniform = generator.random(self.locations)[:, None] * reached[..., -1:]
        return scores, np.minimum((reached <= uniform).sum(axis=-1), layout.classes - 1)


def _chi_square(rows: Any, first: Array, second: Array, calibrated: bool) -> tuple[Array, Array]:
    """N zbar^T S**-1 zbar over the directions that vary, and how many these are."""
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
    smallest = _SMALLEST_SHARE if calibrated else _SMALLEST_OBSERVED_SHARE
    varies = variance > np.maximum(smallest * variance[..., -1:], _ROUNDED)
    along = np.einsum("...ji,...j->...i", directions, np.where(enough[..., None], mean, 0.0))
    with np.errstate(divide="ignore", invalid="ignore"):
        total = (n * np.where(varies, along**2 / variance, 0.0)).sum(axis=-1)
    freedom = np.where(enough, varies.sum(axis=-1), np.nan)
    return np.where(enough, total, np.nan), freedom


def _checked_locations(given: Any) -> tuple[FrozenArray, FrozenArray]:
    if len(given) == 2 and all(isinstance(each, FrozenArray) for each in given):
        return given[0], given[1]
    expected = "locations expects a number, or (scores of shape (m, K), whole labels from 0 on of shape (m,))"
    if len(given) != 2:
        raise ValueError(f"{expected}, got {len(given)} things.")
    scores, labels = np.asarray(given[0], np.float64), np.asarray(given[1])
    if scores.ndim != 2 or labels.shape != scores.shape[:1] or not len(labels) or labels.dtype.kind not in "iub":
        raise ValueError(f"{expected}, got shapes {scores.shape} and {labels.shape} of {labels.dtype}.")
    if not (np.isfinite(scores).all() and (scores >= 0).all() and (labels.astype(np.int64) >= 0).all()):
        raise ValueError(f"{expected}; scores must be finite and no number negative.")
    return FrozenArray(scores), FrozenArray(labels.astype(np.int64))
