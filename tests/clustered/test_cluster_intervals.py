"""Intervals of clustered rows against a loop that resamples clusters, and against sums by cluster."""

import dask.array as da
import numpy as np
import pytest
import scipy

import calibdask as cd
from tests.clustered.clustered_data import ClusteredRows, clustered_rows

ROWS = clustered_rows()


def student(level: float, clusters: float) -> float:
    return float(scipy.stats.t.ppf(0.5 + level / 2, clusters - 1))


@pytest.mark.parametrize(
    ("metric", "contributions"),
    [(cd.BrierScore(), (ROWS.p - ROWS.y) ** 2), (cd.MeanGap(), ROWS.y - ROWS.p)],
)
def test_half_widths_of_means_are_those_of_sums_by_cluster(metric: cd.BrierScore, contributions: np.ndarray) -> None:
    result = cd.evaluate(ROWS.y, ROWS.p, {"it": metric}, ci=0.95, n_boot=1000, groups=ROWS.g)
    # The end on the long side is farther away.
    reach = min(float(result.it_high - result["it"]), float(result["it"] - result.it_low))
    expected = ROWS.sandwich(contributions) * student(0.95, ROWS.equivalent)
    assert reach == pytest.approx(expected, rel=0.12)


def test_unequal_clusters_are_worth_fewer_equal_ones() -> None:
    """Of 12 clusters of a row and 3 of 12 rows, (sum n)**2 / sum n**2 = 5.19 (Carter, Schnepel & Steigerwald 2017)."""
    sizes = np.repeat([1, 12], [12, 3])
    rng = np.random.default_rng(0)
    g = np.repeat(np.arange(15), sizes)
    rows = ClusteredRows(rng.integers(0, 2, 48), rng.random(48), g)
    result = cd.evaluate(rows.y, rows.p, {"it": cd.MeanGap()}, ci=0.95, groups=rows.g, keep_replicates=True)
    worth = sizes.sum() ** 2 / (sizes**2).sum()
    error = result.it_replicates.std(ddof=1) * np.sqrt(worth / (worth - 1))
    reach = min(float(result.it_high - result.it), float(result.it - result.it_low))
    assert reach == pytest.approx(float(error) * student(0.95, worth))


def test_the_end_on_the_long_side_of_a_skewed_sum_is_farther_away() -> None:
    """By |g| (2 t**2 + 1) / 6 standard errors, where few clusters have all events (Hall 1992, section 3.3)."""
    g = np.repeat(np.arange(60), 10)
    rows = ClusteredRows(((g < 5) & (np.arange(600) % 10 < 1 + g)).astype(int), np.full(600, 0.02), g)
    result = cd.evaluate(
        rows.y, rows.p, {"it": cd.MeanGap()}, ci=0.95, n_boot=1000, groups=rows.g, keep_replicates=True
    )
    drawn, worth = result.it_replicates.values, rows.equivalent
    assert worth < 10
    # Two clusters may share a bucket.
    t, error = student(0.95, worth), drawn.std(ddof=1) * np.sqrt(worth / (worth - 1))
    skewness = scipy.stats.skew(drawn) - np.sqrt(6 / 1000)
    assert float(result["it"] - result.it_low) == pytest.approx(t * error, rel=0.03)
    expected = (t + skewness * (2 * t**2 + 1) / 6) * error
    assert float(result.it_high - result["it"]) == pytest.approx(expected, rel=0.03)


def test_ends_of_a_calibration_error_lie_as_far_as_replicates_of_clusters() -> None:
    def rmsce(y: np.ndarray, p: np.ndarray) -> float:
        bins = np.minimum((p * 5).astype(int), 4)
        gaps = [(np.mean(bins == b), (y - p)[bins == b].mean()) for b in range(5) if (bins == b).any()]
        return float(sum(share * abs(gap) for share, gap in gaps))

    result = cd.evaluate(ROWS.y, ROWS.p, {"ece": cd.ECE(bins=5)}, ci=0.95, n_boot=1000, groups=ROWS.g)
    low, high = np.quantile(ROWS.bootstrap(rmsce), [0.025, 0.975])
    value = float(result.ece)
    widening = student(0.95, 60) / 1.96 * np.sqrt(60 / 59)
    expected = widening * max(high - value, value - low)
    assert float(result.ece_high) - value == pytest.approx(expected, rel=0.2)


