"""Bins, curve and axis of pictures: where they go, what they leave out, and how often their intervals hold."""

from typing import Any

import dask.array as da
import numpy as np
import pytest
import xarray as xr

import calibdask as cd
from calibdask.estimators.smooth.adaptive import AdaptiveCurve, AdaptiveDiagram
from calibdask.estimators.smooth.score_axis import BARS

BOTH = {"d": AdaptiveDiagram(), "c": AdaptiveCurve()}


def skewed(rows: int = 20_000) -> tuple[np.ndarray, np.ndarray]:
    """Scores of a portfolio: half of them below 5 %, few above 50 %."""
    rng = np.random.default_rng(3)
    scores = 1 / (1 + np.exp(-rng.normal(-3, 1.2, rows)))
    return (rng.random(rows) < scores).astype(int), scores


def axis(scores: Any, choice: Any = "auto") -> dict[str, float]:
    scores = np.asarray(scores, np.float64)
    result = cd.evaluate(np.arange(scores.size) % 2, scores, {"d": AdaptiveDiagram(axis=choice)})
    return {name: float(result[f"d_{name}"]) for name in ("logit", "left", "right", "below", "above")}


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        (np.linspace(0, 1, 1000), {"logit": 0, "left": 0, "right": 1, "below": 0, "above": 0}),
        (np.r_[np.linspace(0.01, 0.3, 995), [0.4, 0.5, 0.6, 0.8, 0.9]], {"logit": 0, "left": 0, "above": 5}),
        (1 - np.r_[np.linspace(0.01, 0.3, 995), [0.4, 0.5, 0.6, 0.8, 0.9]], {"logit": 0, "right": 1, "below": 5}),
        (np.logspace(-4, -1, 1000), {"logit": 1}),
        (np.r_[np.logspace(-4, -1, 500), 1 - np.logspace(-4, -1, 500)], {"logit": 1}),
        # Logits would hide half of these.
        (np.repeat([0.0, 1.0], 500), {"logit": 0, "left": 0, "right": 1, "below": 0, "above": 0}),
        (np.full(40, 0.25), {"logit": 0, "left": 0, "above": 0}),
    ],
    ids=["uniform", "small", "large", "rare", "both-ends", "saturated", "equal"],
)
def test_axis_that_scores_ask_for(scores: np.ndarray, expected: dict[str, float]) -> None:
    chosen = axis(scores)
    assert {name: chosen[name] for name in expected} == expected
    assert ((scores < chosen["left"]).sum(), (scores > chosen["right"]).sum()) == (chosen["below"], chosen["above"])


def test_axis_that_was_chosen() -> None:
    _, scores = skewed()
    assert axis(scores, "full") == {"logit": 0, "left": 0, "right": 1, "below": 0, "above": 0}
    for choice in ("quantile", "logit"):
        chosen = axis(scores, choice)
        assert chosen["logit"] == (choice == "logit")
        assert abs(scores.size * 0.005 - chosen["below"]) < 20
        assert abs(scores.size * 0.005 - chosen["above"]) < 20
        assert chosen["left"] == pytest.approx(np.quantile(scores, 0.005), abs=3e-4)
        assert chosen["right"] == pytest.approx(np.quantile(scores, 0.995), abs=3e-4)
    assert axis(np.zeros(10), "logit")["below"] == 10, "all of them are said to be beyond"


@pytest.mark.parametrize("options", [{"axis": "log"}, {"bins": 0}, {"bins": "sqrt"}, {"binning": "isotonic"}])
def test_refused(options: Any) -> None:
    with pytest.raises(ValueError, match=f"{next(iter(options))} expects"):
        AdaptiveDiagram(**options)


