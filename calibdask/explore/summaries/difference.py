"""The difference of two numbers that have intervals."""

from typing import Any, NamedTuple

import numpy as np


class Bounded(NamedTuple):
    """A number with the ends of its interval, or arrays of these."""

    value: Any
    low: Any
    high: Any


def difference(first: Bounded, second: Bounded) -> Bounded:
    """The second number less the first, with an interval out of their own intervals, elementwise.

        low = d - sqrt((b - low_b)^2 + (high_a - a)^2),  high = d + sqrt((high_b - b)^2 + (a - low_a)^2),  d = b - a

    Parameters
    ----------
    first, second : Bounded
        Numbers, or arrays, of rows that the two do not share, with intervals of one level.

    Returns
    -------
    Bounded
        With an interval of that level. Where the two share rows, or are of models of the same rows, they tend to err
        to the same side, and the interval is too wide rather than too narrow.

    Notes
    -----
    Calibration errors of few rows may lie above their interval, which is corrected for their bias: in the interval they
    count as its nearest end.

    References
    ----------
    .. [1] Zou & Donner, Construction of confidence limits about effect measures, 2008.
    .. [2] Newcombe, Interval estimation for the difference between independent proportions, 1998, method 10.

    Examples
    --------
    >>> [round(float(number), 3) for number in difference(Bounded(0.1, 0.07, 0.13), Bounded(0.3, 0.26, 0.34))]
    [0.2, 0.15, 0.25]
    """
    (a, low_a, high_a), (b, low_b, high_b) = (_within(ends) for ends in (first, second))
    middle = b - a
    low = middle - np.hypot(b - low_b, high_a - a)
    high = middle + np.hypot(high_b - b, a - low_a)
    return Bounded(second.value - first.value, low, high)


def _within(ends: Bounded) -> Bounded:
    return Bounded(np.clip(ends.value, ends.low, ends.high), ends.low, ends.high)
