"""A small summary of the cube: shares of streams with a signal, and how long it took."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from calibdask.storage.cube_layout import DONE
from experiments.monitoring.kinds import Floats
from experiments.monitoring.study import LASTING


def of_monitoring(cube: xr.Dataset, parameters: Mapping[str, Any]) -> xr.Dataset:
    """A summary of a cube of the study `Monitoring`; numbers of rows that are not done are left out.

    By rows, kind and monitor: ``ever``, the share of streams with a signal on any look, ``before``, on one before the
    change; ``often``, the mean share of looks with a signal; ``delay`` and ``delay_90``, the smallest number of looks
    from the change on within which half and 90 % of the streams have a signal, inf if there is none, and ``missed``,
    the share of streams without one. Streams whose e-process has raised its alarm before the change are left out of
    these three, which are NaN if that leaves none. ``by_look`` (kind, monitor, look) is the share of the streams of all
    numbers of rows that have had a signal by then.

    By rows and kind: ``since``, the median of the days from the change to where the e-process dates it, of the streams
    with an alarm; ``outside``, the share of streams whose confidence sequence was ever wrong.
    """
    done = cube.drop_vars("error", errors="ignore").isel(rows=np.flatnonzero(cube["status"].values == DONE)).load()
    looks, change = int(parameters["looks"]), int(parameters["change"])
    first, caught = done["first"], done["caught"]
    lasts = xr.DataArray(np.isin(done["monitor"].values, LASTING), dims="monitor")
    counted = ~(lasts & (first <= change))
    delay = caught.fillna(np.inf).where(counted)
    look = np.arange(1, looks + 1)
    by_look = xr.concat([(first <= number).mean(["rows", "replicate"]) for number in look], "look")
    shares = {
        "ever": first.notnull().mean("replicate"),
        "before": (first <= change).mean("replicate"),
        "often": done["signals"].mean("replicate"),
        "delay": xr.apply_ufunc(_within, delay, 0.5, input_core_dims=[["replicate"], []]),
        "delay_90": xr.apply_ufunc(_within, delay, 0.9, input_core_dims=[["replicate"], []]),
        "missed": caught.isnull().where(counted).mean("replicate"),
        "since": done["since"].median("replicate"),
        "outside": done["outside"].mean("replicate"),
        "by_look": by_look.transpose("kind", "monitor", "look"),
    }
    kept = {name: parameters[name] for name in ("looks", "change", "history", "window", "alpha", "tolerance")}
    cells = {"cells": cube["status"].size, "cells_done": done.sizes["rows"], "streams": done.sizes["replicate"]}
    return xr.Dataset(shares, {"look": look}, kept | cells).astype(np.float32)


def _within(values: Floats, share: float) -> Floats:
    """The smallest value that this share of the values along the last axis does not exceed; NaN if all are NaN."""
    ordered = np.sort(values, axis=-1)
    rank = np.maximum(np.ceil(share * (~np.isnan(values)).sum(-1)).astype(int) - 1, 0)
    return np.asarray(np.take_along_axis(ordered, rank[..., None], -1)[..., 0])
