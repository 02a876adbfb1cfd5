"""`watch` and `attribute` against loops over rows that were written from the formulas alone."""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import xarray as xr

import calibdask as cd
from calibdask.analyses.monitoring.period_sums import PeriodSums
from calibdask.inference.sequential.cells import GROUP_EDGES
from calibdask.inference.sequential.factors import learnt_tilts
from tests.oracles import sequential_reference as oracle

ALPHA, DAYS, DRIFT = 0.05, 12, 7
# A summary knows scores by the means of cells.
NATS = 1e-2


def rows_of(seed: int, rows: int = 1500) -> list[list[oracle.Row]]:
    """Days of rows; from one day on outcomes are more frequent."""
    rng = np.random.default_rng(seed)
    days = []
    for day in range(DAYS):
        scores = rng.beta(0.8, 1.6, rows)
        outcomes = rng.random(rows) < np.clip(scores + (0.08 if day >= DRIFT else 0.0), 0, 1)
        days.append(list(zip(scores.tolist(), outcomes.astype(int).tolist(), strict=True)))
    return days


def summarized(days: list[list[oracle.Row]]) -> xr.Dataset:
    scores, outcomes = np.concatenate([np.array(day) for day in days]).T
    by = {"day": np.repeat(np.arange(len(days)), [len(day) for day in days])}
    return cd.summarize(outcomes.astype(int), scores, by=by, settings=["binary"])


def group_tilts(summary: xr.Dataset, tolerance: float) -> list[Any]:
    """What is bet on each group of scores, learnt from all earlier days."""
    sums = PeriodSums.of("watch", summary, "day", None, None)
    past, tilts = np.zeros((3, 1, GROUP_EDGES.size + 1)), []
    for position in range(sums.periods.size):
        tilts.append(learnt_tilts(*past, tolerance)[0])
        past = past + np.array(next(iter(sums.cells(position)))[1].group_sums)
    return tilts


def tilts_by_day(summary: xr.Dataset, tolerance: float) -> list[Callable[[float], float]]:
    """What is bet on a row, by the group of its cell."""
    tilts = []
    edges = np.append(summary.cell_lower.values, 1.0)
    group = np.searchsorted(GROUP_EDGES, (edges[:-1] + edges[1:]) / 2)
    for learnt in group_tilts(summary, tolerance):

        def tilt(score: float, learnt: Any = learnt) -> float:
            cell = max(int(np.searchsorted(edges, score)) - 1, 0)
            return float(learnt[group[cell]])

        tilts.append(tilt)
    return tilts


@pytest.mark.parametrize("tolerance", [0.0, 0.02])
def test_watch_is_that_of_rows(tolerance: float) -> None:
    """E, its p-value, the detector of each bet, and since when."""
    days = rows_of(1)
    summary = summarized(days)
    result = cd.watch(summary, tolerance=tolerance)
    learnt = oracle.plug_in_log_e(days, tilts_by_day(summary, tolerance), tolerance)
    of_rows = oracle.half_and_half(learnt, oracle.fixed_tilts_log_e(days, tolerance))
    loss = np.array(of_rows) - result.log_e.values
    assert (loss >= -1e-12).all()
    assert (loss <= NATS).all()
    assert result.log_e.values[-1] > 4
    for day in range(DAYS):
        pvalue = oracle.always_valid_pvalue(of_rows[: day + 1])
        assert float(result.pvalue[day]) == pytest.approx(pvalue, rel=NATS)
    assert abs(int(result.since[-1]) - DRIFT) <= 1


