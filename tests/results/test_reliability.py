"""Reliability read from results: bins and curves, their errors, means, sides and crossings."""

from typing import Any

import numpy as np
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st

import calibdask as cd
from calibdask.results.reliability import (
    BinnedReliability,
    SignedGaps,
    SmoothReliability,
    only_metric,
    reliability_variables,
)

FOUR = ([0, 1, 1, 1], [0.25, 0.375, 0.625, 0.75])
POINTS = 5
SCORE = np.linspace(0, 1, POINTS)


def curve(reliability: Any, density: Any = 1.0, **attrs: Any) -> SmoothReliability:
    values = {"reliability": reliability, "density": np.broadcast_to(density, POINTS)}
    dataset = xr.Dataset({name: ("score", value) for name, value in values.items()}, {"score": SCORE}, attrs)
    return SmoothReliability.of(dataset, only_metric(dataset, "curve"))


@st.composite
def rows(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    number = draw(st.integers(1, 40))
    labels = draw(st.lists(st.integers(0, 1), min_size=number, max_size=number))
    scores = draw(st.lists(st.floats(0, 1), min_size=number, max_size=number))
    weights = draw(st.lists(st.sampled_from([0.5, 1.0, 3.0]), min_size=number, max_size=number))
    return np.array(labels), np.array(scores), np.array(weights)


def test_bins_of_four_rows() -> None:
    diagram = cd.reliability_diagram(*FOUR, bins=[0, 0.5, 0.9, 1])
    bins = BinnedReliability.of(diagram, only_metric(diagram, "diagram"))
    np.testing.assert_array_equal(bins.score, [0.3125, 0.6875])
    np.testing.assert_array_equal(bins.outcome, [0.5, 1])
    np.testing.assert_array_equal(bins.gap, [0.1875, 0.3125])
    np.testing.assert_array_equal(bins.share, [0.5, 0.5])
    np.testing.assert_array_equal([bins.lower, bins.upper], [[0, 0.5], [0.5, 0.9]])
    assert (bins.rows, bins.error, bins.mean_score, bins.frequency) == (4, 0.25, 0.5, 0.75)
    assert bins.sides == SignedGaps(0, 0.25)
    assert not bins.has_interval


def test_no_rows_have_no_error() -> None:
    nothing = cd.reliability_diagram(*FOUR)
    empty = nothing.assign(count=nothing["count"].copy(data=0 * nothing["count"].values))
    bins = BinnedReliability.of(empty, only_metric(empty, "diagram"))
    assert bins.rows == bins.score.size == bins.share.size == 0
    assert np.isnan([bins.error, bins.mean_score, bins.frequency, *bins.sides]).all()
    empty = curve(np.full(POINTS, np.nan), 0.0)
    assert not empty.has_rows
    assert np.isnan([empty.error, *empty.sides]).all()
    assert empty.crossings.size == 0


@given(rows(), st.integers(1, 12), st.sampled_from(["uniform", "equal-mass"]))
@settings(max_examples=30, deadline=None)
def test_error_is_the_ece_of_the_same_bins(data: tuple[np.ndarray, ...], number: int, binning: Any) -> None:
    labels, scores, weights = data
    options: dict[str, Any] = {"bins": number, "binning": binning}
    metrics = {"ece": cd.ECE(**options), "bins": cd.ReliabilityDiagram(**options)}
    result = cd.evaluate(labels, scores, metrics, sample_weight=weights)
    bins = BinnedReliability.of(result, "bins")
    assert bins.error == pytest.approx(float(result.ece), abs=1e-12)
    assert bins.rows == labels.size
    assert bins.mean_score == pytest.approx(np.average(scores, weights=weights), abs=1e-12)
    assert bins.frequency == pytest.approx(np.average(labels, weights=weights), abs=1e-12)
    assert sum(bins.sides) == pytest.approx(bins.frequency - bins.mean_score, abs=1e-12)
    assert bins.sides.under - bins.sides.over == pytest.approx(bins.error, abs=1e-12)
    assert bins.share.sum() == pytest.approx(1)


def test_crossings_and_sides_of_five_points() -> None:
    one = curve([0.25, 0.25, 0.25, 1.0, 1.0])
    # It crosses at 0.25, which is one of the points, and halfway between 0.5 and 0.75.
    np.testing.assert_allclose(one.gap, [0.25, 0, -0.25, 0.25, 0])
    np.testing.assert_array_equal(one.crossings, [0.25, 0.625])
    halves = one.split()
    np.testing.assert_array_equal(halves["over"].score, [0, 0.25, 0.5, 0.625, 0.75, 1])
    np.testing.assert_array_equal(halves["over"].reliability, [np.nan, 0.25, 0.25, 0.625, np.nan, 1])
    np.testing.assert_array_equal(halves["under"].reliability, [0.25, 0.25, np.nan, 0.625, 1, 1])
    assert one.error == pytest.approx(np.trapezoid(np.abs(one.gap), SCORE))
    assert one.sides == pytest.approx((-0.0625, 0.09375))


@given(st.lists(st.one_of(st.floats(0, 1), st.just(np.nan)), min_size=POINTS, max_size=POINTS))
@settings(max_examples=200)
def test_crossings_are_roots(values: list[float]) -> None:
    one = curve(values)
    crossed = one.with_crossings()
    assert np.all(np.diff(crossed.score) >= 0)
    assert set(SCORE) <= set(crossed.score)
    line = np.interp(one.crossings, SCORE, np.nan_to_num(one.reliability))
    np.testing.assert_allclose(line, one.crossings, atol=1e-12)
    halves = one.split()
    over, under = halves["over"].gap, halves["under"].gap
    assert not (over > 0).any()
    assert not (under < 0).any()
    np.testing.assert_array_equal(np.isnan(over) & np.isnan(under), np.isnan(crossed.gap))
    # No step changes sides but at a point that belongs to both.
    assert not (crossed.gap[:-1] * crossed.gap[1:] < 0).any()
    if one.has_rows:
        assert sum(one.sides) == pytest.approx(one.mean(one.gap), abs=1e-12)
        assert one.sides.under - one.sides.over == pytest.approx(one.error, abs=1e-12)


def test_points_that_miss_the_density_give_no_error() -> None:
    assert np.isfinite(curve(SCORE**2).error)
    assert np.isnan(curve(SCORE**2, 0.5).error)


def test_curves_know_their_level_and_bandwidth() -> None:
    result = cd.evaluate(*FOUR, {"a": cd.ReliabilityCurve(bandwidth=0.2)}, ci=0.9, n_boot=5)
    one = SmoothReliability.of(result, "a")
    assert (one.level, one.bandwidth, one.has_interval, one.has_band) == (0.9, 0.2, True, True)
    np.testing.assert_array_equal(one.low, result.a_reliability_low)
    # The density has no interval.
    assert np.isnan(one.density_high).all()
    curve = cd.reliability_curve(*FOUR, bandwidth=0.2)
    plain = SmoothReliability.of(curve, only_metric(curve, "curve"))
    assert (plain.level, plain.has_interval, plain.has_band) == (None, False, False)


def test_metrics_are_found_whatever_their_names() -> None:
    metrics = {"ece": cd.ECE(), "bins": cd.ReliabilityDiagram(), "curve_reliability": cd.ReliabilityCurve()}
    result = cd.evaluate(*FOUR, metrics)
    assert list(reliability_variables(result, "diagram")) == ["bins"]
    assert list(reliability_variables(result, "curve")) == ["curve_reliability"]
    assert only_metric(result, "curve") == "curve_reliability"
    with pytest.raises(ValueError, match="got 0 diagrams among ece"):
        only_metric(result[["ece"]], "diagram")


def test_classes_and_slices() -> None:
    rng = np.random.default_rng(0)
    scores, labels = rng.dirichlet(np.ones(3), 60), rng.integers(0, 3, 60)
    metrics = {"bins": cd.ReliabilityDiagram(setting="classwise"), "curve": cd.ReliabilityCurve(setting="classwise")}
    result = cd.evaluate(labels, scores, metrics, by={"day": np.arange(60) % 2})
    assert BinnedReliability.dims_of(result, "bins") == ("day", "class")
    of_day = BinnedReliability.by_class(result, "bins", {"day": 1})
    assert list(of_day) == ["0", "1", "2"]
    expected = cd.ece(labels[1::2], scores[1::2], setting=2)
    assert of_day["2"].error == pytest.approx(float(expected))
    assert list(SmoothReliability.by_class(result, "curve", {"day": 0})) == ["0", "1", "2"]
    diagram = cd.reliability_diagram(*FOUR)
    assert list(BinnedReliability.by_class(diagram, only_metric(diagram, "diagram"))) == [""]


def test_means_leave_out_empty_bins() -> None:
    diagram = cd.reliability_diagram([0, 1, 1, 1], [0.2, 0.4, 0.6, 0.8], bins=50)
    bins = BinnedReliability.of(diagram, only_metric(diagram, "diagram"))
    assert bins.mean(bins.outcome) == 0.75
