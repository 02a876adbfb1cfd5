"""Ends of errors for decisions: by loops over signs and stakes, in all settings, from rows and summaries."""

import itertools
import math
from typing import Any

import numpy as np
import pytest
from scipy.stats import beta, chi2

import calibdask as cd
from calibdask.estimators.binned.cautious import CautiousECE

RNG = np.random.default_rng(5)
ROWS = 400
SCORES = RNG.beta(0.5, 1.5, ROWS)
LABELS = (RNG.random(ROWS) < SCORES**1.5).astype(int)
MATRIX = RNG.dirichlet(np.ones(3), ROWS)
CLASSES = (RNG.random(ROWS)[:, None] > MATRIX.cumsum(1)).sum(1).clip(0, 2)
CI = {"ci": 0.95}


def ends(result: Any, name: str = "cautious_ece") -> tuple[float, float]:
    return float(result[f"{name}_low"]), float(result[f"{name}_high"])


def required(alpha: float, strata: list[tuple[float, float, float]], rows: float) -> float:
    events = rows * sum(share * outcome * (1 - outcome) for share, outcome, _ in strata)
    mean = chi2.isf(alpha, 2 * events + 2) / 2
    return float(mean - events - (events * math.log(mean / events) if events else 0.0))


def ends_by_loops(strata: list[tuple[float, float, float]], rows: float, alpha: float) -> tuple[float, float]:
    """Of (share, frequency, mean score) by bin."""

    def log_capital(stake: float, signs: tuple[int, ...]) -> float:
        return sum(
            share * (o * math.log1p(stake * sign * (1 - s)) + (1 - o) * math.log1p(-stake * sign * s))
            for (share, o, s), sign in zip(strata, signs, strict=True)
        )

    every = list(itertools.product([-1, 1], repeat=len(strata)))
    one_sign = [tuple([sign] * len(strata)) for sign in (-1, 1)]
    lows, highs = [], []
    for stake in np.exp(np.linspace(math.log(1e-4), math.log(0.9999), 400)).tolist():
        least = min(log_capital(-stake, signs) for signs in every)
        highs.append((1 - math.exp(least - required(alpha, strata, rows) / rows)) / stake)
        most = max(log_capital(stake, signs) for signs in one_sign) - required(alpha / 2, strata, rows) / rows
        mean = sum(math.exp(rows * log_capital(stake, signs)) for signs in every) / len(every)
        mixed = (math.log(mean) - math.log(2 / alpha)) / rows
        lows.append((math.exp(max(most, mixed)) - 1) / stake)
    return max(0.0, *lows), min(1.0, *highs)


@pytest.mark.parametrize("slope", [0.5, 1.0, 3.0])
def test_ends_are_those_of_loops(slope: float) -> None:
    labels = (RNG.random(ROWS) < SCORES**slope).astype(int)
    edges = [0.0, 0.1, 0.4, 1.0]
    place = np.searchsorted(edges, SCORES) - 1
    strata = [((place == k).mean(), labels[place == k].mean(), SCORES[place == k].mean()) for k in range(3)]
    result = cd.evaluate(labels, SCORES, CautiousECE(bins=tuple(edges)), **CI)
    assert ends(result) == pytest.approx(ends_by_loops(strata, ROWS, 0.025), rel=2e-3, abs=1e-4)
    assert float(result.cautious_ece) == pytest.approx(cd.ece(labels, SCORES, bins=edges))


@pytest.mark.parametrize("rows", [1, 30, 1000])
def test_without_events_the_end_is_that_of_clopper_and_pearson(rows: int) -> None:
    result = cd.evaluate(np.zeros(rows, int), np.zeros(rows), CautiousECE(), **CI)
    assert ends(result) == pytest.approx((0.0, beta.isf(0.025, 1, rows)), rel=2e-3)


