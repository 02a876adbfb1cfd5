"""Audits of dependent rows: each cluster counts once, and the familywise level holds."""

import json
import math
from functools import partial
from pathlib import Path
from typing import Any

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
import scipy
import xarray as xr

import calibdask as cd
from calibdask.analyses.auditing.evidence import SegmentCells, chernoff_ends, log_e_values, pvalues
from calibdask.analyses.auditing.measures import measured
from calibdask.statistics.cluster_sizes import ClusterSizes
from tests.auditing.loops import TILTS
from tests.cli.sample_rows import Run

WEIGHTED = ["mean_score", "frequency", "gap", "gap_low", "gap_high", "ece", "ece_chance", "ecce", "sigma", "slope"]
EVIDENCE = ["pvalue", "pvalue_adjusted", "log_e", "cluster_weight"]
CHOICES = ["found", "discovery", "described"]


def table(clusters: int = 200, seed: int = 1, off: float = 0.0) -> pd.DataFrame:
    """Clusters of 1 to 6 rows, whose outcomes one number of the cluster decides; ``off`` for men and for the north."""
    rng = np.random.default_rng(seed)
    patient = np.repeat(np.arange(clusters), rng.integers(1, 7, clusters))
    score = (0.2 + 0.5 * rng.random(clusters)[patient] + 0.1 * rng.random(patient.size)).round(2)
    frame = pd.DataFrame({"score": score, "patient": patient, "ward": rng.integers(0, 3, patient.size)})
    frame["sex"] = np.array(["man", "woman"])[rng.integers(0, 2, clusters)][patient]
    frame["north"] = (rng.random(clusters) < 0.3)[patient]
    chance = np.clip(score + off * (frame.sex == "man") - 1.5 * off * frame.north, 0, 1)
    frame["label"] = (rng.random(clusters)[patient] < chance).astype(int)
    return frame


def audit(frame: Any, **options: Any) -> xr.Dataset:
    given = {"groups": "patient", "features": ["ward", "sex", "north"], "min_rows": 20, "score_cells": 16}
    return cd.audit(frame, **{**given, **options})


def close(actual: xr.Dataset, expected: xr.Dataset, names: list[str]) -> None:
    here, there = actual.sortby("number"), expected.sortby("number")
    assert here.segment.values.tolist() == there.segment.values.tolist()
    for name in names:
        np.testing.assert_allclose(here[name].values, there[name].values, rtol=1e-7, atol=1e-10, err_msg=name)
    for name in CHOICES:
        np.testing.assert_array_equal(here[name].values, there[name].values, err_msg=name)


def test_the_level_holds_where_rows_of_a_cluster_are_alike() -> None:
    """200 calibrated data sets of 60 clusters, whose rows share the number that decides their outcomes."""
    rng = np.random.default_rng(0)
    sets, clusters = 200, 60
    size = rng.integers(1, 20, (sets, clusters)) * 1.0
    score = rng.beta(2, 5, (sets, clusters))
    outcome = (rng.random((sets, clusters)) < score) * 1.0
    # A column is a cluster, all of whose rows have one score and one outcome; rows first count one by one.
    rows, events = size, size * outcome
    spread = (size * score * (1 - score)).sum(-1)
    totals = rows.sum(-1), events.sum(-1)
    plain = SegmentCells(rows, events, size * score, rows, events, spread, *totals, 1.0, weighted=False)
    once = SegmentCells.of_clusters(np.ones_like(size), outcome, score, rows, events)
    most = 0.05 + 3 * math.sqrt(0.05 * 0.95 / sets)
    assert (pvalues(plain) <= 0.05).mean() > 2 * most
    assert (pvalues(once) <= 0.05).mean() <= most
    assert np.exp(log_e_values(once)).mean() < 1 + 3 / math.sqrt(sets)
    low, high = chernoff_ends(once, 0.05)
    assert (low > 0).mean() + (high < 0).mean() <= most
    # The same by rows: fewer data sets, with all segments together.
    found = {"patient": 0, None: 0}
    for seed in range(8):
        for groups in found:
            frame = table(60, seed + 10)
            found[groups] += int(audit(frame.loc[frame.index.repeat(3)], groups=groups).found.any())
    assert found["patient"] == 0
    assert found[None] > 2


