"""Numbers from cells of scores in place of rows: what they may be off by, how many rows they hold, equal weights."""

import numpy as np
import pytest

import calibdask as cd
from calibdask.engine.sources.accumulated import AccumulatedSource
from calibdask.statistics.bins.grid import MOST_ROWS, Grid, GridHistogram, GridState
from calibdask.statistics.layout import Layout
from calibdask.statistics.settings import Setting


@pytest.mark.parametrize("seed", range(8))
def test_numbers_from_cells_are_off_by_the_share_of_rows_in_one(seed: int) -> None:
    rng = np.random.default_rng(seed)
    # Clusters narrower than a cell, whose outcomes depend on the order within.
    clusters = rng.integers(0, 4, 400) / 4 + 0.1
    scores = clusters + np.sort(rng.random(400)) * 1e-5
    labels = (np.argsort(np.argsort(rng.permutation(400))) < 200).astype(int) if seed % 2 else np.arange(400) // 200
    metrics = {"mad": cd.ECCE(), "range": cd.ECCE(kind="range"), "corp": cd.CORP()}
    rows = cd.evaluate(labels, scores, metrics)
    cells = cd.evaluate(cd.summarize(labels, scores, settings=["binary"]), metrics=metrics)
    share = np.unique(clusters, return_counts=True)[1].max() / 400
    assert cells.mad.attrs["largest_share"] == cells.corp_score.attrs["largest_share"] == pytest.approx(share)
    assert "largest_share" not in rows.mad.attrs
    for name, bound in (("mad", share / 2), ("range", share), ("corp_miscalibration", share)):
        assert -1e-5 <= float(rows[name] - cells[name]) <= bound + 1e-5, name


def test_half_the_share_of_a_cell_is_reached() -> None:
    labels, scores = np.arange(200) // 100, 0.5 + np.arange(200) * 1e-7
    apart = cd.evaluate(labels, scores, cd.ECCE())
    together = cd.evaluate(cd.summarize(labels, scores, settings=["binary"]), metrics=cd.ECCE())
    # Down by a half of the scores of 1/2 and up again, all in one cell of the unit interval, or on its border.
    assert float(apart.ecce - together.ecce) == pytest.approx(0.25, abs=0.01)


def test_more_rows_of_a_cell_than_it_holds_are_refused() -> None:
    histogram = GridHistogram(Setting("class", 1), Grid(3600))
    none = np.zeros((1, 1, 1, 0, 2))
    mass = np.zeros((1, 1, 1, 3600, 2), np.int64)
    mass[..., 17, 1] = MOST_ROWS
    state = GridState(mass, np.zeros_like(mass), none, none.astype(np.int64))
    histogram.check(state)
    one = replace_mass(state, 1)
    with pytest.raises(ValueError, match=r"fewer than 2\*\*33 rows with scores in one cell"):
        histogram.check(histogram.merge(state, one))
    with pytest.raises(ValueError, match=r"fewer than 2\*\*33 rows"):
        AccumulatedSource({histogram: histogram.merge(state, one)}, Layout(), 0)


def replace_mass(state: GridState, rows: int) -> GridState:
    """A state with so many rows where there are some."""
    return state._replace(mass=np.minimum(state.mass, rows))


@pytest.mark.parametrize("weight", [1.0, 0.3])
def test_equal_weights_leave_bandwidths_as_they_are(weight: float) -> None:
    rng = np.random.default_rng(0)
    labels, scores = rng.integers(0, 2, (200, 12)), rng.random((200, 12))
    labels[:, :2] = 0, 1
    curve = cd.ReliabilityCurve(points=2)
    plain = cd.evaluate(labels, scores, curve, task="binary").reliability_curve_bandwidth
    weighted = cd.evaluate(labels, scores, curve, task="binary", sample_weight=np.full((200, 12), weight))
    bandwidth = weighted.reliability_curve_bandwidth
    np.testing.assert_allclose(bandwidth, plain, rtol=0 if weight == 1.0 else 1e-12)
    assert "depend on the chunks" in weighted.reliability_curve_reliability.attrs["rounding"]
