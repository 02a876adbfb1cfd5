"""The test of calibration by conditional mean embeddings (CME) at test locations."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy import special
from typing_extensions import override

from calibdask.estimators.about import PVALUE, About, Description, PartInfo
from calibdask.estimators.checks import check_choice, check_whole
from calibdask.estimators.kernel.base import KernelTest, note_values
from calibdask.estimators.parts import Estimate, Number
from calibdask.statistics import exact
from calibdask.statistics.exact import Array, Counts
from calibdask.statistics.frozen import FrozenArray
from calibdask.statistics.layout import Layout
from calibdask.statistics.pairs.locations import LocationSums
from calibdask.statistics.request import Requests

__all__ = ["CMETest"]

# Directions whose variance is a smaller share of the largest one are ignored.
_SMALLEST_SHARE, _SMALLEST_OBSERVED_SHARE = 1e-4, 1e-10
# Largest variance that rounding z to 2**-44 produces from 0.
_ROUNDED = 2.0**-42
# Their covariance is a matrix of this order.
_MOST_LOCATIONS = 4096


@dataclass(frozen=True, kw_only=True)
class CMETest(KernelTest):
    """Test of calibration by the conditional mean embedding at test locations.

    For locations (q_j, l_j), j = 1..m, rows give z_ij = (e_yi - p_i)^T k(p_i, q_j) e_lj, of mean 0 if the model is
    calibrated. With their mean zbar and covariance S, ::

        n zbar^T S**-1 zbar   is approximately chi-square distributed with m degrees of freedom.

    Parameters
    ----------
    locations : int, or (array of shape (m, K), array of shape (m,)), default 10
        Number of test locations: predictions of a random sample of rows, with labels drawn from them, which leaves the
        p-value as it is, since it holds given the predictions. Or scores and labels.
    covariance : {"observed", "calibrated"}, optional
        How S, the covariance of z, is estimated: the sample covariance with the divisor n - 1, as in [1]_; or the mean
        over rows of the covariance that z has given the prediction p if the model is calibrated, from that of the
        residual, diag(p) - p p^T. None: observed for locations that are given, calibrated for random ones, which may
        lie near each other: with the observed covariance, a quarter of calibrated data sets of 1000 binary rows with
        uniform scores is rejected at 5 %, and most where outcomes are rare.
    kernel, distance, bandwidth, matrix, setting, seed
        As in `calibdask.SKCE`.

    Raises
    ------
    ValueError
        If parameters are invalid or do not fit the data; if there are weights.

    Notes
    -----
    Parts ``statistic`` and ``pvalue``; the attribute ``degrees_of_freedom`` is the rank of S, lower than m where
    locations are redundant: directions of z whose variance is below 1e-4 of the largest (observed: 1e-10) are ignored.
    NaN unless there are more rows than locations. O(n m**2 K) time in one pass (more for the sample and the
    bandwidth), for any number of rows.

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

    @override
    def describe(self, layout: Layout) -> Description:
        return {
            "statistic": PartInfo("chi-square statistic of residuals at the test locations", "statistic"),
            "pvalue": PartInfo(PVALUE, "pvalue"),
        }

    def _estimate(self) -> Requests[Estimate]:
        layout = yield from Layout()
        if layout.weighted:
            raise ValueError("CMETest does not support sample_weight: its null distribution holds for unweighted rows.")
        kernel, notes = yield from self.fitted()
        scores, labels = yield from self._test_locations(layout)
        calibrated = self.covariance == "calibrated"
        state = yield from LocationSums(kernel, FrozenArray(scores), FrozenArray(labels), calibrated)
        first, second = exact.value(state.first), exact.value(state.second)
        statistic, freedom = _chi_square(state.rows, first, second, calibrated)
        statistic = kernel.known(statistic)
        assumes = (
            "rows are independent and many more than locations: the statistic is approximately chi-square distributed"
        )
        notes = {**notes, "degrees_of_freedom": note_values(freedom), "assumes": assumes}
        pvalue = special.chdtrc(freedom, statistic)
        return {"statistic": Number(statistic, notes=notes), "pvalue": Number(pvalue, notes=notes)}

    def _test_locations(self, layout: Layout) -> Requests[tuple[Array, Counts]]:
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
        sample = yield from self.sampled(int(self.locations))
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
    smallest = _SMALLEST_SHARE if calibrated else _SMALLEST_OBSERVED_SHARE
    varies = variance > np.maximum(smallest * variance[..., -1:], _ROUNDED)
    along = np.einsum("...ji,...j->...i", directions, np.where(enough[..., None], mean, 0.0))
    with np.errstate(divide="ignore", invalid="ignore"):
        total = (n * np.where(varies, along**2 / variance, 0.0)).sum(axis=-1)
    freedom = np.where(enough, varies.sum(axis=-1), np.nan)
    return np.where(enough, total, np.nan), freedom


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
