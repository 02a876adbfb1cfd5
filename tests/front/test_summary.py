"""Summaries: they add up exactly, tell what the data tell, survive files, and refuse what they cannot tell."""

import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st

import calibdask as cd
from tests import strategies

ROWS, CLASSES = 3000, 4
RNG = np.random.default_rng(11)
SCORES = RNG.dirichlet([0.3, 0.5, 1.0, 2.0], ROWS)
LABELS = np.where(RNG.random(ROWS) < 0.7, SCORES.argmax(1), RNG.integers(0, CLASSES, ROWS))
WEIGHTS = RNG.integers(0, 5, ROWS) / 4 + 0.1 * RNG.random(ROWS)
DAY = RNG.integers(1, 4, ROWS)
# No row of France on day 2.
COUNTRY = np.where(DAY == 2, "de", np.array(["de", "fr"])[RNG.integers(0, 2, ROWS)])


def same(actual: xr.Dataset, expected: xr.Dataset) -> None:
    # Equal sums of proper scores may have different words.
    xr.testing.assert_identical(*(cd.merge(summary).drop_attrs() for summary in (actual, expected)))


@cache
def sliced() -> xr.Dataset:
    return cd.summarize(LABELS, SCORES, by={"country": COUNTRY, "day": DAY})


@cache
def whole(weighted: bool = False) -> xr.Dataset:
    return cd.summarize(LABELS, SCORES, sample_weight=WEIGHTS if weighted else None)


def joined(*summaries: xr.Dataset) -> xr.Dataset:
    return xr.concat(summaries, "part", coords="different", compat="equals", data_vars="all", join="exact")


# Exactness.


@settings(max_examples=12, deadline=None)
@given(strategies.data(weighted=False), st.integers(0, 2**32 - 1))
def test_sums_over_slices_of_any_data(rows: strategies.Data, seed: int) -> None:
    vector = rows.layout.vector
    scores, labels = rows.scores[..., 0] if vector else rows.scores, rows.labels
    labels = np.broadcast_to(labels, (len(scores), rows.rows))
    day = np.random.default_rng(seed).integers(0, 3, rows.rows)
    options: dict[str, Any] = {"settings": ["binary"] if vector else ["confidence", "classwise", 0], "step": 0.003}
    # Of as many rows as classes, labels of several models would be one-hot rows of a multiclass task.
    options["task"] = "binary" if vector else None
    days = cd.summarize(labels, scores, by={"day": day}, **options)
    pooled = cd.summarize(labels, scores, **options)
    same(days.sum("day"), pooled)
    cut = seed % rows.rows
    if cut:
        first, second = (
            cd.summarize(labels[..., part], scores[:, part], **options) for part in (np.s_[:cut], np.s_[cut:])
        )
        same(first + second, pooled)


def test_summaries_of_parts_add_up() -> None:
    first, second = (cd.summarize(LABELS[part], SCORES[part]) for part in (np.s_[:1000], np.s_[1000:]))
    same(first + second, whole())
    same(joined(first, second).sum("part"), whole())
    apart = cd.evaluate(joined(first, second), metrics=cd.ECE())["ece"]
    np.testing.assert_allclose(apart[0], cd.ece(LABELS[:1000], SCORES[:1000]), rtol=1e-10)


def test_weighted_sums() -> None:
    days = cd.summarize(LABELS, SCORES, by={"day": DAY}, sample_weight=WEIGHTS)
    xr.testing.assert_allclose(days.sum("day"), whole(weighted=True), rtol=1e-12)
    assert int(days["confidence_rows"].sum()) == ROWS - np.count_nonzero(WEIGHTS == 0)
    np.testing.assert_allclose(float(whole(weighted=True)["confidence_count"].sum()), WEIGHTS.sum())
    np.testing.assert_allclose(float(whole(weighted=True)["confidence_square"].sum()), (WEIGHTS**2).sum())


