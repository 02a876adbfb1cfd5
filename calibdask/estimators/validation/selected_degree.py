"""The distribution of a likelihood ratio after the degree of a polynomial was selected by likelihood-ratio tests."""

from functools import cache
from typing import Any

import numpy as np
import scipy

# Polynomials in the logit up to this degree.
MOST_DEGREE = 4
_NODES = 200


def exceeded(statistic: float, degree: int, threshold: float, *, same_data: bool = False) -> float:
    """P(T > statistic) of a calibrated model, given that polynomials of this degree were selected.

    T is the likelihood ratio of the selected polynomial and the identity: the sum of independent chi-squares, two of
    them for the straight line (none where the model was fitted to the same rows, since the line is the identity then)
    and one for each further degree. All but the first of these were selected because they exceed the
    ``threshold``; with ``same_data`` the square is always included.

    Notes
    -----
    With r_i the roots of the chi-squares with one degree of freedom, T > t is a set in polar coordinates: with A(r) the
    area of the sphere of radius r where all that were selected exceed the root of the threshold::

        P(T > t) = c ( int_{sqrt t}^inf A(r) exp(-r**2 / 2) dr + exp(-t / 2) int^{sqrt t} A(r) dr )

    the second term for the straight line alone. A is an arc for two, and a spherical triangle for three, whose area
    follows from its angles (Gauss and Bonnet).

    References
    ----------
    .. [1] Nattino, Finazzi & Bertolini, A new calibration test and a reappraisal of the calibration belt for the
       assessment of prediction models based on dichotomous outcomes, 2014.

    Examples
    --------
    >>> round(exceeded(5.991464547107979, 1, 3.84), 6)
    0.05
    >>> round(exceeded(3.841458820694124, 2, 3.84, same_data=True), 6)
    0.05
    """
    least = 2 if same_data else 1
    if degree == least and not same_data:
        return float(np.exp(-statistic / 2))
    extra = degree - 1
    selected = extra - 1 if same_data else extra
    chance = scipy.special.chdtrc(1, threshold)
    start = np.sqrt(selected * threshold)
    reached = max(float(np.sqrt(statistic)), start)

    def area(r: Any) -> Any:
        return r ** (extra - 1) * _area(np.sqrt(threshold) / r, extra, selected)

    scale = (2 / np.pi) ** (extra / 2) / chance**selected
    beyond = _integral(lambda r: area(r) * np.exp(-r * r / 2), reached, reached + 12.0)
    if same_data:
        return float(min(1.0, scale * beyond))
    below = _integral(area, start, reached) * np.exp(-(reached**2) / 2)
    return float(min(1.0, scale * (beyond + below)))


def quantile(level: float, degree: int, threshold: float, *, same_data: bool = False) -> float:
    """The statistic that is exceeded with probability 1 - level."""
    least = (degree - (2 if same_data else 1)) * threshold

    def excess(statistic: float) -> float:
        return exceeded(statistic, degree, threshold, same_data=same_data) - (1 - level)

    return float(scipy.optimize.brentq(excess, least, least + 200.0, xtol=1e-12))


def _area(a: Any, coordinates: int, selected: int) -> Any:
    """Area of the positive part of the unit sphere where ``selected`` coordinates exceed a."""
    a = np.asarray(a, np.float64)
    if coordinates == 1:
        return np.ones_like(a)
    if coordinates == 2:
        arc = np.arccos(np.minimum(a, 1.0))
        return arc if selected == 1 else np.maximum(2 * arc - np.pi / 2, 0.0)
    least = 1 / np.sqrt(selected)
    a = np.minimum(a, least)
    corner = np.arccos(np.minimum(a * a / (1 - a * a), 1.0))
    side = 2 * np.arccos(np.minimum(a / np.sqrt(1 - a * a), 1.0))
    if selected == 2:
        return np.maximum(corner - a * side, 0.0)
    return np.maximum(3 * corner - np.pi - 3 * a * (side - np.pi / 2), 0.0)


def _integral(function: Any, low: float, high: float) -> float:
    """Of a function that may begin like a root at its lower end: nodes crowd there."""
    if high <= low:
        return 0.0
    nodes, weights = _nodes()
    u = (nodes + 1) / 2
    values = function(low + (high - low) * u * u) * 2 * u
    return float((high - low) * (weights * values).sum() / 2)


@cache
def _nodes() -> Any:
    """Nodes and weights of Gauss and Legendre, which take longer than an integral."""
    return scipy.special.roots_legendre(_NODES)
