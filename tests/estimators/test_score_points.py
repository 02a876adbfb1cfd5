"""CORP, cumulative errors and decompositions of log-loss against loops, identities and known values."""

import math
from typing import Any

import dask.array as da
import numpy as np
import pytest
import xarray as xr
from hypothesis import given, settings
from numpy.typing import NDArray
from sklearn.isotonic import IsotonicRegression

import calibdask as cd
from calibdask.estimators.ordered.cumulative import exceeded_maximum, exceeded_range
from calibdask.statistics.order import distinct
from tests import strategies
from tests.combinations import pairwise
from tests.oracles import reference
from tests.strategies import user_arrays

Floats = NDArray[np.float64]


def column(rng: np.random.Generator, rows: int, kind: str) -> tuple[NDArray[np.int64], Floats, Floats]:
    """Labels, scores and weights."""
    scores = rng.random(rows) if kind == "smooth" else rng.integers(0, 5, rows) / 4
    return rng.integers(0, 2, rows), scores, rng.random(rows) + 0.1


def loss(rule: str, s: float, y: int) -> float:
    if rule == "brier":
        return (s - y) ** 2
    p = s if y else 1 - s
    return -math.log(max(p, 5e-324))


@pytest.mark.parametrize("rule", ["brier", "log"])
@pytest.mark.parametrize("kind", ["smooth", "ties"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("rows", [1, 2, 30, 1000])
def test_corp(rule: Any, kind: str, weighted: bool, rows: int) -> None:
    y, s, w = column(np.random.default_rng(rows), rows, kind)
    w = w if weighted else np.ones(rows)
    fitted = IsotonicRegression(y_min=0, y_max=1).fit(s, y, sample_weight=w).predict(s)
    base = np.full(rows, (w * y).sum() / w.sum())
    mean = [sum(w[i] * loss(rule, p[i], y[i]) for i in range(rows)) / w.sum() for p in (s, fitted, base)]
    actual = cd.evaluate(y, s, {"c": cd.CORP(rule=rule)}, sample_weight=w if weighted else None)
    expected = {
        "score": mean[0],
        "miscalibration": mean[0] - mean[1],
        "discrimination": mean[2] - mean[1],
        "uncertainty": mean[2],
    }
    for name, value in expected.items():
        assert float(actual[f"c_{name}"]) == pytest.approx(value, rel=1e-12, abs=1e-13), name
    assert float(actual.c_miscalibration) >= -1e-15
    assert float(actual.c_discrimination) >= -1e-15


@settings(max_examples=25, deadline=None)
@given(strategies.data(max_batch=2))
def test_scores_are_sums_of_their_parts(data: strategies.Data) -> None:
    labels, scores, options = user_arrays(data)
    if options["sample_weight"] is not None and not options["sample_weight"].any():
        return
    metrics = {
        "corp": cd.CORP(),
        "log": cd.CORP(rule="log"),
        # The terms of a matrix are sums over its columns.
        "brier": cd.BrierScore(reduction="sum"),
        "parts": cd.BrierDecomposition(bins=4),
        "less": cd.BrierDecomposition(bins=4, debias=True),
        "ll": cd.LogLossDecomposition(bins=4),
    }
    r = cd.evaluate(labels, scores, metrics, **options)
    for name in ("corp", "log"):
        parts = r[f"{name}_miscalibration"] - r[f"{name}_discrimination"] + r[f"{name}_uncertainty"]
        xr.testing.assert_allclose(parts, r[f"{name}_score"], rtol=1e-12, atol=1e-14)
    xr.testing.assert_allclose(r.corp_score, r.brier, rtol=1e-6 if data.layout.dtype == "float32" else 1e-12)
    for name in ("parts", "less"):
        total = r[f"{name}_reliability"] - r[f"{name}_resolution"] + r[f"{name}_uncertainty"]
        total = total + r[f"{name}_within_variance"] - r[f"{name}_within_covariance"]
        xr.testing.assert_allclose(total, r[f"{name}_score"], rtol=1e-12, atol=1e-13)
    total = r.ll_reliability - r.ll_resolution + r.ll_uncertainty + r.ll_within
    xr.testing.assert_allclose(total, r.ll_score, rtol=1e-12, atol=1e-13)
    xr.testing.assert_allclose(r.log_score, r.ll_score, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(("closed", "kind", "weighted"), pairwise(["right", "left"], ["smooth", "ties"], [False, True]))
def test_brier_decomposition(closed: Any, kind: str, weighted: bool) -> None:
    y, s, w = column(np.random.default_rng(11), 200, kind)
    w = np.where(np.arange(200) % 7 > 0, w, 0.0) if weighted else np.ones(200)
    binnings = {"uniform": reference.uniform_edges(8), "equal-mass": reference.equal_mass_edges(s, 8, w)}
    for binning, edges in binnings.items():
        metric = cd.BrierDecomposition(bins=8, binning=binning, closed=closed)  # type: ignore[arg-type]
        actual = cd.evaluate(y, s, {"b": metric}, sample_weight=w if weighted else None)
        expected = reference.brier_decomposition(s, y, edges, closed, w)
        assert {name: float(actual[f"b_{name}"]) for name in expected} == pytest.approx(expected, rel=1e-11, abs=1e-12)


def cumulative(y: NDArray[np.int64], s: Floats, w: Floats, *, weighted: bool) -> tuple[float, float, float]:
    """Largest deviation, range and sigma, by a loop over distinct scores; sigma is NaN where there is no p-value."""
    walk, third = [0.0], 0.0
    for score in np.unique(s):
        here = s == score
        walk.append(walk[-1] + float((w[here] * (y[here] - score)).sum()) / float(w.sum()))
        third += float((w[here] ** 2).sum() ** 2 / w[here].sum() * score * (1 - score) * (1 - 2 * score))
    variance = float((w**2 * s * (1 - s)).sum())
    is_skewed = abs(third) > variance**1.5
    if weighted:
        variance = max(variance, float((w**2 * (y - s) ** 2).sum()))
    sigma = math.sqrt(variance) / float(w.sum())
    has_pvalue = not is_skewed and not (weighted and len(set(y.tolist())) == 1)
    return max(map(abs, walk)), max(walk) - min(walk), sigma if has_pvalue else math.nan


@pytest.mark.parametrize("kind", ["smooth", "ties"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("rows", [2, 5, 60])
def test_cumulative_errors(kind: str, weighted: bool, rows: int) -> None:
    y, s, w = column(np.random.default_rng(rows), rows, kind)
    w = w if weighted else np.ones(rows)
    mad, span, sigma = cumulative(y, s, w, weighted=weighted)
    metrics = {"mad": cd.ECCE(), "range": cd.ECCE(kind="range")}
    r = cd.evaluate(y, s, metrics, sample_weight=w if weighted else None)
    assert float(r.mad) == pytest.approx(mad, rel=1e-12)
    assert float(r.range) == pytest.approx(span, rel=1e-12)
    if (kind, weighted, rows) == ("ties", True, 5):
        # One outcome has two rows of unequal weight.
        assert "fewer than 4 effective rows" in r.mad_pvalue.attrs["undefined"]
    elif math.isnan(sigma):
        assert math.isnan(r.mad_pvalue)
        assert math.isnan(r.range_pvalue)
    elif sigma > 0:
        assert float(r.mad_pvalue) == pytest.approx(float(exceeded_maximum(np.array(mad / sigma))), rel=1e-9)
        assert float(r.range_pvalue) == pytest.approx(float(exceeded_range(np.array(span / sigma))), rel=1e-9)


def test_distributions_of_a_walk() -> None:
    """Published values, both forms of each series where they meet, and tails without cancellation."""
    at = np.array([1.0, 2.0, 3.0])
    np.testing.assert_allclose(1 - exceeded_maximum(at), [0.370777, 0.908999, 0.9946], atol=1e-6)
    np.testing.assert_allclose(1 - exceeded_range(at), [0.063365, 0.818506, 0.989201], atol=1e-6)
    for exceeded in (exceeded_maximum, exceeded_range):
        below, above = exceeded(np.array([2 - 1e-12, 2.0]))
        assert below == pytest.approx(above, rel=1e-10)
        assert exceeded(np.array(0.0)) == 1
        assert 0 < exceeded(np.array(30.0)) < 1e-150
        assert (np.diff(exceeded(np.linspace(0, 8, 200))) <= 0).all()


def test_levels_of_cumulative_tests() -> None:
    """400 calibrated data sets, 5 %: from 8 to 35 rejections but for a chance of 0.1 %. The walk is discrete: fewer."""
    rng = np.random.default_rng(5)
    scores = rng.random((400, 2000))
    labels = (rng.random(scores.shape) < scores).astype(int)
    r = cd.evaluate(labels, scores, {"mad": cd.ECCE(), "range": cd.ECCE(kind="range")}, task="binary")
    for name in ("mad", "range"):
        assert 8 <= int((r[f"{name}_pvalue"] < 0.05).sum()) <= 35, name


def test_too_many_distinct_scores_go_to_the_grid(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(6)
    y, s, _ = column(rng, 3000, "smooth")
    metrics = {"corp": cd.CORP(), "log": cd.CORP(rule="log"), "ecce": cd.ECCE()}
    exact = cd.evaluate(y, s, metrics)
    assert exact.corp_score.attrs["points"] == "distinct scores"
    monkeypatch.setattr(distinct, "_FEWEST", 100)
    monkeypatch.setattr(distinct, "_MOST", 100)
    for chunk in (3000, 700):
        near = cd.evaluate(da.from_array(y, chunks=chunk), da.from_array(s, chunks=chunk), metrics)
        assert near.corp_score.attrs["points"] == "cells of a fine grid of scores"
        for name in exact:
            assert float(near[name]) == pytest.approx(float(exact[name]), abs=2e-3), name


@pytest.mark.parametrize("limit", [1, 3, 7, 20])
def test_giving_up_does_not_depend_on_chunks(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distinct, "_FEWEST", limit)
    monkeypatch.setattr(distinct, "_MOST", limit)
    rng = np.random.default_rng(limit)
    y, s = rng.integers(0, 3, 60), rng.multinomial(4, [0.3, 0.3, 0.4], 60) / 4
    metrics = {"corp": cd.CORP(), "ecce": cd.ECCE(setting="classwise")}
    whole = cd.evaluate(y, s, metrics)
    for chunk in (1, 7, 25):
        result = cd.evaluate(da.from_array(y, chunks=chunk), da.from_array(s, chunks=(chunk, 3)), metrics)
        xr.testing.assert_identical(result.drop_attrs(), whole.drop_attrs())


def test_debiased_terms_are_unbiased() -> None:
    """Means over 2000 data sets of 60 rows in 3 bins against the true terms: within 5 standard errors."""
    rng = np.random.default_rng(7)
    levels, truth = np.array([0.1, 0.5, 0.9]), np.array([0.2, 0.4, 0.9])
    place = np.repeat(np.arange(3), 20)
    labels = (rng.random((2000, 60)) < truth[place]).astype(int)
    scores = np.broadcast_to(levels[place], labels.shape)
    r = cd.evaluate(labels, scores, {"b": cd.BrierDecomposition(bins=3, debias=True)}, task="binary")
    base = truth.mean()
    expected = {
        "reliability": ((truth - levels) ** 2).mean(),
        "resolution": ((truth - base) ** 2).mean(),
        "uncertainty": base * (1 - base),
    }
    for name, value in expected.items():
        values = r[f"b_{name}"].values
        # Rows of fixed scores: the total frequency varies less than that of independent rows, by 1/59 of its variance.
        slack = 0.003 if name != "reliability" else 0.0
        assert abs(values.mean() - value) < 5 * values.std() / math.sqrt(2000) + slack, name


def test_intervals_of_the_uncertainty_of_several_classes_hold_it() -> None:
    """The sum over classes may exceed 1/4, the most of a single one."""
    rng = np.random.default_rng(7)
    labels, scores = rng.choice(3, 400, p=[0.6, 0.3, 0.1]), rng.dirichlet(np.ones(3), 400)
    result = cd.evaluate(labels, scores, {"b": cd.BrierDecomposition(bins=4)}, ci=0.9, n_boot=40)
    assert 0.4 < result.b_uncertainty_low < result.b_uncertainty < result.b_uncertainty_high


@pytest.mark.parametrize("rarer", [0, 1])
def test_terms_of_bins_have_no_ends_where_either_outcome_is_rare(rarer: int) -> None:
    scores = np.tile([0.2, 0.4, 0.6, 0.8], 100)
    for count, has_ends in ((3, False), (150, True)):
        labels = np.full(400, 1 - rarer)
        labels[np.random.default_rng(1).permutation(400)[:count]] = rarer
        result = cd.evaluate(labels, scores, {"b": cd.BrierDecomposition(bins=4)}, ci=0.9, n_boot=20)
        assert bool(np.isfinite(result.b_refinement_loss_low)) == has_ends, count
