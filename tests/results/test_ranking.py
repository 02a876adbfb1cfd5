"""The worst slices of evaluations and comparisons."""

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

import calibdask as cd
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
@pytest.mark.parametrize("n", [1, 4, 10, 100])
def test_worst_slices_of_an_evaluation(ci: float | None, metric: str, n: int) -> None:
    result, _ = sliced(ci)
    expected = worst_by_loops(result, metric, ("day", "site"))
    assert len(expected) == 13  # of 14 one has no rows
    worst = cd.worst_slices(result, metric, n)
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
    worst = cd.worst_slices(one, "brier_score_difference")
    assert list(worst.day.values) == expected
    assert set(worst.data_vars) == {f"brier_score{end}" for end in (*ENDS, *ADJUSTED)}
    for name in worst.data_vars:
        np.testing.assert_array_equal(worst[name], one[name].sel(day=expected))
    model = cd.worst_slices(result.sel(model="r"), "brier_score", n=2)
    values = result.brier_score.sel(model="r")
    assert list(model.day.values) == list(values.sortby(-values).day.values[:2])
    pair = cd.compare(labels, scores, models["q"], cd.BrierScore(), by={"day": day}, n_boot=50)
    assert list(cd.worst_slices(pair, "brier_score_difference").day.values) == expected


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
    assert list(cd.worst_slices(lows, "m").day.values) == ["c", "d", "a", "b", "e"]


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
