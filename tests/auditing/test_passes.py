"""How often an audit reads the data: three times, whatever numbers there are, and more only with a word why."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import calibdask as cd

N = 30_000


def numbers(kind: str, seed: int = 0) -> NDArray[Any]:
    """Numbers that tie, in decimals or not."""
    rng = np.random.default_rng(seed)
    many = rng.lognormal(6, 1.2, N)
    return {
        "tenths": np.round(rng.normal(3, 1, N), 1),
        "cents": np.round(np.where(rng.random(N) < 0.3, 199.99, many), 2),
        "float32": np.float32(np.round(rng.random(N), 2)),
        "continuous": rng.normal(size=N),
        "seconds": 1_700_000_000.0 + rng.integers(0, 365, N) * 86_400,
        "whole": rng.integers(-(10**9), 10**9, N),
        "infinite": np.where(rng.random(N) < 0.3, np.inf, many),
    }[kind]


KINDS = ("tenths", "cents", "float32", "continuous", "seconds", "whole", "infinite")


@pytest.mark.parametrize("kind", KINDS)
def test_three_passes_cut_at_order_statistics(kind: str) -> None:
    import dask.array as da

    values, rng = numbers(kind), np.random.default_rng(1)
    score = rng.random(N)
    label = rng.random(N) < score
    result = cd.audit(label, score, {"x": values}, depth=1, min_rows=1)
    assert result.attrs["passes"] <= 3
    assert "passes_why" not in result.attrs
    ends = np.unique(np.sort(values)[[-(-N * i // 5) - 1 for i in range(1, 5)]])
    ends = ends[ends < values.max()]
    below = np.array([np.count_nonzero(values <= end) for end in ends])
    assert result.sortby("number").rows.values[1:].tolist() == np.diff([0, *below, N]).tolist()
    lazy = [da.from_array(array, chunks=7001) for array in (label, score, values)]
    of_chunks = cd.audit(lazy[0], lazy[1], {"x": lazy[2]}, depth=1, min_rows=1)
    assert of_chunks.drop_attrs().identical(result.drop_attrs())
    assert of_chunks.attrs["passes"] <= 3


def test_further_passes_are_told() -> None:
    rng = np.random.default_rng(2)
    score = rng.random(N)
    features = {"x": rng.normal(size=N), "a": rng.random(N) < 0.3, "b": rng.random(N) < 0.2}
    truth = np.where(features["a"], 0.7 * score, np.where(features["b"], 0.2 + 0.8 * score, score))
    result = cd.audit(rng.random(N) < truth, score, features)
    why = "2 passes cut features and scores, 1 fills the lattice, 1 separates overlapping subgroups"
    assert (result.attrs["passes"], result.attrs["passes_why"]) == (4, why)
    # Two numbers, one unit in the last place apart, of which each has half of the rows.
    close = np.where(rng.random(N) < 0.5, 1.0, np.nextafter(1.0, 2.0))
    exact = cd.audit(rng.random(N) < score, score, {"x": close}, depth=1)
    assert exact.sortby("number").rows.values.tolist() == [N, int((close == 1).sum()), int((close > 1).sum())]
    assert exact.attrs["passes_why"] == "4 passes cut features and scores, 1 fills the lattice"


def test_few_whole_numbers_of_any_size_are_values_of_their_own() -> None:
    rng = np.random.default_rng(3)
    score = rng.random(N)
    years = rng.choice([2021, 2022, 2023, 10**6], N, p=[0.97, 0.01, 0.01, 0.01])
    result = cd.audit(rng.random(N) < score, score, {"year": years}, depth=1).sortby("number")
    assert result.rows.values[1:].tolist() == np.unique(years, return_counts=True)[1].tolist()


def test_identifiers_of_numbers_are_noted() -> None:
    rng = np.random.default_rng(4)
    score = rng.random(N)
    label = rng.random(N) < score
    features = {"customer": rng.permutation(N) + 10**6, "age": rng.integers(18, 90, N), "x": rng.random(N)}
    result = cd.audit(label, score, features, depth=1)
    assert result.attrs["notes"].count("a whole number of its own in nearly every row") == 1
    assert "customer has" in result.attrs["notes"]
    few = {name: values[:500] for name, values in features.items()}
    assert cd.audit(label[:500], score[:500], few, depth=1).attrs["notes"] == "[]"
