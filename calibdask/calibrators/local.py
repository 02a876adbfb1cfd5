"""The calibrator that corrects scores by their local calibration error."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted

from calibdask.calibrators.base import BlockMap, Calibrator
from calibdask.engine.sources.source import Source
from calibdask.estimators.smooth.calibration_map import fitted_map
from calibdask.estimators.smooth.curves import LocalCalibrationError
from calibdask.estimators.smooth.gridded import Gridded
from calibdask.inference.choice import check_level
from calibdask.statistics.bins.grid import Grid, GridHistogram, cells_of
from calibdask.statistics.exact import Array

# Sums of a row up to this are what rounding in transforms leaves of 0.
_ZERO_SUM = 1e-9


class Interval(NamedTuple):
    """Ends of intervals, each of the shape of `LCECalibrator.predict_proba`."""

    low: Any
    high: Any


class LCECalibrator(Calibrator):
    """Calibrate scores by their local calibration error, with an interval for every prediction.

    ::

        cal(s) = s + LCE(s) = P(o = 1) f1(s) / f(s)

    with the kernel density estimates of `DensityECE`, clipped to [0, 1]. Binary scores are calibrated as P(y = 1);
    with more classes each class by itself, and rows are divided by their sums.

    Parameters
    ----------
    kernel : {"triweight", "gaussian", "epanechnikov", "cosine", "beta"}, default "triweight"
        Kernel of the density estimates.
    bandwidth : float or {"silverman", "isj"}, default "silverman"
        Standard deviation of the kernel in units of the score, or the rule that chooses it for each class.
    monotone : bool, default False
        Make the map of each class non-decreasing: isotonic regression of the curve, weighted by the density of scores.
    step : float, default 0.0003
        Largest width of a cell of the grid on which the curves are computed.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
        The classes 0..K-1.
    n_features_in_ : int
        Number of columns of scores, 1 for a vector.
    feature_names_in_ : ndarray of shape (``n_features_in_``,)
        Names of the columns; only if fitted on a data frame whose columns have names, in memory.
    bandwidth_ : ndarray of shape (1 or K,)
        The bandwidth of each map; one map for binary scores.
    map_ : CalibrationMap
        The maps on the nodes of the grid.

    Raises
    ------
    ValueError
        If an option is unknown, or the scores or labels are invalid, as for `calibdask.evaluate`.

    Notes
    -----
    Fitting takes one pass over NumPy or Dask arrays, with the same result for any chunks; predicting is elementwise and
    lazy for Dask arrays. Memory: 115 kB for each class.

    Silverman's rule follows the interquartile range, which is small where most scores of a class are near 0: with few
    rows the map is then ragged, and probabilities may be 0 for events that do happen. ``monotone=True`` corrects most
    of that, as does a wider bandwidth.

    References
    ----------
    .. [1] Posocco & Bonnefoy, Towards a continuous evaluation of calibration, 2021; its cal(s) = s - LCE(s) has
       the opposite sign of its own definition of LCE.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> y_prob = rng.random(50_000)
    >>> y_true = rng.random(50_000) < y_prob**2
    >>> calibrator = LCECalibrator().fit(y_true, y_prob)
    >>> calibrator.predict_proba([0.5]).round(2)
    array([[0.75, 0.25]])
    """

    def __init__(
        self, *, kernel: Any = "triweight", bandwidth: Any = "silverman", monotone: bool = False, step: float = 0.0003
    ) -> None:
        self.kernel = kernel
        self.bandwidth = bandwidth
        self.monotone = monotone
        self.step = step

    def _fit(self, source: Source) -> None:
        if not isinstance(self.monotone, bool | np.bool_):
            raise ValueError(f"monotone expects True or False, got {self.monotone!r}.")
        layout = source.layout
        # With two classes P(y = 1) determines both.
        setting = layout.setting(1 if layout.classes == 2 else "classwise")
        error = LocalCalibrationError(kernel=self.kernel, bandwidth=self.bandwidth, step=self.step)
        histogram = GridHistogram(setting, Grid(cells_of(self.step)))
        (state,) = source.answer((histogram,))
        curves = fitted_map(error, Gridded(setting, histogram.grid, state))
        self.map_ = curves.made_monotone() if self.monotone else curves
        self.bandwidth_ = curves.bandwidth

    def _probabilities(self) -> BlockMap:
        return _Probabilities(self.map_.grid.nodes, self.map_.probability)

    def predict_interval(self, y_prob: Any, level: float = 0.95) -> Interval:
        """Intervals for the frequency of each class given its score, each end of shape (n, K).

        Intervals are pointwise, for each class and score separately: the true frequency of the class among rows of that
        score lies within the interval for about the share ``level`` of predictions. With more than two classes this is
        before rows are divided by their sums. The interval contains the calibrated probability before that division.

        Notes
        -----
        Wilson's score interval with the effective number of rows of a local quadratic fit, whose window is 0.7 times as
        wide as that of the density estimates: the bias that mirroring and Silverman's rule leave at the ends of the
        support and where the curve is steep is then small compared with the error. In simulations with 500 to 20 000
        rows a level of 0.95 covered 95 to 97 % in the middle and, with few exceptions, 92 to 99 % within 0.05 of an
        end. At an end where the true curve is infinitely steep (the square root at 0) coverage falls towards that end.

        Raises
        ------
        ValueError
            If the level is not between 0 and 1, or ``y_prob`` does not hold scores of the same classes.
        """
        check_is_fitted(self)
        check_level(level)
        low, high = self.map_.interval(level)
        nodes = self.map_.grid.nodes
        return Interval(
            self._by_rows(y_prob, _Curves(nodes, low, 1 - high)), self._by_rows(y_prob, _Curves(nodes, high, 1 - low))
        )


@dataclass(frozen=True)
class _Curves:
    """Curves of class 1 (and 0), or of all classes, on the nodes of a grid, interpolated at the scores."""

    nodes: Array
    curves: Array
    complement: Array | None = None

    def __call__(self, scores: Array) -> Array:
        if len(self.curves) > 1:
            columns = [np.interp(scores[:, c], self.nodes, curve) for c, curve in enumerate(self.curves)]
            return np.stack(columns, -1)
        positive = scores if scores.ndim == 1 else scores[:, 1]
        other = 1 - self.curves if self.complement is None else self.complement
        return np.stack([np.interp(positive, self.nodes, curve) for curve in (other[0], self.curves[0])], -1)


class _Probabilities(_Curves):
    """Probabilities: those of several classes are divided by their sum, or equal where it is 0."""

    def __call__(self, scores: Array) -> Array:
        values = super().__call__(scores)
        if len(self.curves) == 1:
            return values
        sums = values.sum(-1, keepdims=True)
        positive = sums > _ZERO_SUM
        return np.where(positive, values / np.where(positive, sums, 1.0), 1 / values.shape[-1])
