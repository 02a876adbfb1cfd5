"""The smooth ECE is the fixed point of its definition."""

from typing import Any

import numpy as np
import pytest

import calibdask as cd
from tests.estimators.density_data import CASES, drawn, parts, simplex_rows
from tests.oracles import density_reference as reference
from tests.strategies import DEGENERATE

pytestmark = DEGENERATE


@pytest.mark.parametrize(("kind", "n", "dtype"), [case for case in CASES if case[1] <= 1000])
def test_smooth_ece_is_the_fixed_point(kind: str, n: int, dtype: Any) -> None:
    labels, scores = drawn(kind, n, dtype)
    expected = reference.smooth_ece(reference.columns(labels, scores)[0])
    actual = parts(labels, scores, cd.SmoothECE())
    assert float(actual.x) == pytest.approx(expected, rel=0, abs=1e-4)
    assert float(actual.x_bandwidth) == pytest.approx(float(actual.x), rel=0, abs=1e-4)


def test_smooth_ece_of_confidence_is_mirrored_on_the_unit_interval() -> None:
    labels, scores = simplex_rows(150, 3)
    expected = reference.smooth_ece(reference.columns(labels, scores, "confidence")[0])
    assert cd.smooth_ece(labels, scores, setting="confidence") == pytest.approx(expected, rel=0, abs=1e-4)
    expected = np.mean([reference.smooth_ece(c) for c in reference.columns(labels, scores, "classwise")])
    assert cd.smooth_ece(labels, scores, setting="classwise") == pytest.approx(expected, rel=0, abs=1e-4)


def test_bad_steps_of_smooth_ece() -> None:
    labels, scores = drawn("spread", 30)
    for step in (0.0, -1.0, float("nan")):
        with pytest.raises(ValueError, match=r".+"):
            cd.smooth_ece(labels, scores, step=step)