def test_bins_hold_all_rows() -> None:
    labels, scores = skewed()
    for options in ({}, {"binning": "uniform"}, {"bins": 7, "axis": "logit"}, {"bins": 30, "axis": "quantile"}):
        d = cd.evaluate(labels, scores, {"d": AdaptiveDiagram(**options)})  # type: ignore[arg-type]
        on = d.d_count.values > 0
        lower, upper = d.d_lower.values[on], d.d_upper.values[on]
        assert (d.d_count.sum(), lower[0], upper[-1]) == (scores.size, 0.0, 1.0)
        np.testing.assert_array_equal(lower[1:], upper[:-1])
        for start, end, score, outcome, count in zip(
            lower, upper, d.d_score.values[on], d.d_outcome.values[on], d.d_count.values[on], strict=True
        ):
            inside = (scores > start) & (scores <= end)
            assert (inside.sum(), labels[inside].mean()) == (count, pytest.approx(outcome, rel=1e-12))
            assert scores[inside].mean() == pytest.approx(score, rel=1e-9)
        bars = d.d_bars.values
        assert (bars.size, bars.sum() + d.d_below + d.d_above) == (BARS, scores.size)


def test_bins_that_scores_ask_for() -> None:
    labels, scores = skewed()
    crowded = cd.evaluate(labels, scores, {"d": AdaptiveDiagram(axis="full")})
    counts = crowded.d_count.values[crowded.d_count.values > 0]
    assert crowded.d_masses == 1
    assert counts.size == 15
    np.testing.assert_allclose(counts, scores.size / 15, rtol=0.05)
    even = cd.evaluate(labels, np.linspace(0, 1, scores.size), BOTH)
    expected = cd.reliability_diagram(labels, np.linspace(0, 1, scores.size))
    np.testing.assert_allclose(even.d_outcome[even.d_count > 0], expected.outcome, rtol=1e-12)
    few = cd.evaluate(labels[:30], np.linspace(0, 1, 30), {"d": AdaptiveDiagram()})
    assert (few.d_count > 0).sum() == 3


def test_curve_is_the_fit_to_rows() -> None:
    """One point, from the formula."""
    rng = np.random.default_rng(0)
    scores = rng.random(400)
    labels = (rng.random(400) < scores**2).astype(float)
    curve = cd.evaluate(labels, scores, {"c": AdaptiveCurve()})
    at = 100
    s = float(curve.c_score[at])
    distance = np.abs(scores - s)
    reach = min(np.sort(distance)[int(np.ceil(1.6 * 400**0.8)) - 1], 0.15)
    kernel = np.where(distance <= reach, (1 - (distance / (1.01 * reach)) ** 3) ** 3, 0.0)
    away = scores - s
    ridge = np.diag([0.0, 10 * reach**2])
    moments = np.array([[kernel.sum(), kernel @ away], [kernel @ away, kernel @ away**2]]) + ridge
    a, _ = np.linalg.solve(moments, [kernel @ (labels - scores), (kernel * away) @ (labels - scores)])
    assert float(curve.c_reliability[at]) == pytest.approx(s + a, abs=2e-4)


def test_curve_ends_with_the_rows_and_does_not_oscillate() -> None:
    rng = np.random.default_rng(8)
    scores = np.r_[rng.beta(1, 12, 20_000), [0.95, 0.951, 0.952]]
    labels = (rng.random(scores.size) < scores).astype(int)
    c = cd.evaluate(labels, scores, {"c": AdaptiveCurve(axis="full"), "old": cd.ReliabilityCurve()})
    known = np.isfinite(c.c_reliability.values)
    score, fitted = c.c_score.values[known], c.c_reliability.values[known]
    assert 0.4 < score.max() < 0.75
    old = np.interp(score, c.old_score, np.nan_to_num(c.old_reliability))

    def falls(curve: np.ndarray) -> float:
        return float(-np.minimum(np.diff(curve), 0).sum())

    assert falls(fitted) < 0.25 * falls(old), "the frequency rises, and so does the curve"


@pytest.mark.parametrize(("labels", "scores"), [([0, 1] * 15, np.linspace(0, 1, 30)), ([1] * 5, np.full(5, 0.3))])
def test_no_curve_of_few_rows(labels: list[int], scores: np.ndarray) -> None:
    assert np.isnan(cd.evaluate(labels, scores, {"c": AdaptiveCurve()}).c_reliability).all()


