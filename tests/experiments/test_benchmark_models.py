"""Scores of the benchmark's models against scikit-learn's own."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from experiments.ece_benchmark.forest import ForestScorer
from experiments.ece_benchmark.models import MODELS, fitted, scores
from experiments.ece_benchmark.support_vectors import SupportVectorScorer, _couple

Array = npt.NDArray[Any]
MODES = 4


@pytest.fixture(autouse=True, scope="module")
def one_blas_thread() -> Iterator[None]:
    # As cells of a study have it. Small products on more threads than idle cores are ten times slower.
    with threadpool_limits(1):
        yield


def mixture(classes: int, features: int, rows: int = 20_000, train: int = 300) -> tuple[Array, Array, Array]:
    """Training rows and labels, and rows to score: of the mixture, some moved far away, and those of training."""
    rng = np.random.default_rng([classes, features])
    means = rng.uniform(-1, 1, (MODES * classes, features))
    factors = rng.uniform(-0.3, 0.3, (MODES * classes, features, features))
    modes = rng.integers(0, MODES * classes, train + rows)
    normal = rng.standard_normal((train + rows, features, 1))
    x = (means[modes] + (factors[modes] @ normal)[..., 0]).astype(np.float32)
    stretched = np.repeat([3, 10, 100, 1e6], 500)[:, None]
    x[-len(stretched) :] *= stretched
    return x[:train], modes[:train] % classes, np.concatenate([x[train:], x[:train]])


def assert_same(model: Any, x: Array, tolerance: float) -> None:
    # Given float32, some models of scikit-learn compute in float32.
    expected = model.predict_proba(x.astype(np.float64))
    actual = scores(model, x)
    assert actual.dtype == np.float32
    assert actual.shape == expected.shape
    np.testing.assert_allclose(actual, expected.astype(np.float32), rtol=0, atol=tolerance)
    np.testing.assert_allclose(actual.sum(1, dtype=np.float64), 1, rtol=0, atol=1e-6)


TOLERANCES = {"logistic": 1e-6, "naive-bayes": 1e-6, "svc": 1e-7, "forest": 0}


@pytest.mark.parametrize(("classes", "features"), [(2, 7), (7, 5)])
def test_scores_are_those_of_scikit_learn(classes: int, features: int) -> None:
    assert tuple(TOLERANCES) == MODELS
    x, labels, more = mixture(classes, features)
    for name in MODELS:
        assert_same(fitted(name, x, labels), more, TOLERANCES[name])


@pytest.mark.filterwarnings("ignore:The `probability` parameter was deprecated:FutureWarning")
def test_other_random_states() -> None:
    x, labels, more = mixture(3, 4, rows=2500)
    assert_same(SVC(probability=True, random_state=3).fit(x, labels), more, 1e-7)
    assert_same(RandomForestClassifier(random_state=3).fit(x, labels), more, 0)


def test_rows_on_thresholds_of_the_forest() -> None:
    x, labels, _ = mixture(5, 2, rows=2500)
    model = fitted("forest", x, labels)
    trees = [member.tree_ for member in model.estimators_]
    near = np.concatenate([tree.threshold[tree.children_left >= 0] for tree in trees]).astype(np.float32)
    near = np.concatenate([np.nextafter(near, np.float32(-9)), near, np.nextafter(near, np.float32(9))])
    assert_same(model, np.stack([near, np.random.default_rng(0).permutation(near)], 1), 0)


def test_trees_of_many_leaves_and_a_feature_that_no_tree_uses() -> None:
    x, labels, more = mixture(7, 2, rows=2500, train=1500)
    x, more = (np.column_stack([features, np.ones(len(features), np.float32)]) for features in (x, more))
    model = fitted("forest", x, labels)
    assert min(member.tree_.n_leaves for member in model.estimators_) > 2 * 126
    assert ForestScorer.of(model) is not None
    assert_same(model, more, 0)


@pytest.mark.parametrize(
    ("classes", "options"), [(3, {"min_samples_leaf": 5}), (9, {"n_estimators": 5}), (2, {"n_estimators": 256})]
)
def test_forests_that_are_not_counted(classes: int, options: dict[str, Any]) -> None:
    x, labels, more = mixture(classes, 2, rows=2500)
    model = RandomForestClassifier(random_state=1, **options).fit(x, labels)
    assert ForestScorer.of(model) is None
    assert_same(model, more, 0)


def coupled(r: Array) -> tuple[Array, int]:
    """Probabilities from the matrix of those of pairs, as libsvm iterates them, and the number of rounds."""
    classes = len(r)
    q = -r.T * r
    np.fill_diagonal(q, [sum(r[j, i] ** 2 for j in range(classes) if j != i) for i in range(classes)])
    p = np.full(classes, 1 / classes)
    for rounds in range(100):
        if np.abs(q @ p - p @ q @ p).max() < 0.005 / classes:
            return p, rounds
        for i in range(classes):
            p[i] += (p @ q @ p - q[i] @ p) / q[i, i]
            p /= p.sum()
    return p, 100


@pytest.mark.parametrize("classes", [2, 3, 7])
def test_coupling_stops_where_libsvm_does(classes: int) -> None:
    rng = np.random.default_rng(classes)
    pairs = np.triu_indices(classes, 1)
    pairwise = np.clip(rng.beta(0.2, 0.2, (len(pairs[0]), 300)), 1e-7, 1 - 1e-7)
    r = np.zeros((300, classes, classes))
    r[:, *pairs] = pairwise.T
    r[:, pairs[1], pairs[0]] = 1 - pairwise.T
    expected, rounds = zip(*map(coupled, r), strict=True)
    actual = np.empty((300, classes))
    _couple(pairwise, actual)
    np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-12)
    assert len(set(rounds)) > 1


def test_threads_side_by_side() -> None:
    x, labels, more = mixture(3, 2, rows=5000)
    names = [*MODELS, *MODELS]
    with ThreadPoolExecutor(2) as pool:
        result = list(pool.map(lambda name: scores(fitted(name, x, labels), more), names))
    for name, probabilities in zip(names, result, strict=True):
        np.testing.assert_array_equal(probabilities, scores(fitted(name, x, labels), more))


@pytest.mark.parametrize(("labels", "classes", "missing"), [([0, 3, 0], None, "[1, 2]"), ([0, 1, 1], 3, "[2]")])
def test_a_class_without_training_rows(labels: list[int], classes: int | None, missing: str) -> None:
    with pytest.raises(ValueError, match="labels expects rows of each class from 0 to") as error:
        fitted("logistic", np.zeros((3, 2)), np.array(labels), classes)
    assert missing in str(error.value)


def test_double_precision_of_support_vectors() -> None:
    x, labels, more = mixture(5, 7, rows=2500)
    model = fitted("svc", x, labels)
    result = np.empty((len(more), 5))
    _couple(SupportVectorScorer.of(model)._pairwise(more), result)
    np.testing.assert_allclose(result, model.predict_proba(more), rtol=0, atol=1e-11)
