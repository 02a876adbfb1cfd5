"""Every bad input gives one clear ValueError, from NumPy, Dask and blocks alike."""

from typing import Any

import dask.array as da
import numpy as np
import pytest
import xarray as xr

import calibdask as cd
from tests.engine.bad_inputs import CASES


def lazy(array: Any) -> Any:
    array = np.asarray(array)
    return da.from_array(array, chunks=(7,) + (-1,) * (array.ndim - 1)) if array.ndim else array


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("kind", ["numpy", "dask"])
def test_message(case: str, kind: str) -> None:
    make, message = CASES[case]
    y_true, y_prob, options = make()
    if kind == "dask":
        y_true, y_prob = lazy(y_true), lazy(y_prob)
    with pytest.raises(ValueError, match=message) as raised:
        cd.evaluate(y_true, y_prob, **options)
    assert "\n" not in str(raised.value)


def test_global_row_with_unknown_chunk_sizes_and_in_blocks() -> None:
    scores = np.full(100, 0.5)
    scores[[61, 80]] = np.nan
    labels = np.zeros(100, int)
    keep = np.ones(100, bool)
    keep[:10] = False
    mask = da.from_array(keep, chunks=9)
    with pytest.raises(ValueError, match=r"2 of 90 rows .* row 51 with score nan"):
        cd.evaluate(da.from_array(labels, chunks=9)[mask], da.from_array(scores, chunks=9)[mask])
    with pytest.raises(ValueError, match=r"2 of 100 rows .* row 61 with score nan"):
        cd.evaluate([(labels[a : a + 30], scores[a : a + 30]) for a in range(0, 100, 30)])


def test_rows_of_weight_zero_are_as_good_as_absent() -> None:
    rng = np.random.default_rng(0)
    scores, labels = rng.dirichlet([1, 1, 1], 60), rng.integers(0, 3, 60)
    weights = rng.random(60)
    out = rng.random(60) < 0.3
    weights[out] = 0.0
    kept = cd.evaluate(labels[~out], scores[~out], sample_weight=weights[~out])
    scores[out], labels[out] = np.nan, 17
    result = cd.evaluate(labels, scores, sample_weight=weights)
    for name in kept:
        assert float(result[name]) == float(kept[name]), name


def test_scores_off_by_rounding_are_clipped() -> None:
    assert cd.ece([1, 0], [1 + 1e-7, -1e-7]) == 0.0
    with pytest.raises(ValueError, match=r"in \[0, 1\]"):
        cd.ece([1, 0], [1 + 1e-5, 0])


def test_the_tolerance_of_row_sums_is_a_parameter() -> None:
    scores = np.array([[0.5, 0.4], [0.3, 0.7]])
    with pytest.raises(ValueError, match=r"sum to 1 .*, but 1 of 2 rows differs; the first is row 0 with sum 0\.9"):
        cd.ece([0, 1], scores)
    assert cd.ece([0, 1], scores, sum_tolerance=0.2) > 0


def test_metrics_that_are_none() -> None:
    with pytest.raises(TypeError, match=r"expects estimators such as cd\.ECE"):
        cd.evaluate([0, 1], [0.2, 0.3], 15)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="at least one estimator"):
        cd.evaluate([0, 1], [0.2, 0.3], [])


def test_iterators_can_be_read_once() -> None:
    blocks = [(np.zeros(5, int), np.full(5, 0.3))] * 3
    assert float(cd.evaluate(iter(blocks), metrics=cd.ECE()).ece) == pytest.approx(0.3)
    with pytest.raises(ValueError, match="several passes"):
        cd.evaluate(iter(blocks * 400), metrics=cd.ece_a())
    with pytest.raises(ValueError, match="at least one block"):
        cd.evaluate([])


def test_slices_of_another_length() -> None:
    with pytest.raises(ValueError, match="one value for each of the 2 rows"):
        cd.evaluate([0, 1], [0.2, 0.3], by=[1, 2, 3])


def test_masked_arrays_are_refused() -> None:
    with pytest.raises(ValueError, match="Masked values"):
        cd.ece([0, 1], np.ma.masked_greater([0.2, 0.9], 0.5))
    assert cd.ece([0, 1], np.ma.masked_greater([0.2, 0.9], 1.0)) == cd.ece([0, 1], [0.2, 0.9])


@pytest.mark.parametrize("scale", [1e-99, 1e-6, 1e99])
def test_the_scale_of_weights_changes_nothing(scale: float) -> None:
    rng = np.random.default_rng(0)
    scores, labels, weights = rng.random(200), rng.integers(0, 2, 200), 1 + rng.random(200) * 0.5
    metrics = {
        "l2": cd.ECE(norm="l2", debias=True),
        "parts": cd.BrierDecomposition(),
        "a": cd.ece_ac(),
        "log": cd.LogLoss(),
    }
    # Events are sums of weights.
    plain = cd.evaluate(labels, scores, metrics, sample_weight=weights).drop_vars("events")
    scaled = cd.evaluate(labels, scores, metrics, sample_weight=weights * scale).drop_vars("events")
    xr.testing.assert_allclose(scaled, plain, rtol=1e-9, atol=1e-12)
    for weight in (1e-200, 1e200, np.inf):
        with pytest.raises(ValueError, match="non-negative sample weights"):
            cd.evaluate(labels, scores, sample_weight=np.full(200, weight))


