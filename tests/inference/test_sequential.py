"""E-processes, detectors and confidence sequences: loops from the definitions, and what they promise by simulation.

A simulation fails if there are more errors than the quantile at 1e-5 of the binomial distribution of the promised
share. Seeds are fixed. tests/inference/false_alarms.py counts 10**4 streams of 365 looks.
"""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

import calibdask as cd
from calibdask.inference.multiplicity import e_benjamini_hochberg
from calibdask.inference.sequential.cells import PeriodCells
from calibdask.inference.sequential.factors import fixed_factors, learnt_tilts, plug_in_factors
from calibdask.inference.sequential.processes import Monitor, ProcessState
from calibdask.inference.sequential.sequences import error_ends, gap_ends
from calibdask.statistics.settings import Setting
from calibdask.storage.summary import Summary
from tests.inference.false_alarms import SCORES, streams
from tests.oracles.sequential_reference import FIXED_TILTS, e_bh, expected_factor, row_log_factor

ALPHA, CHANCE = 0.05, 1e-5


def of_rows(scores: Any, outcomes: Any) -> PeriodCells:
    """Rows of one process, each a cell of its own."""
    order = np.argsort(scores)
    return PeriodCells.of_table(np.ones((1, order.size)), outcomes[order][None], scores[order])


def of_summary(scores: Any, outcomes: Any) -> PeriodCells:
    source = Summary.of(cd.summarize(outcomes, scores, settings=["binary"])).source
    histogram = source.finest(Setting("class", 1))
    return PeriodCells.of_histogram(source.state(histogram), histogram.grid)


@pytest.mark.parametrize("tolerance", [0.0, 0.02, 0.4])
def test_factors_are_those_of_a_loop_over_rows(tolerance: float) -> None:
    rng = np.random.default_rng(1)
    scores = np.r_[0.0, 1.0, rng.beta(0.5, 1.0, 200)]
    outcomes = np.r_[0, 1, rng.integers(0, 2, 200)]
    told = fixed_factors(of_rows(scores, outcomes), tolerance)[0]
    for number, tilt in enumerate(FIXED_TILTS):
        rows = [row_log_factor(tilt, s, int(o), tolerance) for s, o in zip(scores, outcomes, strict=True)]
        assert told[number] == pytest.approx(math.fsum(rows), abs=1e-10)


@pytest.mark.parametrize("tilt", FIXED_TILTS)
@pytest.mark.parametrize("tolerance", [0.0, 0.05])
def test_factors_never_gain_on_average_under_the_null(tilt: float, tolerance: float) -> None:
    for score in np.linspace(0, 1, 41):
        for chance in np.clip([score - tolerance, score, score + tolerance], 0, 1):
            assert expected_factor(tilt, score, chance, tolerance) <= 1 + 1e-12


def test_summary_is_never_above_rows_and_hardly_below() -> None:
    rng = np.random.default_rng(2)
    scores = rng.beta(0.7, 1.5, 200_000)
    outcomes = (rng.random(scores.size) < scores).astype(np.int64)
    rows, summary = of_rows(scores, outcomes), of_summary(scores, outcomes)
    tilts = rng.normal(0, 0.5, (1, 20))
    for tolerance in (0.0, 0.01):
        losses = fixed_factors(rows, tolerance) - fixed_factors(summary, tolerance)
        assert (losses >= 0).all()
        assert (losses < 1e-2).all()
    # The same tilts by cell: groups of rows are those of their cells, up to those at a border.
    inner = replace(rows, group=np.zeros_like(rows.group)), replace(summary, group=np.zeros_like(summary.group))
    losses = np.subtract(*(plug_in_factors(cells, tilts, 0.0) for cells in inner))
    assert 0 <= losses[0] < 1e-2
    assert summary.square.sum() >= rows.square.sum()
    assert summary.square.sum() == pytest.approx(rows.square.sum(), abs=0.01)


