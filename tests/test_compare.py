"""Differences of models on the same replicates, their p-values, the worst slices, and the kinds of intervals."""

import itertools
from pathlib import Path
from typing import Any

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from numpy.typing import NDArray
from scipy.stats import binom, kstest, norm, skew

import calibdask as cd
from tests import cost_reference as reference

Array = NDArray[np.float64]
ENDS = ("_difference", "_difference_low", "_difference_high", "_difference_pvalue")
ADJUSTED = ("_difference_pvalue_holm", "_difference_pvalue_bh")


def binary(n: int, seed: int) -> tuple[NDArray[np.int64], Array, Array, Array]:
    """Labels, the scores that made them, and those of two models that are further off."""
    rng = np.random.default_rng(seed)
    scores = rng.beta(2, 2, n)
    labels = (rng.random(n) < scores).astype(int)
    near = np.clip(scores + rng.normal(0, 0.05, n), 0, 1)
    return labels, scores, near, scores**2


def multiclass(n: int, seed: int, classes: int = 3) -> tuple[NDArray[np.int64], dict[str, Array]]:
    """Labels and three models."""
    rng = np.random.default_rng(seed)
    scores = rng.dirichlet(np.ones(classes), n)
    labels = np.array([rng.choice(classes, p=row) for row in scores])
    sharp = scores**2 / (scores**2).sum(1, keepdims=True)
    return labels, {"resnet": scores, "lenet": sharp, "vgg": (scores + rng.dirichlet(np.ones(classes), n)) / 2}


def replicates(labels: Any, scores: Any, metric: Any, counts: Array, **options: Any) -> Array:
    """Values of a metric where rows count as often as counts say."""
    weight = options.pop("sample_weight", 1.0)
    return np.stack(
        [cd.evaluate(labels, scores, {"m": metric}, sample_weight=c * weight, **options).m.values for c in counts]
    )


METRICS: dict[str, Any] = {
    "brier": cd.BrierScore(),
    "log": cd.LogLoss(),
    "ece": cd.ECE(bins=5),
    "cost": cd.ExcessCost(costs=[[0, 3.1, 1], [2, 0, 2.3], [0.7, 0.9, 0.8]], bins=3),
    "classwise_cost": cd.ExcessCost(costs=[[0, 3.1, 1], [2, 0, 2.3]], bins=4, calibration="classwise"),
    "multiclass": cd.MulticlassECE(bins=2),
}


def test_two_models() -> None:
    labels, _, near, square = binary(300, 1)
    result = cd.compare(labels, near, square, cd.BrierScore())
    assert set(result.data_vars) == {"brier_score"} | {f"brier_score{end}" for end in ENDS}
    assert result.brier_score.dims == ("model",)
    assert list(result.model.values) == ["a", "b"]
    assert all(result[f"brier_score{end}"].dims == () for end in ENDS)
    for name, scores in (("a", near), ("b", square)):
        assert result.brier_score.sel(model=name).item() == cd.evaluate(labels, scores, cd.BrierScore()).brier_score
    difference = result.brier_score.sel(model="b") - result.brier_score.sel(model="a")
    assert result.brier_score_difference.item() == pytest.approx(difference.item(), abs=1e-15)
    assert {"rows": 300, "ci": 0.95, "n_boot": 1000, "seed": 0, "baseline": "a"}.items() <= result.attrs.items()
    assert result.attrs["calibdask_version"] == cd.__version__
    assert result.attrs["passes"] >= 1


