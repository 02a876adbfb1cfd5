"""Merging summaries: slices are united to the last bit, and sums that have lost rows are refused."""

from collections.abc import Callable
from functools import cache, reduce
from operator import add
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st

import calibdask as cd
from calibdask.analyses.evaluation import usual_metrics
from calibdask.storage.summary import Summary
from tests import strategies

ROWS = 600
RNG = np.random.default_rng(7)
SCORES = RNG.dirichlet([0.5, 1.0, 2.0], ROWS)
LABELS = np.where(RNG.random(ROWS) < 0.7, SCORES.argmax(1), RNG.integers(0, 3, ROWS))
DAY = RNG.integers(0, 4, ROWS)
COUNTRY = np.array(["de", "fr", "at"])[RNG.integers(0, 3, ROWS)]
WEIGHTS = RNG.integers(0, 4, ROWS) / 4
STEP = 0.003
PROPER = [cd.BrierScore(), cd.LogLoss()]


def summary(rows: Any = slice(None), **options: Any) -> xr.Dataset:
    chosen = {"by": {"country": COUNTRY[rows], "day": DAY[rows]}, "step": STEP, "settings": ["confidence"]} | options
    return cd.summarize(LABELS[rows], SCORES[rows], **chosen)


@cache
def whole() -> xr.Dataset:
    return summary()


def identical(actual: xr.Dataset, expected: xr.Dataset) -> None:
    xr.testing.assert_identical(actual, expected)


def without_totals(given: xr.Dataset) -> xr.Dataset:
    """As the first version of the format was written."""
    new = [name for name in given.variables if str(name).startswith(("total_", "brier_", "log_loss_", "clipped_"))]
    return given.drop_vars([*new, "word_unit"]).assign_coords(calibdask_summary=1)


@cache
def models() -> xr.Dataset:
    scores = xr.DataArray(np.stack([SCORES, SCORES[:, ::-1]]), dims=("model", "sample", "class"))
    return cd.summarize(xr.DataArray(LABELS, dims="sample"), scores, by={"day": DAY}, step=STEP)


# Exactness.


@settings(max_examples=15, deadline=None)
@given(strategies.data(weighted=False), st.integers(0, 2**32 - 1))
def test_parts_merge_into_the_whole(rows: strategies.Data, seed: int) -> None:
    rng = np.random.default_rng(seed)
    vector = rows.layout.vector
    scores = rows.scores[0, :, 0] if vector else rows.scores[0]
    labels, part = rows.labels[0], rng.integers(0, 3, rows.rows)
    day = rng.integers(0, 4, rows.rows)
    options: dict[str, Any] = {"settings": ["binary"] if vector else ["confidence", 0], "step": STEP}

    def of(chosen: Any) -> xr.Dataset:
        return cd.summarize(labels[chosen], scores[chosen], by={"day": day[chosen]}, **options)

    expected = of(slice(None))
    parts = [of(part == number) for number in np.unique(part)]
    identical(cd.merge(*parts), expected)
    identical(cd.merge(*reversed(parts)), expected)
    identical(reduce(cd.merge, parts), expected)


def test_days_are_united_and_common_slices_added() -> None:
    parts = [summary(DAY < 2), summary((DAY >= 1) & (COUNTRY != "at")), summary(DAY == 3)]
    merged = cd.merge(*parts)
    assert merged["day"].values.tolist() == [0, 1, 2, 3]
    assert merged["country"].values.tolist() == ["at", "de", "fr"]
    expected = sum(int(part["rows"].sum()) for part in parts)
    assert int(merged["rows"].sum()) == int(merged["total_rows"]) == Summary.of(merged).rows == expected
    assert int(merged["rows"].sel(country="at", day=2)) == 0
    identical(cd.merge(cd.merge(parts[0], parts[1]), parts[2]), cd.merge(parts[0], cd.merge(parts[1], parts[2])))
    metrics = [*PROPER, cd.ECE()]
    alone = [cd.evaluate(part.sel(day=0), metrics=metrics) for part in (merged, parts[0])]
    xr.testing.assert_equal(*alone)


