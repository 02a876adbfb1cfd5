"""What the page of a summary says: the same as sums of slices and `evaluate` say."""

from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pytest
import xarray as xr

import calibdask as cd
from calibdask.explore.summaries.page_metrics import (
    MOST_CLASSES,
    RowChoice,
    cautions,
    metrics_of,
    quick,
    refinements,
    without_interval,
)
from calibdask.explore.summaries.pool import Pool, Selection, pool_of
from calibdask.explore.summaries.shrunken_ranking import SHRUNKEN, ShrunkenRanking
from calibdask.explore.summaries.slice_ranking import RANKING_METRICS, RankingMetric, SliceRanking
from calibdask.explore.summaries.slice_table import SliceTable, ranking_text
from calibdask.explore.summaries.sparse_sums import SparseSums
from calibdask.storage.open_store import open_store
from calibdask.storage.summary import Summary
from calibdask.storage.summary_totals import with_totals
from calibdask.storage.writers import write_dataset

RNG = np.random.default_rng(8)
ROWS = 4000
SCORES = RNG.random(ROWS)
LABELS = (RNG.random(ROWS) < SCORES**1.5).astype(int)
MATRIX = RNG.dirichlet(np.ones(4), ROWS)
CLASSES = (MATRIX.cumsum(1) > RNG.random((ROWS, 1))).argmax(1)
COUNTRY = RNG.choice(["AT", "BE", "CH"], ROWS)
DAY = np.datetime64("2026-01-01") + RNG.integers(0, 5, ROWS)
SOME = Selection((("country", (0, 2)), ("day", (1, 2, 3))))


def binary(**options: Any) -> xr.Dataset:
    return cd.summarize(LABELS, SCORES, by={"country": COUNTRY, "day": DAY}, settings=["binary"], **options)


def multiclass() -> xr.Dataset:
    return cd.summarize(CLASSES, MATRIX, by={"country": COUNTRY, "day": DAY})


def of_models() -> xr.Dataset:
    scores = xr.DataArray(np.stack([SCORES, SCORES**2]), dims=("model", "sample"), coords={"model": ["one", "two"]})
    return cd.summarize(xr.DataArray(LABELS, dims="sample"), scores, by={"country": COUNTRY}, settings=["binary"])


def selected(summary: xr.Dataset) -> xr.Dataset:
    """`SOME` by the means of xarray."""
    return summary.isel(country=[0, 2], day=[1, 2, 3]).sum(["country", "day"])


@pytest.mark.parametrize("setting", ["confidence", "classwise", 2])
def test_pooled_slices_are_their_sum(setting: str | int) -> None:
    summary = multiclass()
    pooled, plain = Pool(summary).pooled(SOME, setting).dataset, selected(summary)
    assert int(pooled["rows"]) == int(plain["rows"]) == Pool(summary).rows(SOME)
    stored = {"confidence": "confidence", "classwise": "classwise", 2: "classwise"}[setting]
    assert {str(name).split("_")[0] for name in pooled.data_vars} == {"rows", "total", stored}
    # A selection by xarray keeps the total of all slices.
    assert int(pooled["total_rows"]) == int(plain["rows"]) < int(plain["total_rows"])
    for name in (name for name in pooled.data_vars if not str(name).startswith("total_")):
        np.testing.assert_array_equal(pooled[name], plain[name])
        assert pooled[name].dtype == plain[name].dtype


def test_numbers_of_a_pool_are_those_of_evaluate() -> None:
    summary = multiclass()
    metrics = {"ece": cd.ECE(setting=2), "density": cd.DensityECE(setting=2)}
    ours = cd.evaluate(Pool(summary).pooled(SOME, 2), metrics=metrics, ci=0.9, n_boot=20)
    theirs = cd.evaluate(selected(summary), metrics=metrics, ci=0.9, n_boot=20)
    # The pool has the histograms of this setting alone.
    xr.testing.assert_identical(ours, theirs.drop_vars(["events", "mean_score", "frequency"]))


