"""p-values at their edges: never 0, and numbers where a model cannot be calibrated."""

from typing import Any

import numpy as np
import pytest

import calibdask as cd

TESTS = {
    "spiegelhalter": cd.SpiegelhalterTest(),
    "ecce": cd.ECCE(),
    "ecce_range": cd.ECCE(kind="range"),
    "cme": cd.CMETest(bandwidth=0.5),
}
OTHERS = {
    "skce": cd.SKCETest(bandwidth=0.5, estimator="linear"),
    "bound": cd.SKCETest(bandwidth=0.01, method="distribution-free"),
    "equivalence": cd.SKCETest(bandwidth=0.5, estimator="linear", delta=1e9),
}


def pvalues(labels: Any, scores: Any, tests: dict[str, Any]) -> dict[str, float]:
    result = cd.evaluate(labels, scores, tests)
    return {name: float(result[f"{name}_pvalue"]) for name in tests}


@pytest.mark.parametrize("wrong", [1000, 300])
def test_wrong_scores_of_0_and_1_have_the_smallest_pvalue(wrong: int) -> None:
    labels = np.arange(1000) % 2
    scores = np.abs((np.arange(1000) < wrong) - labels).astype(float)
    smallest = float(np.nextafter(0.0, 1.0))
    assert pvalues(labels, scores, TESTS) == dict.fromkeys(TESTS, smallest)


def test_right_scores_of_0_and_1_do_not_tell() -> None:
    labels = np.arange(1000) % 2
    told = pvalues(labels, labels.astype(float), TESTS)
    # No outcome other than that of each row can be drawn.
    assert told.pop("cme") == 1
    assert np.isnan(list(told.values())).all()


def test_pvalues_are_never_0() -> None:
    rng = np.random.default_rng(0)
    scores = rng.uniform(0.95, 0.99, 100_000)
    labels = np.zeros(scores.size, int)
    # All pairs of rows, fewer of which say the same.
    bound = {"bound": OTHERS["bound"]}
    told = pvalues(labels, scores, TESTS | {name: OTHERS[name] for name in OTHERS.keys() - bound})
    told |= pvalues(labels[:25_000], scores[:25_000], bound)
    assert told.keys() == TESTS.keys() | OTHERS.keys()
    for name, pvalue in told.items():
        assert 0 < pvalue < 1e-300, name
