"""What decisions and the worst slices promise, by simulation, where the true error is known.

A wrong decision may come up in 2.5 % of data sets, and a wrong slice in 2.5 % of pages, at 95 % intervals. A test fails
if there are more than the quantile at 1e-5 of the binomial distribution of that share: by chance the file fails for
less than one in 2000 seeds. Seeds are fixed. experiments/calibration/promises.py counts more data sets.
"""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

import calibdask as cd
from calibdask.estimators.binned.betting_ends import Strata, largest_error, smallest_error
from calibdask.estimators.binned.cautious import CautiousECE
from calibdask.results.decisions import Decision, Evidence
from calibdask.results.values import Results

LIMIT, ALPHA, CHANCE = 0.03, 0.025, 1e-5
SETS, TOGETHER = 200, 50
# Shares of the rows, their scores and the probabilities there: the true error is the limit.
CASES: dict[str, list[tuple[float, float, float]]] = {
    "rare, too low": [(1.0, 0.01, 0.04)],
    "rare, never expected": [(1.0, 0.0, 0.03)],
    "rare, too high": [(1.0, 0.04, 0.01)],
    "balanced": [(1.0, 0.5, 0.53)],
    "signs that cancel": [(0.5, 0.01, 0.04), (0.5, 0.10, 0.07)],
    "few rows are wrong": [(0.97, 0.0, 0.0), (0.03, 1.0, 0.0)],
    "many bins": [(0.1, k / 10 + 0.03, k / 10 + 0.03 + 0.03 * (-1) ** k) for k in range(10)],
}


def drawn(case: list[tuple[float, float, float]], rows: int) -> tuple[Any, Any]:
    """Labels and scores, (sets, rows)."""
    rng = np.random.default_rng(rows)
    share, scores, probabilities = np.array(case).T
    place = rng.choice(share.size, (SETS, rows), p=share)
    return (rng.random(place.shape) < probabilities[place]).astype(np.int32), scores[place]


def at_most(count: int, sets: int, words: object) -> None:
    assert count <= binom.isf(CHANCE, sets, ALPHA), f"{count} of {sets}: {words}"


@pytest.mark.filterwarnings("ignore:.*All scores are 0 or 1")
@pytest.mark.parametrize(("case", "rows"), [*zip(CASES, itertools.cycle((30, 500)), strict=False)])
def test_decisions_are_seldom_wrong(case: str, rows: int) -> None:
    labels, scores = drawn(CASES[case], rows)
    outcomes = []
    for start in range(0, SETS, TOGETHER):
        here = slice(start, start + TOGETHER)
        options: dict[str, Any] = {"task": "binary", "ci": 1 - 2 * ALPHA, "n_boot": 100, "seed": start}
        result = cd.evaluate(labels[here], scores[here], {"ece": cd.ECE(), "cautious": CautiousECE()}, **options)
        for k in range(TOGETHER):
            one = Results(result.isel({result.ece.dims[0]: k}))
            evidence = Evidence.of(one, "cautious")
            assert evidence is not None
            outcomes.append(Decision(one.variable("ece").value(), LIMIT, evidence).outcome)
    for outcome in ("met", "broken"):
        at_most(outcomes.count(outcome), SETS, outcome)


class TestExactRates:
    """Of one bin every number of events has a probability: no simulation."""

    @pytest.mark.parametrize("rows", [10, 30, 100, 500, 2000])
    def test_levels(self, rows: int) -> None:
        events = np.arange(rows + 1.0)
        worst = {"met": 0.0, "broken": 0.0}
        for score in (0.0, 0.001, 0.01, 0.05, 0.2, 0.5, 0.9, 0.99, 1.0):
            ones = np.ones((rows + 1, 1))
            strata = Strata(ones, events[:, None] / rows, score * ones, np.full(rows + 1, float(rows)))
            low, high = smallest_error(strata, ALPHA), largest_error(strata, ALPHA)
            assert (low <= np.abs(events / rows - score) + 1e-12).all()
            assert (high >= np.abs(events / rows - score) - 1e-12).all()
            for limit in (0.003, 0.01, 0.03, 0.1, 0.3):
                for probability in (score - limit, score + limit):
                    if 0 <= probability <= 1:
                        mass = binom.pmf(events, rows, probability)
                        worst["met"] = max(worst["met"], mass[high <= limit].sum())
                        worst["broken"] = max(worst["broken"], mass[low > limit].sum())
        assert worst["met"] <= ALPHA, worst
        assert worst["broken"] <= ALPHA, worst


SCORES: dict[str, Callable[[Any, Any], Any]] = {
    "uniform": lambda rng, shape: rng.random(shape),
    "rare": lambda rng, shape: rng.beta(1, 24, shape),
}


@pytest.mark.parametrize(("scores", "rows"), [("uniform", 30), ("rare", 300)])
def test_calibrated_slices_are_seldom_wrong_for_certain(scores: str, rows: int) -> None:
    """Of 20 pages of 50 slices; by themselves 0.7 of them would have one above 0, and 6 are too many."""
    pages, slices = 20, 50
    rng = np.random.default_rng(rows)
    found, alone = 0, 0
    for _ in range(pages // 10):
        shown = SCORES[scores](rng, (10, slices * rows))
        labels = (rng.random(shown.shape) < shown).astype(np.int32)
        by = np.arange(slices * rows) % slices
        result = cd.evaluate(labels, shown, cd.ECE(bins=10), by={"slice_of": by}, task="binary", ci=0.95, n_boot=60)
        for k in range(10):
            page = result.isel({result.ece.dims[0]: k})
            found += bool(cd.worst_slices(page, "ece", 1).ece_low > 0)
            alone += bool(cd.worst_slices(page, "ece", 1, adjust=None).ece_low > 0)
    at_most(found, pages, "pages")
    # So few pages tell that the correction is missing.
    assert alone > max(found, binom.isf(CHANCE, pages, ALPHA))


def test_a_slice_that_is_wrong_is_found() -> None:
    """Off by 0.1 of 1000 rows, among 50: 3.5 standard errors are required, and it is off by six."""
    rng = np.random.default_rng(7)
    scores = 0.05 + 0.85 * rng.random(50_000)
    by = np.arange(scores.size) % 50
    labels = rng.random(scores.size) < scores + 0.1 * (by == 17)
    result = cd.evaluate(labels.astype(int), scores, cd.ECE(), by={"day": by}, ci=0.95)
    worst = cd.worst_slices(result, "ece", 2)
    assert worst.day.values[0] == 17
    assert worst.ece_low.values[0] > 0 == worst.ece_low.values[1]