def test_numbers_of_one_segment_by_loops() -> None:
    frame = table()
    here = audit(frame, score_cells=4000).sel(segment="sex = man, north = True")
    size = frame.patient.map(frame.patient.value_counts())
    rows = frame[(frame.sex == "man") & frame.north]
    w, s, o = (1 / size[rows.index]).to_numpy(), rows.score.to_numpy(), rows.label.to_numpy()

    def log_moment(tilt: float) -> float:
        return sum(v * math.log(1 + math.expm1(tilt) * p) for v, p in zip(w, s, strict=True))

    def log_bound(tilt: float) -> float:
        return log_moment(tilt) - tilt * float(w @ o)

    bound = scipy.optimize.minimize_scalar(log_bound, bounds=(-40, 40), method="bounded", options={"xatol": 1e-10})
    assert float(here.pvalue) == pytest.approx(min(1.0, 2 * math.exp(min(bound.fun, 0.0))), rel=1e-7)
    assert float(here.log_e) == pytest.approx(np.log(np.mean([math.exp(-log_bound(tilt)) for tilt in TILTS])))
    total, mean, rate = w.sum(), w @ s / w.sum(), w @ o / w.sum()
    assert float(here.cluster_weight) == pytest.approx(total)
    assert float(here.gap) == pytest.approx(rate - mean)
    assert float(here.sigma) == pytest.approx(math.sqrt(w @ (s * (1 - s))) / total)
    for end in (float(here.gap_low), float(here.gap_high)):
        mu = end + mean
        divergence = rate * math.log(rate / mu) + (1 - rate) * math.log((1 - rate) / (1 - mu))
        assert total * divergence == pytest.approx(math.log(2 / 0.05))


def test_the_error_by_chance_is_a_bound_for_equal_rows() -> None:
    """Of a cluster of equal rows in each cell the expected error is the mean of 2 s (1 - s)."""
    score = (np.arange(64)[None] + 0.5) / 64
    weight, rows = np.ones((1, 64)), np.full((1, 64), 4.0)
    outcome = (score > 0.3).astype(float)
    chance = measured(SegmentCells.of_clusters(weight, outcome, score, rows, 4 * outcome), 0.05)["ece_chance"]
    assert chance.item() == pytest.approx((2 * score * (1 - score)).mean())


def test_clusters_of_one_row() -> None:
    """All numbers but bounds are those of independent rows, and bounds are wider by a known factor."""
    frame = table().drop_duplicates("patient").reset_index(drop=True)
    frame = pd.concat([frame, frame.assign(label=1)], ignore_index=True)
    alone, clustered = (
        audit(frame, groups=None, score_cells=4000),
        audit(frame, groups=np.arange(len(frame)), score_cells=4000),
    )
    alone, clustered = alone.sortby("number"), clustered.sortby("number")
    for name in ["gap", "mean_score", "frequency", "ece", "ecce", "sigma", "slope", "log_e"]:
        np.testing.assert_allclose(clustered[name].values, alone[name].values, rtol=1e-7, err_msg=name)
    assert (clustered.cluster_weight == clustered.rows).all()
    ratio = (clustered.pvalue / alone.pvalue).values
    assert ratio.min() > 1 - 1e-9
    assert ratio.max() < 15
    assert (clustered.gap_low <= alone.gap_low + 1e-9).all()
    assert (clustered.gap_high >= alone.gap_high - 1e-9).all()


def test_repeated_rows_count_once() -> None:
    frame = table(400, off=0.25).drop_duplicates("patient").reset_index(drop=True)
    once = audit(frame)
    repeated = audit(frame.loc[frame.index.repeat(5)].reset_index(drop=True), min_rows=100)
    # Two groups were separated by a further pass.
    assert once.described.sum() == 2
    close(repeated, once, WEIGHTED + EVIDENCE)
    assert (repeated.sortby("number").rows == 5 * once.sortby("number").rows).all()


