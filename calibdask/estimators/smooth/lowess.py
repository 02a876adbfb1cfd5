"""Cleveland's lowess of outcomes on scores, from weights on a grid: lines fitted to the nearest rows."""

import numpy as np
import numpy.typing as npt

from calibdask.statistics.exact import Array

# Share of the rows in each window, and the step between fits as a share of the range of the scores: defaults of R.
SPAN, _DELTA = 2 / 3, 0.01
# As R's lowess: rows beyond 0.999 of the window have no weight, those within 0.001 of it have weight 1, and a window
# whose scores are spread over less than 0.001 of their range has a mean in place of a line.
_NEAR, _FAR, _FLAT = 0.001, 0.999, 0.001
# Sums of shares that differ by less are equal up to rounding.
_ROUNDING = 1e-9


def lowess(nodes: Array, rows: Array, events: Array, total: float) -> Array:
    """The curve of R's ``lowess(score, outcome, f = 2/3, iter = 0)`` at the nodes.

    ::

        minimise over a, b:  sum_i w_i (1 - (|s_i - s| / h)^3)^3 (o_i - a - b (s_i - s))^2,   value a

    with h the distance of s to the furthest of the nearest two thirds of the rows. As in R, the line is fitted at
    scores that are 1 % of their range apart, and interpolated between these. It is not clipped to [0, 1].

    Parameters
    ----------
    nodes : array of shape (m,), ascending in equal steps
    rows, events : array of shape (m,)
        Shares of the rows, and of those with outcome 1, at the nodes.
    total : float
        Number of rows; the nearest two thirds are whole rows.

    Returns
    -------
    array of shape (m,); NaN at nodes without rows.

    References
    ----------
    Cleveland, Robust locally weighted regression and smoothing scatterplots, 1979.

    Examples
    --------
    >>> nodes = np.linspace(0, 1, 5)
    >>> lowess(nodes, np.full(5, 0.2), 0.2 * nodes, 100.0).round(6).tolist()
    [0.0, 0.25, 0.5, 0.75, 1.0]
    """
    filled = np.flatnonzero(rows > 0)
    curve = np.full(nodes.size, np.nan)
    if not filled.size:
        return curve
    at, mass, ones = nodes[filled], rows[filled], events[filled]
    share = np.floor(SPAN * total + _ROUNDING) / total
    anchors = _anchors(at)
    windows = _windows(rows, filled[anchors], max(share, _ROUNDING)) * (nodes[1] - nodes[0])
    fitted = _lines(at, mass, ones, at[anchors], windows)
    curve[filled] = np.interp(at, at[anchors], fitted)
    return curve


def _anchors(scores: Array) -> list[int]:
    """Positions at which lines are fitted: each the last within one step of the one before, or the next."""
    step = _DELTA * (scores[-1] - scores[0])
    anchors = [0]
    while anchors[-1] < scores.size - 1:
        reached = int(np.searchsorted(scores, scores[anchors[-1]] + step, "right")) - 1
        anchors.append(max(reached, anchors[-1] + 1))
    return anchors


def _windows(rows: Array, centres: npt.NDArray[np.intp], share: float) -> npt.NDArray[np.intp]:
    """The fewest steps from each centre within which there is this share of the rows."""
    below = np.r_[0.0, np.cumsum(rows)]
    wanted = share * below[-1] - _ROUNDING
    low, high = np.zeros_like(centres), np.full_like(centres, rows.size)
    while (low < high).any():
        middle = (low + high) // 2
        held = below[np.minimum(centres + middle + 1, rows.size)] - below[np.maximum(centres - middle, 0)]
        low, high = np.where(held < wanted, middle + 1, low), np.where(held < wanted, high, middle)
    return low


def _lines(scores: Array, mass: Array, events: Array, centres: Array, windows: Array) -> Array:
    """Values at the centres of the lines fitted within the windows."""
    distance, window = np.abs(scores - centres[:, None]), windows[:, None]
    u = distance / np.where(window > 0, window, 1.0)
    falling = 1 - u * u * u
    # Where the window has no width, all of its rows are at the centre.
    near = np.where(window > 0, u <= _NEAR, distance == 0)
    weight = mass * np.where(near, 1.0, falling * falling * falling * ((u <= _FAR) & (window > 0)))
    weight /= weight.sum(-1, keepdims=True)
    mean = weight @ scores
    spread = weight @ scores**2 - mean**2
    has_slope = np.sqrt(np.maximum(spread, 0.0)) > _FLAT * (scores[-1] - scores[0])
    slope = np.where(has_slope, centres - mean, 0.0) / np.where(has_slope, spread, 1.0)
    rate = events / mass
    return np.asarray(weight @ rate + slope * (weight @ (scores * rate) - mean * (weight @ rate)))