@pytest.mark.parametrize("weighted", [False, True])
def test_others_are_the_sum_of_all_other_slices(weighted: bool) -> None:
    weight = {"sample_weight": RNG.random(ROWS)} if weighted else {}
    summary = binary(**weight)
    others = Selection(SOME.slices, is_others=True)
    inside = summary["country"].isin(["AT", "CH"]) & summary["day"].isin(summary["day"][1:4])
    plain = summary.where(~inside, 0).sum(["country", "day"]).astype({n: v.dtype for n, v in summary.data_vars.items()})
    # The total of all slices was spread over them.
    plain = with_totals(plain, ())
    pool = Pool(summary)
    assert 0 < pool.rows(others) == ROWS - pool.rows(SOME) == int(plain["rows"])
    metrics = {"ece": cd.ECE(), "bins": cd.ReliabilityDiagram(), "density": cd.DensityECE()}
    ours = cd.evaluate(pool.pooled(others, None), metrics=metrics)
    theirs = cd.evaluate(plain, metrics=metrics)
    if weighted:
        xr.testing.assert_allclose(ours, theirs, rtol=1e-10)
    else:
        xr.testing.assert_equal(ours, theirs)


def test_others_are_of_the_same_model() -> None:
    summary = of_models()
    others = Selection((("country", (1,)),), (("model", 1),), is_others=True)
    plain = summary.isel(model=1, country=[0, 2]).sum("country")
    np.testing.assert_array_equal(Pool(summary).pooled(others, None).dataset["class_1_count"], plain["class_1_count"])
    assert Pool(summary).rows(Selection(is_others=True)) == 0


def test_weights_are_pooled() -> None:
    summary = binary(sample_weight=RNG.random(ROWS))
    pooled, plain = Pool(summary).pooled(SOME, None).dataset, selected(summary)
    for name in ("class_1_count", "class_1_square", "class_1_rows"):
        np.testing.assert_allclose(pooled[name], plain[name], rtol=1e-12)


@pytest.mark.parametrize("joined", [False, True])
def test_models_are_chosen_and_never_added(joined: bool) -> None:
    summary = of_models()
    if joined:
        # Summaries of one model each do not say that they have scored the same rows.
        apart = [summary.isel(model=i, drop=True).drop_attrs() for i in (0, 1)]
        summary = xr.concat(apart, xr.Variable("model", ["one", "two"]))
    pool = Pool(summary)
    assert pool.rows(Selection()) == ROWS
    assert (pool.models, pool.slices, pool.slice_count) == (("model",), ("country",), 3)
    for model in (0, 1):
        pooled = pool.pooled(Selection(models=(("model", model),)), None).dataset
        plain = summary.isel(model=model).sum("country")
        np.testing.assert_array_equal(pooled["class_1_count"], plain["class_1_count"])
        assert int(pooled["rows"]) == ROWS


def test_an_empty_selection_has_no_rows() -> None:
    pool = Pool(binary())
    nothing = Selection((("country", ()),))
    assert pool.rows(nothing) == 0
    assert not pool.pooled(nothing, None).dataset["class_1_count"].any()


def test_groups_pool_the_other_dimensions() -> None:
    summary = binary()
    pool = Pool(summary)
    groups = pool.groups(["day"], SOME)
    plain = summary.isel(country=[0, 2]).sum("country")
    np.testing.assert_array_equal(pool.group_rows(groups), plain["rows"])
    np.testing.assert_array_equal(pool.grouped(groups, None).dataset["class_1_offset"], plain["class_1_offset"])
    both = pool.groups(["day", "country"], SOME)
    assert [group.position for group in both[:4]] == [(0, 0), (0, 1), (0, 2), (1, 0)]
    assert pool.group_rows(both).sum() == ROWS


def test_settings_are_those_that_the_summary_tells() -> None:
    assert Pool(binary()).settings() == {"binary": None}
    assert list(Pool(multiclass()).settings().values()) == ["confidence", "classwise", 0, 1, 2, 3]
    one = cd.summarize(CLASSES, MATRIX, by={"day": DAY}, settings=[1])
    assert Pool(one).settings() == {"class 1": 1}


def test_opening_reads_no_numbers() -> None:
    def refuse(*_: Any) -> np.ndarray:
        raise AssertionError("read")

    summary = binary()
    for name in ("class_1_count", "class_1_offset"):
        lazy = da.map_blocks(refuse, da.zeros(summary[name].shape, summary[name].dtype), meta=np.zeros(0, np.int64))
        summary[name] = (summary[name].dims, lazy)
    pool = Pool(summary)
    assert pool.rows(SOME) < ROWS
    assert pool.settings() == {"binary": None}
    assert not pool.is_read(None)
    with pytest.raises(AssertionError, match="read"):
        pool.pooled(SOME, None)


