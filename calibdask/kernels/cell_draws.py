"""Numbers of rows drawn for the cells of a histogram, by random numbers keyed by cell, replicate and stage.

A law of counts, Poisson or binomial, is a column of a table. From a mean of 10 on, counts are drawn by transformed
rejection (Hormann 1993, PTRS and BTRS): of u and v uniform on [0, 1) the count is

    floor((2 steep / e + width) (u - 1/2) + centre),   e = 1/2 - |u - 1/2|,

accepted if e >= 0.07 and v <= quick, or if log(v / (steep / e**2 + width)) is at most the logarithm of its probability,
slope * count - log(count! (most - count)!) + shift. Counts of smaller means, where ``quick`` is -1, are drawn by
inversion: the chance of 0 is ``none``, that of k is rate / k - falling times that of k - 1.
"""

import math

import numpy as np

from calibdask.kernels.compiled import compiled, inlined
from calibdask.kernels.keyed_random import philox_words, uniform

# Rows of the table: steep, width, centre, quick, slope, shift, most, none, falling, rate.
FIELDS = 10
# Smaller means are drawn by inversion.
_FEW = 10.0
# Cells at a time: what belongs to them stays in the cache.
_TILE = 256
# Chances beyond the mean that are smaller do not show in uniform numbers.
_NO_CHANCE = 2.0**-60


@compiled
def poisson_laws(means, laws):
    """Fill ``laws`` (10, n) with constants of the Poisson sampler for positive ``means`` (n,)."""
    for i in range(means.size):
        mean, many = means[i], max(means[i], _FEW)
        width = 0.931 + 2.53 * math.sqrt(many)
        laws[0, i], laws[1, i] = -0.059 + 0.02483 * width, width
        laws[2, i], laws[3, i] = mean + 0.43, 0.9277 - 3.6224 / (width - 2.0)
        laws[4, i], laws[5, i] = math.log(many), -many - math.log(1.1239 + 1.1328 / (width - 3.4))
        laws[6, i] = np.inf
        laws[7, i], laws[8, i], laws[9, i] = math.exp(-mean), 0.0, mean
        if mean < _FEW:
            laws[2, i], laws[3, i] = mean, -1.0


@compiled
def binomial_laws(rows, chances, laws):
    """Fill ``laws`` (10, n) with constants of the binomial sampler for ``rows`` (n,) and ``chances`` (n,) <= 1/2."""
    for i in range(rows.size):
        most, chance = rows[i], chances[i]
        odds = chance / (1.0 - chance)
        laws[6, i] = most
        laws[8, i], laws[9, i] = odds, (most + 1.0) * odds
        if most * chance < _FEW:
            laws[:6, i] = 0.0
            laws[2, i], laws[3, i], laws[7, i] = most * chance, -1.0, math.exp(most * math.log1p(-chance))
            continue
        spread = math.sqrt(most * chance * (1.0 - chance))
        width = 1.15 + 2.53 * spread
        laws[0, i], laws[1, i] = -0.0873 + 0.0248 * width + 0.01 * chance, width
        laws[2, i], laws[3, i] = most * chance + 0.5, 0.92 - 4.2 / width
        mode = math.floor((most + 1.0) * chance)
        highest = math.lgamma(mode + 1.0) + math.lgamma(most - mode + 1.0)
        laws[4, i] = math.log(odds)
        laws[5, i] = highest - mode * laws[4, i] - math.log((2.83 + 5.1 / width) * spread)
        laws[7, i] = 0.0


@inlined
def _by_inversion(u, mean, most, chance, falling, rate):
    """The count at ``u``, from the chance of 0; that of k is ``rate / k - falling`` times that of k - 1."""
    count = 0.0
    while u >= chance and count < most and (count < mean or chance > _NO_CHANCE):
        u -= chance
        count += 1.0
        chance *= rate / count - falling
    return count


@inlined
def _accepted(count, height, slope, shift, most):
    """Whether a count is accepted at this height by its probability."""
    if count < 0.0 or count > most:
        return False
    log_chance = slope * count - math.lgamma(count + 1.0) + shift
    if most < np.inf:
        log_chance -= math.lgamma(most - count + 1.0)
    return math.log(height) <= log_chance


@compiled
def draw_counts(laws, cells, first, stage, key, counts):
    """Fill ``counts`` (replicates, n) with draws from the ``laws`` (10, n) of cells with these numbers, below 2**32.

    ``first`` is the number of the first replicate. Cells whose count is rejected try again together, each with random
    numbers of its own.
    """
    words, numbers, where = np.empty((4, _TILE), np.uint64), np.empty(_TILE, np.int64), np.empty(_TILE, np.int64)
    u, v, drawn, settled = np.empty(_TILE), np.empty(_TILE), np.empty(_TILE), np.empty(_TILE, np.bool_)
    for begin in range(0, cells.size, _TILE):
        of = laws[:, begin : begin + _TILE].copy()
        steep, width, centre, quick, slope = of[0], of[1], of[2], of[3], of[4]
        shift, most, none, falling, rate = of[5], of[6], of[7], of[8], of[9]
        for r in range(len(counts)):
            here = counts[r, begin : begin + _TILE]
            waiting, attempt = here.size, 0
            for i in range(waiting):
                where[i], numbers[i] = i, cells[begin + i]
            while waiting:
                philox_words(numbers[:waiting], attempt, first + r, stage, key, words)
                for j in range(waiting):
                    i = where[j]
                    u[j], v[j] = uniform(words[0, j], words[1, j]), uniform(words[2, j], words[3, j])
                    end = 0.5 - abs(u[j] - 0.5)
                    drawn[j] = np.floor((2.0 * steep[i] / end + width[i]) * (u[j] - 0.5) + centre[i])
                    settled[j] = (end >= 0.07) & (v[j] <= quick[i])
                hard = 0
                for j in range(waiting):
                    i = where[j]
                    here[i] = np.int64(drawn[j])
                    where[hard], u[hard], v[hard], drawn[hard] = i, u[j], v[j], drawn[j]
                    hard += not settled[j]
                waiting = 0
                for j in range(hard):
                    i = where[j]
                    if quick[i] < 0.0:
                        here[i] = np.int64(_by_inversion(u[j], centre[i], most[i], none[i], falling[i], rate[i]))
                    else:
                        end = 0.5 - abs(u[j] - 0.5)
                        height = v[j] / (steep[i] / (end * end) + width[i])
                        where[waiting], numbers[waiting] = i, cells[begin + i]
                        waiting += not _accepted(drawn[j], height, slope[i], shift[i], most[i])
                attempt += 1


@compiled
def add_categorical_draws(draws, shares, guide, replicate, stage, key, counts):
    """Add this many draws of a category to ``counts`` (n,), by the cumulative ``shares`` (n,), the last of them 1.

    ``guide`` (n,): the first category with a cumulative share above 0, 1 / n, 2 / n, ... (Chen & Asau 1974).
    """
    words, numbers = np.empty((4, _TILE), np.uint64), np.empty(_TILE, np.int64)
    for begin in range(0, draws, _TILE):
        size = min(_TILE, draws - begin)
        for i in range(size):
            numbers[i] = begin + i
        philox_words(numbers[:size], 0, replicate, stage, key, words)
        for i in range(size):
            u = uniform(words[0, i], words[1, i])
            category = guide[np.int64(u * shares.size)]
            while shares[category] <= u:
                category += 1
            counts[category] += 1