def test_construction_of_numbers() -> None:
    summary = cd.summarize([0, 1, 1], [0.2, 0.2, 1.0], settings=["binary"])
    count = summary["class_1_count"]
    assert int(summary["rows"]) == 3
    assert count.sum("cell").values.tolist() == [1, 2]
    (cells,) = np.nonzero(count.sum("outcome").values)
    for cell, score in zip(cells, (0.2, 1.0), strict=True):
        assert summary["cell_lower"][cell] < score <= summary["cell_upper"][cell]


# Evaluation.

EQUAL = {
    **{f"ece_{bins}": cd.ECE(bins=bins) for bins in (10, 15, 20, 100)},
    "mce": cd.MCE(),
    "l2": cd.ECE(norm="l2", debias=True),
    "convex": cd.ece_c(),
    "classwise": cd.ECE(setting="classwise"),
    "classwise_convex": cd.ECE(setting="classwise", mapping="convex"),
    "one_class": cd.ECE(setting=2, bins=10),
    "binary": cd.ECE(setting="binary"),
    "diagram": cd.ReliabilityDiagram(bins=20),
    "brier": cd.BrierDecomposition(),
}
ON_THE_GRID = {
    "density": cd.DensityECE(),
    "density_classwise": cd.DensityECE(setting="classwise", kernel="gaussian", bandwidth=0.03),
    "density_of_one": cd.DensityECE(setting=3, bandwidth="isj"),
    "residual": cd.ResidualECE(bandwidth=0.05),
    "smooth": cd.SmoothECE(),
    "smooth_classwise": cd.SmoothECE(setting="classwise"),
    "curve": cd.ReliabilityCurve(),
    "curves": cd.ReliabilityCurve(setting="classwise"),
    "lce": cd.LocalCalibrationError(),
}


def compare(actual: xr.Dataset, expected: xr.Dataset) -> None:
    assert list(actual.variables) == list(expected.variables)
    assert actual.attrs["rows"] == expected.attrs["rows"]
    assert actual.attrs["passes"] == 0
    for name, values in expected.data_vars.items():
        # Squared scores are known up to the width of a cell; convex mappings rest on them too.
        near = 1e-7 if str(name).startswith(("brier", "convex", "classwise_convex")) else 1e-11
        tolerance = (
            1e-12 if str(name).split("_")[0] in ("density", "smooth", "curve", "curves", "lce", "residual") else near
        )
        if values.attrs.get("rounding"):
            # Sums of weights in another order, magnified where there are hardly any rows.
            tolerance = 1e-9
        np.testing.assert_allclose(actual[name], values, rtol=0, atol=tolerance, err_msg=str(name))


@pytest.mark.parametrize("weighted", [False, True])
def test_a_summary_tells_what_the_data_tell(weighted: bool) -> None:
    expected = cd.evaluate(LABELS, SCORES, EQUAL | ON_THE_GRID, sample_weight=WEIGHTS if weighted else None)
    compare(cd.evaluate(whole(weighted), metrics=EQUAL | ON_THE_GRID), expected)


@pytest.mark.parametrize("weighted", [False, True])
def test_sums_of_functions_of_the_score_are_those_of_cells(weighted: bool) -> None:
    metrics = {"z": cd.SpiegelhalterTest(setting="classwise"), "log": cd.LogLossDecomposition()}
    rows = cd.evaluate(LABELS, SCORES, metrics, sample_weight=WEIGHTS if weighted else None)
    cells = cd.evaluate(whole(weighted), metrics=metrics, ci=0.9)
    for name in rows.data_vars:
        np.testing.assert_allclose(cells[name], rows[name], rtol=2e-4, atol=1e-5, err_msg=str(name))
    # Replicates of several histograms do not add up to those of rows.
    assert "log_score_low" not in cells