@pytest.mark.parametrize("tolerance", [0.0, 0.02])
def test_summaries_of_many_rows_lose_little(tolerance: float) -> None:
    """Of 200,000 rows, whose products are taken row by row: E of the summary is never above, and hardly below."""
    rng = np.random.default_rng(2)
    scores = rng.beta(0.8, 1.6, (DAYS, 200_000 // DAYS))
    outcomes = (rng.random(scores.shape) < np.clip(scores + 0.1 * (np.arange(DAYS) >= DRIFT)[:, None], 0, 1)) * 1
    by = {"day": np.repeat(np.arange(DAYS), scores.shape[1])}
    summary = cd.summarize(outcomes.ravel(), scores.ravel(), by=by, settings=["binary"])

    def path(tilts: Any) -> Any:
        """Products of the factors of all rows so far."""
        worst = np.where(tilts > 0, np.minimum(1, scores + tolerance), np.maximum(0, scores - tolerance))
        return (tilts * outcomes - np.log1p(np.expm1(tilts) * worst)).sum(-1).cumsum()

    edges = np.append(summary.cell_lower.values, 1.0)
    middle = np.searchsorted(GROUP_EDGES, (edges[:-1] + edges[1:]) / 2)
    group = middle[np.maximum(np.searchsorted(edges, scores) - 1, 0)]
    learnt = path(np.stack([own[at] for own, at in zip(group_tilts(summary, tolerance), group, strict=True)]))
    fixed = np.logaddexp.reduce([path(np.full((1, 1), tilt)) for tilt in oracle.FIXED_TILTS])
    of_rows = np.logaddexp(learnt, fixed - np.log(len(oracle.FIXED_TILTS))) - np.log(2)
    loss = of_rows - cd.watch(summary, tolerance=tolerance).log_e.values
    assert (loss >= -1e-9).all()
    assert (loss <= NATS).all()
    assert of_rows[-1] > 20


def test_detector_is_the_sum_over_starts() -> None:
    """Of each bet, until the first detection."""
    days = rows_of(3, 200)[:DRIFT]
    summary = summarized(days)
    result = cd.watch(summary)
    assert not result.detected.any()
    tilts = tilts_by_day(summary, 0.0)
    bets = [tilts, *([lambda score, tilt=tilt: tilt] * DRIFT for tilt in oracle.FIXED_TILTS)]
    shares = np.r_[0.5, np.full(len(oracle.FIXED_TILTS), 0.5 / len(oracle.FIXED_TILTS))]
    paths = []
    for bet in bets:
        factors = [oracle.period_log_factor(rows, tilt, 0.0) for rows, tilt in zip(days, bet, strict=True)]
        path = oracle.restarting_detector(factors)
        assert path == pytest.approx(oracle.sum_over_starts(factors), abs=1e-9)
        paths.append(path)
    np.testing.assert_allclose(result.log_detector, np.log(shares @ np.exp(paths)), atol=NATS)


def test_since_is_the_start_of_the_largest_product() -> None:
    """One score and one bet that is far ahead of all others."""
    rng = np.random.default_rng(4)
    days = [[(0.5, int(o)) for o in rng.random(400) < (0.5 if day < 6 else 0.62)] for day in range(10)]
    factors = [oracle.period_log_factor(rows, lambda _: 0.5, 0.0) for rows in days]
    assert int(cd.watch(summarized(days)).since[-1]) == oracle.most_likely_start(factors) == 6


def test_attribution_is_that_of_exact_fractions() -> None:
    rng = np.random.default_rng(5)
    country, day = rng.integers(0, 4, 3000), np.repeat([0, 1], 1500)
    country = np.where((day == 1) & (rng.random(3000) < 0.3), 0, country)
    # Sixteenths are positions on the grid themselves.
    scores = rng.integers(1, 16, 3000) / 16
    outcomes = (rng.random(3000) < scores + 0.1 * (country == 2) * day).astype(int)
    cells = []
    for window in (0, 1):
        at = [(day == window) & (country == number) for number in range(4)]
        cells.append(
            [(int(here.sum()), Fraction(float((outcomes - scores)[here].sum())) / int(here.sum())) for here in at]
        )
    summary = cd.summarize(outcomes, scores, by={"day": day, "country": country}, settings=["binary"])
    change = cd.attribute(summary, 0, 1, by="country")
    mix, within = oracle.attribution(*cells)
    assert float(change.all_mix) == pytest.approx(float(mix), abs=1e-9)
    assert float(change.all_within) == pytest.approx(float(within), abs=1e-9)
    total = sum(n * gap for n, gap in cells[1]) / 1500 - sum(n * gap for n, gap in cells[0]) / 1500
    assert mix + within == total
