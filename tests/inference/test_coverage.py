"""How often intervals hold the truth, by simulation, where the truth is known.

Every test counts data sets whose interval covers. A count must lie between the quantiles at 1e-5 of two binomial
distributions, whose shares are the least and the most that a correct interval of 90 % covers here. Percentiles of R
replicates hold 0.9 (R - 1) / (R + 1), which is 0.875 for 70 of them; least is 0.02 less, for numbers that are about
normal and have a little bias; most is 0.93, and 0.97 of corrected intervals, which are the longer ones. There are fewer
than 50 such ends, so that by chance the file fails for less than one in 1000 seeds. With so few sets the lower end is
what binds: 69 of 100, 24 of 40. Seeds are fixed.
"""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import numpy as np
import pytest
import xarray as xr
from numpy.typing import NDArray
from scipy.stats import binom

import calibdask as cd

ROWS, REPLICATES, AT_ONCE = 1200, 70, 10
CHANCE = 1e-5
SHARES = {"corrected": (0.855, 0.97), "percentile": (0.855, 0.93), "bca": (0.855, 0.93)}
METHODS = [None, "percentile", "bca"]
# Three scores, the outcome of probability s**2: no bin and no step of an isotonic regression is near a calibrated one,
# and none is without hundreds of rows, so that estimates have next to no bias.
POINTS = np.array([0.31, 0.52, 0.73])
CURVE = np.square(POINTS)
COSTS = np.array([[0.0, 1.0], [0.5, 0.0]])


def sets_of_three(seed: int, sets: int) -> tuple[Any, Any]:
    """Labels and scores, (sets, rows)."""
    rng = np.random.default_rng(seed)
    place = rng.integers(0, 3, (sets, ROWS))
    return (rng.random(place.shape) < CURVE[place]).astype(np.int32), POINTS[place]


def evaluated(labels: Any, scores: Any, asked: Mapping[str, Any], method: Any = None) -> xr.Dataset:
    """Results by set; others of the random replicates for every few sets, which within a call are the same."""
    options: dict[str, Any] = {"ci": 0.9, "ci_method": method, "n_boot": REPLICATES}
    options["task"] = "binary" if scores.ndim == labels.ndim else None
    parts = [
        cd.evaluate(labels[start : start + AT_ONCE], scores[start : start + AT_ONCE], asked, **options, seed=start)
        for start in range(0, len(labels), AT_ONCE)
    ]
    return xr.concat(parts, parts[0][next(iter(parts[0]))].dims[0], combine_attrs="override")


def within(result: xr.Dataset, name: str, truth: float) -> int:
    """How many sets have an interval that covers."""
    return int(((result[f"{name}_low"] <= truth) & (truth <= result[f"{name}_high"])).sum())


def check(count: int, sets: int, least: float, most: float, name: str) -> None:
    low, high = binom.ppf(CHANCE, sets, least), binom.isf(CHANCE, sets, most)
    assert low <= count <= high, f"{name}: {count} of {sets}, expected {low:.0f} to {high:.0f}"


def excess() -> float:
    """Cost of acting on the scores less that of acting on their probabilities."""
    said, true = (
        np.stack([COSTS[:, 0] * (1 - p) + COSTS[:, 1] * p for p in probabilities]) for probabilities in (POINTS, CURVE)
    )
    return float((true[np.arange(3), said.argmin(1)] - true.min(1)).mean())


# Name of a variable without its end -> the truth.
TRUTHS: dict[str, float] = {
    "brier": float(((POINTS - CURVE) ** 2 + CURVE * (1 - CURVE)).mean()),
    "ece": float((POINTS - CURVE).mean()),
    "corp_miscalibration": float(((POINTS - CURVE) ** 2).mean()),
    "corp_discrimination": float(CURVE.var()),
    "corp_uncertainty": float(CURVE.mean() * (1 - CURVE.mean())),
    "cost": excess(),
}
# By what is resampled; where that is a histogram, its 3600 cells make it slow for few rows.
ASKED: dict[str, dict[str, Any]] = {
    "rows": {"brier": cd.BrierScore(), "ece": cd.ECE(closed="left"), "cost": cd.ExcessCost(costs=COSTS)},
    "histogram": {"ece": cd.ECE(), "corp": cd.CORP()},
}
SETS = {"rows": 100, "histogram": 40}


@cache
def intervals_of_three(resampled: str, method: Any) -> xr.Dataset:
    return evaluated(*sets_of_three(1, SETS[resampled]), ASKED[resampled], method)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("resampled", list(ASKED))
