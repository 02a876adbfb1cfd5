"""Ends of intervals from given replicates, and where replicates come from."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import xarray as xr
from scipy import stats

import calibdask as cd
from calibdask.engine.rows import Rows, make_block
from calibdask.estimators.estimator import Estimator
from calibdask.estimators.interval import FromHistograms, FromRows, KnownEnds, NoInterval
from calibdask.estimators.parts import Number, calibration_error
from calibdask.inference.choice import IntervalChoice
from calibdask.inference.ends import bounds_of_number
from calibdask.inference.methods import NumberReplicates, sign_pvalue
from calibdask.inference.multiplicity import benjamini_hochberg, holm
from calibdask.statistics.bins.grid import Grid, GridHistogram, GridState
from calibdask.statistics.layout import Layout
from calibdask.statistics.replicates.histograms import left_out
from calibdask.statistics.settings import Setting
from calibdask.statistics.views.left_out import LeftOut
from tests.catalogue import ANY_ROWS, ESTIMATORS
from tests.combinations import rotated


def ends(values: Any, estimate: float, method: Any, left: Any = None, chance: Any = None, level: float = 0.9) -> Any:
    error = calibration_error(np.array([[[estimate]]])) if chance is not None else Number(np.array([[estimate]]))
    shaped = [None if sample is None else np.reshape(sample, (-1, 1, 1)) for sample in (values, chance, left)]
    result = bounds_of_number(
        error, NumberReplicates(shaped[0], error.values, "rows", *shaped[1:]), IntervalChoice(level, method, 200, 0)
    )
    return result["low"].values.item(), result["high"].values.item()


@pytest.mark.parametrize("seed", range(5))
def test_bca_is_that_of_scipy(seed: int) -> None:
    rng = np.random.default_rng(seed)
    data = rng.exponential(size=30) ** 1.5
    values = rng.choice(data, (400, 30)).mean(1)
    left = (data.sum() - data) / 29
    drawn = SimpleNamespace(bootstrap_distribution=values)
    expected = stats.bootstrap(
        (data,), np.mean, n_resamples=0, confidence_level=0.9, method="BCa", bootstrap_result=drawn
    ).confidence_interval
    # SciPy takes quantiles of rank p (R - 1) + 1: the levels are the same.
    levels = np.interp(expected, np.sort(values), np.linspace(0, 1, 400))
    by_rank = np.quantile(values, levels, method="weibull")
    np.testing.assert_allclose(ends(values, data.mean(), "bca", left), by_rank, rtol=1e-9)


def test_percentiles_and_corrected_ends_by_hand() -> None:
    values = np.arange(1, 100) / 100
    assert ends(values, 0.4, "percentile") == pytest.approx((0.05, 0.95))
    # The farther percentile is 0.55 away.
    assert ends(values, 0.4, "corrected") == pytest.approx((-0.15, 0.95))
    assert ends(values, 0.4, None, chance=values / 10) == pytest.approx((0.0, 0.95))
    # As large an error by chance: the lower end is 0.
    assert ends(values / 100 + 0.39, 0.4, None, chance=values / 10) == pytest.approx((0.3905, 0.4095), abs=1e-9)
    assert ends(values / 100 + 0.39, 0.4, None, chance=values)[0] == 0.0


def test_percentiles_hold_a_further_replicate_at_their_level() -> None:
    """Replicates that are equally likely in any order: of 19, one in 10 further ones lies outside the outermost."""
    for count, level in ((19, 0.9), (199, 0.95), (40, 0.5)):
        low, high = ends(np.arange(1, count + 1) / (count + 1), 0.5, "percentile", level=level)
        assert high - low == pytest.approx(level, abs=1e-12)


def test_the_lower_end_of_an_error_allows_for_what_noise_adds() -> None:
    values = 0.42 + np.arange(1, 100) / 1000
    # Replicates are 0.07 higher on average: noise adds up to three times that, or what it adds to an error of 0.
    spread = 0.045
    assert ends(values, 0.4, None, chance=np.full(3, 0.3))[0] == pytest.approx(0.4 - 0.21 - spread)
    assert ends(values, 0.4, None, chance=np.full(3, 0.1))[0] == pytest.approx(0.4 - 0.1 - spread)
    # Without a value in a replicate, the others count.
    assert ends(np.r_[values, np.nan], 0.4, None, chance=np.r_[0.1, np.nan])[0] == pytest.approx(0.4 - 0.1 - spread)
    assert ends(values, 0.4, None, chance=np.full(3, np.nan)) == pytest.approx((0.285, 0.515))
    # Resampling that adds nothing says that noise adds nothing.
    assert ends(values - 0.07, 0.4, None, chance=np.full(3, 0.1))[0] == pytest.approx(0.4 - spread)


def test_replicates_without_a_value_are_left_out() -> None:
    values = np.r_[np.arange(1, 100) / 100, np.full(50, np.nan)]
    assert ends(values, 0.5, "percentile") == pytest.approx((0.05, 0.95))
    assert ends(values, 0.5, "bca", left=np.r_[0.4, 0.6, np.nan]) == pytest.approx((0.05, 0.95), abs=0.011)
    for method in ("percentile", "corrected", "bca"):
        assert np.isnan(ends(np.full(10, np.nan), np.nan, method, left=np.full(3, np.nan))).all()


def test_bca_of_replicates_all_on_one_side() -> None:
    values = np.linspace(1, 2, 200)
    low, high = ends(values, 0.5, "bca", left=np.array([0.4, 0.5, 0.6]))
    assert low == pytest.approx(1.0, abs=0.01)
    assert 1.0 <= high < 1.1
    low, high = ends(values, 0.5, "bca", left=np.r_[np.zeros(50), 50.0])
    assert 1.0 <= low <= high <= 2.0


@pytest.mark.parametrize("method", ["percentile", "bca"])
def test_pvalues_agree_with_intervals(method: Any) -> None:
    """0 lies outside the interval at 1 - p and inside at levels beyond."""
    rng = np.random.default_rng(3)
    for shift in (0.3, 1.0, -1.7, 0.05):
        values, left = rng.gamma(4, 0.5, 1999) - 2 + shift, rng.gamma(2, 0.01, 100)
        replicates = NumberReplicates(values[:, None, None], np.array([[shift]]), "rows", left_out=left[:, None, None])
        p = sign_pvalue(replicates, method).item()
        assert 2 / 2000 <= p <= 1
        if p < 0.98:
            tight, wide = (
                bounds_of_number(Number(np.array([[shift]])), replicates, IntervalChoice(1 - level, method, 200, 0))
                for level in (p + 0.01, p - 0.003)
            )
            assert tight["low"].values * tight["high"].values > 0
            if p > 0.005:
                assert wide["low"].values * wide["high"].values <= 0


def test_replicates_without_a_value_count_for_both_sides() -> None:
    values = np.r_[np.full(5, np.nan), np.ones(194)][:, None]
    left_out = np.linspace(0.9, 1.1, 20)[:, None]
    for method in ("percentile", "bca"):
        replicates = NumberReplicates(values, np.ones(1), "rows", left_out=left_out)
        assert sign_pvalue(replicates, method).item() == pytest.approx(2 / 200 * 6)


def test_adjusted_pvalues_are_those_of_scipy_and_of_the_definition() -> None:
    rng = np.random.default_rng(0)
    p = rng.random((4, 5))
    p[1, 2] = np.nan
    known = p[np.isfinite(p)]
    actual = benjamini_hochberg(p)
    np.testing.assert_allclose(actual[np.isfinite(p)], stats.false_discovery_control(known))
    ordered = np.sort(known)
    m = known.size
    expected = [min(1.0, max((m - j) * ordered[j] for j in range(i + 1))) for i in range(m)]
    np.testing.assert_allclose(np.sort(holm(p)[np.isfinite(p)]), expected)
    assert np.isnan([actual[1, 2], holm(p)[1, 2]]).all()
    assert np.isnan(holm(np.full(3, np.nan))).all()


def data(n: int, seed: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    scores = rng.random(n)
    return (rng.random(n) < scores**1.5).astype(int), scores


@pytest.mark.parametrize("weighted", [False, True])
def test_groups_left_out_of_a_histogram_add_up(weighted: bool) -> None:
    labels, scores = data(700, 1)
    weights = np.random.default_rng(2).random(700)[None] if weighted else None
    layout = Layout(weighted=weighted)
    state = GridHistogram(Setting("class", 1), Grid()).from_block(
        make_block(Rows(scores[None, :, None], labels[None], weights), layout, 0)
    )
    whole = left_out(state, 5, range(100))
    parts = [left_out(state, 5, range(a, b)) for a, b in ((0, 30), (30, 100))]
    for name, sums, all_sums in zip(GridState._fields, whole, state, strict=True):
        np.testing.assert_array_equal(np.concatenate([getattr(part, name) for part in parts]), sums)
        # Every row is missing from one of the hundred.
        tolerance = {"rtol": 1e-9} if weighted else {"rtol": 0, "atol": 100 if name == "offset" else 0}
        np.testing.assert_allclose(sums.sum(0), 99 * all_sums[0], err_msg=name, **tolerance)


def test_groups_of_rows_left_out_are_those_of_their_numbers() -> None:
    labels, scores = data(500, 3)
    block = make_block(Rows(scores[None, :, None], labels[None]), Layout(), 0)
    view = LeftOut(20, 4)
    weights = view.block(block).weights
    assert weights is not None
    assert set(np.unique(weights)) == {0.0, 1.0}
    np.testing.assert_array_equal((weights == 0).sum(0), 1)
    # Groups of 25 in the mean: five standard errors.
    assert np.abs((weights == 0).sum(1) - 25).max() < 5 * 5
    part = view.block(block.part(100, 300)).weights
    np.testing.assert_array_equal(part, weights[:, 100:300])


FROM_HISTOGRAMS = [
    cd.ECE(),
    cd.ECE(bins=100, norm="l2", debias=True),
    cd.ECE(bins=(0, 0.25, 0.5, 1)),
    cd.ECE(binning="equal-mass", bins="sqrt"),
    cd.ece_c(bins=10),
    cd.MCE(),
    cd.ECE(compat="scikit-learn"),
    cd.BrierDecomposition(),
    cd.DensityECE(),
    cd.SmoothECE(),
    cd.CORP(),
    cd.CORP(rule="log"),
    cd.ECCE(kind="range"),
]
FROM_ROWS = [
    cd.ECE(closed="left"),
    cd.ECE(bins=7),
    cd.ECE(bins="sqrt"),
    cd.ECE(bins=(0, 0.3333, 1)),
    cd.ece_ac(),
    cd.ece_c(bins=16),
    cd.ECE(compat="netcal"),
    cd.ECE(compat="torchmetrics"),
    cd.ECE(compat="euranova"),
    cd.ECE(binning="equal-mass", compat="scikit-learn"),
    cd.BrierDecomposition(bins=11),
    cd.LogLossDecomposition(),
    cd.MulticlassECE(),
    cd.SKCE(estimator="biased", bandwidth=0.3),
    cd.SKCE(estimator="features-biased", features=8),
    cd.KernelCanonicalECE(bandwidth=0.1),
    cd.ExcessCost(),
    cd.ExcessCost(calibration="classwise"),
]


@pytest.mark.parametrize("estimator", FROM_HISTOGRAMS + FROM_ROWS, ids=lambda estimator: repr(estimator)[:60])
def test_which_histograms_are_resampled(estimator: Estimator) -> None:
    kind = FromHistograms if estimator in FROM_HISTOGRAMS else FromRows
    assert isinstance(estimator.interval(Layout()), kind)


FORMULAS = ("normal", "log", "clopper-pearson", "score", "t", "delong", "consistency", "brownian", "freedman")
INTERVALS = {FromHistograms: "histogram", FromRows: "rows", KnownEnds: "nothing"}


@pytest.mark.parametrize(("name", "method"), rotated(ANY_ROWS, [None, "percentile", "bca"], 1))
def test_every_metric_has_intervals(name: str, method: Any) -> None:
    labels, scores = data(300, 5)
    estimator = ESTIMATORS[name]
    kind = type(estimator.interval(Layout()))
    result = cd.evaluate(labels, scores, {name: estimator}, ci=0.9, ci_method=method, n_boot=20)
    parts = [part for part in result if f"{part}_low" in result]
    assert bool(parts) == (kind is not NoInterval)
    for part in parts:
        low, high = result[f"{part}_low"], result[f"{part}_high"]
        assert (low <= high).all()
        if method is None and low.attrs.get("interval") != "percentile":
            assert (low <= result[part] + 1e-12).all()
            assert (result[part] <= high + 1e-12).all()
        # The pointwise ends of a curve come with its estimate.
        if "resampled" in low.attrs:
            assert low.attrs["resampled"] == INTERVALS[kind]
            interval = low.attrs["interval"]
            assert interval.split()[0] in FORMULAS if kind is KnownEnds else interval == (method or interval)
    plain = cd.evaluate(labels, scores, {name: estimator})
    xr.testing.assert_identical(result[list(plain)].drop_attrs(), plain.drop_attrs())


def test_intervals_of_either_kind_are_alike() -> None:
    """Left-closed bins hold the same rows; one is resampled from a histogram, the other by rows."""
    labels, scores = data(2000, 6)
    metrics = {"right": cd.ECE(bins=10), "left": cd.ECE(bins=10, closed="left")}
    for method in (None, "percentile", "bca"):
        result = cd.evaluate(labels, scores, metrics, ci=0.9, ci_method=method, n_boot=1000)
        assert result.right == pytest.approx(result.left.item(), abs=1e-12)
        width = (result.right_high - result.right_low).item()
        for end in ("low", "high"):
            assert abs(result[f"right_{end}"] - result[f"left_{end}"]) < 0.12 * width, (method, end)


@pytest.mark.parametrize(("weighted", "methods"), [(False, ("percentile", "bca")), (True, ("percentile",))])
def test_debiased_metrics_lose_what_sampling_adds_twice(weighted: bool, methods: tuple[Any, ...]) -> None:
    """Redrawn rows hold the noise of the data and their own: histograms and rows agree, and both hold the estimate."""
    rng = np.random.default_rng(1)
    scores = rng.random((30, 1000))
    # With weights of 4 of the outcomes as well.
    chances = scores / (4 - 3 * scores) if weighted else scores
    labels = (rng.random(scores.shape) < chances).astype(int)
    weights = np.where(labels == 1, 4.0, 1.0) if weighted else None
    for method in methods:
        results = []
        for closed in ("right", "left"):
            metrics = {
                "parts": cd.BrierDecomposition(debias=True, closed=closed),  # type: ignore[arg-type]
                "root": cd.ECE(norm="l2", debias=True, closed=closed),  # type: ignore[arg-type]
            }
            options: dict[str, Any] = {"task": "binary", "ci": 0.9, "ci_method": method, "n_boot": 100}
            results.append(cd.evaluate(labels, scores, metrics, sample_weight=weights, **options))
        right, left = results
        for result in results:
            # 90 % in truth; fewer than 21 of 30 once in 2000 times. Biased ones hold 0 in half of them.
            assert ((result.parts_reliability_low <= 0) & (result.parts_reliability_high >= 0)).sum() >= 21
        for name in ("parts_reliability", "parts_resolution", "root"):
            for end in ("low", "high"):
                width = float((right[f"{name}_high"] - right[f"{name}_low"]).mean())
                assert abs(float((right[f"{name}_{end}"] - left[f"{name}_{end}"]).mean())) < 0.15 * width, (name, end)


def test_terms_that_cannot_be_exceeded() -> None:
    """The uncertainty of balanced labels is the largest there is: resampling lowers it, and ends look both ways."""
    labels = np.arange(400) % 2
    scores = np.random.default_rng(0).random(400)
    result = cd.evaluate(labels, scores, [cd.CORP(), cd.CORP(rule="log"), cd.BrierDecomposition()], ci=0.9, n_boot=50)
    for name, most in (("corp", 0.25), ("corp_log", np.log(2)), ("brier_decomposition", 0.25)):
        assert result[f"{name}_uncertainty_high"] == pytest.approx(most, rel=1e-12)


@pytest.mark.parametrize("choices", [{"estimator": "linear"}, {"estimator": "block", "block": 10}])
def test_means_over_blocks_bring_ends(choices: dict[str, Any]) -> None:
    labels, scores = data(2000, 7)
    result = cd.evaluate(labels, scores, cd.SKCE(bandwidth=0.2, **choices), ci=0.9)
    assert result.skce_low.attrs["interval"] == "clopper-pearson"
    test = cd.evaluate(labels, scores, cd.SKCETest(bandwidth=0.2, **choices))
    assert float(result.skce_high) == pytest.approx(float(test.skce_test_bound), rel=1e-12)
    error = float(test.skce_test_estimate / test.skce_test_statistic)
    # Normal ends, and at both the additional pair of the largest value, 2 in 1000 pairs.
    reach = stats.norm.ppf(0.95) * error
    for end in (result.skce - result.skce_low, result.skce_high - result.skce):
        assert reach < float(end) < reach + 0.005


def test_summaries_tell_scores_in_order() -> None:
    labels, scores = data(3000, 9)
    rounded = np.round(scores * 200) / 200
    metrics = [cd.CORP(), cd.CORP(rule="log"), cd.ECCE(), cd.ECCE(kind="range")]
    summary = cd.summarize(labels, rounded.clip(0.005, 0.995), settings=("binary",))
    actual = cd.evaluate(summary, metrics=metrics, ci=0.9, n_boot=30)
    expected = cd.evaluate(labels, rounded.clip(0.005, 0.995), metrics)
    for name in expected:
        # Distinct scores lie in cells of their own: 2**-31 of a cell is all that is lost.
        assert actual[name] == pytest.approx(expected[name].item(), rel=1e-8), name
    assert actual.ecce.attrs["points"].startswith("cells")
    assert actual.corp_miscalibration_low < actual.corp_miscalibration_high
    assert "ecce_pvalue_low" not in actual


def test_replicates_are_kept() -> None:
    labels, scores = data(500, 20)
    metrics = {"brier": cd.BrierScore(), "ece": cd.ECE(), "parts": cd.CORP(), "linear": cd.SKCE(estimator="linear")}
    by = {"half": np.arange(500) % 2}
    options: dict[str, Any] = {"ci": 0.8, "ci_method": "percentile", "n_boot": 30}
    result = cd.evaluate(labels, scores, metrics, by=by, keep_replicates=True, **options)
    for name in ("brier", "ece", "parts_discrimination"):
        drawn = result[f"{name}_replicates"]
        assert drawn.dims == ("half", "replicate")
        assert drawn.sizes["replicate"] == 30
        for end, share in (("low", 0.1), ("high", 0.9)):
            np.testing.assert_allclose(
                result[f"{name}_{end}"], np.quantile(drawn, share, axis=1, method="weibull"), rtol=1e-12
            )
    assert "linear_replicates" not in result
    assert {result[f"{name}_replicates"].attrs["resampled"] for name in ("brier", "ece")} == {"rows"}
    plain = cd.evaluate(labels, scores, metrics, by=by, **options)
    same = [name for name in plain if name in metrics or name.startswith("brier")]
    xr.testing.assert_identical(result[same], plain[same])
    with pytest.raises(ValueError, match="keep_replicates requires intervals"):
        cd.evaluate(labels, scores, keep_replicates=True)


def test_kept_replicates_of_models_belong_together() -> None:
    """Their differences vary as those of models on resampled rows do, and those of slices are independent."""
    labels, first = data(500, 21)
    second = np.where(np.arange(500) % 3 > 0, first, np.random.default_rng(22).random(500))
    metrics = {"ece": cd.ECE(), "smooth": cd.SmoothECE(), "mass": cd.ECE(binning="equal-mass", bins=5)}
    options: dict[str, Any] = {"ci": 0.9, "n_boot": 200, "keep_replicates": True}
    one, other = (cd.evaluate(labels, scores, metrics, **options) for scores in (first, second))
    rng = np.random.default_rng(23)
    rows = rng.integers(0, 500, (200, 500))
    for name, metric in metrics.items():
        difference = one[f"{name}_replicates"] - other[f"{name}_replicates"]
        drawn = [
            cd.evaluate(labels[rows], scores[rows], {"it": metric}, task="binary")["it"] for scores in (first, second)
        ]
        expected = float((drawn[0] - drawn[1]).std())
        # Two standard deviations of 200 values each: a ratio within 30 % is four standard errors.
        assert float(difference.std()) == pytest.approx(expected, rel=0.3), name
    halves = cd.evaluate(labels, first, metrics, by={"half": np.arange(500) % 2}, **options)
    for name in metrics:
        pair = halves[f"{name}_replicates"].values
        assert abs(np.corrcoef(pair)[0, 1]) < 0.3, name
