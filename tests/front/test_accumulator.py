"""Accumulators: the bits of `evaluate` on all rows, however these are cut, and refusals of what they cannot tell."""

import pickle
from functools import reduce
from typing import Any

import dask.array as da
import numpy as np
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st

import calibdask as cd
from tests import strategies

ROWS = 500
RNG = np.random.default_rng(3)
SCORES = RNG.dirichlet([0.5, 1.0, 2.0], ROWS)
LABELS = np.where(RNG.random(ROWS) < 0.7, SCORES.argmax(1), RNG.integers(0, 3, ROWS))
WEIGHTS = RNG.integers(0, 4, ROWS) / 4
METRICS = {
    "ece": cd.ECE(),
    "classwise": cd.ECE(setting="classwise", bins=7),
    "brier": cd.BrierScore(),
    "log": cd.LogLoss(),
    "decomposition": cd.BrierDecomposition(),
    "density": cd.DensityECE(),
    "gap": cd.MeanGap(),
    "test": cd.SpiegelhalterTest(),
    "sharpness": cd.Sharpness(),
}
EXACT = [cd.ECE(bins=7), cd.BrierScore(), cd.LogLoss(), cd.BrierDecomposition(bins=7), cd.SpiegelhalterTest()]
PARTS = [slice(0, 1), slice(1, 200), slice(200, 200), slice(200, 350), slice(350, ROWS)]


def filled(*arguments: Any, weights: Any = None, parts: Any = PARTS, **options: Any) -> cd.Accumulator:
    accumulator = cd.Accumulator(*arguments, **options)
    for rows in parts:
        accumulator.update(LABELS[rows], SCORES[rows], None if weights is None else weights[rows])
    return accumulator


def summed(*accumulators: cd.Accumulator) -> dict[str, Any]:
    """What an all-reduce of the state dictionaries gives."""
    states = [accumulator.state_dict() for accumulator in accumulators]
    return {name: sum(state[name] for state in states) for name in states[0]}


def equal(actual: xr.Dataset, expected: xr.Dataset) -> None:
    assert actual.attrs["rows"] == expected.attrs["rows"]
    xr.testing.assert_equal(actual, expected)


@settings(max_examples=15, deadline=None)
@given(strategies.data(weighted=False), st.integers(0, 2**32 - 1))
def test_any_cut_gives_the_bits_of_all_rows(rows: strategies.Data, seed: int) -> None:
    vector = rows.layout.vector
    scores, labels = rows.scores[0, :, 0] if vector else rows.scores[0], rows.labels[0]
    part = np.random.default_rng(seed).integers(0, 3, rows.rows)
    classes = 1 if vector else rows.layout.classes
    several = [cd.Accumulator(EXACT, classes=classes) for _ in range(3)]
    for number, accumulator in enumerate(several):
        accumulator.update(labels[part == number], scores[part == number])
    expected = cd.evaluate(labels, scores, EXACT)
    equal(cd.Accumulator(EXACT).load_state_dict(summed(*several)).result(), expected)
    equal(reduce(cd.Accumulator.merge, reversed(several)).result(), expected)


def test_metrics_have_the_bits_of_evaluate() -> None:
    expected = cd.evaluate(LABELS, SCORES, METRICS)
    accumulator = filled(METRICS)
    result = accumulator.result()
    equal(result, expected)
    assert [result[name].attrs for name in result] == [expected[name].attrs for name in expected]
    assert "500 rows" in repr(accumulator)
    equal(pickle.loads(pickle.dumps(accumulator)).result(), expected)
    equal(accumulator.reset().update(LABELS, SCORES).result(), expected)
    lazy = da.from_array(SCORES, chunks=(130, 2))
    equal(cd.Accumulator(METRICS).update(da.from_array(LABELS, chunks=99), lazy).result(), expected)


def test_weights() -> None:
    expected = cd.evaluate(LABELS, SCORES, METRICS, sample_weight=WEIGHTS)
    accumulator = filled(METRICS, weights=WEIGHTS)
    # A batch may be masked altogether.
    accumulator.update(LABELS[:9], SCORES[:9], np.zeros(9))
    result = accumulator.result()
    assert result.attrs["rows"] == ROWS + 9
    xr.testing.assert_allclose(result, expected, rtol=1e-11)
    loaded = cd.Accumulator(METRICS).load_state_dict(
        summed(accumulator, cd.Accumulator(METRICS, classes=3, weighted=True))
    )
    equal(loaded.result(), result)


