"""Every way in gives the numbers of two NumPy arrays, to the last bit; logits, tasks and slices with missing values."""

from typing import Any

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import xarray as xr

import calibdask as cd
from tests.front.ways_in import BINARY, LABELS, MATRIX, ONE_HOT, OUTCOMES, ROWS, SCORES, VECTOR, Tensor

METRICS = [cd.ECE(bins=5), cd.ECE(bins=4, binning="equal-mass"), cd.BrierScore(), cd.LogLoss()]
LOGITS = np.random.default_rng(3).normal(0, 3, SCORES.shape)


def named(metrics: list[Any]) -> dict[str, Any]:
    return {f"metric_{number}": metric for number, metric in enumerate(metrics)}


def numbers(call: dict[str, Any], **options: Any) -> dict[str, list[float]]:
    result = cd.evaluate(**call, metrics=named(METRICS), **options)
    return {str(name): variable.values.ravel().tolist() for name, variable in result.items()}


@pytest.fixture(scope="module")
def expected() -> dict[str, dict[str, list[float]]]:
    return {name: numbers(call) for name, call in ROWS.items()}


@pytest.mark.parametrize(("kind", "way"), [("matrix", way) for way in MATRIX] + [("binary", way) for way in BINARY])
def test_way_in(kind: str, way: str, expected: dict[str, dict[str, list[float]]]) -> None:
    assert numbers({"matrix": MATRIX, "binary": BINARY}[kind][way]()) == expected[kind]


def test_rows_of_pandas_belong_together_by_their_index() -> None:
    order = np.random.default_rng(1).permutation(len(OUTCOMES))
    shuffled = pd.Series(VECTOR)[order]
    with pytest.warns(UserWarning, match="The rows of y_prob were put in the order of the index of y_true"):
        assert cd.ece(pd.Series(OUTCOMES), shuffled) == cd.ece(OUTCOMES, VECTOR)


def test_weights_and_slices_of_pandas_belong_to_the_rows_of_the_frame_by_their_index() -> None:
    rng = np.random.default_rng(2)
    frame = pd.DataFrame({"label": OUTCOMES, "score": VECTOR})
    weights, slices = pd.Series(rng.random(len(frame))), pd.Series(rng.integers(0, 3, len(frame)))
    expected = cd.evaluate(OUTCOMES, VECTOR, cd.ECE(), by={"g": slices}, sample_weight=weights.to_numpy())
    order = rng.permutation(len(frame))
    moved = {"by": {"g": slices[order]}, "sample_weight": weights[order]}
    with pytest.warns(UserWarning, match="The rows of .* were put in the order of the index of the frame"):
        given = cd.evaluate(frame, metrics=cd.ECE(), **moved)
    np.testing.assert_array_equal(given.ece.values, expected.ece.values)
    with pytest.warns(UserWarning, match="index of the frame"):
        compared = cd.compare(frame, {"one": "score", "two": "score"}, metrics=cd.ECE(), label="label", **moved)
    one = compared.ece.sel(model="one") if "model" in compared.ece.dims else compared.ece
    np.testing.assert_array_equal(one.values, expected.ece.values)
    with pytest.raises(ValueError, match=r"their order is the same, give sample_weight\.to_numpy\(\)\.$"):
        cd.evaluate(frame, metrics=cd.ECE(), sample_weight=weights.set_axis(np.arange(5, 5 + len(frame))))


# Logits.


def softmax(logits: np.ndarray) -> np.ndarray:
    powers = np.exp(logits - logits.max(-1, keepdims=True))
    return np.asarray(powers / powers.sum(-1, keepdims=True))


def test_logits_are_those_of_the_softmax_and_of_the_sigmoid() -> None:
    for metric, value in numbers({"y_true": LABELS, "y_prob": LOGITS}, logits=True).items():
        assert value == pytest.approx(numbers({"y_true": LABELS, "y_prob": softmax(LOGITS)})[metric], rel=1e-12)
    column = 20 * LOGITS[:, 0]
    for metric, value in numbers({"y_true": OUTCOMES, "y_prob": column}, logits=True).items():
        assert value == pytest.approx(
            numbers({"y_true": OUTCOMES, "y_prob": 1 / (1 + np.exp(-column))})[metric], rel=1e-9
        )
    far = cd.evaluate([0, 1], [[0.0, 5000.0], [0.0, 5000.0]], cd.LogLoss(), logits=True)
    assert far.log_loss.attrs["clipped_rows"] == 1


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
def test_logits_have_the_same_bits_in_any_chunks(dtype: Any) -> None:
    logits = LOGITS.astype(dtype)
    reference = numbers({"y_true": LABELS, "y_prob": logits}, logits=True)
    assert reference == numbers({"y_true": LABELS, "y_prob": logits.astype(np.float64)}, logits=True)
    lazy = da.from_array(logits, chunks=(17, 2))
    assert numbers({"y_true": da.from_array(LABELS, chunks=40), "y_prob": lazy}, logits=True) == reference
    assert numbers({"y_true": [(LABELS[:9], logits[:9]), (LABELS[9:], logits[9:])]}, logits=True) == reference
    labelled = xr.DataArray(logits.T, dims=("class", "sample"))
    assert numbers({"y_true": xr.DataArray(LABELS, dims="sample"), "y_prob": labelled}, logits=True) == reference


