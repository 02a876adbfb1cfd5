"""Results that several reports are made of."""

import pytest

from calibdask.report import Measured, measure
from tests.report.sample_rows import CLASSES, COUNTRY, LABELS, MATRIX, TRUTH


@pytest.fixture(scope="session")
def extreme() -> Measured:
    """Scores nearer to 0 and 1 than they should be."""
    scores = TRUTH**2 / (TRUTH**2 + (1 - TRUTH) ** 2)
    return measure(LABELS, scores, by={"country": COUNTRY}, source="extreme.npz")


@pytest.fixture(scope="session")
def multiclass() -> Measured:
    return measure(CLASSES, MATRIX, by={"country": COUNTRY})
