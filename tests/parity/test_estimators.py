"""Every estimator of the catalogue: the same for any chunks, as one slice of several, one model of several, alone."""

import copy
import itertools
import pickle
from typing import Any

import dask.array as da
import numpy as np
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st

import calibdask as cd
from tests import strategies
from tests.catalogue import ENTRIES, ESTIMATORS, WEIGHTED, depends_on_place
from tests.equality import same_results
from tests.estimators.kernel_data import drawn
from tests.strategies import DEGENERATE

pytestmark = DEGENERATE
ROWS = 41


def close(actual: xr.DataArray, expected: xr.DataArray, name: str) -> None:
    """Sums may be rounded in another order where the shapes of arrays are others."""
    np.testing.assert_allclose(actual.values, expected.values, rtol=1e-9, atol=1e-12, err_msg=name)


@settings(max_examples=4, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    strategies.chunks(ROWS),
    strategies.chunks(ROWS),
    st.sampled_from([np.float32, np.float64]),
)
def test_chunks_make_no_difference(
    seed: int, label_chunks: tuple[int, ...], score_chunks: tuple[int, ...], dtype: Any
) -> None:
    labels, scores = drawn("smooth", ROWS, 3, dtype, seed)
    lazy = da.from_array(labels, chunks=(label_chunks,)), da.from_array(scores, chunks=(score_chunks, 2))
    same_results(cd.evaluate(*lazy, ESTIMATORS), cd.evaluate(labels, scores, ESTIMATORS), weighted=False)


@settings(max_examples=2, deadline=None)
@given(strategies.chunks(ROWS), st.booleans())
def test_chunks_make_no_difference_to_slices_of_several_models(chunks: tuple[int, ...], sliced: bool) -> None:
    batch = np.stack([drawn("smooth", ROWS, seed=seed)[1] for seed in (1, 2)])
    labels = np.random.default_rng(5).integers(0, 3, (2, ROWS))
    by = {"g": np.arange(ROWS) % 2} if sliced else None
    lazy = da.from_array(labels, chunks=(2, chunks)), da.from_array(batch, chunks=(1, chunks, 3))
    same_results(cd.evaluate(*lazy, ESTIMATORS, by=by), cd.evaluate(labels, batch, ESTIMATORS, by=by), weighted=False)


@settings(max_examples=3, deadline=None)
@given(strategies.chunks(ROWS))
def test_chunks_of_weighted_rows_make_hardly_a_difference(chunks: tuple[int, ...]) -> None:
    labels, scores = drawn("smooth", ROWS)
    weights = np.random.default_rng(9).random(ROWS)
    metrics = {name: ESTIMATORS[name] for name in WEIGHTED}
    whole = cd.evaluate(labels, scores, metrics, sample_weight=weights)
    lazy = da.from_array(labels, chunks=(chunks,)), da.from_array(scores, chunks=(chunks, 3))
    pieces = cd.evaluate(*lazy, metrics, sample_weight=da.from_array(weights, chunks=(chunks,)))
    for name in map(str, whole.data_vars):
        close(pieces[name], whole[name], name)


@pytest.mark.parametrize(
    ("sizes", "again"), [((1, 1, 1, 38), False), ((7, 2, 31, 1), True)], ids=["blocks", "blocks of a function"]
)
def test_iterables_of_blocks(sizes: tuple[int, ...], again: bool) -> None:
    labels, scores = drawn("smooth", ROWS)
    borders = list(itertools.pairwise([0, *itertools.accumulate(sizes)]))
    blocks = [(labels[a:b], scores[a:b]) for a, b in borders]
    whole = cd.evaluate(labels, scores, ESTIMATORS)
    source: Any = (lambda: iter(blocks)) if again else blocks
    same_results(cd.evaluate(source, metrics=ESTIMATORS), whole, weighted=False)


@pytest.mark.parametrize("weighted", [False, True])
def test_slices_equal_separate_evaluations(weighted: bool) -> None:
    labels, scores = drawn("smooth", 90)
    rng = np.random.default_rng(5)
    group, weights = rng.integers(0, 3, 90), rng.random(90) if weighted else np.ones(90)
    metrics = {name: ESTIMATORS[name] for name in WEIGHTED} if weighted else ESTIMATORS
    options = [{"sample_weight": weights[group == g]} if weighted else {} for g in range(3)]
    sliced = cd.evaluate(labels, scores, metrics, by={"g": group}, sample_weight=weights if weighted else None)
    for g in range(3):
        alone = cd.evaluate(labels[group == g], scores[group == g], metrics, **options[g])
        for name in map(str, alone.data_vars):
            if not depends_on_place(name):
                close(sliced[name].sel(g=g), alone[name], name)


