"""Calibration error of whole score vectors: sparse uniform cells, and sets split at the median of the widest class."""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import dask.array as da
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import calibdask as cd
from calibdask.engine.rows import Rows, make_block
from calibdask.statistics.layout import Layout
from calibdask.statistics.order import medians
from calibdask.statistics.simplex.cells import CellSums, UniformCells
from calibdask.statistics.simplex.tree import planted
from tests import strategies
from tests.oracles import reference

DISTANCES = ("tv", "euclidean", "squared-euclidean")
PARTITIONS = ("uniform", "median-variance")
KINDS = ("smooth", "ties", "saturated", "equal")


def dyadic(rng: np.random.Generator, shape: tuple[int, ...], kind: str) -> NDArray[np.float64]:
    """Rows of scores that sum to 1 without rounding, so that equal variances are equal in any arithmetic."""
    if kind == "ties":
        return rng.multinomial(16, np.full(shape[-1], 1 / shape[-1]), size=shape[:-1]) / 16
    if kind == "equal":
        return np.broadcast_to(np.eye(shape[-1])[0], shape).copy()
    scores = rng.dirichlet(np.full(shape[-1], 0.05 if kind == "saturated" else 1.0), size=shape[:-1])
    scores = np.round(scores * 2**44) / 2**44
    largest = scores.argmax(-1)[..., None]
    np.put_along_axis(scores, largest, 0.0, -1)
    np.put_along_axis(scores, largest, 1 - scores.sum(-1, keepdims=True), -1)
    return scores


def value(labels: Any, scores: Any, sample_weight: Any = None, **choices: Any) -> float:
    return float(cd.evaluate(labels, scores, cd.MulticlassECE(**choices), sample_weight=sample_weight).multiclass_ece)


def both(min_size: int = 5, bins: int = 5, distance: Any = "tv") -> dict[str, cd.MulticlassECE]:
    """An estimator for each partition."""
    return {p: cd.MulticlassECE(partition=p, bins=bins, min_size=min_size, distance=distance) for p in PARTITIONS}  # type: ignore[arg-type]


@st.composite
def drawn_rows(draw: st.DrawFn) -> tuple[np.random.Generator, NDArray[np.int64], NDArray[np.float64]]:
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, classes = draw(st.integers(1, 80)), draw(st.integers(2, 5))
    return rng, rng.integers(0, classes, n), dyadic(rng, (n, classes), draw(st.sampled_from(KINDS)))


@settings(max_examples=150, deadline=None)
@given(drawn_rows(), st.integers(1, 12), st.sampled_from(DISTANCES))
def test_uniform_cells_equal_the_loops(rows: Any, bins: int, distance: Any) -> None:
    _, labels, scores = rows
    expected = reference.multiclass_ece_uniform(labels, scores, bins, distance)
    assert value(labels, scores, bins=bins, distance=distance) == pytest.approx(expected, rel=1e-12, abs=1e-15)
    single = scores.astype(np.float32)
    expected = reference.multiclass_ece_uniform(labels, single, bins, distance)
    assert value(labels, single, bins=bins, distance=distance) == pytest.approx(expected, rel=1e-12, abs=1e-15)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_uniform_cells_are_decided_by_the_edges(dtype: Any) -> None:
    for bins in (1, 3, 10, 100, 255, 256, 257, 1000):
        edges = np.arange(bins + 1) / bins
        p = np.concatenate([edges, np.nextafter(edges, 2), np.nextafter(edges, -1)]).clip(0, 1).astype(dtype)
        scores, labels = np.stack([p, 1 - p], axis=1), np.arange(p.size) % 2
        expected = reference.multiclass_ece_uniform(labels, scores, bins)
        assert value(labels, scores, bins=bins) == pytest.approx(expected, rel=1e-12), bins


