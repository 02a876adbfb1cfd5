"""The kinds of intervals: percentile, BCa, and what replicates of a histogram allow."""

from dataclasses import dataclass
from typing import Any

import dask.array as da
import numpy as np
import pytest
import xarray as xr
from numpy.typing import NDArray
from scipy.stats import binom, norm, skew
from typing_extensions import override

import calibdask as cd
from calibdask.estimators.about import Description, PartInfo
from calibdask.statistics.layout import Layout
from tests.front.scored_models import SETS, Array, binary, in_sets, multiclass, replicates
from tests.oracles import cost_reference as reference

COST = cd.ExcessCost(costs=[[0, 3.1, 1], [2, 0, 2.3], [0.7, 0.9, 0.8]], bins=3)


def skewed(rows: int, seed: int) -> tuple[NDArray[np.int64], Array, float]:
    """Labels and scores of many sets whose squared errors are lognormal with a skewness of 2.3, and their mean."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 2, SETS * rows)
    error = np.exp(rng.normal(-5, 0.6, labels.size) / 2)
    assert error.max() < 1
    return labels, np.abs(labels - error), float(np.exp(-5 + 0.18))


@dataclass(frozen=True)
class MeanSquare(cd.BrierScore):
    """The Brier score as a number that is no loss: the rows below lack scores on the wrong side of 1/2."""

    @override
    def describe(self, layout: Layout) -> Description:
        return {"": PartInfo("mean squared error", "statistic")}


def test_bca_intervals_follow_the_skew_and_cover() -> None:
    """400 sets of 100 rows with ends at 90 %.

    In simulations percentiles and BCa cover 88.6 %, and BCa ends are 3 % and 5 % of the length of the interval higher,
    with a spread over sets of 3.4 % and 5.2 %: 9 and 9 standard errors of the mean over sets lie above 1.5 % and 2.5 %.
    """
    labels, scores, truth = skewed(100, 34)
    ends = {}
    for method in ("percentile", "bca"):
        result = cd.evaluate(labels, scores, {"m": MeanSquare()}, by=in_sets(100), ci=0.9, n_boot=600, ci_method=method)
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


def rows_of_losses(squares: Array) -> tuple[Array, Array]:
    """Labels of either outcome in turn, and scores, whose squared errors are these."""
    labels = np.arange(len(squares)) % 2
    return labels, np.where(labels == 1, 1 - np.sqrt(squares), np.sqrt(squares))


def test_bca_of_one_set_follows_the_skew_either_way() -> None:
    """Skewed to the right, and with the mirrored errors to the left."""
    rng = np.random.default_rng(35)
    square = np.minimum(rng.lognormal(-3, 1.0, 150), 0.9)
    for squares, sign in ((square, 1), (0.95 - square, -1)):
        labels, scores = rows_of_losses(squares)
        options: dict[str, Any] = {"ci": 0.9, "n_boot": 2000}
        with_bca = cd.evaluate(labels, scores, {"m": cd.BrierScore()}, ci_method="bca", **options)
        plain = cd.evaluate(labels, scores, {"m": cd.BrierScore()}, ci_method="percentile", **options)
        assert sign * float(with_bca.m_low - plain.m_low) > 0
        assert sign * float(with_bca.m_high - plain.m_high) > 0


def level(ordered: Array, value: float) -> float:
    """The level of which a value is the quantile, of rank p (R + 1)."""
    return float(np.interp(value, ordered, np.arange(1, len(ordered) + 1) / (len(ordered) + 1)))


@pytest.mark.parametrize("ci", [0.8, 0.95])
def test_bca_ends_have_the_levels_of_one_acceleration(ci: float) -> None:
    """Solved for the acceleration, both ends give the same one; that of a mean is its skewness / (6 sqrt n).

    From 10 groups or more its standard error is at most 0.041: the skewness of g groups is off by sqrt(6 / g), and is
    divided by 6 sqrt(g).
    """
    rng = np.random.default_rng(40)
    square = np.minimum(rng.lognormal(-3, 1.0, 200), 0.9)
    (labels, scores), n_boot = rows_of_losses(square), 3000
    result = cd.evaluate(labels, scores, {"m": cd.BrierScore()}, ci=ci, n_boot=n_boot, seed=6, ci_method="bca")
    counts = reference.poisson_counts(200, n_boot, 6)
    drawn = np.sort((counts * square).sum(1) / counts.sum(1))
    theta = square.mean()
    shift = norm.ppf(((drawn < theta).sum() + (drawn == theta).sum() / 2) / n_boot)
    actual = []
    for end, tail in (("low", (1 - ci) / 2), ("high", (1 + ci) / 2)):
        moved = shift + norm.ppf(tail)
        at = norm.ppf(level(drawn, float(result[f"m_{end}"])))
        actual.append((1 - moved / (at - shift)) / moved)
    assert actual[0] == pytest.approx(actual[1], abs=1e-6)
    assert actual[0] == pytest.approx(skew(square) / (6 * np.sqrt(200)), abs=3 * 0.041)
    assert actual[0] > 0


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


@pytest.mark.parametrize(
    ("method", "chunks"), [("percentile", 300), ("bca", 37), ("corrected", 300), ("corrected", 37), (None, 37)]
)
def test_kinds_of_intervals_do_not_depend_on_chunks(method: Any, chunks: int) -> None:
    labels, models = multiclass(300, 37)
    scores, day = models["vgg"], np.arange(300) % 2
    metrics = {"brier": cd.BrierScore(), "log": cd.LogLoss(), "ece": cd.ECE(bins=5), "cost": COST}
    options: dict[str, Any] = {"ci": 0.9, "n_boot": 40, "seed": 3, "ci_method": method}
    expected = cd.evaluate(labels, scores, metrics, by={"day": day}, **options)
    lazy = da.from_array(labels, chunks=chunks), da.from_array(scores, chunks=(chunks, 2))
    actual = cd.evaluate(*lazy, metrics, by={"day": day}, **options)
    xr.testing.assert_allclose(actual.drop_attrs(), expected.drop_attrs(), rtol=1e-12, atol=1e-12)
    plain = cd.evaluate(labels, scores, metrics, by={"day": day})
    for name in metrics:
        assert (expected[f"{name}_low"] < expected[f"{name}_high"]).all(), name
        np.testing.assert_array_equal(expected[name], plain[name])


@pytest.mark.parametrize("method", ["basic", "BCA", "", 3])
def test_unknown_kinds_of_intervals(method: Any) -> None:
    labels, scores, _, _ = binary(40, 38)
    with pytest.raises(ValueError, match="ci_method expects one of 'corrected', 'percentile', 'bca'"):
        cd.evaluate(labels, scores, cd.BrierScore(), ci=0.9, n_boot=5, ci_method=method)
