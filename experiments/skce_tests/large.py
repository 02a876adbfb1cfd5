"""Kernel calibration error of many rows: all pairs against the arithmetic limit, and random features in one pass."""

import argparse
import os
import resource
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import dask.array as da
import numba
import numpy as np

import calibdask as cd
from experiments.skce_tests.data import drawn

CHUNK = 100_000
FEWER = 8192  # rows of a chunk where all pairs are visited: enough tasks for all cores
# Operations of a pair in total variation beyond 5 K (difference, size, sum; product, sum): scaling and sign of the
# distance 2; exponential: limit, range and remainder 8, polynomial 22 (float32: 14), power of two 1; product with the
# residuals, two sums 3. Integer operations are not counted.
BEYOND = {"float64": 36, "float32": 28}
_STEPS = 16


def _multiply_adds(x: Any, a: Any, b: Any, rounds: int) -> None:
    """Replace x by a x + b, ``_STEPS`` times for each element and round."""
    for _ in range(rounds):
        for j in range(x.size):
            y = x[j]
            for _ in range(_STEPS):
                y = y * a + b
            x[j] = y


multiply_adds: Any = numba.njit(nogil=True)(_multiply_adds)


def timed(call: Callable[[], Any]) -> tuple[Any, float, float]:
    """The result, elapsed seconds, and CPU seconds of all cores."""
    begun, busy = time.perf_counter(), time.process_time()
    result = call()
    return result, time.perf_counter() - begun, time.process_time() - busy


def peak(dtype: str, rounds: int = 200_000) -> float:
    """Multiplications and additions per second and core while all cores are busy, the maximum of five runs."""
    cores, kind = len(os.sched_getaffinity(0)), np.dtype(dtype).type
    arrays = [np.ones(512, dtype) for _ in range(cores)]
    multiply_adds(arrays[0], kind(0.5), kind(1), 1)
    with ThreadPoolExecutor(cores) as pool:

        def once() -> None:
            list(pool.map(lambda x: multiply_adds(x, kind(0.5), kind(1), rounds), arrays))

        return 2 * _STEPS * 512 * rounds * cores / min(timed(once)[2] for _ in range(5))


def exact(rows: int, classes: int) -> None:
    """All pairs of rows of a calibrated model."""
    labels, scores = drawn("M1", rows, classes)
    for dtype, beyond in BEYOND.items():
        operations = 5 * classes + beyond
        given = da.from_array(labels, chunks=FEWER), da.from_array(scores.astype(dtype), chunks=(FEWER, -1))
        _ = cd.skce(*(array[:100] for array in given))  # compiles
        value, seconds, busy = timed(partial(cd.skce, *given, max_pairs=np.inf))
        pairs, most = rows * (rows - 1) / 2, peak(dtype)
        print(
            f"{dtype}: SKCE_uq {value:.3e} of {rows:,} rows in {seconds:.1f} s ({busy:.1f} s of cores): "
            f"{pairs / seconds:.3g} pairs/s. In a second of one core {pairs / busy:.3g} pairs, "
            f"{pairs / busy * operations / most:.0%} of the limit {most / operations:.3g} ({most:.3g} operations, "
            f"{operations} a pair)"
        )


def generated(rows: int, classes: int) -> tuple[Any, Any]:
    """Dask arrays whose chunks are generated on demand."""

    def block(block_info: Any = None) -> Any:
        made = block_info[None]
        labels, scores = drawn("M1", made["chunk-shape"][0], classes, *made["chunk-location"])
        return np.column_stack([scores, labels])

    chunks = (*da.core.normalize_chunks(CHUNK, (rows,)), (classes + 1,))
    both = da.map_blocks(block, chunks=chunks, dtype=np.float64)
    return both[:, classes].astype(np.int64), both[:, :classes]


def features(rows: int, classes: int) -> None:
    """The estimate from random features, and its test; the share of the time that generates the data."""
    given = generated(rows, classes)
    metrics = {"skce": cd.SKCE(estimator="features"), "test": cd.SKCETest(estimator="features")}
    result, seconds, busy = timed(lambda: cd.evaluate(*given, metrics))
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
    _, making, _ = timed(given[1].sum().compute)
    skce = result.skce
    print(
        f"features: SKCE_uq {float(skce):.3e} (approximation error {skce.attrs['approximation_error']:.1e}), p-value "
        f"{float(result.test_pvalue):.3f}, of {rows:,} x {classes} rows in {seconds:.0f} s ({busy:.0f} s of cores), "
        f"{result.attrs['passes']} passes; making the data once takes {making:.0f} s; peak memory {memory:.0f} MiB"
    )


def main() -> None:
    """Print one line for each way."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--features-rows", type=int, help="random features of so many rows, and nothing else")
    chosen = parser.parse_args()
    if chosen.features_rows:
        features(chosen.features_rows, chosen.classes)
    else:
        exact(chosen.rows, chosen.classes)


if __name__ == "__main__":
    main()