@settings(max_examples=150, deadline=None)
@given(drawn_rows(), st.integers(1, 8), st.sampled_from(DISTANCES))
def test_median_variance_cells_equal_the_loops(rows: Any, min_size: int, distance: Any) -> None:
    _, labels, scores = rows
    choices = {"partition": "median-variance", "min_size": min_size, "distance": distance}
    actual = cd.evaluate(labels, scores, cd.MulticlassECE(**choices)).multiclass_ece
    assert actual.attrs["cells"] == len(reference.median_variance_cells(scores, min_size))
    expected = reference.multiclass_ece_median_variance(labels, scores, min_size, distance)
    assert float(actual) == pytest.approx(expected, rel=1e-12, abs=1e-15)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_median_variance_cells_of_scores_with_all_their_digits(dtype: Any) -> None:
    rng = np.random.default_rng(3)
    for n, classes, concentration in ((500, 3, 1.0), (500, 7, 0.3), (200, 40, 1.0)):
        scores = rng.dirichlet(np.full(classes, concentration), n).astype(dtype)
        labels = rng.integers(0, classes, n)
        expected = reference.multiclass_ece_median_variance(labels, scores, 6)
        assert value(labels, scores, partition="median-variance", min_size=6) == pytest.approx(expected, rel=1e-12)


def weighted_loops(labels: Any, scores: Any, weights: Any, min_size: int) -> tuple[float, int]:
    """Total variation over weighted median-variance cells, in rational arithmetic; and the number of cells."""
    p = [[Fraction(float(x)) for x in row] for row in scores]
    w = [Fraction(float(x)) for x in weights]
    classes = range(scores.shape[1])

    def spread(rows: Sequence[int], c: int) -> Fraction:
        mass = sum(w[i] for i in rows)
        centre = sum(w[i] * p[i][c] for i in rows) / mass
        return Fraction(sum(w[i] * (p[i][c] - centre) ** 2 for i in rows)) / mass

    def median(rows: Sequence[int], c: int) -> Fraction:
        """The smallest score that leads the cumulative weight above one half."""
        half = sum(w[i] for i in rows) / 2
        return next(s for s in sorted({p[i][c] for i in rows}) if sum(w[i] for i in rows if p[i][c] <= s) > half)

    def sides_of(rows: Sequence[int], c: int) -> tuple[list[int], list[int]]:
        middle = median(rows, c)
        return [i for i in rows if p[i][c] < middle], [i for i in rows if p[i][c] >= middle]

    waiting, total, cells = [[i for i in range(len(p)) if w[i] > 0]], Fraction(0), 0
    while waiting:
        rows = waiting.pop()
        spreads = [spread(rows, c) for c in classes]
        widest = spreads.index(max(spreads))
        sides = sides_of(rows, widest)
        # Sums of squares are rounded to 2**-44 a row: which class varies most may not be known, and cells depend on it.
        close = [c for c in classes if spreads[widest] - spreads[c] <= Fraction(1, 2**40)]
        assume(all(sides_of(rows, c) == sides for c in close))
        if min(map(len, sides)) >= min_size:
            waiting += sides
            continue
        cells += 1
        total += sum(abs(sum(w[i] * ((labels[i] == c) - p[i][c]) for i in rows)) for c in classes) / 2
    return float(total / sum(w)), cells


@settings(max_examples=100, deadline=None)
@given(drawn_rows(), st.integers(1, 6), st.sampled_from([1.0, 0.125, 2.0**40]))
def test_weighted_cells_equal_the_loops(rows: Any, min_size: int, scale: float) -> None:
    rng, labels, scores = rows
    weights = rng.integers(0, 5, labels.size) * scale
    weights[0] = scale
    expected, cells = weighted_loops(labels, scores, weights, min_size)
    estimator = cd.MulticlassECE(partition="median-variance", min_size=min_size)
    actual = cd.evaluate(labels, scores, estimator, sample_weight=weights).multiclass_ece
    assert actual.attrs["cells"] == cells
    assert float(actual) == pytest.approx(expected, rel=1e-11, abs=1e-14)
    repeats = (weights / scale).astype(int)
    repeated = value(np.repeat(labels, repeats), np.repeat(scores, repeats, axis=0))
    assert value(labels, scores, weights) == pytest.approx(repeated, rel=1e-12, abs=1e-15)


