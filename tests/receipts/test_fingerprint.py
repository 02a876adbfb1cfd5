"""Fingerprints: the same for the same rows, another one after any change."""

from typing import Any

import dask.array as da
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import calibdask as cd
from calibdask.analyses.receipts.fingerprint import fingerprint_of
from calibdask.data.data import Data
from calibdask.data.options import InputOptions
from calibdask.kernels.row_hashes import _mixed
from calibdask.statistics.row_hashes import SEEDS, text_hash


def _rows(n: int = 1000) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    scores = rng.random(n)
    return {
        "labels": (rng.random(n) < scores).astype(int),
        "scores": scores,
        "weights": rng.random(n),
        "slices": rng.choice(["a", "b"], n),
    }


def _fingerprint(labels: Any, scores: Any, weights: Any, slices: Any) -> str:
    return cd.fingerprint(labels, scores, sample_weight=weights, by={"slices": slices})


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**32), chunk=st.integers(50, 1000))
def test_order_and_chunks_do_not_matter(seed: int, chunk: int) -> None:
    rows = _rows()
    order = np.random.default_rng(seed).permutation(1000)
    shuffled = {name: values[order] for name, values in rows.items()}
    lazy = {name: da.from_array(values, chunks=chunk) for name, values in shuffled.items()}
    assert _fingerprint(**rows) == _fingerprint(**shuffled) == _fingerprint(**lazy)


@given(row=st.integers(0, 999), bit=st.integers(0, 51), name=st.sampled_from(["scores", "weights"]))
def test_any_flipped_bit_is_noticed(row: int, bit: int, name: str) -> None:
    rows = _rows()
    changed = rows[name].copy()
    changed.view(np.int64)[row] ^= 1 << bit
    assert _fingerprint(**rows) != _fingerprint(**{**rows, name: changed})


def test_rows_count_as_often_as_they_occur() -> None:
    one, two = ([1], [0.5]), ([1, 1], [0.5, 0.5])
    assert cd.fingerprint(*one) != cd.fingerprint(*two)
    # Labels and scores belong to each other.
    assert cd.fingerprint([0, 1], [0.25, 0.75]) != cd.fingerprint([1, 0], [0.25, 0.75])


def test_numbers_count_not_types() -> None:
    scores = np.array([0.0, 0.25, 0.5], np.float32)
    labels = np.array([0, 1, 1], np.int8)
    same = cd.fingerprint(labels, scores)
    assert same == cd.fingerprint(labels.astype(bool), scores.astype(np.float64))
    assert same == cd.fingerprint(labels.astype(float), np.array([-0.0, 0.25, 0.5]))
    assert same != cd.fingerprint(labels, np.column_stack([1 - scores, scores]))


def test_the_hash_is_that_of_loops() -> None:
    """Sums of hashes of the words, in the order of labels, scores, weights and slices."""

    def mixed(start: int, *words: int) -> int:
        for word in words:
            with np.errstate(over="ignore"):
                start = int(_mixed.function(np.uint64(start), np.uint64(word % 2**64)))
        return start

    labels, scores = [1, 0], np.array([[0.25, 0.75], [0.5, 0.5]])
    data = Data.of(np.array(labels), scores, options=InputOptions(task="multiclass")).read()
    key, seeds = text_hash("{}"), [int(seed) for seed in SEEDS]
    whole = [0] * 4
    for label, row in zip(labels, scores, strict=True):
        words = row.view(np.uint64).tolist()
        for lane in range(4):
            own = lane % 2
            parts = [
                mixed(seeds[own], label),
                mixed(seeds[2 + own], *words),
                mixed(seeds[4 + own], 0),
                mixed(seeds[6 + own], key),
            ]
            whole[lane] = (whole[lane] + mixed(seeds[8 + lane], *parts)) % 2**64
    assert fingerprint_of(data).whole == "".join(f"{word:016x}" for word in whole)


def test_what_has_none() -> None:
    rows = _rows(100)
    with pytest.raises(TypeError, match="expects rows, which it hashes; got a summary"):
        cd.fingerprint(cd.summarize(rows["labels"], rows["scores"]))
    with pytest.raises(ValueError, match="2 of"):
        cd.fingerprint([0, 7, 9], [0.1, 0.2, 0.3])
