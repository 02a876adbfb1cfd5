"""Rows that reports are made of."""

from typing import Any

import numpy as np
import xarray as xr

import calibdask as cd
from calibdask.report import measure
from calibdask.report.model_result import ModelResult

ROWS = 4000
RNG = np.random.default_rng(11)
TRUTH = RNG.random(ROWS)
LABELS = (RNG.random(ROWS) < TRUTH).astype(int)
COUNTRY = np.array(["de", "fr", "<b>it</b>"])[RNG.choice(3, ROWS, p=[0.6, 0.39, 0.01])]
WEIGHTS = RNG.random(ROWS)
MATRIX = RNG.dirichlet(np.full(4, 0.5), ROWS)
CLASSES = (
    (RNG.random(ROWS)[:, None] > np.cumsum(MATRIX**0.5 / (MATRIX**0.5).sum(1, keepdims=True), 1)).sum(1).clip(0, 3)
)
# How few replicates will do where ends do not matter.
FEW = {"n_boot": 20}
SOME = {"ece": cd.ECE(), "density_ece": cd.DensityECE(), "log_loss": cd.LogLoss(), "test": cd.SpiegelhalterTest()}


def of_two_models() -> tuple[xr.DataArray, xr.DataArray]:
    scores = xr.DataArray(np.stack([TRUTH, TRUTH**2]), dims=("model", "sample"), coords={"model": ["one", "two"]})
    return xr.DataArray(LABELS, dims="sample"), scores


def model_of(scores: Any, labels: Any = LABELS, **options: Any) -> ModelResult:
    return ModelResult("model", measure(labels, scores, **{"metrics": SOME, **options}))


def calibrated(scores: Any, seed: int = 0) -> Any:
    return (np.random.default_rng(seed).random(len(scores)) < scores).astype(int)


LIMITED = (("--limit", 0.1), "--limit has no effect")
