"""Replicates, intervals and bands: like resampling rows, the same for any chunks, and covering what they promise."""

from collections.abc import Callable
from typing import Any

import dask.array as da
import numpy as np
import pytest
import xarray as xr
from numpy.typing import NDArray
from scipy.stats import ks_2samp

import calibdask as cd
from calibdask.statistics.bins.grid import Grid, GridHistogram, GridState, node_weights
from calibdask.statistics.block import Block
from calibdask.statistics.layout import Layout
from calibdask.statistics.replicates.histograms import resampled
from calibdask.statistics.settings import Setting

BINARY = Setting("class", 1)
FINE = Grid()


def drawn(n: int, seed: int, curve: Callable[[Any], Any] = np.square, sets: int | None = None) -> tuple[Any, Any]:
    """Labels and scores with a known calibration function."""
    rng = np.random.default_rng(seed)
    scores = rng.beta(2, 2, n if sets is None else (sets, n))
    return (rng.random(scores.shape) < curve(scores)).astype(np.int32), scores


def histogram(labels: Any, scores: Any, weights: Any = None, grid: Grid = FINE) -> GridState:
    layout = Layout(rows=scores.size, weighted=weights is not None)
    given = None if weights is None else np.asarray(weights, np.float64)[None]
    return GridHistogram(BINARY, grid).from_block(Block(layout, scores[None, :, None], labels[None], given))


def test_replicates_are_multinomial() -> None:
    labels, scores = drawn(500, 1)
    state = histogram(labels, scores, grid=Grid(300))
    copies = resampled(state, Grid(300), 7, range(4000))
    counts = copies.mass[:, 0, 0]
    np.testing.assert_array_equal(counts.sum((1, 2)), 500)
    share = state.mass[0, 0, 0] / 500
    # Six standard errors of a mean of 4000.
    np.testing.assert_allclose(counts.mean(0), 500 * share, atol=6 * np.sqrt(500 * share.max() / 4000))
    filled = share > 0
    np.testing.assert_allclose(counts.var(0)[filled], (500 * share * (1 - share))[filled], rtol=0.25)
    # Rows of a cell keep their mean position.
    position = state.offset[0, 0, 0][filled] * 2.0**-30 / state.mass[0, 0, 0][filled]
    np.testing.assert_allclose(copies.offset[:, 0, 0][:, filled], counts[:, filled] * position, rtol=1e-12)


def test_replicates_do_not_depend_on_how_many_at_a_time() -> None:
    state = histogram(*drawn(300, 2))
    whole = resampled(state, FINE, 3, range(10))
    parts = [resampled(state, FINE, 3, range(a, b)) for a, b in ((0, 4), (4, 5), (5, 10))]
    for field, values in enumerate(whole):
        np.testing.assert_array_equal(np.concatenate([part[field] for part in parts]), values)
    assert not np.array_equal(resampled(state, FINE, 4, range(1)).mass, resampled(state, FINE, 3, range(1)).mass)


@pytest.mark.parametrize("metric", [cd.DensityECE(bandwidth=0.05), cd.ResidualECE(bandwidth=0.05), cd.SmoothECE()])
def test_replicates_are_distributed_as_those_of_rows(metric: Any) -> None:
    labels, scores = drawn(200, 3)
    state = histogram(labels, scores, grid=Grid())
    copies = resampled(state, FINE, 5, range(600))
    from calibdask.engine.plan import run
    from calibdask.engine.sources.summary import SummarySource

    source = SummarySource({GridHistogram(BINARY, Grid()): lambda: copies}, Layout(batch=600), 200)
    ours = run({"": metric}, source).estimates[""][""].values.ravel()
    rows = np.random.default_rng(6).integers(0, 200, (600, 200))
    theirs = cd.evaluate(labels[rows], scores[rows], {"m": metric}, task="binary").m.values
    # A false alarm once in a thousand seeds.
    assert ks_2samp(ours, theirs).pvalue > 1e-3


