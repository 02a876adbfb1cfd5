"""The cut-off error against all intervals of scores, its ends against simulations and formulas by hand."""

import numpy as np
import pytest
from numpy.typing import NDArray

import calibdask as cd
from calibdask.estimators.ordered.cutoff import range_quantile

Array = NDArray[np.float64]


def largest_of_all_intervals(labels: Array, scores: Array, weights: Array) -> float:
    """The largest |sum w (o - s)| / sum w over all closed intervals between two of the scores."""
    edges = np.unique(scores)
    return max(
        abs((weights * (labels - scores))[(scores >= low) & (scores <= high)].sum()) / weights.sum()
        for i, low in enumerate(edges)
        for high in edges[i:]
    )


def rows(n: int, seed: int, digits: int = 2) -> tuple[Array, Array, Array]:
    """Labels, scores with ties and weights."""
    rng = np.random.default_rng(seed)
    scores = rng.random(n).round(digits)
    return (rng.random(n) < scores**1.3).astype(float), scores, rng.uniform(0.5, 3, n)


@pytest.mark.parametrize("seed", range(5))
def test_it_is_the_largest_error_of_all_intervals(seed: int) -> None:
    labels, scores, weights = rows(80, seed)
    plain = cd.evaluate(labels.astype(int), scores, cd.CutoffError())
    assert float(plain.cutoff_error) == pytest.approx(largest_of_all_intervals(labels, scores, np.ones(80)), abs=1e-12)
    weighted = cd.evaluate(labels.astype(int), scores, cd.CutoffError(), sample_weight=weights)
    expected = largest_of_all_intervals(labels, scores, weights)
    assert float(weighted.cutoff_error) == pytest.approx(expected, abs=1e-12)


def test_it_is_the_range_of_ecce() -> None:
    rng = np.random.default_rng(1)
    scores = rng.random(5000)
    labels = (rng.random(5000) < scores).astype(int)
    result = cd.evaluate(labels, scores, {"x": cd.CutoffError(), "ecce": cd.ECCE(kind="range")})
    assert float(result.x) == float(result.ecce)
    matrix = np.random.default_rng(2).dirichlet([1, 1, 1], 400)
    labels = np.random.default_rng(3).integers(0, 3, 400)
    metrics = {"x": cd.CutoffError(setting="classwise"), "ecce": cd.ECCE(kind="range", setting="classwise")}
    result = cd.evaluate(labels, matrix, metrics)
    np.testing.assert_array_equal(result.x, result.ecce)


