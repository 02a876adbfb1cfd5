"""The out-of-core workload, a panel of metrics in one pass, and its reference, reading the data."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import zarr

import calibdask as cd

# Twelve metrics of many classes. Bins of equal mass would take further passes.
PANEL: Mapping[str, Any] = {
    "brier_score": cd.BrierScore(),
    "brier_decomposition": cd.BrierDecomposition(),
    "log_loss": cd.LogLoss(),
    "ece": cd.ECE(),
    "ece_classwise": cd.ECE(setting="classwise"),
    "ece_convex": cd.ece_c(),
    "rmsce": cd.ECE(norm="l2", debias=True),
    "mce": cd.MCE(),
    "density_ece": cd.DensityECE(),
    "smooth_ece": cd.SmoothECE(),
    "spiegelhalter_test": cd.SpiegelhalterTest(),
    "reliability_diagram": cd.ReliabilityDiagram(),
}


def evaluated(labels: Any, scores: Any, metrics: Any = PANEL) -> Any:
    """The panel, wherever Dask computes."""
    result = cd.evaluate(labels, scores, metrics)
    if result.passes != 1:
        raise ValueError(f"The panel expects one pass over the data, took {result.passes}.")
    return result


def by_zarr(store: Path, labels: Any, scores: Any) -> tuple[Any, Any]:
    """The same rows of a store in the same chunks, as Dask reads them from zarr-python."""
    group = zarr.open_group(store, mode="r")
    parts = (("labels", labels), ("scores", scores))
    labels, scores = (da.from_zarr(group[name], chunks=rows.chunksize)[: len(rows)] for name, rows in parts)
    return labels, scores


def read_only(labels: Any, scores: Any) -> int:
    """Load every chunk, decompressed, and look at one byte of each."""
    touched = da.blockwise(
        _touch, "nk", scores, "nk", labels, "n", dtype=np.int64, adjust_chunks={"n": 1, "k": 1}, align_arrays=False
    )
    return int(touched.sum(split_every=16).compute())


def _touch(scores: Any, labels: Any) -> Any:
    return np.full((1, 1), scores.view(np.uint8)[-1, -1] + np.int64(labels.view(np.uint8)[-1]))