def test_slices_keep_their_names_and_order() -> None:
    expected = cd.evaluate(LABELS, SCORES, EQUAL | ON_THE_GRID, by={"country": COUNTRY, "day": DAY})
    actual = cd.evaluate(sliced(), metrics=EQUAL | ON_THE_GRID)
    compare(actual, expected)
    assert actual["country"].values.tolist() == ["de", "fr"]
    assert np.isnan(actual["ece_15"].sel(country="fr", day=2))
    chosen = cd.evaluate(sliced().sel(day=3).drop_vars("day"), metrics=cd.ECE())["ece"]
    np.testing.assert_allclose(chosen, actual["ece_15"].sel(day=3), atol=1e-14)


def test_further_dimensions_of_the_input() -> None:
    models = xr.DataArray(np.stack([SCORES, 0.5 * SCORES + 0.5 * SCORES[:, ::-1]]), dims=("model", "sample", "class"))
    models = models.assign_coords(model=["straight", "mixed"], **{"class": list("abcd")})
    labels = xr.DataArray(LABELS, dims="sample")
    summary = cd.summarize(labels, models, by={"day": DAY})
    assert summary["rows"].dims == ("model", "day")
    same(summary.sum("day"), cd.summarize(labels, models))
    metrics = {"ece": cd.ECE(), "classes": cd.ReliabilityDiagram(setting="classwise"), "curve": cd.ReliabilityCurve()}
    actual, expected = cd.evaluate(summary, metrics=metrics), cd.evaluate(labels, models, metrics, by={"day": DAY})
    assert actual["class"].values.tolist() == list("abcd")
    for name, values in expected.data_vars.items():
        xr.testing.assert_allclose(actual[name], values, rtol=1e-10, atol=1e-12)


def test_classes_may_be_selected() -> None:
    result = cd.evaluate(whole(), metrics=cd.ECE(setting=3))["ece"]
    np.testing.assert_allclose(result, cd.ece(LABELS, SCORES, setting=3), atol=1e-12)
    np.testing.assert_allclose(result, cd.ece(LABELS == 3, SCORES[:, 3]), atol=1e-12)


def test_equal_mass_of_many_skewed_classes() -> None:
    rng, classes, rows = np.random.default_rng(5), 300, 6000
    logits = (5 * rng.standard_normal((rows, classes))).astype(np.float32)
    scores = np.exp(logits - logits.max(1, keepdims=True))
    scores /= scores.sum(1, keepdims=True)
    assert (scores < 0.001).mean() > 0.8
    # A class drawn from flatter scores: these are overconfident.
    flat = np.cumsum(np.sqrt(scores), 1)
    labels = (flat < rng.random((rows, 1)) * flat[:, -1:]).sum(1)
    metric = cd.ECE(setting="classwise", binning="equal-mass")
    summary = cd.summarize(labels, scores, settings=["classwise"])
    result, exact = (float(cd.evaluate(*data, metrics=metric)["ece"]) for data in ((summary,), (labels, scores)))
    assert result == pytest.approx(exact, rel=0.01)


# Files.


@pytest.mark.parametrize(("name", "weighted"), [("summary.zarr", True), ("summary.nc", False)])
def test_files_keep_everything(name: str, weighted: bool, tmp_path: Path) -> None:
    by = {"country": COUNTRY, "day": DAY}
    summary = cd.summarize(LABELS, SCORES, by=by, sample_weight=WEIGHTS if weighted else None)
    path = tmp_path / name
    with warnings.catch_warnings():
        # Zarr notes that version 3 has no settled type for texts yet.
        warnings.filterwarnings("ignore", message=".*does not have a Zarr V3 specification")
        if path.suffix == ".zarr":
            summary.to_zarr(path, consolidated=False)
            opened = xr.open_zarr(path, consolidated=False)
        else:
            summary.to_netcdf(path, engine="h5netcdf")
            opened = xr.open_dataset(path)
        with opened:
            same(opened.load(), summary)
            xr.testing.assert_identical(cd.evaluate(opened), cd.evaluate(summary))
            pooled = cd.evaluate(opened.sum(["country", "day"]), metrics=EQUAL)
    xr.testing.assert_allclose(pooled, cd.evaluate(whole(weighted), metrics=EQUAL), rtol=1e-10)


