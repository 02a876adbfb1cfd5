"""The same numbers from NumPy, blocks, Dask, xarray and data frames, whatever the chunks; bit for bit if unweighted."""

import itertools
from typing import Any

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import calibdask as cd
from tests import strategies

# Where data are degenerate the estimators say so; that they do is tested by itself.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*columns of scores have:UserWarning"),
    pytest.mark.filterwarnings("ignore:The beta kernel gives no weight:UserWarning"),
]

METRICS = {
    "ece": cd.ECE(),
    "classwise": cd.ECE(bins=7, setting="classwise", closed="left"),
    "equal_mass": cd.ECE(bins=5, binning="equal-mass", setting="classwise"),
    "convex": cd.ECE(bins=4, mapping="convex"),
    "adaptive_convex": cd.ECE(bins=4, mapping="inverted", binning="equal-mass"),
    "sqrt": cd.ECE(bins="sqrt"),
    "top": cd.ECE(setting="top-k", k=2),
    "mce": cd.MCE(),
    "brier": cd.BrierScore(),
    "log": cd.LogLoss(),
    "parts": cd.BrierDecomposition(bins=6),
    "density": cd.DensityECE(bandwidth=0.05, setting="classwise"),
    "residual": cd.ResidualECE(bandwidth=0.03, kernel="gaussian"),
    "smooth": cd.SmoothECE(),
    "diagram": cd.ReliabilityDiagram(bins=6, binning="equal-mass"),
}


def equal(a: xr.Dataset, b: xr.Dataset, weighted: bool) -> None:
    """Same variables and values; passes and notes may differ."""
    a, b = a.drop_attrs(), b.drop_attrs()
    if weighted:
        xr.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-13)
    else:
        xr.testing.assert_identical(a, b)


def user_arrays(data: strategies.Data) -> tuple[NDArray[Any], NDArray[Any], dict[str, Any]]:
    """Arrays as a user would pass them: no axes of size 1."""
    scores = data.scores[..., 0] if data.layout.vector else data.scores
    scores = scores[0] if data.layout.batch == 1 else scores
    labels = data.labels[0] if data.labels.shape[0] == 1 else data.labels
    if scores.ndim > 1 and data.layout.vector and labels.ndim == 1:
        labels = np.broadcast_to(labels, scores.shape)
    options = {
        "sample_weight": None if data.weights is None else data.weights[0],
        "by": None if data.group is None else {"slice": data.group},
    }
    return labels, scores, options


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_dask_equals_numpy(drawn: st.DataObject) -> None:
    data = drawn.draw(strategies.data())
    labels, scores, options = user_arrays(data)
    if options["sample_weight"] is not None and not options["sample_weight"].any():
        return
    expected = cd.evaluate(labels, scores, METRICS, **options)
    n = data.rows
    axis = scores.ndim - (1 if data.layout.vector else 2)
    score_chunks: list[Any] = [-1] * scores.ndim
    score_chunks[axis] = drawn.draw(strategies.chunks(n))
    if not data.layout.vector:
        score_chunks[-1] = drawn.draw(st.sampled_from([-1, 1, 2]))
    if axis:
        score_chunks[0] = drawn.draw(st.sampled_from([-1, 1]))
    label_chunks = (*([1] * (labels.ndim - 1)), drawn.draw(strategies.chunks(n)))
    lazy = {
        k: v if v is None else da.from_array(v, chunks=(drawn.draw(strategies.chunks(n)),))
        for k, v in (("sample_weight", options["sample_weight"]),)
    }
    if options["by"]:
        lazy["by"] = {"slice": da.from_array(data.group, chunks=(drawn.draw(strategies.chunks(n)),))}
    with dask.config.set(scheduler=drawn.draw(st.sampled_from(["threads", "sync"]))):
        found = cd.evaluate(
            da.from_array(labels, chunks=label_chunks),
            da.from_array(scores, chunks=tuple(score_chunks)),
            METRICS,
            **lazy,
        )
    equal(found, expected, data.layout.weighted)


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_blocks_equal_numpy(drawn: st.DataObject) -> None:
    data = drawn.draw(strategies.data(max_batch=1))
    labels, scores, options = user_arrays(data)
    weights = options["sample_weight"]
    if weights is not None and not weights.any():
        return
    expected = cd.evaluate(labels, scores, METRICS, sample_weight=weights)
    points = drawn.draw(strategies.cuts(data.rows))
    slices = [slice(a, b) for a, b in itertools.pairwise(points)]
    blocks = [(labels[s], scores[s], *(() if weights is None else (weights[s],))) for s in slices]
    equal(cd.evaluate(blocks, metrics=METRICS), expected, data.layout.weighted)
    equal(cd.evaluate(lambda: iter(blocks), metrics=METRICS), expected, data.layout.weighted)


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_xarray_equals_numpy_and_keeps_dimensions(drawn: st.DataObject) -> None:
    data = drawn.draw(strategies.data(max_rows=30))
    labels, scores, options = user_arrays(data)
    if options["sample_weight"] is not None and not options["sample_weight"].any():
        return
    expected = cd.evaluate(labels, scores, METRICS, **options)
    dims = ["model"] * (data.layout.batch > 1) + ["row"] + ["label"] * (not data.layout.vector)
    coords = {"model": [f"m{i}" for i in range(data.layout.batch)]} if data.layout.batch > 1 else {}
    prob = xr.DataArray(scores, dims=dims, coords=coords)
    true = xr.DataArray(labels, dims=["model", "row"][2 - labels.ndim :])
    order = drawn.draw(st.permutations(dims))
    found = cd.evaluate(true, prob.transpose(*order), METRICS, **options, sample_dim="row", class_dim="label")
    if data.layout.batch > 1:
        assert list(found.model.values) == coords["model"]
        found = found.rename(model="dim_0").drop_vars("dim_0")
    if "label" in found.dims:
        found = found.rename(label="class")
    equal(found, expected, data.layout.weighted)


