"""Histogram binning: the frequency of the outcome in the bin of the score."""

from collections.abc import Iterable
from typing import Any, Literal

import numpy as np

from calibdask.calibrators.curves.columns import ColumnCalibrator, Curve
from calibdask.calibrators.curves.isotonic import few_rows_caution
from calibdask.calibrators.curves.shapes import Steps
from calibdask.calibrators.fitted import Numbers, Sliced
from calibdask.estimators.binned.ece import ECE
from calibdask.estimators.checks import check_flags
from calibdask.statistics import exact
from calibdask.statistics.bins.binnings import BinEdges, binned_sums
from calibdask.statistics.bins.edges import Edges
from calibdask.statistics.exact import Array
from calibdask.statistics.layout import Layout
from calibdask.statistics.request import Requests


class HistogramBinning(ColumnCalibrator):
    """Histogram binning: the frequency of the outcome among the rows of the score's bin.

    Bins, edges and frequencies are the same as in `ECE` and `ReliabilityDiagram` with the same parameters.

    Parameters
    ----------
    bins : int, "sqrt" or sequence of float, default 15
        Number of bins of [0, 1], the square root of the number of rows, or their edges.
    binning : {"uniform", "equal-mass"}, default "uniform"
        Bins of equal width, closed on the right, or with equally many rows.
    bounded : bool, default False
        Whether one row of each outcome, with weight 1, is added to every bin: (k + 1) / (n + 2) for k of n. Then no
        probability is 0 or 1, and the log loss of every row is finite.
    setting : {"classwise", "confidence"}, optional
        For matrices: calibrate each class separately and divide rows by their sums, or calibrate only the largest
        score. With two classes P(y = 1) is calibrated.
    logits : bool, default False
        Whether ``y_prob`` are logits.

    Attributes
    ----------
    frequency_ : ndarray of shape (..., bins)
        The map by bin. Values of bins without rows are interpolated linearly between the centres of their neighbours,
        or copied from the nearest bin at the ends.
    edges_ : ndarray of shape (..., bins + 1)
        Their edges; NaN, or the last edge repeated, if a slice or class has fewer bins than others.
    rows_ : ndarray of shape (..., bins)
        Number of rows in each bin; with weights, the effective number.
    classes_ : ndarray of shape (K,)
    n_features_in_ : int

    Raises
    ------
    ValueError
        If a parameter is unknown, all outcomes are equal, or an edge is not a cell boundary of the summary.

    Warns
    -----
    UserWarning
        If bins have no rows, or frequencies of exactly 0 or 1 are based on fewer than 100 rows.

    Notes
    -----
    One pass; usually two for bins of equal mass, see `ECE`. Exact for any number of rows. From a summary, edges of
    uniform bins must be cell boundaries, as with 10, 15, 20 and 100 bins, and edges of equal-mass bins are moved to the
    next cell boundary above.

    References
    ----------
    .. [1] Zadrozny & Elkan, Obtaining calibrated probability estimates from decision trees and naive Bayesian
       classifiers, 2001.

    Examples
    --------
    >>> import calibdask as cd
    >>> y_true, y_prob = [0, 0, 1, 0, 1, 1], [0.1, 0.2, 0.3, 0.6, 0.7, 0.8]
    >>> cd.HistogramBinning(bins=2, bounded=True).fit(y_true, y_prob).predict_proba([0.5, 0.9])[:, 1]
    array([0.4, 0.6])
    """

    def __init__(
        self,
        *,
        bins: Any = 15,
        binning: Literal["uniform", "equal-mass"] = "uniform",
        bounded: bool = False,
        setting: Literal["classwise", "confidence"] | None = None,
        logits: bool = False,
    ) -> None:
        self.bins = bins
        self.binning = binning
        self.bounded = bounded
        self.setting = setting
        self.logits = logits

    def _requests(self) -> Requests[Numbers]:
        check_flags(bounded=self.bounded)
        layout = yield from Layout()
        setting = self._setting(layout)
        binning = ECE(bins=self.bins, binning=self.binning).rule(layout, setting, "hard")
        edges = yield from BinEdges(binning, setting)
        sums = yield from binned_sums(setting, edges)
        weight, square, outcome = (exact.value(part)[0] for part in (sums.weight, sums.weight_square, sums.outcome))
        effective = np.divide(weight**2, square, out=np.zeros_like(weight), where=square > 0)
        extra = 1.0 if self.bounded else 0.0
        frequency = _filled(outcome + extra, weight + 2 * extra, weight > 0, edges)
        values = np.broadcast_to(edges.values, (1, *weight.shape[:-1], edges.bins + 1))[0]
        return {"frequency": frequency, "edges": values.copy(), "rows": effective}

    def _cautions(self, sliced: Sliced) -> Iterable[str]:
        rows, edges = sliced.numbers["rows"], sliced.numbers["edges"]
        bins = np.isfinite(sliced.numbers["frequency"]) & (np.diff(edges) > 0)
        empty = int((bins & (rows == 0)).sum())
        if empty:
            yield f"{empty:,} of {bins.sum():,} bins have no rows; they get the observed rates of their neighbours."
        frequency = sliced.numbers["frequency"]
        yield from few_rows_caution(np.where((frequency == 0) | (frequency == 1), rows, 0.0))

    def _curve(self, numbers: Numbers) -> Curve:
        inner = numbers["edges"][1:-1]
        return Steps(np.where(np.isnan(inner), np.inf, inner), numbers["frequency"])


def _filled(outcome: Array, weight: Array, held: Any, edges: Edges) -> Array:
    """Frequencies (slices, columns, bins), interpolated where no rows are; NaN for slices without rows."""
    frequency = np.full(weight.shape, np.nan)
    centres = np.broadcast_to(edges.centres(), (1, *weight.shape))[0]
    for stratum in np.ndindex(weight.shape[:-1]):
        filled, centre = held[stratum], centres[stratum]
        if filled.any():
            own = outcome[stratum][filled] / weight[stratum][filled]
            # Bins that a column lacks, of NaN, have the value of its last.
            frequency[stratum] = np.interp(np.fmin(centre, 1.0), centre[filled], own)
            frequency[stratum][filled] = own
    return frequency