def test_weighted_replicates_have_the_moments_of_a_poisson_bootstrap() -> None:
    labels, scores = drawn(400, 4)
    weights = np.random.default_rng(5).gamma(2.0, 1.0, 400)
    state = histogram(labels, scores, weights, Grid(300))
    copies = resampled(state, Grid(300), 1, range(4000)).mass.sum((1, 2, 3, 4))
    assert copies.mean() == pytest.approx(weights.sum(), abs=6 * np.sqrt((weights**2).sum() / 4000))
    assert copies.var() == pytest.approx((weights**2).sum(), rel=0.15)


METRICS = {
    "curve": cd.ReliabilityCurve(points=11),
    "density": cd.DensityECE(),
    "smooth": cd.SmoothECE(),
    "classwise": cd.DensityECE(setting="classwise", bandwidth=0.05),
}


@pytest.mark.parametrize("chunks", [37, 500])
def test_intervals_are_the_same_for_any_chunks(chunks: int) -> None:
    rng = np.random.default_rng(8)
    scores = rng.dirichlet([1, 1, 1], 500)
    labels, day = rng.integers(0, 3, 500), rng.integers(0, 2, 500)
    options: dict[str, Any] = {"ci": 0.9, "n_boot": 20, "seed": 3}
    expected = cd.evaluate(labels, scores, METRICS, by={"day": day}, **options)
    lazy = [da.from_array(a, chunks=chunks) for a in (labels, scores)]
    actual = cd.evaluate(*lazy, METRICS, by={"day": day}, **options)
    xr.testing.assert_identical(actual.drop_attrs(), expected.drop_attrs())
    other = cd.evaluate(labels, scores, METRICS, by={"day": day}, **{**options, "seed": 4})
    assert not np.array_equal(other.density_low, expected.density_low)


def test_names_and_order_of_ends() -> None:
    labels, scores = drawn(1000, 9)
    result = cd.evaluate(labels, scores, METRICS | {"classwise": cd.DensityECE(setting=1)}, ci=0.9, n_boot=40)
    for name in ("density", "smooth"):
        assert 0 <= result[f"{name}_low"] <= result[name] <= result[f"{name}_high"] <= 1
    r = "curve_reliability"
    ends = [result[f"{r}_{end}"].values for end in ("band_low", "low", "high", "band_high")]
    assert (np.diff(np.stack(ends), axis=0) >= -1e-15).all()
    assert {"ci": 0.9, "n_boot": 40, "seed": 0}.items() <= result.attrs.items()
    assert "curve_bandwidth_low" not in result


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [("ci", 95, "between 0 and 1"), ("ci", True, "between"), ("n_boot", 1, "from 2 to"), ("seed", -1, "from 0 on")],
)
def test_bad_options(option: str, value: Any, message: str) -> None:
    options: dict[str, Any] = {"ci": 0.9, option: value}
    with pytest.raises(ValueError, match=message):
        cd.evaluate([0, 1], [0.2, 0.8], cd.DensityECE(), **options)


ROW_METRICS = {
    "brier": cd.BrierScore(),
    "log": cd.LogLoss(),
    "parts": cd.LogLossDecomposition(bins=5),
    "corp": cd.CORP(),
    "ecce": cd.ECCE(),
    "multiclass": cd.MulticlassECE(bins=3),
    "skce": cd.SKCE(bandwidth=0.3),
    "mmce": cd.MMCE(estimator="features-biased", features=16),
}


@pytest.mark.parametrize("chunks", [37, 300])
def test_rows_are_resampled_alike_for_any_chunks(chunks: int) -> None:
    rng = np.random.default_rng(18)
    scores = rng.dirichlet([1, 1, 1], (2, 300))
    labels, day, weight = rng.integers(0, 3, 300), rng.integers(0, 2, 300), rng.random(300) + 0.5
    options: dict[str, Any] = {"ci": 0.9, "n_boot": 15, "seed": 3}
    expected = cd.evaluate(labels, scores, ROW_METRICS, by={"day": day}, sample_weight=weight, **options)
    lazy = da.from_array(labels, chunks=chunks), da.from_array(scores, chunks=(1, chunks, 3))
    actual = cd.evaluate(*lazy, ROW_METRICS, by={"day": day}, sample_weight=weight, **options)
    xr.testing.assert_allclose(actual.drop_attrs(), expected.drop_attrs(), rtol=1e-9, atol=1e-12)
    for name in ("brier", "log", "parts_uncertainty", "corp_miscalibration", "ecce", "multiclass", "skce", "mmce"):
        assert (expected[f"{name}_low"] < expected[f"{name}_high"]).all(), name
    assert "ecce_pvalue_low" not in expected