def test_masked_classes_have_the_score_0() -> None:
    logits = LOGITS.copy()
    logits[::2, 2] = -np.inf
    labels = np.where(LABELS == 2, 1, LABELS)
    scores = softmax(np.where(np.isinf(logits), -1e9, logits))
    assert cd.brier_score(labels, logits, logits=True) == pytest.approx(cd.brier_score(labels, scores), rel=1e-12)
    logits[11] = -np.inf
    with pytest.raises(ValueError, match=r"1 of 120 rows differs; the first is row 11 with logit -inf\."):
        cd.brier_score(labels, logits, logits=True)


@pytest.mark.parametrize(("value", "columns"), [(np.nan, 1), (np.inf, 1), (-np.inf, 1), (np.nan, 3), (np.inf, 3)])
def test_logits_that_are_not_finite(value: float, columns: int) -> None:
    logits = LOGITS.copy()
    logits[[11, 70], 1] = value
    labels, given = (LABELS, logits) if columns == 3 else (OUTCOMES, logits[:, 1])
    with pytest.raises(ValueError, match=rf"Expected finite logits, but 2 of 120 rows .* row 11 with logit {value}\."):
        cd.ece(labels, given, logits=True)


# Every column a problem of its own.


def problems() -> dict[str, dict[str, Any]]:
    dims = ("row", "class")
    return {
        "numpy": {"y_true": ONE_HOT, "y_prob": SCORES**2},
        "tensors": {"y_true": Tensor(ONE_HOT), "y_prob": Tensor(SCORES**2)},
        "dask": {
            "y_true": da.from_array(ONE_HOT, chunks=(50, 2)),
            "y_prob": da.from_array(SCORES**2, chunks=(35, 1)),
        },
        "frames": {"y_true": pd.DataFrame(ONE_HOT), "y_prob": pd.DataFrame(SCORES**2)},
        "frames of dask": {
            "y_true": dd.from_pandas(pd.DataFrame(ONE_HOT), npartitions=2),
            "y_prob": dd.from_pandas(pd.DataFrame(SCORES**2), npartitions=2),
        },
        "xarray": {
            "y_true": xr.DataArray(ONE_HOT, dims=dims),
            "y_prob": xr.DataArray(SCORES**2, dims=dims).T,
            "sample_dim": "row",
        },
        "blocks": {"y_true": [(ONE_HOT[:50], SCORES[:50] ** 2), (ONE_HOT[50:], SCORES[50:] ** 2)]},
    }


@pytest.mark.parametrize("container", problems())
def test_columns_are_problems_of_their_own(container: str) -> None:
    result = cd.evaluate(**problems()[container], metrics=named(METRICS), task="multilabel")
    for number in range(3):
        alone = numbers({"y_true": ONE_HOT[:, number], "y_prob": SCORES[:, number] ** 2})
        assert {name: [float(result[name][number])] for name in result} == alone
    assert result["metric_0"].dims == ("class",)
    assert result["class"].values.tolist() == [0, 1, 2]


def test_problems_have_slices_intervals_summaries_and_names() -> None:
    day = np.arange(len(LABELS)) % 2
    names = ["tit", "owl", "auk"]
    call: Any = {"y_true": ONE_HOT, "y_prob": SCORES, "task": "multilabel", "labels": names, "by": {"day": day}}
    result = cd.evaluate(**call, metrics=cd.ECE(bins=5), ci=0.9, n_boot=20)
    assert result.ece.dims == ("class", "day")
    assert result.ece_low.dims == ("class", "day")
    alone = cd.evaluate(ONE_HOT[:, 1], SCORES[:, 1], cd.ECE(bins=5), by={"day": day})
    np.testing.assert_array_equal(result.ece.sel({"class": "owl"}), alone.ece)
    summary = cd.summarize(**call)
    assert summary["rows"].sizes == {"class": 3, "day": 2}
    np.testing.assert_allclose(cd.evaluate(summary, metrics=cd.ECE(bins=5)).ece, result.ece, rtol=1e-12)
    pooled = cd.evaluate(summary.sum("day"), metrics=cd.ECE(bins=5)).ece
    alone = cd.summarize(ONE_HOT[:, 2], SCORES[:, 2], settings=["binary"])
    assert float(pooled.sel({"class": "auk"})) == float(cd.evaluate(alone, metrics=cd.ECE(bins=5)).ece)


