"""Tiles of scores: eight rows as the lanes of vectors, class by class, (classes * lanes,).

Loops run over whole tiles, however few classes there are, and a row has the same numbers in any lane of any tile.
"""

from calibdask.kernels.compiled import add_fixed, inlined, unit
from calibdask.kernels.exponential import exp_64
from calibdask.kernels.logarithm import log_64
from calibdask.kernels.vectors import larger, load_column, load_short, minus, plus, smaller, store, times

LANES = 8


@inlined
def gather(scores, start, count, first, tile):
    """Copy scores of ``count`` rows and some classes, clipped to [0, 1]; lanes without a row get 1."""
    if count < LANES:
        tile[:] = 1.0
        for c in range(tile.size // LANES):
            for r in range(count):
                tile[c * LANES + r] = unit(scores[start + r, first + c])
        return
    tile[:LANES] = 1.0
    one = load_short(tile, 0)
    zero = minus(one, one)
    for c in range(tile.size // LANES):
        # NaN becomes 0, as by `unit`.
        store(smaller(larger(load_column(scores, start, first + c), zero), one), tile, c * LANES)


@inlined
def take_logarithms(values, smallest):
    """Replace numbers by their logarithms, clipped at the smallest one."""
    for e in range(values.size):
        values[e] = log_64(max(values[e], smallest))


@inlined
def subtract(tile, row):
    """Subtract one number of each lane."""
    less = load_short(row, 0)
    for e in range(0, tile.size, LANES):
        store(minus(load_short(tile, e), less), tile, e)


@inlined
def multiply(tile, row):
    """Multiply by one number of each lane."""
    factor = load_short(row, 0)
    for e in range(0, tile.size, LANES):
        store(times(load_short(tile, e), factor), tile, e)


@inlined
def find_largest(tile, row):
    """The largest number of each lane."""
    high = load_short(tile, 0)
    for e in range(LANES, tile.size, LANES):
        high = larger(high, load_short(tile, e))
    store(high, row, 0)


@inlined
def add_classes(tile, row):
    """The sum of each lane, in the order of the classes."""
    total = load_short(tile, 0)
    for e in range(LANES, tile.size, LANES):
        total = plus(total, load_short(tile, e))
    store(total, row, 0)


@inlined
def take_softmax(tile, high, over):
    """Replace numbers by their softmax; ``high`` gets the largest, ``over`` 1 / sum of exp(number - largest)."""
    find_largest(tile, high)
    subtract(tile, high)
    for e in range(tile.size):
        tile[e] = exp_64(tile[e])
    add_classes(tile, over)
    for r in range(LANES):
        over[r] = 1.0 / over[r]
    multiply(tile, over)


@inlined
def carry_lanes(parts, words):
    """Move integer sums (entries * lanes,) to words (entries, 2)."""
    for e in range(parts.size):
        add_fixed(parts[e], words[e // LANES])
        parts[e] = 0
