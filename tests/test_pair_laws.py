"""The laws of statistics of pairs, and of statistics that follow the order of rows."""

import itertools
from functools import reduce
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from calibdask.engine.rows import Rows, make_block
from calibdask.statistics.block import Block
from calibdask.statistics.bootstrap import PairDraws
from calibdask.statistics.distinct import DistinctScores
from calibdask.statistics.drawn_labels import DrawnLabels
from calibdask.statistics.features import FeatureSums
from calibdask.statistics.frozen import FrozenArray
from calibdask.statistics.keyed_random import multinomial
from calibdask.statistics.lenses import Lens
from calibdask.statistics.locations import LocationSums
from calibdask.statistics.neighbours import NeighbourSums
from calibdask.statistics.pair_kernel import KernelTerm, PairKernel
from calibdask.statistics.pairs import PairStatistic, PairSums
from calibdask.statistics.row_terms import LogTerms, SpiegelhalterTerms
from calibdask.statistics.runs import PairRuns
from calibdask.statistics.sample import RowSample
from calibdask.statistics.scores import ScoreSums
from calibdask.statistics.settings import Setting
from calibdask.statistics.statistic import Statistic
from calibdask.statistics.views import seen_through
from tests import strategies
from tests.test_laws import same


def kernel(data: strategies.Data, rng: np.random.Generator) -> PairKernel:
    """A sum of kernels, one of them with a matrix."""
    root = rng.normal(size=(data.layout.classes, data.layout.classes))
    terms = (KernelTerm("exponential", "tv"), KernelTerm("gaussian", "euclidean", FrozenArray(root @ root.T)))
    return PairKernel(terms, FrozenArray(rng.uniform(0.1, 2.0, (2, data.layout.batch, data.layout.groups))))


def blocks(data: strategies.Data, points: list[int]) -> list[Block]:
    """Blocks that know the rows of each slice before them."""
    before = np.zeros(data.layout.groups, np.int64)
    made = []
    for start, stop in itertools.pairwise(points):
        rows = Rows(data.scores, data.labels, data.weights, data.group).part(start, stop)
        made.append(make_block(rows, data.layout, start, before))
        group = np.zeros(stop - start, np.int32) if data.group is None else data.group[start:stop]
        before = before + np.bincount(group, minlength=data.layout.groups)
    return made


def ordered(data: strategies.Data, k: PairKernel, rng: np.random.Generator) -> list[Statistic]:
    """Statistics of blocks one by one."""
    layout = data.layout
    made: list[Statistic] = [RowSample(7, 3), RowSample(1000, 3), FeatureSums(k, 5, 1)]
    made += [SpiegelhalterTerms(Setting("class", 1)), LogTerms(Setting("classwise"), layout.smallest)]
    made += [DistinctScores(setting) for setting in (Setting("class", 1), Setting("classwise"))]
    asking = seen_through(DrawnLabels(3, 5), iter_of(ScoreSums()))
    made.append(next(asking))
    if layout.classes > 2:
        made.append(next(seen_through(Lens.largest(2), iter_of(ScoreSums()))))
    if data.weights is None:
        places = rng.dirichlet(np.ones(layout.classes), (layout.batch, layout.groups, 3))
        labels = rng.integers(0, layout.classes, places.shape[:-1])
        made += [LocationSums(k, FrozenArray(places), FrozenArray(labels), each) for each in (True, False)]
        made += [PairRuns(k, 2), PairRuns(k, 5)]
        total = np.bincount(np.zeros(data.rows, int) if data.group is None else data.group, minlength=layout.groups)
        drawn = DrawnLabels(2, 5, FrozenArray(total))
        made.append(next(seen_through(drawn, iter_of(ScoreSums()))))
    return made


def iter_of(statistic: Statistic) -> Any:
    yield statistic


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_pieces_merge_into_the_whole(drawn: st.DataObject) -> None:
    data = drawn.draw(strategies.data())
    rng = np.random.default_rng(data.rows)
    points = drawn.draw(strategies.cuts(data.rows))
    (whole,), pieces = blocks(data, [0, data.rows]), blocks(data, points)
    for statistic in ordered(data, kernel(data, rng), rng):
        expected = statistic.from_block(whole)
        states = [statistic.from_block(piece) for piece in pieces]
        # Sums of weights, here also those of resampled rows, are floating.
        weighted = any(field.dtype == np.float64 for field in expected)
        same(reduce(statistic.merge, states), expected, weighted)
        same(reduce(lambda a, b, s=statistic: s.merge(b, a), states), expected, weighted)  # type: ignore[misc]
        empty = statistic.from_block(whole.part(0, 0))
        same(statistic.merge(expected, empty), expected, weighted)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_blocks_and_their_pairs_merge_into_the_whole(drawn: st.DataObject) -> None:
    data = drawn.draw(strategies.data())
    rng = np.random.default_rng(data.rows)
    points = drawn.draw(strategies.cuts(data.rows))
    (whole,), pieces = blocks(data, [0, data.rows]), blocks(data, points)
    k = kernel(data, rng)
    statistics: list[PairStatistic] = [PairSums(k)]
    if data.weights is None:
        total = np.bincount(np.zeros(data.rows, int) if data.group is None else data.group)
        rows = np.pad(total, (0, data.layout.groups - len(total)))
        statistics.append(PairDraws(k, FrozenArray(rows), 6, 2))
    for statistic in statistics:
        expected = statistic.from_block(whole)
        states = [statistic.from_block(piece) for piece in pieces]
        states += [statistic.from_pair(a, b) for a, b in itertools.combinations(pieces, 2)]
        same(reduce(statistic.merge, states), expected, data.layout.weighted)
        same(reduce(statistic.merge, states[::-1]), expected, data.layout.weighted)


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_rows_are_folded_in_any_cut(drawn: st.DataObject) -> None:
    data = drawn.draw(strategies.data())
    points = drawn.draw(strategies.cuts(data.rows))
    (whole,), pieces = blocks(data, [0, data.rows]), blocks(data, points)
    fold = NeighbourSums(FrozenArray(np.full((data.layout.batch, data.layout.groups), 0.1)), "tv")
    states = []
    for target in pieces:
        held = fold.begin(target)
        for turn in range(fold.rounds):
            for source in pieces:
                held = fold.fold(held, turn, target, source)
        states.append(fold.finish(held, target))
    same(reduce(fold.merge, states), fold.from_block(whole), data.layout.weighted)


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
            found, p = (labels == c).mean(axis=0), columns[:, c]
            assert (np.abs(found - p) <= 5 * np.sqrt(p * (1 - p) / draws)).all()
