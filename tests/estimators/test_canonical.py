"""Kernel estimates of the canonical calibration error against loops, and values by hand."""

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

import calibdask as cd
from tests.combinations import pairwise
from tests.estimators.kernel_data import CASES, drawn, near, of
from tests.oracles import kernel_reference as reference


@pytest.mark.parametrize(
    ("case", "bandwidth", "distance"),
    pairwise([case for case in CASES if case[1] > 3], [0.02, 0.2, 1.0], ["tv", "euclidean", "squared-euclidean"]),
)
def test_kernel_canonical_ece(case: tuple[str, int, int, Any], bandwidth: float, distance: Any) -> None:
    kind, n, classes, dtype = case
    labels, scores = drawn(kind, n, classes, dtype)
    expected, alone = reference.kernel_canonical_ece(labels, scores, bandwidth, distance)
    actual = of(labels, scores, cd.KernelCanonicalECE(bandwidth=bandwidth, distance=distance))
    # Logarithms of scores times 1 / h are exponentiated: digits are lost there.
    single = np.dtype(dtype) == np.float32
    assert float(actual) == pytest.approx(expected, rel=1e-5 if single else 1e-9)
    assert int(actual.attrs["rows_without_neighbours"]) == alone


def test_weights_of_kernel_canonical_ece_are_numbers_of_rows_but_for_their_own() -> None:
    """Loops: a row does not know its own label, however much it weighs."""
    labels, scores = drawn("smooth", 40)
    labels, scores = labels % scores.shape[1], scores.astype(np.float64)
    weights = np.random.default_rng(5).integers(0, 4, 40).astype(float)
    h, total = 0.3, 0.0
    for j in range(40):
        sums = np.zeros(scores.shape[1])
        for i in range(40):
            if i != j:
                sums[labels[i]] += weights[i] * stats.dirichlet.pdf(scores[j] / scores[j].sum(), scores[i] / h + 1)
        total += weights[j] * np.abs(sums / sums.sum() - scores[j]).sum() / 2
    result = cd.evaluate(labels, scores, cd.KernelCanonicalECE(bandwidth=h), sample_weight=weights)
    assert float(result.kernel_canonical_ece) == pytest.approx(total / weights.sum(), rel=1e-9)


def test_kernel_canonical_ece_by_hand() -> None:
    # Two rows: each one's frequencies are the label of the other.
    scores, labels = np.array([[0.5, 0.5], [0.25, 0.75]]), np.array([0, 1])
    result = of(labels, scores, cd.KernelCanonicalECE(bandwidth=0.5, distance="tv"))
    assert float(result) == near((0.5 + 0.75) / 2)
    # Of three certain rows, the first two see each other only, the third sees nobody.
    certain, labels = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]), np.array([0, 1, 1])
    result = of(labels, certain, cd.KernelCanonicalECE(bandwidth=0.5, distance="tv"))
    assert float(result) == near((1 + 0) / 2)
    assert int(result.attrs["rows_without_neighbours"]) == 1


def test_likelihood_bandwidth_is_a_bandwidth() -> None:
    labels, scores = drawn("smooth", 40)
    actual = of(labels, scores, cd.KernelCanonicalECE(bandwidth="likelihood", distance="tv"))
    bandwidth = float(np.asarray(actual.attrs["bandwidth"]).ravel()[0])
    assert bandwidth > 0
    expected, _ = reference.kernel_canonical_ece(labels, scores, bandwidth)
    assert float(actual) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("kind", ["smooth", "saturated"])
def test_likelihood_bandwidth_is_the_likeliest(kind: str) -> None:
    """Each row under the kernels of all others; where one has a score of 0 the density of the other may be 0."""
    labels, scores = drawn(kind, 16)

    def likelihood(bandwidth: float) -> float:
        logs = []
        for j, row in enumerate(scores):
            others = (other for i, other in enumerate(scores) if i != j)
            density = math.fsum(math.exp(reference.log_dirichlet(row, other / bandwidth)) for other in others)
            logs.append(max(math.log(density), -745.0) if density > 0 else -745.0)
        return math.fsum(logs)

    actual = of(labels, scores, cd.KernelCanonicalECE(distance="tv"))
    likeliest = max(np.geomspace(1e-4, 1, 33), key=likelihood)
    assert float(np.asarray(actual.attrs["bandwidth"]).ravel()[0]) == pytest.approx(likeliest, rel=1e-12)


@pytest.mark.parametrize(
    "choices", [{"bandwidth": 0.0}, {"bandwidth": "median"}, {"distance": "cosine"}, {"setting": "marginal"}], ids=str
)
def test_bad_choices_of_kernel_canonical_ece(choices: dict[str, Any]) -> None:
    labels, scores = drawn("smooth", 20)
    with pytest.raises(ValueError, match=r".+"):
        of(labels, scores, cd.KernelCanonicalECE(**choices))
