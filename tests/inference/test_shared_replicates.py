"""Replicates are the same on any number of threads, and of columns alone; short cuts decide as what they stand for."""

from typing import Any

import numpy as np
import pytest
import xarray as xr

import calibdask as cd
from calibdask.engine import workers
from calibdask.engine.plan import run
from calibdask.estimators.interval import FromHistograms
from calibdask.statistics.bins.grid import GridHistogram
from calibdask.statistics.replicates.histograms import left_out, resampled
from calibdask.storage.summary import Summary


def summarized(count: int = 4000) -> xr.Dataset:
    rng = np.random.default_rng(0)
    scores = rng.dirichlet([1, 1, 1], count)
    labels = (scores.cumsum(1) > rng.random((count, 1))).argmax(1)
    return cd.summarize(labels, scores, settings=["classwise"])


def test_columns_alone_have_the_replicates_that_they_have_together() -> None:
    source = Summary.of(summarized()).source
    (histogram,) = (one for one in source.histograms if one.grid.low == 0)
    assert isinstance(histogram, GridHistogram)
    whole = source.state(histogram)
    one = whole.part((slice(None), slice(None), slice(2, 3)))
    for calibrated in (False, True):
        together = resampled(whole, histogram.grid, 3, range(4, 6), calibrated=calibrated)
        alone = resampled(one, histogram.grid, 3, range(4, 6), calibrated=calibrated, first_column=2)
        np.testing.assert_array_equal(alone.mass[:, :, 0], together.mass[:, :, 2])
    np.testing.assert_array_equal(
        left_out(one, 3, range(2), first_column=2).mass[:, :, 0], left_out(whole, 3, range(2)).mass[:, :, 2]
    )


def test_memory_of_replicates_is_that_of_the_columns_that_answer() -> None:
    source = Summary.of(summarized()).source

    def memory(*metrics: cd.CORP | cd.SmoothECE) -> int:
        return source.bytes_of_a_replicate(run(dict(enumerate(metrics)), source).states)

    one = memory(cd.CORP(setting=1))
    # The histogram of cells comes from the one that divides them.
    assert one == memory(cd.SmoothECE(setting=1)) == memory(cd.CORP(setting=1), cd.SmoothECE(setting=1)) > 0
    assert memory(cd.CORP(setting=1), cd.CORP(setting=2)) == 2 * one
    assert memory(cd.CORP(setting="classwise")) == 3 * one


def test_threads_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    summary = summarized()
    metrics = {"corp": cd.CORP(setting=1), "smooth": cd.SmoothECE(setting=1), "ece": cd.ECE(setting=1)}

    def measured(number: int) -> xr.Dataset:
        monkeypatch.setattr(workers, "number_of_threads", lambda: number)
        return cd.evaluate(summary, metrics=metrics, ci=0.9, n_boot=110)

    xr.testing.assert_identical(measured(1), measured(3))


@pytest.mark.parametrize("power", [1.0, 1.04, 1.08, 1.3])
def test_smoothed_errors_start_at_0_as_by_their_fixed_points(power: float, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    scores = rng.random(3000)
    place = np.arange(3000) % 2
    labels = rng.random(3000) < scores**power
    options: dict[str, Any] = {"metrics": cd.SmoothECE(), "by": {"place": place}, "ci": 0.9, "n_boot": 60}
    quick = cd.evaluate(labels, scores, **options)
    asked = []

    def fixed_points(record: FromHistograms, estimate: Any) -> Any:
        asked.append(record.above is not None)
        return record.for_replicates

    monkeypatch.setattr(FromHistograms, "by_chance", fixed_points)
    xr.testing.assert_identical(cd.evaluate(labels, scores, **options), quick)
    # Each slice has a grid of its own.
    assert asked == [True, True]
