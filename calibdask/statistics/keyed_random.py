"""Random draws that depend on a seed and the numbers of the rows, and on nothing else."""

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from calibdask.statistics.exact import Counts

# Multinomial counts are drawn for this many rows of a slice at a time.
_LEAF = 1024
_LEAVES_KEPT = 32


def philox_key(seed: int, *purpose: int) -> npt.NDArray[np.uint64]:
    """Key of the random numbers of rows or cells, different for each purpose."""
    return np.random.SeedSequence(seed, spawn_key=purpose).generate_state(2, np.uint32).astype(np.uint64)


def multinomial(seed: int, draws: int, rows: int, start: int, stop: int) -> Counts:
    """How often each of the rows ``start`` to before ``stop``, of ``rows``, is drawn; ``rows`` times with replacement.

    Returns (draws, stop - start), the same for any cut of the rows: first the number of draws of every leaf of 1024
    rows, then the rows within the leaf.
    """
    first, last = start // _LEAF, -(-stop // _LEAF)
    leaves = [_leaf(seed, draws, rows, leaf) for leaf in range(first, last)]
    if not leaves:
        return np.zeros((draws, 0), np.int64)
    counts = np.concatenate(leaves, axis=1)
    return counts[:, start - first * _LEAF : stop - first * _LEAF].astype(np.int64)


@lru_cache(maxsize=4)
def _leaf_totals(seed: int, draws: int, rows: int) -> Counts:
    """Draws of each leaf, (draws, leaves)."""
    sizes = np.minimum(_LEAF, rows - np.arange(0, rows, _LEAF))
    generator = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(rows, 0)))
    return generator.multinomial(rows, sizes / rows, draws)


@lru_cache(maxsize=_LEAVES_KEPT)
def _leaf(seed: int, draws: int, rows: int, leaf: int) -> npt.NDArray[np.uint16]:
    totals = _leaf_totals(seed, draws, rows)[:, leaf]
    size = min(_LEAF, rows - leaf * _LEAF)
    generator = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(rows, leaf + 1)))
    chosen = generator.integers(0, size, int(totals.sum()))
    drawn = np.repeat(np.arange(draws), totals) * size + chosen
    return np.bincount(drawn, minlength=draws * size).astype(np.uint16).reshape(draws, size)