def test_problems_of_logits_and_of_models() -> None:
    result = cd.evaluate(ONE_HOT, LOGITS, cd.BrierScore(), task="multilabel", logits=True)
    expected = [cd.brier_score(ONE_HOT[:, number], LOGITS[:, number], logits=True) for number in range(3)]
    assert result.brier_score.values.tolist() == expected
    several = cd.compare(ONE_HOT, SCORES, SCORES**2, cd.BrierScore(), task="multilabel", n_boot=20)
    assert several.brier_score.dims == ("model", "class")
    assert several.brier_score_difference.dims == ("class",)


def test_compare_reads_as_evaluate_does() -> None:
    names = np.array(["tit", "owl", "auk"])
    plain = cd.compare(LABELS, SCORES, SCORES[:, [1, 0, 2]], cd.BrierScore(), n_boot=20)
    for labels, options in ((ONE_HOT, {"task": "multiclass"}), (names[LABELS], {"labels": names})):
        other = cd.compare(labels, SCORES, SCORES[:, [1, 0, 2]], cd.BrierScore(), n_boot=20, **options)
        np.testing.assert_array_equal(other.brier_score_difference_low, plain.brier_score_difference_low)


def test_models_in_rows() -> None:
    several = np.stack([VECTOR, VECTOR**2])
    result = cd.evaluate(OUTCOMES, several, cd.ECE(), task="binary")
    assert result.ece.values.tolist() == [cd.ece(OUTCOMES, VECTOR), cd.ece(OUTCOMES, VECTOR**2)]
    both = cd.evaluate(np.stack([OUTCOMES, OUTCOMES]), several, cd.ECE(), task="binary")
    assert both.ece.values.tolist() == result.ece.values.tolist()


# Rows that are left out.


def test_ignored_rows_are_counted_and_errors_call_rows_by_their_numbers() -> None:
    labels, scores = OUTCOMES.copy(), VECTOR.copy()
    labels[:10] = 255
    for convert in (np.asarray, lambda array: da.from_array(array, chunks=17)):
        result = cd.evaluate(convert(labels), convert(scores), cd.ECE(), ignore_label=255, ci=0.9, n_boot=20)
        assert (result.attrs["rows"], result.attrs["rows_ignored"]) == (110, 10)
        left = cd.evaluate(OUTCOMES[10:], VECTOR[10:], cd.ECE(), ci=0.9, n_boot=20)
        assert [float(result[name]) for name in result] == [float(left[name]) for name in left]
    blocks = [(labels[:50], scores[:50]), (labels[50:], scores[50:])]
    assert cd.evaluate(blocks, ignore_label=255).attrs["rows_ignored"] == 10
    assert cd.summarize(labels, scores, ignore_label=255).attrs["rows_ignored"] == 10
    scores[[3, 60, 61]] = np.nan
    for convert in (np.asarray, lambda array: da.from_array(array, chunks=17)):
        with pytest.raises(ValueError, match="2 of 110 rows differ; the first is row 60 with score nan"):
            cd.evaluate(convert(labels), convert(scores), cd.ECE(), ignore_label=255)


def test_slices_of_images_and_chunks_of_pixels() -> None:
    shape, dims = (4, 5, 6), ("image", "y", "x")
    site = xr.DataArray(["a", "b", "a", "b"], dims="image")
    call = {"y_true": OUTCOMES.reshape(shape), "y_prob": VECTOR.reshape(shape)}
    expected = cd.evaluate(OUTCOMES, VECTOR, cd.ECE(), by={"site": np.repeat(site.values, 30)})
    for convert in (np.asarray, lambda array: da.from_array(array, chunks=(1, 2, 3))):
        labelled = {name: xr.DataArray(convert(array), dims=dims) for name, array in call.items()}
        result = cd.evaluate(**labelled, metrics=cd.ECE(), by={"site": site}, sample_dim=dims)
        np.testing.assert_array_equal(result.ece, expected.ece)
    skce = cd.SKCE(estimator="linear")
    lazy = [da.from_array(array, chunks=(3, 2, 4)) for array in call.values()]
    assert float(cd.evaluate(*lazy, skce, sample_dim=dims).skce) == cd.skce(OUTCOMES, VECTOR, estimator="linear")


# Slices of rows without a value.


OF_SOME: list[tuple[list[Any], list[Any]]] = [
    (["se", None, "be", None], ["be", "se", "missing"]),
    ([1.0, np.nan, 0.0, np.nan], [0.0, 1.0, np.nan]),
    ([True, None, False, None], ["False", "True", "missing"]),
    ([3, None, 1, None], [1.0, 3.0, np.nan]),
    (["missing", None, "se", None], ["missing", "se", "(missing)"]),
]
HOLDERS = ["list", "series", "category", "dask", "dask series", "xarray"]


