"""Kernel regression of labels on the simplex with Dirichlet kernels, at each target row."""

import math

import numpy as np

from calibdask.kernels.compiled import compiled, inlined, units
from calibdask.kernels.exponential import exp_64

_TILE = 256


@compiled
def normalisers(scores, bandwidth, out):
    """Fill ``out`` (n,) with the logarithm of the constant of Dirichlet(p / bandwidth + 1)."""
    for i in range(scores.shape[0]):
        total, logarithm = 0.0, 0.0
        for c in range(scores.shape[1]):
            alpha = scores[i, c] / bandwidth + 1.0
            total += alpha
            logarithm -= math.lgamma(alpha)
        out[i] = logarithm + math.lgamma(total)


@compiled
def logarithms(scores, bandwidth, out):
    """Fill ``out`` (K, n) with log(p) / bandwidth, classes first."""
    for i in range(scores.shape[0]):
        for c in range(scores.shape[1]):
            p = scores[i, c]
            out[c, i] = math.log(p) / bandwidth if p > 0.0 else -math.inf


@inlined
def _densities(row, constant, logs, begin, out):
    """Log densities at some targets of the Dirichlet kernel around one row."""
    out[:] = constant
    for c in range(row.size):
        p, here = row[c], logs[c, begin : begin + out.size]
        # 0 * log 0 is 0 here.
        if p > 0.0:
            for j in range(out.size):
                out[j] += p * here[j]


@compiled
def peaks(scores, numbers, constants, target_logs, target_numbers, out):
    """Raise ``out`` (targets,) to the largest log density that a row other than the target itself gives it."""
    for at in range(0, out.size, _TILE):
        near = np.empty(min(_TILE, out.size - at))
        for i in range(scores.shape[0]):
            _densities(scores[i], constants[i], target_logs, at, near)
            for j in range(near.size):
                if numbers[i] != target_numbers[at + j]:
                    out[at + j] = max(out[at + j], near[j])


@compiled
def shares(scores, labels, numbers, constants, target_logs, target_numbers, peak, out):
    """Add the densities of rows other than the target, relative to its peak, to ``out`` (K, targets) by label.

    int64 multiples of 2**-44, at most 1 each: room for 2**19 rows.
    """
    for at in range(0, peak.size, _TILE):
        near = np.empty(min(_TILE, peak.size - at))
        top = peak[at : at + near.size]
        for i in range(scores.shape[0]):
            _densities(scores[i], constants[i], target_logs, at, near)
            into = out[labels[i], at : at + near.size]
            for j in range(near.size):
                # The target itself may lie above the peak; it is taken away below.
                into[j] += units(exp_64(min(near[j] - top[j], 0.0)))
            for j in range(near.size):
                if numbers[i] == target_numbers[at + j]:
                    into[j] -= units(exp_64(min(near[j] - top[j], 0.0)))


@compiled
def weighted_shares(scores, labels, weights, numbers, constants, target_logs, target_numbers, peak, out):
    """Add the weighted densities of rows other than the target, relative to its peak, to ``out`` (K, targets)."""
    for at in range(0, peak.size, _TILE):
        near = np.empty(min(_TILE, peak.size - at))
        top = peak[at : at + near.size]
        for i in range(scores.shape[0]):
            _densities(scores[i], constants[i], target_logs, at, near)
            into = out[labels[i], at : at + near.size]
            for j in range(near.size):
                if numbers[i] != target_numbers[at + j]:
                    into[j] += weights[i] * exp_64(min(near[j] - top[j], 0.0))
