"""Spiegelhalter's test against its formula and by hand."""

import math
from typing import Any

import numpy as np
import pytest

import calibdask as cd
from tests.estimators.calibration_test_data import numbers, parts_of
from tests.estimators.kernel_data import drawn, near
from tests.oracles import kernel_reference as reference
from tests.oracles import reference as binned_reference


@pytest.mark.parametrize(
    ("kind", "dtype"), [("smooth", np.float64), ("saturated", np.float64), ("ties", np.float32), ("smooth", np.float32)]
)
def test_spiegelhalter_test(kind: str, dtype: Any) -> None:
    labels, scores = drawn(kind, 40, 4, dtype)
    for setting in ("confidence", 0, 3):
        expected = reference.spiegelhalter(*binned_reference.columns(labels, scores, setting)[0])
        actual = numbers(labels, scores, cd.SpiegelhalterTest(setting=setting))
        assert actual["statistic"] == near(expected[0], dtype)
        assert actual["pvalue"] == near(expected[1], dtype)
    classwise = parts_of(labels, scores, cd.SpiegelhalterTest(setting="classwise"))
    columns = binned_reference.columns(labels, scores, "classwise")
    for number, part in enumerate(("statistic", "pvalue")):
        assert classwise[part].dims == ("class",)
        expected_values = [reference.spiegelhalter(*column)[number] for column in columns]
        assert classwise[part].values == near(expected_values, dtype)


def test_spiegelhalter_test_of_a_vector_and_by_hand() -> None:
    labels, scores = drawn("vector", 40)
    expected = reference.spiegelhalter(scores, labels)
    for setting in (None, "binary"):
        actual = numbers(labels, scores, cd.SpiegelhalterTest(setting=setting))
        assert [actual["statistic"], actual["pvalue"]] == near(list(expected))
    # Score 1/4 with label 1: (3/4)(1/2) / sqrt((1/4)(3/16)) = sqrt(3).
    actual = numbers(np.array([1]), np.array([0.25]), cd.SpiegelhalterTest())
    assert actual["statistic"] == near(math.sqrt(3))
    # The sum of one term is too skewed, that of eight is not.
    assert np.isnan(actual["pvalue"])
    actual = numbers(np.repeat([1, 0], [8, 0]), np.full(8, 0.25), cd.SpiegelhalterTest())
    assert actual["pvalue"] == near(math.erfc(math.sqrt(8 * 1.5)))


@pytest.mark.parametrize("score", [0.5 - 1e-7, 0.5 + 1e-9, 1e-13])
def test_variance_lost_in_rounding_gives_no_pvalue(score: float) -> None:
    labels = np.repeat([0, 1], [52, 48]) if score > 0.1 else np.zeros(100, int)
    assert np.isnan(cd.evaluate(labels, np.full(100, score), cd.SpiegelhalterTest()).spiegelhalter_test_pvalue)
    weighted = cd.evaluate(labels, np.full(100, score), cd.SpiegelhalterTest(), sample_weight=np.ones(100))
    expected = (labels - score).sum() / np.sqrt(100 * score * (1 - score)) * np.sign(1 - 2 * score)
    np.testing.assert_allclose(weighted.spiegelhalter_test_statistic, expected, rtol=1e-6)


@pytest.mark.parametrize("distance", [1e-5, 3e-6])
def test_scores_near_one_half_have_a_statistic_within_one_percent(distance: float) -> None:
    labels = np.repeat([0, 1], [60, 40])
    result = cd.evaluate(labels, np.full(100, 0.5 - distance), cd.SpiegelhalterTest())
    np.testing.assert_allclose(result.spiegelhalter_test_statistic, -2, rtol=0.01)