def test_quantiles_are_those_of_simulated_paths() -> None:
    """The range of 4000 steps; a path between steps goes further by about 2 * 0.5826 / sqrt(steps)."""
    steps, paths = 4000, 20_000
    rng = np.random.default_rng(4)
    ranges = []
    for _ in range(paths // 1000):
        walk = np.cumsum(rng.normal(size=(1000, steps)), axis=1) / np.sqrt(steps)
        ranges.append(np.maximum(walk.max(1), 0) - np.minimum(walk.min(1), 0))
    reached = np.concatenate(ranges) + 2 * 0.5826 / np.sqrt(steps)
    for chance in (0.2, 0.05, 0.025):
        share = np.mean(reached > range_quantile(chance))
        assert share == pytest.approx(chance, abs=4 * np.sqrt(chance / paths)), chance


def test_ends_by_hand() -> None:
    labels, scores, weights = rows(3000, 5, digits=3)
    options = {"sample_weight": weights, "ci": 0.9}
    metrics = {
        "both": cd.CutoffError(),
        "each": cd.CutoffError(ends="one-sided"),
        "free": cd.CutoffError(method="freedman"),
    }
    result = cd.evaluate(labels.astype(int), scores, metrics, **options)
    deviation = np.sqrt((weights**2 * (labels - scores) ** 2).sum()) / weights.sum()
    value = float(result.both)
    assert float(result.both_high) - value == pytest.approx(range_quantile(0.1) * deviation)
    assert value - float(result.both_low) == pytest.approx(range_quantile(0.1) * deviation)
    assert float(result.each_high) - value == pytest.approx(1.6448536 * deviation, rel=0.08)
    assert float(result.each_high) - value >= 1.6448536 * deviation
    assert value - float(result.each_low) == pytest.approx(range_quantile(0.05) * deviation)
    assert float(result.free_high) > float(result.both_high)
    assert float(result.free_low) < float(result.both_low)
    assert (result.both_low.interval, result.free_low.interval) == ("brownian two-sided", "freedman two-sided")


def test_weights_that_are_large_where_errors_are_small_widen_the_interval() -> None:
    """Their sum varies between samples, and with it the error of the worst interval, here that of all rows."""
    rng = np.random.default_rng(6)
    known = rng.random(20_000) < 0.1
    scores, weights = np.where(known, 0.99, 0.5), np.where(known, 10.0, 1.0)
    labels = (rng.random(20_000) < np.where(known, 0.99, 0.05)).astype(int)
    result = cd.evaluate(labels, scores, cd.CutoffError(), sample_weight=weights, ci=0.9)
    value, errors = float(result.cutoff_error), weights * (labels - scores)
    deviation = np.sqrt(((errors + weights * value) ** 2).sum()) / weights.sum()
    assert deviation > 1.3 * np.sqrt((errors**2).sum()) / weights.sum()
    assert value - float(result.cutoff_error_low) == pytest.approx(range_quantile(0.1) * deviation)


def test_no_events_leave_room_for_one() -> None:
    """As Clopper & Pearson, whose upper limit of 0 of n events is 1 - 0.025**(1/n)."""
    result = cd.evaluate(np.zeros(100, int), np.zeros(100), cd.CutoffError(), ci=0.95)
    assert float(result.cutoff_error) == 0.0
    assert float(result.cutoff_error_high) == pytest.approx(1 - 0.025 ** (1 / 100))


@pytest.mark.parametrize("scores", ["many", "eleven values"])
def test_cells_of_a_summary_are_bounded(scores: str) -> None:
    rng = np.random.default_rng(6)
    s = rng.beta(1, 8, 30_000)
    s = s if scores == "many" else s.round(1)
    labels = (rng.random(s.size) < s**1.1).astype(int)
    exact = cd.evaluate(labels, s, cd.CutoffError(), ci=0.95)
    cells = cd.evaluate(cd.summarize(labels, s, settings=["binary"]), metrics=cd.CutoffError(), ci=0.95)
    bound = float(cells.cutoff_error.grid_bound)
    assert "grid_bound" not in exact.cutoff_error.attrs
    assert float(cells.cutoff_error) - 1e-12 <= float(exact.cutoff_error) <= float(cells.cutoff_error) + bound + 1e-12
    assert float(cells.cutoff_error_high) >= float(exact.cutoff_error_high) - 1e-6
    assert bound < 5e-4 if scores == "many" else bound == 0.0


def test_cells_are_bounded_whatever_their_order() -> None:
    """Rows of one cell whose events come first: the path leaves the ends of the cell by what is stated."""
    s = np.concatenate([np.full(50, 0.50001), np.full(50, 0.50002)])
    labels = np.repeat([1, 0], 50)
    exact = cd.evaluate(labels, s, cd.CutoffError())
    cells = cd.evaluate(cd.summarize(labels, s, settings=["binary"]), metrics=cd.CutoffError())
    assert float(exact.cutoff_error) == pytest.approx(0.25, abs=1e-4)
    assert float(cells.cutoff_error) < 1e-4
    assert float(cells.cutoff_error.grid_bound) == pytest.approx(0.25, abs=1e-4)


def test_waves_that_cancel_within_bins_are_seen() -> None:
    """Fifteen waves, one to a bin: the ECE of the bins is that of noise."""
    rng = np.random.default_rng(11)
    s = rng.random(200_000)
    truth = 0.1 / (15 * np.pi)
    labels = (rng.random(s.size) < (s + 0.1 * np.sin(2 * np.pi * 15 * s)).clip(0, 1)).astype(int)
    result = cd.evaluate(labels, s, {"x": cd.CutoffError(), "ece": cd.ECE()}, ci=0.95)
    assert float(result.ece) < 0.005
    assert float(result.x_low) <= truth <= float(result.x_high)


@pytest.mark.parametrize("population", ["calibrated", "too low", "rare"])
@pytest.mark.parametrize("n", [30, 300, 3000])
def test_intervals_cover_and_limits_are_kept(population: str, n: int) -> None:
    """At most 5 % of intervals miss, and 2.5 % of one-sided ends are below the truth, with 4 standard errors."""
    sets = 400
    rng = np.random.default_rng([n, len(population)])
    s = rng.uniform(0, 0.001 if population == "rare" else 0.9, (sets, n))
    truth = {"calibrated": 0.0, "too low": 0.1, "rare": 0.01}[population]
    labels = (rng.random(s.shape) < s + truth).astype(int)
    metrics = {"x": cd.CutoffError(), "each": cd.CutoffError(ends="one-sided")}
    result = cd.evaluate(labels, s, metrics, task="binary", ci=0.95)
    missed = float(((result.x_low > truth) | (result.x_high < truth)).mean())
    assert missed <= 0.05 + 4 * np.sqrt(0.05 * 0.95 / sets)
    assert float((result.each_high < truth).mean()) <= 0.025 + 4 * np.sqrt(0.025 / sets)


def test_check_is_decided_by_one_sided_ends() -> None:
    rng = np.random.default_rng(8)
    s = rng.random(20_000)
    labels = (rng.random(s.size) < s).astype(int)
    cutoff, ece, mce = cd.check(labels, s, {"cutoff-error": 0.015, "ece": 0.05, "mce": 0.2}).judgements
    one_sided = cd.evaluate(labels, s, cd.CutoffError(ends="one-sided"), ci=0.95)
    assert (cutoff.low, cutoff.high) == (float(one_sided.cutoff_error_low), float(one_sided.cutoff_error_high))
    assert cutoff.outcome == "met"
    assert (cutoff.name, ece.name, mce.name) == ("cutoff-error", "ece of the bins", "mce of the bins")


def test_check_says_how_many_rows_would_do() -> None:
    """Calibrated models of as many rows are met more often than not."""
    rng = np.random.default_rng(9)
    s = rng.random(300)
    (judgement,) = cd.check((rng.random(300) < s).astype(int), s, {"cutoff-error": 0.03}).judgements
    assert judgement.outcome == "cannot be decided"
    needed = int(judgement.rows_needed)
    met = 0
    for _ in range(60):
        s = rng.random(needed)
        met += cd.check((rng.random(needed) < s).astype(int), s, {"cutoff-error": 0.03}).outcome == "met"
    assert 18 <= met <= 55


def test_wrong_choices_are_refused() -> None:
    with pytest.raises(ValueError, match="ends expects"):
        cd.CutoffError(ends="upper")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="method expects"):
        cd.CutoffError(method="exact")  # type: ignore[arg-type]
