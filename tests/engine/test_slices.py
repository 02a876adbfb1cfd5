"""Codes of the values that make slices."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibdask.engine.inputs.slices import MISSING, coded, codes_among

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


def test_texts_and_numbers_have_no_order() -> None:
    """Nothing is compared that has no order."""
    with pytest.raises(ValueError, match="all of one kind"):
        coded({"text": np.array(["b", 1, "a"], object)}, 3, "sample")
