"""Spiegelhalter's test of calibration."""

from dataclasses import dataclass

import numpy as np
import scipy
from typing_extensions import override

from calibdask.estimators.about import PVALUE, About, Description, PartInfo
from calibdask.estimators.columns import ColumnEstimator
from calibdask.estimators.interval import NoInterval
from calibdask.estimators.parts import Estimate, Number
from calibdask.estimators.sampling_variance import SKEWED, UNKNOWN_WEIGHT, is_too_skewed
from calibdask.statistics import exact
from calibdask.statistics.cluster_sums import ClustersOfSlices
from calibdask.statistics.counts import RowCount
from calibdask.statistics.layout import Layout
from calibdask.statistics.outcome_sums import OutcomeSums
from calibdask.statistics.prefetch import Prefetch
from calibdask.statistics.request import Requests
from calibdask.statistics.row_terms import RowTerms
from calibdask.statistics.settings import Setting
from calibdask.statistics.statistic import ViewedStatistic
from calibdask.statistics.views.clusters import FEWEST_CLUSTERS, Buckets, bucket_count

# Sums of terms that are rounded to 2**-44 are off by 1 % and more below this mean; a wrong score of 0 or 1 adds 1.
_LEAST_VARIANCE, _ONE_WRONG = 2.0**-38, 0.5
_NULL = "the model is calibrated"