# Refusals.


def overflowed(name: str) -> xr.Dataset:
    broken = whole().copy(deep=True)
    broken[name][..., 100, 0] = -(2**62)
    return broken


def coarser() -> xr.Dataset:
    return xr.concat(
        [whole(), whole().assign_coords(classes=5)],
        "part",
        coords="different",
        compat="equals",
        data_vars="all",
        join="exact",
    )


BAD: list[tuple[str, Callable[[], xr.Dataset], Any, str]] = [
    ("7 bins", whole, cd.ECE(bins=7), "number of bins that divides 3600, such as 10, 15, 20 or 100"),
    ("edges", whole, cd.ECE(bins=(0.0, 0.123456, 1.0)), "edge 0.123456[0-9]* does not coincide"),
    ("closed", whole, cd.ECE(closed="left"), "closed on the right"),
    ("top-k", whole, cd.ECE(setting="top-k", k=2), "No histogram of the setting top-k 2 is stored, only confidence"),
    ("step", whole, cd.DensityECE(step=0.001), "is not stored; available are: confidence on"),
    ("no totals", lambda: whole().drop_vars("total_rows"), cd.ECE(), "has lost total_rows"),
    ("no scores", lambda: whole().drop_vars("clipped_rows"), cd.BrierScore(), "has lost clipped_rows"),
    (
        "multiclass",
        whole,
        cd.MulticlassECE(),
        "cannot be computed from a summary; evaluate the data themselves for this metric",
    ),
    ("cells", lambda: whole().isel(cell=slice(100)), cd.ECE(), "expects all classes, cells and outcomes"),
    ("no classes", lambda: whole().drop_vars(["classes", "cells"]), cd.ECE(), "has lost classes, cells"),
    (
        "no offset",
        lambda: whole().drop_vars("confidence_offset"),
        cd.ECE(),
        "lost .*confidence_offset",
    ),
    (
        "format",
        lambda: whole().assign_coords(calibdask_summary=3),
        cd.ECE(),
        "summaries of formats up to 2, this one has 3",
    ),
    ("overflowed counts", lambda: overflowed("classwise_count"), cd.ECE(setting=1), "a cell holds up to"),
    ("unlike", coarser, cd.ECE(), "are incompatible: classes is 4, 5"),
]


@pytest.mark.parametrize(("summary", "metric", "message"), [bad[1:] for bad in BAD], ids=[bad[0] for bad in BAD])
def test_what_a_summary_cannot_tell(summary: Callable[[], xr.Dataset], metric: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        cd.evaluate(summary(), metrics=metric)


def test_a_summary_has_its_slices_and_weights() -> None:
    for options in ({"by": {"day": DAY}}, {"sample_weight": WEIGHTS}):
        with pytest.raises(ValueError, match="A summary already has its weights and slices"):
            cd.evaluate(whole(), metrics=cd.ECE(), **options)


def test_bad_choices() -> None:
    for chosen in ((), ("multiclass",)):
        with pytest.raises(ValueError, match="settings expects some of 'confidence'"):
            cd.summarize(LABELS, SCORES, settings=chosen)
    with pytest.raises(ValueError, match="class that does not exist"):
        cd.summarize(LABELS, SCORES, settings=[7])
    with pytest.raises(ValueError, match="setting expects"):
        cd.summarize(LABELS, SCORES, settings=["everything"])
    for step in (0.5, 0, True, "fine"):
        with pytest.raises(ValueError, match="step expects a number from 1e-6 to"):
            cd.summarize(LABELS, SCORES, step=step)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="label"):
        cd.summarize(LABELS + 1, SCORES)
    with pytest.raises(ValueError, match="do not support by"):
        cd.summarize([(LABELS, SCORES)], by={"day": DAY})