def test_poisson_weights_have_the_moments_of_their_law() -> None:
    from calibdask.engine.rows import Rows, make_block
    from calibdask.statistics.layout import Layout
    from calibdask.statistics.views.poisson import PoissonWeights

    labels, scores = drawn(400, 19)
    block = make_block(Rows(scores[None, :, None], labels[None]), Layout(), 0)
    counts = PoissonWeights(500, 4).block(block).weights
    assert counts is not None
    # 200 000 draws: mean and variance within 5 standard errors; the fourth central moment of Poisson(1) is 4.
    assert abs(counts.mean() - 1) < 5 / np.sqrt(counts.size)
    assert abs(counts.var() - 1) < 5 * np.sqrt(3 / counts.size)


def test_binned_metrics_are_resampled_from_a_histogram_of_the_same_pass() -> None:
    labels, scores = drawn(2000, 10)
    metrics = [cd.ECE(), cd.ECE(binning="equal-mass"), cd.ece_c(bins=10), cd.MCE(), cd.BrierDecomposition()]
    plain = cd.evaluate(labels, scores, metrics)
    result = cd.evaluate(labels, scores, metrics, ci=0.9, n_boot=50)
    assert result.attrs["passes"] == plain.attrs["passes"]
    xr.testing.assert_identical(result[list(plain.data_vars)].drop_attrs(), plain.drop_attrs())
    assert "mce_rows_low" not in result  # a count
    for name in set(plain.data_vars) - {"mce_rows"}:
        assert result[f"{name}_low"] <= result[name] <= result[f"{name}_high"], name
    assert 0 < result.ece_high - result.ece_low < 0.1
    panel = cd.evaluate(labels, scores, ci=0.9, n_boot=10)
    numbers = [
        name
        for name, estimator in cd.default_metrics(2).items()
        if not estimator.is_test(Layout()) and name != "brier_decomposition"
    ]
    assert {f"{name}_low" for name in numbers} <= set(panel)


def test_two_classes_are_as_sure_as_one() -> None:
    """Their columns are the same rows twice, and not twice as many."""
    labels, scores = drawn(500, 11)
    both = np.stack([1 - scores, scores], -1)
    metrics = {"both": cd.DensityECE(setting="classwise"), "one": cd.DensityECE(setting=1)}
    result = cd.evaluate(labels, both, metrics, ci=0.9, n_boot=400)
    assert result.both == pytest.approx(result.one.item(), abs=1e-9)
    for end in ("low", "high"):
        assert result[f"both_{end}"] == pytest.approx(result[f"one_{end}"].item(), abs=0.006)


def test_calibrated_models_have_intervals_from_zero() -> None:
    labels, scores = drawn(400, 13, lambda s: s, 60)
    metrics = {"density": cd.DensityECE(), "smooth": cd.SmoothECE(), "ece": cd.ECE()}
    result = cd.evaluate(labels, scores, metrics, task="binary", ci=0.9, n_boot=60)
    for name in metrics:
        # 95 % in truth; fewer than 50 of 60 once in a thousand times.
        assert (result[f"{name}_low"] == 0).sum() >= 50, name


SETS = 40


def coverage(curve: Callable[[Any], Any], band: Any) -> tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.bool_]]:
    """Whether pointwise ends and bands cover the true curve, (sets, points), and the middle of the support."""
    labels, scores = drawn(2000, 11, curve, SETS)
    result = cd.reliability_curve(labels, scores, task="binary", ci=0.95, n_boot=100, points=61, band=band)
    truth = curve(result.score.values)
    within = [
        (result[f"reliability_{low}"].values <= truth + 1e-12) & (truth <= result[f"reliability_{high}"].values + 1e-12)
        for low, high in (("low", "high"), ("band_low", "band_high"))
    ]
    middle = (result.score.values >= 0.05) & (result.score.values <= 0.95)
    return within[0], within[1], middle