@pytest.mark.parametrize(
    ("one", "other", "united"),
    [
        ([1.0, np.nan], [np.nan, 1.0], [1.0, np.nan]),
        ([2, 3], [2.0, np.nan], [2.0, 3.0, np.nan]),
        (np.array(["2020-01-02", "NaT"], "M8[s]"), np.array(["2020-01-01", "NaT"], "M8[ns]"), None),
        (np.array(["2020-01-01", "2020-01-02"], "M8[D]"), np.array(["2020-01-01", "2020-01-02"], "M8[ns]"), None),
    ],
)
def test_missing_values_and_units_of_dates_are_united(one: Any, other: Any, united: list[float] | None) -> None:
    parts = [(np.resize(values, ROWS // 2), half) for values, half in ((one, slice(0, 300)), (other, slice(300, 600)))]
    merged = cd.merge(*(summary(rows, by={"g": values}) for values, rows in parts))
    all_values = pd.concat([pd.Series(values) for values, _ in parts]).to_numpy()
    expected = summary(by={"g": all_values})
    np.testing.assert_array_equal(merged.g.values, expected.g.values if united is None else united)
    np.testing.assert_array_equal(merged.rows.values, expected.rows.values)
    for name in Summary.of(merged).histogram_variables:
        np.testing.assert_array_equal(merged[name].values, expected[name].values)


def test_large_numbers_and_missing_values_are_not_united() -> None:
    ids = summary(by={"g": np.resize([2**53, 2**53 + 1], ROWS)})
    with pytest.raises(ValueError, match=r"below 2\*\*53.*give such identifiers as text"):
        cd.merge(ids, summary(by={"g": np.resize([1.0, np.nan], ROWS)}))


def test_order_of_labels_stays_where_it_is_common() -> None:
    backwards = whole().isel(day=slice(None, None, -1))
    assert cd.merge(backwards, backwards)["day"].values.tolist() == [3, 2, 1, 0]
    identical(cd.merge(backwards, whole()), cd.merge(whole(), backwards))
    identical(cd.merge(whole().transpose("day", ...), whole()), cd.merge(whole(), whole()))


def test_weights_merge_up_to_rounding() -> None:
    weighted = summary(sample_weight=WEIGHTS)
    parts = [summary(day == DAY, sample_weight=WEIGHTS[day == DAY]) for day in range(4)]
    xr.testing.assert_allclose(cd.merge(*parts), weighted, rtol=1e-12)
    expected = cd.evaluate(LABELS, SCORES, PROPER, by={"day": DAY}, sample_weight=WEIGHTS)
    actual = cd.evaluate(cd.merge(*parts).sum("country"), metrics=PROPER)
    xr.testing.assert_allclose(actual.drop_attrs(), expected.drop_attrs(), rtol=1e-12)


def test_slices_that_were_concatenated_are_added() -> None:
    twice = xr.concat([whole(), whole()], "day", data_vars="all")
    identical(cd.merge(twice, whole()), cd.merge(whole(), whole(), whole()))


def test_models_merge_by_model() -> None:
    merged = cd.merge(models(), models().isel(day=[0]))
    assert Summary.of(merged).batch == ("model",)
    assert merged["total_rows"].values.tolist() == [ROWS + np.count_nonzero(DAY == 0)] * 2


def test_unlabelled_slices_and_old_files() -> None:
    with pytest.warns(UserWarning, match="number 2 has no sums of proper scores"):
        merged = cd.merge(whole(), without_totals(whole()))
    assert int(merged["total_rows"]) == 2 * ROWS
    with pytest.raises(ValueError, match="has no sums of proper scores, which summaries of earlier versions lack"):
        cd.evaluate(merged, metrics=PROPER)
    unlabelled = whole().drop_vars("day")
    identical(cd.merge(unlabelled), unlabelled)
    with pytest.raises(ValueError, match="expects labels along the slices 'day'"):
        cd.merge(unlabelled, unlabelled)


# Proper scores.


def test_proper_scores_have_the_bits_of_the_rows() -> None:
    by = {"country": COUNTRY, "day": DAY}
    same = {"metrics": PROPER}
    # Mean scores of cells are exact but for their position in the cell.
    sliced = cd.evaluate(LABELS, SCORES, PROPER, by=by).drop_vars("mean_score")
    xr.testing.assert_equal(cd.evaluate(whole(), **same).drop_vars("mean_score"), sliced)
    pooled = cd.evaluate(whole().sum(["country", "day"]), **same).drop_vars("mean_score")
    xr.testing.assert_equal(pooled, cd.evaluate(LABELS, SCORES, PROPER).drop_vars("mean_score"))
    assert {"brier_score", "log_loss"} <= set(usual_metrics(Summary.of(whole()).source))
    # Words hold the sum of 2000 summaries without a carry.
    many = reduce(add, [pooled_summary := whole().sum(["country", "day"])] * 2000)
    expected = cd.evaluate(pooled_summary, **same)
    counted = {name: 2000 * expected[name] for name in ("rows", "events")}
    xr.testing.assert_allclose(cd.evaluate(many, **same), expected.assign_coords(counted), rtol=1e-14)


def test_clipped_rows_are_told() -> None:
    clipped = cd.summarize([1, 0], [0.0, 0.5], settings=["binary"], step=STEP)
    assert cd.evaluate(clipped, metrics=cd.LogLoss())["log_loss"].attrs["clipped_rows"] == 1


@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["plain", "weighted"])
def test_intervals_of_binary_proper_scores_are_those_of_the_rows(weights: Any) -> None:
    labels, scores = LABELS == 1, SCORES[:, 1]
    told = cd.summarize(labels, scores, sample_weight=weights)
    options: dict[str, Any] = {"ci": 0.9, "n_boot": 400, "metrics": PROPER}
    actual, expected = cd.evaluate(told, **options), cd.evaluate(labels, scores, sample_weight=weights, **options)
    for name in ("brier_score", "log_loss"):
        widths = [float(result[f"{name}_high"] - result[f"{name}_low"]) for result in (actual, expected)]
        assert widths[0] == pytest.approx(widths[1], rel=0.2)
        assert float(actual[name]) == pytest.approx(float(expected[name]), rel=1e-14)


def test_several_classes_have_no_such_intervals() -> None:
    result = cd.evaluate(whole(), metrics=[*PROPER, cd.ECE()], ci=0.9, n_boot=10)
    assert [name for name in result.data_vars if str(name).endswith("_low")] == ["ece_low"]


# What is lost, and what is counted twice.

LEGAL: dict[str, Callable[[], xr.Dataset]] = {
    "selected": lambda: whole().sel(day=[1, 2]).sum("country"),
    "lossless sum": lambda: (whole() + whole()).sum("day"),
    "merged, then selected": lambda: cd.merge(summary(DAY < 2), summary(DAY >= 2)).sel(country="de").sum("day"),
    "concatenated": lambda: xr.concat([whole(), whole()], "part", data_vars="all", join="exact").sum("part"),
    "outer": lambda: xr.concat([summary(DAY < 2), summary(DAY > 2)], "part", data_vars="all", join="outer").sum("part"),
    "one model": lambda: models().isel(model=1).sum("day"),
    "old format": lambda: without_totals(whole()).sum("day"),
}
LOST: dict[str, tuple[Callable[[], xr.Dataset], str]] = {
    "days and days": (lambda: summary(DAY < 2) + summary(DAY >= 2), r"holds 0 of the 600 rows .* calibdask\.merge"),
    "overlap": (lambda: summary(DAY < 3) + summary(DAY >= 2), "keeps only the slices common to all summaries"),
    "pooled afterwards": (lambda: (summary(DAY < 3) + summary(DAY >= 2)).sum(["country", "day"]), "calibdask merge at"),
    "parts of one": (lambda: whole().sel(day=[0, 1]) + whole().sel(day=[1, 2]), "of the 1,200 rows that went into it"),
    "three": (lambda: whole() + whole() + summary(DAY == 1), "calibdask.merge"),
    "new and old": (lambda: whole() + without_totals(whole()), "has lost calibdask_summary.* calibdask.merge"),
    "models": (lambda: models().sum("model"), "adds up 2 models, or replicates, of the same rows"),
    "nothing": (lambda: whole().isel(day=[]), "has no slices left"),
}


@pytest.mark.parametrize("name", LEGAL)
def test_what_loses_nothing_is_evaluated(name: str) -> None:
    result = cd.evaluate(LEGAL[name](), metrics=cd.ECE())
    assert np.isfinite(result["ece"]).all()


@pytest.mark.parametrize("name", LOST)
def test_what_has_lost_rows_is_refused(name: str) -> None:
    make, message = LOST[name]
    with pytest.raises(ValueError, match=message):
        cd.evaluate(make(), metrics=cd.ECE())


UNLIKE: dict[str, tuple[Callable[[], Any], str]] = {
    "step": (lambda: summary(step=0.001), "same step, got 0.001667 and 0.0008333"),
    "settings": (lambda: summary(settings=["classwise"]), "same settings, got confidence and classwise"),
    "weights": (lambda: summary(sample_weight=WEIGHTS), "same weights, got none and weights"),
    "vector": (lambda: cd.summarize(LABELS == 1, SCORES[:, 1]), "same scores, got 3 columns and a vector of P"),
    "slices": (lambda: whole().sum("day"), "same dimensions of slices, got country, day and country; sum over"),
    "models": (lambda: models(), "expects summaries with the same"),
    "labels": (lambda: summary(by={"country": COUNTRY, "day": DAY.astype(str)}), "labels of one kind along 'day'"),
    "lossy": (lambda: summary(DAY < 2) + summary(DAY >= 2), "holds 0 of the 600 rows"),
}


@pytest.mark.parametrize("name", UNLIKE)
def test_unlike_summaries_are_refused(name: str) -> None:
    make, message = UNLIKE[name]
    with pytest.raises(ValueError, match=message):
        cd.merge(whole(), make())


def test_merge_of_other_things() -> None:
    with pytest.raises(ValueError, match="at least one summary"):
        cd.merge()
    with pytest.raises(TypeError, match=r"expects a summary of .*, got list"):
        cd.merge([whole(), whole()])  # type: ignore[arg-type]
    classes = [summary(settings=["classwise"]).assign_coords({"class": list(names)}) for names in ("abc", "acb")]
    with pytest.raises(ValueError, match="same names of classes, got a, b, c and a, c, b"):
        cd.merge(*classes)