@pytest.mark.parametrize(("most_bytes", "more"), [(1 << 31, 7), (0, 0)])
def test_stored_summaries_are_read_once_or_piece_by_piece(tmp_path: Path, most_bytes: int, more: int) -> None:
    summary = multiclass()
    write_dataset(summary.chunk(country=1, day=2), tmp_path / "summary.zarr")
    opened = open_store(str(tmp_path / "summary.zarr"))
    assert isinstance(opened, Summary)
    sums = SparseSums(opened.dataset, ("country", "day"), most_bytes)
    numbers = np.arange(15).reshape(3, 5)
    groups = [numbers[np.ix_([0, 2], [1, 2, 3])].ravel(), np.array([14]), np.empty(0, np.int64)]
    groups += [np.arange(number, 15) for number in range(more)]
    for name in ("confidence_count", "classwise_offset"):
        sums_of_groups = sums.of(name, groups)
        plain = summary[name].transpose("country", "day", ...).values.reshape(15, *sums_of_groups.shape[1:])
        for sum_of_group, group in zip(sums_of_groups, groups, strict=True):
            np.testing.assert_array_equal(sum_of_group, plain[group].sum(0))
        assert sums.has(name) == (most_bytes > 0)
    assert (sums.nbytes > 0) == (most_bytes > 0)


def test_chunks_that_are_not_needed_are_not_read() -> None:
    read = []

    def note(block: np.ndarray, block_info: Any = None) -> np.ndarray:
        read.append(block_info[0]["chunk-location"][:2])
        return block

    summary = binary()
    name = "class_1_count"
    chunked = da.from_array(summary[name].values, chunks=(1, 1, -1, -1))
    summary[name] = (summary[name].dims, chunked.map_blocks(note, dtype=np.int64, meta=np.zeros(0, np.int64)))
    sums = SparseSums(summary, ("country", "day"), 0)
    read.clear()
    sums.of(name, [np.array([7])])
    # The first piece tells that all do not fit.
    assert set(read) == {(0, 0), (1, 2)}
    read.clear()
    sums.of(name, [np.array([7, 8])])
    assert set(read) == {(1, 2), (1, 3)}


def test_cells_may_be_in_several_chunks() -> None:
    summary = binary()
    name = "class_1_count"
    plain = summary[name].transpose("country", "day", ...).values
    summary[name] = summary[name].chunk(dict(zip(summary[name].dims, (2, 1, 7, 1), strict=False)))
    (found,) = SparseSums(summary, ("country", "day")).of(name, [np.array([3, 7])])
    np.testing.assert_array_equal(found, plain.reshape(15, *plain.shape[2:])[[3, 7]].sum(0))


def test_sums_of_many_groups_are_those_of_each_to_the_last_bit() -> None:
    weights = RNG.random(ROWS) ** 20 * 1e6
    pool = Pool(binary(sample_weight=weights))
    groups = pool.groups(["country", "day"], Selection()) + pool.groups(["day"], Selection())
    name = "class_1_count"
    assert pool.summary[name].dtype == np.float64
    together = pool.sums.of(name, [group.numbers for group in groups])
    for one, group in zip(together, groups, strict=True):
        np.testing.assert_array_equal(one, pool.sums.of(name, [group.numbers])[0])
    rows = [int(pool.rows_of(group.numbers).sum()) for group in groups]
    assert pool.group_rows(groups).tolist() == rows
    assert sum(rows) == 2 * ROWS
    assert pool.group_rows([]).size == 0


def test_sessions_share_what_has_been_read() -> None:
    summary = binary()
    assert pool_of(summary) is pool_of(summary)
    assert pool_of(summary) is not pool_of(binary())


CHOICES = [
    (binary, RowChoice(None, bins=10)),
    (multiclass, RowChoice("confidence", binning="equal-mass")),
    (multiclass, RowChoice("classwise")),
]


