"""Results of several models side by side."""

import numpy as np
import pytest

import calibdask as cd
from calibdask.results.build import sentences_of
from calibdask.results.models import joined_models
from calibdask.results.values import Results

RNG = np.random.default_rng(6)
SCORES = RNG.random(300)
LABELS = (RNG.random(300) < SCORES).astype(int)
DAY = np.where(np.arange(300) < 200, "mon", "tue")


def test_models_have_their_own_numbers_rows_and_slices() -> None:
    old = cd.evaluate(LABELS, SCORES, cd.ECE(), by={"day": DAY}, ci=0.9, n_boot=5)
    new = cd.evaluate(LABELS[:100], SCORES[:100] ** 2, cd.ECE(), by={"day": DAY[:100]}, ci=0.9, n_boot=5)
    joined = joined_models({"old": old, "new": new})
    assert joined.ece.dims == ("model", "day")
    np.testing.assert_array_equal(joined.ece.sel(model="old"), old.ece)
    np.testing.assert_array_equal(joined.ece_high.sel(model="new", day="mon"), new.ece_high.sel(day="mon"))
    assert joined.rows.sel(model="new").values.tolist() == [100, 0]
    assert joined.rows.dtype.kind == "i"
    assert np.isnan(joined.ece.sel(model="new", day="tue"))
    assert (joined.attrs["rows"], joined.attrs["rows_of"]) == (400, "all models together")
    results = Results(joined)
    assert (results.batch, results.slices) == (("model",), ("day",))


def test_models_of_as_many_rows_have_that_number() -> None:
    results = {name: cd.evaluate(LABELS, SCORES**power, cd.ECE()) for name, power in (("old", 1), ("new", 2))}
    joined = joined_models(results)
    assert (joined.attrs["rows"], joined.attrs["rows_of"]) == (300, "each model")


def test_models_of_clustered_rows_have_their_own_effective_rows() -> None:
    groups = np.arange(300) // 3
    results = {
        name: cd.evaluate(LABELS, SCORES**power, cd.ECE(), groups=groups) for name, power in (("a", 1), ("b", 2))
    }
    joined = joined_models(results)
    np.testing.assert_array_equal(joined.effective_rows, [results[name].effective_rows for name in "ab"])
    assert joined.clusters.values.tolist() == [100, 100]


def test_models_that_do_not_belong_side_by_side() -> None:
    vector = cd.evaluate(LABELS, SCORES, cd.ECE())
    matrix = cd.evaluate(LABELS, np.stack([1 - SCORES, SCORES], -1), cd.ECE())
    with pytest.raises(ValueError, match="'class 1' for ece of 'a' and 'confidence' for that of 'b'"):
        joined_models({"a": vector, "b": matrix})
    with pytest.raises(ValueError, match="'a' has ece, and 'b' has not"):
        joined_models({"a": vector, "b": cd.evaluate(LABELS, SCORES, cd.BrierScore())})


def test_what_is_said_of_one_model_is_not_said_of_all() -> None:
    """The bandwidth is that of the scores; reasons name their models."""
    both = {"old": SCORES, "new": 0.4 + SCORES / 5}
    results = {name: cd.evaluate(LABELS, scores, {"skce": cd.SKCE(), "ece": cd.ECE()}) for name, scores in both.items()}
    left_out = {"metrics_left_out": ["MMCE: too many pairs"]}
    joined = joined_models({name: result.assign_attrs(left_out) for name, result in results.items()})
    assert results["old"].skce.attrs["bandwidth"] != results["new"].skce.attrs["bandwidth"]
    assert "bandwidth" not in joined.skce.attrs
    assert joined.ece.attrs == results["old"].ece.attrs
    assert sentences_of(joined, "metrics_left_out") == ["old, new: MMCE: too many pairs"]
