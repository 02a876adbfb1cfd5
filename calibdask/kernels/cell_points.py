"""Mean scores and sums of the cells of histograms that hold rows."""

from calibdask.kernels.compiled import compiled


@compiled
def cell_points(mass, offset, unit, filled, edge, step, stratum, score, weight, outcome):
    """Fill the last four, (n,) each, for cells ``filled`` (n,): numbers in the histograms of all strata, increasing.

    ``mass`` and ``offset`` (strata * cells, 2), offsets in this ``unit``; the score at a position is
    ``edge + step * position``.
    """
    number, first = 0, 0
    for i in range(filled.size):
        at = filled[i]
        while at - first >= edge.size:
            number += 1
            first += edge.size
        total = mass[at, 0] + mass[at, 1]
        position = (offset[at, 0] * unit + offset[at, 1] * unit) / total
        mean = edge[at - first] + step[at - first] * position
        stratum[i], score[i], weight[i], outcome[i] = number, min(max(mean, 0.0), 1.0), total, mass[at, 1]