def test_any_container_and_any_order_give_the_same(tmp_path: Path) -> None:
    frame = table(off=0.25)
    expected = audit(frame)
    assert bool(expected.found.any())
    frame.to_parquet(tmp_path / "rows.parquet", row_group_size=100)
    arrays = cd.audit(
        frame.label,
        frame.score,
        frame[["ward", "sex", "north"]],
        groups=[f"p{number}" for number in frame.patient],
        min_rows=20,
        score_cells=16,
    )
    for result in (
        audit(frame.sample(frac=1.0, random_state=0)),
        audit(dd.from_pandas(frame, npartitions=3)),
        audit(tmp_path / "rows.parquet"),
        audit(tmp_path / "rows.parquet", features=None),
        arrays,
    ):
        close(result, expected, WEIGHTED + EVIDENCE)
        assert result.attrs["clusters"] == 200
        assert result.attrs["not_excluded"].startswith(expected.attrs["not_excluded"][:12])
    assert expected.attrs["groups"] == "patient"
    assert expected.attrs["conclusion"].endswith("Each of 200 clusters (patient) counts once.")
    assert arrays.attrs["conclusion"].endswith("Each of 200 clusters counts once.")


def test_a_planted_subgroup_of_200_clusters_is_found() -> None:
    frame = table(600, off=0.0)
    off = frame.sex == "man"
    frame["label"] |= off & (np.random.default_rng(3).random(600)[frame.patient] < 0.4)
    result = audit(frame)
    assert result.segment[result.described].values.tolist() == ["sex = man"]
    assert "sex = man (+" in result.attrs["conclusion"]
    assert float(result.gap_low.sel(segment="sex = man")) > 0


def test_features_of_a_cluster_are_not_the_label() -> None:
    rows = table(40)
    rows["label"] = (rows.patient % 3 == 0).astype(int)
    rows["bed"], rows["copy"] = rows.patient.astype(str), rows.label
    with pytest.warns(UserWarning, match="determines the outcome") as warned:
        audit(rows, features=["bed", "copy"], depth=1, min_rows=1)
    assert [str(one.message).split()[1] for one in warned] == ["copy"]


def test_too_many_clusters_count_together(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = table(off=0.25)
    expected = audit(frame).sortby("number")
    monkeypatch.setattr("calibdask.analyses.auditing.cutting.ClusterSizes", partial(ClusterSizes, most=100))
    pooled = audit(frame).sortby("number")
    assert 50 < pooled.attrs["clusters"] <= 100
    assert f"Each of more than {pooled.attrs['clusters']} clusters (patient) counts at most once" in str(pooled.attrs)
    assert (pooled.cluster_weight < expected.cluster_weight).all()
    assert float(pooled.pvalue.min()) > float(expected.pvalue.min())


def test_what_cannot_be_combined_with_groups(tmp_path: Path) -> None:
    frame = table().assign(weight=1.0)
    with pytest.raises(ValueError, match=r"audit expects either groups \(--groups\) or sample_weight \(--weight\)"):
        audit(frame, sample_weight="weight")
    with pytest.raises(ValueError, match="missing ones"):
        audit(frame.assign(patient=frame.patient.where(frame.index > 0)))
    summary = cd.summarize(frame, label="label", score="score", features=["sex"])
    with pytest.raises(ValueError, match="groups has no effect on a summary"):
        cd.audit(summary, groups="patient")


def test_at_the_shell(run: Run, tmp_path: Path) -> None:
    file, page = tmp_path / "visits.csv", tmp_path / "page.html"
    table(off=0.25).to_csv(file, index=False)
    words = ["audit", file, "--features", "all", "--min-rows", 20, "--groups", "patient"]
    status, out, error = run(*words)
    assert status == 1, error
    said = " ".join(out.split())
    assert "Each of 200 clusters (patient) counts once." in said
    assert "200 clusters of dependent rows (patient): each of the m rows of a cluster has the weight 1/m" in said
    # Clusters are no feature.
    assert "patient <=" not in said
    found = json.loads(run(*words, "--json")[1])
    assert (found["groups"], found["clusters"]) == ("patient", 200)
    assert 0 < found["found"][0]["cluster_weight"] < 200
    status, _, error = run(*words, "--weight", "ward")
    assert (status, "either groups (--groups) or sample_weight" in error) == (2, True)
    assert run("report", file, "--features", "sex,north", "--groups", "patient", "--out", page)[0] == 0
    assert "Each of 200 clusters (patient) counts once." in page.read_text()
