"""What intervals need is freed as soon as they are there."""

import gc
from typing import Any

import numpy as np
import pytest

import calibdask as cd


@pytest.mark.parametrize("metric", [cd.ECE(), cd.BrierScore(), cd.SmoothECE(), cd.CORP()])
def test_replicates_do_not_wait_for_a_search_for_garbage(metric: Any) -> None:
    """Circles of objects are found late, while the arrays that they hold fill the memory."""
    rng = np.random.default_rng(0)
    scores = rng.random((20, 100))
    labels = (rng.random(scores.shape) < scores).astype(np.int32)
    options: dict[str, Any] = {"task": "binary", "ci": 0.9, "n_boot": 20}
    cd.evaluate(labels, scores, {"metric": metric}, **options)
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        cd.evaluate(labels, scores, {"metric": metric}, **options)
        gc.collect()
        parts = [part for left in gc.garbage for part in gc.get_referents(left)]
        # Not everything that waits, of other tests too, can be asked for its size.
        held = {id(part): part.nbytes for part in parts if isinstance(part, np.ndarray)}
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
    assert sum(held.values()) < 10_000