@pytest.mark.parametrize("tolerance", [-1, np.nan, "small"])
def test_tolerances(tolerance: Any) -> None:
    with pytest.raises(ValueError, match="sum_tolerance expects a number of at least 0"):
        cd.evaluate([0, 1], [0.5, 0.5], sum_tolerance=tolerance)


def test_labels_of_dimensions_must_agree() -> None:
    prob = xr.DataArray(np.full((2, 5), 0.5), dims=["model", "sample"], coords={"model": ["b", "a"]})
    true = xr.DataArray(np.zeros((2, 5), int), dims=["model", "sample"], coords={"model": ["a", "b"]})
    with pytest.raises(ValueError, match=r"equal coordinates along their common dimensions.*xarray\.align"):
        cd.evaluate(true, prob)


@pytest.mark.parametrize(
    "second",
    [
        (np.zeros(5, int), np.full((5, 2), 0.5)),
        (np.zeros(5, int), np.full((5, 3), 1 / 3, np.float32)),
        (np.zeros(5, int), np.full((5, 3), 1 / 3), np.ones(5)),
        (np.zeros(5, int), np.full(5, 0.5)),
    ],
)
def test_blocks_must_be_alike(second: Any) -> None:
    first = (np.zeros(5, int), np.full((5, 3), 1 / 3))
    with pytest.raises(ValueError, match="Blocks expect the same classes and precision"):
        cd.evaluate([first, second])


@pytest.mark.parametrize(
    ("metrics", "by"),
    [
        ({"brier": cd.BrierDecomposition(), "brier_score": cd.BrierScore()}, None),
        ([cd.ECE(bins=(0, 0.2, 1)), cd.ECE(bins=(0, 0.3, 1))], None),
    ],
)
def test_names_that_would_collide(metrics: Any, by: Any) -> None:
    with pytest.raises(ValueError, match=r"would be called|is used twice"):
        cd.evaluate([0, 1], [0.2, 0.3], metrics, by=by)


@pytest.mark.parametrize("metrics", [{"ece": cd.ECE()}, None])
def test_a_slice_may_have_the_name_of_a_metric(metrics: Any) -> None:
    result = cd.evaluate([0, 1], [0.2, 0.3], metrics, by={"ece": ["a", "b"]})
    plain = cd.evaluate([0, 1], [0.2, 0.3], metrics, by={"day": ["a", "b"]})
    assert result.ece.dims == ("ece_",)
    assert result.ece.values.tolist() == plain.ece.values.tolist()


@pytest.mark.parametrize("names", [["ece"], ["ece_"], ["ece", "ece_"], ["ece_low"], ["ece_low", "ece"]], ids="+".join)
def test_slices_with_names_of_metrics_count_the_same_everywhere(names: list[str]) -> None:
    rng = np.random.default_rng(0)
    scores, values = rng.random(90), [rng.choice(["ece", "a"], 90) for _ in names]
    rows: Any = {"y_true": rng.random(90) < scores, "y_prob": scores}
    limits: Any = {"limits": {"ece": 0.9}, "slice_limits": {"ece": 0.9}, "n_boot": 20}

    def numbers(by: Any) -> list[Any]:
        compared = cd.compare(rows["y_true"], {"a": scores, "b": scores**2}, by=by, metrics="ece", n_boot=20)
        results = [
            cd.evaluate(**rows, by=by, metrics="ece", ci=0.9, n_boot=20),
            cd.evaluate(cd.summarize(**rows, by=by, settings=["binary"]), metrics="ece", ci=0.9, n_boot=20),
            compared,
        ]
        assert cd.receipt(**rows, by=by, **limits)
        numbers = [{name: array.values.tolist() for name, array in one.data_vars.items()} for one in results]
        return [*numbers, cd.check(**rows, by=by, **limits).outcome]

    plain = [f"slice {number}" for number in range(len(names))]
    assert numbers(dict(zip(names, values, strict=True))) == numbers(dict(zip(plain, values, strict=True)))


def test_one_bad_label_shared_by_several_models_is_one_row() -> None:
    with pytest.raises(ValueError, match=r"1 of 2 rows differs; the first is row 1 with label 7"):
        cd.evaluate([0, 7], np.full((3, 2, 2), 0.5))
    with pytest.raises(ValueError, match=r"with label 1e\+300"):
        cd.evaluate([0, 1e300], [0.5, 0.5])