@pytest.mark.parametrize(
    "curve", [np.square, lambda s: 1 / (1 + np.exp(-12 * (s - 0.5)))], ids=["square", "steep logistic"]
)
def test_corrected_bands_cover_the_true_curve(curve: Callable[[Any], Any]) -> None:
    pointwise, band, middle = coverage(curve, "corrected")
    # Points of one set are no independent trials; the error of the mean is some 0.01.
    assert 0.92 <= pointwise[:, middle].mean() <= 0.99
    assert pointwise[:, ~middle].mean() >= 0.85
    # At 95 %, fewer than 34 of 40 happen once in 500 times.
    assert band[:, middle].all(1).sum() >= 34


def test_bands_span_everything_where_there_are_no_rows() -> None:
    labels, scores = drawn(500, 14)
    result = cd.reliability_curve(labels, scores * 0.5, bandwidth=0.02, ci=0.9, n_boot=20, points=11)
    empty = result.sel(score=slice(0.65, 1.0))
    assert empty.reliability.isnull().all()
    for end, value in (("low", 0.0), ("band_low", 0.0), ("high", 1.0), ("band_high", 1.0)):
        np.testing.assert_allclose(empty[f"reliability_{end}"], value, atol=1e-12)


def test_plain_bands_do_not_cover_steep_curves() -> None:
    pointwise, _, middle = coverage(lambda s: 1 / (1 + np.exp(-12 * (s - 0.5))), "plain")
    assert pointwise[:, middle].mean() < 0.92  # what the correction is for


def test_intervals_of_the_density_error_cover_it() -> None:
    labels, scores = drawn(1500, 12, np.square, 100)
    result = cd.evaluate(labels, scores, cd.DensityECE(), task="binary", ci=0.9, n_boot=100)
    truth = 0.2  # E |s**2 - s| = E s - E s**2 = 1/2 - 3/10 for beta(2, 2)
    covered = ((result.density_ece_low <= truth) & (truth <= result.density_ece_high)).sum()
    # 90 of 100, 3.5 standard errors of 3.
    assert 80 <= covered <= 100


def test_numbers_have_the_cost_of_the_grid() -> None:
    """The states that replicates are made of do not grow with the rows."""
    sizes = {sum(part.nbytes for part in histogram(*drawn(n, 1))) for n in (10, 10_000)}
    assert len(sizes) == 1
    weights = node_weights(histogram(*drawn(10, 1)), Grid())
    assert weights.shape == (1, 1, 1, 3, 3601)


@pytest.mark.parametrize(
    ("labels", "scores", "message"),
    [
        ([0, 0, 0], [0.2, 0.4, 0.6], "only one kind of outcome"),
        ([1, 1, 1], [0.2, 0.4, 0.6], "only one kind of outcome"),
        ([1], [0.4], "only one kind of outcome"),
        ([0, 1, 1], [0.0, 0.0, 0.0], "only equal scores"),
        ([0, 1, 1], [1.0, 1.0, 1.0], "only equal scores"),
    ],
)
@pytest.mark.filterwarnings("ignore:.*columns of scores have:UserWarning")
def test_degenerate_data_are_told(labels: list[int], scores: list[float], message: str) -> None:
    with pytest.warns(UserWarning, match=message):
        value = cd.density_ece(labels, scores, bandwidth=0.1)
    assert np.isfinite(value)


@pytest.mark.filterwarnings("ignore:.*columns of scores have:UserWarning")
def test_rows_that_a_beta_kernel_leaves_out_are_told() -> None:
    with pytest.warns(UserWarning, match=r"no weight to scores at the ends.*50\.0%"):
        cd.density_ece([0, 1, 0, 1], [0.0, 1.0, 0.3, 0.6], kernel="beta", bandwidth=0.1)
