"""The same numbers from NumPy, blocks, Dask, xarray and data frames, whatever the chunks; bit for bit if unweighted."""

import itertools
from typing import Any

import dask
import dask.array as da
import numpy as np
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st

import calibdask as cd
from calibdask.estimators.estimator import Estimator
from tests import strategies
from tests.catalogue import ANY_ROWS, ESTIMATORS, WEIGHTED
from tests.equality import same_results
from tests.strategies import DEGENERATE, user_arrays

pytestmark = [*DEGENERATE, pytest.mark.filterwarnings("ignore:The bandwidth .* columns of scores:UserWarning")]
SOME = {
    name: ESTIMATORS[name] for name in ("ece", "ece_equal_mass", "brier_score", "smooth_ece", "reliability_diagram")
}


def chosen(drawn: st.DataObject, data: strategies.Data) -> dict[str, Estimator]:
    """Some of the estimators that take such data.

    Weighted sums are floating, so their last digit depends on the cuts. Where all scores of a bin are within 1e-9 of 1,
    the divergence between frequency and mean score magnifies that digit 1e9 times: no tolerance is fair to it here.
    """
    weighted = set(WEIGHTED) - {"log_loss_decomposition"}
    names = [name for name in ANY_ROWS if name in weighted or not data.layout.weighted]
    return {name: ESTIMATORS[name] for name in drawn.draw(st.permutations(names))[:9]}


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_dask_equals_numpy(drawn: st.DataObject) -> None:
    data = drawn.draw(strategies.data())
    labels, scores, options = user_arrays(data)
    if options["sample_weight"] is not None and not options["sample_weight"].any():
        return
    metrics = chosen(drawn, data)
    expected = cd.evaluate(labels, scores, metrics, **options)
    n = data.rows
    axis = scores.ndim - (1 if data.layout.vector else 2)
    score_chunks: list[Any] = [-1] * scores.ndim
    score_chunks[axis] = drawn.draw(strategies.chunks(n))
    if not data.layout.vector:
        score_chunks[-1] = drawn.draw(st.sampled_from([-1, 1, 2]))
    if axis:
        score_chunks[0] = drawn.draw(st.sampled_from([-1, 1]))
    label_chunks = (*([1] * (labels.ndim - 1)), drawn.draw(strategies.chunks(n)))
    lazy: dict[str, Any] = {
        k: v if v is None else da.from_array(v, chunks=(drawn.draw(strategies.chunks(n)),))
        for k, v in (("sample_weight", options["sample_weight"]),)
    }
    lazy["task"] = options["task"]
    if options["by"]:
        lazy["by"] = {"slice": da.from_array(data.group, chunks=(drawn.draw(strategies.chunks(n)),))}
    with dask.config.set(scheduler=drawn.draw(st.sampled_from(["threads", "sync"]))):
        actual = cd.evaluate(
            da.from_array(labels, chunks=label_chunks),
            da.from_array(scores, chunks=tuple(score_chunks)),
            metrics,
            **lazy,
        )
    same_results(actual, expected, data.layout.weighted)


@settings(max_examples=15, deadline=None)
@given(st.data())
def test_blocks_equal_numpy(drawn: st.DataObject) -> None:
    data = drawn.draw(strategies.data(max_batch=1))
    labels, scores, options = user_arrays(data)
    weights = options["sample_weight"]
    if weights is not None and not weights.any():
        return
    metrics = chosen(drawn, data)
    expected = cd.evaluate(labels, scores, metrics, sample_weight=weights)
    points = drawn.draw(strategies.cuts(data.rows))
    slices = [slice(a, b) for a, b in itertools.pairwise(points)]
    blocks = [(labels[s], scores[s], *(() if weights is None else (weights[s],))) for s in slices]
    same_results(cd.evaluate(blocks, metrics=metrics), expected, data.layout.weighted)
    same_results(cd.evaluate(lambda: iter(blocks), metrics=metrics), expected, data.layout.weighted)


