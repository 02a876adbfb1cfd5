"""Bandwidth selection on the grid, for each column: Silverman's rule and the improved Sheather-Jones method."""

import math
import warnings
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from calibdask.estimators.smooth.smoothing import Mirrored
from calibdask.statistics.bins.grid import Grid, GridState, scores_of_cells, smooth_weights
from calibdask.statistics.exact import Array

Bandwidth = float | Literal["silverman", "isj"]

_NORMAL_IQR = 1.34898  # of the standard normal distribution
_NORMAL_98 = 4.65265  # between its percentiles 1 and 99
_STAGES = 7


def check_bandwidth(bandwidth: object) -> Bandwidth:
    """Return a rule, or a number that may be 0; raise ValueError otherwise."""
    if bandwidth == "silverman" or bandwidth == "isj":
        return bandwidth
    if isinstance(bandwidth, bool) or not isinstance(bandwidth, int | float | np.number) or not 0 <= bandwidth <= 10:
        raise ValueError(f"bandwidth expects 'silverman', 'isj' or a number from 0 to 10, got {bandwidth!r}.")
    return float(bandwidth)


def bandwidths(rule: Bandwidth, state: GridState, grid: Grid, widest: float = math.inf) -> Array:
    """The bandwidth of each (batch, group, column), never below one step of the grid.

    Raises
    ------
    ValueError
        If a given bandwidth exceeds the largest one that the kernel supports.

    Warns
    -----
    UserWarning
        Where a bandwidth is raised to the step of the grid or lowered to the largest one, or the improved
        Sheather-Jones method finds none.
    """
    if not isinstance(rule, str):
        if rule > widest:
            raise ValueError(
                f"bandwidth expects at most {widest:.4g} for the beta kernel on this support, got {rule!r}."
            )
        chosen = np.full(state.mass.shape[:3], rule)
    else:
        chosen = (_silverman if rule == "silverman" else _sheather_jones)(state, grid)
    filled = state.mass.sum((-1, -2)) > 0
    _warn_limited(
        rule,
        filled,
        chosen < grid.width,
        f"below the step of the grid, {grid.width:.2g}",
        "where many scores are equal or lie close to 0 or 1",
    )
    _warn_limited(rule, filled, chosen > widest, f"above the maximum of the kernel, {widest:.4g}", "with few rows")
    return np.clip(chosen, grid.width, widest)


def _warn_limited(
    rule: Bandwidth, filled: npt.NDArray[np.bool_], beyond: npt.NDArray[np.bool_], what: str, when: str
) -> None:
    """Warn where bandwidths of columns with rows are beyond a limit."""
    count = int((filled & beyond).sum())
    if count:
        warnings.warn(
            f"The bandwidth {rule!r} is {what}, for {count} of {filled.sum()} columns of scores, as happens {when}; "
            "that limit is used instead.",
            UserWarning,
            stacklevel=3,
        )


def _cell_means(state: GridState, grid: Grid) -> tuple[Array, Array]:
    """Weight and mean score of each cell, (batch, groups, columns, cells)."""
    # Term by term: sums along an axis of two take ten times as long.
    count = (state.mass[..., 0] + state.mass[..., 1]).astype(np.float64)
    distance = state.distance_of(state.offset[..., 0]) + state.distance_of(state.offset[..., 1])
    position = np.divide(distance, count, out=np.full_like(count, 0.5), where=count > 0)
    return count, scores_of_cells(grid, position)


def _silverman(state: GridState, grid: Grid) -> Array:
    """Silverman's rule, A (3n/4)**(-1/5), A the smaller of the standard deviation and the scaled interquartile range.

    Scores within a cell count as equal to its mean for the standard deviation, and as spread around it for quantiles.
    """
    count, mean = _cell_means(state, grid)
    rows = state.effective_rows
    total = np.maximum(count.sum(-1), np.finfo(float).tiny)
    centre = (count * mean).sum(-1) / total
    variance = (count * (mean - centre[..., None]) ** 2).sum(-1) / total
    deviation = np.sqrt(variance * rows / np.maximum(rows - 1, 1))
    # The weight of an effective row; 1 without weights, or if all are 1.
    one = np.divide(total, rows, out=np.ones_like(total), where=rows > 0)
    first, lower, upper, last = np.moveaxis(
        _quantiles(count, mean, np.array([0.01, 0.25, 0.75, 0.99]), grid, one), -1, 0
    )
    spread = np.minimum(deviation, (upper - lower) / _NORMAL_IQR)
    spread = np.where(spread > 0, spread, (last - first) / _NORMAL_98)
    return spread * (0.75 * np.maximum(rows, 1)) ** -0.2


