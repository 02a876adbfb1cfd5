"""Results say what they are, and are read back by that alone: names of variables mean nothing."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import xarray as xr

import calibdask as cd
from calibdask.estimators.about import About, Description, PartInfo
from calibdask.estimators.estimator import Estimator
from calibdask.estimators.parts import Estimate, calibration_error
from calibdask.results.build import FORMAT
from calibdask.results.values import Results, Value
from calibdask.statistics import exact
from calibdask.statistics.bins.bin_sums import BinSums
from calibdask.statistics.bins.binnings import BinEdges, Uniform
from calibdask.statistics.layout import Layout
from calibdask.statistics.request import Requests

RNG = np.random.default_rng(0)
SCORES = RNG.dirichlet(np.ones(3), 400)
LABELS = RNG.integers(0, 3, 400)
DAY = RNG.choice([1, 2], 400)


@dataclass(frozen=True)
class LargestOverconfidence(Estimator):
    """An error that is defined outside the package."""

    about = About("Largest overconfidence", "The larger of 0 and mean score less frequency.", "Nobody, 2026", "LOC")

    def describe(self, layout: Layout) -> Description:
        return {"": PartInfo("mean score less frequency, at least 0", "error")}

    def estimate(self) -> Requests[Estimate]:
        setting = (yield from Layout()).setting(None)
        sums = yield from BinSums(setting, (yield from BinEdges(Uniform(1), setting)))
        gap = exact.value(exact.subtract(sums.score, sums.outcome)) / exact.value(sums.weight)
        return {"": calibration_error(np.maximum(gap[..., 0], 0.0))}


def values_of(result: xr.Dataset) -> dict[str, Value]:
    return {value.name: value for value in Results(result).values()}


def test_names_that_look_like_bounds_are_metrics_of_their_own() -> None:
    metrics = {"ece": cd.ECE(), "ece_low": cd.ECE(bins=5), "ece_high": cd.ECE(bins=30)}
    values = values_of(cd.evaluate(LABELS, SCORES, metrics))
    assert list(values) == ["ece", "ece_low", "ece_high"]
    assert not any(value.has_interval for value in values.values())
    with pytest.raises(ValueError, match="ece_low"):
        cd.evaluate(LABELS, SCORES, metrics, ci=0.9, n_boot=5)


def test_parts_bounds_and_kinds() -> None:
    metrics = {"e": cd.ECE(), "c": cd.CORP(), "t": cd.SpiegelhalterTest(), "curve": cd.ReliabilityCurve()}
    results = Results(cd.evaluate(LABELS, SCORES, metrics, ci=0.9, n_boot=5))
    kinds = {(part.metric, part.part): part.kind for part in results}
    assert kinds["e", ""] == kinds["c", "miscalibration"] == "error"
    assert (kinds["t", "statistic"], kinds["t", "pvalue"]) == ("statistic", "pvalue")
    assert (kinds["c", "score"], kinds["curve", "reliability"], kinds["curve", "bandwidth"]) == (
        "score",
        "curve",
        "choice",
    )
    assert [part.variable for part in results.errors] == ["e", "c_miscalibration"]
    (curve,) = results.of("curve", "reliability")
    assert set(curve.bounds) == {"low", "high", "median", "band_low", "band_high"}
    (test,) = results.of("t", "pvalue")
    assert not test.has_interval
    (error,) = results.of("e")
    assert (error.interval_method, error.setting, error.label) == ("corrected", "confidence", "ECE, 15 bins")
    assert error.title.startswith("Expected calibration error")
    assert "mean outcome_j" in error.definition


def test_slices_models_and_classes(tmp_path: Any) -> None:
    scores = xr.DataArray(
        np.stack([SCORES, SCORES[::-1]]), dims=("model", "sample", "class"), coords={"model": list("ab")}
    )
    labels = xr.DataArray(LABELS, dims="sample")
    metrics = [cd.ECE(), cd.MeanGap(setting="classwise")]
    result = cd.evaluate(labels, scores, metrics, by={"day": DAY}, ci=0.9, n_boot=5)
    results = Results(result)
    assert (results.batch, results.slices, results.class_dim, results.level) == (("model",), ("day",), "class", 0.9)
    assert [part.variable for part in results.numbers] == ["ece"]
    assert results.of("mean_gap", "")[0].own_dims == ("class",)
    for at, position in results.strata():
        value = results.at(at).values()[0]
        expected = result.ece.sel(model=position["model"], day=position["day"])
        assert value.value == expected.item()
        assert value.low <= value.value <= value.high
    result.to_netcdf(tmp_path / "r.nc")
    with xr.open_dataset(tmp_path / "r.nc") as stored:
        assert [part.variable for part in Results(stored)] == [part.variable for part in results]
        assert Results(stored).slices == ("day",)


def test_comparisons_have_pvalues_beside_their_differences() -> None:
    result = cd.compare(
        LABELS, SCORES, SCORES**2 / (SCORES**2).sum(1, keepdims=True), cd.ECE(), n_boot=20, by={"d": DAY}
    )
    results = Results(result)
    (difference,) = results.of("ece", "difference")[:1]
    assert difference.kind == "difference"
    assert set(difference.bounds) == {"low", "high", "pvalue", "pvalue_holm", "pvalue_bh"}
    assert [part.variable for part in results.numbers] == [
        "ece_difference",
        "ece_difference_pvalue",
        "ece_difference_pvalue_holm",
        "ece_difference_pvalue_bh",
    ]


def test_an_error_of_ones_own_is_one_everywhere() -> None:
    result = cd.evaluate(LABELS, SCORES, {"mine": LargestOverconfidence()}, by={"day": DAY}, ci=0.9, n_boot=10)
    (error,) = Results(result).errors
    assert (error.metric, error.title, error.source) == ("mine", "Largest overconfidence", "Nobody, 2026")
    assert error.interval_method == "corrected"
    assert cd.worst_slices(result, "mine", 1).sizes["slice"] == 1
    table = repr(cd_table(cd.evaluate(LABELS, SCORES, {"mine": LargestOverconfidence()})))
    assert "mean score less frequency, at least 0" in table


def cd_table(result: xr.Dataset) -> Any:
    import calibdask.accessor  # noqa: F401

    return result.calib.table()


def test_an_error_that_is_not_declared_as_one_has_no_interval_by_chance() -> None:
    class Undeclared(LargestOverconfidence):
        def describe(self, layout: Layout) -> Description:
            return {}

    assert Results(cd.evaluate(LABELS, SCORES, {"mine": Undeclared()})).errors
    with pytest.raises(TypeError, match="kind='error'"):
        cd.evaluate(LABELS, SCORES, {"mine": Undeclared()}, ci=0.9, n_boot=5)


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        (
            {"rows": 3, "passes": 1, "calibdask_version": "0.1.0"},
            "a result of calibdask 0.1.0. Evaluate the data again",
        ),
        ({"format": "calibdask result 9", "calibdask_version": "9.0"}, "written as 'calibdask result 9'"),
        ({}, "no result of calibdask"),
    ],
)
def test_what_is_no_result_of_this_form_is_refused(attributes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"in the form '{FORMAT}' is expected") as caught:
        Results(xr.Dataset({"ece": 0.1}, attrs=attributes))
    assert message in str(caught.value)


def test_results_that_are_joined_have_the_dimension_of_joining() -> None:
    results = [cd.evaluate(LABELS, SCORES, [cd.ECE(), cd.ReliabilityDiagram()]) for _ in range(2)]
    joined = xr.concat(results, xr.Variable("model", ["a", "b"]))
    assert Results(joined).batch == ("model",)
    assert [part.variable for part in Results(joined).numbers] == ["ece"]
    assert "Reliability diagram by bin" in repr(cd_table(cd.evaluate(LABELS, SCORES, cd.ReliabilityDiagram())))


def test_models_of_a_summary_are_no_slices() -> None:
    dims = ("model", "sample", "class")
    scores = xr.DataArray(np.stack([SCORES, SCORES[::-1]]), dims=dims)
    summary = cd.summarize(xr.DataArray(LABELS, dims="sample"), scores, by={"day": DAY})
    results = Results(cd.evaluate(summary, metrics=cd.ECE()))
    assert (results.slices, results.batch) == (("day",), ("model",))


def test_names_of_metrics_do_not_mix_with_those_of_replicates() -> None:
    metrics = {"metric": cd.BrierScore(), "values": cd.LogLoss(), "by_chance": cd.ECE(bins=7)}
    result = cd.evaluate(LABELS, SCORES, metrics, ci=0.9, n_boot=5)
    alone = cd.evaluate(LABELS, SCORES, {"values": cd.LogLoss()}, ci=0.9, n_boot=5)
    assert result["values"].item() == alone["values"].item()
    assert result.values_low.item() == alone.values_low.item()