def test_process_is_that_of_a_loop_over_periods() -> None:
    """Products, largest e, since, detector: all from lists of factors."""
    rng = np.random.default_rng(3)
    monitor, state = Monitor(0.01, ALPHA), ProcessState.empty(1)
    scores, factors, seen = np.array([0.1, 0.4, 0.8]), [], np.zeros((3, 20))
    e_values, detectors, run_length = [1.0], np.zeros(13), 0
    shares = np.r_[0.5, np.full(12, 1 / 24)]
    for day in range(30):
        count = np.array([[40, 0, 30]]) * (day not in (4, 5))
        events = rng.binomial(count, np.clip(scores + (0.15 if day >= 15 else 0.0), 0, 1))
        cells = PeriodCells.of_table(count, events, scores)
        tilts = learnt_tilts(*seen[:, None], 0.01)
        logs = [
            sum(
                y * row_log_factor(tilt, s, 1, 0.01) + (n - y) * row_log_factor(tilt, s, 0, 0.01)
                for n, y, s, tilt in zip(count[0], events[0], scores, np.broadcast_to(bet, 20)[[7, 9, 12]], strict=True)
            )
            for bet in (tilts[0], *FIXED_TILTS)
        ]
        factors.append(np.array(logs))
        for at, n, y, s in zip((7, 9, 12), count[0], events[0], scores, strict=True):
            seen[:, at] += n, y, n * s
        state, detection = monitor.advanced(state, cells, day)
        products = np.exp(np.sum(factors, axis=0))
        e_values.append(float(shares @ products))
        assert state.log_e[0] == pytest.approx(math.log(e_values[-1]), abs=1e-9)
        assert state.largest[0] == pytest.approx(math.log(max(e_values)), abs=1e-9)
        if count.any():
            detectors, run_length = np.exp(logs) * (detectors + 1), run_length + 1
        assert detection.log_detector[0] == pytest.approx(math.log(shares @ detectors), abs=1e-9)
        assert detection.run_length[0] == run_length
        assert detection.detected[0] == (shares @ detectors >= 1 / ALPHA)
        if detection.detected[0]:
            detectors, run_length = np.zeros(13), 0
        tails = np.array([np.sum(factors[start:], axis=0) for start in range(day + 1)]) + np.log(shares)
        best = np.unravel_index(tails.argmax(), tails.shape)[0]
        # Periods without rows change no product: the first of equal ones.
        assert tails[state.since[0]].max() == pytest.approx(tails[best].max(), abs=1e-9)
    assert state.largest[0] > monitor.threshold
    assert abs(state.since[0] - 15) <= 2


def test_calibrated_streams_seldom_alarm_and_sequences_hold() -> None:
    told = streams(1000, 120, seed=5)
    for name in ("alarm", "gap", "error"):
        assert told[name].sum() <= binom.isf(CHANCE, 1000, ALPHA), name
    assert told["daily"].mean() > 0.9
    # At least 1 / alpha periods between false detections.
    assert told["detections"].mean() < ALPHA


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (0.45, 0.55), (0.0, 0.3), (0.8, 0.95)])
@pytest.mark.parametrize("sign", [1, -1])
def test_tolerance_and_traffic(low: float, high: float, sign: int) -> None:
    """Off by half the tolerance: never; by twice of it, at 10**6 rows a day: on the first day, wherever scores are."""
    rng = np.random.default_rng(6)
    rows, scores = np.full((50, 100), 10_000), low + (high - low) * (np.arange(100) + 0.5) / 100
    monitor, state = Monitor(0.01, ALPHA), ProcessState.empty(50)
    for day in range(20):
        events = rng.binomial(rows, np.clip(scores + sign * 0.005, 0, 1))
        state, _ = monitor.advanced(state, PeriodCells.of_table(rows, events, scores), day)
    assert (state.largest == 0).all()
    events = rng.binomial(rows, np.clip(scores + sign * 0.02, 0, 1))
    state, _ = monitor.advanced(ProcessState.empty(50), PeriodCells.of_table(rows, events, scores), 0)
    assert (state.largest >= monitor.threshold).all()


@pytest.mark.parametrize("kind", ["shift", "slope", "local"])
def test_plug_in_finds_shifts_slopes_and_local_errors(kind: str) -> None:
    """After 60 calibrated days of 2000 rows, within 20 more days."""
    rng = np.random.default_rng(7)
    scores = (np.arange(20) + 0.5) / 20
    odds = np.log(scores / (1 - scores))
    offset = {"shift": 0.3, "slope": 0.3 * odds, "local": 0.8 * (np.abs(scores - 0.7) < 0.08)}[kind]
    monitor, state = Monitor(0.0, ALPHA), ProcessState.empty(100)
    rows = np.full((100, 20), 100)
    for day in range(80):
        chances = 1 / (1 + np.exp(-odds - (offset if day >= 60 else 0.0)))
        state, _ = monitor.advanced(state, PeriodCells.of_table(rows, rng.binomial(rows, chances), scores), day)
    assert (state.largest >= monitor.threshold).mean() > 0.9
    assert 59 <= np.median(state.since) <= 65


