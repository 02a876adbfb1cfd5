"""The law of every statistic: states of pieces merge into the state of the whole."""

import itertools
from functools import reduce

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from calibdask.statistics import exact
from calibdask.statistics.order.ranks import KeyCounts
from calibdask.statistics.settings import Setting
from tests import strategies
from tests.catalogue import statistics
from tests.equality import same_states


@settings(max_examples=90, deadline=None)
@given(st.data())
def test_pieces_merge_into_the_whole(drawn: st.DataObject) -> None:
    data = drawn.draw(strategies.data())
    points = drawn.draw(strategies.cuts(data.rows))
    pieces = [data.block(a, b) for a, b in itertools.pairwise(points)]
    # Statistics take turns: each sees a third of the examples.
    turn = drawn.draw(st.integers(0, 2))
    for statistic in statistics(data.layout)[turn::3]:
        whole = statistic.from_block(data.block())
        states = [statistic.from_block(piece) for piece in pieces]
        same_states(reduce(statistic.merge, states), whole, data.layout.weighted)
        same_states(reduce(lambda a, b: statistic.merge(b, a), states), whole, data.layout.weighted)


@settings(max_examples=20, deadline=None)
@given(strategies.data())
def test_empty_block_is_the_identity(data: strategies.Data) -> None:
    for statistic in statistics(data.layout):
        state = statistic.from_block(data.block())
        empty = statistic.from_block(data.block(0, 0))
        same_states(statistic.merge(state, empty), state, weighted=False)
        same_states(statistic.merge(empty, state), state, weighted=False)


@settings(max_examples=15, deadline=None)
@given(strategies.data())
def test_states_that_follow_from_others_are_those_of_the_rows(data: strategies.Data) -> None:
    listed = statistics(data.layout)
    states = [statistic.from_block(data.block()) for statistic in listed]
    for (larger, larger_state), (smaller, state) in itertools.permutations(zip(listed, states, strict=True), 2):
        if smaller.follows_from(larger):
            same_states(smaller.extracted_from(larger_state), state, data.layout.weighted)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_law_across_the_change_from_single_keys_to_cells(dtype: type) -> None:
    rng = np.random.default_rng(5)
    scores = rng.beta(0.3, 0.9, (1, 9000, 1)).astype(dtype)
    layout = strategies.Layout(dtype=np.dtype(dtype).name)
    data = strategies.Data(scores, rng.integers(0, 2, (1, 9000)), None, None, layout)
    statistic = KeyCounts(Setting("class", 1))
    whole = statistic.from_block(data.block())
    for points in ([0, 4000, 9000], [0, 100, 4095, 4200, 8999, 9000], list(range(0, 9001, 500))):
        states = [statistic.from_block(data.block(a, b)) for a, b in itertools.pairwise(points)]
        same_states(reduce(statistic.merge, states), whole, weighted=False)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=200))
def test_exact_sums_are_the_rounded_exact_sum(values: list[float]) -> None:
    from fractions import Fraction

    words = reduce(exact.add, [word(v) for v in values])
    total = sum((Fraction(v) for v in values), Fraction(0))
    kept = Fraction(int(words[0])) + Fraction(int(words[1]), 2**52)
    assert 0 <= words[1] < 2**52
    assert abs(kept - total) <= Fraction(len(values), 2**53)
    minus = exact.subtract(word(0.25), words)
    assert Fraction(int(minus[0])) + Fraction(int(minus[1]), 2**52) == Fraction(1, 4) - kept
    assert exact.value(minus) == float(Fraction(1, 4) - kept)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=50))
def test_pooled_sums_equal_sums_one_by_one(values: list[float]) -> None:
    words = np.stack([word(v) for v in values])
    np.testing.assert_array_equal(exact.pooled(words, 0), reduce(exact.add, words))


def word(value: float) -> NDArray[np.int64]:
    """A number in [0, 1] as words."""
    fraction = round(value * 2**52)
    return np.array([fraction >> 52, fraction & (2**52 - 1)], np.int64)
