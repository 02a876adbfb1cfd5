"""Confidences, top scores and scores of labels alone tell what the full rows do, to the last bit."""

import dataclasses
from typing import Any

import numpy as np
import pytest

import calibdask as cd
from calibdask.estimators.estimator import Estimator

ROWS, K, M = 300, 400, 5
RNG = np.random.default_rng(7)
FULL = RNG.dirichlet(np.full(K, 0.02), ROWS)
LABELS = np.array([RNG.choice(K, p=row) for row in FULL])
CLASSES = np.argsort(-FULL, axis=1, kind="stable")[:, :M]
TOP = np.take_along_axis(FULL, CLASSES, axis=1)
COUNTRY = RNG.choice(["de", "fr"], ROWS)
METRICS: list[Any] = [
    cd.ECE(),
    cd.ECE(binning="equal-mass", bins=7),
    cd.ECE(norm="l2", debias=True),
    cd.MCE(),
    cd.SmoothECE(),
    cd.ECCE(),
    cd.CORP(),
    cd.BrierDecomposition(),
    cd.SpiegelhalterTest(),
]


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: type(metric).__name__)
def test_confidences(metric: Estimator) -> None:
    of_rows: Any = dataclasses.replace(metric, setting="confidence")  # type: ignore[call-arg]
    options: Any = {"by": {"country": COUNTRY}, "ci": None if metric.is_test else 0.9, "n_boot": 20}
    full = cd.evaluate(LABELS, FULL, {"metric": of_rows}, **options)
    truncated = cd.evaluate(CLASSES[:, 0] == LABELS, TOP[:, 0], {"metric": metric}, **options)
    numbers = [name for name in full.data_vars if np.issubdtype(full[name].dtype, np.number)]
    assert numbers
    for name in numbers:
        np.testing.assert_array_equal(truncated[name].values, full[name].values, err_msg=str(name))


def test_top_k_and_log_loss() -> None:
    among = np.any(LABELS[:, None] == CLASSES, axis=1)
    assert cd.ece(among, TOP.sum(axis=1)) == cd.ece(LABELS, FULL, setting="top-k", k=M)
    assert cd.log_loss(np.ones(ROWS), FULL[np.arange(ROWS), LABELS]) == cd.log_loss(LABELS, FULL)
