"""The conformal threshold of very many rows, which no sort holds in memory: seconds, and whether it is the same."""

import argparse
import resource
import time
from typing import Any

import dask
import dask.array as da
import numpy as np

import calibdask as cd

CHUNK = 1_000_000


def main() -> None:
    """Generate scores of one class, find the threshold on two threads, and compare it with that of the sorted ones."""
    parser = argparse.ArgumentParser(prog="python -m experiments.scaling.conformal", description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000_000)
    parser.add_argument("--alpha", type=float, default=0.1)
    parser.add_argument("--threads", type=int, default=2)
    chosen = parser.parse_args()
    scores, labels = np.empty(chosen.rows, np.float32), np.empty(chosen.rows, np.int8)
    for start in range(0, chosen.rows, CHUNK):
        fill(np.random.default_rng(start), scores[start : start + CHUNK], labels[start : start + CHUNK])
    metric = cd.ConformalThreshold(alpha=chosen.alpha)
    small = cd.evaluate(labels[:CHUNK], scores[:CHUNK], {"c": metric})
    assert np.isfinite(small.c_threshold), "a warm start"
    lazy = da.from_array(labels, chunks=CHUNK), da.from_array(scores, chunks=CHUNK)
    with dask.config.set(scheduler="threads", num_workers=chosen.threads):
        begun, used = time.perf_counter(), time.process_time()
        result = cd.evaluate(*lazy, {"c": metric})
        seconds, processor = time.perf_counter() - begun, time.process_time() - used
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    begun = time.perf_counter()
    direct = sorted_threshold(scores, labels, chosen.alpha)
    sorting = time.perf_counter() - begun
    found = float(result.c_threshold)
    print(f"{chosen.rows:,} rows, {result.attrs['passes']} passes, {chosen.threads} threads: {seconds:.1f} s")
    print(f"{processor:.1f} s of processors, peak {peak:.2f} GiB of which {5 * chosen.rows / 2**30:.2f} are the data")
    print(f"threshold {found!r}, sorted {direct!r} in {sorting:.1f} s: {'equal' if found == direct else 'DIFFERENT'}")


def fill(rng: np.random.Generator, scores: Any, labels: Any) -> None:
    """Uniform scores, and labels with these probabilities."""
    rng.random(out=scores, dtype=np.float32)
    labels[:] = rng.random(len(labels), dtype=np.float32) < scores


def sorted_threshold(scores: Any, labels: Any, alpha: float) -> float:
    """That by a sort of the scores of the labels, in place of ``scores``."""
    np.subtract(1.0, scores, out=scores, where=labels == 0)
    # The score of label 0 is 1 - s in float64.
    rank = int(np.ceil((len(scores) + 1) * (1 - alpha)))
    scores.sort()
    return 1.0 - float(scores[len(scores) - rank])


if __name__ == "__main__":
    main()
