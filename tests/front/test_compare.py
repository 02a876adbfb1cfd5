"""Differences of models on the same replicates, and their p-values."""

import itertools
from typing import Any

import dask.array as da
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy.stats import binom, kstest

import calibdask as cd
from tests.front.scored_models import ADJUSTED, ENDS, SETS, binary, in_sets, multiclass, replicates
from tests.oracles import cost_reference as reference

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
        result = cd.compare(labels, baseline, challenger, {"b": cd.BrierScore()}, ci=0.8, n_boot=400, seed=5)
        ends = [float(result[f"b_difference_{end}"]) for end in ("low", "high")]
        np.testing.assert_allclose(ends, reference.percentile_ends(means[1] - means[0], 0.8), atol=1e-13)
        assert float(result.b_difference_pvalue) == pytest.approx(reference.pvalue(means[1] - means[0]), rel=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
def test_every_metric_is_compared_on_the_same_replicates(weighted: bool) -> None:
    """Of models by name; replicates are evaluations of rows with weights."""
    labels, models = multiclass(240, 3)
    weight = np.random.default_rng(4).gamma(2.0, 1.0, 240) if weighted else None
    options: dict[str, Any] = {"ci": 0.9, "n_boot": 20, "seed": 7}
    result = cd.compare(labels, models, metrics=METRICS, baseline="lenet", sample_weight=weight, **options)
    counts = reference.poisson_counts(240, 20, 7)
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
    result = cd.compare(labels, models, metrics=metrics, by=by, ci=0.9, n_boot=20, seed=1)
    counts = reference.poisson_counts(400, 20, 1)
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
    for name, metric in METRICS.items():
        for end in ("", "_low", "_high"):
            # Losses may differ in rows that are not there: by up to 2 in 4.7 % of 75 rows.
            expected = np.nan if isinstance(metric, cd.LogLoss) else {"_low": -0.094, "_high": 0.094}.get(end, 0.0)
            is_loss = end and isinstance(metric, cd.BrierScore | cd.LogLoss)
            np.testing.assert_allclose(result[f"{name}_difference{end}"], expected if is_loss else 0.0, atol=0.005)
        for end in ("", "_holm", "_bh"):
            np.testing.assert_array_equal(result[f"{name}_difference_pvalue{end}"], 1.0)


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
    constant, plain = (result.drop_attrs().reset_coords(drop=True) for result in (constant, plain))
    xr.testing.assert_allclose(constant, plain, rtol=1e-12)


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
    # Of scores of exactly 0 or 1 the log loss has no interval.
    result = cd.compare(labels, scores, np.clip(near, 0.001, 0.999), n_boot=10)
    names = {str(name).removesuffix("_difference") for name in result if str(name).endswith("_difference")}
    assert {"brier_score", "ece"} <= names
    assert len(names) >= 4
    for name in names:
        assert result[name].dims == ("model",)
        assert {f"{name}{end}" for end in ENDS} <= set(result)
        assert result[f"{name}_difference_low"] <= result[f"{name}_difference_high"]
    labels, models = multiclass(300, 17)
    assert {"brier_score_difference", "ece_difference"} <= set(cd.compare(labels, models, n_boot=10))


@pytest.mark.parametrize(("chunks", "weighted"), [(37, False), (300, True)])
def test_the_same_for_any_chunks(chunks: int, weighted: bool) -> None:
    labels, models = multiclass(300, 18)
    day = np.arange(300) % 2
    weight = np.random.default_rng(19).gamma(2.0, 1.0, 300) if weighted else None
    options: dict[str, Any] = {"metrics": METRICS, "n_boot": 25, "seed": 2}
    expected = cd.compare(labels, models, by={"day": day}, sample_weight=weight, **options)
    actual = cd.compare(
        da.from_array(labels, chunks=chunks),
        {name: da.from_array(p, chunks=(chunks + 5 * i, 2)) for i, (name, p) in enumerate(models.items())},
        by={"day": da.from_array(day, chunks=41)},
        sample_weight=None if weight is None else da.from_array(weight, chunks=50),
        **options,
    )
    assert set(actual.variables) == set(expected.variables)
    for name in expected.data_vars:
        if weighted or str(name).endswith(("_low", "_high")):
            np.testing.assert_allclose(actual[name], expected[name], rtol=1e-12, atol=1e-12, err_msg=str(name))
        else:
            np.testing.assert_array_equal(actual[name], expected[name], err_msg=str(name))


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


def test_models_of_different_shapes() -> None:
    labels, models = multiclass(60, 25)
    p = models["lenet"]
    for other in (p[:, 1], np.full((len(p), 4), 0.25), p[:-1], np.stack([p, p])):
        with pytest.raises(ValueError, match="lenet"):
            cd.compare(labels, models | {"lenet": other}, metrics=cd.BrierScore(), n_boot=5)


def test_bad_calls() -> None:
    labels, p, _, _ = binary(40, 26)
    both, brier = {"one": p, "two": p}, {"metrics": cd.BrierScore()}
    calls: list[tuple[tuple[Any, ...], dict[str, Any], str]] = [
        ((p,), brier, ".+"),
        (({"one": p},), brier, ".+"),
        (({},), brier, ".+"),
        ((both, p), brier, ".+"),
        ((both,), brier | {"baseline": "three"}, r"(?s)three.*one|one.*three"),
        ((p, p), brier | {"baseline": "c"}, "c"),
        ((p, p), {"metrics": [cd.BrierScore(), cd.SpiegelhalterTest()]}, "Spiegelhalter"),
        ((p, p), {"metrics": cd.SKCETest(draws=10)}, "SKCE"),
        ((p, p), {"metrics": cd.SKCE(estimator="linear", bandwidth=0.3)}, "SKCE"),
        *(((p, p), brier | option, ".+") for option in ({"ci": 95}, {"n_boot": 0}, {"seed": -1})),
        ((p, p), brier | {"ci_method": "normal"}, ".+"),
    ]
    for models, options, message in calls:
        with pytest.raises(ValueError, match=message):
            cd.compare(labels, *models, **options)


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


@pytest.mark.parametrize("convert", [np.asarray, lambda array: da.from_array(array, chunks=100)])
def test_models_of_two_types_are_measured_as_they_are(convert: Any) -> None:
    rng = np.random.default_rng(4)
    wide = rng.random(500)
    labels, narrow = (rng.random(500) < wide).astype(int), (wide**2).astype(np.float32)
    metrics = [cd.BrierScore(), cd.LogLoss(), cd.ECE()]
    with pytest.warns(UserWarning, match="'a' are float64, those of 'b' float32: all are measured as float64"):
        both = cd.evaluate(convert(labels), {"a": convert(wide), "b": convert(narrow)}, metrics)
    for model, scores in {"a": wide, "b": narrow.astype(float)}.items():
        alone = cd.evaluate(labels, scores, metrics)
        assert [float(both.sel(model=model)[name]) for name in alone.data_vars] == [
            float(alone[name]) for name in alone.data_vars
        ]


def test_models_that_are_no_match() -> None:

    labels, scores = np.array([0, 1, 1, 0]), np.array([[0.5, 0.5], [0.2, 0.8], [0.1, 0.9], [0.7, 0.3]])
    frame = pd.DataFrame(scores, columns=["x", "z"])
    with pytest.raises(ValueError, match=r"same columns in the same order, got \['x', 'z'\] for 'a'"):
        cd.compare(labels, frame, frame[["z", "x"]], cd.BrierScore())
    with pytest.raises(ValueError, match="names that differ as text, got '1' more than once"):
        cd.compare(labels, {1: scores, "1": scores}, metrics=cd.BrierScore())
    with pytest.raises(ValueError, match="not summaries or iterators"):
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


def test_few_rows_prove_nothing() -> None:
    labels, by = np.arange(19) % 2, np.repeat([0, 1], [9, 10])
    result = cd.compare(labels, np.full(19, 0.5), np.full(19, 0.6), cd.BrierScore(), by={"part": by}, n_boot=100)
    # Nine rows have four of one outcome.
    np.testing.assert_array_equal(np.isnan(result.brier_score_difference_pvalue), [True, False])
    np.testing.assert_array_equal(np.isnan(result.brier_score_difference_high), [True, False])


def test_curves_over_fixed_points_have_differences_at_each() -> None:
    rng = np.random.default_rng(6)
    scores = rng.random(2000)
    labels = (rng.random(2000) < scores).astype(int)
    metrics = {"nb": cd.NetBenefit(thresholds=(0.2, 0.5)), "bins": cd.ReliabilityDiagram()}
    models = {"a": scores, "b": scores**3, "c": scores**1.01}
    result = cd.compare(labels, models, metrics=metrics, n_boot=99, by={"half": np.arange(2000) % 2})
    both = result.nb_model
    expected = both.sel(model=["b", "c"]).values - both.sel(model=["a"]).values
    np.testing.assert_allclose(result.nb_model_difference.values, expected, atol=1e-12)
    assert (result.nb_model_difference_low <= result.nb_model_difference).all()
    # Adjusted for slices and models at each point, not for points.
    holm = result.nb_model_difference_pvalue_holm
    assert float(holm.min()) == pytest.approx(4 * float(result.nb_model_difference_pvalue.min()))
    text = result.calib.document().to_text()
    assert "nb_model at 0.2" in text
    assert "treat_all" not in text
    assert "No differences of bins: they have no number or fixed point." in text


def test_models_that_differ_in_few_rows() -> None:
    """In 1 % of the rows: 95 % intervals held the difference in .58 of data sets of 100 rows."""
    rng = np.random.default_rng(8)
    scores = rng.random(100)
    labels = (rng.random(100) < scores).astype(int)
    few, many = scores.copy(), scores.copy()
    few[:3] = 1 - few[:3]
    many[:30] = 1 - many[:30]
    models = {"a": scores, "few": few, "many": many}
    for groups in (None, np.arange(100)):
        metrics = [cd.BrierScore(), cd.LogLoss()]
        result = cd.compare(labels, models, metrics=metrics, task="binary", groups=groups)
        for name in ("brier_score_difference_pvalue", "log_loss_difference_pvalue", "log_loss_difference_low"):
            assert np.isfinite(result[name].values).tolist() == [False, True]
        assert "differ in so few rows" in result.log_loss_difference.attrs["no_interval"]
        assert "allows for rows that did not occur" in result.brier_score_difference.attrs["no_replicates"]
        reach = 1 - 0.025 ** (1 / 100)
        assert float(result.brier_score_difference_high[0] - result.brier_score_difference[0]) > 0.9 * reach
    gate = cd.check(labels, scores, not_worse={"brier-score": 0.05}, baseline=scores, task="binary")
    assert [judgement.outcome for judgement in gate.judgements] == ["met"]
    gate = cd.check(labels, scores, not_worse={"log-loss": 0.05}, baseline=scores, task="binary")
    assert "differ in so few rows" in gate.judgements[0].reason