def test_intervals_cover_the_truth(resampled: str, method: Any) -> None:
    result = intervals_of_three(resampled, method)
    for name, truth in TRUTHS.items():
        if name in result:
            notes = result[f"{name}_low"].attrs
            # What resampling does not shift has percentiles where no method is named.
            shifted = name.startswith(("ece", "corp")) or name == "cost"
            assert notes["interval"] == (method or ("corrected" if shifted else "percentile"))
            assert notes["resampled"] == resampled
            check(within(result, name, truth), SETS[resampled], *SHARES[notes["interval"]], name)


@pytest.mark.parametrize("method", METHODS)
def test_histograms_and_rows_have_intervals_of_the_same_length(method: Any) -> None:
    """Of the same number of other data sets, whose standard error is 0.013 give or take little."""
    lengths = [
        float((result.ece_high - result.ece_low).mean())
        for result in (intervals_of_three(resampled, method) for resampled in ASKED)
    ]
    # A percentile of 70 replicates is off by 0.2 standard errors, a mean of 50 such lengths by 0.01 of it; BCa, and the
    # larger of two distances, by not more than twice as much. Five of that.
    assert lengths[0] == pytest.approx(lengths[1], rel=0.1)


def test_ends_of_pairs_cover_the_truth() -> None:
    """The linear estimator of the kernel error, whose truth is the sum over pairs of points."""
    labels, scores = sets_of_three(3, 200)
    result = evaluated(labels, scores, {"skce": cd.SKCE(estimator="linear", bandwidth=0.2)})
    assert result.skce_low.attrs["interval"] == "clopper-pearson"
    gaps = CURVE - POINTS
    truth = 2 * float(gaps @ np.exp(-np.abs(POINTS[:, None] - POINTS) / 0.2) @ gaps) / 9
    check(within(result, "skce", truth), 200, 0.87, 0.93, "skce")


Drawn = Callable[[np.random.Generator, tuple[int, int]], tuple[NDArray[Any], NDArray[Any]]]


def calibrated_vectors(rng: np.random.Generator, shape: tuple[int, int]) -> tuple[NDArray[Any], NDArray[Any]]:
    scores = rng.dirichlet([1.0, 1.0, 1.0], shape)
    # The number of cumulative probabilities below a uniform variable; the last one is 1 but for rounding.
    return (rng.random(shape)[..., None] > scores.cumsum(-1)[..., :2]).sum(-1).astype(np.int32), scores


def calibrated_scores(rng: np.random.Generator, shape: tuple[int, int]) -> tuple[NDArray[Any], NDArray[Any]]:
    scores = rng.random(shape)
    return (rng.random(shape) < scores).astype(np.int32), scores


@pytest.mark.parametrize(
    ("metric", "drawn", "sets", "rows"),
    [
        (cd.ECE(closed="left"), calibrated_scores, 200, 400),
        (cd.MulticlassECE(bins=4), calibrated_vectors, 100, 300),
        (cd.MMCE(), calibrated_scores, 100, 150),
        (cd.ExcessCost(bins=3), calibrated_vectors, 50, 200),
    ],
    ids=["ECE", "MulticlassECE", "MMCE", "ExcessCost"],
)
def test_calibrated_models_have_intervals_from_zero(metric: Any, drawn: Drawn, sets: int, rows: int) -> None:
    """95 % in truth: the error lies below the upper percentile of those that calibrated models have by chance."""
    result = evaluated(*drawn(np.random.default_rng(4), (sets, rows)), {"m": metric})
    assert result.m_low.attrs["resampled"] == "rows"
    count = int((result.m_low == 0).sum())
    assert count >= binom.ppf(CHANCE, sets, 0.94), count


@pytest.mark.parametrize("resampled", list(ASKED))
def test_an_error_of_one_bin_among_many_is_covered(resampled: str) -> None:
    """Noise of 14 calibrated bins adds to the error of the other, and resampling shows less than half of that."""
    rng = np.random.default_rng(6)
    place = rng.integers(0, 15, (SETS[resampled], ROWS))
    scores = (np.arange(15) + 0.5) / 15
    rates = np.where(np.arange(15) == 12, scores - 0.4, scores)
    labels = (rng.random(place.shape) < rates[place]).astype(np.int32)
    result = evaluated(labels, scores[place], {"ece": ASKED[resampled]["ece"]})
    check(within(result, "ece", 0.4 / 15), SETS[resampled], 0.855, 0.995, "ece")
    assert (result.ece_low > 0).mean() > 0.7


@pytest.mark.parametrize("resampled", list(ASKED))
def test_errors_far_from_zero_have_intervals_above_it(resampled: str) -> None:
    # 0.22, 17 standard errors.
    assert (intervals_of_three(resampled, None).ece_low > 0).all()
