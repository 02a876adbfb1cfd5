"""The worst slices of evaluations and comparisons."""

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from scipy.stats import norm

import calibdask as cd
from calibdask.results.ranking import certain_ends, order_text, worst_strata
from calibdask.results.values import Results
from tests.front.scored_models import ADJUSTED, ENDS, binary


def sliced(ci: float | None = None) -> tuple[xr.Dataset, dict[str, Any]]:
    """A result over two names, some combinations of which have no rows."""
    labels, _, near, square = binary(600, 31)
    day = np.arange(600) % 7
    site = np.array(["x", "y"])[np.where(day == 3, 0, np.arange(600) // 300)]
    by = {"day": day, "site": site}
    scores = np.where(day < 3, near, square)
    metrics = {"brier": cd.BrierScore(), "ece": cd.ECE(bins=5)}
    result = cd.evaluate(labels, scores, metrics, by=by, **({} if ci is None else {"ci": ci, "n_boot": 20}))
    return result, by


def worst_by_loops(result: xr.Dataset, metric: str, dims: tuple[str, ...]) -> list[tuple[Any, ...]]:
    """Labels of the slices in their order."""
    actual = []
    shape = [result.sizes[dim] for dim in dims]
    for number, place in enumerate(itertools.product(*map(range, shape))):
        one = result.isel(dict(zip(dims, place, strict=True)))
        value = float(one[metric])
        low = float(one[f"{metric}_low"]) if f"{metric}_low" in result else value
        if not np.isnan(value):
            actual.append(((-low, -value, number), tuple(one[dim].item() for dim in dims)))
    return [labels for _, labels in sorted(actual, key=lambda item: item[0])]


@pytest.mark.parametrize("ci", [None, 0.9])
@pytest.mark.parametrize("metric", ["brier", "ece"])
def test_worst_slices_of_an_evaluation(ci: float | None, metric: str) -> None:
    result, _ = sliced(ci)
    expected = worst_by_loops(result, metric, ("day", "site"))
    assert len(expected) == 13  # of 14 one has no rows
    for n in (1, 4, 100):
        worst = cd.worst_slices(result, metric, n, adjust=None)
        assert dict(worst.sizes) == {"slice": min(n, 13)}
        assert list(zip(worst.day.values, worst.site.values, strict=True)) == expected[:n]
        assert worst.day.dims == worst.site.dims == ("slice",)
        assert set(worst.data_vars) == {metric} | (set() if ci is None else {f"{metric}_low", f"{metric}_high"})
        for name in worst.data_vars:
            values = [result[name].sel(day=d, site=s).item() for d, s in expected[:n]]
            np.testing.assert_array_equal(worst[name], values)


def test_worst_slices_of_a_comparison() -> None:
    labels, scores, near, square = binary(600, 32)
    day = np.arange(600) % 6
    models = {"p": scores, "q": np.where(day < 3, near, square), "r": square}
    result = cd.compare(labels, models, metrics=cd.BrierScore(), by={"day": day}, n_boot=50)
    one = result.sel(challenger="q")
    expected = [label for (label,) in worst_by_loops(one, "brier_score_difference", ("day",))]
    worst = cd.worst_slices(one, "brier_score_difference", adjust=None)
    assert list(worst.day.values) == expected
    assert set(worst.data_vars) == {f"brier_score{end}" for end in (*ENDS, *ADJUSTED)}
    for name in worst.data_vars:
        np.testing.assert_array_equal(worst[name], one[name].sel(day=expected))
    model = cd.worst_slices(result.sel(model="r"), "brier_score", n=2)
    values = result.brier_score.sel(model="r")
    assert list(model.day.values) == list(values.sortby(-values).day.values[:2])
    pair = cd.compare(labels, scores, models["q"], cd.BrierScore(), by={"day": day}, n_boot=50)
    assert list(cd.worst_slices(pair, "brier_score_difference", adjust=None).day.values) == expected


def test_results_know_their_rows_and_their_slices_when_stored(tmp_path: Path) -> None:
    labels, scores, near, _ = binary(200, 39)
    by = {"day": np.arange(200) % 3}
    results = {
        "evaluated": (cd.evaluate(labels, scores, {"m": cd.BrierScore()}, by=by), "m"),
        "compared": (cd.compare(labels, scores, near, {"m": cd.BrierScore()}, by=by, n_boot=10), "m_difference"),
    }
    for name, (result, metric) in results.items():
        assert result.attrs["rows"] == 200, name
        assert result.attrs["passes"] == 1, name
        result.to_netcdf(tmp_path / f"{name}.nc")
        with xr.open_dataset(tmp_path / f"{name}.nc") as stored:
            actual, expected = cd.worst_slices(stored, metric), cd.worst_slices(result, metric)
            np.testing.assert_array_equal(actual[metric], expected[metric])
            np.testing.assert_array_equal(actual.day, expected.day)


def test_ties_of_slices_go_by_value_and_by_appearance() -> None:
    """Scores are such that the Brier scores of slices are known, and equal in pairs."""
    miss = np.repeat([0.5, 0.25, 0.5, 0.75, 0.25], 10)
    result = cd.evaluate(np.zeros(50, int), miss, {"m": cd.BrierScore()}, by={"day": np.repeat(list("abcde"), 10)})
    np.testing.assert_array_equal(result.m, [0.25, 0.0625, 0.25, 0.5625, 0.0625])
    assert list(cd.worst_slices(result, "m").day.values) == ["d", "a", "c", "b", "e"]
    assert list(cd.worst_slices(result, "m", 2).day.values) == ["d", "a"]
    ends = {"low": [0.1, 0.05, 0.2, 0.1, 0.05], "high": np.ones(5)}
    lows = result.assign({f"m_{end}": ("day", v, {**result.m.attrs, "bound": end}) for end, v in ends.items()})
    assert list(cd.worst_slices(lows, "m", adjust=None).day.values) == ["c", "d", "a", "b", "e"]
    with pytest.raises(ValueError, match="intervals of a known level"):
        cd.worst_slices(lows, "m")


def test_worst_slices_refuse_what_they_cannot_order() -> None:
    labels, scores, near, square = binary(200, 33)
    by = {"day": np.arange(200) % 2}
    result = cd.evaluate(labels, scores, [cd.BrierScore(), cd.ECE()], by=by)
    with pytest.raises(ValueError, match=r"(?s)brier_score.*ece|ece.*brier_score"):
        cd.worst_slices(result, "brier")
    with pytest.raises(ValueError, match=r"slice|by"):
        cd.worst_slices(cd.evaluate(labels, scores, cd.BrierScore()), "brier_score")
    compared = cd.compare(labels, {"p": scores, "q": near, "r": square}, metrics=cd.BrierScore(), by=by, n_boot=5)
    with pytest.raises(ValueError, match="challenger"):
        cd.worst_slices(compared, "brier_score_difference")
    with pytest.raises(ValueError, match="model"):
        cd.worst_slices(compared, "brier_score")
    unsliced = cd.compare(labels, scores, near, cd.BrierScore(), n_boot=5)
    with pytest.raises(ValueError, match=r"slice|by"):
        cd.worst_slices(unsliced, "brier_score_difference")
    folds = xr.DataArray(np.stack([scores, near]), dims=("fold", "sample"))
    folded = cd.evaluate(xr.DataArray(labels, dims="sample"), folds, cd.BrierScore(), by=by)
    with pytest.raises(ValueError, match="fold"):
        cd.worst_slices(folded, "brier_score")
    assert cd.worst_slices(folded.isel(fold=1), "brier_score").sizes["slice"] == 2


def test_bounds_are_not_ranked() -> None:
    result, _ = sliced(0.9)
    with pytest.raises(ValueError, match=r"^metric expects one of brier, ece, got 'ece_low'\.$"):
        cd.worst_slices(result, "ece_low")
    day = {"day": np.arange(60) % 3}
    named = cd.evaluate(np.arange(60) % 2, np.linspace(0, 1, 60), {"ece_low": cd.ECE()}, by=day)
    assert cd.worst_slices(named, "ece_low", 1).sizes == {"slice": 1}


class TestAdjusted:
    @pytest.mark.parametrize("metric", ["brier", "ece"])
    def test_ends_hold_for_all_slices(self, metric: str) -> None:
        result, _ = sliced(0.9)
        alone, worst = cd.worst_slices(result, metric, 13, adjust=None), cd.worst_slices(result, metric, 13)
        assert alone.attrs["judged"] == worst.attrs["judged"] == 13
        assert worst[f"{metric}_low"].attrs["adjusted"] == "bonferroni"
        assert "adjusted" not in alone[f"{metric}_low"].attrs
        alone = alone.set_xindex(["day", "site"]).sel(slice=worst.set_xindex(["day", "site"]).indexes["slice"])
        assert (worst[f"{metric}_low"].values <= alone[f"{metric}_low"].values).all()
        assert (worst[f"{metric}_high"].values >= alone[f"{metric}_high"].values).all()
        assert (np.diff(worst[f"{metric}_low"]) <= 0).all()
        # Those that are alike are in the order of their own ends.
        equal = np.diff(worst[f"{metric}_low"]) == 0
        assert (np.diff(alone[f"{metric}_low"])[equal] <= 0).all()

    def test_other_numbers_have_ends_of_normal_intervals(self) -> None:
        result, _ = sliced(0.9)
        worst = cd.worst_slices(result, "brier", 13)
        own = [result[name].sel(day=worst.day, site=worst.site) for name in ("brier", "brier_low", "brier_high")]
        factor = norm.isf(0.05 / 13) / norm.isf(0.05)
        np.testing.assert_allclose(worst.brier_low, np.maximum(own[0] - factor * (own[0] - own[1]), 0), rtol=1e-12)
        np.testing.assert_allclose(worst.brier_high, own[0] + factor * (own[2] - own[0]), rtol=1e-12)

    def test_weighted_slices_and_other_settings_have_them_too(self) -> None:
        labels, scores, _, _ = binary(400, 5)
        by = {"day": np.arange(400) % 4}
        weighted = cd.evaluate(
            labels, scores, cd.ECE(), by=by, sample_weight=1.0 + np.arange(400) % 3, ci=0.9, n_boot=20
        )
        matrix = np.stack([1 - scores, scores], 1)
        by_class = cd.evaluate(labels, matrix, {"ece": cd.ECE(setting="classwise")}, by=by, ci=0.9, n_boot=20)
        for result in (weighted, by_class):
            worst = cd.worst_slices(result, "ece")
            own = [result[name].sel(day=worst.day) for name in ("ece", "ece_low")]
            factor = norm.isf(0.05 / 4) / norm.isf(0.05)
            np.testing.assert_allclose(worst.ece_low, np.maximum(own[0] - factor * (own[0] - own[1]), 0), rtol=1e-12)

    def test_bad_adjustment(self) -> None:
        result, _ = sliced(0.9)
        with pytest.raises(ValueError, match="adjust expects"):
            cd.worst_slices(result, "ece", adjust="holm")  # type: ignore[arg-type]

    def test_strata_of_all_models_are_judged_together(self) -> None:
        labels, _, near, square = binary(900, 33)
        both = xr.DataArray(np.stack([near, square]), dims=("model", "sample"))
        result = cd.evaluate(
            xr.DataArray(labels, dims="sample"), both, cd.ECE(), by={"day": np.arange(900) % 3}, ci=0.9
        )
        results = Results(result)
        part = results.variable("ece")
        low = certain_ends(part, 0.9, 6)[0]
        order = sorted(range(6), key=lambda at: (-low.ravel()[at], -part.bounds["low"].values.ravel()[at]))
        assert worst_strata(results, 6)[:2] == order[:2]
        alone = sorted(range(6), key=lambda at: -part.bounds["low"].values.ravel()[at])
        assert worst_strata(results, 6, None)[:3] == alone[:3]
        assert "all 6 slices at a time" in order_text(results)
        assert "pointwise for 6 slices" in order_text(results, None)


def ratios(ci: float | None) -> xr.Dataset:
    """Slice "half" has half of the outcomes that are expected in many rows, "small" three times as many in few rows."""
    rng = np.random.default_rng(5)
    slices = np.repeat(["fair", "half", "more", "small"], [4000, 4000, 4000, 12])
    factor = np.select([slices == "half", slices == "more", slices == "small"], [0.5, 1.3, 3.0], 1.0)
    scores = rng.uniform(0.1, 0.3, slices.size)
    labels = (rng.random(slices.size) < factor * scores).astype(int)
    options = {} if ci is None else {"ci": ci, "n_boot": 20}
    return cd.evaluate(labels, scores, [cd.ObservedExpected(), cd.MeanGap()], by={"slice_": slices}, **options)


def test_ratios_are_ranked_by_their_distance_from_one() -> None:
    result = ratios(None)
    by_hand = sorted(
        result.slice_.values, key=lambda name: -abs(np.log(float(result.observed_expected.sel(slice_=name))))
    )
    assert by_hand.index("half") < by_hand.index("more")
    assert list(cd.worst_slices(result, "observed_expected").slice_.values) == by_hand
    places = worst_strata(Results(result.drop_vars([name for name in result if str(name).startswith("mean_gap")])), 4)
    assert [str(result.slice_.values[place]) for place in places] == by_hand


@pytest.mark.parametrize("adjust", ["bonferroni", None])
def test_with_intervals_evidence_of_either_side_ranks(adjust: Any) -> None:
    result = ratios(0.95)
    for metric in ("observed_expected", "mean_gap"):
        worst = cd.worst_slices(result, metric, adjust=adjust)
        assert list(worst.slice_.values)[:2] == ["half", "more"]
        only = result[[name for name in result if str(name).startswith(metric)]]
        places = worst_strata(Results(only), 2, adjust)
        assert [str(result.slice_.values[place]) for place in places] == ["half", "more"]


def test_slopes_are_ranked_by_their_distance_from_one() -> None:
    rng = np.random.default_rng(6)
    slices = np.repeat(["flat", "steep", "fair"], 5000)
    power = np.select([slices == "flat", slices == "steep"], [0.5, 1.2], 1.0)
    logit = rng.normal(0, 1.5, slices.size)
    labels = (rng.random(slices.size) < 1 / (1 + np.exp(-power * logit))).astype(int)
    result = cd.evaluate(labels, 1 / (1 + np.exp(-logit)), cd.CalibrationSlope(), by={"site": slices})
    assert list(cd.worst_slices(result, "calibration_slope_slope").site.values) == ["flat", "steep", "fair"]
    assert order_text(Results(result)) == "By |calibration_slope_slope - 1|, of 3 slices."
