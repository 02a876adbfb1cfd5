"""p-values of the number of outcomes among rows with different probabilities."""

import numpy as np
import scipy

from calibdask.statistics.exact import Array


def at_least(events: Array, rows: Array, mean: Array, variance: Array) -> Array:
    """P(at least so many outcomes), for a sum of independent outcomes with this mean and variance.

    The binomial distribution with the same mean and variance stands for that of the sum, which is the same where all
    probabilities are equal. Beyond its largest number it is that of as many rows with the mean probability, whose tail
    is heavier (Hoeffding 1956).

    Examples
    --------
    >>> at_least(np.array([2.0]), np.array([2.0]), np.array([1.0]), np.array([0.5])).round(12).tolist()
    [0.25]
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        chance = np.clip(1 - variance / mean, 0.0, 1.0)
        trials = mean / chance
        # As many as there are trials, up to rounding, is the most that fits.
        fits = (events <= trials * (1 + 1e-9)) & (chance > 0)
        chance = np.where(fits, chance, np.clip(mean / rows, 0.0, 1.0))
        others = np.maximum(np.where(fits, trials, rows) - events, 0.0)
        tail = scipy.special.betainc(np.where(events > 0, events, 1.0), others + 1, chance)
    return np.where(events > rows, 0.0, np.where(events > 0, tail, 1.0))


def at_most(events: Array, rows: Array, mean: Array, variance: Array) -> Array:
    """P(at most so many outcomes), see `at_least`."""
    return np.asarray(1 - at_least(events + 1, rows, mean, variance))


def tails(events: Array, rows: Array, mean: Array, variance: Array) -> tuple[Array, Array]:
    """P(at least so many outcomes) and P(at most so many): the larger one by counts of outcomes or of rows without.

    Where some probabilities are near 0 and others near 1, the two distributions are skewed in opposite directions.

    Examples
    --------
    >>> [tail.round(12).tolist() for tail in tails(*(np.array([x]) for x in (2.0, 2.0, 1.0, 0.5)))]
    [[0.25], [1.0]]
    """
    counts, others = (events, rows, mean, variance), (rows - events, rows, rows - mean, variance)
    return np.maximum(at_least(*counts), at_most(*others)), np.maximum(at_most(*counts), at_least(*others))
