"""The estimators of the ECE benchmark against loops over rows, written from the definitions alone."""

import dataclasses
import itertools
import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray

import calibdask as cd
from experiments.ece_benchmark.estimators import ESTIMATORS, estimates

Array = NDArray[Any]

SETTINGS = ("confidence", "classwise")
EURANOVA = [f"euranova-{kind}-{bins}" for kind in ("l", "a", "c", "ac") for bins in ("10", "30", "sqrt")]
OURS = [
    f"{binning}-{mapping}-{bins}"
    for binning in ("uniform", "equal-mass")
    for mapping in ("hard", "convex", "inverted")
    for bins in ("10", "15", "30", "sqrt")
]
RMS = [f"rms-{binning}-10{end}" for binning in ("uniform", "equal-mass") for end in ("", "-debiased")]
BINNED = [*EURANOVA, *OURS, *RMS]
SUMMED = [f"{form}-{bandwidth}" for form in ("density", "residual") for bandwidth in ("silverman", "0.033", "0.1")]
SUMMED.append("euranova-d-silverman")
SMOOTHED = [*SUMMED, "density-isj", "residual-isj", "smooth"]


# One column of scores, as exact doubles


@dataclass(frozen=True)
class Column:
    """Scores and outcomes of one column; ``low`` is where the support of its scores begins."""

    scores: list[float]
    outcomes: list[int]
    low: Fraction


def columns(scores: Array, labels: Array, setting: str) -> list[Column]:
    """Of one replicate: the confidences (of ties the lowest class), or the scores of each class."""
    rows, classes = scores.astype(np.float64).tolist(), scores.shape[1]
    if setting == "classwise":
        return [Column([row[c] for row in rows], [int(y == c) for y in labels], Fraction(0)) for c in range(classes)]
    guesses = [row.index(max(row)) for row in rows]
    outcomes = [int(y == guess) for y, guess in zip(labels, guesses, strict=True)]
    return [Column([max(row) for row in rows], outcomes, Fraction(1, classes))]


def mean_over_columns(estimate: Callable[[Column], float], scores: Array, labels: Array, setting: str) -> float:
    values = [estimate(column) for column in columns(scores, labels, setting)]
    return math.fsum(values) / len(values)


# Bins: edges and centres are fractions, rounded once, which no float32 score equals unless they are exact.


def number_of_bins(word: str, rows: int) -> int:
    return max(1, math.isqrt(rows)) if word == "sqrt" else int(word)


def uniform_edges(bins: int, low: Fraction) -> list[Fraction]:
    return [low + (1 - low) * Fraction(i, bins) for i in range(bins + 1)]


def cut_edges(scores: list[float], cuts: Sequence[int], low: Fraction) -> list[Fraction]:
    """Edges after so many of the sorted scores; after none of them, the outer edge."""
    exact = [Fraction(score) for score in sorted(scores)]
    inner = [(exact[cut - 1] + exact[cut]) / 2 if cut else low for cut in cuts]
    return [low, *inner, Fraction(1)]


