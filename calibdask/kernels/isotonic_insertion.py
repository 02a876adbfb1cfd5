"""Isotonic regression with one more row, for every place of that row at once."""

from calibdask.kernels.compiled import compiled, inlined


@inlined
def _turns_left(ax, ay, bx, by, cx, cy):
    """Whether the way from a over b to c turns left."""
    return (bx - ax) * (cy - by) > (by - ay) * (cx - bx)


@compiled
def slopes_with_a_hit(x, y, corners, rise, run):
    """Isotonic regression at a row of outcome 1 put to each point, as ``rise / run``, each (points,).

    ``x`` and ``y`` (points + 1,) are cumulative weights and outcomes, from 0 on; ``corners`` (points + 2, 2) is space.

    The value is a slope of the greatest convex minorant of the cumulative sums, all of which from the row on are moved
    by (1, 1); here those before it are moved by (-1, -1). Its edge at the row goes from a corner on the left to one on
    the right, and both only move right with the row: O(points) after Vovk, Petej & Fedorova (2015), algorithms 1 and 2.
    """
    points = x.size - 1
    top = -1
    for i in range(points, -2, -1):
        px, py = (x[i], y[i]) if i >= 0 else (-1.0, -1.0)
        while top >= 1 and not _turns_left(
            px, py, corners[top, 0], corners[top, 1], corners[top - 1, 0], corners[top - 1, 1]
        ):
            top -= 1
        top += 1
        corners[top, 0], corners[top, 1] = px, py
    for i in range(points):
        run[i] = corners[top - 1, 0] - corners[top, 0]
        rise[i] = corners[top - 1, 1] - corners[top, 1]
        px, py = x[i + 1] - 1.0, y[i + 1] - 1.0
        if (py - corners[top, 1]) * run[i] >= rise[i] * (px - corners[top, 0]):
            continue
        top -= 1
        while top >= 1 and not _turns_left(
            px, py, corners[top, 0], corners[top, 1], corners[top - 1, 0], corners[top - 1, 1]
        ):
            top -= 1
        top += 1
        corners[top, 0], corners[top, 1] = px, py
