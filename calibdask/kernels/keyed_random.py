"""Random numbers keyed by row and purpose: Philox 4x32-10 (Salmon et al. 2011), of a counter and a key."""

import numpy as np

from calibdask.kernels.compiled import compiled, inlined, unit

_WORD = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
# Rows at a time, whose words stay in the cache.
_AT_ONCE = 512


@inlined
def _philox(a, b, c, d, key, other):
    """Four words of 32 random bits for a counter of four words and a key of two."""
    for _ in range(10):
        low, high = np.uint64(0xD2511F53) * a, np.uint64(0xCD9E8D57) * c
        a, b, c, d = (high >> _HALF) ^ b ^ key, high & _WORD, (low >> _HALF) ^ d ^ other, low & _WORD
        key, other = (key + np.uint64(0x9E3779B9)) & _WORD, (other + np.uint64(0xBB67AE85)) & _WORD
    return a, b, c, d


@inlined
def philox_words(numbers, second, third, fourth, key, words):
    """Fill ``words`` (4, n or more) by `_philox` for counters that begin with ``numbers`` (n,).

    What numbers have above 32 bits is added to the ``second`` word. Round by round, so that the compiler makes vector
    instructions of it.
    """
    size = numbers.size
    a, b, c, d = words[0, :size], words[1, :size], words[2, :size], words[3, :size]
    for i in range(size):
        number = np.uint64(numbers[i])
        a[i], b[i] = number & _WORD, (number >> _HALF) + np.uint64(second)
        c[i], d[i] = np.uint64(third), np.uint64(fourth)
    one, other = key[0], key[1]
    for _ in range(10):
        for i in range(size):
            low, high = np.uint64(0xD2511F53) * a[i], np.uint64(0xCD9E8D57) * c[i]
            a[i], b[i] = (high >> _HALF) ^ b[i] ^ one, high & _WORD
            c[i], d[i] = (low >> _HALF) ^ d[i] ^ other, low & _WORD
        one, other = (one + np.uint64(0x9E3779B9)) & _WORD, (other + np.uint64(0xBB67AE85)) & _WORD


@inlined
def uniform(high, low):
    """A number from 0 to before 1 of 52 of the bits of two words, as vector instructions."""
    bits = (high << np.uint64(20)) | (low >> np.uint64(12)) | np.uint64(0x3FF0000000000000)
    return np.uint64(bits).view(np.float64) - 1.0


@inlined
def _bits(number, stream, key):
    """64 random bits for a number and a stream (both not negative)."""
    number, stream = np.uint64(number), np.uint64(stream)
    a, b, _, _ = _philox(number & _WORD, number >> _HALF, stream & _WORD, stream >> _HALF, key[0], key[1])
    return (a << _HALF) | b


@compiled
def priorities(numbers, key, out):
    """Fill ``out`` (n,) int64 with a random number from 0 on for each row number; ``key`` (2,) of 32 bits each."""
    for i in range(numbers.size):
        out[i] = np.int64(_bits(numbers[i], 0, key) >> np.uint64(1))


@compiled
def drawn_labels(scores, vector, numbers, stream, key, labels):
    """Fill ``labels`` (n,) with classes drawn with the probabilities ``scores`` (n, K), or (n, 1) for a ``vector``.

    Probabilities are relative to the sum of the row; NaN counts as 0.
    """
    classes = scores.shape[1]
    for i in range(scores.shape[0]):
        u = np.float64(_bits(numbers[i], stream, key) >> np.uint64(11)) * 2.0**-53
        if vector:
            labels[i] = u < unit(scores[i, 0])
            continue
        total = 0.0
        for c in range(classes):
            total += unit(scores[i, c])
        threshold = u * total
        reached = 0.0
        label = 0
        for c in range(classes):
            p = unit(scores[i, c])
            if p > 0.0:
                # The last class of positive probability, should rounding leave the threshold above all of them.
                label = c
                reached += p
                if threshold < reached:
                    break
        labels[i] = label


@compiled
def poisson_counts(numbers, thresholds, key, counts):
    """Fill ``counts`` (replicates, n) with draws for each row number.

    A draw is how many of the increasing ``thresholds`` (at least four), values of the distribution function in units
    of 2**-32, do not exceed a uniform; four replicates share the bits of one counter.
    """
    words = np.empty((4, _AT_ONCE), np.uint64)
    for start in range(0, numbers.size, _AT_ONCE):
        some = numbers[start : start + _AT_ONCE]
        for first in range(0, counts.shape[0], 4):
            philox_words(some, 0, first, 0, key, words)
            few = counts[first : first + 4, start : start + _AT_ONCE]
            for j in range(few.shape[0]):
                _exceeded(words[j], thresholds, few[j])


@inlined
def _exceeded(bits, thresholds, counts):
    """Fill ``counts`` (n,) with how many of the increasing thresholds do not exceed the bits."""
    largest = np.int64(0)
    for i in range(counts.size):
        count = np.int64(bits[i] >= thresholds[0]) + np.int64(bits[i] >= thresholds[1])
        count += np.int64(bits[i] >= thresholds[2]) + np.int64(bits[i] >= thresholds[3])
        counts[i] = count
        largest = max(largest, count)
    # Few draws get past the first four: these are looked at one by one, so that the others are vector instructions.
    if largest == 4:
        for i in range(counts.size):
            for k in range(4, thresholds.size if counts[i] == 4 else 4):
                counts[i] += bits[i] >= thresholds[k]
