"""The bounds that parts of estimators declare hold for any data: limits outside of them are refused."""

import math
import warnings

import numpy as np
import pytest

import calibdask as cd
from calibdask.data.data import Data
from calibdask.estimators.expression import parse_metrics
from calibdask.estimators.signatures import signatures
from calibdask.results.values import Results
from calibdask.statistics.exact import Array

RNG = np.random.default_rng(0)
ROWS = 60
LABELS = np.arange(ROWS) % 2
CLASSES = np.arange(ROWS) % 3
# Right, wrong and undecided, with certainty and without.
DATA: dict[str, tuple[Array, Array]] = {
    "all wrong": (LABELS, 1.0 - LABELS),
    "all right": (LABELS, 1.0 * LABELS),
    "one class": (np.zeros(ROWS, int), RNG.random(ROWS)),
    "any": (LABELS, RNG.random(ROWS)),
    "classes, all wrong": (CLASSES, np.eye(3)[(CLASSES + 1) % 3]),
    "classes": (CLASSES, RNG.dirichlet(np.ones(3), ROWS)),
}
# Refused with so few rows, or without features.
SLOW = {"refinement"}


@pytest.mark.parametrize("name", sorted(set(signatures()) - SLOW))
def test_numbers_lie_within_the_bounds_that_are_declared(name: str) -> None:
    (expression,) = parse_metrics(name)
    measured = 0
    for labels, scores in DATA.values():
        layout = Data.of(labels, scores).read().source.layout
        metric = expression.make()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                result = cd.evaluate(labels, scores, {name: metric})
        except ValueError:
            continue
        for part in Results(result).of(name):
            info = metric.describe(layout).get(part.part)
            if info is None:
                continue
            lowest, highest = info.possible
            values = part.values.values
            known = values[np.isfinite(values)] if values.dtype.kind == "f" else values
            assert (known >= lowest - 1e-12).all(), (part.part, known.min(), lowest)
            assert (known <= highest + 1e-9).all(), (part.part, known.max(), highest)
            measured += known.size
    assert measured


def test_bounds_of_errors_of_probabilities_are_finite() -> None:
    layout = Data.of(LABELS, RNG.random(ROWS)).read().source.layout
    for name in ("ece", "mce", "smooth-ece", "density-ece", "ecce", "mean-gap", "brier-score", "c-statistic", "skce"):
        (expression,) = parse_metrics(name)
        assert all(map(math.isfinite, expression.make().describe(layout)[""].possible))
