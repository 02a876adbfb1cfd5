"""Sums for temperature scaling: means and variances of log scores under softmax(beta z)."""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from calibdask.kernels import temperature
from calibdask.kernels.tiles import LANES
from calibdask.statistics import exact
from calibdask.statistics.block import Block
from calibdask.statistics.exact import Array, Counts, Sums
from calibdask.statistics.statistic import SumStatistic

_STEPS = 1.0 + np.arange(temperature.IN_OCTAVE) / temperature.IN_OCTAVE
_OCTAVES = temperature.LOWEST * 2.0 ** np.arange(temperature.OCTAVES)
# The inverse temperatures at which sums are taken, 1/8 to 8, increasing.
NODES: Array = np.append(np.multiply.outer(_OCTAVES, _STEPS).ravel(), 2 * _OCTAVES[-1])
SHORTFALL_UNIT = temperature.LABEL_SCALE


class TemperatureState(NamedTuple):
    """Sums by (batch, group); the last two by (batch, group, node) of `NODES`.

    Rows; rows with a clipped score; w and w**2; w times the largest log score less that of the label, in units of
    `SHORTFALL_UNIT`; w times the mean of the largest less each log score under softmax(beta z), and w times the
    variance, in `units`.
    """

    rows: Counts
    clipped: Counts
    weight: Sums
    square: Sums
    shortfall: Sums
    means: Sums
    variances: Sums


@dataclass(frozen=True)
class TemperatureSums(SumStatistic[TemperatureState]):
    """Sums over rows of the derivatives of the logarithmic score in beta, at 25 values of it.

    With z the logarithms of the scores, clipped at the smallest normal number of their type, the score of a row is
    log sum_k exp(beta z_k) - beta z_y. Its first derivative is the mean of z under softmax(beta z) less z_y, its second
    one the variance.

    Notes
    -----
    beta times the mean of max(z) - z is at most the entropy, hence log K; beta**2 times the variance is at most
    log(K - 1)**2 / 4 + 1 [1]_. So terms scaled by these bounds are rounded to 2**-52, and their sums are exact.

    References
    ----------
    .. [1] Reeb & Wolf, Tight bound on relative entropy by entropy difference, 2015, on the variance of information.
    """

    counts = 2

    def from_block(self, block: Block) -> TemperatureState:
        """Sums of one block."""
        layout, nodes = block.layout, NODES.size
        scales = np.repeat(1.0 / units(layout.classes), LANES, axis=1)
        counts = np.zeros((layout.batch, 2, layout.groups), np.int64)
        weighted = block.weights is not None
        # Unweighted states have no sums of weights, which are counts.
        first = 2 if weighted else 0
        sums = exact.zeros((layout.batch, layout.groups, first + 1 + 2 * nodes), weighted=weighted)
        for b in range(layout.batch):
            rows = block.matrix_of(b), block.labels_of(b)
            options = (block.group, layout.smallest_normal, scales, counts[b], sums[b])
            if weighted:
                temperature.weighted_temperature_sums(*rows, block.weights_of(b), *options)
            else:
                temperature.temperature_sums(*rows, *options)
        count, clipped = counts[:, 0], counts[:, 1]
        weight = square = exact.from_counts(count)
        if weighted:
            weight, square = sums[:, :, 0], sums[:, :, 1]
        terms = sums[:, :, first:]
        return TemperatureState(
            count, clipped, weight, square, terms[:, :, 0], terms[:, :, 1 : 1 + nodes], terms[:, :, 1 + nodes :]
        )


def units(classes: int) -> Array:
    """The units of means and of variances, (2, nodes)."""
    information = 2.0 ** math.ceil(math.log2(max(math.log(classes), 1.0)))
    varentropy = 2.0 ** math.ceil(math.log2(math.log(max(classes - 1, 1)) ** 2 / 4 + 1))
    return np.stack([information / NODES, varentropy / NODES**2])
