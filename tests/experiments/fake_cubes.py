"""Cubes of the benchmark of estimators, made up."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr

OURS = (
    *(f"equal-mass-{mapping}-{bins}" for mapping in ("hard", "convex", "inverted") for bins in ("10", "30", "sqrt")),
    *(f"residual-{h}" for h in ("silverman", "0.033", "isj")),
    "smooth",
    "rms-uniform-10",
    "rms-uniform-10-debiased",
)
PUBLISHED = (30, 39, 51, 67, 88, 115, 151, 198, 259, 339, 443)
CELLS = ("classes", "features", "draw", "split")
MODELS, SETTINGS = ("logistic", "naive-bayes", "svc", "forest"), ("confidence", "classwise")
FEW = ("euranova-l-10", "residual-isj", "rms-uniform-10")


def fake_cube(
    estimators: Sequence[str] = FEW,
    sizes: Sequence[int] = (30, 443, 1300),
    replicates: int = 21,
    shape: tuple[int, int, int, int] = (2, 2, 2, 1),
    seed: int = 0,
) -> xr.Dataset:
    """A cube whose errors shrink with the rows, and whose biases grow with bins over rows."""
    rng = np.random.default_rng(seed)
    inner = (*shape, len(MODELS), len(SETTINGS))
    best = np.exp(rng.normal(-3, 0.8, inner)) * np.array([1, 0.5])
    ends = best[..., None] * (1 + rng.uniform(0, 0.04, inner)[..., None] * np.array([1, -1]))
    norms = np.array([1, 1.5])[:, None, None, None]
    truth = np.broadcast_to(ends[..., None, None, None, :] * norms, (*inner, 2, 2, 3, 2)).copy()
    truth[..., 0, 2, 0] += 0.002
    n = np.array(sizes)
    count = np.where([[_bins(name)] for name in estimators], [[_bins(name)] for name in estimators], np.sqrt(n))
    scale = (1 + 0.02 * np.arange(len(estimators)))[:, None] / np.sqrt(n)
    noise = 0.3 * rng.normal(size=(*inner, len(estimators), len(sizes), replicates)) + np.sqrt(count / n)[..., None]
    estimate = np.abs(best[..., None, None, None] + noise * scale[..., None])
    interval = estimate[..., :2, 0, None] + np.array([0, -0.02, 0.03])
    variables = {
        "estimate": ((*CELLS, "model", "setting", "estimator", "size", "replicate"), estimate),
        "truth": ((*CELLS, "model", "setting", "norm", "outcome", "bins", "kind"), truth),
        "interval": ((*CELLS, "model", "setting", "estimator", "interval_size", "end"), interval),
        "status": (CELLS, np.ones(shape, np.int8)),
    }
    classes, features, draws, splits = shape
    named = ([2, 5, 7][:classes], [2, 5, 7][:features], range(draws), range(splits))
    return xr.Dataset(variables, {**dict(zip(CELLS, named, strict=True)), **inside(estimators, n)})


def _bins(name: str) -> int:
    """Number of bins, 0 for the square root; few for densities."""
    return {"10": 10, "30": 30, "sqrt": 0}.get(name.removesuffix("-debiased").rpartition("-")[2], 4)


def inside(estimators: Sequence[str], sizes: Any) -> dict[str, Any]:
    """Coordinates within a cell, but the replicates."""
    return {
        "model": list(MODELS),
        "setting": list(SETTINGS),
        "estimator": list(estimators),
        "size": list(sizes),
        "norm": ["l1", "l2"],
        "outcome": ["label", "posterior"],
        "bins": [200, 500, 2000],
        "kind": ["plug-in", "cross-fit"],
        "interval_size": list(sizes)[:2],
        "end": ["estimate", "low", "high"],
    }
