"""A user's own estimators in the explorer: beside the usual metrics, as an order of the slices, and in results."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar

import numpy as np
import panel as pn
import pytest
import xarray as xr

import calibdask as cd
from calibdask.estimators.about import About, Description, PartInfo
from calibdask.estimators.estimator import Estimator
from calibdask.estimators.parts import Estimate, Number
from calibdask.explore.application import page_of
from calibdask.explore.cubes.controls import Controls
from calibdask.explore.cubes.variables import interval_ends, titles_of, variables_of
from calibdask.explore.summaries.own_metrics import OwnMetrics
from calibdask.explore.summaries.page import SummaryPage
from calibdask.explore.summaries.pool import Pool, Selection
from calibdask.explore.summaries.slice_ranking import RankingMetric, SliceRanking
from calibdask.statistics.bins.bin_sums import BinSums
from calibdask.statistics.bins.binnings import BinEdges, Uniform
from calibdask.statistics.exact import value
from calibdask.statistics.layout import Layout
from calibdask.statistics.request import Requests
from calibdask.storage.writers import write_dataset

pytestmark = pytest.mark.filterwarnings("ignore:The inplace keyword in DataFrame.reset_index")

RNG = np.random.default_rng(5)
ROWS = 2000
SCORES = RNG.random(ROWS)
SITE = RNG.choice(["north", "south", "west"], ROWS)
LABELS = (RNG.random(ROWS) < np.where(SITE == "south", SCORES**3, SCORES)).astype(int)


@dataclass(frozen=True)
class Overconfidence(Estimator):
    """The mean excess of scores over frequencies, in five bins."""

    about: ClassVar = About("Mean overconfidence", "sum_b w_b max(score_b - outcome_b, 0)")

    def describe(self, layout: Layout) -> Description:
        return {"": PartInfo("mean excess of the scores", "error")}

    def estimate(self) -> Requests[Estimate]:
        setting = (yield from Layout()).setting(None, None)
        edges = yield from BinEdges(Uniform(5), setting)
        sums = yield from BinSums(setting, edges)
        excess = np.maximum(value(sums.score) - value(sums.outcome), 0.0)
        return {"": Number((excess.sum(-1) / value(sums.weight).sum(-1))[..., 0])}


@pytest.fixture
def summary() -> xr.Dataset:
    return cd.summarize(LABELS, SCORES, by={"site": SITE}, settings=["binary"])


def page_with(summary: xr.Dataset, own: OwnMetrics) -> SummaryPage:
    page = SummaryPage(Pool(summary), "summary.zarr", own)
    page.page()
    return page


def test_an_own_error_is_shown_with_its_interval_and_orders_slices(summary: xr.Dataset) -> None:
    page = page_with(summary, OwnMetrics.of({"excess": Overconfidence()}))
    plain = cd.evaluate(summary.sum("site"), metrics={"excess": Overconfidence()}, ci=0.95)
    numbers = page.numbers.object
    assert 'data-metric="excess"' in numbers
    assert "Mean overconfidence<small>mean excess of the scores</small>" in numbers
    assert f"{float(plain.excess):.4f}" in numbers
    assert f"{float(plain.excess_low):.4f} to {float(plain.excess_high):.4f}" in numbers
    assert "…" not in numbers
    page.slices.metric.value = "Mean overconfidence"
    plain = cd.worst_slices(cd.evaluate(summary, metrics={"excess": Overconfidence()}, ci=0.95), "excess")
    frame = page.slices.frame()
    assert frame["site"].tolist() == plain["site"].values.tolist()
    assert frame["site"][0] == "south"
    np.testing.assert_array_equal(frame["low"], plain["excess_low"])


def test_own_errors_measure_a_setting_of_their_own() -> None:
    matrix = RNG.dirichlet(np.ones(3), ROWS)
    summary = cd.summarize((matrix.cumsum(1) > 0.5).argmax(1), matrix, by={"site": SITE})
    own = OwnMetrics.of({"excess": Overconfidence()})
    pool = Pool(summary)
    expected = float(cd.evaluate(summary.sum("site"), metrics=Overconfidence()).overconfidence)
    for setting in ("confidence", "classwise", 1):
        result, reasons = own.measured(pool.pooled(Selection(), setting, complete=True), setting)
        assert float(result.excess) == expected
        assert reasons == {}
        ranking = SliceRanking(pool, ["site"], Selection(), RankingMetric.from_estimator(Overconfidence(), setting))
        assert ranking.advance(60)
        assert ranking.dataset().sizes["slice"] == 3


def test_what_a_summary_does_not_suffice_for_is_said(summary: xr.Dataset) -> None:
    page = page_with(summary, OwnMetrics.of([cd.SKCE(), Overconfidence()]))
    assert "Not shown: " in page.note.object
    assert "cannot be computed from a summary" in page.note.object
    assert 'data-metric="overconfidence"' in page.numbers.object
    assert 'data-metric="ece"' in page.numbers.object


def test_an_order_that_cannot_be_computed_says_why(summary: xr.Dataset) -> None:
    own = OwnMetrics.of({"rows": cd.MulticlassECE(bins=4)})
    page = page_with(summary, own)
    (label,) = own.errors(Pool(summary).source.layout)
    page.slices.metric.value = label
    assert "cannot be computed from a summary" in page.slices.note.object
    assert list(page.slices.table) == []
    page.slices.metric.value = "ECE"
    assert len(page.slices.frame()) == 3


def test_names_of_the_page_are_refused(summary: xr.Dataset, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="ece is already shown on this page"):
        OwnMetrics.of(cd.ECE(bins=3))
    result = cd.evaluate(summary, metrics=cd.ECE())
    result.to_netcdf(tmp_path / "result.nc")
    with pytest.raises(ValueError, match="metrics are computed from summaries"):
        page_of(str(tmp_path / "result.nc"), Overconfidence())
    write_dataset(summary, tmp_path / "summary.zarr")
    make = page_of(str(tmp_path / "summary.zarr"), {"excess": Overconfidence()})
    assert isinstance(make, partial)
    (own,) = (given for given in make.args if isinstance(given, OwnMetrics))
    assert own.estimators == {"excess": Overconfidence()}


def test_a_stored_result_is_explored_by_titles(summary: xr.Dataset, tmp_path: Path) -> None:
    result = cd.evaluate(summary, metrics={"ece": cd.ECE(), "excess": Overconfidence()}, ci=0.95)
    name = "result.zarr"
    write_dataset(result, tmp_path / name)
    pn.extension("tabulator")
    make = page_of(str(tmp_path / name))
    assert isinstance(make, partial)
    opened = make.args[0]
    assert set(variables_of(opened)) == {"ece", "excess"}
    assert titles_of(opened)["excess"] == "Mean overconfidence"
    assert interval_ends(opened, "ece") == ("ece_low", "ece_high")
    controls = Controls(opened, lambda: None)
    assert controls.variable.options["Mean overconfidence"] == "excess"
    controls.variable.value = "excess"
    assert controls.view().text().startswith("Mean overconfidence")
    assert make().title == name


def test_a_metric_called_like_a_bound_is_no_bound(summary: xr.Dataset) -> None:
    result = cd.evaluate(summary, metrics={"ece": cd.ECE(), "ece_low": cd.MCE(), "ece_high": Overconfidence()})
    assert variables_of(result) == ["ece", "ece_low", "ece_low_rows", "ece_high"]
    assert interval_ends(result, "ece") is None


def test_results_without_axes_are_refused(tmp_path: Path) -> None:
    cd.evaluate(LABELS, SCORES, cd.ECE()).to_netcdf(tmp_path / "result.nc")
    with pytest.raises(ValueError, match="without slices"):
        page_of(str(tmp_path / "result.nc"))