def _quantiles(count: Array, mean: Array, shares: Array, grid: Grid, one: Array) -> Array:
    """Linear interpolation between order statistics of as many rows as have the effective weight ``one``.

    Of each column at all shares, along the last axis.
    """
    cumulative = np.cumsum(count, -1)
    total = (cumulative[..., -1] / one)[..., None]
    rank = np.maximum(total - 1, 0) * shares
    below = np.floor(rank)
    ranks = below, np.minimum(below + 1, total - 1)
    low, high = (_ordered(count, mean, cumulative, (at + 0.5) * one[..., None], grid) for at in ranks)
    return np.asarray(low + (rank - below) * (high - low))


def _ordered(count: Array, mean: Array, cumulative: Array, at: Array, grid: Grid) -> Array:
    """The score at which the cumulative count is ``at``: the scores of a cell are spread evenly about their mean."""
    cell = np.empty(at.shape, np.int64)
    for column in np.ndindex(at.shape[:-1]):
        cell[column] = cumulative[column].searchsorted(at[column], "right")
    cell = np.minimum(cell, grid.cells - 1)
    inside, centre, up_to = (np.take_along_axis(a, cell, -1) for a in (count, mean, cumulative))
    edges = grid.nodes[cell]
    reach = np.minimum(centre - edges, edges + grid.width - centre)
    position = 1 - (up_to - at) / np.maximum(inside, np.finfo(float).tiny)
    return np.asarray(centre + reach * (2 * np.clip(position, 0, 1) - 1))


def _sheather_jones(state: GridState, grid: Grid) -> Array:
    """Botev, Grotowski & Kroese, Kernel density estimation via diffusion, 2010, algorithm 1, on cosine coefficients."""
    rows = state.effective_rows
    chosen = np.zeros(rows.shape)
    fallback: list[tuple[int, ...]] = []
    for index in np.ndindex(rows.shape):
        if rows[index] < 2:
            continue
        column = state.part(tuple(slice(at, at + 1) for at in index))
        weights = smooth_weights(column, grid)[0, 0, 0, :2].sum(0)
        square = (Mirrored(weights, grid).coefficients / weights.sum())[1:] ** 2
        time = _diffusion_time(square, float(rows[index]))
        if time is None:
            fallback.append(index)
            chosen[index] = _silverman(column, grid).item()
        else:
            chosen[index] = np.sqrt(time) * (1.0 - grid.low)
    if fallback:
        warnings.warn(
            f"The improved Sheather-Jones method found no bandwidth for {len(fallback)} of {rows.size} columns of "
            "scores, as happens with few rows; Silverman's rule is used instead.",
            UserWarning,
            stacklevel=3,
        )
    return chosen


def _diffusion_time(square: Array, rows: float) -> float | None:
    """The smallest fixed point of the diffusion time, on the support rescaled to [0, 1]; None if there is none.

    0 where it lies below one step of the grid.
    """
    order = np.arange(1, square.size + 1.0) ** 2

    def functional(power: int, time: Any) -> Any:
        """The squared norm of the derivative of this order of the density at a diffusion time."""
        exponent = power * np.log(order) - order * np.pi**2 * time
        return 2 * np.pi ** (2 * power) * (np.exp(exponent) * square).sum()

    def gap(time: float) -> float:
        # For equally spaced scores the norms are 0; NumPy scalars divide by 0 without an exception.
        norm = functional(_STAGES, time)
        for stage in range(_STAGES - 1, 1, -1):
            odd = math.prod(range(1, 2 * stage, 2)) / math.sqrt(2 * math.pi)
            factor = (1 + 0.5 ** (stage + 0.5)) / 3
            norm = functional(stage, (2 * factor * odd / (rows * norm)) ** (2 / (3 + 2 * stage)))
        return float(time - (2 * rows * math.sqrt(math.pi) * norm) ** -0.4)

    # Importing it takes as long as a small evaluation, and nothing else needs it.
    from scipy.optimize import brentq

    with np.errstate(all="ignore"):
        # From one step of the grid to a fifth of the support, as squares of bandwidths.
        times = np.geomspace(square.size**-2.0, 0.04, 24)
        gaps = np.array([gap(time) for time in times.tolist()])
        if gaps[0] >= 0:
            return 0.0
        rising = np.flatnonzero((gaps[:-1] < 0) & (gaps[1:] >= 0))
        if rising.size == 0:
            return None
        return float(brentq(gap, times[rising[0]], times[rising[0] + 1]))
