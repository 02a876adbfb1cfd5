"""Pairs of more rows than fit a tile, the same for any chunks."""

from typing import Any

import dask.array as da
import numpy as np
import pytest

import calibdask as cd
from tests.estimators.kernel_data import drawn, near


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_errors_of_more_rows_than_fit_a_tile(dtype: Any) -> None:
    labels, scores = drawn("smooth", 1300, 3, dtype)
    p = scores.astype(np.float64)
    residuals = np.eye(3)[labels] - p
    # The formula of the biased and the unbiased estimate, without loops.
    terms = (residuals @ residuals.T) * np.exp(-np.abs(p[:, None] - p).sum(axis=-1) / 2 / 0.4)
    above = np.triu(terms, 1).sum()
    expected = {
        "unbiased": above / (1300 * 1299 / 2),
        "biased": terms.mean(),
        "linear": terms[np.arange(0, 1300, 2), np.arange(1, 1300, 2)].mean(),
    }
    metrics: dict[str, Any] = {name: cd.SKCE(estimator=name, bandwidth=0.4) for name in expected}  # type: ignore[arg-type]
    metrics["median"] = cd.SKCE(bandwidth="median")
    metrics["canonical"] = cd.KernelCanonicalECE(bandwidth=0.1)
    metrics["mmce"] = cd.MMCE()
    whole = cd.evaluate(labels, scores, metrics)
    for name, value in expected.items():
        assert float(whole[name]) == near(value, dtype), name
    for chunks in ((1, 511, 513, 275), (1299, 1)):
        pieces = cd.evaluate(
            da.from_array(labels, chunks=(chunks,)), da.from_array(scores, chunks=(chunks, 3)), metrics
        )
        for name in metrics:
            assert float(pieces[name]) == float(whole[name]), (name, chunks)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_tests_of_more_rows_than_fit_a_tile(dtype: Any) -> None:
    labels, scores = drawn("smooth", 1300, 3, dtype)
    tests = {"quadratic": cd.SKCETest(draws=20), "cme": cd.CMETest(), "free": cd.SKCETest(method="distribution-free")}
    whole = cd.evaluate(labels, scores, tests)
    for chunks in ((1, 511, 513, 275), (1299, 1)):
        lazy = da.from_array(labels, chunks=(chunks,)), da.from_array(scores, chunks=(chunks, 3))
        pieces = cd.evaluate(*lazy, tests)
        for name in whole.data_vars:
            assert float(pieces[name]) == float(whole[name]), (name, chunks)