def test_interval_and_pvalue_of_a_vector_from_replicates() -> None:
    labels, _, near, square = binary(250, 2)
    counts = reference.poisson_counts(250, 400, 5)
    for baseline, challenger in ((near, square), (near, near[::-1])):
        errors = [(scores - labels) ** 2 for scores in (baseline, challenger)]
        means = [(counts * error).sum(1) / counts.sum(1) for error in errors]
        found = cd.compare(labels, baseline, challenger, {"b": cd.BrierScore()}, ci=0.8, n_boot=400, seed=5)
        ends = [float(found[f"b_difference_{end}"]) for end in ("low", "high")]
        np.testing.assert_allclose(ends, reference.percentile_ends(means[1] - means[0], 0.8), atol=1e-13)
        assert float(found.b_difference_pvalue) == pytest.approx(reference.pvalue(means[1] - means[0]), rel=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
def test_every_metric_is_compared_on_the_same_replicates(weighted: bool) -> None:
    """Of models by name; replicates are evaluations of rows with weights."""
    labels, models = multiclass(240, 3)
    weight = np.random.default_rng(4).gamma(2.0, 1.0, 240) if weighted else None
    options: dict[str, Any] = {"ci": 0.9, "n_boot": 60, "seed": 7}
    result = cd.compare(labels, models, metrics=METRICS, baseline="lenet", sample_weight=weight, **options)
    counts = reference.poisson_counts(240, 60, 7)
    assert result.attrs["baseline"] == "lenet"
    assert sorted(result.model.values) == ["lenet", "resnet", "vgg"]
    assert list(result.challenger.values) == ["resnet", "vgg"]
    alone = {name: cd.evaluate(labels, p, METRICS, sample_weight=weight) for name, p in models.items()}
    for metric, estimator in METRICS.items():
        for name in models:
            value = result[metric].sel(model=name)
            assert value == (pytest.approx(alone[name][metric].item(), rel=1e-12) if weighted else alone[name][metric])
        drawn = {
            name: replicates(labels, p, estimator, counts, sample_weight=1.0 if weight is None else weight)
            for name, p in models.items()
        }
        for name in ("resnet", "vgg"):
            one = result.sel(challenger=name)
            difference = alone[name][metric] - alone["lenet"][metric]
            assert float(one[f"{metric}_difference"]) == pytest.approx(float(difference), abs=1e-12), metric
            moves = drawn[name] - drawn["lenet"]
            ends = [float(one[f"{metric}_difference_{end}"]) for end in ("low", "high")]
            np.testing.assert_allclose(ends, reference.percentile_ends(moves, 0.9), atol=1e-11, err_msg=metric)
            # Excess costs of two models may be equal but for rounding; others are not.
            assert (np.abs(moves) > 1e-9).all(), metric
            assert float(one[f"{metric}_difference_pvalue"]) == pytest.approx(reference.pvalue(moves)), metric


def test_slices_are_compared_on_their_own_rows() -> None:
    labels, models = multiclass(400, 5)
    rng = np.random.default_rng(6)
    day, site = rng.integers(0, 2, 400), np.array(["x", "y"])[rng.integers(0, 2, 400)]
    by = {"day": day, "site": site}
    metrics = {name: METRICS[name] for name in ("brier", "ece", "cost")}
    result = cd.compare(labels, models, metrics=metrics, by=by, ci=0.9, n_boot=40, seed=1)
    counts = reference.poisson_counts(400, 40, 1)
    alone = {name: cd.evaluate(labels, p, metrics, by=by) for name, p in models.items()}
    for metric, estimator in metrics.items():
        assert set(result[metric].dims) == {"model", "day", "site"}
        drawn = {name: replicates(labels, p, estimator, counts, by=by) for name, p in models.items()}
        for name in models:
            np.testing.assert_array_equal(result[metric].sel(model=name).transpose("day", "site"), alone[name][metric])
        for end in (*ENDS, *ADJUSTED):
            assert set(result[f"{metric}{end}"].dims) == {"challenger", "day", "site"}, end
        pvalues = result[f"{metric}_difference_pvalue"]
        for name, d, s in itertools.product(("lenet", "vgg"), range(2), range(2)):
            one = result.sel(challenger=name).isel(day=d, site=s)
            moves = (drawn[name] - drawn["resnet"])[:, d, s]
            ends = [float(one[f"{metric}_difference_{end}"]) for end in ("low", "high")]
            np.testing.assert_allclose(ends, reference.percentile_ends(moves, 0.9), atol=1e-11, err_msg=metric)
            assert float(one[f"{metric}_difference_pvalue"]) == pytest.approx(reference.pvalue(moves)), metric
        np.testing.assert_allclose(result[f"{metric}_difference_pvalue_holm"], reference.holm(pvalues), rtol=1e-12)
        np.testing.assert_allclose(
            result[f"{metric}_difference_pvalue_bh"], reference.benjamini_hochberg(pvalues), rtol=1e-12
        )


def test_adjusted_pvalues_leave_empty_slices_out() -> None:
    labels, scores, _, _ = binary(600, 7)
    day = np.arange(600) % 6
    site = np.where(day == 5, "x", np.where(np.arange(600) % 4 < 2, "x", "y"))
    # Some slices are better, some worse, some the same, and (5, "y") is empty.
    off = np.array([0.0, 0.02, 0.05, 0.1, 0.2, 0.3])[day]
    other = np.clip(np.where(day == 0, scores, scores + off), 0, 1)
    result = cd.compare(
        labels, scores, other, {"m": cd.BrierScore()}, by={"day": day, "site": site}, n_boot=200, ci=0.9
    )
    pvalues = result.m_difference_pvalue
    assert pvalues.isnull().sum() == 1
    assert pvalues.sel(day=5, site="y").isnull()
    empty = result.sel(day=5, site="y")
    assert all(empty[f"m{end}"].isnull().all() for end in ("", *ENDS, *ADJUSTED))
    assert (pvalues.sel(day=0) == 1).all()
    assert len(np.unique(pvalues.values[~np.isnan(pvalues.values)])) > 3
    np.testing.assert_allclose(result.m_difference_pvalue_holm, reference.holm(pvalues), rtol=1e-12)
    np.testing.assert_allclose(result.m_difference_pvalue_bh, reference.benjamini_hochberg(pvalues), rtol=1e-12)


@pytest.mark.parametrize(("models", "sliced", "adjusted"), [(2, False, False), (3, False, True), (2, True, True)])
def test_pvalues_are_adjusted_where_there_are_several(models: int, sliced: bool, adjusted: bool) -> None:
    labels, *scores = binary(200, 8)
    chosen = dict(zip("pqr", scores[:models], strict=False))
    by = {"half": np.arange(200) % 2} if sliced else None
    result = cd.compare(labels, chosen, metrics=cd.BrierScore(), by=by, n_boot=20)
    names = {f"brier_score{end}" for end in ("", *ENDS, *(ADJUSTED if adjusted else ()))}
    assert set(result.data_vars) == names
    assert list(result.challenger.values) == list(chosen)[1:]
    assert result.attrs["baseline"] == "p"
    assert "challenger" in result.brier_score_difference.dims


def test_two_identical_models() -> None:
    labels, models = multiclass(150, 9)
    scores = models["vgg"]
    result = cd.compare(labels, scores, scores.copy(), METRICS, n_boot=50, by={"day": np.arange(150) % 2})
    for name in METRICS:
        for end in ("", "_low", "_high"):
            np.testing.assert_array_equal(result[f"{name}_difference{end}"], 0.0)
        for end in ("", "_holm", "_bh"):
            np.testing.assert_array_equal(result[f"{name}_difference_pvalue{end}"], 1.0)


def test_swapped_models_flip_signs() -> None:
    labels, models = multiclass(150, 10)
    one, other = models["resnet"], models["lenet"]
    there = cd.compare(labels, one, other, METRICS, n_boot=80)
    back = cd.compare(labels, other, one, METRICS, n_boot=80)
    for name in METRICS:
        assert float(there[f"{name}_difference"]) == -float(back[f"{name}_difference"])
        assert float(there[f"{name}_difference_low"]) == pytest.approx(
            -float(back[f"{name}_difference_high"]), abs=1e-14
        )
        assert float(there[f"{name}_difference_high"]) == pytest.approx(
            -float(back[f"{name}_difference_low"]), abs=1e-14
        )
        assert there[f"{name}_difference_pvalue"] == back[f"{name}_difference_pvalue"]


def test_two_arrays_are_two_names() -> None:
    labels, _, near, square = binary(200, 11)
    arrays = cd.compare(labels, near, square, cd.BrierScore(), n_boot=30)
    named = cd.compare(labels, {"a": near, "b": square}, metrics=cd.BrierScore(), n_boot=30)
    assert named.brier_score_difference.dims == ("challenger",)
    xr.testing.assert_identical(named.isel(challenger=0).drop_vars("challenger").drop_attrs(), arrays.drop_attrs())
    assert arrays.attrs["baseline"] == named.attrs["baseline"] == "a"


def test_a_challenger_does_not_depend_on_the_others() -> None:
    labels, models = multiclass(200, 12)
    every = cd.compare(labels, models, metrics=METRICS, n_boot=30)
    for name in ("lenet", "vgg"):
        pair = cd.compare(labels, models["resnet"], models[name], METRICS, n_boot=30)
        for metric, end in itertools.product(METRICS, ENDS):
            found = every[f"{metric}{end}"].sel(challenger=name)
            np.testing.assert_allclose(found, pair[f"{metric}{end}"], rtol=1e-12, atol=1e-14)


def test_seeds() -> None:
    labels, _, near, square = binary(200, 13)
    one, same, other = (cd.compare(labels, near, square, cd.BrierScore(), n_boot=50, seed=s) for s in (1, 1, 2))
    xr.testing.assert_identical(one, same)
    assert one.brier_score_difference == other.brier_score_difference
    assert one.brier_score_difference_low != other.brier_score_difference_low
    assert other.attrs["seed"] == 2


def test_weights_multiply_and_rows_without_are_absent() -> None:
    labels, _, near, square = binary(200, 14)
    weight = np.random.default_rng(15).gamma(2.0, 1.0, 200)
    weight[150:] = 0.0  # the last rows, so that the others keep their numbers
    options: dict[str, Any] = {"n_boot": 100, "ci": 0.9}
    result = cd.compare(labels, near, square, {"m": cd.BrierScore()}, sample_weight=weight, **options)
    kept = slice(150)
    fewer = cd.compare(
        labels[kept], near[kept], square[kept], {"m": cd.BrierScore()}, sample_weight=weight[kept], **options
    )
    xr.testing.assert_allclose(result.drop_attrs(), fewer.drop_attrs(), rtol=1e-12)
    constant = cd.compare(labels, near, square, {"m": cd.BrierScore()}, sample_weight=np.full(200, 3.0), **options)
    plain = cd.compare(labels, near, square, {"m": cd.BrierScore()}, **options)
    xr.testing.assert_allclose(constant.drop_attrs(), plain.drop_attrs(), rtol=1e-12)


def test_parts_that_are_not_estimated_have_no_difference() -> None:
    labels, scores, near, _ = binary(200, 16)
    metrics = {
        "ecce": cd.ECCE(),
        "parts": cd.BrierDecomposition(bins=4),
        "curve": cd.ReliabilityCurve(points=5, bandwidth=0.2),
    }
    result = cd.compare(labels, scores, near, metrics, n_boot=10)
    alone = cd.evaluate(labels, near, metrics)
    for name in ("ecce", "parts_reliability", "parts_resolution", "parts_uncertainty"):
        assert {f"{name}{end}" for end in ENDS} <= set(result), name
        assert result[name].sel(model="b") == alone[name]
    for name in ("ecce_pvalue", "curve_bandwidth", "curve_score"):
        assert not {f"{name}{end}" for end in ENDS} & set(result.variables), name
    np.testing.assert_array_equal(result.curve_score, alone.curve_score)
    # Both have the same outcomes.
    np.testing.assert_allclose(result.parts_uncertainty_difference, 0, atol=1e-12)


def test_no_metrics_is_a_panel() -> None:
    labels, scores, near, _ = binary(300, 17)
    result = cd.compare(labels, scores, near, n_boot=10)
    names = {str(name).removesuffix("_difference") for name in result if str(name).endswith("_difference")}
    assert {"brier_score", "ece"} <= names
    assert len(names) >= 4
    for name in names:
        assert result[name].dims == ("model",)
        assert {f"{name}{end}" for end in ENDS} <= set(result)
        assert result[f"{name}_difference_low"] <= result[f"{name}_difference_high"]
    labels, models = multiclass(300, 17)
    assert {"brier_score_difference", "ece_difference"} <= set(cd.compare(labels, models, n_boot=10))


@pytest.mark.parametrize("chunks", [37, 300])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_same_for_any_chunks(chunks: int, weighted: bool) -> None:
    labels, models = multiclass(300, 18)
    day = np.arange(300) % 2
    weight = np.random.default_rng(19).gamma(2.0, 1.0, 300) if weighted else None
    options: dict[str, Any] = {"metrics": METRICS, "n_boot": 25, "seed": 2}
    expected = cd.compare(labels, models, by={"day": day}, sample_weight=weight, **options)
    found = cd.compare(
        da.from_array(labels, chunks=chunks),
        {name: da.from_array(p, chunks=(chunks + 5 * i, 2)) for i, (name, p) in enumerate(models.items())},
        by={"day": da.from_array(day, chunks=41)},
        sample_weight=None if weight is None else da.from_array(weight, chunks=50),
        **options,
    )
    assert set(found.variables) == set(expected.variables)
    for name in expected.data_vars:
        if weighted or str(name).endswith(("_low", "_high")):
            np.testing.assert_allclose(found[name], expected[name], rtol=1e-12, atol=1e-12, err_msg=str(name))
        else:
            np.testing.assert_array_equal(found[name], expected[name], err_msg=str(name))


def test_columns_of_frames_and_labelled_arrays() -> None:
    labels, _, near, square = binary(200, 20)
    site = np.array(["x", "y", "z"])[np.arange(200) % 3]
    metrics = {"brier": cd.BrierScore(), "ece": cd.ECE(bins=5), "cost": cd.ExcessCost(costs=[[0, 3], [1, 0]])}
    options: dict[str, Any] = {"metrics": metrics, "n_boot": 20}
    expected = cd.compare(labels, {"p": near, "q": square}, by={"site": site}, **options)
    frame = pd.DataFrame({"label": labels, "p": near, "q": square, "site": site})
    for table in (frame, dd.from_pandas(frame, npartitions=3)):
        found = cd.compare(table["label"], {n: table[n] for n in "pq"}, by={"site": table["site"]}, **options)
        xr.testing.assert_allclose(found.drop_attrs(), expected.drop_attrs(), rtol=1e-12, atol=1e-12)
    arrays = {n: xr.DataArray(s, dims="row") for n, s in (("p", near), ("q", square))}
    found = cd.compare(xr.DataArray(labels, dims="row"), arrays, by={"site": site}, sample_dim="row", **options)
    xr.testing.assert_allclose(found.drop_attrs(), expected.drop_attrs(), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
def test_columns_of_dask_frames_in_both_forms(weighted: bool) -> None:
    """Their chunks are of unknown sizes."""
    labels, scores, near, square = binary(200, 20)
    weight = np.random.default_rng(21).gamma(2.0, 1.0, 200) if weighted else None
    frame = pd.DataFrame({"y": labels, "p": scores, "q": near, "r": square, "w": 1.0 if weight is None else weight})
    lazy = dd.from_pandas(frame, npartitions=3)
    column = lazy["w"] if weighted else None
    pair = cd.compare(labels, near, square, cd.BrierScore(), sample_weight=weight, n_boot=20)
    named = {"p": scores, "q": near, "r": square}
    every = cd.compare(labels, named, metrics=cd.BrierScore(), sample_weight=weight, n_boot=20)
    found = cd.compare(lazy["y"], lazy["q"], lazy["r"], cd.BrierScore(), sample_weight=column, n_boot=20)
    xr.testing.assert_allclose(found.drop_attrs(), pair.drop_attrs(), rtol=1e-12, atol=1e-12)
    assert found.attrs["rows"] == 200
    columns = {name: lazy[name] for name in named}
    found = cd.compare(lazy["y"], columns, metrics=cd.BrierScore(), sample_weight=column, n_boot=20)
    xr.testing.assert_allclose(found.drop_attrs(), every.drop_attrs(), rtol=1e-12, atol=1e-12)


def test_data_frames_of_scores_and_other_names_of_dimensions() -> None:
    labels, models = multiclass(200, 21)
    expected = cd.compare(labels, models, metrics=cd.BrierScore(), n_boot=20)
    frames = {name: pd.DataFrame(p, columns=["x", "y", "z"]) for name, p in models.items()}
    found = cd.compare(pd.Series(labels), frames, metrics=cd.BrierScore(), n_boot=20)
    xr.testing.assert_allclose(found.drop_attrs(), expected.drop_attrs(), rtol=1e-12, atol=1e-12)
    arrays = {name: xr.DataArray(p.T, dims=("kind", "row")) for name, p in models.items()}
    found = cd.compare(
        xr.DataArray(labels, dims="row"), arrays, metrics=cd.BrierScore(), n_boot=20, sample_dim="row", class_dim="kind"
    )
    xr.testing.assert_allclose(found.drop_attrs(), expected.drop_attrs(), rtol=1e-12, atol=1e-12)


def test_extra_dimensions() -> None:
    """Folds of each model are compared with folds of the other on the same replicates."""
    labels, models = multiclass(150, 22)
    rng = np.random.default_rng(23)
    folds = {name: np.stack([p, (p + rng.dirichlet([1, 1, 1], 150)) / 2]) for name, p in list(models.items())[:2]}
    arrays = {name: xr.DataArray(p, dims=("fold", "sample", "class")) for name, p in folds.items()}
    metrics = {"brier": cd.BrierScore(), "ece": cd.ECE(bins=4)}
    result = cd.compare(xr.DataArray(labels, dims="sample"), arrays, metrics=metrics, n_boot=30)
    assert set(result.brier.dims) == {"model", "fold"}
    assert set(result.brier_difference.dims) == {"challenger", "fold"}
    for f in range(2):
        one = cd.compare(labels, {name: p[f] for name, p in folds.items()}, metrics=metrics, n_boot=30)
        for name in (*metrics, *(f"{m}{end}" for m in metrics for end in ENDS)):
            np.testing.assert_allclose(result[name].isel(fold=f), one[name], rtol=1e-12, atol=1e-12, err_msg=name)


def test_float32_scores() -> None:
    labels, models = multiclass(200, 24)
    single = {name: p.astype(np.float32) for name, p in models.items()}
    result = cd.compare(labels, single, metrics=METRICS, n_boot=10)
    for name, p in single.items():
        alone = cd.evaluate(labels, p, METRICS)
        for metric in METRICS:
            assert result[metric].sel(model=name) == alone[metric], metric


BAD_SHAPES: dict[str, Any] = {
    "matrix and vector": (lambda p: p[:, 1]),
    "classes": (lambda p: np.full((len(p), 4), 0.25)),
    "rows": (lambda p: p[:-1]),
    "a dimension more": (lambda p: np.stack([p, p])),
}


@pytest.mark.parametrize("change", BAD_SHAPES.values(), ids=list(BAD_SHAPES))
def test_models_of_different_shapes(change: Any) -> None:
    labels, models = multiclass(60, 25)
    given = models | {"lenet": change(models["lenet"])}
    with pytest.raises(ValueError, match="lenet"):
        cd.compare(labels, given, metrics=cd.BrierScore(), n_boot=5)
    with pytest.raises(ValueError, match=r"['\"`]?\bb\b['\"`]?"):
        cd.compare(labels, given["resnet"], given["lenet"], cd.BrierScore(), n_boot=5)


@pytest.mark.parametrize(
    "call",
    [
        lambda y, p, m: cd.compare(y, p, metrics=m),
        lambda y, p, m: cd.compare(y, {"one": p}, metrics=m),
        lambda y, p, m: cd.compare(y, {}, metrics=m),
        lambda y, p, m: cd.compare(y, {"one": p, "two": p}, p, metrics=m),
        lambda y, p, m: cd.compare(y, {"one": p, "two": p}, metrics=m, baseline="three"),
        lambda y, p, m: cd.compare(y, p, p, m, baseline="c"),
        lambda y, p, m: cd.compare(y, p, p, cd.SpiegelhalterTest()),
        lambda y, p, m: cd.compare(y, p, p, [m, cd.SKCETest(draws=10)]),
        lambda y, p, m: cd.compare(y, p, p, cd.SKCE(estimator="linear", bandwidth=0.3)),
        lambda y, p, m: cd.compare(y, p, p, m, ci=95),
        lambda y, p, m: cd.compare(y, p, p, m, ci=0.0),
        lambda y, p, m: cd.compare(y, p, p, m, n_boot=0),
        lambda y, p, m: cd.compare(y, p, p, m, seed=-1),
        lambda y, p, m: cd.compare(y, p, p, m, ci_method="normal"),
    ],
    ids=[
        *("one array", "one model", "no model", "both forms", "baseline", "baseline of arrays", "test", "kernel test"),
        *("linear", "percent", "no level", "no replicates", "seed", "method"),
    ],
)
def test_bad_calls(call: Any) -> None:
    labels, scores, _, _ = binary(40, 26)
    with pytest.raises(ValueError, match=r".+"):
        call(labels, scores, cd.BrierScore())


def test_messages_name_what_is_wrong() -> None:
    labels, scores, near, _ = binary(40, 27)
    with pytest.raises(ValueError, match=r"(?s)three.*one|one.*three"):
        cd.compare(labels, {"one": scores, "two": near}, metrics=cd.BrierScore(), baseline="three")
    with pytest.raises(ValueError, match="Spiegelhalter"):
        cd.compare(labels, scores, near, [cd.BrierScore(), cd.SpiegelhalterTest()])
    with pytest.raises(ValueError, match="SKCE"):
        cd.compare(labels, scores, near, cd.SKCE(estimator="linear", bandwidth=0.3))


SETS = 400


def in_sets(rows: int) -> dict[str, NDArray[np.int64]]:
    """One slice for each of many data sets; their rows, and so their replicates, are independent."""
    return {"set": np.repeat(np.arange(SETS), rows)}


def within(count: int, p: float) -> bool:
    """Whether a count of sets is as likely as 99.8 % of the others where each has the chance p."""
    low, high = binom.ppf([0.001, 0.999], SETS, p)
    return bool(low <= count <= high)


def test_pvalues_of_equally_good_models_are_uniform() -> None:
    """Outcomes are even, and models err at random, alike in distribution: expected Brier scores are equal.

    Of 400 sets between 23 and 60 have p <= 0.1 (99.8 %), and the distribution of Kolmogorov and Smirnov is at most 0.1
    from uniform, which has a chance of 0.1 %.
    """
    rng = np.random.default_rng(28)
    one, other = 0.5 + rng.uniform(-0.4, 0.4, (2, SETS * 100))
    labels = rng.integers(0, 2, SETS * 100)
    result = cd.compare(labels, one, other, {"m": cd.BrierScore()}, by=in_sets(100), n_boot=400)
    pvalues = result.m_difference_pvalue.values
    assert within(int((pvalues <= 0.1).sum()), 0.1)
    assert kstest(pvalues, "uniform").statistic <= 0.1


def test_intervals_cover_the_true_difference() -> None:
    """Scores s and s**2 of outcomes with P = s: the expected Brier scores differ by E (s - s**2)**2 = 1/30.

    At 90 % at most 377 of 400 sets (99.9 %) cover it; at 89 %, as a percent is what percentiles may lose, at least 336.
    """
    rng = np.random.default_rng(29)
    scores = rng.random(SETS * 200)
    labels = (rng.random(scores.size) < scores).astype(int)
    result = cd.compare(labels, scores, scores**2, {"m": cd.BrierScore()}, by=in_sets(200), ci=0.9, n_boot=300)
    covered = (result.m_difference_low <= 1 / 30) & (result.m_difference_high >= 1 / 30)
    low, high = binom.ppf(0.001, SETS, 0.89), binom.ppf(0.999, SETS, 0.9)
    assert low <= int(covered.sum()) <= high


def test_clearly_different_models_are_told_apart() -> None:
    """The difference is (1 - 2 s)(1 - 2 y), of mean 1/3 and variance 2/9: 10 standard errors of 200 rows."""
    rng = np.random.default_rng(30)
    scores = rng.random(SETS * 200)
    labels = (rng.random(scores.size) < scores).astype(int)
    result = cd.compare(labels, scores, 1 - scores, {"m": cd.BrierScore()}, by=in_sets(200), n_boot=300)
    # The smallest p-value there is is 2/301, and is left so by Benjamini and Hochberg where all are.
    assert (result.m_difference_pvalue <= 0.01).all()
    assert (result.m_difference_low > 0).all()
    assert (result.m_difference_pvalue_bh <= 0.01).all()
    assert float(result.m_difference.mean()) == pytest.approx(1 / 3, abs=0.009)  # 5 standard errors


def sliced(ci: float | None = None) -> tuple[xr.Dataset, dict[str, Any]]:
    """A result over two names, some combinations of which have no rows."""
    labels, _, near, square = binary(600, 31)
    day = np.arange(600) % 7
    site = np.array(["x", "y"])[np.where(day == 3, 0, np.arange(600) // 300)]
    by = {"day": day, "site": site}
    scores = np.where(day < 3, near, square)
    metrics = {"brier": cd.BrierScore(), "ece": cd.ECE(bins=5)}
    result = cd.evaluate(labels, scores, metrics, by=by, **({} if ci is None else {"ci": ci, "n_boot": 20}))
    return result, by


def worst_by_loops(result: xr.Dataset, metric: str, dims: tuple[str, ...]) -> list[tuple[Any, ...]]:
    """Labels of the slices in their order."""
    found = []
    shape = [result.sizes[dim] for dim in dims]
    for number, place in enumerate(itertools.product(*map(range, shape))):
        one = result.isel(dict(zip(dims, place, strict=True)))
        value = float(one[metric])
        low = float(one[f"{metric}_low"]) if f"{metric}_low" in result else value
        if not np.isnan(value):
            found.append(((-low, -value, number), tuple(one[dim].item() for dim in dims)))
    return [labels for _, labels in sorted(found, key=lambda item: item[0])]


@pytest.mark.parametrize("ci", [None, 0.9])
@pytest.mark.parametrize("metric", ["brier", "ece"])
@pytest.mark.parametrize("n", [1, 4, 10, 100])
def test_worst_slices_of_an_evaluation(ci: float | None, metric: str, n: int) -> None:
    result, _ = sliced(ci)
    expected = worst_by_loops(result, metric, ("day", "site"))
    assert len(expected) == 13  # of 14 one has no rows
    worst = cd.worst_slices(result, metric, n)
    assert dict(worst.sizes) == {"slice": min(n, 13)}
    assert list(zip(worst.day.values, worst.site.values, strict=True)) == expected[:n]
    assert worst.day.dims == worst.site.dims == ("slice",)
    assert set(worst.data_vars) == {metric} | (set() if ci is None else {f"{metric}_low", f"{metric}_high"})
    for name in worst.data_vars:
        values = [result[name].sel(day=d, site=s).item() for d, s in expected[:n]]
        np.testing.assert_array_equal(worst[name], values)


def test_worst_slices_of_a_comparison() -> None:
    labels, scores, near, square = binary(600, 32)
    day = np.arange(600) % 6
    models = {"p": scores, "q": np.where(day < 3, near, square), "r": square}
    result = cd.compare(labels, models, metrics=cd.BrierScore(), by={"day": day}, n_boot=50)
    one = result.sel(challenger="q")
    expected = [label for (label,) in worst_by_loops(one, "brier_score_difference", ("day",))]
    worst = cd.worst_slices(one, "brier_score_difference")
    assert list(worst.day.values) == expected
    assert set(worst.data_vars) == {f"brier_score{end}" for end in (*ENDS, *ADJUSTED)}
    for name in worst.data_vars:
        np.testing.assert_array_equal(worst[name], one[name].sel(day=expected))
    model = cd.worst_slices(result.sel(model="r"), "brier_score", n=2)
    values = result.brier_score.sel(model="r")
    assert list(model.day.values) == list(values.sortby(-values).day.values[:2])
    pair = cd.compare(labels, scores, models["q"], cd.BrierScore(), by={"day": day}, n_boot=50)
    assert list(cd.worst_slices(pair, "brier_score_difference").day.values) == expected


def test_results_know_their_rows_and_their_slices_when_stored(tmp_path: Path) -> None:
    labels, scores, near, _ = binary(200, 39)
    by = {"day": np.arange(200) % 3}
    results = {
        "evaluated": (cd.evaluate(labels, scores, {"m": cd.BrierScore()}, by=by), "m"),
        "compared": (cd.compare(labels, scores, near, {"m": cd.BrierScore()}, by=by, n_boot=10), "m_difference"),
    }
    for name, (result, metric) in results.items():
        assert result.attrs["rows"] == 200, name
        assert result.attrs["passes"] == 1, name
        result.to_netcdf(tmp_path / f"{name}.nc")
        with xr.open_dataset(tmp_path / f"{name}.nc") as stored:
            found, expected = cd.worst_slices(stored, metric), cd.worst_slices(result, metric)
            np.testing.assert_array_equal(found[metric], expected[metric])
            np.testing.assert_array_equal(found.day, expected.day)


def test_ties_of_slices_go_by_value_and_by_appearance() -> None:
    """Scores are such that the Brier scores of slices are known, and equal in pairs."""
    miss = np.repeat([0.5, 0.25, 0.5, 0.75, 0.25], 10)
    result = cd.evaluate(np.zeros(50, int), miss, {"m": cd.BrierScore()}, by={"day": np.repeat(list("abcde"), 10)})
    np.testing.assert_array_equal(result.m, [0.25, 0.0625, 0.25, 0.5625, 0.0625])
    assert list(cd.worst_slices(result, "m").day.values) == ["d", "a", "c", "b", "e"]
    assert list(cd.worst_slices(result, "m", 2).day.values) == ["d", "a"]
    lows = result.assign(m_low=("day", [0.1, 0.05, 0.2, 0.1, 0.05]), m_high=("day", np.ones(5)))
    assert list(cd.worst_slices(lows, "m").day.values) == ["c", "d", "a", "b", "e"]


def test_worst_slices_refuse_what_they_cannot_order() -> None:
    labels, scores, near, square = binary(200, 33)
    by = {"day": np.arange(200) % 2}
    result = cd.evaluate(labels, scores, [cd.BrierScore(), cd.ECE()], by=by)
    with pytest.raises(ValueError, match=r"(?s)brier_score.*ece|ece.*brier_score"):
        cd.worst_slices(result, "brier")
    with pytest.raises(ValueError, match=r"slice|by"):
        cd.worst_slices(cd.evaluate(labels, scores, cd.BrierScore()), "brier_score")
    compared = cd.compare(labels, {"p": scores, "q": near, "r": square}, metrics=cd.BrierScore(), by=by, n_boot=5)
    with pytest.raises(ValueError, match="challenger"):
        cd.worst_slices(compared, "brier_score_difference")
    with pytest.raises(ValueError, match="model"):
        cd.worst_slices(compared, "brier_score")
    unsliced = cd.compare(labels, scores, near, cd.BrierScore(), n_boot=5)
    with pytest.raises(ValueError, match=r"slice|by"):
        cd.worst_slices(unsliced, "brier_score_difference")
    folds = xr.DataArray(np.stack([scores, near]), dims=("fold", "sample"))
    folded = cd.evaluate(xr.DataArray(labels, dims="sample"), folds, cd.BrierScore(), by=by)
    with pytest.raises(ValueError, match="fold"):
        cd.worst_slices(folded, "brier_score")
    assert cd.worst_slices(folded.isel(fold=1), "brier_score").sizes["slice"] == 2


def skewed(rows: int, seed: int) -> tuple[NDArray[np.int64], Array, float]:
    """Labels and scores of many sets whose squared errors are lognormal with a skewness of 2.3, and their mean."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 2, SETS * rows)
    error = np.exp(rng.normal(-5, 0.6, labels.size) / 2)
    assert error.max() < 1
    return labels, np.abs(labels - error), float(np.exp(-5 + 0.18))


def test_bca_intervals_follow_the_skew_and_cover() -> None:
    """400 sets of 100 rows with ends at 90 %.

    In simulations percentiles and BCa cover 88.6 %, and BCa ends are 3 % and 5 % of the length of the interval higher,
    with a spread over sets of 3.4 % and 5.2 %: 9 and 9 standard errors of the mean over sets lie above 1.5 % and 2.5 %.
    """
    labels, scores, truth = skewed(100, 34)
    ends = {}
    for method in ("percentile", "bca"):
        result = cd.evaluate(
            labels, scores, {"m": cd.BrierScore()}, by=in_sets(100), ci=0.9, n_boot=600, ci_method=method
        )
        ends[method] = result.m_low.values, result.m_high.values
        covered = int(((ends[method][0] <= truth) & (truth <= ends[method][1])).sum())
        # 99.8 % of counts at 88.6 %, and the more if coverage were nominal.
        assert binom.ppf(0.001, SETS, 0.886) <= covered <= binom.ppf(0.999, SETS, 0.9), method
    length = ends["percentile"][1] - ends["percentile"][0]
    low, high = ((ends["bca"][i] - ends["percentile"][i]) / length for i in range(2))
    assert 0.015 < low.mean() < 0.06
    assert 0.025 < high.mean() < 0.1
    assert (low > 0).mean() > 0.7
    assert (high > 0).mean() > 0.7


def test_bca_of_one_set_follows_the_skew_either_way() -> None:
    """Skewed to the right, and with the mirrored errors to the left."""
    rng = np.random.default_rng(35)
    square = np.minimum(rng.lognormal(-3, 1.0, 150), 0.9)
    for squares, sign in ((square, 1), (0.95 - square, -1)):
        scores = np.sqrt(squares)
        options: dict[str, Any] = {"ci": 0.9, "n_boot": 2000}
        with_bca = cd.evaluate(np.zeros(150, int), scores, {"m": cd.BrierScore()}, ci_method="bca", **options)
        plain = cd.evaluate(np.zeros(150, int), scores, {"m": cd.BrierScore()}, ci_method="percentile", **options)
        assert sign * float(with_bca.m_low - plain.m_low) > 0
        assert sign * float(with_bca.m_high - plain.m_high) > 0


def level(ordered: Array, value: float) -> float:
    """The level of which a value is the quantile by linear interpolation."""
    return float(np.interp(value, ordered, np.arange(len(ordered)) / (len(ordered) - 1)))


@pytest.mark.parametrize("ci", [0.8, 0.95])
def test_bca_ends_have_the_levels_of_one_acceleration(ci: float) -> None:
    """Solved for the acceleration, both ends give the same one; that of a mean is its skewness / (6 sqrt n).

    From 10 groups or more its standard error is at most 0.041: the skewness of g groups is off by sqrt(6 / g), and is
    divided by 6 sqrt(g).
    """
    rng = np.random.default_rng(40)
    square = np.minimum(rng.lognormal(-3, 1.0, 200), 0.9)
    labels, n_boot = np.zeros(200, int), 3000
    result = cd.evaluate(labels, np.sqrt(square), {"m": cd.BrierScore()}, ci=ci, n_boot=n_boot, seed=6, ci_method="bca")
    counts = reference.poisson_counts(200, n_boot, 6)
    drawn = np.sort((counts * square).sum(1) / counts.sum(1))
    theta = square.mean()
    shift = norm.ppf(((drawn < theta).sum() + (drawn == theta).sum() / 2) / n_boot)
    found = []
    for end, tail in (("low", (1 - ci) / 2), ("high", (1 + ci) / 2)):
        moved = shift + norm.ppf(tail)
        at = norm.ppf(level(drawn, float(result[f"m_{end}"])))
        found.append((1 - moved / (at - shift)) / moved)
    assert found[0] == pytest.approx(found[1], abs=1e-6)
    assert found[0] == pytest.approx(skew(square) / (6 * np.sqrt(200)), abs=3 * 0.041)
    assert found[0] > 0


@pytest.mark.parametrize("method", ["percentile", "bca", "corrected"])
@pytest.mark.parametrize("weighted", [False, True])
def test_intervals_of_what_a_histogram_tells(method: Any, weighted: bool) -> None:
    labels, _, _, square = binary(500, 41)
    weight = np.random.default_rng(42).gamma(2.0, 1.0, 500) if weighted else None
    metrics = {"ece": cd.ECE(bins=5), "density": cd.DensityECE(), "smooth": cd.SmoothECE(), "brier": cd.BrierScore()}
    for by in (None, {"day": np.arange(500) % 2}):
        result = cd.evaluate(
            labels, square, metrics, by=by, sample_weight=weight, ci=0.95, n_boot=100, ci_method=method
        )
        for name in metrics:
            assert (result[f"{name}_low"] < result[f"{name}_high"]).all(), name
            assert (result[f"{name}_low"] <= result[name]).all(), name
            assert (result[name] <= result[f"{name}_high"]).all(), name


@pytest.mark.parametrize("metric", [cd.BrierScore(), cd.LogLoss()])
def test_percentiles_of_proper_scores(metric: Any) -> None:
    labels, scores, _, _ = binary(200, 36)
    counts = reference.poisson_counts(200, 50, 3)
    values = replicates(labels, scores, metric, counts)
    options: dict[str, Any] = {"ci": 0.9, "n_boot": 50, "seed": 3}
    result = cd.evaluate(labels, scores, {"m": metric}, ci_method="percentile", **options)
    ends = [float(result.m_low), float(result.m_high)]
    np.testing.assert_allclose(ends, reference.percentile_ends(values, 0.9), rtol=1e-12)
    xr.testing.assert_identical(cd.evaluate(labels, scores, {"m": metric}, **options).drop_attrs(), result.drop_attrs())


@pytest.mark.parametrize("method", ["percentile", "bca", "corrected", None])
@pytest.mark.parametrize("chunks", [37, 300])
def test_kinds_of_intervals_do_not_depend_on_chunks(method: Any, chunks: int) -> None:
    labels, models = multiclass(300, 37)
    scores, day = models["vgg"], np.arange(300) % 2
    metrics = {"brier": cd.BrierScore(), "log": cd.LogLoss(), "ece": cd.ECE(bins=5), "cost": METRICS["cost"]}
    options: dict[str, Any] = {"ci": 0.9, "n_boot": 40, "seed": 3, "ci_method": method}
    expected = cd.evaluate(labels, scores, metrics, by={"day": day}, **options)
    lazy = da.from_array(labels, chunks=chunks), da.from_array(scores, chunks=(chunks, 2))
    found = cd.evaluate(*lazy, metrics, by={"day": day}, **options)
    xr.testing.assert_allclose(found.drop_attrs(), expected.drop_attrs(), rtol=1e-12, atol=1e-12)
    plain = cd.evaluate(labels, scores, metrics, by={"day": day})
    for name in metrics:
        assert (expected[f"{name}_low"] < expected[f"{name}_high"]).all(), name
        np.testing.assert_array_equal(expected[name], plain[name])


@pytest.mark.parametrize("method", ["normal", "BCA", "", 3])
def test_unknown_kinds_of_intervals(method: Any) -> None:
    labels, scores, _, _ = binary(40, 38)
    with pytest.raises(ValueError, match="ci_method"):
        cd.evaluate(labels, scores, cd.BrierScore(), ci=0.9, n_boot=5, ci_method=method)


def test_models_that_are_no_match() -> None:
    import pandas as pd

    labels, scores = np.array([0, 1, 1, 0]), np.array([[0.5, 0.5], [0.2, 0.8], [0.1, 0.9], [0.7, 0.3]])
    with pytest.raises(ValueError, match=r"one type, got float32 for 'a' and float64 for 'b'; convert"):
        cd.compare(labels, scores.astype(np.float32), scores, cd.LogLoss())
    frame = pd.DataFrame(scores, columns=["x", "z"])
    with pytest.raises(ValueError, match=r"same columns in the same order, got \['x', 'z'\] for 'a'"):
        cd.compare(labels, frame, frame[["z", "x"]], cd.BrierScore())
    with pytest.raises(ValueError, match="names that differ as text, got '1' more than once"):
        cd.compare(labels, {1: scores, "1": scores}, metrics=cd.BrierScore())
    with pytest.raises(ValueError, match="no summaries, and no iterators"):
        cd.compare(cd.summarize(labels, scores), scores, scores)
    numbered = cd.compare(labels, {1: scores, 2: scores}, metrics=cd.BrierScore(), baseline=2, n_boot=5)  # type: ignore[arg-type]
    assert numbered.attrs["baseline"] == "2"
    assert cd.compare(labels, scores, scores, {"challenger": cd.BrierScore()}, n_boot=5).challenger.dims == ("model",)


def test_metrics_that_are_none() -> None:
    with pytest.raises(TypeError, match="metrics expects estimators such as"):
        cd.evaluate([0, 1], [0.2, 0.8], cd.ece)
    with pytest.raises(ValueError, match="names that differ as text"):
        cd.evaluate([0, 1], [0.2, 0.8], {1: cd.ECE(), "1": cd.MCE()})  # type: ignore[dict-item]
    with pytest.raises(ValueError, match="classes expects a whole number from 2 on"):
        cd.default_metrics(1)
    with pytest.raises(TypeError, match=r"the Dataset of cd\.evaluate"):
        cd.worst_slices(cd.evaluate([0, 1], [0.2, 0.8], cd.ECE(), by=[1, 2]).ece, "ece")  # type: ignore[arg-type]


def test_one_row_proves_nothing() -> None:
    """In a slice of one row every replicate that has it says the same; those without it count on either side."""
    labels, by = np.array([1, 0, 1, 1, 0]), np.array([0, 1, 1, 1, 1])
    result = cd.compare(labels, np.full(5, 0.5), np.full(5, 0.6), cd.BrierScore(), by={"part": by}, n_boot=1000)
    # A third of the replicates lack the row: e**-1, twice that.
    assert result.brier_score_difference_pvalue.sel(part=0) == pytest.approx(2 / np.e, abs=0.1)
