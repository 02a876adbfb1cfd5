"""Votes of a random forest on many rows at once: identical to those of scikit-learn, several times faster.

A leaf is a box: in each feature it takes the rows whose rank among the thresholds lies in an interval. So each feature
has a table that gives, for every rank, the set of leaves that are still possible, as bits; the row's leaf is the one
bit that the sets of all features share. No step depends on the outcome of another, as steps down a tree do.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numba
import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Integers = npt.NDArray[np.int64]

# A set of leaves is two words, and bit 0 of each is never set: an empty word hashes like it, and casts no vote.
_LEAVES_OF_A_WORD = 63
_LEAVES_OF_A_SET = 2 * _LEAVES_OF_A_WORD
# The upper six bits of this number times a power of two differ for all 64 powers (a de Bruijn sequence).
_DE_BRUIJN = np.uint64(0x03F79D71B4CB0A89)
_UPPER_SIX = np.uint64(58)
_ALL = ~np.uint64(0)
# Votes for a class are counted in one byte of a word.
_BITS_OF_A_CLASS = 8
_MOST_CLASSES, _MOST_TREES = 8, 255
_MOST_LINES = np.iinfo(np.uint16).max
# Rows whose ranks stay in the cache while all trees look at them.
_ROWS = 1 << 12

_compiled: Any = numba.njit(nogil=True, cache=True)


@dataclass(frozen=True)
class ForestScorer:
    """Tables of a forest. Build it with `ForestScorer.of`.

    Parameters
    ----------
    classes, trees : int
    thresholds : tuple of float32 arrays
        Those of all trees, increasing, by feature.
    positions : uint16 array (sets, ranks)
        The line of a set's table, for each rank in each feature, the ranks of features one after another.
    table : uint64 array (lines, 2)
        The leaves that are possible; the tables of all sets one after another.
    starts : int64 array (sets,)
        The first line of each set.
    votes : int64 array (sets, 2, 64)
        What the leaf adds to the counts, by its hashed bit.
    """

    classes: int
    trees: int
    thresholds: tuple[Floats, ...]
    positions: npt.NDArray[np.uint16]
    table: npt.NDArray[np.uint64]
    starts: Integers
    votes: Integers

    @classmethod
    def of(cls, model: Any) -> "ForestScorer | None":
        """Tables of a fitted RandomForestClassifier; None for mixed leaves, or too many trees or classes."""
        trees = [estimator.tree_ for estimator in model.estimators_]
        lines = max(tree.node_count for tree in trees) + model.n_features_in_
        fits = len(trees) <= _MOST_TREES and model.n_classes_ <= _MOST_CLASSES and lines <= _MOST_LINES
        if not fits or not all(_is_pure(tree) for tree in trees):
            return None
        features = range(model.n_features_in_)
        own = [_thresholds(tree, features) for tree in trees]
        together = tuple(np.unique(np.concatenate([thresholds[feature] for thresholds in own])) for feature in features)
        # What lies below each rank: nothing, or the threshold before.
        below = [np.concatenate([np.full(1, -np.inf, np.float32), thresholds]) for thresholds in together]
        sets = [part for tree, mine in zip(trees, own, strict=True) for part in _leaf_sets(tree, mine, below)]
        positions, tables, votes = zip(*sets, strict=True)
        starts = np.cumsum([0, *(len(table) for table in tables[:-1])])
        arrays = np.stack(positions), np.concatenate(tables), starts, np.stack(votes)
        return cls(model.n_classes_, len(trees), together, *arrays)

    def __call__(self, features: Floats) -> Floats:
        """Scores (rows, classes) of features (rows, d)."""
        counts = np.zeros(len(features), np.int64)
        first = np.cumsum([0, *(thresholds.size + 1 for thresholds in self.thresholds)])
        for start in range(0, len(features), _ROWS):
            here = slice(start, start + _ROWS)
            ranks = np.empty(features[here].shape, np.uint32)
            for feature, thresholds in enumerate(self.thresholds):
                values = np.ascontiguousarray(features[here, feature], np.float32)
                _rank(values, thresholds, first[feature], ranks[:, feature])
            _count(ranks, self.positions, self.table, self.starts, self.votes, counts[here])
        scores = np.empty((len(features), self.classes), np.float32)
        for column in range(self.classes):
            scores[:, column] = (counts >> (_BITS_OF_A_CLASS * column) & 255) / self.trees
        return scores


def _is_pure(tree: Any) -> bool:
    return bool((tree.value[tree.children_left < 0, 0].max(1) == 1).all())


def _rounded_down(numbers: npt.NDArray[np.float64]) -> Floats:
    """The largest float32 at most this value: a float32 does not exceed one iff it does not exceed the other."""
    near = numbers.astype(np.float32)
    return np.where(near > numbers, np.nextafter(near, np.float32(-np.inf)), near)


def _thresholds(tree: Any, features: Sequence[int]) -> list[Floats]:
    """The thresholds of a tree by feature, increasing."""
    return [np.unique(_rounded_down(tree.threshold[tree.feature == feature])) for feature in features]


def _boxes(tree: Any, thresholds: list[Floats]) -> tuple[Integers, Integers, Integers]:
    """The leaves of a tree, and the lowest and highest rank (leaves, d) of their rows in each feature.

    The rank is the number of thresholds below the row's value, so x <= t[j] where it is at most j.
    """
    low = np.zeros((tree.node_count, len(thresholds)), np.int64)
    high = np.tile([values.size for values in thresholds], (tree.node_count, 1))
    cuts, rounded = np.zeros(tree.node_count, np.int64), _rounded_down(tree.threshold)
    for feature, own in enumerate(thresholds):
        here = tree.feature == feature
        cuts[here] = np.searchsorted(own, rounded[here])
    _narrow(tree.children_left, tree.children_right, tree.feature, cuts, low, high)
    leaves = np.flatnonzero(tree.children_left < 0)
    return leaves, low[leaves], high[leaves]


def _leaf_sets(tree: Any, own: list[Floats], below: list[Floats]) -> list[tuple[Any, Any, Any]]:
    """Positions, table and votes for each 126 leaves of a tree."""
    leaves, low, high = _boxes(tree, own)
    first = np.cumsum([0, *(thresholds.size + 1 for thresholds in own)])
    # The rank among the tree's own thresholds, for each rank among all.
    features = zip(first[:-1], own, below, strict=True)
    positions = np.concatenate([start + np.searchsorted(mine, every, "right") for start, mine, every in features])
    sets = []
    for begin in range(0, leaves.size, _LEAVES_OF_A_SET):
        part = slice(begin, begin + _LEAVES_OF_A_SET)
        word, position = np.divmod(np.arange(leaves[part].size), _LEAVES_OF_A_WORD)
        bits = np.uint64(1) << (position + 1).astype(np.uint64)
        table = np.zeros((first[-1], 2), np.uint64)
        _set_bits(table, first[:-1] + low[part], first[:-1] + high[part], word, bits)
        votes = np.zeros((2, 64), np.int64)
        classes = tree.value[leaves[part], 0].argmax(1)
        votes[word, (bits * _DE_BRUIJN) >> _UPPER_SIX] = np.int64(1) << _BITS_OF_A_CLASS * classes
        sets.append((positions.astype(np.uint16), table, votes))
    return sets


@_compiled
def _narrow(lefts: Any, rights: Any, features: Any, cuts: Any, low: Any, high: Any) -> None:
    """Give each node the box of its parent, cut at the parent's threshold; children come after their parents."""
    for node in range(lefts.size):
        left, right, feature = lefts[node], rights[node], features[node]
        if left >= 0:
            low[left], low[right] = low[node], low[node]
            high[left], high[right] = high[node], high[node]
            high[left, feature], low[right, feature] = cuts[node], cuts[node] + 1


