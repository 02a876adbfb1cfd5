"""What intervals need is freed as soon as they are there."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

# In a process of its own: what other tests have left is found at any time.
MEASURED = """
import gc, json
import numpy as np
import calibdask as cd

rng = np.random.default_rng(0)
scores = rng.random((20, 100))
labels = (rng.random(scores.shape) < scores).astype(np.int32)
held = {}
for metric in (cd.ECE(), cd.BrierScore(), cd.SmoothECE(), cd.CORP()):
    for measured in (False, True):
        gc.collect()
        gc.disable()
        gc.set_debug(gc.DEBUG_SAVEALL if measured else 0)
        cd.evaluate(labels, scores, {"metric": metric}, task="binary", ci=0.9, n_boot=20)
        gc.collect()
        parts = [part for left in gc.garbage for part in gc.get_referents(left)]
        held[type(metric).__name__] = sum({id(part): part.nbytes for part in parts if hasattr(part, "nbytes")}.values())
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
print(json.dumps(held))
"""


@pytest.fixture(scope="module")
def held() -> dict[str, int]:
    """Bytes of arrays that wait for a search for garbage, by metric."""
    root = Path(__file__).parents[2]
    run = subprocess.run([sys.executable, "-c", MEASURED], cwd=root, capture_output=True, text=True, check=True)
    known: dict[str, int] = json.loads(run.stdout)
    return known


@pytest.mark.parametrize("metric", ["ECE", "BrierScore", "SmoothECE", "CORP"])
def test_replicates_do_not_wait_for_a_search_for_garbage(held: dict[str, int], metric: str) -> None:
    """Circles of objects are found late, while the arrays that they hold fill the memory."""
    assert held[metric] < 10_000
