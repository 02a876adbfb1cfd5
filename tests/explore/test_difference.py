"""Differences of numbers with intervals, and the panel of two selections."""

import numpy as np
import pytest
import scipy
import xarray as xr

import calibdask as cd
from calibdask.explore.summaries.difference import Bounded, difference
from calibdask.explore.summaries.metrics_table import metrics_table
from calibdask.explore.summaries.page_metrics import CURVE, RowChoice, quick
from calibdask.explore.summaries.panel_grid import PanelGrid
from calibdask.results.reliability import SmoothReliability
from calibdask.storage.summary import Summary

RNG = np.random.default_rng(7)


def wilson(events: int, rows: int) -> Bounded:
    low, high = scipy.stats.binomtest(events, rows).proportion_ci(method="wilson")
    return Bounded(events / rows, low, high)


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    # Newcombe 1998, table II, method 10.
    [((48, 80), (56, 70), (0.0524, 0.3339)), ((3, 10), (9, 10), (0.1705, 0.8090)), ((2, 7), (6, 7), (0.0582, 0.8062))],
)
def test_published_intervals(first: tuple[int, int], second: tuple[int, int], expected: tuple[float, float]) -> None:
    value, low, high = difference(wilson(*first), wilson(*second))
    assert value == pytest.approx(second[0] / second[1] - first[0] / first[1])
    assert (low, high) == pytest.approx(expected, abs=6e-5)


def test_values_above_their_interval_count_as_its_end() -> None:
    value, low, high = difference(Bounded(0.05, 0.01, 0.03), Bounded(0.2, 0.15, 0.25))
    assert (value, low, high) == pytest.approx((0.15, 0.17 - 0.05, 0.17 + np.hypot(0.05, 0.02)))


def results_of(bends: tuple[float, float]) -> list[xr.Dataset]:
    results = []
    for bend in bends:
        scores = RNG.beta(1, 4, 4000)
        labels = (RNG.random(4000) < scores**bend).astype(int)
        summary = Summary.of(cd.summarize(labels, scores, settings=["binary"]))
        results.append(quick(summary, RowChoice(None)))
    return results


def test_two_selections_have_a_panel_of_their_difference() -> None:
    import panel as pn

    results = results_of((1.0, 1.6))
    grid = PanelGrid(pn.Row())
    grid.show(results)
    _, shown = grid.panels
    data = shown.layers[0]["difference"].data
    first, second = (SmoothReliability.of(result, CURVE) for result in results)
    known = np.isfinite(data["value"])
    # Scores near 1, where hardly any row is, have none.
    assert known[:100].all()
    assert not known[-20:].any()
    gap = 100 * (second.reliability - first.reliability)
    np.testing.assert_allclose(data["value"][known], gap[known])
    middle = slice(60, 120)
    assert (data["high"][middle] < 0).all()
    assert (data["low"][middle] < data["value"][middle]).all()
    # One selection again has its curve back.
    grid.show(results[:1])
    assert "curve" in grid.panels[1].layers[0]


def test_the_table_has_the_interval_of_the_difference() -> None:
    results = results_of((1.0, 1.6))
    first, second = (Bounded(*(float(result[f"ece{end}"]) for end in ("", "_low", "_high"))) for result in results)
    value, low, high = difference(first, second)
    table = metrics_table(results)
    assert f'<td>{value:+.4f}</td><td><span class="ends">{low:+.4f} to {high:+.4f}</span></td>' in table
