"""Fewer combinations than a full product: for axes whose values do not interact in groups larger than two."""

import itertools
from collections.abc import Collection, Sequence
from typing import Any


def pairwise(*axes: Collection[Any]) -> list[tuple[Any, ...]]:
    """Combinations of one value of each axis, such that any two values of different axes occur together.

    Greedy: next is always the combination that has most of the pairs that are still missing. The order of the axes and
    of their values decides ties, so that the same tests are run everywhere.
    """
    places = list(itertools.product(*(range(len(axis)) for axis in axes)))

    def pairs(place: tuple[int, ...]) -> set[tuple[tuple[int, int], ...]]:
        return set(itertools.combinations(enumerate(place), 2))

    missing = set().union(*map(pairs, places))
    chosen = []
    while missing:
        best = max(places, key=lambda place: len(pairs(place) & missing))
        missing -= pairs(best)
        chosen.append(best)
    values: Sequence[Sequence[Any]] = [list(axis) for axis in axes]
    return [tuple(axis[i] for axis, i in zip(values, place, strict=True)) for place in chosen]


def rotated(rows: Collection[Any], columns: Collection[Any], each: int) -> list[tuple[Any, Any]]:
    """Each of the rows with the first column and with ``each`` others, in turn, so that all columns occur alike."""
    first, *others = columns
    turn = itertools.cycle(others)
    chosen = [(row, column) for row in rows for column in (first, *itertools.islice(turn, each))]
    unused = set(others) - {column for _, column in chosen}
    assert not unused, f"more columns per row are needed to cover {unused}"
    return chosen
