"""Medians of distances against sorted lists, in one look and in several."""

import numpy as np
import pytest

from calibdask.estimators.kernel import base as module
from calibdask.estimators.kernel.base import median_distance
from calibdask.statistics.pairs.pair_kernel import Distance
from tests.combinations import pairwise


@pytest.mark.parametrize(
    ("kept", "distance", "kind", "rows"),
    pairwise([1 << 20, 16, 1], ["tv", "euclidean"], ["smooth", "grid", "one-hot"], [2, 3, 4, 5, 30, 61]),
)
def test_medians(kept: int, distance: Distance, kind: str, rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_KEPT", kept)
    rng = np.random.default_rng(rows)
    scores = rng.dirichlet(np.ones(4), rows)
    if kind == "grid":
        scores = rng.multinomial(4, np.full(4, 0.25), rows) / 4
    if kind == "one-hot":
        scores = np.eye(4)[rng.integers(0, 4, rows)]
    gaps = scores[:, None] - scores[None]
    far = np.abs(gaps).sum(-1) / 2 if distance == "tv" else np.sqrt((gaps**2).sum(-1))
    expected = np.median(far[np.triu_indices(rows, 1)])
    assert median_distance(scores, distance, full=False) == pytest.approx(expected, rel=1e-14, abs=0)
    assert median_distance(scores, distance, full=True) == pytest.approx(np.median(far), rel=1e-14, abs=0)


def test_one_row_has_no_distance() -> None:
    assert np.isnan(median_distance(np.array([[0.5, 0.5]]), "tv", full=False))
    assert median_distance(np.array([[0.5, 0.5]]), "tv", full=True) == 0