def equal_mass_edges(scores: list[float], bins: int) -> list[Fraction]:
    """Ours: floor(i n / bins) rows below edge i, edges that coincide dropped."""
    cuts = [i * len(scores) // bins for i in range(1, bins)]
    return sorted(set(cut_edges(scores, cuts, Fraction(0))))


def euranova_equal_mass_edges(scores: list[float], bins: int, low: Fraction) -> list[Fraction]:
    """The authors': floor(n / bins) rows a bin, the remainder in the last one, edges that coincide kept.

    With fewer rows than bins all rows are the remainder, and there is one bin. (The authors' code then takes the middle
    of the lowest and the highest score for every edge, by an index of -1; nothing of theirs has so few rows.)
    """
    size = len(scores) // bins
    return cut_edges(scores, [i * size for i in range(1, bins) if size], low)


Share = tuple[int, float]  # of a row: the bin and the weight there


def hard(edges: list[Fraction], closed: str) -> Callable[[float], list[Share]]:
    inner = [float(edge) for edge in edges[1:-1]]
    side = bisect_left if closed == "right" else bisect_right
    return lambda score: [(side(inner, score), 1.0)]


def shared(edges: list[Fraction], inverted: bool) -> Callable[[float], list[Share]]:
    """Between the centres c_j < s <= c_j+1 around a score; the inverted mapping gives more to the farther one."""
    centres = [float((low + high) / 2) for low, high in itertools.pairwise(edges)]

    def shares(score: float) -> list[Share]:
        if score <= centres[0]:
            return [(0, 1.0)]
        if score > centres[-1]:
            return [(len(centres) - 1, 1.0)]
        right = bisect_left(centres, score)
        before, after = centres[right - 1], centres[right]
        near_left = (after - score) / (after - before)
        near_right = (score - before) / (after - before)
        weights = (near_right, near_left) if inverted else (near_left, near_right)
        return [(right - 1, weights[0]), (right, weights[1])]

    return shares


def euranova_shares(kind: str, bins: int, column: Column) -> Callable[[float], list[Share]]:
    if kind == "l":
        return lambda score: [(min(bins - 1, math.floor(score * bins)), 1.0)]
    if kind == "c":
        return shared(uniform_edges(bins, column.low), inverted=True)
    edges = euranova_equal_mass_edges(column.scores, bins, column.low)
    return hard(edges, "left") if kind == "a" else shared(edges, inverted=True)


def our_shares(binning: str, mapping: str, bins: int, column: Column) -> Callable[[float], list[Share]]:
    uniform = binning == "uniform"
    edges = uniform_edges(bins, Fraction(0)) if uniform else equal_mass_edges(column.scores, bins)
    return hard(edges, "right") if mapping == "hard" else shared(edges, inverted=mapping == "inverted")


def l1_error(column: Column, shares: Callable[[float], list[Share]]) -> float:
    terms: dict[int, list[float]] = {}
    for score, outcome in zip(column.scores, column.outcomes, strict=True):
        for place, weight in shares(score):
            terms.setdefault(place, []).append(weight * (outcome - score))
    return math.fsum(abs(math.fsum(summands)) for summands in terms.values()) / len(column.scores)


def rms_error(column: Column, shares: Callable[[float], list[Share]], debiased: bool) -> float:
    """Root of the mean of squared gaps; debiased: less the variance of the mean, bins of one row left out."""
    rows: dict[int, list[tuple[int, float]]] = {}
    for score, outcome in zip(column.scores, column.outcomes, strict=True):
        rows.setdefault(shares(score)[0][0], []).append((outcome, score))
    total = 0.0
    for pairs in rows.values():
        count = len(pairs)
        square = (math.fsum(outcome - score for outcome, score in pairs) / count) ** 2
        if debiased:
            rate = sum(outcome for outcome, _ in pairs) / count
            square = square - rate * (1 - rate) / (count - 1) if count > 1 else 0.0
        total += count * square
    return math.sqrt(max(total / len(column.scores), 0.0))


def binned_error(name: str, column: Column) -> float:
    stem = name.removesuffix("-debiased")
    family, _, word = stem.rpartition("-")
    bins = number_of_bins(word, len(column.scores))
    if family.startswith("euranova-"):
        return l1_error(column, euranova_shares(family.removeprefix("euranova-"), bins, column))
    if family.startswith("rms-"):
        shares = our_shares(family.removeprefix("rms-"), "hard", bins, column)
        return rms_error(column, shares, debiased=stem != name)
    binning, _, mapping = family.rpartition("-")
    return l1_error(column, our_shares(binning, mapping, bins, column))


# Densities: direct sums of mirrored kernels

Kernel = Callable[[Array, float], Array]

FINE = 2000  # cells of the grid of the direct sums; more for small bandwidths
STEP = 0.0003  # the smallest bandwidth that Silverman's rule gives, about one cell of the package's grid


def silverman(column: Column) -> float:
    scores, n = np.array(column.scores), len(column.scores)
    lowest, low, high, highest = np.quantile(scores, [0.01, 0.25, 0.75, 0.99])
    spread = min(scores.std(ddof=1), (high - low) / 1.34898) or (highest - lowest) / 4.65265
    return max(float(spread) * (0.75 * n) ** -0.2, STEP)


def triweight(distance: Array, bandwidth: float) -> Array:
    """With standard deviation ``bandwidth``: it ends at three of them."""
    end = 3 * bandwidth
    return 35 / 32 / end * np.clip(1 - (distance / end) ** 2, 0, None) ** 3


def gaussian(distance: Array, bandwidth: float) -> Array:
    return np.exp(-0.5 * (distance / bandwidth) ** 2) / bandwidth / math.sqrt(2 * math.pi)


REACH: dict[Kernel, int] = {triweight: 3, gaussian: 7}  # where a kernel is 0, in bandwidths


def mirrored(points: Array, score: float, bandwidth: float, low: float, kernel: Kernel) -> Array:
    """The kernel of one row on [low, 1], mirrored as often as it reaches beyond the ends."""
    width = 1 - low
    turns = math.ceil(REACH[kernel] * bandwidth / width) // 2 + 1
    images = [low + 2 * width * k + sign * (score - low) for k in range(-turns, turns + 1) for sign in (1, -1)]
    return np.sum([kernel(points - image, bandwidth) for image in images], axis=0)


def density_error(column: Column, bandwidth: float, form: str, kernel: Kernel = triweight) -> float:
    """The integral of | P(o = 1) f1 - s f |, or of the smoothed residual, over the support."""
    low = float(column.low)
    points = np.linspace(low, 1, 1 + max(FINE, math.ceil(20 * (1 - low) / bandwidth)))
    total = np.zeros_like(points)
    for score in set(column.scores):
        outcomes = [o for s, o in zip(column.scores, column.outcomes, strict=True) if s == score]
        at = min(max(score, low), 1.0)
        taken = points if form == "density" else at
        total += mirrored(points, at, bandwidth, low, kernel) * (sum(outcomes) - len(outcomes) * taken)
    return float(np.trapezoid(np.abs(total), points)) / len(column.scores)


def direct_error(name: str, scores: Array, labels: Array, setting: str) -> float:
    form, word = ("density", "silverman") if name.startswith("euranova-d") else name.split("-")
    parts = columns(scores, labels, setting)
    widths = [silverman(column) if word == "silverman" else float(word) for column in parts]
    if name.startswith("euranova-d"):  # the bandwidth of the first class for all
        widths = widths[:1] * len(parts)
    errors = [density_error(column, width, form) for column, width in zip(parts, widths, strict=True)]
    return math.fsum(errors) / len(errors)


def smooth_error(column: Column) -> float:
    """The bandwidth that equals the error at it, between halves; mirrored at 0 and 1 in either setting."""
    unit = dataclasses.replace(column, low=Fraction(0))
    low, high = 0.0, 1.0
    while high - low > 2e-5:
        middle = (low + high) / 2
        if density_error(unit, middle, "residual", gaussian) >= middle:
            low = middle
        else:
            high = middle
    return low


# Inputs: float32 scores


def marks(classes: int) -> list[float]:
    """Edges and centres of bins, on [0, 1] and on [1 / K, 1]."""
    result = {Fraction(i, 8) for i in range(9)}
    for low in (Fraction(0), Fraction(1, classes)):
        for bins in (2, 5, 7, 10, 15, 30):
            result |= {low + (1 - low) * Fraction(i, 2 * bins) for i in range(2 * bins + 1)}
    return sorted(float(value) for value in result)


def marked_rows(rng: np.random.Generator, shape: tuple[int, ...], classes: int) -> Array:
    """One score a mark, the others share the rest."""
    first = rng.choice(marks(classes), shape)[..., None]
    rest = rng.dirichlet(np.full(classes - 1, 0.3), shape) * (1 - first)
    return rng.permuted(np.concatenate([first, rest], axis=-1), axis=-1)


def vertices(rng: np.random.Generator, shape: tuple[int, ...], classes: int) -> Array:
    """Scores of exactly 0, 1 and 1 / K."""
    middle = rng.random((*shape, 1)) < 0.3
    return np.where(middle, 1 / classes, np.eye(classes)[rng.integers(0, classes, shape)])


Maker = Callable[[np.random.Generator, tuple[int, ...], int], Array]
KINDS: dict[str, Maker] = {
    "smooth": lambda rng, shape, k: rng.dirichlet(np.full(k, 0.7), shape),
    "hundredths": lambda rng, shape, k: rng.multinomial(100, rng.dirichlet(np.ones(k), shape)) / 100,
    "tenths": lambda rng, shape, k: rng.multinomial(10, rng.dirichlet(np.ones(k), shape)) / 10,
    "equal": lambda rng, shape, k: np.full((*shape, k), 1 / k),
    "vertices": vertices,
    "marks": marked_rows,
}


def drawn(kind: str, shape: tuple[int, int], classes: int, seed: int = 0) -> tuple[Array, Array]:
    """Scores (replicates, n, K) and labels, half of them of the highest score; odd seeds: the last class is absent."""
    rng = np.random.default_rng((seed, *shape, classes))
    scores = KINDS[kind](rng, shape, classes).astype(np.float32)
    present = classes - 1 if seed % 2 else classes
    labels = np.where(rng.random(shape) < 0.5, scores.argmax(-1), rng.integers(0, classes, shape))
    return scores, np.minimum(labels, present - 1)


def found_by_name(scores: Array, labels: Array, setting: str) -> dict[str, Array]:
    result = estimates(scores, labels, setting)
    assert result.shape == (len(ESTIMATORS), len(scores))
    assert result.dtype == np.float64
    return dict(zip(ESTIMATORS, result, strict=True))


def check_binned(scores: Array, labels: Array, setting: str) -> None:
    actual = found_by_name(scores, labels, setting)
    for name in BINNED:
        expected = [
            mean_over_columns(partial(binned_error, name), *rows, setting) for rows in zip(scores, labels, strict=True)
        ]
        assert_allclose(actual[name], expected, rtol=0, atol=1e-12, err_msg=f"{name} {scores.shape} {setting}")


# Tests

both_settings = pytest.mark.parametrize("setting", SETTINGS)
all_classes = pytest.mark.parametrize("classes", [2, 3, 5, 7])
all_kinds = pytest.mark.parametrize("kind", KINDS)


def test_names() -> None:
    assert {*BINNED, *SMOOTHED} == set(ESTIMATORS)


@both_settings
@all_classes
@all_kinds
@pytest.mark.parametrize("n", [7, 30, 51, 67, 150, 500])
def test_binned_estimators_equal_loops_over_rows(n: int, kind: str, classes: int, setting: str) -> None:
    check_binned(*drawn(kind, (2 if n < 100 else 1, n), classes, seed=n), setting)


@st.composite
def few_rows(draw: st.DrawFn) -> tuple[Array, Array]:
    """Rows of which many are equal."""
    classes, n = draw(st.sampled_from([2, 3, 5])), draw(st.integers(1, 40))
    score = st.sampled_from(marks(classes)) | st.floats(0, 1, width=32)
    pool = draw(st.lists(score, min_size=1, max_size=n))
    first = np.array(draw(st.lists(st.sampled_from(pool), min_size=n, max_size=n)))
    place = draw(st.lists(st.integers(0, classes - 1), min_size=n, max_size=n))
    scores = np.repeat(((1 - first) / (classes - 1))[:, None], classes, axis=1)
    scores[range(n), place] = first
    labels = draw(st.lists(st.integers(0, classes - 1), min_size=n, max_size=n))
    return scores.astype(np.float32)[None], np.array(labels)[None]


@settings(max_examples=60, deadline=None)
@given(few_rows(), st.sampled_from(SETTINGS))
def test_binned_estimators_equal_loops_for_few_rows(rows: tuple[Array, Array], setting: str) -> None:
    check_binned(*rows, setting)


@both_settings
@pytest.mark.parametrize("classes", [2, 5])
@all_kinds
@pytest.mark.parametrize("n", [7, 150])
@pytest.mark.filterwarnings("ignore:.*(bandwidth|not informative):UserWarning")
def test_a_batch_equals_the_library_on_each_replicate(n: int, kind: str, classes: int, setting: str) -> None:
    scores, labels = drawn(kind, (2, n), classes)
    result = found_by_name(scores, labels, setting)
    metrics = {name: dataclasses.replace(metric, setting=setting) for name, metric in ESTIMATORS.items()}
    for replicate, (p, y) in enumerate(zip(scores, labels, strict=True)):
        alone = cd.evaluate(y, p, metrics)
        for name in ESTIMATORS:
            tolerance = 2e-4 + 2e-3 * float(alone[name]) if name in SMOOTHED else 1e-12
            assert result[name][replicate] == pytest.approx(float(alone[name]), rel=0, abs=tolerance), name


@both_settings
@pytest.mark.parametrize("classes", [2, 5])
@all_kinds
@pytest.mark.parametrize("n", [7, 30, 80])
def test_densities_equal_direct_sums(n: int, kind: str, classes: int, setting: str) -> None:
    scores, labels = drawn(kind, (1, n), classes, seed=n)
    actual = found_by_name(scores, labels, setting)
    for name in SUMMED:
        expected = direct_error(name, scores[0], labels[0], setting)
        assert_allclose(actual[name], expected, rtol=0, atol=3e-4, err_msg=name)


@both_settings
@all_kinds
@pytest.mark.parametrize("n", [7, 30])
def test_smooth_equals_direct_sums(n: int, kind: str, setting: str) -> None:
    scores, labels = drawn(kind, (1, n), 2, seed=n)
    expected = mean_over_columns(smooth_error, scores[0], labels[0], setting)
    assert_allclose(found_by_name(scores, labels, setting)["smooth"], expected, rtol=0, atol=2e-4)


@both_settings
@all_kinds
@pytest.mark.parametrize("n", [7, 67, 500])
def test_replicates_do_not_see_each_other(n: int, kind: str, setting: str) -> None:
    scores, labels = drawn(kind, (5, n), 3)
    together = found_by_name(scores, labels, setting)
    for i in range(5):
        alone = found_by_name(scores[i : i + 1], labels[i : i + 1], setting)
        for name in ESTIMATORS:
            assert_array_equal(together[name][i], alone[name][0], err_msg=name)
