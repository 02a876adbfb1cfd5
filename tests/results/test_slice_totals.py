"""Rows, events, mean score and frequency of each slice: the same from all sources, and exact."""

from fractions import Fraction
from typing import Any

import dask.array as da
import numpy as np
import pytest
import xarray as xr

import calibdask as cd
import calibdask.accessor
from calibdask.estimators.slice_totals import TOTALS

RNG = np.random.default_rng(5)
ROWS = 400
SCORES = RNG.random(ROWS)
LABELS = (RNG.random(ROWS) < SCORES).astype(int)
MATRIX = RNG.dirichlet(np.ones(3), ROWS)
CLASSES = RNG.integers(0, 3, ROWS)
DAY = RNG.choice(["mon", "tue", "wed"], ROWS)
WEIGHTS = RNG.random(ROWS) * (RNG.random(ROWS) > 0.2)
METRICS: dict[str, Any] = {"brier": cd.BrierScore(), "ece": cd.ECE(), "decomposition": cd.BrierDecomposition()}


def totals(result: xr.Dataset) -> dict[str, bytes]:
    return {name: result[name].values.tobytes() for name in TOTALS}


def test_of_a_vector_they_are_those_of_the_rows() -> None:
    result = cd.evaluate(LABELS, SCORES, cd.ECE(), by={"day": DAY})
    for day in result.day.values:
        here = day == DAY
        at = result.sel(day=day)
        assert (int(at.rows), int(at.events)) == (here.sum(), LABELS[here].sum())
        exact = sum(map(Fraction, SCORES[here])) / int(here.sum())
        assert abs(Fraction(float(at.mean_score)) - exact) < Fraction(1, 2**51)
        assert float(at.frequency) == LABELS[here].mean()


def test_of_a_matrix_they_are_those_of_the_largest_score() -> None:
    result = cd.evaluate(CLASSES, MATRIX, cd.ECE(setting="classwise"))
    assert int(result.events) == (MATRIX.argmax(1) == CLASSES).sum()
    assert float(result.mean_score) == pytest.approx(MATRIX.max(1).mean(), abs=1e-14)
    assert result.events.attrs["setting"] == "confidence"


@pytest.mark.parametrize("metric", METRICS)
def test_they_do_not_depend_on_metrics_or_chunks(metric: str) -> None:
    """With sums by bin in the same pass they follow from these, otherwise they have sums of their own."""
    expected = totals(cd.evaluate(LABELS, SCORES, list(METRICS.values()), by={"day": DAY}))
    metrics = {metric: METRICS[metric]}
    assert totals(cd.evaluate(LABELS, SCORES, metrics, by={"day": DAY})) == expected
    chunked = [da.from_array(array, chunks=(70,)) for array in (LABELS, SCORES)]
    assert totals(cd.evaluate(*chunked, metrics, by={"day": da.from_array(DAY, chunks=(70,))})) == expected
    assert totals(cd.evaluate(LABELS, SCORES, metrics, by={"day": DAY}, ci=0.9, n_boot=5)) == expected


@pytest.mark.parametrize("metric", METRICS)
def test_with_weights_all_but_rows_are_weighted(metric: str) -> None:
    result = cd.evaluate(LABELS, SCORES, {metric: METRICS[metric]}, sample_weight=WEIGHTS)
    assert int(result.rows) == (WEIGHTS > 0).sum()
    assert float(result.events) == pytest.approx((WEIGHTS * LABELS).sum(), rel=1e-13)
    assert float(result.mean_score) == pytest.approx(np.average(SCORES, weights=WEIGHTS), rel=1e-13)
    assert float(result.frequency) == pytest.approx(np.average(LABELS, weights=WEIGHTS), rel=1e-13)


def test_of_models_each_has_its_own() -> None:
    scores = xr.DataArray([SCORES, SCORES**2], dims=("model", "sample"), coords={"model": ["a", "b"]})
    result = cd.evaluate(xr.DataArray(LABELS, dims="sample"), scores, cd.BrierScore())
    assert result.rows.dims == ("model",)
    assert result.mean_score.values == pytest.approx([SCORES.mean(), (SCORES**2).mean()], abs=1e-14)
    compared = cd.compare(LABELS, {"a": SCORES, "b": SCORES**2}, metrics=cd.BrierScore(), n_boot=3)
    np.testing.assert_array_equal(compared.mean_score, result.mean_score)


def test_from_a_summary_they_are_the_same() -> None:
    rows = cd.evaluate(LABELS, SCORES, cd.ECE(), by={"day": DAY})
    stored = cd.evaluate(cd.summarize(LABELS, SCORES, by={"day": DAY}), metrics=cd.ECE())
    for name in ("rows", "events", "frequency"):
        np.testing.assert_array_equal(stored[name], rows[name])
    np.testing.assert_allclose(stored.mean_score, rows.mean_score, atol=1e-12)


def test_a_summary_without_that_setting_has_rows_alone() -> None:
    summary = cd.summarize(CLASSES, MATRIX, settings=["classwise"], by={"day": DAY})
    result = cd.evaluate(summary, metrics=cd.ECE(setting="classwise"))
    assert result.rows.values.tolist() == [int((day == DAY).sum()) for day in result.day.values]
    assert not {"events", "mean_score", "frequency"} & {*result.variables}


def test_empty_slices_have_no_means() -> None:
    by = {"day": DAY, "half": np.where(DAY == "mon", 0, 1)}
    empty = cd.evaluate(LABELS, SCORES, cd.ECE(), by=by).sel(day="mon", half=1)
    assert int(empty.rows) == int(empty.events) == 0
    assert np.isnan([empty.mean_score, empty.frequency]).all()


@pytest.mark.parametrize("name", TOTALS)
def test_metrics_do_not_have_their_names(name: str) -> None:
    with pytest.raises(ValueError, match=f"The name '{name}' is taken"):
        cd.evaluate(LABELS, SCORES, {name: cd.ECE()})
    # Slices have an underscore then.
    assert cd.evaluate(LABELS, SCORES, cd.ECE(), by={name: DAY}).ece.dims == (f"{name}_",)


def test_the_rows_behind_a_largest_gap() -> None:
    scores, labels = np.array([0.1] * 9 + [0.9]), np.array([0] * 9 + [0])
    result = cd.evaluate(labels, scores, cd.MCE(bins=2))
    assert (float(result.mce), int(result.mce_rows)) == (pytest.approx(0.9), 1)
    assert "of a bin of 1 row, mostly chance" in repr(result.calib.table())
    assert "mce_rows" not in cd.evaluate(labels, scores, cd.MCE(mapping="convex"))