def test_equal_weights_are_none_and_unequal_ones_leave_fewer_rows() -> None:
    plain = cd.evaluate(LABELS, SCORES, CautiousECE(), **CI)
    equal = cd.evaluate(LABELS, SCORES, CautiousECE(), sample_weight=np.full(ROWS, 3.0), **CI)
    assert ends(equal) == pytest.approx(ends(plain))
    weights = np.where(np.arange(ROWS) % 10, 0.1, 5.0)
    unequal = cd.evaluate(LABELS, SCORES, CautiousECE(), sample_weight=weights, **CI)
    assert float(unequal.cautious_ece_effective_rows) == pytest.approx(weights.sum() ** 2 / (weights**2).sum())
    assert np.diff(ends(unequal)) > 1.5 * np.diff(ends(plain))


def test_settings() -> None:
    by_class = cd.evaluate(CLASSES, MATRIX, CautiousECE(setting="classwise"), **CI)
    each = [ends(cd.evaluate(CLASSES, MATRIX, CautiousECE(setting=k), **CI)) for k in range(3)]
    assert ends(by_class) == pytest.approx(tuple(np.mean(each, axis=0)))
    confidence = cd.evaluate(CLASSES, MATRIX, CautiousECE(setting="confidence"), **CI)
    right = (MATRIX.argmax(1) == CLASSES).astype(int)
    assert ends(confidence) == pytest.approx(ends(cd.evaluate(right, MATRIX.max(1), CautiousECE(), **CI)))


def test_of_the_largest_gap_each_bin_stands_by_itself() -> None:
    result = cd.evaluate(LABELS, SCORES, CautiousECE(bins=4, norm="max"), **CI)
    place = np.ceil(SCORES * 4).astype(int) - 1
    alone = [ends(cd.evaluate(LABELS[place == k], SCORES[place == k], CautiousECE(bins=1), **CI)) for k in range(4)]
    assert ends(result)[1] == pytest.approx(max(high for _, high in alone))
    assert ends(result)[0] <= max(low for low, _ in alone)
    assert float(result.cautious_ece) == pytest.approx(cd.mce(LABELS, SCORES, bins=4))


def test_a_common_sign_bounds_the_mean_gap() -> None:
    common = cd.evaluate(LABELS, SCORES, CautiousECE(signs="common"), **CI)
    assert float(common.cautious_ece) == pytest.approx(abs((LABELS - SCORES).mean()))
    assert ends(common)[1] < ends(cd.evaluate(LABELS, SCORES, CautiousECE(), **CI))[1]


def test_summaries_and_slices() -> None:
    by = {"day": np.arange(ROWS) % 3}
    metrics = {"a": CautiousECE(), "b": CautiousECE(binning="equal-mass", norm="max"), "c": CautiousECE(signs="common")}
    rows = cd.evaluate(LABELS, SCORES, metrics, by=by, **CI)
    summary = cd.summarize(LABELS, SCORES, by=by, settings=["binary"])
    stored = cd.evaluate(summary, metrics=metrics, **CI)
    for name in ("a_low", "a_high", "a_noise", "c_high"):
        np.testing.assert_allclose(stored[name], rows[name], atol=1e-5)
    alone = cd.evaluate(LABELS[::3], SCORES[::3], metrics, **CI)
    for name in ("a", "b", "c"):
        assert ends(rows.sel(day=0), name) == pytest.approx(ends(alone, name))
    assert cd.evaluate(LABELS, SCORES, {"ece": cd.ECE(), "cautious": CautiousECE()}, **CI).passes == 1


def test_slices_without_rows_have_none() -> None:
    by = {"day": [1, 1, 2, 2], "site": ["a", "a", "a", "b"]}
    result = cd.evaluate([0, 1, 1, 0], [0.2, 0.7, 0.4, 0.9], CautiousECE(), by=by, **CI)
    empty = result.sel(day=1, site="b")
    assert np.isnan(ends(empty)).all()
    assert float(empty.cautious_ece_effective_rows) == 0
