"""Consistency resampling against loops."""

import math
from typing import Any

import numpy as np
import pytest

import calibdask as cd
from tests.estimators.calibration_test_data import TV, calibrated_rows, numbers
from tests.estimators.kernel_data import drawn, near
from tests.oracles import kernel_reference as reference
from tests.oracles import reference as binned_reference


@pytest.mark.parametrize("predictions", ["fixed", "resampled"])
@pytest.mark.parametrize(
    "statistic",
    [cd.ECE(), cd.ECE(setting="classwise", bins=4), cd.SKCE(bandwidth=0.5), cd.MulticlassECE(bins=3), cd.BrierScore()],
    ids=lambda s: type(s).__name__,
)
@pytest.mark.parametrize("kind", ["smooth", "saturated", "vector"])
def test_consistency_test(predictions: Any, statistic: Any, kind: str) -> None:
    labels, scores = drawn(kind, 30)
    if kind == "vector" and "classwise" in repr(statistic):
        scores = np.column_stack([1 - scores, scores])
    result = numbers(labels, scores, cd.ConsistencyTest(statistic=statistic, resamples=39, predictions=predictions))
    assert set(result) == {"statistic", "pvalue"}
    assert result["statistic"] == float(cd.evaluate(labels, scores, {"x": statistic}).x)
    hits = result["pvalue"] * 40
    assert hits == pytest.approx(round(hits), abs=1e-9)
    assert 1 <= round(hits) <= 40
    again = cd.ConsistencyTest(statistic=statistic, resamples=39, predictions=predictions, seed=0)
    assert numbers(labels, scores, again) == result


@pytest.mark.parametrize(
    ("name", "predictions"), [("ece", "fixed"), ("skce", "resampled"), ("binary ece", "resampled")]
)
def test_consistency_test_equals_resampling_by_loops(predictions: Any, name: str) -> None:
    labels, scores = calibrated_rows(16, 2 if name == "binary ece" else 3, seed=4)
    edges = binned_reference.uniform_edges(5)

    def by_loops(y: Any, p: Any) -> float:
        if name == "skce":
            return reference.biased(y, p, TV)
        return binned_reference.ece_of(y, p, "binary" if name == "binary ece" else "confidence", edges)

    statistics: dict[str, Any] = {
        "ece": cd.ECE(bins=5, setting="confidence"),
        "skce": cd.SKCE(estimator="biased", bandwidth=0.5),
        "binary ece": cd.ECE(bins=5, setting="binary"),
    }
    result = numbers(
        labels, scores, cd.ConsistencyTest(statistic=statistics[name], resamples=2000, predictions=predictions)
    )
    least = by_loops(labels, scores)
    assert result["statistic"] == near(least)
    # Below by a hair: of equal values the loops may round one down.
    share = reference.resampled_share(by_loops, scores, least * (1 - 1e-12), 600, rows=predictions == "resampled")
    # Beyond 5 standard deviations with a probability of 6e-7 in each of 6 cases.
    error = math.sqrt(max(share * (1 - share), 1e-3) * (1 / 2000 + 1 / 600))
    assert abs(result["pvalue"] - share) < 5 * error + 1 / 2001


def test_smallest_and_largest_pvalue_of_resampling() -> None:
    # Labels that contradict certain scores never happen by chance; right ones always: the statistics are equal.
    certain = np.eye(3)[np.arange(30) % 3]
    for resamples in (1, 19, 100):
        wrong = numbers((np.arange(30) + 1) % 3, certain, cd.ConsistencyTest(resamples=resamples))
        assert wrong["pvalue"] == pytest.approx(1 / (1 + resamples))
        right = numbers(np.arange(30) % 3, certain, cd.ConsistencyTest(resamples=resamples))
        assert right == {"statistic": 0, "pvalue": 1}


def test_resampling_by_seed() -> None:
    labels, scores = calibrated_rows(30)
    for predictions in ("fixed", "resampled"):
        tests: list[Any] = [cd.ConsistencyTest(resamples=200, predictions=predictions, seed=seed) for seed in range(5)]
        shares = [numbers(labels, scores, test)["pvalue"] for test in tests]
        assert shares == [numbers(labels, scores, test)["pvalue"] for test in tests]
        assert len(set(shares)) > 1