@settings(max_examples=12, deadline=None)
@given(st.data())
def test_xarray_equals_numpy_and_keeps_dimensions(drawn: st.DataObject) -> None:
    data = drawn.draw(strategies.data(max_rows=30))
    labels, scores, options = user_arrays(data)
    if options["sample_weight"] is not None and not options["sample_weight"].any():
        return
    metrics = chosen(drawn, data)
    expected = cd.evaluate(labels, scores, metrics, **options)
    dims = ["model"] * (data.layout.batch > 1) + ["row"] + ["label"] * (not data.layout.vector)
    coords = {"model": [f"m{i}" for i in range(data.layout.batch)]} if data.layout.batch > 1 else {}
    prob = xr.DataArray(scores, dims=dims, coords=coords)
    true = xr.DataArray(labels, dims=["model", "row"][2 - labels.ndim :])
    order = drawn.draw(st.permutations(dims))
    actual = cd.evaluate(true, prob.transpose(*order), metrics, **options, sample_dim="row", class_dim="label")
    if data.layout.batch > 1:
        assert list(actual.model.values) == coords["model"]
        actual = actual.rename(model="dim_0").drop_vars("dim_0")
    if "label" in actual.dims:
        actual = actual.rename(label="class")
    same_results(actual, expected, data.layout.weighted)


def test_labels_may_have_the_extra_dimension_and_scores_not() -> None:
    rng = np.random.default_rng(0)
    prob = xr.DataArray(rng.dirichlet([1, 1, 1], 40), dims=["sample", "class"])
    true = xr.DataArray(rng.integers(0, 3, (4, 40)), dims=["annotator", "sample"])
    result = cd.evaluate(true, prob, cd.ECE())
    for i in range(4):
        assert float(result.ece[i]) == cd.ece(true[i].values, prob.values)


def test_unknown_chunk_sizes() -> None:
    rng = np.random.default_rng(2)
    scores, labels = rng.dirichlet([1, 1, 1], 90), rng.integers(0, 3, 90)
    keep = rng.random(90) < 0.7
    mask = da.from_array(keep, chunks=20)
    lazy_scores = da.from_array(scores, chunks=(20, 2))[mask]
    lazy_labels = da.from_array(labels, chunks=20)[mask]
    assert np.isnan(lazy_scores.shape[0])
    same_results(cd.evaluate(lazy_labels, lazy_scores, SOME), cd.evaluate(labels[keep], scores[keep], SOME), False)


def test_unknown_chunk_sizes_that_cannot_be_aligned() -> None:
    scores = da.from_array(np.full(9, 0.5), chunks=3)
    mask = da.from_array(np.ones(9, bool), chunks=3)
    with pytest.raises(ValueError, match=r"compute_chunk_sizes"):
        cd.evaluate(da.from_array(np.zeros(9, int), chunks=9), scores[mask])
    with pytest.raises(ValueError, match=r"equally many rows.*y_prob has 2 and y_true 3"):
        cd.evaluate(da.from_array(np.zeros(9, int), chunks=3), scores[da.from_array(np.arange(9) != 0, chunks=3)])


def test_float16_and_other_types() -> None:
    rng = np.random.default_rng(4)
    scores = (rng.integers(0, 257, 300) / 256).astype(np.float16)
    labels = rng.integers(0, 2, 300)
    expected = cd.evaluate(labels, scores.astype(np.float32), SOME)
    for dtype in (bool, np.int8, np.uint16, np.uint64, np.float32, np.float64):
        same_results(cd.evaluate(labels.astype(dtype), scores, SOME), expected, False)
    same_results(cd.evaluate(labels, np.asfortranarray(scores[::-1])[::-1], SOME), expected, False)
    assert cd.ece([0, 1, True], [0, 1, 1]) == 0.0


def test_large_arrays_are_evaluated_in_pieces_with_the_same_result(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("calibdask.engine.sources.memory._PIECE_SCORES", 1 << 15)
    rng = np.random.default_rng(5)
    scores = rng.beta(0.4, 0.8, 100_000)
    labels = rng.random(100_000) < scores
    metrics = {name: ESTIMATORS[name] for name in ("ece", "ece_equal_mass", "brier_score", "log_loss", "ece_convex")}
    lazy = cd.evaluate(da.from_array(labels, chunks=61_234), da.from_array(scores, chunks=61_234), metrics)
    same_results(cd.evaluate(labels, scores, metrics), lazy, False)