@pytest.mark.parametrize(
    ("values", "labels", "container"), [(*some, holder) for some, holder in zip(OF_SOME * 2, HOLDERS * 2, strict=False)]
)
def test_missing_values_are_a_slice(values: list[Any], labels: list[Any], container: str) -> None:
    column = np.array(values * 30, object if None in values else None)
    if container == "dask series" and values[0] == 3:
        column = column.astype(float)  # Dask makes texts of other objects.
    given: Any = {
        "list": lambda: column.tolist(),
        "series": lambda: pd.Series(column),
        "category": lambda: pd.Series(column).astype("category"),
        "dask": lambda: da.from_array(column, chunks=7),
        "dask series": lambda: dd.from_pandas(pd.Series(column), npartitions=3),
        "xarray": lambda: xr.DataArray(column, dims="sample"),
    }[container]()
    outcomes: Any = OUTCOMES if container != "dask series" else dd.from_pandas(pd.Series(OUTCOMES), npartitions=3)
    vector: Any = VECTOR if container != "dask series" else dd.from_pandas(pd.Series(VECTOR), npartitions=3)
    result = cd.evaluate(outcomes, vector, cd.ECE(), by={"site": given})
    assert [*map(str, result.site.values.tolist())] == [*map(str, labels)]
    assert float(result.ece[-1]) == cd.ece(OUTCOMES[1::2], VECTOR[1::2])
    assert result.attrs["rows"] == 120


def test_missing_dates_are_a_slice() -> None:
    when = np.array(["2026-01-02", "NaT", "2026-01-01"] * 40, "M8[ns]")
    result = cd.evaluate(OUTCOMES, VECTOR, cd.ECE(), by={"day": when})
    assert np.isnat(result.day.values).tolist() == [False, False, True]


IDS = 2**53 + np.arange(120) % 3


@pytest.mark.parametrize(
    ("container", "skip_missing"),
    [
        *(("floats", False), ("list", True), ("Int64", False), ("frame", True)),
        *(("arrow", False), ("lazy", True), ("dask", False), ("dask series", True)),
    ],
)
def test_slices_by_large_numbers_with_missing_values_are_not_merged(container: str, skip_missing: bool) -> None:
    column: Any = [None, *IDS[1:].tolist()]
    table = pa.table({"label": OUTCOMES, "score": VECTOR, "g": column})
    nullable = pd.Series(column, dtype="Int64")
    series = {name: dd.from_pandas(pd.Series(array), npartitions=3) for name, array in (("y", OUTCOMES), ("p", VECTOR))}
    call: dict[str, tuple[Any, ...]] = {
        "floats": (OUTCOMES, VECTOR, np.array(column, float)),
        "list": (OUTCOMES, VECTOR, column),
        "Int64": (OUTCOMES, VECTOR, nullable),
        "frame": (table.to_pandas().assign(g=nullable), None, "g"),
        "arrow": (table, None, "g"),
        "lazy": (pl.from_arrow(table).lazy(), None, "g"),  # type: ignore[union-attr]
        "dask": (OUTCOMES, VECTOR, da.from_array(np.array(column, float), chunks=50)),
        "dask series": (series["y"], series["p"], dd.from_pandas(nullable, npartitions=3)),
    }
    labels, scores, by = call[container]
    given = by if isinstance(by, str) else {"g": by}
    with pytest.raises(ValueError, match=r"below 2\*\*53, .* got 900719925474099\d; give such identifiers as text"):
        cd.evaluate(labels, scores, metrics=cd.ECE(), by=given, skip_missing=skip_missing)
    assert cd.evaluate(OUTCOMES, VECTOR, cd.ECE(), by={"g": IDS}).g.values.tolist() == [2**53, 2**53 + 1, 2**53 + 2]


def test_large_numbers_as_classes_are_told_apart_or_refused() -> None:
    names = np.where(OUTCOMES, 2**53 + 1, 2**53)
    expected, options = cd.ece(OUTCOMES[1:], VECTOR[1:]), {"pos_label": 2**53 + 1, "skip_missing": True}
    column: Any = [None, *names[1:].tolist()]
    for given in (pd.Series(column, dtype="Int64"), pd.array(column, dtype="Int64"), np.array(column, object)):
        assert cd.ece(given, VECTOR, **options) == expected
    table = pa.table({"label": column, "score": VECTOR})
    lazy = pl.from_arrow(table).lazy()  # type: ignore[union-attr]
    for floats in ((table,), (lazy,), (table.to_pandas(),)):
        with pytest.raises(ValueError, match=r"^y_true expects classes below 2\*\*53, .* got 9007199254740993; give"):
            cd.evaluate(*floats, metrics=cd.ECE(), **options)
