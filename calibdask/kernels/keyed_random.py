"""Random numbers keyed by row and purpose: Philox 4x32-10 (Salmon et al. 2011), of a counter and a key."""

import numpy as np

from calibdask.kernels.compiled import compiled, inlined, unit

_WORD = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)


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
    """Fill ``words`` (4, n or more) with those of `_philox` for counters that begin with ``numbers`` (n,).

    Round by round, so that the compiler makes vector instructions of it.
    """
    size = numbers.size
    a, b, c, d = words[0, :size], words[1, :size], words[2, :size], words[3, :size]
    for i in range(size):
        a[i], b[i], c[i], d[i] = np.uint64(numbers[i]), np.uint64(second), np.uint64(third), np.uint64(fourth)
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


@inlined
def _exceeded(bits, thresholds):
    """How many of the increasing thresholds do not exceed the bits; few draws get past the first four."""
    count = np.int64(bits >= thresholds[0]) + np.int64(bits >= thresholds[1])
    count += np.int64(bits >= thresholds[2]) + np.int64(bits >= thresholds[3])
    if count == 4:
        while count < thresholds.size and bits >= thresholds[count]:
            count += 1
    return count


@compiled
def poisson_counts(numbers, thresholds, key, counts):
    """Fill ``counts`` (replicates, n) with draws for each row number.

    A draw is how many of the increasing ``thresholds`` (at least four), values of the distribution function in units
    of 2**-32, do not exceed a uniform; four replicates share the bits of one counter.
    """
    for first in range(0, counts.shape[0], 4):
        few = counts[first : first + 4]
        for i in range(numbers.size):
            number, stream = np.uint64(numbers[i]), np.uint64(first)
            words = _philox(number & _WORD, number >> _HALF, stream & _WORD, stream >> _HALF, key[0], key[1])
            for j in range(few.shape[0]):
                few[j, i] = _exceeded(words[j], thresholds)
