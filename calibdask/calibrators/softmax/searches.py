"""Minimisation of convex functions as generators: they yield points and are sent evaluations there."""

from collections.abc import Callable, Generator
from typing import NamedTuple, TypeAlias

import numpy as np

from calibdask.statistics.exact import Array

# A step has to lower the value by this share of what the slope promises; rounding excuses the rest.
_SUFFICIENT, _ROUNDING = 1e-4, 1e-14
# Steps and their gradients that quasi-Newton steps remember.
_MEMORY = 20


class NewtonPoint(NamedTuple):
    """A function at a point: value, gradient, and what solves its Hessian, or an approximation of it."""

    value: float
    gradient: Array
    solve: Callable[[Array], Array]


class Minimum(NamedTuple):
    """A point, and whether it was found to the tolerance."""

    point: Array
    converged: bool


Search: TypeAlias = Generator[Array, NewtonPoint, Minimum]


def newton_search(start: Array, tolerance: float) -> Search:
    """Newton's method; the last step, which is shorter than the tolerance in the metric of the Hessian, is taken."""
    point, here = start, (yield start)
    while True:
        step = -here.solve(here.gradient)
        slope = float(here.gradient @ step)
        if -slope <= tolerance**2:
            return Minimum(point + step, True)
        moved = yield from _line_search(point, here, step, slope)
        if moved is None:
            return Minimum(point, False)
        point, here = moved


def quasi_newton_search(start: Array, tolerance: float) -> Search:
    """L-BFGS, with the approximate Hessian of the latest point in the place of a multiple of the identity."""
    point, here = start, (yield start)
    memory: list[tuple[Array, Array]] = []
    while True:
        newton = here.solve(here.gradient)
        if float(here.gradient @ newton) <= tolerance**2:
            return Minimum(point, True)
        step = -_two_loops(here, memory) if memory else -newton
        slope = float(here.gradient @ step)
        moved = yield from _line_search(point, here, step, slope)
        if moved is None:
            if not memory:
                return Minimum(point, False)
            memory = []
            continue
        difference = moved[0] - point, moved[1].gradient - here.gradient
        if difference[0] @ difference[1] > 0:
            memory = [*memory, difference][-_MEMORY:]
        point, here = moved


def _line_search(
    point: Array, here: NewtonPoint, step: Array, slope: float
) -> Generator[Array, NewtonPoint, tuple[Array, NewtonPoint] | None]:
    """The first point on the way that is low enough; None where there is none."""
    length = 1.0
    while length > 1e-10:
        trial = point + length * step
        there = yield trial
        least = _ROUNDING * max(1.0, abs(here.value))
        if there.value <= here.value + _SUFFICIENT * length * slope + least:
            return trial, there
        # The minimum of the parabola through value, slope and the new value, within limits.
        rise = there.value - here.value - length * slope
        shorter = -slope * length / (2 * rise) if np.isfinite(rise) else 0.0
        length *= min(max(shorter, 0.1), 0.5)
    return None


def _two_loops(here: NewtonPoint, memory: list[tuple[Array, Array]]) -> Array:
    """The inverse Hessian that the memory updates, applied to the gradient."""
    gradient, shares = here.gradient.copy(), []
    for step, change in reversed(memory):
        shares.append((step @ gradient) / (step @ change))
        gradient -= shares[-1] * change
    direction = here.solve(gradient)
    for (step, change), share in zip(memory, reversed(shares), strict=True):
        direction += step * (share - (change @ direction) / (step @ change))
    return direction
