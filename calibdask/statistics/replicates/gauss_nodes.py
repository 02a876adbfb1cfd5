"""Gauss nodes: a few scores that reproduce the low moments of all scores of a bin."""

from typing import NamedTuple

import numpy as np

from calibdask.statistics.exact import Array, Counts

# Scores whose variance is below this count as one score: its root is below the rounding of positions in cells.
_EQUAL = 1e-27


class BinNodes(NamedTuple):
    """Weights and scores of the nodes of each bin, (bins, nodes); unused nodes have weight 0."""

    weight: Array
    score: Array


def gauss_nodes(weight: Array, score: Array, lengths: Counts, nodes: int) -> BinNodes:
    """Gauss rule of the scores of each bin, exact for powers up to 2 * nodes - 1.

    Bins follow each other, with ``lengths`` scores each, at least one; weights are not negative. Nodes lie between the
    smallest and the largest score of positive weight in their bin. Computed by the procedure of Stieltjes, whose sums
    have terms of one sign, and the eigenvalues of the Jacobi matrix.
    """
    starts = np.cumsum(lengths) - lengths

    def total(terms: Array) -> Array:
        return np.asarray(np.add.reduceat(terms, starts), np.float64)

    whole = norm = total(weight)
    matrix = np.zeros((lengths.size, nodes, nodes))
    before, polynomial = np.zeros_like(score), np.ones_like(score)
    terms, fall = weight, np.zeros(lengths.size)
    for k in range(nodes):
        centre = np.divide(total(terms * score), norm, out=np.zeros_like(norm), where=norm > 0)
        matrix[:, k, k] = centre
        if k == nodes - 1:
            break
        before, polynomial = (
            polynomial,
            (score - np.repeat(centre, lengths)) * polynomial - np.repeat(fall, lengths) * before,
        )
        terms = weight * polynomial * polynomial
        following = total(terms)
        fall = np.divide(following, norm, out=np.zeros_like(norm), where=norm > 0)
        fall[fall < _EQUAL] = 0.0
        norm = np.where(fall > 0, following, 0.0)
        matrix[:, k, k + 1] = matrix[:, k + 1, k] = np.sqrt(fall)
    values, vectors = np.linalg.eigh(matrix)
    return BinNodes(whole[:, None] * vectors[:, 0] ** 2, values)
