"""Rows of several days, of which those of one country are off from some day on."""

from typing import Any

import numpy as np
import xarray as xr

import calibdask as cd

DAYS = np.arange("2026-01-01", "2026-01-31", dtype="datetime64[D]").astype("datetime64[ns]")
FROM = DAYS[18]


def drifted_rows(shift: float = 0.25, per_day: int = 300, days: Any = DAYS) -> tuple[Any, Any, dict[str, Any]]:
    """Labels, scores, and day, country and version of the model; country b is off from the 19th day on."""
    rng = np.random.default_rng(0)
    day = np.repeat(days, per_day)
    country = rng.choice(["a", "b", "c"], day.size)
    scores = rng.random(day.size)
    moved = np.where((country == "b") & (day >= FROM), shift, 0.0)
    labels = (rng.random(day.size) < np.clip(scores + moved, 0, 1)).astype(int)
    return labels, scores, {"day": day, "country": country, "version": np.where(day < DAYS[15], "v1", "v2")}


def drifted_summary(*names: str, **options: Any) -> xr.Dataset:
    """Their summary by these names, on a coarse grid."""
    labels, scores, by = drifted_rows(**options)
    return cd.summarize(labels, scores, by={name: by[name] for name in names}, settings=["binary"], step=0.003)
