"""Mean scores and sums of the cells of histograms that hold rows."""

from calibdask.kernels.compiled import compiled


@compiled
def cell_points(mass, offset, unit, edge, step, score, weight, outcome):
    """Fill the last three, (n,) each, for n cells that hold rows.

    ``mass`` and ``offset`` (n, 2) by outcome, offsets in this ``unit``; the score at a position is
    ``edge + step * position``.
    """
    for i in range(edge.size):
        total = mass[i, 0] + mass[i, 1]
        position = (offset[i, 0] * unit + offset[i, 1] * unit) / total
        mean = edge[i] + step[i] * position
        score[i], weight[i], outcome[i] = min(max(mean, 0.0), 1.0), total, mass[i, 1]
