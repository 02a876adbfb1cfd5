"""Codes of the values that make slices."""

import dask.array as da
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import calibdask as cd
from calibdask.data.slices import coded, codes_among
from calibdask.engine.axes import MISSING

_texts = st.text(st.characters(codec=None), max_size=3) | st.sampled_from(["", "a", "A", "a\0", "é", "e\u0301"])


@given(st.lists(_texts, min_size=1, max_size=30))
def test_texts_are_coded_in_the_order_of_their_characters(texts: list[str]) -> None:
    """Equal texts have one code, whichever characters they have."""
    values = np.array(texts, object)
    codes, (axis,) = coded({"text": values}, len(texts), "sample")
    assert axis.labels.tolist() == sorted({*texts})
    assert axis.labels[codes].tolist() == texts
    assert codes_among((axis,), {"text": values}, len(texts)).tolist() == codes.tolist()


def test_missing_texts_are_the_last_slice() -> None:
    """With a name of their own."""
    codes, (axis,) = coded({"text": np.array(["b", None, "a", np.nan, "b"], object)}, 5, "sample")
    assert axis.labels.tolist() == ["a", "b", MISSING]
    assert codes.tolist() == [1, 2, 0, 2, 1]


_KINDS = ("i1", "u2", "i8", ">i4", "u8", "?", "f2", "f4", "f8", ">f8", "M8[D]", "M8[ns]", ">M8[s]", "m8[h]", "S3", "U3")


@pytest.mark.parametrize("kind", _KINDS)
def test_values_of_any_type_are_coded_in_their_order(kind: str) -> None:
    """As if all rows were sorted, in whole arrays and in chunks; the type stays."""
    whole = np.random.default_rng(0).integers(-9, 9, 200)
    values = (whole if kind in ("i1", "i8", "f4", "M8[D]") else np.abs(whole)).astype(kind)
    expected, places = np.unique(values, return_inverse=True)
    for given_values in (values, da.from_array(values, chunks=60)):
        codes, (axis,) = coded({"by": given_values}, len(values), "sample")
        assert axis.labels.tolist() == expected.tolist()
        assert axis.labels.dtype.newbyteorder("=") == expected.dtype.newbyteorder("=")
        assert np.asarray(codes).tolist() == places.tolist()
        found = codes_among((axis,), {"by": given_values}, len(values))
        assert np.asarray(found).tolist() == places.tolist()


def test_texts_and_numbers_have_no_order() -> None:
    """Nothing is compared that has no order."""
    with pytest.raises(ValueError, match="all of one kind"):
        coded({"text": np.array(["b", 1, "a"], object)}, 3, "sample")


@pytest.mark.parametrize("count", [4, 60])
def test_memory_is_told_for_the_rows_that_there_are(count: int) -> None:
    """Without them, the distinct scores of every fold, model and slice would be expected to fill their share."""
    rng = np.random.default_rng(4)
    scores, labels, country = rng.random((3, count)), np.arange(count) // 2 % 2, np.arange(count) % 3
    of_models = cd.evaluate(labels, scores, cd.Refinement(folds=3), by={"country": country}, task="binary")
    one = cd.evaluate(labels, scores[1], cd.Refinement(folds=3), by={"country": country})
    np.testing.assert_array_equal(of_models.refinement[1], one.refinement)


def test_memory_of_distinct_scores_is_that_of_all_rows_whatever_the_slices() -> None:
    rng = np.random.default_rng(5)
    scores, labels, customer = rng.random(60_000), np.arange(60_000) % 2, np.arange(60_000) % 30_000
    result = cd.evaluate(labels, scores, cd.ECCE(), by={"customer": customer})
    np.testing.assert_array_equal(result.rows, np.full(30_000, 2))
