"""MMCE against loops over pairs, its defaults, and what it is of a kernel error."""

import math
from typing import Any

import numpy as np
import pytest

import calibdask as cd
from tests.estimators.kernel_data import drawn, near, of, skce
from tests.oracles import kernel_reference as reference
from tests.oracles import reference as binned_reference


@pytest.mark.parametrize(("kind", "dtype"), [("smooth", np.float64), ("ties", np.float32), ("saturated", np.float64)])
@pytest.mark.parametrize("bandwidth", [0.4, 0.05])
def test_mmce_of_the_largest_score(kind: str, dtype: Any, bandwidth: float) -> None:
    labels, scores = drawn(kind, 35, 4, dtype)
    column = binned_reference.columns(labels, scores, "confidence")[0]
    expected = reference.mmce(*column, bandwidth)
    # A square root close to 0 loses half of the digits.
    assert float(of(labels, scores, cd.MMCE(bandwidth=bandwidth))) == near(expected, dtype)


def test_mmce_of_a_vector_and_its_defaults() -> None:
    labels, scores = drawn("vector", 35)
    expected = reference.mmce(scores, labels)
    assert float(of(labels, scores, cd.MMCE())) == near(expected)
    chosen = cd.MMCE(kernel="exponential", bandwidth=0.4, estimator="biased")
    assert float(of(labels, scores, chosen)) == near(expected)
    # Residuals (0.75, -0.75) at distance 0.5 by hand.
    actual = of(np.array([1, 0]), np.array([0.25, 0.75]), cd.MMCE(bandwidth=0.5))
    assert float(actual) == near(math.sqrt((2 - 2 * math.exp(-1)) * 0.75**2 / 4))


def test_mmce_is_half_of_a_kernel_error_of_confidence() -> None:
    # The vectors (s, 1 - s) double the product of residuals; their total variation is |s - s'|.
    labels, scores = drawn("smooth", 35, 4)
    square = skce(labels, scores, estimator="biased", setting="confidence", bandwidth=0.4) / 2
    assert float(of(labels, scores, cd.MMCE())) == near(math.sqrt(square))


@pytest.mark.parametrize("choices", [{"bandwidth": -0.1}, {"bandwidth": float("nan")}, {"kernel": "boxcar"}], ids=str)
def test_bad_choices_of_mmce(choices: dict[str, Any]) -> None:
    labels, scores = drawn("vector", 20)
    with pytest.raises(ValueError, match=r".+"):
        of(labels, scores, cd.MMCE(**choices))