@dataclass(frozen=True, kw_only=True)
class SpiegelhalterTest(ColumnEstimator):
    """Spiegelhalter's z-test of whether the Brier score has its expected value under calibration.

    ::

        z = sum w (o - s)(1 - 2 s) / sqrt( sum w**2 (1 - 2 s)**2 s (1 - s) ),   two-sided p-value

    Parameters
    ----------
    setting : str, int or None
        ``"confidence"``, ``"binary"``, a class, ``"top-k"``, ``"classwise"`` (a test for each class); None: binary for
        a vector of scores, confidence for a matrix.
    k : int, optional
        Number of classes of the setting ``"top-k"``.

    Raises
    ------
    ValueError
        If the setting is unknown.

    Notes
    -----
    Parts ``statistic`` (z) and ``pvalue``. If all scores are 0, 1/2 or 1, both are NaN; if in addition a score of 0 or
    1 is wrong, which is impossible for a calibrated model, they are infinite and the smallest positive number. Without
    weights they are also NaN if all scores are so close to these values (within 2e-6 of 1/2 or 4e-12 of 0 and 1) that
    the variance is lost in the rounding of its terms to 2**-44. Rows are assumed to be independent and many: the
    p-value is NaN if the sum of terms has a skewness above 1, as with less than one expected outcome; below that, a
    test at 5 % rejects up to 8.4 % of calibrated models with equal scores. Weights are importance weights, not numbers
    of repeated rows. They may depend on the outcome: if it is larger, the variance used is sum w**2 (1 - 2 s)**2 (o -
    s)**2, and the p-value is NaN if all outcomes are equal, as the weight of the other outcome is unknown. One pass,
    O(n) time for each column. From a summary, rows of a cell with the same outcome are placed at their mean score.

    With clusters of dependent rows (``groups``) terms are added up within each of G clusters (or of as many buckets of
    clusters as `calibdask.evaluate` keeps), and clusters are independent::

        z = sum_g S_g / sqrt( G / (G - 1) sum_g S_g**2 ),   S_g = sum of w (o - s)(1 - 2 s) over the rows of g

    with the p-value of Student's t with G - 1 degrees of freedom; NaN with fewer than 10 clusters.

    The test detects errors that change the Brier score: overconfident or underconfident scores. It misses others.

    References
    ----------
    .. [1] Spiegelhalter, Probabilistic prediction in patient management and clinical trials, 1986.

    Examples
    --------
    >>> import calibdask as cd
    >>> result = cd.evaluate([0, 1, 0, 1, 0, 0], [0.1, 0.9, 0.2, 0.8, 0.1, 0.2], cd.SpiegelhalterTest())
    >>> round(float(result.spiegelhalter_test_statistic), 4), round(float(result.spiegelhalter_test_pvalue), 4)
    (-1.0206, 0.3074)
    """

    about = About(
        "Spiegelhalter's test",
        "Tests whether the Brier score has its expected value under calibration: z = sum (o - s)(1 - 2 s) / sqrt(sum "
        "(1 - 2 s)**2 s (1 - s)). It detects overconfident and underconfident scores, and may miss other errors.",
        "Spiegelhalter, Probabilistic prediction in patient management and clinical trials, 1986",
        "Spiegelhalter's test",
    )

    tests_clusters = True

    @override
    def describe(self, layout: Layout) -> Description:
        return {
            "statistic": PartInfo("z statistic of the Brier score, approximately normal if calibrated", "statistic"),
            "pvalue": PartInfo(PVALUE, "pvalue"),
        }

    def interval(self, layout: Layout) -> NoInterval:
        """None: a test has a p-value instead."""
        return NoInterval()

    @override
    def estimate(self) -> Requests[Estimate]:
        layout = yield from Layout()
        setting = self.measured(layout)
        # Prefetch, to be counted in the same pass.
        yield from Prefetch(RowCount())
        if not layout.clustered:
            yield from Prefetch(RowTerms(setting, "excess"))
        if layout.weighted:
            yield from Prefetch(OutcomeSums(setting))
        if layout.clustered:
            return (yield from self._of_clusters(setting, layout))
        state = yield from RowTerms(setting, "spiegelhalter")
        rows = (yield from RowCount()).rows[..., None]
        excess, variance = exact.value(state.sums)
        observed, third = exact.value((yield from RowTerms(setting, "excess")).sums)
        too_skewed, reasons = is_too_skewed(variance, third), set()
        if too_skewed.any():
            reasons.add(SKEWED)
        if layout.weighted:
            variance = np.where((variance > 0) & (observed > variance), observed, variance)
            sums = yield from OutcomeSums(setting)
            weight, outcome = exact.value(sums.weight), exact.value(sums.outcome)
            equal = (outcome <= 0) | (outcome >= weight)
            too_skewed |= equal
            if equal.any():
                reasons.add(f"no p-value {UNKNOWN_WEIGHT}")
        with np.errstate(divide="ignore", invalid="ignore"):
            # Infinite where scores of 0 or 1 are wrong and no other score varies.
            z = np.where((variance > 0) | (excess != 0), excess / np.sqrt(variance), np.nan)
        if not layout.weighted:
            z = np.where((variance < rows * _LEAST_VARIANCE) & (np.abs(excess) < _ONE_WRONG), np.nan, z)
        notes = {
            "assumes": "rows are independent and many: the statistic is approximately normal",
            "null_hypothesis": _NULL,
            **({"undefined": "; ".join(sorted(reasons))} if reasons else {}),
        }
        # A wrong score of 0 or 1 cannot be if the model is calibrated.
        pvalue = np.where(too_skewed & np.isfinite(z), np.nan, 2 * scipy.special.ndtr(-np.abs(z)))
        values = {"statistic": z, "pvalue": pvalue}
        return {name: Number(setting.by_class(column), setting.dims, notes) for name, column in values.items()}

    def _of_clusters(self, setting: Setting, layout: Layout) -> Requests[Estimate]:
        """The test of sums by cluster."""
        buckets = Buckets(bucket_count(layout))
        yield from Prefetch(ViewedStatistic(buckets, RowCount()))
        state = yield from ViewedStatistic(buckets, RowTerms(setting, "spiegelhalter"))
        rows = (yield from ViewedStatistic(buckets, RowCount())).rows
        shape = layout.batch, layout.groups, buckets.count
        count = (rows.reshape(shape) > 0).sum(-1)[..., None]
        clusters = yield from ClustersOfSlices(setting)
        terms = exact.value(state.sums)[0].reshape(*shape, -1)
        with np.errstate(divide="ignore", invalid="ignore"):
            z = terms.sum(2) / np.sqrt(count / (count - 1) * (terms**2).sum(2))
        z = np.where((count < FEWEST_CLUSTERS) | clusters.dominated[:, None], np.nan, z)
        pvalue = 2 * scipy.special.stdtr(np.maximum(count - 1, 1), -np.abs(z))
        notes = {
            "assumes": "clusters are independent: the statistic has Student's distribution",
            "null_hypothesis": _NULL,
        }
        values = {"statistic": z, "pvalue": pvalue}
        return {name: Number(setting.by_class(column), setting.dims, notes) for name, column in values.items()}
