"""The laws of statistics of pairs, and of statistics that follow the order of rows."""

import itertools
from functools import reduce

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from calibdask.engine.rows import Rows, make_block
from calibdask.statistics.block import Block
from calibdask.statistics.keyed_random import multinomial
from calibdask.statistics.views.drawn_labels import DrawnLabels
from tests import strategies
from tests.catalogue import ordered_statistics, pair_statistics, target_reductions
from tests.equality import same_states


def cut(drawn: st.DataObject) -> tuple[strategies.Data, Block, list[Block]]:
    """Data as one block and as several."""
    data = drawn.draw(strategies.data())
    points = drawn.draw(strategies.cuts(data.rows))
    return data, data.block(), [data.block(a, b) for a, b in itertools.pairwise(points)]


@settings(max_examples=35, deadline=None)
@given(st.data())
def test_pieces_merge_into_the_whole(drawn: st.DataObject) -> None:
    data, whole, pieces = cut(drawn)
    for statistic in ordered_statistics(data.layout, data.rows_of_slices()):
        expected = statistic.from_block(whole)
        states = [statistic.from_block(piece) for piece in pieces]
        # Sums of weights, here also those of resampled rows, are floating.
        weighted = any(field.dtype == np.float64 for field in expected)
        same_states(reduce(statistic.merge, states), expected, weighted)
        same_states(reduce(lambda a, b, s=statistic: s.merge(b, a), states), expected, weighted)  # type: ignore[misc]
        empty = statistic.from_block(whole.part(0, 0))
        same_states(statistic.merge(expected, empty), expected, weighted)


@settings(max_examples=35, deadline=None)
@given(st.data())
def test_blocks_and_their_pairs_merge_into_the_whole(drawn: st.DataObject) -> None:
    data, whole, pieces = cut(drawn)
    for statistic in pair_statistics(data.layout, data.rows_of_slices()):
        expected = statistic.from_block(whole)
        states = [statistic.from_block(piece) for piece in pieces]
        states += [statistic.from_pair(a, b) for a, b in itertools.combinations(pieces, 2)]
        same_states(reduce(statistic.merge, states), expected, data.layout.weighted)
        same_states(reduce(statistic.merge, states[::-1]), expected, data.layout.weighted)


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_rows_are_reduced_in_any_cut(drawn: st.DataObject) -> None:
    data, whole, pieces = cut(drawn)
    for statistic in target_reductions(data.layout):
        states = []
        for target in pieces:
            held = statistic.begin(target)
            for turn in range(statistic.rounds):
                for source in pieces:
                    held = statistic.fold(held, turn, target, source)
            states.append(statistic.finish(held, target))
        same_states(reduce(statistic.merge, states), statistic.from_block(whole), data.layout.weighted)


@given(st.integers(1, 4000), st.integers(1, 5), st.data())
def test_multinomial_counts_do_not_depend_on_cuts(rows: int, draws: int, drawn: st.DataObject) -> None:
    points = drawn.draw(strategies.cuts(rows))
    whole = multinomial(7, draws, rows, 0, rows)
    assert (whole.sum(axis=1) == rows).all()
    parts = [multinomial(7, draws, rows, a, b) for a, b in itertools.pairwise(points)]
    np.testing.assert_array_equal(np.concatenate(parts, axis=1), whole)


def test_multinomial_counts_are_multinomial() -> None:
    """Mean 1 and variance 1 - 1/n of every count, covariance -1/n: within 5 standard errors."""
    rows, draws = 1500, 20_000
    counts = multinomial(1, draws, rows, 0, rows)
    assert np.abs(counts.mean(axis=0) - 1).max() < 5 / np.sqrt(draws)
    assert abs(counts.var() - (1 - 1 / rows)) < 5 * np.sqrt(2 / counts.size)
    across = np.cov(counts[:, 0], counts[:, 1200])[0, 1]
    assert abs(across + 1 / rows) < 5 / np.sqrt(draws)


def test_drawn_labels_have_the_frequencies_of_the_scores() -> None:
    """10**5 draws of each row: frequencies within 5 standard errors of the scores, in a vector and a matrix."""
    scores = np.array([[0.2, 0.5, 0.3], [0.0, 0.0, 1.0], [0.9, 0.1, 0.0]])
    vector = scores[:, 1:2].copy()
    view, draws = DrawnLabels(100_000, 4), 100_000
    for given_scores in (scores, vector):
        layout = strategies.Layout(classes=3 if given_scores is scores else 2, vector=given_scores is vector)
        block = make_block(Rows(given_scores[None], np.zeros((1, 3), int)), layout, 0)
        labels = view.block(block).labels
        assert labels.shape == (draws, 3)
        columns = scores if given_scores is scores else np.concatenate([1 - vector, vector], axis=1)
        for c in range(columns.shape[1]):
            result, p = (labels == c).mean(axis=0), columns[:, c]
            assert (np.abs(result - p) <= 5 * np.sqrt(p * (1 - p) / draws)).all()
