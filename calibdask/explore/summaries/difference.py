"""The difference of two numbers that have intervals."""

import numpy as np

from calibdask.results.over_time import Ends


def difference(first: Ends, second: Ends) -> Ends:
    """The second number less the first, with an interval out of their own intervals, elementwise.

        low = d - sqrt((b - low_b)^2 + (high_a - a)^2),  high = d + sqrt((high_b - b)^2 + (a - low_a)^2),  d = b - a

    Parameters
    ----------
    first, second : Ends
        Numbers, or arrays, of rows that the two do not share, with intervals of one level.

    Returns
    -------
    Ends
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
    >>> difference(Ends(0.1, 0.07, 0.13), Ends(0.3, 0.26, 0.34))  # doctest: +ELLIPSIS
    Ends(value=0.19..., low=0.15, high=0.25)
    """
    (a, low_a, high_a), (b, low_b, high_b) = (_within(ends) for ends in (first, second))
    middle = b - a
    low = middle - np.hypot(b - low_b, high_a - a)
    high = middle + np.hypot(high_b - b, a - low_a)
    return Ends(second.value - first.value, low, high)


def _within(ends: Ends) -> Ends:
    return Ends(np.clip(ends.value, ends.low, ends.high), ends.low, ends.high)