def test_it_holds_what_a_summary_holds() -> None:
    summary = cd.summarize(LABELS, SCORES)
    metrics = [cd.ECE(), cd.ECE(binning="equal-mass"), cd.CORP(), cd.BrierScore()]
    options: dict[str, Any] = {"ci": 0.9, "n_boot": 10, "seed": 4}
    # Mean scores of cells are exact but for their position in the cell.
    equal(filled().result().drop_vars("mean_score"), cd.evaluate(summary).drop_vars("mean_score"))
    result = filled(metrics, settings=["confidence", "classwise"]).result(**options)
    expected = cd.evaluate(summary, metrics=metrics, **options)
    np.testing.assert_allclose(result.mean_score, SCORES.max(1).mean(), rtol=1e-14)
    np.testing.assert_allclose(expected.mean_score, SCORES.max(1).mean(), rtol=1e-7)
    xr.testing.assert_allclose(result.drop_vars("mean_score"), expected.drop_vars("mean_score"), rtol=1e-12)
    assert {"ece_low", "ece_equal_mass_high"} <= set(result.data_vars)
    assert "brier_score_low" not in result


def test_states_are_plain_arrays_that_add_up() -> None:
    empty = cd.Accumulator(METRICS, classes=3)
    state = filled(METRICS).state_dict()
    assert {array.dtype for array in state.values()} == {np.dtype(np.int64)}
    assert {name: array.shape for name, array in state.items()} == {
        name: array.shape for name, array in empty.state_dict().items()
    }
    # As many as there may be processes.
    many = {name: 2047 * array for name, array in state.items()}
    result = cd.Accumulator(METRICS).load_state_dict(many).result()
    assert result.attrs["rows"] == 2047 * ROWS
    np.testing.assert_allclose(result["brier"], cd.brier_score(LABELS, SCORES), rtol=1e-14)
    assert cd.Accumulator(METRICS, classes=3).load_state_dict(empty.state_dict()).state_dict()["rows"] == 0


def test_invalid_rows_add_nothing() -> None:
    accumulator = filled(METRICS)
    before = accumulator.state_dict()
    with pytest.raises(ValueError, match="Expected labels that are whole numbers from 0 to 2"):
        accumulator.update([0, 3], SCORES[:2])
    np.testing.assert_equal(accumulator.state_dict(), before)
    accumulator.update(LABELS[:0], SCORES[:0])
    np.testing.assert_equal(accumulator.state_dict(), before)


REFUSED = [
    (cd.SKCE(), "'skce' .*: it reads the rows several times.* evaluate all rows for it"),
    (cd.MMCE(), "'mmce' .*: it compares pairs of rows"),
    (cd.SKCE(estimator="linear"), "depends on the order of the rows"),
    (cd.MulticlassECE(), "'multiclass_ece' .*: it needs CellSums, which is not a sum over the rows"),
    (cd.ECE(binning="equal-mass"), r"15 bins of equal mass\): .* give settings such as \['confidence'\]"),
    (cd.ECE(bins="sqrt"), "it reads the rows several times"),
    (cd.CORP(), "whose histograms determine it"),
]


@pytest.mark.parametrize(("metric", "message"), REFUSED, ids=[repr(metric)[:30] for metric, _ in REFUSED])
def test_what_one_pass_does_not_tell_is_refused_at_once(metric: Any, message: str) -> None:
    for options in ({}, {"classes": 3}):
        with pytest.raises(ValueError, match=message):
            cd.Accumulator([cd.ECE(), metric], **options)


def test_misuse() -> None:
    accumulator = filled(METRICS)
    with pytest.raises(ValueError, match=r"same classes and precision, .*; got a vector of float64 scores, without"):
        accumulator.update(LABELS == 1, SCORES[:, 1])
    with pytest.raises(ValueError, match="got 3 columns of float32 scores, without weights after 3 columns of float64"):
        accumulator.update(LABELS, SCORES.astype(np.float32))
    with pytest.raises(ValueError, match="with weights after"):
        accumulator.update(LABELS, SCORES, WEIGHTS)
    with pytest.raises(ValueError, match="Intervals come from histograms; construct"):
        accumulator.result(ci=0.9)
    with pytest.raises(ValueError, match="scores of one model, got several along dim_0"):
        accumulator.update(LABELS, np.stack([SCORES, SCORES]))
    with pytest.raises(ValueError, match="expects rows of positive weight before its result"):
        cd.Accumulator(METRICS).result()
    with pytest.raises(ValueError, match=r"without rows expects classes=\.\.\."):
        cd.Accumulator(METRICS).state_dict()
    with pytest.raises(ValueError, match="expects a vector of float64 scores, without weights, got 3 columns"):
        cd.Accumulator(METRICS, classes=1).update(LABELS, SCORES)
    with pytest.raises(ValueError, match="same metrics, settings, step and buckets"):
        accumulator.merge(cd.Accumulator(cd.ECE()))
    with pytest.raises(ValueError, match="setting=7 names a class that does not exist"):
        cd.Accumulator(cd.ECE(setting=7), classes=3)
    binary = cd.Accumulator(cd.BrierScore()).update(LABELS == 1, SCORES[:, 1])
    with pytest.raises(ValueError, match="the same classes and precision"):
        cd.Accumulator(cd.BrierScore()).load_state_dict(summed(binary, filled(cd.BrierScore())))
    with pytest.raises(ValueError, match="with the same metrics and settings, got the state of"):
        cd.Accumulator(cd.ECE()).load_state_dict(binary.state_dict())
    with pytest.raises(ValueError, match="expects one mapping, as state_dict returns it, got list"):
        cd.Accumulator(cd.ECE()).load_state_dict([binary.state_dict()])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="it lacks layout, rows"):
        cd.Accumulator(cd.ECE()).load_state_dict({})


