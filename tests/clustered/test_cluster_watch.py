"""`watch` of dependent rows: each cluster counts once in a period, whatever the way its rows came."""

import json
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pandas as pd
import pytest
import xarray as xr

import calibdask as cd
from calibdask.analyses.monitoring.attribution import Attribute
from calibdask.cli import main
from calibdask.data.data import Data
from calibdask.data.options import InputOptions
from calibdask.inference.sequential.factors import TILTS
from calibdask.plot.changes import change_picture
from calibdask.report.over_time import Watching, rows_over_time, summary_over_time
from calibdask.storage.summary import Summary
from calibdask.storage.summary_cluster_weights import CLUSTER_WEIGHTED, WEIGHT_PERIODS, weighted_names

DAYS, CLUSTERS = 6, 30
LABELS = np.array([f"2026-08-{day + 1:02}" for day in range(DAYS)])


class Stream:
    """Days of clusters of 1 to 20 rows whose outcomes share a uniform number; customers come back on all days."""

    def __init__(self, seed: int = 0, shift: Any = 0.0) -> None:
        rng = np.random.default_rng(seed)
        size = rng.integers(1, 21, DAYS * CLUSTERS)
        cluster = np.repeat(np.arange(DAYS * CLUSTERS), size)
        self.day, self.g = LABELS[cluster // CLUSTERS], cluster % CLUSTERS
        self.p = rng.random(cluster.size)
        shifts = np.broadcast_to(shift, DAYS * CLUSTERS)[cluster]
        self.y = (rng.random(DAYS * CLUSTERS)[cluster] < self.p + shifts).astype(int)
        self.country = np.where(rng.random(cluster.size) < 0.4, "de", "fr")
        # By definition: the exponents of the rows of a customer on a day add up to 1.
        self.w = 1 / pd.Series(self.g).groupby([self.g, self.day]).transform("size").to_numpy()

    def summary(self, at: Any = slice(None), **options: Any) -> xr.Dataset:
        given = {"by": {"day": self.day[at], "country": self.country[at]}, "groups": self.g[at], **options}
        given = {name: value for name, value in given.items() if value is not None}
        return cd.summarize(self.y[at], self.p[at], settings=["binary"], buckets=16, **given)


ROWS = Stream()
WHOLE = ROWS.summary()
WATCHED = cd.watch(WHOLE, by="country")


def assert_close(a: xr.Dataset, b: xr.Dataset) -> None:
    assert {*a.variables} == {*b.variables}
    for name in a.variables:
        if a[name].dtype.kind == "f":
            np.testing.assert_allclose(a[name], b[name], rtol=1e-9, atol=1e-12, err_msg=str(name))
        else:
            np.testing.assert_array_equal(a[name], b[name], err_msg=str(name))


def test_evidence_is_that_of_rows_with_exponents() -> None:
    result = cd.watch(WHOLE)
    products = json.loads(result.attrs["state"])["processes"]["products"][0]
    for tilt, product in zip(TILTS, products[1:], strict=True):
        factors = tilt * ROWS.y - np.log1p(np.expm1(tilt) * ROWS.p)
        assert product == pytest.approx((ROWS.w * factors).sum(), abs=0.01)
    for number, day in enumerate(LABELS):
        at = day == ROWS.day
        here = result.isel(day=number)
        assert here.rows == at.sum()
        assert float(here.clusters) == pytest.approx(CLUSTERS)
        assert float(here.events) == pytest.approx((ROWS.w * ROWS.y)[at].sum())
        assert float(here.frequency) == pytest.approx(np.average(ROWS.y[at], weights=ROWS.w[at]))
        assert float(here.period_gap) == pytest.approx(np.average((ROWS.y - ROWS.p)[at], weights=ROWS.w[at]))
        assert here.period_gap_low < here.period_gap < here.period_gap_high
    assert result.events.attrs["meaning"] == "sum of the weights of outcomes"
    assert float(result.gap[-1]) == pytest.approx(np.average(ROWS.y - ROWS.p, weights=ROWS.w))
    assert result.attrs["cluster_notes"] == [
        "each cluster (groups) counts once a day: each of its m rows has the weight 1 / m in rates, gaps and evidence"
    ]


def test_few_calibrated_streams_raise_an_alarm() -> None:
    alarms = {"groups": 0, "rows": 0}
    for seed in range(10):
        rows = Stream(seed)
        alarms["groups"] += int(cd.watch(rows.summary(by={"day": rows.day})).alarm.any())
        alarms["rows"] += int(cd.watch(rows.summary(by={"day": rows.day}, groups=None)).alarm.any())
    assert alarms["groups"] == 0
    assert alarms["rows"] >= 2
    shifted = Stream(0, 0.3)
    assert cd.watch(shifted.summary(by={"day": shifted.day})).alarm.any()


def test_repeated_rows_are_one_and_clusters_of_one_row_are_rows() -> None:
    one = np.arange(ROWS.y.size)
    alone = cd.watch(ROWS.summary(groups=one), by="country")
    rows = cd.watch(ROWS.summary(groups=None), by="country")
    for name in ("log_e", "pvalue", "alarm", "found", "since", "gap_low", "error_high", "log_detector", "frequency"):
        np.testing.assert_array_equal(alone[name], rows[name], err_msg=name)
    five = np.repeat(one, 5)
    repeated = cd.watch(ROWS.summary(five, groups=one[five]), by="country")
    assert_close(repeated.drop_vars("rows"), alone.drop_vars("rows"))


def test_ways_to_the_same_numbers(tmp_path: Path) -> None:
    order = np.random.default_rng(1).permutation(ROWS.y.size)
    lazy = [da.from_array(part[order], chunks=200) for part in (ROWS.y, ROWS.p, ROWS.g, ROWS.day, ROWS.country)]
    by = dict(zip(("day", "country"), lazy[3:], strict=True))
    of_dask = cd.summarize(*lazy[:2], by=by, groups=lazy[2], settings=["binary"], buckets=16)
    store = str(tmp_path / "store.zarr")
    days = [ROWS.day == day for day in LABELS]
    for day, at in zip(LABELS, days, strict=True):
        cd.append(ROWS.summary(at, by={"country": ROWS.country[at]}), store, {"day": day})
    together = str(tmp_path / "together.zarr")
    cd.append(WHOLE, together)
    merged = cd.merge(*(ROWS.summary(at) for at in reversed(days)))
    for way in (of_dask, merged, cd.open_summary(store), cd.open_summary(together)):
        assert_close(cd.watch(way, by="country"), WATCHED)
    assert_close(cd.watch(WHOLE), cd.watch(WHOLE.sum("country")))
    first = cd.watch(WHOLE.isel(day=slice(0, 3)), by="country")
    assert_close(cd.watch(WHOLE, by="country", state=first.attrs["state"]), WATCHED.isel(day=slice(3, None)))
    # Without buckets the weights are still there.
    assert_close(cd.watch(WHOLE.drop_dims("cluster_bucket"), by="country"), WATCHED)


def test_parts_and_longer_periods_divide_weights(tmp_path: Path) -> None:
    half = np.arange(ROWS.y.size) % 2 == 0
    parts = cd.merge(ROWS.summary(half), ROWS.summary(~half))
    assert parts[WEIGHT_PERIODS].values.tolist() == [2] * DAYS
    result = cd.watch(parts)
    # Nobody has a weight of more than 1, however rows were divided among the parts.
    in_parts = sum(cd.watch(ROWS.summary(at)).clusters.values for at in (half, ~half))
    np.testing.assert_allclose(result.clusters, in_parts / 2)
    assert "2026-08-05 and 1 more: rows were summarized in several parts" in result.attrs["cluster_notes"][1]
    store = str(tmp_path / "store.zarr")
    cd.append(WHOLE, store)
    cd.append(ROWS.summary(by={"country": ROWS.country}), store, {"day": "2026-12-01"})
    cd.expire(store, 30)
    months = cd.watch(cd.open_summary(store))
    assert months.day.values.tolist() == ["2026-08", "2026-12-01"]
    assert months.clusters.values == pytest.approx([CLUSTERS, CLUSTERS])
    assert len(months.attrs["cluster_notes"]) == 2
    week = np.where(ROWS.day < LABELS[3], "2026-W31", "2026-W32")
    both = ROWS.summary(by={"day": ROWS.day, "week": week})
    np.testing.assert_allclose(cd.watch(both, "week").clusters, [CLUSTERS, CLUSTERS])
    assert_close(cd.watch(both), cd.watch(WHOLE))
    # Other times divide a day, and are no periods.
    month = np.where(ROWS.country == "de", "2026-05", "2026-06")
    for name, labels in {"hour": np.arange(ROWS.y.size) % 24, "cohort": month}.items():
        assert_close(cd.watch(ROWS.summary(by={name: labels, "day": ROWS.day})), cd.watch(WHOLE))
    # Without names or labels of periods, clusters count once in all.
    part = {"part": week == "2026-W31"}
    once = cd.watch(ROWS.summary(by=part), "part")
    assert float(once.clusters.sum()) == pytest.approx(CLUSTERS)
    np.testing.assert_allclose(cd.watch(ROWS.summary(by=part, period="part"), "part").clusters, [CLUSTERS] * 2)
    named = str(tmp_path / "named.zarr")
    hours = {"hour": np.arange(ROWS.y.size)[ROWS.day == LABELS[0]] % 24}
    cd.append(ROWS.summary(ROWS.day == LABELS[0], by=hours, period={"day": LABELS[0]}), named, {"day": LABELS[0]})
    assert float(cd.watch(cd.open_summary(named)).clusters[0]) == pytest.approx(CLUSTERS)


def test_misfits_are_refused(tmp_path: Path) -> None:
    old = WHOLE.drop_vars(weighted_names(WHOLE.data_vars))
    with pytest.raises(ValueError, match=r"watch expects a summary in which each cluster counts once"):
        cd.watch(old)
    with pytest.raises(ValueError, match=r"watch expects a summary in which each cluster counts once"):
        cd.watch(cd.merge(old, WHOLE))
    store = str(tmp_path / "old.zarr")
    cd.append(old.isel(day=slice(0, 2)), store)
    cd.append(WHOLE.isel(day=slice(2, 4)), store)
    assert cd.open_summary(store).sizes["day"] == 4
    new = str(tmp_path / "new.zarr")
    cd.append(WHOLE.isel(day=slice(0, 2)), new)
    with pytest.raises(ValueError, match="append expects a summary in which each cluster counts once in a period"):
        cd.append(old.isel(day=slice(2, 4)), new)
    with pytest.raises(ValueError, match=r"again with groups \(--groups\), into a new store"):
        cd.watch(cd.open_summary(store))
    batches = ROWS.summary(by={"batch": np.unique(ROWS.day, return_inverse=True)[1]})
    (note,) = cd.watch(batches, period="batch").attrs["cluster_notes"]
    assert "counts once in all batch labels together (summarize with period='batch')" in note
    state = cd.watch(ROWS.summary(groups=None)).attrs["state"]
    with pytest.raises(ValueError, match="groups none, and this watch has groups groups"):
        cd.watch(WHOLE, state=state)
    for misfit, by in (("dya", {"day": ROWS.day}), ("day", None), ({"day": 1, "hour": 2}, None)):
        with pytest.raises(ValueError, match="period expects"):
            ROWS.summary(by=by, period=misfit)
    for period in ("day", {"day": LABELS[0]}):
        with pytest.raises(ValueError, match="period expects rows with groups"):
            ROWS.summary(groups=None, period=period)
    with pytest.raises(ValueError, match="same periods in which clusters count once"):
        cd.merge(ROWS.summary(by={"part": ROWS.day}), ROWS.summary(by={"part": ROWS.country}))
    with pytest.raises(ValueError, match=rf"'rows{CLUSTER_WEIGHTED}' already"):
        ROWS.summary(by={f"rows{CLUSTER_WEIGHTED}": ROWS.day})


def test_at_the_shell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = Stream(0, 0.3)
    expected = cd.watch(rows.summary(), by="country")
    table, file, store, state = (str(tmp_path / name) for name in ("rows.parquet", "s.nc", "store.zarr", "state.json"))
    columns = {"label": rows.y, "score": rows.p, "day": rows.day, "country": rows.country, "customer": rows.g}
    pd.DataFrame(columns).to_parquet(table)
    options = ["--groups", "customer", "--by", "country", "--buckets", "16", "--setting", "binary"]
    assert main(["summarize", table, *options, "--by", "day", "--out", file]) == 0
    assert main(["summarize", table, *options, "--period", "day", "--append", store]) == 0
    for path in (file, store):
        assert_close(cd.watch(cd.open_summary(path), by="country").drop_attrs(), expected.drop_attrs())
    capsys.readouterr()
    assert main(["watch", store, "--by", "country", "--state", state]) == 1
    assert "each cluster (customer) counts once a day: each of its m rows" in capsys.readouterr().out
    assert main(["watch", store, "--by", "country", "--state", state, "--json"]) == 1
    alarm = json.loads(capsys.readouterr().out.splitlines()[0])
    assert (alarm["groups"], alarm["new"]) == ("customer", False)
    assert alarm["rows"] in np.cumsum(expected.rows.sel(country=alarm["by"]["country"]))


def test_reports_say_how_clusters_count_and_changes_have_no_intervals() -> None:
    rows = Stream(0, np.repeat([0.0, 0.0, 0.4], DAYS * CLUSTERS // 3))
    by = {"day": rows.day, "country": rows.country}
    data, watching = Data.of(rows.y, rows.p, by, None, InputOptions(groups=rows.g)), Watching("day")
    for given in (rows_over_time(data, watching, 1), summary_over_time(Summary.of(rows.summary()), [], watching, 1)):
        assert given.leading is not None
        assert given.leading.is_off
        assert next(iter(given.notes)).startswith("Calibration over time: each cluster (groups) counts once a day")
        assert given.since is not None
        assert given.since.low < 0.4 < given.since.high
        (changes,) = list(given.changes.values())[:1]
        assert np.isfinite(changes[0].within[0])
        assert np.isnan(changes[0].within[1])
        assert "nan" not in str(change_picture(changes, "words"))
    change = cd.attribute(rows.summary(), slice(None, LABELS[3]), slice(LABELS[4], None))
    assert change.attrs["groups"] == "groups"
    document = Attribute("", "").document(change)
    assert "No intervals: they would assume independent rows" in str(document)
    assert " to -)" not in str(document)