@pytest.mark.parametrize("partition", PARTITIONS)
def test_weights_of_one_change_nothing(partition: Any) -> None:
    rng = np.random.default_rng(5)
    for kind in KINDS:
        scores, labels = strategies.simplex(rng, (2000, 4), kind.replace("ties", "grid")), rng.integers(0, 4, 2000)
        for weight in (1.0, 0.1):
            with_weights = value(labels, scores, np.full(2000, weight), partition=partition)
            assert with_weights == pytest.approx(value(labels, scores, partition=partition), rel=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_vector_of_scores_is_the_matrix_of_its_two_columns(dtype: Any) -> None:
    rng = np.random.default_rng(0)
    for n in (1, 10, 41, 1001):
        for p in (rng.beta(0.5, 2, n), rng.integers(0, 11, n) / 10, 0.1 + 1e-15 * rng.random(n), rng.random(n) ** 40):
            p, labels = p.astype(dtype), rng.integers(0, 2, n)
            columns = np.stack([1 - p.astype(np.float64), p.astype(np.float64)], axis=1)
            vector, matrix = (cd.evaluate(labels, scores, both(3)).reset_coords(drop=True) for scores in (p, columns))
            assert vector.identical(matrix)


def test_a_slice_without_rows_is_nan() -> None:
    weights = np.array([1.0, 2.0, 0.0])
    scores = np.array([[0.5, 0.5], [0.25, 0.75], [1.0, 0.0]])
    result = cd.evaluate([0, 1, 1], scores, both(), by=np.array([0, 0, 1]), sample_weight=weights)
    for name in PARTITIONS:
        assert np.isfinite(result[name].values).tolist() == [True, False]
        assert result[name].attrs["cells"] == [2 if name == "uniform" else 1, 0]


def test_equal_scores_are_one_cell() -> None:
    labels = np.arange(90) % 3
    result = cd.evaluate(labels, np.full((90, 3), 1 / 3), both(1))
    assert [result[name].attrs["cells"] for name in PARTITIONS] == [1, 1]
    assert [float(result[name]) for name in PARTITIONS] == pytest.approx([0, 0], abs=1e-15)


def test_a_thousand_classes_make_as_many_cells_as_are_occupied() -> None:
    rng = np.random.default_rng(4)
    n, classes = 400, 1000
    scores = rng.dirichlet(np.full(classes, 0.01), n).astype(np.float32)
    labels = rng.integers(0, classes, n)
    result = cd.evaluate(labels, da.from_array(scores, (150, 300)), cd.MulticlassECE()).multiclass_ece
    digits = np.maximum(np.ceil(scores.astype(np.float64) * 10), 1)
    assert result.attrs["cells"] == len(np.unique(digits, axis=0)) > n / 2
    assert float(result) == pytest.approx(reference.multiclass_ece_uniform(labels, scores, 10), rel=1e-12)
    layout = Layout(classes=classes, vector=False, dtype="float32")
    sums = CellSums(UniformCells(10)).from_block(make_block(Rows(scores[None], labels[None]), layout, 0))
    assert sum(field.nbytes for field in sums) < 25 * classes * result.attrs["cells"]


def test_more_rows_than_medians_keep_entries_for(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(6)
    n = 30_000
    labels = rng.integers(0, 4, n)
    estimator = cd.MulticlassECE(partition="median-variance", min_size=20)
    refinements = []
    for scores in (
        rng.dirichlet(np.ones(4), n),
        rng.dirichlet(np.full(4, 0.01), n),
        strategies.simplex(rng, (n, 4), "grid"),
        rng.dirichlet(np.ones(4), n).astype(np.float32),
        0.25 + (rng.dirichlet(np.ones(4), n) - 0.25) * 1e-9,
    ):
        with monkeypatch.context() as patch:
            exact = cd.evaluate(labels, scores, estimator)
            patch.setattr(medians, "_MOST_ENTRIES", 256)
            refined = cd.evaluate(labels, scores, estimator)
        levels = (exact.passes + 1) // 2
        assert exact.passes <= refined.passes <= 5 * levels
        assert refined.drop_attrs().identical(exact.drop_attrs())
        assert refined.multiclass_ece.identical(exact.multiclass_ece)
        refinements.append(refined.passes - exact.passes)
    assert sum(extra > 0 for extra in refinements) >= 4


def test_pieces_of_rows_in_memory_and_passes() -> None:
    rng = np.random.default_rng(9)
    n, classes = 20_000, 100
    scores, labels = rng.dirichlet(np.full(classes, 0.2), n).astype(np.float32), rng.integers(0, classes, n)
    result = cd.evaluate(labels, scores, both(min_size=1000))
    lazy = cd.evaluate(labels, da.from_array(scores, (7000, 60)), both(min_size=1000))
    assert lazy.identical(result)
    assert result.passes <= 2 * (np.log2(n / 1000) + 1)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_deviations_are_those_of_the_rounded_scores(drawn: st.DataObject) -> None:
    rng = np.random.default_rng(drawn.draw(st.integers(0, 2**32 - 1)))
    n = drawn.draw(st.integers(1, 50))
    width = 2.0 ** -drawn.draw(st.integers(0, 52))
    scores = np.minimum(drawn.draw(st.floats(0, 1)) + width * rng.random((n, 3)), 1.0)
    layout = Layout(classes=3, vector=False)
    state = CellSums(planted(layout), squares=True).from_block(
        make_block(Rows(scores[None], np.zeros((1, n))), layout, 0)
    )
    for c in range(3):
        whole = [round(Fraction(x) * 2**52) for x in scores[:, c].tolist()]
        variance = Fraction(sum(q * q for q in whole), n) - Fraction(sum(whole), n) ** 2
        assert state.deviations()[0, c] == pytest.approx(float(variance) ** 0.5 * 2.0**-52, rel=1e-14)


def test_sets_of_a_tree_know_their_stratum() -> None:
    tree = planted(Layout(batch=2, groups=3)).split(np.array([1, 4]), np.array([0, 1]), np.array([0.5, 0.25]))
    assert tree.sets == 4
    assert tree.stratum.values.tolist() == [1, 1, 4, 4]
    whole: Any = np.int32(10)
    assert cd.MulticlassECE(bins=whole) == cd.MulticlassECE() != cd.MulticlassECE(bins=11)


def test_equal_requests_are_answered_once() -> None:
    rng = np.random.default_rng(1)
    scores, labels = strategies.simplex(rng, (500, 3), "smooth"), rng.integers(0, 3, 500)
    three = {d: cd.MulticlassECE(partition="median-variance", distance=d) for d in DISTANCES}  # type: ignore[arg-type]
    one = cd.evaluate(labels, scores, three["tv"])
    assert cd.evaluate(labels, scores, three).passes == one.passes


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ({"partition": "voronoi"}, "partition expects one of 'uniform', 'median-variance', got 'voronoi'"),
        ({"distance": "cosine"}, "distance expects one of 'tv', 'euclidean', 'squared-euclidean', got 'cosine'"),
        ({"bins": 0}, "bins expects a positive whole number, got 0"),
        ({"bins": True}, "bins expects a positive whole number, got True"),
        ({"min_size": 2.5}, "min_size expects a positive whole number, got 2.5"),
    ],
)
def test_choices_that_do_not_exist(choices: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        cd.MulticlassECE(**choices)