def test_scores_of_two_values_have_no_curve_between() -> None:
    curve = cd.evaluate([0, 1] * 500, [0.0, 1.0] * 500, {"c": AdaptiveCurve()})
    assert np.flatnonzero(np.isfinite(curve.c_reliability)).tolist() == [0, 200]


def test_chunks_and_summaries_do_not_matter() -> None:
    labels, scores = skewed(5000)
    whole = cd.evaluate(labels, scores, BOTH, ci=0.9)
    parts = cd.evaluate(da.from_array(labels, chunks=701), da.from_array(scores, chunks=701), BOTH, ci=0.9)
    stored = cd.evaluate(cd.summarize(labels, scores, settings=["binary"]), metrics=BOTH, ci=0.9)
    for other in (parts, stored):
        for name in whole.data_vars:
            np.testing.assert_array_equal(whole[name], other[name], err_msg=str(name))
    assert whole.attrs["passes"] == 1


def test_weights_count_as_rows() -> None:
    labels, scores = skewed(3000)
    times = np.random.default_rng(1).integers(0, 4, scores.size)
    weighted = cd.evaluate(labels, scores, BOTH, sample_weight=times, ci=0.9)
    repeated = cd.evaluate(np.repeat(labels, times), np.repeat(scores, times), {"d": AdaptiveDiagram(), **BOTH})
    np.testing.assert_allclose(weighted.d_weight.sum(), repeated.d_weight.sum())
    on = weighted.d_count.values > 0
    np.testing.assert_allclose(weighted.d_outcome[on], repeated.d_outcome[on], rtol=1e-9)
    assert float(weighted.d_count.sum()) == (times > 0).sum()


def test_slices_and_classes_have_axes_of_their_own() -> None:
    rng = np.random.default_rng(4)
    scores = np.where(np.arange(4000) % 2, rng.random(4000), 0.2 * rng.random(4000))
    labels = rng.random(4000) < scores
    both: xr.Dataset = cd.evaluate(labels, scores, BOTH, by={"half": np.arange(4000) % 2}, ci=0.9)
    assert both.d_right.values[1] == 1
    assert both.d_right.values[0] < 0.21
    alone = cd.evaluate(labels[::2], scores[::2], BOTH, ci=0.9)
    np.testing.assert_array_equal(both.c_reliability_low[0], alone.c_reliability_low)
    empty = cd.evaluate(labels, scores, BOTH, by={"half": np.full(4000, "one")}, ci=0.9)
    assert empty.sizes["half"] == 1
    matrix = rng.dirichlet(np.ones(3), 500)
    classes = cd.evaluate(rng.integers(0, 3, 500), matrix, {"d": AdaptiveDiagram(setting="classwise")}, ci=0.9)
    assert classes.d_outcome.dims == ("class", "d_bin")


@pytest.mark.parametrize(("shape", "rows"), [((1, 1), 3000), ((1, 9), 400)])
def test_calibrated_models_are_within(shape: tuple[float, float], rows: int) -> None:
    """At 95 %, the diagonal is within the band of the curve, score by score, in 95 % of samples."""
    rng = np.random.default_rng(11)
    scores = rng.beta(*shape, (120, rows))
    labels = rng.random(scores.shape) < scores
    result = cd.evaluate(labels, scores, BOTH, ci=0.95, task="binary")
    score, low, high = (result[f"c_{name}"].values for name in ("score", "reliability_low", "reliability_high"))
    known = np.isfinite(low)
    assert 0.925 < ((low <= score) & (score <= high))[known].mean() < 0.98
    score, low, high = (result[f"d_{name}"].values for name in ("score", "outcome_low", "outcome_high"))
    filled = result.d_count.values > 0
    assert ((low <= score) & (score <= high))[filled].mean() > 0.94