def test_blocks_chunks_and_order_do_not_matter() -> None:
    metrics = {"brier": cd.BrierScore(), "ece": cd.ECE(), "gap": cd.MeanGap(), "smooth": cd.SmoothECE()}
    order = np.random.default_rng(1).permutation(ROWS.y.size)
    whole = cd.evaluate(ROWS.y, ROWS.p, metrics, ci=0.9, groups=ROWS.g)
    mixed = cd.evaluate(ROWS.y[order], ROWS.p[order], metrics, ci=0.9, groups=ROWS.g[order])
    chunked = cd.evaluate(
        da.from_array(ROWS.y, chunks=100),
        da.from_array(ROWS.p, chunks=100),
        metrics,
        ci=0.9,
        groups=da.from_array(ROWS.g, chunks=70),
    )
    names = [name for name in whole.data_vars if not name.endswith("design_effect")]
    for other in (mixed, chunked):
        for name in names:
            np.testing.assert_array_equal(other[name], whole[name])
        np.testing.assert_array_equal(other.clusters, 60)


def test_copies_of_rows_within_their_cluster_change_nothing() -> None:
    five = np.repeat(np.arange(ROWS.y.size), 5)
    metrics = {"brier": cd.BrierScore(), "ece": cd.ECE(), "loss": cd.LogLoss(), "ratio": cd.ObservedExpected()}
    once = cd.evaluate(ROWS.y, ROWS.p, metrics, ci=0.95, groups=ROWS.g)
    copied = cd.evaluate(ROWS.y[five], ROWS.p[five], metrics, ci=0.95, groups=ROWS.g[five])
    for name in ("brier_low", "brier_high", "ece_low", "ece_high", "loss_high", "ratio_low"):
        np.testing.assert_allclose(copied[name], once[name], rtol=1e-9)


def test_clusters_of_one_row_are_independent_rows() -> None:
    """Of 60 data sets the widths with a cluster for each row are on average those without clusters."""
    rng = np.random.default_rng(2)
    ratios = []
    for _ in range(60):
        p = rng.random(400)
        y = rng.random(400) < p
        alone = cd.evaluate(y, p, cd.BrierScore(), ci=0.9)
        each = cd.evaluate(y, p, cd.BrierScore(), ci=0.9, groups=np.arange(400))
        widths = [float(result.brier_score_high - result.brier_score_low) for result in (each, alone)]
        ratios.append(widths[0] / widths[1])
        assert float(each.clusters) == 400
    assert np.mean(ratios) == pytest.approx(1.0, abs=0.03)


def test_design_effects_and_effective_rows() -> None:
    rows = clustered_rows(clusters=200, size=20, spread=1.5, seed=3)
    result = cd.evaluate(rows.y, rows.p, {"gap": cd.MeanGap()}, ci=0.95, n_boot=1000, groups=rows.g)
    residual = rows.y - rows.p
    expected = (rows.sandwich(residual) / (residual.std() / np.sqrt(residual.size))) ** 2
    assert float(result.gap_design_effect) == pytest.approx(expected, rel=0.15)
    assert float(result.effective_rows) == pytest.approx(rows.y.size / expected, rel=0.02)
    assert result.attrs["groups"] == "groups"
    assert 0.05 < result.attrs["intracluster_correlation"] < 0.5


