"""Results that several reports are made of."""

import pytest

from calibdask.report import Measured, measure
from tests.report.sample_rows import CLASSES, COUNTRY, LABELS, MATRIX, TRUTH


@pytest.fixture(autouse=True)
def without_comparisons(request: pytest.FixtureRequest) -> None:
    """Only what is said of recalibration, and the results below, are made with it."""
    if not request.module.__name__.endswith("test_recalibration"):
        request.getfixturevalue("without_recalibration")


@pytest.fixture(scope="session")
def extreme() -> Measured:
    """Scores nearer to 0 and 1 than they should be."""
    scores = TRUTH**2 / (TRUTH**2 + (1 - TRUTH) ** 2)
    return measure(LABELS, scores, by={"country": COUNTRY}, source="extreme.npz")


@pytest.fixture(scope="session")
def multiclass() -> Measured:
    return measure(CLASSES, MATRIX, by={"country": COUNTRY})
