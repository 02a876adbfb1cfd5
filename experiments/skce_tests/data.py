"""Models with known calibration: predictions from a Dirichlet distribution, with labels drawn partly from them."""

from typing import Any

import numpy as np

CONCENTRATION = 0.1

# How labels are drawn given a prediction p.
MODELS = {
    "M1": "from p: calibrated",
    "M2": "half from p, half the first class",
    "M3": "uniformly, whatever p",
}


def drawn(model: str, rows: int, classes: int, *seed: int) -> tuple[Any, Any]:
    """Labels (rows,) and scores (rows, classes)."""
    rng = np.random.default_rng([list(MODELS).index(model), rows, classes, *seed])
    scores = drawn_scores(rows, classes, rng)
    return drawn_labels(model, scores, rng), scores


def drawn_scores(rows: int, classes: int, rng: np.random.Generator) -> Any:
    """Predictions (rows, classes), the same for all models."""
    return rng.dirichlet(np.full(classes, CONCENTRATION), rows)


def drawn_labels(model: str, scores: Any, rng: np.random.Generator) -> Any:
    """Labels (rows,) that a model gives to its predictions."""
    rows, classes = scores.shape
    if model == "M3":
        return rng.integers(0, classes, rows)
    reached = np.cumsum(scores, axis=1)
    labels = (reached[:, :-1] <= rng.random((rows, 1)) * reached[:, -1:]).sum(1)
    return np.where(rng.random(rows) < 0.5, labels, 0) if model == "M2" else labels
