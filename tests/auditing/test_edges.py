"""Edges that are given: which are refused, and in which words."""

from typing import Any

import numpy as np
import pytest

import calibdask as cd

RNG = np.random.default_rng(0)
SCORES = RNG.random(500)
LABELS = RNG.random(500) < SCORES
FEATURES: dict[str, Any] = {
    "x": RNG.random(500),
    "text": RNG.choice(["a", "b"], 500),
    "flag": RNG.random(500) < 0.5,
    "day": np.datetime64("2026-01-01T00") + RNG.integers(0, 9_000, 500).astype("m8[h]"),
}
BAD: list[tuple[Any, str]] = [
    ({"x": [0.5, 0.2]}, r"edges of 'x' expects .* each larger than the one before, got \[0.5, 0.2\]"),
    ({"x": [0.5, 0.5]}, "each larger than the one before"),
    ({"x": [0.5, np.nan]}, "finite numbers"),
    ({"x": 0.5}, "expects a list of 1 to 253 finite numbers, .* got 0.5;"),
    ({"x": ["low"]}, r"got \['low'\]"),
    ({"z": [0.5]}, r"edges expects names of features, x, text, flag(,| and) day, got 'z'; correct the name"),
    ({"text": [0.5]}, r"expects features of numbers, and 'text' is one of texts; leave out its edges"),
    ({"day": [0.5]}, r"'day' is one of dates"),
    ([0.5], "edges expects a mapping from names of features to their edges, .* got list"),
]


@pytest.mark.parametrize(("edges", "message"), BAD)
def test_edges_that_cut_nothing_are_refused(edges: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        cd.audit(LABELS, SCORES, FEATURES, edges=edges)
    with pytest.raises(ValueError, match=message):
        cd.MulticalibratedScaling(edges=edges).fit(LABELS, SCORES, features=FEATURES)


def test_edges_as_an_array_cut_as_a_list_does() -> None:
    lists, arrays = (
        cd.audit(LABELS, SCORES, {"x": FEATURES["x"]}, edges={"x": edges})
        for edges in ([0.2, 0.6], np.array([0.2, 0.6]))
    )
    assert set(lists.segment.values.tolist()) == {"all rows", "x <= 0.2", "0.2 < x <= 0.6", "x > 0.6"}
    assert lists.identical(arrays)
