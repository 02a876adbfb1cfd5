"""Summaries with clusters: they add up, and give the intervals of the rows without the rows."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import calibdask as cd
from calibdask.analyses import summarizing
from calibdask.cli import main
from calibdask.engine.workers import Workers
from calibdask.statistics.cluster_cells import CLUSTER_CELLS, counted_clusters
from calibdask.storage.summary_cluster_weights import weighted_names
from tests.clustered.clustered_data import clustered_rows

ROWS = clustered_rows()
METRICS = {
    "brier": cd.BrierScore(),
    "loss": cd.LogLoss(),
    "gap": cd.MeanGap(),
    "ece": cd.ECE(bins=10),
    "smooth": cd.SmoothECE(),
    "ratio": cd.ObservedExpected(),
    "slope": cd.CalibrationSlope(),
    "c": cd.CStatistic(),
}
DAY = np.where(np.arange(ROWS.y.size) % 3 == 0, "mon", "tue")


def summary(at: object = slice(None), **options: object) -> xr.Dataset:
    chosen = {"settings": ["binary"], "buckets": 512, **options}
    return cd.summarize(ROWS.y[at], ROWS.p[at], groups=ROWS.g[at], **chosen)


WHOLE = summary()


def numbers(result: xr.Dataset) -> dict[str, float]:
    return {name: float(one) for name, one in result.data_vars.items() if one.ndim == 0}


@pytest.mark.parametrize("name", list(METRICS))
def test_intervals_of_a_summary_are_those_of_its_rows(name: str) -> None:
    chosen = {name: METRICS[name]}
    of_rows = numbers(cd.evaluate(ROWS.y, ROWS.p, chosen, ci=0.95, n_boot=100, groups=ROWS.g))
    of_summary = numbers(cd.evaluate(WHOLE, metrics=chosen, ci=0.95, n_boot=100))
    ends = [end for end in of_rows if end.endswith(("_low", "_high"))]
    assert ends
    for end in ends:
        assert of_summary[end] == pytest.approx(of_rows[end], abs=3e-5)


def test_without_its_buckets_a_summary_is_that_of_rows_without_clusters() -> None:
    plain = cd.summarize(ROWS.y, ROWS.p, settings=["binary"])
    dropped = WHOLE.drop_dims("cluster_bucket").drop_attrs()
    # Weights by which clusters count once stay: `watch` needs no buckets.
    weights = weighted_names(dropped)
    xr.testing.assert_identical(dropped.drop_vars(weights), plain.drop_attrs())
    assert cd.merge(dropped.drop_vars(weights), plain).sizes == plain.sizes
    with pytest.raises(ValueError, match="same units that count once in a period, got clusters and rows"):
        cd.merge(dropped, plain)


def test_clusters_are_counted_and_named() -> None:
    result = cd.evaluate(WHOLE, metrics=cd.BrierScore(), ci=0.95)
    assert int(result.clusters) == 60
    assert result.attrs["groups"] == "groups"
    assert result.attrs["cluster_buckets"] == 512
    of_rows = cd.evaluate(ROWS.y, ROWS.p, cd.BrierScore(), ci=0.95, groups=ROWS.g)
    # Two clusters that share a bucket are one there.
    assert float(result.effective_rows) == pytest.approx(float(of_rows.effective_rows), rel=0.2)


def test_parts_that_cut_clusters_merge_into_the_summary_of_all_rows() -> None:
    halves = [summary(slice(None, 700)), summary(slice(700, None))]
    merged = cd.merge(*halves).drop_attrs()
    # In each half a cluster counts once.
    weighted = weighted_names(merged)
    xr.testing.assert_identical(merged.drop_vars(weighted), WHOLE.drop_attrs().drop_vars(weighted))
    assert merged.cluster_weight_periods == 2
    with pytest.raises(ValueError, match="same buckets of clusters, got 512 and none"):
        cd.merge(halves[0], halves[1].drop_dims("cluster_bucket"))


def test_slices_add_up() -> None:
    by_day = summary(by={"day": DAY})
    pooled = cd.evaluate(by_day.sum("day"), metrics=METRICS["brier"], ci=0.95)
    whole = cd.evaluate(WHOLE, metrics=METRICS["brier"], ci=0.95)
    assert numbers(pooled) == numbers(whole)
    of_days = cd.evaluate(by_day, metrics=METRICS["brier"], ci=0.95)
    at = DAY == "mon"
    monday = cd.evaluate(summary(at), metrics=METRICS["brier"], ci=0.95)
    assert numbers(of_days.sel(day="mon", drop=True)) == pytest.approx(numbers(monday), rel=1e-12)


def test_accumulators_have_the_intervals_of_summaries() -> None:
    metrics = {name: METRICS[name] for name in ("brier", "gap", "smooth")}
    options: dict[str, Any] = {"settings": ["binary"], "buckets": 16}
    parts = [cd.Accumulator(metrics, classes=1, **options) for _ in range(3)]
    for part, at in zip(parts, (slice(0, 700), slice(700, 701), slice(701, None)), strict=True):
        part.update(ROWS.y[at], ROWS.p[at], groups=ROWS.g[at])
    states = [part.state_dict() for part in (*parts, cd.Accumulator(metrics, classes=1, **options))]
    together = cd.Accumulator(metrics, **options)
    together.load_state_dict({name: sum(state[name] for state in states) for name in states[0]})
    result = parts[0].merge(parts[1]).merge(parts[2]).result(ci=0.95)
    xr.testing.assert_identical(together.result(ci=0.95), result)
    expected = cd.evaluate(summary(buckets=16), metrics=metrics, ci=0.95)
    assert numbers(result) == pytest.approx(numbers(expected), rel=1e-12)
    assert int(result.clusters) == int(expected.clusters)
    with pytest.raises(ValueError, match="groups in all updates of an Accumulator with buckets"):
        parts[0].update(ROWS.y, ROWS.p)
    with pytest.raises(ValueError, match="got groups without buckets"):
        cd.Accumulator(metrics).update(ROWS.y, ROWS.p, groups=ROWS.g)
    with pytest.raises(ValueError, match="buckets expects settings"):
        cd.Accumulator(metrics, buckets=64)
    with pytest.raises(ValueError, match="a different one"):
        cd.Accumulator(metrics, settings=["binary"]).load_state_dict(states[0])


def test_weights_and_several_classes() -> None:
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(3), ROWS.y.size)
    y = np.array([rng.choice(3, p=row) for row in p])
    w = rng.random(ROWS.y.size)
    for options in ({}, {"sample_weight": w}):
        whole = cd.summarize(y, p, groups=ROWS.g, buckets=128, **options)
        halves = [
            cd.summarize(y[at], p[at], groups=ROWS.g[at], buckets=128, **{k: v[at] for k, v in options.items()})
            for at in (slice(None, 500), slice(500, None))
        ]
        metrics = {"ece": cd.ECE(), "classes": cd.ECE(setting="classwise"), "brier": cd.BrierScore()}
        first = numbers(cd.evaluate(whole, metrics=metrics, ci=0.9, n_boot=50))
        again = numbers(cd.evaluate(cd.merge(*halves), metrics=metrics, ci=0.9, n_boot=50))
        rows = numbers(cd.evaluate(y, p, metrics, ci=0.9, n_boot=400, groups=ROWS.g, **options))
        assert first == pytest.approx(again, rel=1e-9)
        assert first["brier_high"] - first["brier"] == pytest.approx(rows["brier_high"] - rows["brier"], rel=0.35)


def test_models_of_the_same_rows() -> None:
    models = {"a": ROWS.p, "b": ROWS.p**2}
    whole = cd.summarize(ROWS.y, models, groups=ROWS.g, settings=["binary"])
    result = cd.evaluate(whole, metrics=cd.BrierScore(), ci=0.9)
    one = cd.summarize(ROWS.y, models["b"], groups=ROWS.g, settings=["binary"])
    alone = cd.evaluate(one, metrics=cd.BrierScore(), ci=0.9)
    assert float(result.sel(model="b").brier_score_high) == pytest.approx(float(alone.brier_score_high), rel=1e-12)


def test_periods_append_and_expire(tmp_path: Path) -> None:
    store = str(tmp_path / "summary.zarr")
    for number, day in enumerate(("2026-08-30", "2026-08-31", "2026-12-01")):
        cd.append(summary(np.arange(ROWS.y.size) % 3 == number), store, {"day": day})
    whole = numbers(cd.evaluate(WHOLE, metrics=METRICS["brier"], ci=0.95))
    assert numbers(cd.evaluate(cd.open_summary(store).sum("day"), metrics=METRICS["brier"], ci=0.95)) == whole
    cd.expire(store, "30d")
    assert numbers(cd.evaluate(cd.open_summary(store).sum("day"), metrics=METRICS["brier"], ci=0.95)) == whole
    with pytest.raises(ValueError, match="buckets of clusters"):
        cd.append(cd.summarize(ROWS.y, ROWS.p, settings=["binary"]), store, {"day": "2026-12-02"})


def test_counts_of_clusters_are_within_their_precision() -> None:
    rng = np.random.default_rng(0)
    for count, reach in ((12, 0.1), (100, 0.05), (5000, 0.1), (300_000, 0.1)):
        codes = rng.integers(0, 1 << 52, count)
        level = np.minimum([int(code & -code).bit_length() - 1 for code in (codes >> 10) | (1 << 60)], 15)
        rows = np.zeros((1, 64, CLUSTER_CELLS), np.int64)
        np.add.at(rows, (0, codes % 64, level * 16 + (codes >> 6) % 16), 3)
        assert counted_clusters(rows).clusters[0] == pytest.approx(count, rel=reach)
    assert counted_clusters(np.zeros((1, 64, CLUSTER_CELLS), np.int64)).clusters[0] == 0


def test_a_dominant_cluster_is_named_and_few_clusters_have_no_interval() -> None:
    big = np.where(np.arange(ROWS.y.size) < ROWS.y.size // 2, -1, ROWS.g)
    result = cd.evaluate(cd.summarize(ROWS.y, ROWS.p, groups=big), metrics=cd.BrierScore(), ci=0.9)
    assert any("one cluster has" in note for note in result.attrs["cluster_notes"])
    few = ROWS.g < 9
    result = cd.evaluate(summary(few), metrics=cd.BrierScore(), ci=0.9)
    assert np.isnan(result.brier_score_low)


def test_limits_are_decided_by_clusters() -> None:
    few = summary(ROWS.g < 9)
    assert cd.check(few, limits={"brier-score": 0.9}).outcome == "cannot be decided"
    assert cd.check(WHOLE, limits={"brier-score": 0.3}).outcome == "met"


@pytest.mark.parametrize("buckets", [63, 8, 1024, True, "64"])
def test_other_numbers_of_buckets_are_refused(buckets: object) -> None:
    with pytest.raises(ValueError, match="buckets expects a power of 2 from 16 to 512"):
        summary(buckets=buckets)


def test_what_lost_buckets_is_refused() -> None:
    with pytest.raises(ValueError, match="expects all buckets"):
        cd.evaluate(WHOLE.isel(cluster_bucket=slice(3)), metrics=cd.BrierScore())
    with pytest.raises(ValueError, match="lost rows_buckets"):
        cd.evaluate(WHOLE.drop_vars("rows_buckets"), metrics=cd.BrierScore())
    with pytest.raises(ValueError, match=r"of memory, .* for each of 5 copies"):
        cd.summarize(
            ROWS.y, ROWS.p, groups=ROWS.g, by={"each": np.arange(ROWS.y.size)}, buckets=512, settings=["binary"]
        )


def test_analyses_of_independent_rows_refuse_a_summary_with_clusters() -> None:
    with pytest.raises(ValueError, match="summarize these without groups"):
        cd.threshold(WHOLE, setting="binary")
    with pytest.raises(ValueError, match=r"drop_dims\('cluster_bucket'\)"):
        cd.PlattScaling().fit(WHOLE)
    with pytest.raises(ValueError, match="without clusters of rows"):
        cd.evaluate(WHOLE, metrics=cd.BrierScore(), population=cd.Population(prevalence=0.1))


Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def run(*words: str) -> tuple[int, str, str]:
        status = main(list(words))
        return status, *capsys.readouterr()

    return run


def test_histograms_by_bucket_that_do_not_fit_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(summarizing, "memory_in_force", lambda: Workers(2, 10**8))
    with pytest.raises(ValueError, match=r"^2 slices with 512 buckets .* about 1\.1 GB of memory.*0\.1 GB are free"):
        summary(by={"day": DAY})
    assert summary(by={"day": DAY}, buckets=16).sizes["day"] == 2


def test_at_the_shell(run: Run, tmp_path: Path) -> None:
    file, out = str(tmp_path / "rows.parquet"), str(tmp_path / "summary.zarr")
    pd.DataFrame({"label": ROWS.y, "score": ROWS.p, "patient": ROWS.g}).to_parquet(file)
    options = ["--groups", "patient", "--buckets", "128", "--setting", "binary", "--out", out]
    status, output, error = run("summarize", file, *options)
    assert status == 0, error
    assert "128 buckets of clusters" in output
    status, output, error = run("evaluate", out, "--metric", "brier-score", "--ci", "0.95")
    assert status == 0, error
    assert "\nabout 60 clusters (patient)" in output
    status, output, error = run("evaluate", out, "--ci", "0.95")
    assert status == 0, error
    status, _, error = run("summarize", file, "--buckets", "128", "--out", str(tmp_path / "other.zarr"))
    assert status == 2
    assert "--buckets has no effect without --groups" in error