def harmed(state: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    """A state with one bit of one number turned over, or two neighbouring numbers exchanged."""
    # Of a sum no use is made of the hashes of its parts, which are in the checksum.
    name = rng.choice(sorted({*state} - {"checksum"}))
    content = bytearray(np.ascontiguousarray(state[name]).tobytes())
    if rng.random() < 0.5 and len(content) >= 16:
        at = 8 * int(rng.integers(len(content) // 8 - 1))
        content[at : at + 16] = content[at + 8 : at + 16] + content[at : at + 8]
    else:
        content[rng.integers(len(content))] ^= 1 << int(rng.integers(8))
    array = np.frombuffer(bytes(content), state[name].dtype).reshape(np.shape(state[name]))
    return {**state, name: array}


@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.parametrize("kind", ["one", "sum", "weighted"])
def test_damaged_states_are_refused(kind: str) -> None:
    rng = np.random.default_rng(1)
    weights = WEIGHTS if kind == "weighted" else None
    one = filled(EXACT, settings=["confidence"], step=0.01, weights=weights)
    state = summed(one, one) if kind == "sum" else one.state_dict()
    other = cd.Accumulator(EXACT, settings=["confidence"], step=0.01)
    other.load_state_dict(state)
    changed = [
        case
        for case in (harmed(state, rng) for _ in range(100))
        if any(case[name].tobytes() != np.asarray(state[name]).tobytes() for name in state)
    ]
    assert len(changed) > 60
    for case in changed:
        with pytest.raises(ValueError, match="load_state_dict expects"):
            other.load_state_dict(case)
    # What was loaded before is still there.
    assert other.state_dict()["rows"] == state["rows"]


def test_states_that_no_rows_can_give_are_refused() -> None:
    state = filled(EXACT).state_dict()
    # States of earlier versions have neither a checksum nor an identity.
    old = {name: array for name, array in state.items() if name != "checksum"} | {"layout": state["layout"][:9]}
    equal(cd.Accumulator(EXACT).load_state_dict(old).result(), filled(EXACT).result())
    outcome = next(name for name in old if name.endswith("outcome"))
    rows = next(name for name in old if name.endswith("BinSums.rows"))
    for change, message in [
        ({outcome: old[outcome] + 10**6}, "no more than the rows in outcome"),
        ({rows: old[rows] - 10**6}, "numbers from 0 to 500, the rows in rows of BinSums"),
        ({"rows": np.array(-1)}, "the rows"),
        ({"layout": old["layout"] * 0}, "the layout of the rows, which is missing in this state"),
        ({"layout": old["layout"][0]}, r"layout of state_dict, int64 of shape \(9,\) or \(10,\), got int64 of shape"),
        ({"rows": np.array([1, 2])}, r"rows of state_dict, int64 of shape \(\), got int64 of shape \(2,\)"),
        ({"rows": np.array(1.0)}, "rows of state_dict, int64 of shape .*, got float64"),
    ]:
        with pytest.raises(ValueError, match=message):
            cd.Accumulator(EXACT).load_state_dict({**old, **change})
    with pytest.raises(ValueError, match="its checksum is missing"):
        cd.Accumulator(EXACT).load_state_dict({name: array for name, array in state.items() if name != "checksum"})
    with pytest.raises(ValueError, match="the same metrics and settings"):
        cd.Accumulator([cd.ECE(bins=7, closed="left"), *EXACT[1:]]).load_state_dict(state)