@_compiled
def _set_bits(table: Any, low: Any, high: Any, word: Any, bits: Any) -> None:
    """Set the bit of each leaf in the lines from low to high of every feature."""
    for leaf in range(word.size):
        for feature in range(low.shape[1]):
            for line in range(low[leaf, feature], high[leaf, feature] + 1):
                table[line, word[leaf]] |= bits[leaf]


@_compiled
def _rank(values: Any, thresholds: Any, first: Any, ranks: Any) -> None:
    """The number of thresholds below each value, plus ``first``: a binary search of all values step by step.

    Searching for one value after another, the compiler makes branches of the comparisons, nine times as slow.
    """
    counts = np.zeros(values.size, np.uint32)
    size = thresholds.size
    step = 1
    while 2 * step <= size:
        step *= 2
    # The first step leaves as many ranks as the other steps tell apart, counted from either end.
    jump = size + 1 - step
    while step > 0 and size > 0:
        wide, skip = np.uint32(step), np.uint32(jump)
        for i in range(values.size):
            at = np.uint32(counts[i] + wide)
            below = thresholds[np.uint32(at - np.uint32(1))] < values[i]
            counts[i] = np.uint32(counts[i] + skip) if below else counts[i]
        step //= 2
        jump = step
    for i in range(values.size):
        ranks[i] = counts[i] + first


@_compiled
def _count(ranks: Any, positions: Any, table: Any, starts: Any, votes: Any, counts: Any) -> None:
    """Add the votes of all sets of leaves to the counts."""
    rows, features = ranks.shape
    for part in range(starts.size):
        position, lines = positions[part], table[starts[part] :]
        first, second = votes[part, 0], votes[part, 1]
        for i in range(rows):
            row = ranks[i]
            a, b = _ALL, _ALL
            for feature in range(features):
                line = position[row[feature]]
                a &= lines[line, 0]
                b &= lines[line, 1]
            counts[i] += first[(a * _DE_BRUIJN) >> _UPPER_SIX] + second[(b * _DE_BRUIJN) >> _UPPER_SIX]
