"""Equal-mass edges are exact order statistics of all rows, in bounded memory and few passes."""

import pickle
from dataclasses import replace
from functools import reduce
from itertools import pairwise
from typing import Any

import dask.array as da
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import calibdask as cd
from calibdask.statistics.bins.bin_sums import BinSums
from calibdask.statistics.bins.binnings import BinEdges, EqualMass, MassEdges
from calibdask.statistics.bins.edges import Edges
from calibdask.statistics.block import Block
from calibdask.statistics.derived import Derived
from calibdask.statistics.frozen import FrozenArray
from calibdask.statistics.layout import Layout
from calibdask.statistics.order.ranks import KeyCounts, WindowCounts
from calibdask.statistics.settings import Setting
from tests import strategies
from tests.oracles import reference


def found_edges(diagram: Any) -> NDArray[np.float64]:
    lower = diagram.lower.values[np.isfinite(diagram.lower.values)]
    return np.r_[lower, np.nanmax(diagram.upper.values)]


SCORES = {
    "smooth": lambda rng, n: rng.beta(0.7, 0.9, n),
    "skewed": lambda rng, n: rng.beta(0.05, 3.0, n),
    "saturated": lambda rng, n: 1 - rng.random(n) ** 12,
    "ties": lambda rng, n: rng.integers(0, 101, n) / 100,
    "two values": lambda rng, n: rng.choice([0.2, 0.7], n),
    "all equal": lambda rng, n: np.full(n, 0.3),
    "all zero": lambda rng, n: np.zeros(n),
    "all one": lambda rng, n: np.ones(n),
    "narrow cluster": lambda rng, n: 0.5 + rng.random(n) * 1e-12,
    "clusters in clusters": lambda rng, n: 0.5 + rng.choice([0, 1e-3, 1e-7, 1e-11], n) + rng.random(n) * 1e-14,
    "tiny": lambda rng, n: rng.random(n) * 1e-30,
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", SCORES)
def test_edges_equal_those_of_the_sorted_array(kind: str, dtype: Any) -> None:
    for n, bins in ((20_003, 15), (5000, 40), (4096, 7), (30, 10), (7, 15)):
        rng = np.random.default_rng(n)
        scores = SCORES[kind](rng, n).astype(dtype)
        labels = rng.integers(0, 2, n)
        diagram = cd.reliability_diagram(labels, scores, bins=bins, binning="equal-mass")
        expected = reference.equal_mass_edges(scores.astype(np.float64), bins)
        np.testing.assert_array_equal(found_edges(diagram), expected, err_msg=f"{n} rows, {bins} bins")
        lazy = cd.reliability_diagram(labels, da.from_array(scores, chunks=n // 3 + 1), bins=bins, binning="equal-mass")
        assert lazy.drop_attrs().identical(diagram.drop_attrs())
        assert lazy.passes <= 3


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_weighted_edges(drawn: st.DataObject) -> None:
    rng = np.random.default_rng(drawn.draw(st.integers(0, 2**32 - 1)))
    n = drawn.draw(st.integers(1, 80))
    scores = rng.integers(0, drawn.draw(st.sampled_from([5, 1000])), n) / 1000
    weights = rng.integers(1, 5, n) * drawn.draw(st.sampled_from([1.0, 0.1, 1e-6]))
    bins = drawn.draw(st.integers(1, 12))
    diagram = cd.reliability_diagram(np.zeros(n, int), scores, bins=bins, binning="equal-mass", sample_weight=weights)
    np.testing.assert_array_equal(found_edges(diagram), reference.equal_mass_edges(scores, bins, weights))


@pytest.mark.parametrize("weight", [1.0, 0.1, 3.5])
def test_equal_weights_change_nothing(weight: float) -> None:
    rng = np.random.default_rng(0)
    for n in (10, 60, 20_000):
        scores, labels = rng.integers(0, 500, n) / 500, rng.integers(0, 2, n)
        plain = cd.reliability_diagram(labels, scores, bins=9, binning="equal-mass")
        weighted = cd.reliability_diagram(
            labels, scores, bins=9, binning="equal-mass", sample_weight=np.full(n, weight)
        )
        np.testing.assert_array_equal(found_edges(weighted), found_edges(plain))


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_whole_weights_repeat_rows_in_data_and_summaries(drawn: st.DataObject) -> None:
    rng = np.random.default_rng(drawn.draw(st.integers(0, 2**32 - 1)))
    n, bins = drawn.draw(st.integers(2, 80)), drawn.draw(st.integers(1, 20))
    # No two of these scores share a cell of a summary.
    scores = rng.integers(0, drawn.draw(st.sampled_from([5, 1000])), n) / 1000
    labels, weights = rng.integers(0, 2, n), rng.integers(0, 5, n).astype(np.float64)
    weights[0] = 3.0
    many = weights.astype(int)
    repeated = np.repeat(labels, many), np.repeat(scores, many)
    chosen = {"bins": bins, "binning": "equal-mass"}
    diagram = cd.reliability_diagram(*repeated, **chosen)
    for rows in (scores, da.from_array(scores, chunks=n // 2 + 1)):
        weighted = cd.reliability_diagram(labels, rows, sample_weight=weights, **chosen)
        for name in ("lower", "upper", "weight"):
            np.testing.assert_array_equal(weighted[name], diagram[name].astype(np.float64))
        np.testing.assert_allclose(weighted["score"], diagram["score"], rtol=1e-14, atol=1e-15)
    expected = cd.ece(*repeated, **chosen)
    stored = cd.summarize(labels, scores, sample_weight=weights, settings=["binary"])
    for given_rows in ((labels, scores), (stored,)):
        weight = {"sample_weight": weights} if len(given_rows) == 2 else {}
        found = float(cd.evaluate(*given_rows, metrics=cd.ECE(**chosen), **weight).ece)
        assert found == pytest.approx(expected, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("zeros", [1, 2, 3, 4, 12])
@pytest.mark.parametrize("weighted", [False, True])
def test_scores_of_0_share_the_first_bin_in_rows_and_summaries(zeros: int, weighted: bool) -> None:
    """An edge between two of them would be the outer one: duplicate edges are dropped."""
    scores = np.r_[np.zeros(zeros), np.arange(1, 13) / 13]
    labels = np.arange(scores.size) % 3 == 0
    options: dict[str, Any] = {"sample_weight": np.full(scores.size, 2.0)} if weighted else {}
    summary = cd.summarize(labels, scores, settings=["binary"], **options)
    for bins in (2, 3, 6, 8, 20):
        metric = cd.ECE(bins=bins, binning="equal-mass")
        expected = float(cd.evaluate(labels, scores, metric, **options).ece)
        assert float(cd.evaluate(summary, metrics=metric).ece) == pytest.approx(expected, rel=1e-9)


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_any_weights_give_summaries_the_bins_of_the_rows(drawn: st.DataObject) -> None:
    rng = np.random.default_rng(drawn.draw(st.integers(0, 2**32 - 1)))
    n, bins = drawn.draw(st.integers(2, 80)), drawn.draw(st.integers(1, 20))
    scores, labels, weights = rng.integers(0, 1000, n) / 1000, rng.integers(0, 2, n), rng.gamma(0.5, 2.0, n)
    metric = cd.ECE(bins=bins, binning="equal-mass")
    stored = cd.summarize(labels, scores, sample_weight=weights, settings=["binary"])
    expected = float(cd.evaluate(labels, scores, metric, sample_weight=weights).ece)
    assert float(cd.evaluate(stored, metrics=metric).ece) == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_weighted_bins_by_hand() -> None:
    scores, labels = np.arange(0.05, 1, 0.1), [0, 0, 1, 0, 1, 0, 1, 1, 0, 1]
    weights = [1, 2, 1, 3, 1, 2, 1, 2, 1, 2]
    # Of 16 rows the fifth and the tenth end a bin, at .35 and .55: gaps of 0.65, 0.55 and 0.1 of 16.
    diagram = cd.reliability_diagram(labels, scores, bins=3, binning="equal-mass", sample_weight=weights)
    np.testing.assert_allclose(found_edges(diagram), [0, 0.35, 0.6, 1])
    assert cd.ece(labels, scores, bins=3, binning="equal-mass", sample_weight=weights) == pytest.approx(0.08125)


def test_bins_hold_equally_many_rows_and_ties_are_not_split() -> None:
    rng = np.random.default_rng(2)
    scores = rng.random(100_000)
    count = cd.reliability_diagram(np.zeros(100_000, int), scores, bins=15, binning="equal-mass")["count"]
    assert set(count.values) <= {6666, 6667}
    tied = cd.evaluate(np.zeros(90, int), np.repeat([0.1, 0.5, 0.9], 30), cd.ece_a(bins=10))
    assert tied.ece.attrs["effective_bins"] == 4  # inner edges at the three tied scores


def answered(asking: Any, blocks: list[Block]) -> Any:
    """What a request comes to when blocks are merged in order."""
    answer = None
    while True:
        try:
            request = asking.send(answer)
        except StopIteration as stop:
            return stop.value
        if isinstance(request, Layout):
            answer = blocks[0].layout
        elif isinstance(request, Derived):
            answer = answered(request.derive(), blocks)
        else:
            answer = reduce(request.merge, map(request.from_block, blocks))


def assert_sums_are_those_of_the_edges(blocks: list[Block], setting: Setting, binning: EqualMass) -> None:
    edges = answered(BinEdges(binning, setting).derive(), blocks)
    asked = BinSums(setting, Edges(edges.array, edges.closed))
    expected = reduce(asked.merge, map(asked.from_block, blocks))
    for name, actual, wanted in zip(expected._fields, edges.sums, expected, strict=True):
        assert actual.dtype == wanted.dtype
        np.testing.assert_array_equal(actual, wanted, err_msg=name)


# Where exact sums round float32 scores, and where cells of keys end.
SMALL = {
    "below the rounding of sums": lambda rng, n: 2.0 ** -rng.uniform(25, 60, n),
    "beyond the ends": lambda rng, n: np.clip(rng.normal(0.5, 1, n), -5e-7, 1 + 5e-7) * rng.choice([1, -0.0], n),
    "next to one": lambda rng, n: 1 - 2.0 ** -rng.uniform(20, 55, n),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", [*SCORES, *SMALL])
def test_sums_that_come_with_edges_are_those_of_a_further_pass(kind: str, dtype: Any) -> None:
    setting = Setting("class", 1)
    for n, bins, closed in ((70_003, 15, "right"), (5000, 40, "left"), (4096, 7, "right"), (30, 10, "left")):
        rng = np.random.default_rng(n)
        scores = (SCORES | SMALL)[kind](rng, n).astype(dtype)[None, :, None]
        layout = Layout(rows=n, dtype=np.dtype(dtype).name)
        data = strategies.Data(scores, (rng.random((1, n)) < scores[..., 0]).astype(np.int32), None, None, layout)
        for points in ([0, n], [0, n // 3, n // 3, n - 5, n]):
            blocks = [data.block(a, b) for a, b in pairwise(points)]
            assert_sums_are_those_of_the_edges(blocks, setting, EqualMass(bins, closed=closed))  # type: ignore[arg-type]


@settings(max_examples=40, deadline=None)
@given(strategies.data(weighted=False), st.integers(1, 12), st.integers(1, 200))
def test_sums_of_columns_slices_and_batches(data: strategies.Data, bins: int, times: int) -> None:
    """Repeated rows leave the single keys of few rows behind."""
    group = None if data.group is None else np.tile(data.group, times)
    labels = np.tile(data.labels, (1, times))
    many = strategies.Data(np.tile(data.scores, (1, times, 1)), labels, None, group, data.layout)
    blocks = [many.block(0, many.rows // 2), many.block(many.rows // 2)]
    for setting in (Setting("class", 1), Setting("classwise"), Setting("confidence")):
        assert_sums_are_those_of_the_edges(blocks, setting, EqualMass(bins))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_many_classes_share_wider_cells(dtype: Any) -> None:
    rng = np.random.default_rng(7)
    scores = rng.dirichlet(np.full(600, 0.05), (1, 3000)).astype(dtype)
    layout = Layout(classes=600, vector=False, rows=3000, dtype=np.dtype(dtype).name)
    data = strategies.Data(scores, rng.integers(0, 600, (1, 3000)), None, None, layout)
    blocks = [data.block(0, 1000), data.block(1000)]
    assert_sums_are_those_of_the_edges(blocks, Setting("classwise"), EqualMass(5))


@pytest.mark.parametrize("bits", [3, 8, 12])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sums_of_cells_are_exact_over_many_rows(dtype: Any, bits: int) -> None:
    """Counters of float32 scores are emptied before 65536 rows of one cell overflow them."""
    scores = np.full((1, 200_000, 1), np.nextafter(dtype(0.75), dtype(0)), dtype)
    scores[0, ::1000] = 1.0
    layout = Layout(rows=200_000, dtype=np.dtype(dtype).name)
    data = strategies.Data(scores, np.ones((1, 200_000), np.int32), None, None, layout)
    cells = KeyCounts(Setting("class", 1), bits).from_block(data.block())
    assert cells.rows.tolist() == cells.hits.tolist() == [199_800, 200]
    total = sum(whole * 2**52 + fraction for whole, fraction in cells.score.tolist())
    assert total == 199_800 * round(float(scores[0, 1, 0]) * 2**52) + 200 * 2**52


def test_two_passes_give_edges_and_sums_and_few_rows_take_one() -> None:
    rng = np.random.default_rng(3)
    for n, passes in ((4096, 1), (50_000, 2)):
        scores, labels = rng.random(n), rng.integers(0, 2, n)
        assert cd.evaluate(labels, scores, cd.ece_a()).passes == passes
        assert cd.evaluate(labels, scores, cd.ece_a(), sample_weight=rng.random(n)).passes == passes + 1


def test_replicates_do_not_take_the_sums_of_the_data() -> None:
    edges = MassEdges(FrozenArray(np.array([[[[0.0, 0.5, 1.0]]]])), sums=object())  # type: ignore[arg-type]
    tiled = BinEdges(EqualMass(2), Setting("class", 1)).tiled(edges, 3)
    assert type(tiled) is Edges
    assert tiled.values.shape == (1, 1, 1, 3)
    assert type(pickle.loads(pickle.dumps(replace(edges, sums=None)))) is Edges


def test_memory_of_very_many_columns_is_told_beforehand() -> None:
    scores = np.full((2, 400_000), 1 / 400_000, np.float32)
    with pytest.raises(ValueError, match=r"400,000 classes expect .* GB of memory .* at most 4\.3 GB are allowed"):
        cd.evaluate([0, 1], scores, cd.ECE(setting="classwise", binning="equal-mass"))


@pytest.mark.parametrize("shift", [0, 36, 44])
def test_windows_tell_their_memory(shift: int) -> None:
    """Each row has an entry of its own in cells of a single key, in wide ones many share it."""
    scores = np.random.default_rng(11).random((1, 20_000, 1))
    layout = Layout(rows=20_000)
    low, high = (np.full((1, 1, 1, 1), np.float64(end).view(np.int64)) for end in (0.25, 0.75))
    inside = int(((scores >= 0.25) & (scores <= 0.75)).sum())
    bounds = (FrozenArray(bound) for bound in (low, high, np.full_like(low, shift)))
    statistic = WindowCounts(Setting("class", 1), *bounds, rows=inside)
    data = strategies.Data(scores, np.zeros((1, 20_000), np.int32), None, None, layout)
    state = statistic.from_block(data.block())
    assert state.rows.sum() == inside
    held = sum(field.nbytes for field in state)
    lookups = statistic._lookup[2].nbytes
    assert lookups == 4 * 20_481
    assert held <= statistic.bytes(layout) - lookups <= 64 * min(inside, (int((high - low).item()) >> shift) + 1)
    # Folds ask each other for windows, which were chosen in all the rows but their own.
    assert statistic.bytes(replace(layout, rows=100)) == 64 * 100 + lookups
