"""Computation steps of the page of a summary, and the fast measurements of each selection."""

from collections.abc import Callable
from dataclasses import dataclass
from time import sleep
from typing import Any

import xarray as xr

from calibdask.explore.cancellation import Cancelled, CancelToken
from calibdask.storage.summary import Summary


@dataclass(frozen=True, eq=False)
class PageStep:
    """A step: its computation, the metrics whose intervals it adds, and how to show the result."""

    description: str
    names: tuple[str, ...]
    compute: Callable[[CancelToken], Any]
    show: Callable[[Any], object]
    is_ranking: bool = False


@dataclass(frozen=True, eq=False)
class Measurement:
    """One selection: its summary, that with all settings (for own metrics), the result, and why metrics are missing."""

    pooled: Summary
    complete: Summary
    result: xr.Dataset
    reasons: dict[str, str]


def after(pause: float, token: CancelToken, job: Callable[[CancelToken], Any]) -> Any:
    """Run a job after a pause, unless it has been cancelled by then."""
    sleep(pause)
    if token.is_cancelled():
        raise Cancelled
    return job(token)
