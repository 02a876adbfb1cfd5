"""Kernels of single rows and scores, against what they stand for, where rounding and ties decide."""

from typing import Any

import numpy as np
import pytest
from numba import njit

import calibdask.kernels.dispatch  # noqa: F401 - numba knows kernels from there on
from calibdask.kernels.bin_numbers import uniform_bin
from calibdask.kernels.labels import packed
from calibdask.kernels.logarithm import log_64
from calibdask.kernels.top import MANY, top_class, top_k
from calibdask.statistics.bins.bin_sums import BinSums
from calibdask.statistics.bins.edges import Edges, uniform_edges
from calibdask.statistics.block import Block
from calibdask.statistics.frozen import FrozenArray
from calibdask.statistics.layout import Layout
from calibdask.statistics.row_terms import RowTerms
from calibdask.statistics.score_sums import ScoreSums
from calibdask.statistics.settings import Setting
from calibdask.statistics.validity import Validity


@njit
def _bins(scores: Any, n_bins: int, right: bool) -> Any:
    return np.array([uniform_bin(x, n_bins, right) for x in scores])


@njit
def _logs(values: Any) -> Any:
    return np.array([log_64(x) for x in values])


def _block(scores: Any, labels: Any, classes: int, **more: Any) -> Block:
    layout = Layout(classes=classes, vector=scores.shape[-1] == 1, dtype=scores.dtype.name, **more)
    return Block(layout, scores[None], labels[None])


def _rows(scores: Any) -> Any:
    """Scores as blocks hold them, whose kernels other tests compile as well: read-only."""
    scores.setflags(write=False)
    return scores