def test_sequences_cover_offsets_that_change() -> None:
    """The mean of offsets so far, which differ by score and by day."""
    rng = np.random.default_rng(8)
    sets, missed = 1000, np.zeros((2, 1000), bool)
    count, residual, truth, square = (np.zeros((sets, SCORES.size)) for _ in range(4))
    for day in range(100):
        offsets = 0.1 * np.sin(day / 7 + 5 * SCORES) * np.minimum(SCORES, 1 - SCORES) * 4
        rows = rng.multinomial(50, np.full(SCORES.size, 1 / SCORES.size), sets)
        events = rng.binomial(rows, np.clip(SCORES + offsets, 0, 1))
        count += rows
        residual += events - rows * SCORES
        truth += rows * (np.clip(SCORES + offsets, 0, 1) - SCORES)
        square += events * (1 - SCORES) ** 2 + (rows - events) * SCORES**2
        whole, of_square = count.sum(-1), square.sum(-1)
        low, high = gap_ends(whole, residual.sum(-1), of_square, ALPHA)
        missed[0] |= (truth.sum(-1) / whole < low) | (truth.sum(-1) / whole > high)
        low, high = error_ends(count, residual, of_square, ALPHA)
        error = np.abs(truth).sum(-1) / whole
        missed[1] |= (error < low) | (error > high)
    assert (missed.sum(-1) <= binom.isf(CHANCE, sets, ALPHA)).all()
    assert float(np.median(high - low)) < 0.12


def test_false_discoveries_over_dependent_slices() -> None:
    """500 slices that share their outcomes in part, 50 of them off; looked at when most look bad."""
    rng = np.random.default_rng(9)
    sets, slices, off = 60, 500, 50
    shares = []
    for _ in range(sets):
        state, monitor = ProcessState.empty(slices), Monitor(0.0, 0.1)
        worst: float = 0.0
        for day in range(10):
            # Rows of all slices go with the same uniform numbers.
            common = rng.random((1, 20)) < 0.5
            events = np.where(rng.random((slices, 20)) < 0.7, common, rng.random((slices, 20)) < 0.5).sum(-1)
            events[:off] = rng.binomial(20, 0.9, off)
            state, _ = monitor.advanced(
                state, PeriodCells.of_table(np.full((slices, 1), 20), events[:, None], 0.5), day
            )
            found = e_benjamini_hochberg(state.log_e, 0.1)
            worst = max(worst, found[off:].sum() / max(1, found.sum()))
        shares.append(worst)
        assert found[:off].mean() > 0.9
    assert np.mean(shares) <= 0.1


def test_e_bh_is_that_of_a_loop_and_keeps_its_level_where_all_slices_are_one() -> None:
    """With equal slices a false alarm is one of all: the share of false discoveries comes closest to alpha."""
    rng = np.random.default_rng(10)
    for _ in range(300):
        # Ties, but no values on a border itself.
        e_values = np.r_[rng.integers(1, 60, 12) + 0.25, rng.exponential(20, 8)]
        assert e_benjamini_hochberg(np.log(e_values), 0.5).tolist() == e_bh(e_values.tolist(), 0.5)
    sets, slices, alpha, days = 4000, 500, 0.1, 150
    monitor, state = Monitor(0.0, alpha), ProcessState.empty(sets)
    first, found = np.full(sets, np.nan), np.zeros((sets, slices), bool)
    for day in range(days):
        events = rng.binomial(40, 0.5, (sets, 1))
        state, _ = monitor.advanced(state, PeriodCells.of_table(np.full((sets, 1), 40), events, 0.5), day)
        here = np.isnan(first) & (state.log_e >= monitor.threshold)
        found[here] = e_benjamini_hochberg(np.repeat(state.log_e[here, None], slices, 1), alpha)
        first[here] = day
    assert (found.all(-1) == ~np.isnan(first)).all()
    assert 0.01 * sets < found.any(-1).sum() <= binom.isf(CHANCE, sets, alpha)
