"""The explorer of summaries with clusters: intervals of clusters, watched weights, and views that refuse them."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import calibdask as cd
from calibdask.explore.summaries.decisions_answer import decisions
from calibdask.explore.summaries.page_metrics import RowChoice
from calibdask.explore.summaries.pool import Pool, Selection
from calibdask.explore.summaries.recalibration_answer import recalibration
from calibdask.explore.summaries.shrunken_ranking import ShrunkenRanking
from calibdask.explore.summaries.slice_gaps import gaps_of
from calibdask.explore.summaries.slice_ranking import RankingMetric, SliceRanking
from calibdask.explore.summaries.slices_over_time import SlicesOverTime, TimeQuery
from calibdask.explore.summaries.tiles import tiles_html, tiles_of
from calibdask.storage.summary_cluster_weights import weighted_names
from tests.clustered.clustered_data import clustered_rows

ROWS = clustered_rows()
FRAME = pd.DataFrame({"label": ROWS.y, "score": ROWS.p, "race": ROWS.g})
FRAME["day"] = np.array(["2026-08-01", "2026-08-02", "2026-08-03"])[np.arange(ROWS.y.size) % 3]
FRAME["state"] = np.where(ROWS.g % 2, "north", "south")
SUMMARY = cd.summarize(FRAME, by=["state", "day"], groups="race", settings=["binary"], buckets=64)
POOL = Pool(SUMMARY)


@pytest.mark.parametrize("settings", [["binary"], ["classwise"]])
def test_gaps_have_the_intervals_of_evaluate(settings: list[str]) -> None:
    summary = cd.summarize(FRAME, by=["state", "day"], groups="race", settings=settings, buckets=64)
    pool = Pool(summary)
    expected = cd.evaluate(summary.sum("day"), metrics={"gap": cd.MeanGap()}, ci=0.95, n_boot=400)
    gaps = gaps_of(pool, list(pool.grid(["state"], Selection())), None, 0.95)
    np.testing.assert_allclose(gaps.value, expected.gap.values.ravel(), atol=1e-9)
    np.testing.assert_allclose(gaps.score, expected.gap_score.values.ravel(), atol=1e-9)
    np.testing.assert_allclose(gaps.high - gaps.low, (expected.gap_high - expected.gap_low).values.ravel(), rtol=0.15)


def test_gaps_of_a_class_with_weights_and_few_clusters() -> None:
    rng = np.random.default_rng(0)
    scores = rng.dirichlet(np.ones(3), 600)
    labels, weights, groups = rng.integers(0, 3, 600), rng.random(600), np.arange(600) % 40
    of = np.where(groups < 9, "few", "many")
    summary = cd.summarize(labels, scores, by={"of": of}, sample_weight=weights, groups=groups, buckets=16)
    pool = Pool(summary)
    for setting in (1, "confidence"):
        expected = cd.evaluate(summary, metrics={"gap": cd.MeanGap(setting=setting)}, ci=0.95, n_boot=200)
        gaps = gaps_of(pool, list(pool.grid(["of"], Selection())), setting, 0.95)
        np.testing.assert_allclose(gaps.value, expected.gap.values.ravel(), atol=1e-9)
        reach = (expected.gap_high - expected.gap_low).values.ravel()
        np.testing.assert_allclose(gaps.high - gaps.low, reach, rtol=0.2)
        assert np.isnan(reach[0])
        assert gaps.certain.tolist()[0] is False


def test_selections_have_the_intervals_of_their_clusters() -> None:
    north = Selection((("state", (0,)),))
    chosen = SUMMARY.isel(state=0, drop=True).sum("day")
    for pooled, expected in (
        (POOL.pooled(Selection(), None), SUMMARY.sum(["state", "day"])),
        (POOL.pooled(north, None), chosen),
    ):
        metrics = {"ece": cd.ECE(), "gap": cd.MeanGap()}
        xr.testing.assert_equal(
            cd.evaluate(pooled, metrics=metrics, ci=0.95), cd.evaluate(expected, metrics=metrics, ci=0.95)
        )
    html = str(tiles_html(tiles_of(POOL, Selection(), RowChoice(None, 15, "auto"), None), 1))
    assert "clusters (race); 1,803 rows are worth about" in html
    ranking = SliceRanking(POOL, ["state"], Selection(), RankingMetric(cd.ECE(), None))
    assert ranking.advance(60)
    expected = cd.evaluate(SUMMARY.sum("day"), metrics=cd.ECE(), ci=0.95)
    np.testing.assert_allclose(np.sort(ranking.value), np.sort(expected.ece.values))
    np.testing.assert_array_less(ranking.low, ranking.value + 1e-12)


def test_clusters_count_once_over_time() -> None:
    watched = SlicesOverTime(POOL, TimeQuery("day", Selection(), None, 0.0, 0.05, by="state"))
    watched.step(lambda: False)
    expected = cd.watch(SUMMARY, by="state")
    for process in watched.processes():
        at = expected.sel(state=process.at["state"])
        np.testing.assert_allclose(process.log_e, at.log_e, atol=1e-9)
        np.testing.assert_array_equal(process.rows, at.rows)
    assert watched.notes == tuple(expected.attrs["cluster_notes"])
    change = watched.change((0, 0), (1, 2))
    assert np.isnan(change.all_total_low)
    without = Pool(SUMMARY.drop_vars(weighted_names(SUMMARY)))
    with pytest.raises(ValueError, match="watch expects a summary in which each cluster counts once"):
        SlicesOverTime(without, TimeQuery("day", Selection(), None, 0.0, 0.05)).step(lambda: False)


def test_views_of_independent_rows_refuse_clusters() -> None:
    with pytest.raises(ValueError, match=r"exact binomial tests, which are not valid for .* \(race\)"):
        decisions(POOL, "s.zarr", Selection(), None, 5.0, 0.2)
    with pytest.raises(ValueError, match="calibdask calibrate ROWS --groups COLUMN --compare"):
        recalibration(POOL, "s.zarr", Selection(), None)
    with pytest.raises(ValueError, match="Shrinkage assumes independent rows"):
        ShrunkenRanking(POOL, ["state"], Selection(), None)
