"""The study of promises: its samples, its counts, and the page that is written from its results."""

import numpy as np
import pytest
import xarray as xr

from calibdask.study.seeds import Seeds
from experiments.calibration import outcome
from experiments.calibration.cases import CALIBRATED, CASES, OFF
from experiments.calibration.declared import PROMISES, Promise
from experiments.calibration.measured import Measured
from experiments.calibration.study import Promises


@pytest.mark.parametrize("model", [CALIBRATED, OFF])
@pytest.mark.parametrize("name", CASES)
def test_weighted_samples_have_the_moments_of_the_population(name: str, model: str) -> None:
    case = CASES[name]
    sample = case.sample(model, 1, 200_000, np.random.default_rng(0))
    scores, chances = case.population(model)
    weights = np.ones(sample.scores.shape) if sample.weights is None else sample.weights
    assert (sample.weights is not None) == case.weighted
    for values, expected in ((sample.labels, chances.mean()), (sample.scores, scores.mean())):
        mean = np.average(values, weights=weights)
        error = np.sqrt(np.sum(weights**2 * (values - mean) ** 2)) / weights.sum()
        assert abs(mean - expected) < 5 * error + 1e-4
    if case.balanced:
        assert sample.labels.mean() == 0.5


def test_results_that_are_refused_are_no_misses() -> None:
    measured = Measured.of([True, True, False, True], [True, False, True, True])
    assert measured == (4, 0.75, 0.75, pytest.approx(np.sqrt(3) / 8))
    assert Measured.of([True, True], [False, False]).given == 0
    assert Measured.of(np.ones(100)).error > 0


def test_promises_are_broken_beyond_three_standard_errors() -> None:
    holds, rejects = Promise("interval", 0.9, at_least=True), Promise("test", 0.05)
    assert [outcome.is_broken(holds, share, 0.02) for share in (0.83, 0.85, 1.0)] == [True, False, False]
    assert [outcome.is_broken(rejects, share, 0.02) for share in (0.0, 0.1, 0.12)] == [False, False, True]


def test_a_cell_measures_what_is_declared_and_the_same_again() -> None:
    study = Promises(cases=("rare",), rows=(50,), sets=8, replicated_sets=2, n_boot=10)
    at = {"case": "rare", "model": OFF, "rows": 50}
    first, again = (study.cell(at, Seeds(0, tuple(at.items()))) for _ in range(2))
    np.testing.assert_equal(first, again)
    share, given = first["share"], first["given"]
    kinds = {promise.kind for promise, value in zip(PROMISES.values(), share, strict=True) if np.isfinite(value)}
    assert kinds == {"interval", "gate", "guarantee"}
    assert (np.isnan(share) == ~(given > 0)).all()
    assert np.isfinite(share).sum() > 40


def test_a_promise_without_a_measured_cell_is_not_printed() -> None:
    names = ["MeanGap", "BrierScore", "SpiegelhalterTest"]
    shape, dims = (1, 1, 2, 3), ("case", "model", "rows", "promise")
    values = {
        "share": [[0.95, np.nan, 0.3], [0.9, np.nan, np.nan]],
        "standard_error": [[0.01, np.nan, 0.02], [0.01, np.nan, np.nan]],
        "given": [[1.0, np.nan, 1.0], [0.5, np.nan, 0.0]],
        "sets": [[100.0, np.nan, 100.0], [100.0, np.nan, 100.0]],
    }
    summary = xr.Dataset(
        {name: (dims, np.reshape(array, shape)) for name, array in values.items()},
        {"case": ["rare"], "model": [OFF], "rows": [50, 500], "promise": names},
        {"cells": 2, "cells_done": 1},
    )
    text = outcome.written(f"before\n{outcome.BEGIN}\nstale line\n{outcome.END}\nafter\n", summary)
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "stale" not in text
    assert "| MeanGap | 0.90 ± 0.01 (50 % given) |" in text
    assert "| SpiegelhalterTest | **0.300 ± 0.020** |" in text
    assert "BrierScore" not in text
    assert "1 of 2 cells are missing" in text


def test_the_page_is_that_of_the_results() -> None:
    summary = xr.load_dataset(outcome.FOLDER / "promises.nc", engine="scipy")
    page = outcome.PAGE.read_text(encoding="utf-8")
    assert outcome.written(page, summary) == page, "run python -m experiments.calibration.outcome"
    assert set(summary["promise"].values) == set(PROMISES)
    cells = "\n".join(outcome.all_lines(summary))
    assert (outcome.FOLDER / "promises.md").read_text(encoding="utf-8") == cells