def _same(a: Any, b: Any) -> None:
    for one, other in zip(a, b, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("right", [True, False])
@pytest.mark.parametrize("n_bins", [*range(1, 70), 100, 997, 1024, 4095, 100_003])
def test_uniform_bins_are_exact_next_to_every_edge(n_bins: int, right: bool) -> None:
    edges = np.arange(n_bins + 1) / n_bins
    scores = np.unique([edges, np.nextafter(edges, -1), np.nextafter(edges, 2), edges.astype(np.float32)])
    scores = scores[(scores >= 0) & (scores <= 1)]
    expected = np.searchsorted(edges, scores, side="left" if right else "right") - 1
    np.testing.assert_array_equal(_bins(scores, n_bins, right), expected.clip(0, n_bins - 1))


def test_logarithms_are_within_a_unit_in_the_last_place() -> None:
    rng = np.random.default_rng(0)
    values = np.concatenate(
        [
            rng.random(50_000),
            2.0 ** -rng.uniform(0, 1074, 50_000),
            1 - 2.0 ** -rng.uniform(1, 53, 50_000),
            [5e-324, 2.0**-1022, np.nextafter(2.0**-1022, 0), 0.5, 0.5**0.5, 1.0],
        ]
    )
    exact = np.log(values.astype(np.longdouble))
    if np.finfo(np.longdouble).nmant == np.finfo(float).nmant:
        pytest.skip("long double is double here")
    assert np.all(np.abs(_logs(values) - exact) <= np.spacing(np.abs(exact.astype(float))))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("classes", [2, 9, 31, 32, 100, 1024, 3000])
def test_the_lowest_class_wins_among_equals(classes: int, dtype: str) -> None:
    rng = np.random.default_rng(classes)
    scores = _rows(rng.integers(0, 4, (2003, classes)).astype(dtype) / 4)
    labels = rng.integers(-1, classes + 1, 2003).astype(np.int32)
    labels[::2] = scores[::2].argmax(1)
    for rows in (1, 7, 16, 17, 1024, 1030, 2003):
        largest, hits, predicted = np.empty(rows, dtype), np.empty(rows, np.uint8), np.empty(rows, np.uint8)
        top_class(scores[:rows], packed(labels[:rows]), largest, hits, predicted)
        np.testing.assert_array_equal(largest, scores[:rows].max(1))
        np.testing.assert_array_equal(hits, scores[:rows].argmax(1) == labels[:rows])
        if classes < MANY:
            np.testing.assert_array_equal(predicted, scores[:rows].argmax(1))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("classes", [3, 40])
def test_extremes_prove_rows_valid_or_not(classes: int, dtype: str) -> None:
    rng = np.random.default_rng(classes)
    valid = _rows(rng.dirichlet(np.ones(classes), 37).astype(dtype))
    labels = rng.integers(0, classes, 37)
    out: Any = np.empty(37, dtype), np.empty(37, np.uint8), np.empty(37, np.uint8)
    extremes = top_class(valid, packed(labels), *out)
    assert extremes.regular
    assert (extremes.lowest, extremes.highest) == ((valid.min() if classes < MANY else 0), valid.max())
    assert extremes.furthest < 1e-5
    for row in (0, 20, 36):
        for score in (np.nan, np.inf, -0.25, 1.5):
            wrong = valid.copy()
            wrong[row, classes // 2] = score
            found = top_class(_rows(wrong), packed(labels), *out)
            assert not found.regular or found.lowest < 0 or found.highest > 1
            assert not found.regular or found.furthest > 0.01
        for label in (-1, classes):
            given = labels.copy()
            given[row] = label
            assert not top_class(valid, packed(given), *out).regular


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("levels", [4, 5000])
@pytest.mark.parametrize(("classes", "k"), [(2, 2), (9, 3), (255, 1), (256, 5), (1000, 5)])
def test_the_k_largest_scores(classes: int, k: int, levels: int, dtype: str) -> None:
    """Beside a stable sort; few levels make ties, the lower classes of which come first."""
    rng = np.random.default_rng(classes)
    scores = _rows(rng.integers(0, levels, (500, classes)).astype(dtype) / levels)
    ordered = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    labels = rng.integers(-1, classes + 1, 500).astype(np.int32)
    labels[::2] = ordered[::2, -1]
    sums, hits = np.empty(500), np.empty(500, np.uint8)
    top_k(scores, packed(labels), k, sums, hits)
    largest = np.take_along_axis(scores, ordered, 1).astype(np.float64)
    np.testing.assert_array_equal(sums, np.cumsum(largest, axis=1)[:, -1])
    np.testing.assert_array_equal(hits, (ordered == labels[:, None]).any(1))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("closed", ["right", "left"])
@pytest.mark.parametrize("uniform", [True, False])
def test_many_columns_are_summed_as_few_are(uniform: bool, closed: Any, dtype: str) -> None:
    """Beyond 31 columns only scores above the first bin are told; sums are those of the columns alone, bit for bit."""
    rng = np.random.default_rng(1)
    scores = rng.dirichlet(np.full(45, 0.1), 3000).astype(dtype)
    scores[:50] = rng.choice(np.arange(8) / 7, (50, 45))
    labels = rng.integers(-1, 46, 3000).astype(np.int32)
    values = uniform_edges(7) if uniform else np.array([0, 0.02, 0.3, 0.5, 0.9, 1.0])
    edges = Edges(FrozenArray(values[None, None, None]), closed, uniform=uniform)
    result = BinSums(Setting("classwise"), edges).from_block(_block(scores, labels, 45))
    for c in range(0, 45, 11):
        alone = BinSums(Setting("class", c), edges).from_block(_block(scores, labels, 45))
        _same((field[:, :, c] for field in result[:5]), (field[:, :, 0] for field in alone[:5]))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_scores_of_slices_are_those_of_their_rows(dtype: str) -> None:
    rng = np.random.default_rng(2)
    scores, labels = rng.dirichlet(np.ones(5), 3000).astype(dtype), rng.integers(0, 5, 3000).astype(np.int32)
    group = rng.integers(0, 3, 3000).astype(np.int32)
    layout = Layout(groups=3, classes=5, vector=False, dtype=dtype)
    setting = Setting("classwise")
    for statistic in (ScoreSums(), RowTerms(setting, "logarithm", layout.smallest), RowTerms(setting, "spiegelhalter")):
        sliced = statistic.from_block(Block(layout, scores[None], labels[None], group=group))
        for g in range(3):
            alone = statistic.from_block(_block(scores[group == g], labels[group == g], 5))
            if isinstance(statistic, ScoreSums):
                _same((field[:, g] for field in sliced), (field[:, 0] for field in alone))
            else:
                np.testing.assert_array_equal(sliced.sums[:, :, g], alone.sums[:, :, 0])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("classes", [3, 40, 1024, 2000])
def test_the_quick_look_lets_nothing_pass(classes: int, dtype: str) -> None:
    """Rows on both sides of each limit, alone in their tile, against the limits in double precision."""
    rng = np.random.default_rng(classes)
    for trial in range(200):
        scores = rng.dirichlet(np.ones(classes), 1).astype(dtype)
        # So that the sum is next to its limit, or a score next to one of its own.
        if trial % 2:
            scores *= (1 + (1e-3 + rng.normal() * 1e-7) * rng.choice([-1, 1])) / scores.sum(dtype=np.float64)
        else:
            scores[0, trial % classes] = rng.choice([-1e-6, 1 + 1e-6]) * (1 + rng.normal() * 1e-7)
        total = 0.0
        for value in scores[0].tolist():
            total += value
        state = Validity().from_block(_block(scores, np.zeros(1, np.int32), classes))
        values = scores.astype(np.float64)
        assert state.invalid[1] == ((values < -1e-6) | (values > 1 + 1e-6)).any()
        assert state.invalid[2] == (abs(total - 1) > 1e-3)


def test_limits_are_those_of_double_precision() -> None:
    """float32(1 + 1e-5) is above 1 + 1e-5: it offends alone and in any company."""
    scores = np.float32([[1 + 1e-5], [2.0]])
    for rows, offending in ((1, 1), (2, 2)):
        block = _block(scores[:rows], np.zeros(rows, np.int32), 2)
        assert Validity(tolerance=1e-5).from_block(block).invalid[1] == offending


@pytest.mark.parametrize("classes", [3, 40, 2500])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("row", "score"), [(0, np.nan), (5, -np.nan), (5, np.inf), (7, -np.inf), (7, -1e-3), (8, 1.5), (0, 0.9), (3, -0.0)]
)
def test_a_check_by_extremes_finds_what_a_check_by_rows_finds(classes: int, dtype: Any, row: int, score: float) -> None:
    rng = np.random.default_rng(classes)
    scores = rng.dirichlet(np.ones(classes), 9).astype(dtype)
    labels = rng.integers(0, classes, 9)
    for column in (0, 1, classes - 1):
        spoilt = scores.copy()
        spoilt[row, column] = score
        plain = _block(spoilt, labels, classes)
        looked = _block(spoilt, labels, classes)
        looked.columns(Setting("confidence"))
        assert looked.extremes is not None
        _same(Validity().from_block(looked), Validity().from_block(plain))


@pytest.mark.parametrize("classes", [3, 40])
@pytest.mark.parametrize("label", [-1, 40])
def test_a_check_by_extremes_finds_labels_of_no_class(classes: int, label: int) -> None:
    scores = np.full((5, classes), 1 / classes)
    labels = np.array([0, 1, label, 2, 1])
    block = _block(scores, labels, classes)
    block.columns(Setting("confidence"))
    _same(Validity().from_block(block), Validity().from_block(_block(scores, labels, classes)))
    assert Validity().from_block(block).invalid.sum() == 1


@pytest.mark.parametrize("n_bins", [1, 3, 10, 15, 997, 30_000, 1 << 16])
@pytest.mark.parametrize("right", [True, False])
def test_bins_of_single_precision_are_those_of_their_doubles(n_bins: int, right: bool) -> None:
    edges = np.arange(n_bins + 1) / n_bins
    near = edges.astype(np.float32)
    one = np.float32(1)
    scores = np.concatenate([near, np.nextafter(near, -one), np.nextafter(near, 2 * one)])
    scores = scores[(scores >= 0) & (scores <= 1)][:, None]
    edge = Edges(FrozenArray(edges[None, None, None]), "right" if right else "left", uniform=True)
    labels = np.ones(len(scores), np.int64)
    statistic = BinSums(Setting("class", 1), edge)
    single = statistic.from_block(_block(scores, labels, 2))
    _same(single, statistic.from_block(_block(scores.astype(np.float64), labels, 2)))
