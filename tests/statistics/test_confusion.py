"""Predicted classes by label, beside NumPy's own."""

import numpy as np
import pytest

from calibdask.statistics.block import Block
from calibdask.statistics.confusion import Confusion
from calibdask.statistics.layout import Layout


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("classes", [3, 10, 40])
@pytest.mark.parametrize("weighted", [False, True])
def test_counts_equal_numpys(classes: int, dtype: type, weighted: bool) -> None:
    """With ties, of which the lowest class is predicted; a row without weight does not count."""
    rng = np.random.default_rng(classes)
    scores = rng.integers(0, 4, (2, 500, classes)).astype(dtype) + 1
    scores /= scores.sum(-1, keepdims=True)
    labels = rng.integers(0, classes, (2, 500))
    weights = np.where(rng.random((1, 500)) < 0.3, 0.0, rng.random((1, 500))) if weighted else None
    layout = Layout(batch=2, classes=classes, vector=False, dtype=np.dtype(dtype).name, weighted=weighted)
    counted = np.ones(500, bool) if weights is None else weights[0] > 0
    expected = np.zeros((2, classes, classes), int)
    for b in range(2):
        np.add.at(expected[b], (labels[b][counted], scores[b].argmax(-1)[counted]), 1)
    state = Confusion().from_block(Block(layout, scores, labels, weights))
    np.testing.assert_array_equal(state.rows, expected)
