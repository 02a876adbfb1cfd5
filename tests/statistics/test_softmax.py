"""Sums of the logarithmic score under temperature and softmax regression, against the formulas on the rows."""

import itertools
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from calibdask.engine.rows import Rows, make_block
from calibdask.statistics import exact
from calibdask.statistics.block import Block
from calibdask.statistics.frozen import FrozenArray
from calibdask.statistics.layout import Layout
from calibdask.statistics.softmax import NO_TEMPERING, SoftmaxSums, depth_scale, values_of_terms
from calibdask.statistics.temperature import NODES, SHORTFALL_UNIT, TemperatureSums, units

Array = NDArray[Any]


def rows(classes: int, n: int, dtype: str = "float64", weighted: bool = False) -> tuple[Block, Array, Array, Array]:
    """A block, its log scores, labels and weights; some scores are 0, some labels have the smallest score."""
    rng = np.random.default_rng(classes)
    z = 3 * rng.normal(size=(n, classes))
    scores = np.exp(z - z.max(1, keepdims=True))
    scores = (scores / scores.sum(1, keepdims=True)).astype(dtype)
    scores[::7, 0] = 0.0
    labels, weights = rng.integers(0, classes, n), rng.choice([0.0, 0.5, 3.0], n)
    layout = Layout(classes=classes, vector=False, dtype=dtype, weighted=weighted)
    block = make_block(Rows(scores[None], labels[None], weights[None] if weighted else None), layout, 0)
    logs = np.log(np.maximum(scores.astype(float), np.finfo(dtype).smallest_normal))
    return block, logs, labels, weights if weighted else np.ones(n)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("classes", [2, 3, 64, 65, 150])
@pytest.mark.parametrize("weighted", [False, True])
def test_moments_at_all_nodes(classes: int, dtype: str, weighted: bool) -> None:
    block, z, labels, w = rows(classes, 101, dtype, weighted)
    state = TemperatureSums().from_block(block)
    depth = z.max(1, keepdims=True) - z
    means, variances = np.empty((2, NODES.size))
    for k, beta in enumerate(NODES):
        p = np.exp(-beta * depth)
        p /= p.sum(1, keepdims=True)
        m = (p * depth).sum(1)
        means[k], variances[k] = w @ m, w @ ((p * depth**2).sum(1) - m**2)
    unit = units(classes)
    # A row is rounded to 2**-53 of the unit; with weights sums are floating.
    np.testing.assert_allclose(exact.value(state.means)[0, 0] * unit[0], means, rtol=1e-13, atol=1e-12)
    np.testing.assert_allclose(exact.value(state.variances)[0, 0] * unit[1], variances, rtol=1e-12, atol=1e-11)
    shortfall = w @ depth[np.arange(labels.size), labels]
    assert exact.value(state.shortfall)[0, 0] * SHORTFALL_UNIT == pytest.approx(shortfall, rel=1e-13)
    assert exact.value(state.weight)[0, 0] == w.sum()
    assert exact.value(state.square)[0, 0] == (w**2).sum()
    lowest = np.finfo(dtype).smallest_normal
    assert state.clipped[0, 0] == ((block.scores[0] < lowest).any(1) & (w > 0)).sum()


def test_nodes_cover_the_range_and_terms_stay_within_their_units() -> None:
    """log(beta) of at least -2 to 2; means are largest where all scores are equal but one that has the rest."""
    assert np.log(NODES[0]) <= -2
    assert np.log(NODES[-1]) >= 2
    assert (np.diff(NODES) > 0).all()
    for classes in (2, 3, 10, 1000):
        information, varentropy = units(classes) * np.stack([NODES, NODES**2])
        depth = np.zeros((4000, classes))
        depth[:, 1:] = np.linspace(-60.0, 60.0, 4000)[:, None]
        depth -= depth.min(1, keepdims=True)
        for beta in (1.0, 0.125):
            p = np.exp(-beta * depth)
            p /= p.sum(1, keepdims=True)
            m = beta * (p * depth).sum(1)
            v = (p * (beta * depth) ** 2).sum(1) - m**2
            assert m.max() <= information[0]
            assert v.max() <= varentropy[0]
            assert v.max() > varentropy[0] / 4