@pytest.mark.parametrize(("make", "choice"), CHOICES)
def test_a_page_says_what_evaluate_says(make: Any, choice: RowChoice) -> None:
    summary = make()
    pooled = Pool(summary).pooled(SOME, choice.setting)
    metrics = metrics_of(pooled, choice)
    shown = quick(pooled, choice)
    for refinement in refinements(pooled, choice):
        shown = shown.assign(refinement.compute().data_vars)
    curve = cd.ReliabilityCurve(setting=choice.setting)
    binning = "uniform" if choice.binning == "auto" else choice.binning
    diagram = cd.ReliabilityDiagram(bins=choice.bins, binning=binning, setting=choice.setting)
    plain = cd.evaluate(selected(summary), metrics=metrics | {"curve": curve, "diagram": diagram}, ci=0.95)
    without = without_interval(pooled, choice)
    assert without == (["smooth_ece"] if choice.setting == "classwise" else [])
    missing = [f"{name}_{end}" for name in without for end in ("low", "high")]
    # Of curves what a page shows: no band of all scores together, which takes replicates.
    missing += [f"curve_reliability_{end}" for end in ("median", "band_low", "band_high")]
    missing += [str(name) for name in plain.data_vars if str(name).startswith("curve_density_")]
    assert {str(name) for name in plain.data_vars} - set(missing) <= {str(name) for name in shown.data_vars}
    for name in plain.data_vars:
        if name not in missing:
            np.testing.assert_array_equal(shown[name], plain[name], err_msg=str(name))


def test_bands_are_there_at_once_and_are_not_computed_again() -> None:
    pooled = Pool(binary()).pooled(SOME, None)
    at_once = quick(pooled, RowChoice(None))
    plain = cd.evaluate(pooled, metrics={"curve": cd.ReliabilityCurve()}, ci=0.95)
    for end in ("low", "high"):
        np.testing.assert_array_equal(at_once[f"curve_reliability_{end}"], plain[f"curve_reliability_{end}"])
    assert "curve_reliability_band_low" not in at_once
    assert "curve" not in {name for refinement in refinements(pooled, RowChoice(None)) for name in refinement.names}
    unbanded = quick(pooled, RowChoice(None), banded=False)
    assert "curve_reliability_low" not in unbanded
    assert next(refinements(pooled, RowChoice(None), banded=False)).description == "pointwise band"


def test_of_many_classes_the_worst_have_curves() -> None:
    matrix = RNG.dirichlet(np.ones(20), 3000)
    classes = (matrix.cumsum(1) > RNG.random((3000, 1))).argmax(1)
    classes[(classes == 7) & (RNG.random(3000) < 0.9)] = 8
    half = np.arange(3000) % 2
    pool = Pool(cd.summarize(classes, matrix, by={"half": half}, settings=["classwise"]))
    pooled = pool.pooled(Selection(), "classwise")
    result = quick(pooled, RowChoice("classwise"))
    assert result.sizes["curve_class"] == MOST_CLASSES
    assert {7, 8} <= set(result["curve_class"].values.tolist())
    plain = cd.evaluate(pooled, metrics={"curve": cd.ReliabilityCurve(setting="classwise")})
    at = result["curve_class"].values
    np.testing.assert_allclose(result["curve_reliability"], plain["curve_reliability"].sel({"class": at}), rtol=1e-9)
    other = pool.pooled(Selection((("half", (1,)),)), "classwise")
    np.testing.assert_array_equal(quick(other, RowChoice("classwise"), like=result)["curve_class"], at)
    assert "curve" not in {
        name for refinement in refinements(pooled, RowChoice("classwise")) for name in refinement.names
    }


def warned(labels: Any, scores: Any, **options: Any) -> str:
    summary = cd.summarize(labels, scores, settings=["binary"], **options)
    return " ".join(cautions(quick(Pool(summary).pooled(Selection(), None), RowChoice(None))))


