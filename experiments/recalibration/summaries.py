"""Small summaries of the cubes: medians over samples, shares, and win rates of calibrators against each other."""

import numpy as np
import numpy.typing as npt
import xarray as xr

from calibdask.storage.cube_layout import DONE
from experiments.recalibration.calibrators import NONE

Floats = npt.NDArray[np.float64]

# One row in a million with an infinite loss makes a fit count as one of infinite loss.
INFINITE = 1e-6
_EQUAL = 1e-9


def of_known_truth(cube: xr.Dataset) -> xr.Dataset:
    """A summary of a cube of the study `Recalibration`.

    ``excess`` and ``tail`` (density, curve, size, calibrator, loss) are the median and the 90th percentile over
    samples; ``worse`` is the share of samples whose loss is larger than that of the scores as they are; ``infinite``
    and ``refused`` are shares; ``wins`` (size, loss, calibrator, other) is the share of samples in which the loss is
    smaller than that of the other calibrator, equal ones counted half.
    """
    done = cube.drop_vars("error", errors="ignore").where(cube["status"] == DONE).load()
    excess = done["excess"].transpose("density", "curve", "size", "loss", "calibrator", "replicate")
    known = excess.notnull()
    none = excess.sel(calibrator=NONE)
    over = ["density", "curve", "replicate"]
    wins = _wins(excess.transpose("size", "loss", "calibrator", *over).values.reshape(*_lengths(excess), -1))
    return xr.Dataset(
        {
            "excess": excess.median("replicate").astype(np.float32),
            "tail": excess.quantile(0.9, "replicate").drop_vars("quantile").astype(np.float32),
            "worse": (excess > none * (1 + _EQUAL)).where(known).mean("replicate").astype(np.float32),
            "infinite": _share(done["infinite"] > INFINITE, done["infinite"], "replicate"),
            "refused": done["refused"].mean("replicate").astype(np.float32),
            "wins": (("size", "loss", "calibrator", "other"), wins.astype(np.float32)),
            "samples": known.isel(loss=0, calibrator=0).sum(over),
        },
        coords={"other": cube["calibrator"].values},
        attrs={"cells": cube["status"].size, "cells_done": int((cube["status"] == DONE).sum())},
    )


def of_real_models(cube: xr.Dataset) -> xr.Dataset:
    """A summary of a cube of the study `RealModels`.

    ``gain`` (data, model, size, calibrator, loss) is the mean over splits of the loss less that of the scores as they
    are; ``wins`` (kind, size, loss, calibrator, other) of all splits and models of data with two classes or more.
    """
    done = cube.drop_vars("error", errors="ignore").where(cube["status"] == DONE).load()
    loss = done["test_loss"].transpose("data", "model", "size", "loss", "calibrator", "split")
    classes = done["classes"].max("split").values
    wins = []
    for chosen in (classes == 2, classes > 2):
        part = loss.isel(data=np.flatnonzero(chosen)).transpose("size", "loss", "calibrator", "data", "model", "split")
        wins.append(_wins(part.values.reshape(*_lengths(loss), -1)))
    none = loss.sel(calibrator=NONE)
    return xr.Dataset(
        {
            "test_loss": loss.mean("split").astype(np.float32),
            "gain": (loss - none).mean("split").astype(np.float32),
            "worse": (loss > none * (1 + _EQUAL)).where(loss.notnull()).mean("split").astype(np.float32),
            "infinite": _share(done["infinite"] > 0, done["infinite"], "split"),
            "refused": done["refused"].mean("split").astype(np.float32),
            "accuracy": done["accuracy"].mean("split").astype(np.float32),
            "classes": ("data", classes),
            "wins": (("kind", "size", "loss", "calibrator", "other"), np.stack(wins).astype(np.float32)),
        },
        coords={"other": cube["calibrator"].values, "kind": ["binary", "multi-class"]},
        attrs={"cells": cube["status"].size, "cells_done": int((cube["status"] == DONE).sum())},
    )


def _lengths(array: xr.DataArray) -> list[int]:
    return [array.sizes[dim] for dim in ("size", "loss", "calibrator")]


def _share(hit: xr.DataArray, value: xr.DataArray, dim: str) -> xr.DataArray:
    return hit.where(value.notnull()).mean(dim).astype(np.float32)


def _wins(losses: Floats) -> Floats:
    """Share of the samples in which the loss is smaller: (..., calibrators, samples) to (..., calibrators, others)."""
    first, second = losses[..., :, None, :], losses[..., None, :, :]
    with np.errstate(invalid="ignore"):
        equal = np.abs(first - second) <= _EQUAL * np.abs(second)
    both = np.isfinite(first) & np.isfinite(second)
    won = np.where(equal, 0.5, first < second)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.where(both, won, 0).sum(-1) / both.sum(-1), np.float64)


def win_rates(wins: xr.DataArray) -> xr.DataArray:
    """Mean over all other calibrators of the share of samples in which the loss is smaller."""
    return wins.where(wins["calibrator"] != wins["other"]).mean("other")


def remaining(summary: xr.Dataset, kind: str = "excess") -> xr.DataArray:
    """Excess as a part of that of the scores as they are, of distributions that are not calibrated."""
    excess = summary[kind].sel(curve=[curve for curve in summary["curve"].values if curve != "calibrated"])
    return excess / summary["excess"].sel(curve=excess["curve"], calibrator=NONE)