def explicit(block: Block, z: Array, labels: Array, w: Array, statistic: SoftmaxSums) -> tuple[float, Array]:
    """The loss and all entries, from the formulas."""
    tempering, coefficients = statistic.tempering.values, statistic.coefficients.values[0]
    if tempering.size:
        p = np.exp(tempering[0, 0] * (z - z.max(1, keepdims=True)))
        z = np.log((1 - tempering[0, 1]) * p / p.sum(1, keepdims=True) + tempering[0, 1] / z.shape[1])
    a = (z @ coefficients.T if coefficients.ndim == 2 else coefficients * z) + statistic.intercepts.values[0]
    q = np.exp(a - a.max(1, keepdims=True))
    q /= q.sum(1, keepdims=True)
    n, classes = z.shape
    loss = -(w @ np.log(q[np.arange(n), labels]))
    d, r = -z / depth_scale(block.layout), q - np.eye(classes)[labels]
    if coefficients.ndim == 2:
        parts = [w @ r, np.einsum("n,nc,nd->cd", w, r, d).ravel()]
        above = np.triu_indices(classes)
        for x in (q, d):
            parts += [w @ x, np.einsum("n,nc,nd->cd", w, x, x)[above]]
        return loss, np.concatenate(parts)
    parts = [w @ r, w @ (r * d), *(w @ (q * (1 - q) * d**power) for power in range(3))]
    if statistic.pairs:
        dq = d * q
        for i, j in itertools.combinations(range(classes), 2):
            pairs = ((q, q), (dq, q), (q, dq), (dq, dq))
            parts.append(np.array([w @ (left[:, i] * right[:, j]) for left, right in pairs]))
    return loss, np.concatenate(parts)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("tempered", [False, True])
@pytest.mark.parametrize("form", ["pairs", "classes", "matrix"])
def test_derivatives_against_the_formulas(form: str, tempered: bool, weighted: bool) -> None:
    classes = 5
    block, z, labels, w = rows(classes, 1003, weighted=weighted)
    rng = np.random.default_rng(0)
    shape = (1, classes, classes) if form == "matrix" else (1, classes)
    tempering = FrozenArray(np.array([[0.7, 0.01]])) if tempered else NO_TEMPERING
    coefficients = FrozenArray(rng.normal(0.5, 0.3, shape))
    statistic = SoftmaxSums(coefficients, FrozenArray(rng.normal(size=(1, classes))), form == "pairs", tempering)
    state = statistic.from_block(block)
    loss, entries = explicit(block, z, labels, w, statistic)
    assert exact.value(state.loss)[0, 0] == pytest.approx(loss, rel=1e-13)
    np.testing.assert_allclose(values_of_terms(state.terms)[0, 0], entries, rtol=1e-12, atol=1e-10)
    assert state.terms[0, 0].shape[0] == entries.size


@pytest.mark.parametrize("form", ["diagonal", "matrix"])
def test_first_derivatives_against_differences_of_the_loss(form: str) -> None:
    classes = 4
    block = rows(classes, 500)[0]
    rng = np.random.default_rng(1)
    w = rng.normal(0.6, 0.2, (classes, classes) if form == "matrix" else classes)
    b = rng.normal(size=classes)

    def state(shift: Array) -> Any:
        coefficients = (w.ravel() + shift[: w.size]).reshape(1, *w.shape)
        return SoftmaxSums(FrozenArray(coefficients), FrozenArray((b + shift[w.size :])[None])).from_block(block)

    terms = values_of_terms(state(np.zeros(w.size + classes)).terms)[0, 0]
    gradient = np.append(-depth_scale(block.layout) * terms[classes : classes + w.size], terms[:classes])
    for k, step in enumerate(1e-6 * np.eye(w.size + classes)):
        ends = exact.value(state(step).loss)[0, 0], exact.value(state(-step).loss)[0, 0]
        assert (ends[0] - ends[1]) / 2e-6 == pytest.approx(gradient[k], rel=1e-5, abs=1e-4)


def test_labels_of_no_class_and_no_rows_are_harmless() -> None:
    """Invalid rows are reported by the check of the same pass; the kernels only have to survive them."""
    scores = np.array([[[np.nan, 1.0, 0.0], [0.2, 0.3, 0.5]]])
    layout = Layout(classes=3, vector=False)
    statistics = [TemperatureSums(), SoftmaxSums(FrozenArray(np.ones((1, 3))), FrozenArray(np.zeros((1, 3))), True)]
    for statistic in statistics:
        for labels in ([[5, -1]], [[0, 2]]):
            block = make_block(Rows(scores, np.array(labels)), layout, 0)
            assert statistic.from_block(block).rows[0, 0] == 2  # type: ignore[attr-defined]
        assert statistic.from_block(block.part(0, 0)).rows[0, 0] == 0  # type: ignore[attr-defined]
