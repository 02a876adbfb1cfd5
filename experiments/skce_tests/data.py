"""Models with a known calibration: predictions from a Dirichlet distribution, labels drawn from a part of them."""

from typing import Any

import numpy as np

CONCENTRATION = 0.1

# How labels are drawn given a prediction p.
MODELS = {
    "M1": "from p: calibrated",
    "M2": "half from p, half the first class",
    "M3": "uniformly, whatever p",
}


def drawn(model: str, shape: tuple[int, ...], classes: int, *seed: int) -> tuple[Any, Any]:
    """Labels of this shape, (data sets, rows) or (rows,), and scores with an axis of classes more."""
    rng = np.random.default_rng([list(MODELS).index(model), classes, *seed])
    scores = rng.dirichlet(np.full(classes, CONCENTRATION), shape)
    if model == "M3":
        return rng.integers(0, classes, shape), scores
    reached = np.cumsum(scores, axis=-1)
    labels = (reached[..., :-1] <= rng.random((*shape, 1)) * reached[..., -1:]).sum(-1)
    return (np.where(rng.random(shape) < 0.5, labels, 0) if model == "M2" else labels), scores