@pytest.mark.parametrize("own_labels", [True, False])
def test_models_equal_separate_evaluations(own_labels: bool) -> None:
    batch = np.stack([drawn("smooth", ROWS, seed=seed)[1] for seed in range(2)]).reshape(2, 1, ROWS, 3)
    labels = np.random.default_rng(5).integers(0, 3, (2, 1, ROWS) if own_labels else ROWS)
    together = cd.evaluate(labels, batch, ESTIMATORS)
    for at in ((0, 0), (1, 0)):
        alone = cd.evaluate(labels[at] if own_labels else labels, batch[at], ESTIMATORS)
        for name in map(str, alone.data_vars):
            if not depends_on_place(name):
                close(together[name].isel(dim_0=at[0], dim_1=at[1]), alone[name], name)


def test_alone_and_together_are_the_same() -> None:
    labels, scores = drawn("smooth", ROWS)
    together = cd.evaluate(labels, scores, ESTIMATORS)
    for name, estimator in ESTIMATORS.items():
        alone = cd.evaluate(labels, scores, {name: estimator})
        for variable in alone.data_vars:
            np.testing.assert_array_equal(alone[variable].values, together[variable].values, err_msg=str(variable))


def test_a_summary_holds_what_the_catalogue_says() -> None:
    labels, scores = drawn("smooth", 200)
    summary = cd.summarize(labels, scores)
    known = {name: entry.estimator for name, entry in ENTRIES.items() if entry.summary}
    actual, expected = cd.evaluate(summary, metrics=known), cd.evaluate(labels, scores, known)
    untold = {f"{name}_{part}" for name, entry in ENTRIES.items() for part in entry.untold}
    for name in expected.data_vars:
        if name in untold:
            assert np.isnan(actual[name]).all(), name
        else:
            np.testing.assert_allclose(actual[name], expected[name], atol=5e-3, err_msg=str(name))
    for name in ENTRIES.keys() - known:
        with pytest.raises(ValueError, match=r"[Hh]istogram|cells|summary"):
            cd.evaluate(summary, metrics={name: ESTIMATORS[name]})


def test_weights_are_taken_or_refused() -> None:
    labels, scores = drawn("smooth", ROWS)
    for name in ENTRIES.keys() - set(WEIGHTED):
        with pytest.raises(ValueError, match="sample_weight"):
            cd.evaluate(labels, scores, {name: ESTIMATORS[name]}, sample_weight=np.ones(ROWS))


def test_rows_without_weight_are_absent_and_units_of_weight_do_not_matter() -> None:
    labels, scores = drawn("smooth", 200)
    weights = np.where(np.arange(200) % 3 == 0, 0.0, np.random.default_rng(3).random(200) + 0.1)
    kept = weights > 0
    metrics = {name: ESTIMATORS[name] for name in WEIGHTED}
    expected = cd.evaluate(labels[kept], scores[kept], metrics, sample_weight=weights[kept])
    with_zeros = cd.evaluate(labels, scores, metrics, sample_weight=weights)
    scaled = cd.evaluate(labels[kept], scores[kept], metrics, sample_weight=37.5 * weights[kept])
    for name in map(str, expected.data_vars):
        if not depends_on_place(name):
            # Weights of a diagram's bins, and sums of outcomes and scores, are in the units of those of the rows.
            in_units = name.endswith(("_weight", "observed_expected_observed", "observed_expected_expected"))
            for actual in (with_zeros,) if in_units else (with_zeros, scaled):
                np.testing.assert_allclose(actual[name], expected[name], rtol=1e-8, atol=1e-12, err_msg=name)


def test_estimators_are_values() -> None:
    for name, estimator in ESTIMATORS.items():
        for other in (pickle.loads(pickle.dumps(estimator)), copy.deepcopy(estimator)):
            assert other == estimator, name
            assert hash(other) == hash(estimator), name
        with pytest.raises(AttributeError):
            estimator.seed = 4
