"""Replicates of a data set drawn from its histograms, without its rows."""

from typing import Any

import numpy as np

from calibdask.statistics.exact import Array
from calibdask.statistics.grid import UNIT, GridState

__all__ = ["resampled"]


def resampled(state: GridState, seed: int, replicates: range) -> GridState:
    """Replicates of a state along its first axis: number r * batch + b for batch element b.

    Rows drawn with replacement are one multinomial draw over (cell, outcome); positions within become the mean of the
    cell. With weights: a Poisson number of rows in each (cell, outcome), all of one weight, such that the mean and the
    variance of their total are those of a Poisson bootstrap of the rows.

    Random numbers are keyed by the seed and the coordinates (replicate, batch, group, column) alone, so they are the
    same for any chunking and any number of replicates at a time.
    """
    shape = (len(replicates), *state.mass.shape)
    count, rows = np.zeros(shape, state.mass.dtype), np.zeros((len(replicates), *state.rows.shape), np.int64)
    offset, square = np.zeros(shape), np.zeros((len(replicates), *state.square.shape))
    for place in np.ndindex(state.mass.shape[:3]):
        filled = np.nonzero(state.mass[place])
        mass = state.mass[place][filled]
        position = state.offset[place][filled] * (1.0 if state.offset.dtype == np.float64 else UNIT) / mass
        unit = state.square[place][filled] / mass if state.weighted else np.ones(mass.size)
        for number, replicate in enumerate(replicates):
            at = (number, *place)
            drawn = _draw(_generator(seed, (replicate, *place)), mass, unit, state.weighted)
            count[at][filled] = drawn * unit if state.weighted else drawn
            offset[at][filled] = drawn * unit * position
            if state.weighted:
                square[at][filled] = drawn * unit**2
                rows[at][filled] = drawn
    return GridState.of(
        lambda each: each.reshape(each.shape[0] * each.shape[1], *each.shape[2:]), (count, offset, square, rows)
    )


def _draw(generator: np.random.Generator, mass: Any, unit: Array, weighted: bool) -> Any:
    """Number of rows in each category."""
    if weighted:
        return generator.poisson(mass / unit)
    rows = int(mass.sum())
    return generator.multinomial(rows, mass / rows) if rows else mass


def _generator(seed: int, coordinates: tuple[int, ...]) -> np.random.Generator:
    """The random numbers that belong to these coordinates."""
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=coordinates)))