def test_labels_may_have_the_extra_dimension_and_scores_not() -> None:
    rng = np.random.default_rng(0)
    prob = xr.DataArray(rng.dirichlet([1, 1, 1], 40), dims=["sample", "class"])
    true = xr.DataArray(rng.integers(0, 3, (4, 40)), dims=["annotator", "sample"])
    found = cd.evaluate(true, prob, cd.ECE())
    for i in range(4):
        assert float(found.ece[i]) == cd.ece(true[i].values, prob.values)


def test_several_extra_dimensions() -> None:
    rng = np.random.default_rng(1)
    scores = rng.dirichlet([1, 1, 1], (2, 3, 40))
    labels = rng.integers(0, 3, 40)
    found = cd.ece(labels, scores)
    assert found.shape == (2, 3)
    assert float(found[1, 2]) == cd.ece(labels, scores[1, 2])


def test_unknown_chunk_sizes() -> None:
    rng = np.random.default_rng(2)
    scores, labels = rng.dirichlet([1, 1, 1], 90), rng.integers(0, 3, 90)
    keep = rng.random(90) < 0.7
    mask = da.from_array(keep, chunks=20)
    lazy_scores = da.from_array(scores, chunks=(20, 2))[mask]
    lazy_labels = da.from_array(labels, chunks=20)[mask]
    assert np.isnan(lazy_scores.shape[0])
    equal(cd.evaluate(lazy_labels, lazy_scores, METRICS), cd.evaluate(labels[keep], scores[keep], METRICS), False)


def test_unknown_chunk_sizes_that_cannot_be_aligned() -> None:
    scores = da.from_array(np.full(9, 0.5), chunks=3)
    mask = da.from_array(np.ones(9, bool), chunks=3)
    with pytest.raises(ValueError, match=r"compute_chunk_sizes"):
        cd.evaluate(da.from_array(np.zeros(9, int), chunks=9), scores[mask])
    with pytest.raises(ValueError, match=r"equally many rows.*y_prob has 2 and y_true 3"):
        cd.evaluate(da.from_array(np.zeros(9, int), chunks=3), scores[da.from_array(np.arange(9) != 0, chunks=3)])


@pytest.mark.parametrize("partitions", [1, 3, 8])
def test_data_frames(partitions: int) -> None:
    rng = np.random.default_rng(3)
    scores = rng.dirichlet([1, 1], 200).astype(np.float32)
    frame = pd.DataFrame({"no": scores[:, 0], "yes": scores[:, 1], "label": rng.integers(0, 2, 200)})
    frame["country"] = rng.choice(["se", "be", "pt"], 200)
    lazy = dd.from_pandas(frame, npartitions=partitions)
    for columns in ("yes", ["no", "yes"]):
        expected = cd.evaluate(
            frame["label"].to_numpy(), frame[columns].to_numpy(), METRICS, by={"country": frame.country}
        )
        pandas = cd.evaluate(frame["label"], frame[columns], METRICS, by=frame.country)
        dask_frame = cd.evaluate(lazy["label"], lazy[columns], METRICS, by=lazy.country)
        equal(dask_frame, pandas, False)
        equal(pandas.drop_vars("class", errors="ignore"), expected.drop_vars("class", errors="ignore"), False)
        assert list(pandas.country.values) == ["be", "pt", "se"]


def test_categories_keep_their_order() -> None:
    categories = pd.Categorical(["b", "a", "b", "a"] * 25, categories=["b", "a", "z"])
    frame = pd.DataFrame({"label": [0, 1] * 50, "score": np.linspace(0, 1, 100), "kind": categories})
    lazy = dd.from_pandas(frame, npartitions=3)
    pandas = cd.evaluate(frame["label"], frame["score"], cd.ECE(), by=frame["kind"])
    equal(cd.evaluate(lazy["label"], lazy["score"], cd.ECE(), by=lazy["kind"]), pandas, False)
    assert list(pandas.kind.values) == ["b", "a", "z"]
    assert np.isnan(pandas.ece[2])


def test_float16_and_other_types() -> None:
    rng = np.random.default_rng(4)
    scores = (rng.integers(0, 257, 300) / 256).astype(np.float16)
    labels = rng.integers(0, 2, 300)
    expected = cd.evaluate(labels, scores.astype(np.float32), METRICS)
    for dtype in (bool, np.int8, np.uint16, np.uint64, np.float32, np.float64):
        equal(cd.evaluate(labels.astype(dtype), scores, METRICS), expected, False)
    equal(cd.evaluate(labels, np.asfortranarray(scores[::-1])[::-1], METRICS), expected, False)
    assert cd.ece([0, 1, True], [0, 1, 1]) == 0.0


def test_large_arrays_are_evaluated_in_pieces_with_the_same_result() -> None:
    rng = np.random.default_rng(5)
    scores = rng.beta(0.4, 0.8, 5_000_000)
    labels = rng.random(5_000_000) < scores
    chosen = {name: METRICS[name] for name in ("ece", "equal_mass", "brier", "log", "convex")}
    lazy = cd.evaluate(da.from_array(labels, chunks=1_234_567), da.from_array(scores, chunks=1_234_567), chosen)
    equal(cd.evaluate(labels, scores, chosen), lazy, False)