def test_cautions() -> None:
    assert warned(LABELS, SCORES) == ""
    assert "only 50 rows" in warned(LABELS[:50], SCORES[:50])
    calibrated = (RNG.random(ROWS) < SCORES).astype(int)
    assert "begins at 0" in warned(calibrated, SCORES)
    with pytest.warns(UserWarning, match="one kind"):
        assert "The outcome always occurred" in warned(np.ones(ROWS, int), SCORES)
    assert "5 % of the scores are 1" in warned(LABELS, np.where(np.arange(ROWS) % 20, SCORES, 1.0))
    assert "5 % of the scores are 0" in warned(LABELS, np.where(np.arange(ROWS) % 20, SCORES, 0.0))
    weights = np.where(np.arange(ROWS) < 20, 1e6, 1.0)
    assert "no more information than 20 equal ones" in warned(LABELS, SCORES, sample_weight=weights)


def by_site(**options: Any) -> xr.Dataset:
    """Slices of unequal size, one empty, and one with a true error."""
    rng = np.random.default_rng(11)
    site = rng.choice(60, ROWS, p=np.r_[np.full(50, 0.006), np.full(10, 0.07)])
    labels = np.where(site == 55, rng.random(ROWS) < SCORES**4, LABELS).astype(int)
    by = {"site": site, "half": np.arange(ROWS) % 2}
    summary = cd.summarize(labels, SCORES, by=by, settings=["binary"], **options)
    return summary.where(summary["site"] != 3, 0).astype(np.int64).assign_attrs(summary.attrs)


@pytest.mark.parametrize("name", RANKING_METRICS)
def test_worst_first_is_the_order_of_worst_slices(name: str) -> None:
    summary = by_site()
    metric = RankingMetric.usual(name, None, 10)
    ranking = SliceRanking(Pool(summary), ["site"], Selection(), metric)
    certain = []
    while not ranking.advance(0.0):
        certain.append(ranking.order()[: ranking.settled])
    plain = cd.worst_slices(cd.evaluate(summary.sum("half"), metrics={"e": metric.estimator}, ci=0.95), "e", 60)
    slices = ranking.dataset()
    assert slices.sizes["slice"] == plain.sizes["slice"] == 59
    np.testing.assert_array_equal(slices["site"], plain["site"])
    for ours, theirs in (("value", "e"), ("low", "e_low"), ("high", "e_high")):
        np.testing.assert_array_equal(slices[ours], plain[theirs])
    assert len(certain) > 3
    for order in certain:
        np.testing.assert_array_equal(order, ranking.order()[: order.size])
    assert [indexers["site"] for indexers in ranking.indexers()] == slices["site"].values.tolist()
    assert ranking.settled == 59


def test_many_small_slices_are_ordered_by_shrunken_gaps() -> None:
    summary = by_site()
    ranking = ShrunkenRanking(Pool(summary), ["site"], Selection(), None)
    assert ranking.advance(60)
    expected = cd.shrink_slices(summary.sum("half"))
    order = expected.site.values[np.argsort(expected["rank"].values, kind="stable")][1:]
    slices = ranking.dataset()
    np.testing.assert_array_equal(slices["site"], order)
    for ours, theirs in (("value", "shrunken"), ("low", "low"), ("mean_gap_high", "high")):
        np.testing.assert_array_equal(slices[ours], expected[theirs].sel(site=order))
    assert "shrunken mean gaps (empirical Bayes)" in ranking_text(ranking)
    table = SliceTable(Pool(summary.sum("half")), {}, lambda _: None, lambda: None)
    assert table.metric.value == SHRUNKEN
    with pytest.raises(ValueError, match="no single mean gap"):
        ShrunkenRanking(Pool(summary), ["site"], Selection(), "classwise")


def test_the_first_ranks_need_not_all_intervals() -> None:
    worst = SliceRanking(Pool(by_site()), ["site"], Selection(), RankingMetric(cd.ECE(), None))
    assert worst.advance(60, ranks=1)
    assert worst.settled >= 1
    assert worst.with_intervals < worst.rows.size
    assert worst.dataset()["site"].values[0] == 55


def test_slices_are_ordered_within_the_selection() -> None:
    summary = by_site()
    worst = SliceRanking(Pool(summary), ["site"], Selection((("half", (1,)),)), RankingMetric(cd.ECE(), None))
    worst.advance(60)
    plain = cd.evaluate(summary.isel(half=1, drop=True), metrics={"e": cd.ECE()}, ci=0.95)
    np.testing.assert_array_equal(worst.dataset()["low"], cd.worst_slices(plain, "e", 60)["e_low"])