def test_few_clusters_have_no_interval_and_some_have_a_note() -> None:
    few = clustered_rows(clusters=9)
    result = cd.evaluate(few.y, few.p, cd.BrierScore(), ci=0.95, groups=few.g)
    assert np.isnan(result.brier_score_low)
    assert "no intervals" in result.attrs["cluster_notes"][0]
    some = clustered_rows(clusters=20)
    result = cd.evaluate(some.y, some.p, cd.BrierScore(), ci=0.95, groups=some.g)
    assert np.isfinite(result.brier_score_low)
    assert "may miss" in result.attrs["cluster_notes"][0]
    big = np.where(np.arange(ROWS.y.size) < ROWS.y.size // 2, -1, ROWS.g)
    result = cd.evaluate(ROWS.y, ROWS.p, cd.BrierScore(), ci=0.95, groups=big)
    assert any("one cluster has" in note for note in result.attrs["cluster_notes"])


@pytest.mark.parametrize(("share", "has_interval"), [(0.2, True), (0.3, False)])
def test_one_cluster_with_over_a_quarter_of_the_rows_leaves_no_interval(share: float, has_interval: bool) -> None:
    rows = clustered_rows(clusters=60, size=20, seed=5)
    groups = np.where(np.arange(rows.y.size) < share * rows.y.size, -1, rows.g)
    metrics = {"gap": cd.MeanGap(), "ece": cd.ECE(), "test": cd.SpiegelhalterTest()}
    result = cd.evaluate(rows.y, rows.p, metrics, ci=0.95, n_boot=20, groups=groups)
    assert np.isfinite(result.gap_low) == np.isfinite(result.ece_low) == has_interval
    assert np.isfinite(result.test_pvalue) == has_interval
    assert ("more than 25 %" in result.gap.attrs.get("no_interval", "")) != has_interval
    compared = cd.compare(rows.y, rows.p, rows.p**2, {"x": cd.BrierScore()}, n_boot=20, groups=groups)
    assert np.isfinite(compared.x_difference_low) == has_interval
    # Even where it has an interval, the mean gap is too skewed for a decision.
    (judgement,) = cd.check(rows.y, rows.p, {"mean-gap": 0.9}, n_boot=20, groups=groups).judgements
    assert judgement.outcome == "cannot be decided"
    assert judgement.reason.startswith("few clusters have most of the rows or events")


def test_slices_count_their_own_clusters() -> None:
    by = ROWS.g < 15
    result = cd.evaluate(ROWS.y, ROWS.p, cd.BrierScore(), ci=0.95, by={"early": by}, groups=ROWS.g)
    assert result.clusters.values.tolist() == [45, 15]
    alone = cd.evaluate(ROWS.y[by], ROWS.p[by], cd.BrierScore(), ci=0.95, groups=ROWS.g[by])
    assert float(result.effective_rows.values[1]) == pytest.approx(float(alone.effective_rows))


def test_spiegelhalter_with_clusters_is_a_ratio_of_sums_by_cluster() -> None:
    result = cd.evaluate(ROWS.y, ROWS.p, cd.SpiegelhalterTest(), groups=ROWS.g)
    terms = (ROWS.y - ROWS.p) * (1 - 2 * ROWS.p)
    sums = np.array([terms[ROWS.g == value].sum() for value in range(60)])
    # Buckets may hold two clusters.
    assert float(result.spiegelhalter_test_statistic) == pytest.approx(
        sums.sum() / np.sqrt(60 / 59 * (sums**2).sum()), rel=0.1
    )


@pytest.mark.parametrize("metric", [cd.HosmerLemeshow(), cd.SKCE(), cd.SKCETest()])
def test_metrics_without_a_form_for_clusters_are_refused(metric: cd.SKCE) -> None:
    with pytest.raises(ValueError, match="groups is not supported by"):
        cd.evaluate(ROWS.y, ROWS.p, metric, groups=ROWS.g)


def test_pvalues_of_independent_rows_are_left_out() -> None:
    result = cd.evaluate(ROWS.y, ROWS.p, cd.CalibrationSlope(), groups=ROWS.g)
    assert np.isnan(result.calibration_slope_pvalue)
    assert "independent rows" in result.calibration_slope_pvalue.attrs["no_pvalue"]


def test_bca_is_refused() -> None:
    with pytest.raises(ValueError, match="with groups give 'corrected' or 'percentile'"):
        cd.evaluate(ROWS.y, ROWS.p, cd.BrierScore(), ci=0.95, ci_method="bca", groups=ROWS.g)


def test_more_clusters_than_are_kept_are_counted_by_a_sample() -> None:
    n = 600_000
    rng = np.random.default_rng(0)
    p = rng.random(n)
    y = rng.random(n) < p
    result = cd.evaluate(y, p, cd.BrierScore(), groups=np.arange(n) // 2)
    assert float(result.clusters) == pytest.approx(n // 2, rel=0.01)
    assert result.attrs["clusters_sampled"] == "one of 4"
    # Three of four clusters are not in the sample: their buckets show one with a third of the rows.
    for dominant in (-1, -2, -3):
        groups = np.where(np.arange(n) < n // 3, dominant, np.arange(n) // 2)
        result = cd.evaluate(y, p, {"gap": cd.MeanGap()}, ci=0.95, n_boot=2, groups=groups)
        assert np.isnan(result.gap_low)
        assert "one cluster has 33 % of the rows: they are worth about 9" in " ".join(result.attrs["cluster_notes"])


def test_slope_and_intercept_have_the_errors_of_a_cluster_robust_regression() -> None:
    """Values of statsmodels 0.15.0, ``GLM(...).fit(cov_type="cluster")``, with z as a term and as an offset."""
    rows = clustered_rows(clusters=120, size=20, spread=0.8, seed=11)
    result = cd.evaluate(rows.y, rows.p, {"it": cd.CalibrationSlope()}, ci=0.95, n_boot=600, groups=rows.g)
    for part, value, error in (("slope", 0.86713896, 0.05538129), ("intercept", 0.03788066, 0.081777)):
        assert float(result[f"it_{part}"]) == pytest.approx(value, abs=1e-6)
        reach = float(result[f"it_{part}_high"] - result[f"it_{part}_low"]) / 2
        assert reach / student(0.95, 120) == pytest.approx(error, rel=0.12)


@pytest.mark.parametrize(
    "metric",
    [
        cd.NetBenefit(),
        cd.MurphyCurve(),
        cd.ReliabilityDiagram(),
        cd.CORP(),
        cd.CStatistic(),
        cd.RiskCoverage(),
        cd.ICI(),
    ],
)
def test_other_metrics_have_intervals_of_clusters(metric: cd.NetBenefit) -> None:
    result = cd.evaluate(ROWS.y, ROWS.p, {"it": metric}, ci=0.9, n_boot=40, groups=ROWS.g)
    lows = [name for name in result.data_vars if name.endswith("_low")]
    assert lows
    assert all(result[name].attrs["resampled"] == "clusters" for name in lows)
    for low in lows:
        high = low.removesuffix("_low") + "_high"
        assert bool((result[low] <= result[high]).all())


def test_terms_at_an_extreme_have_no_design_effect() -> None:
    """Near a frequency of 1/2 the uncertainty varies with the square of the mean, and its ratio is that of squares."""
    rng = np.random.default_rng(3)
    groups = np.repeat(np.arange(70), 40)
    logits = np.r_[np.full(35, 1.5), np.full(35, -1.5)][groups]
    scores = 1 / (1 + np.exp(-logits))
    labels = rng.random(groups.size) < scores
    half, rare = (
        cd.evaluate(labels[rows], scores[rows], cd.BrierDecomposition(), groups=groups[rows], ci=0.95)
        for rows in (slice(None), groups >= 30)
    )
    assert np.isnan(float(half.brier_decomposition_uncertainty_design_effect))
    assert np.isfinite(float(half.brier_decomposition_uncertainty_low))
    assert 2 < float(rare.brier_decomposition_uncertainty_design_effect) < 60
    assert np.isfinite(float(half.brier_decomposition_resolution_design_effect))


def test_curves_of_a_calibrated_model_are_not_rejected() -> None:
    """Bands with `groups` exclude the diagonal of rare events as rarely as those of independent rows."""
    g, excluded = np.arange(1200) // 4, 0
    for seed in range(5):
        rng = np.random.default_rng(seed)
        p = 1 / (1 + np.exp(3.1 - 0.9 * rng.normal(size=1200)))
        y = rng.random(1200) < p
        curve = cd.reliability_curve(y, p, ci=0.95, n_boot=60, points=61, groups=g)
        inside = (curve.score >= p.min()) & (curve.score <= np.quantile(p, 0.995))
        outside = (curve.score < curve.reliability_band_low) | (curve.score > curve.reliability_band_high)
        excluded += bool((inside & outside).any())
    assert excluded <= 1


def test_bins_without_events_have_the_ends_of_their_rows() -> None:
    """A bin of 10 rows without an event, in a sample of 200 clusters, rests on 10 of them."""
    p = np.repeat([0.05, 0.5], [10, 390])
    y = np.r_[np.zeros(10), np.arange(390) % 2]
    ends = [
        cd.evaluate(y, p, {"it": cd.ReliabilityDiagram(bins=(0, 0.2, 1))}, ci=0.95, groups=groups).it_outcome_high
        for groups in (np.arange(400) % 200, None)
    ]
    assert float(ends[0][0]) >= float(ends[1][0]) - 1e-9


def test_ends_lie_within_the_bounds_of_the_number_and_few_events_have_none() -> None:
    """As without groups: a slope takes three events, a c statistic two, and a Brier score is at most 1."""
    p = np.full(40, 0.02)
    p[1::2] = 0.03
    y = np.arange(40) == 7
    metrics = {"brier": cd.BrierScore(), "slope": cd.CalibrationSlope(), "c": cd.CStatistic()}
    result = cd.evaluate(y, p, metrics, ci=0.95, groups=np.arange(40) // 4)
    assert 0 <= float(result.brier_low) <= float(result.brier) <= float(result.brier_high) <= 1
    assert np.isnan([result.slope_slope_low, result.slope_intercept_high, result.c_low]).all()