@pytest.mark.parametrize("panel", [None, "all"])
def test_metrics_that_nobody_chose_are_on_the_grid_of_the_summary(panel: str | None) -> None:
    """Those that are chosen name it, as the message of another one says."""
    summary = cd.summarize(LABELS, SCORES, settings=["confidence"], step=0.01)
    usual = cd.evaluate(summary, metrics=panel)
    chosen = cd.evaluate(summary, metrics={"smooth_ece": cd.SmoothECE(step=1 / 300)})
    assert float(usual["smooth_ece"]) == float(chosen["smooth_ece"])
    assert "step=0.00333" in usual["smooth_ece"].attrs["estimator"]
    with pytest.raises(ValueError, match=r"Give the metric the step of the summary, step=0\.00333333"):
        cd.evaluate(summary, metrics=cd.SmoothECE())


def test_slices_must_not_be_called_as_the_variables_of_a_summary() -> None:
    with pytest.raises(ValueError, match="something called 'confidence_count' already"):
        cd.summarize(LABELS, SCORES, by={"confidence_count": DAY})


@pytest.mark.parametrize("name", ["rows", "class", "cell_lower"])
def test_slices_called_as_a_summary_calls_its_own(name: str) -> None:
    """They have an underscore in results, and are found by their own name."""
    summary = cd.summarize(LABELS, SCORES, by={name: DAY})
    expected = cd.summarize(LABELS, SCORES, by={"day": DAY})
    xr.testing.assert_equal(summary.rename({f"{name}_": "day"}), expected)
    result = cd.threshold(summary, risk=0.5, by=[name])
    np.testing.assert_array_equal(result.rows, cd.threshold(LABELS, SCORES, risk=0.5, by={name: DAY}).rows)
    assert result.rows.dims == (f"{name}_",)


def test_a_part_of_a_metric_and_a_slice_must_have_different_names() -> None:
    with pytest.raises(ValueError, match="name 'curve_score' is used twice"):
        cd.evaluate(LABELS, SCORES, {"curve": cd.ReliabilityCurve()}, by={"curve_score": DAY})


def test_equal_mass_bins_of_tied_scores() -> None:
    rng = np.random.default_rng(5)
    scores = np.round(rng.random(5000) ** 4, 1)
    labels = (rng.random(5000) < scores**1.2).astype(int)
    summary = cd.summarize(labels, scores, settings="binary")
    for bins in (5, 10, 15):
        metric = cd.ECE(bins=bins, binning="equal-mass")
        assert float(cd.evaluate(summary, metrics=metric).ece) == pytest.approx(
            float(cd.evaluate(labels, scores, metric).ece), abs=1e-12
        )
        diagram = cd.ReliabilityDiagram(bins=bins, binning="equal-mass")
        assert (cd.evaluate(summary, metrics={"d": diagram}).d_count > 0).all()


def test_edges_may_be_off_by_rounding() -> None:
    summary = cd.summarize(LABELS, SCORES)
    edges = tuple(np.linspace(0, 1, 11))
    assert cd.ece(summary, bins=edges) == pytest.approx(cd.ece(LABELS, SCORES, bins=10), abs=1e-12)


NAMES = ("confidence_count", "class_7_count", "", "a/b")


@pytest.mark.parametrize("name", NAMES)
def test_names_that_a_summary_cannot_hold_are_refused_before_reading(name: str, tmp_path: Path, run: Any) -> None:
    def unread(block: Any) -> Any:
        raise AssertionError("a name is known before values are read")

    lazy = [da.from_array(np.zeros(8, int), chunks=4).map_blocks(unread, dtype=int, meta=np.empty(0, int))] * 3
    with pytest.raises(ValueError, match=r"rename this slice"):
        cd.summarize(lazy[0], lazy[1], by={name: lazy[2]})
    if name and "/" not in name:
        frame = pd.DataFrame({"label": [0, 1], "score": [0.2, 0.7], name: [1, 2]})
        frame.to_parquet(tmp_path / "rows.parquet")
        status, _, err = run("summarize", tmp_path / "rows.parquet", "--by", name, "--out", tmp_path / "s.zarr")
        assert status == 2
        assert f"called '{name}' already" in err
