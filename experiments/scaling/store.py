"""Scored rows in a Zarr store of any size, made in memory that does not grow with it."""

import argparse
import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import zarr
from zarr.codecs import BloscCodec

from experiments.scaling.data import Rows

Compressor = Literal["lz4", "zstd", "none"]
COMPRESSORS: tuple[Compressor, ...] = get_args(Compressor)

# Rows that one generator draws: the data depend on it, and on nothing else but seed and number of classes.
_UNIT = 1 << 14
_SPREAD = 2.0
# Scores are surer than the probabilities that labels are drawn from.
_TEMPERATURE = 0.8
# Zarr writes no chunks larger than this.
_LARGEST_CHUNK = 2**31 - 1


def make_store(
    path: str | Path,
    rows: int,
    classes: int,
    *,
    chunk_rows: int = 250_000,
    dtype: str = "float32",
    compressor: Compressor = "lz4",
    seed: int = 0,
) -> None:
    """Write ``scores`` (rows, classes) and ``labels`` (rows,) as `calibdask.read_rows` reads them.

    Scores are softmaxes of normal numbers with standard deviation 2, divided by a temperature of 0.8; labels are drawn
    from the softmax at temperature 1, so the scores are too sure. Every row is the same for any ``rows``,
    ``chunk_rows``, ``compressor`` and number of threads.

    Parameters
    ----------
    path : str or Path
        Where nothing is yet.
    rows, classes : int
    chunk_rows : int
        Rows of a chunk of both arrays; each core holds one at a time.
    dtype : {"float32", "float64"}
        Of the scores.
    compressor : {"lz4", "zstd", "none"}
        Blosc with shuffled bits, or none.
    seed : int

    Raises
    ------
    ValueError
        If there is something at the path, or a number is not positive.
    """
    if Path(path).exists():
        raise ValueError(f"{path} exists already.")
    if min(rows, classes, chunk_rows) < 1:
        raise ValueError(f"rows, classes and chunk_rows expect positive numbers, got {rows}, {classes}, {chunk_rows}.")
    size = chunk_rows * classes * np.dtype(dtype).itemsize
    if size > _LARGEST_CHUNK:
        raise ValueError(f"chunk_rows expects chunks of less than 2 GiB, got {size} bytes.")
    group = zarr.create_group(path)
    codecs = () if compressor == "none" else (BloscCodec(cname=compressor, shuffle="bitshuffle"),)
    chunk = min(chunk_rows, rows)
    scores = group.create_array(
        "scores", shape=(rows, classes), chunks=(chunk, classes), dtype=dtype, compressors=codecs
    )
    labels = group.create_array("labels", shape=(rows,), chunks=(chunk,), dtype="int32", compressors=codecs)

    def write(start: int) -> None:
        here = slice(start, min(start + chunk, rows))
        labels[here], scores[here] = drawn(here.start, here.stop, classes, dtype, seed)

    with ThreadPoolExecutor(cores()) as pool:
        for _ in pool.map(write, range(0, rows, chunk)):
            pass


def drawn(start: int, stop: int, classes: int, dtype: str = "float32", seed: int = 0) -> Rows:
    """Labels and scores of the rows from ``start`` to before ``stop``."""
    labels, scores = np.empty(stop - start, np.int32), np.empty((stop - start, classes), dtype)
    for unit, here, there in _units(start, stop):
        some_labels, some_scores = _unit(unit, classes, seed)
        labels[here], scores[here] = some_labels[there], some_scores[there]
    return labels, scores


def _units(start: int, stop: int) -> Iterator[tuple[int, slice, slice]]:
    """Units that rows lie in, with the rows in question counted from ``start`` and from the first row of the unit."""
    for unit in range(start // _UNIT, -(-stop // _UNIT)):
        first, last = max(start, unit * _UNIT), min(stop, (unit + 1) * _UNIT)
        yield unit, slice(first - start, last - start), slice(first - unit * _UNIT, last - unit * _UNIT)


def _unit(unit: int, classes: int, seed: int) -> Rows:
    rng = np.random.Generator(np.random.SFC64(np.random.SeedSequence(seed, spawn_key=(classes, unit))))
    logits = rng.standard_normal((_UNIT, classes), np.float32)
    logits *= np.float32(_SPREAD)
    below = np.cumsum(np.exp(logits), axis=1)
    thresholds = rng.random((_UNIT, 1), np.float32) * below[:, -1:]
    # A threshold that is rounded up to the sum of all belongs to the last class.
    labels = np.minimum((below <= thresholds).sum(1, dtype=np.int32), classes - 1)
    logits /= np.float32(_TEMPERATURE)
    scores: Any = np.exp(logits, out=logits)
    scores /= scores.sum(1, keepdims=True)
    return labels.astype(np.int32), scores


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def main() -> None:
    """Make a store and say how long it took."""
    parser = argparse.ArgumentParser(prog="python -m experiments.scaling.store", description=__doc__)
    parser.add_argument("path", type=Path)
    parser.add_argument("--rows", type=int, default=100_000_000)
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--chunk-rows", type=int, default=250_000)
    parser.add_argument("--dtype", choices=("float32", "float64"), default="float32")
    parser.add_argument("--compressor", choices=COMPRESSORS, default="lz4")
    parser.add_argument("--seed", type=int, default=0)
    options = vars(parser.parse_args())
    start = time.perf_counter()
    try:
        make_store(**options)
    except ValueError as error:
        parser.error(str(error))
    seconds = time.perf_counter() - start
    stored = sum(file.stat().st_size for file in options["path"].rglob("*") if file.is_file())
    print(f"{options['rows']} rows in {seconds:.1f} s, {options['rows'] / seconds:.3g} a second; {stored / 1e9:.3g} GB")


if __name__ == "__main__":
    main()
