"""Labels are read where they lie, whatever integers they are."""

from typing import Any

import numpy as np
import pytest

import calibdask as cd
import calibdask.kernels.dispatch
from calibdask.kernels.bin_sums import bin_sums
from calibdask.kernels.compiled import compiled
from calibdask.kernels.labels import is_packable, label_at, packed, read_labels
from calibdask.statistics.observed_labels import ObservedLabels

TYPES = ("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")


@compiled
def _read(labels: Any, n: Any, start: Any, buffer: Any, one_by_one: Any) -> Any:
    for r in range(n):
        one_by_one[r] = label_at(labels, r)
    return read_labels(labels, start, n, buffer)


@pytest.mark.parametrize("dtype", TYPES)
def test_every_type_is_read(dtype: str) -> None:
    kind = np.dtype(dtype)
    limits = np.array([False, True]) if dtype == "bool" else np.array([np.iinfo(kind).min, np.iinfo(kind).max], kind)
    labels = np.concatenate([limits, (np.arange(100) % 2).astype(kind), (np.arange(100) % 128).astype(kind)])
    one_by_one = np.empty(len(labels), np.int64)
    read = _read(packed(labels), len(labels), 3, np.empty(1000, np.int64), one_by_one)
    # From four bytes on, unsigned labels that no class can have are read as negative ones.
    own = labels.view(np.int32) if dtype == "uint32" else labels
    expected = own.astype(np.int64)
    np.testing.assert_array_equal(one_by_one, expected)
    np.testing.assert_array_equal(read, expected[3:])


@pytest.mark.parametrize("settings", ["binary", "matrix"])
def test_types_give_the_same_numbers_and_share_kernels(settings: str) -> None:
    rng = np.random.default_rng(0)
    scores = rng.random(5000) if settings == "binary" else rng.dirichlet(np.ones(5), 5000)
    labels = rng.integers(0, 2 if settings == "binary" else 5, 5000)
    metrics: Any = [cd.ECE(), cd.ECE(binning="equal-mass"), cd.BrierScore(), cd.LogLoss(), cd.DensityECE()]
    expected = cd.evaluate(labels, scores, metrics)
    compiled_for = len(bin_sums.dispatcher.signatures)  # type: ignore[attr-defined]
    for dtype in TYPES[settings == "matrix" :]:
        assert cd.evaluate(labels.astype(dtype), scores, metrics).equals(expected)
    assert cd.evaluate(labels.astype(">i4"), scores, metrics).equals(expected)
    assert cd.evaluate(np.repeat(labels.astype(np.int16), 2)[::2], scores, metrics).equals(expected)
    assert len(bin_sums.dispatcher.signatures) == compiled_for  # type: ignore[attr-defined]


def test_what_kernels_cannot_read_is_converted() -> None:
    for given in (np.arange(10)[::2], np.arange(5, dtype=">i8"), np.arange(5.0), np.array([np.nan, 1e300, -7.0])):
        assert not is_packable(given)
        memory, kind = ObservedLabels(given[None]).packed_of(0)
        assert kind == 8
        np.testing.assert_array_equal(memory.view(np.int64), ObservedLabels(given[None]).of(0))


@pytest.mark.parametrize("label", [2**31 + 1, 2**32 + 1, 2**63 + 1, -1, 5])
def test_labels_that_are_no_class_are_refused_and_told(label: int) -> None:
    labels = np.zeros(50, np.uint64 if label > 2**62 else np.int64)
    labels[1::2] = 1
    labels[7] = label
    with pytest.raises(ValueError, match="label") as caught:
        cd.evaluate(labels, np.linspace(0, 1, 50), cd.ECE())
    assert "7" in str(caught.value)
