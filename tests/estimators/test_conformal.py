"""Conformal thresholds against sorting, the exact law of their coverage, and what a summary tells of them."""

import math
from fractions import Fraction
from typing import Any

import dask.array as da
import numpy as np
import pytest
import scipy
from numpy.typing import NDArray
from scipy.stats import binom

import calibdask as cd


def direct(labels: Any, scores: Any, alpha: str, weights: Any = None) -> tuple[float, NDArray[Any]]:
    """The threshold by sorting, and for each row and class whether it is in the set."""
    matrix = np.asarray(scores, np.float64)
    matrix = np.stack([1 - matrix, matrix], 1) if matrix.ndim == 1 else matrix
    distances = 1 - matrix[np.arange(len(labels)), labels]
    distances = np.sort(distances if weights is None else np.repeat(distances, weights))
    rank = math.ceil((distances.size + 1) * (1 - Fraction(alpha)))
    threshold = distances[rank - 1] if rank <= distances.size else 1.0
    return float(threshold), 1 - matrix <= threshold


def drawn(kind: str, rows: int, dtype: Any = np.float64, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng([seed, rows])
    scores = rng.dirichlet([0.5, 0.5, 0.5], rows).astype(dtype)
    labels = np.minimum((rng.random(rows)[:, None] > scores.cumsum(1)).sum(1), 2)
    if kind == "ties":
        scores = np.eye(3)[rng.integers(0, 3, rows)] * 0.5 + np.array([0.25, 0.125, 0.125])
    return (labels, scores) if kind != "vector" else ((labels == 1).astype(int), scores[:, 1])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", ["matrix", "vector", "ties"])
@pytest.mark.parametrize("rows", [1, 9, 10, 200, 30_000])
def test_threshold_is_the_order_statistic(rows: int, kind: str, dtype: Any) -> None:
    labels, scores = drawn(kind, rows, dtype)
    for alpha in ("0.1", "0.7", "0.05"):
        threshold, inside = direct(labels, scores, alpha)
        result = cd.evaluate(labels, scores, {"c": cd.ConformalThreshold(alpha=float(alpha))})
        assert float(result.c_threshold) == threshold
        assert float(result.c_coverage) == inside[np.arange(rows), labels].mean()
        assert float(result.c_size) == pytest.approx(inside.sum(1).mean(), rel=1e-12)
        for c in set(labels.tolist()):
            of_class = inside[labels == c]
            assert float(result.c_class_coverage.sel({"class": c})) == of_class[:, c].mean()
            assert float(result.c_class_size.sel({"class": c})) == pytest.approx(of_class.sum(1).mean())


def test_ranks_are_exact_where_floats_are_not() -> None:
    """(9 + 1) (1 - 0.7) is 3, and 3.0000000000000004 in doubles."""
    scores = np.linspace(0.1, 0.9, 9)
    result = cd.evaluate(np.ones(9, int), scores, cd.ConformalThreshold(alpha=0.7))
    assert float(result.conformal_threshold_threshold) == 1 - scores[-3]


def test_too_few_rows_have_sets_of_all_classes() -> None:
    labels, scores = drawn("matrix", 24)
    slices = np.repeat([0, 1], [8, 16])
    result = cd.evaluate(labels, scores, {"c": cd.ConformalThreshold()}, by={"g": slices}, ci=0.9)
    assert float(result.c_threshold[0]) == float(result.c_coverage[0]) == 1.0
    assert float(result.c_coverage_low[0]) == 1.0
    assert float(result.c_size[0]) == 3.0
    assert result.c_threshold.attrs["all_classes"] == 1
    assert float(result.c_threshold[1]) < 1.0


def test_thresholds_of_slices_and_of_all() -> None:
    labels, scores = drawn("matrix", 3000)
    slices = np.arange(3000) % 3
    metrics = {"own": cd.ConformalThreshold(), "all": cd.ConformalThreshold(pooled=True)}
    result = cd.evaluate(labels, scores, metrics, by={"g": slices})
    threshold, inside = direct(labels, scores, "0.1")
    assert (result.all_threshold == threshold).all()
    hits = inside[np.arange(3000), labels]
    for g in range(3):
        assert float(result.all_coverage[g]) == pytest.approx(hits[slices == g].mean())
        assert float(result.own_threshold[g]) == direct(labels[slices == g], scores[slices == g], "0.1")[0]
    given = cd.evaluate(labels, scores, cd.ConformalThreshold(threshold=threshold), by={"g": slices})
    np.testing.assert_array_equal(given.conformal_threshold_coverage, result.all_coverage)


def test_whole_weights_repeat_rows() -> None:
    labels, scores = drawn("matrix", 300)
    weights = np.random.default_rng(2).integers(0, 4, 300)
    threshold, inside = direct(labels, scores, "0.1", weights)
    result = cd.evaluate(labels, scores, {"c": cd.ConformalThreshold()}, sample_weight=weights)
    assert float(result.c_threshold) == threshold
    hits = inside[np.arange(300), labels]
    assert float(result.c_coverage) == pytest.approx(np.average(hits, weights=weights))


def test_chunks_make_no_difference_to_many_rows() -> None:
    labels, scores = drawn("matrix", 200_000, np.float32)
    lazy = da.from_array(labels, chunks=7777), da.from_array(scores, chunks=(12_345, 3))
    result, chunked = (
        cd.evaluate(*rows, {"c": cd.ConformalThreshold(alpha=0.01)}) for rows in ((labels, scores), lazy)
    )
    assert float(result.c_threshold) == direct(labels, scores, "0.01")[0]
    for name in result.data_vars:
        np.testing.assert_array_equal(result[name], chunked[name], err_msg=str(name))


def test_coverage_of_further_rows_has_the_beta_law() -> None:
    """The coverage given each of 4000 calibration sets is known: labels of score u, u uniform, have 1 - u <= q."""
    rows, sets = 50, 4000
    rng = np.random.default_rng(3)
    of_label = rng.random((sets, rows))
    result = cd.evaluate(np.ones((sets, rows), int), of_label, {"c": cd.ConformalThreshold()}, task="binary", ci=0.9)
    coverage = result.c_threshold.values
    law = scipy.stats.beta(46, 5)
    assert scipy.stats.kstest(coverage, law.cdf).pvalue > 1e-5
    np.testing.assert_allclose(result.c_coverage_low, law.ppf(0.05))
    np.testing.assert_allclose(result.c_coverage_high, law.ppf(0.95))
    assert coverage.mean() >= 0.9 - 5 * law.std() / np.sqrt(sets)
    # At most sets / 5 may miss: at least one row in ten lies in none of 4000 means.
    covering = ((result.c_coverage_low <= coverage) & (coverage <= result.c_coverage_high)).sum()
    assert binom.ppf(1e-5, sets, 0.9) <= int(covering) <= binom.isf(1e-5, sets, 0.9)


@pytest.mark.parametrize("steps", [1, 4, 20])
@pytest.mark.parametrize("weighted", [False, True])
def test_intervals_of_tied_scores_cover(steps: int, weighted: bool) -> None:
    """Scores of the label are 1/steps, ..., 1, each as often as the others."""
    rows, sets = 60, 3000
    rng = np.random.default_rng([5, steps])
    place = rng.integers(1, steps + 1, (sets, rows))
    weights = rng.integers(1, 4, rows) if weighted else None
    labels = np.broadcast_to(np.arange(rows) % 2, place.shape)
    result = cd.evaluate(
        labels,
        np.where(labels == 1, place / steps, 1 - place / steps),
        {"c": cd.ConformalThreshold()},
        task="binary",
        sample_weight=weights,
        ci=0.9,
    )
    # Places from this one on have 1 - score up to the threshold.
    first = np.round((1 - result.c_threshold) * steps)
    truth = 1 - (first - 1) / steps
    low, high = result.c_coverage_low, result.c_coverage_high
    assert ((low <= result.c_coverage) & (result.c_coverage <= high)).all()
    assert int(((low <= truth) & (truth <= high + 1e-12)).sum()) >= binom.ppf(1e-5, sets, 0.9)


@pytest.mark.parametrize("labels", [np.arange(60) % 2, np.ones(60, int)], ids=["weights by label", "one label"])
def test_weights_that_may_depend_on_the_label_have_no_interval(labels: np.ndarray) -> None:
    scores = np.linspace(0.02, 0.98, 60)
    weights = np.where(labels == 1, 4.0, 1.0)
    result = cd.evaluate(labels, scores, {"c": cd.ConformalThreshold()}, sample_weight=weights, ci=0.9)
    for part in ("coverage", "size"):
        assert np.isfinite(result[f"c_{part}"])
        assert np.isnan(result[f"c_{part}_low"])
        assert "depend on the label" in result[f"c_{part}"].attrs["no_interval"]
    assert np.isfinite(result.c_class_coverage_low.values[1])


@pytest.mark.parametrize("rows", [30, 300])
def test_intervals_of_a_given_threshold_cover(rows: int) -> None:
    sets = 300
    rng = np.random.default_rng([4, rows])
    scores = rng.random((sets, rows))
    labels = (rng.random(scores.shape) < scores).astype(int)
    result = cd.evaluate(labels, scores, {"c": cd.ConformalThreshold(threshold=0.8)}, task="binary", ci=0.9)
    # Sets have both classes for scores in [0.2, 0.8]; else they lack the label with the smaller probability.
    truth = {"coverage": 1 - 0.2**2, "size": 1.6}
    for part, value in truth.items():
        low, high = result[f"c_{part}_low"], result[f"c_{part}_high"]
        assert int(((low <= value) & (value <= high)).sum()) >= binom.ppf(1e-5, sets, 0.9), part


def test_summaries_are_on_the_safe_side() -> None:
    labels, scores = drawn("matrix", 20_000)
    slices = {"g": np.arange(20_000) % 2}
    metrics = {"own": cd.ConformalThreshold(), "all": cd.ConformalThreshold(pooled=True)}
    rows = cd.evaluate(labels, scores, metrics, by=slices)
    stored = cd.evaluate(cd.summarize(labels, scores, by=slices), metrics=metrics)
    for name in metrics:
        excess = (stored[f"{name}_threshold"] - rows[f"{name}_threshold"]).values
        assert ((excess >= 0) & (excess <= 1 / 3600 + 1e-12)).all()
        assert (stored[f"{name}_coverage"] >= rows[f"{name}_coverage"]).all()
        np.testing.assert_allclose(stored[f"{name}_size"], rows[f"{name}_size"], atol=0.01)
        assert np.isnan(stored[f"{name}_class_size"]).all()


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ({"alpha": 0}, "alpha expects"),
        ({"alpha": 1.0}, "alpha"),
        ({"alpha": "few"}, "alpha"),
        ({"alpha": True}, "alpha"),
        ({"threshold": 1.5}, "threshold expects"),
        ({"pooled": 1}, "pooled expects True or False"),
    ],
)
def test_bad_choices(choices: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        cd.ConformalThreshold(**choices)
