"""Results of a watch as text for Prometheus' textfile collector, also valid OpenMetrics."""

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import xarray as xr

from calibdask.analyses.monitoring.alarms import WatchResult, slice_key, slice_labels
from calibdask.analyses.monitoring.due_dates import dates_of

_PREFIX = "calibdask_watch"
# All are gauges: the names of counters differ between the two formats. Help texts need no escapes.
_OF_SLICES = {
    "alarm": "1 from an alarm on, 0 before.",
    "log_e": "Logarithm of the e-process against calibration within the tolerance.",
    "pvalue": "P-value that is valid at all periods.",
    "gap": "Observed rate minus mean prediction of all rows so far.",
    "gap_low": "Lower end of the confidence sequence of the gap.",
    "gap_high": "Upper end of the confidence sequence of the gap.",
    "error": "Mean absolute gap over 20 groups of scores of all rows so far.",
    "error_low": "Lower end of the confidence sequence of the error.",
    "error_high": "Upper end of the confidence sequence of the error.",
    "rows": "Rows watched so far.",
}
_OF_ALL = {
    "periods": "Periods watched so far.",
    "last_period_timestamp_seconds": "Begin of the last period that was watched.",
    "pending_periods": "Periods whose outcomes are not due yet.",
    "pending_rows": "Rows of these periods.",
    "late_periods": "Periods ignored because they arrived after later periods were monitored.",
}
_OWN = ("summary", "setting", "tolerance")


def exposition(dataset: xr.Dataset) -> str:
    """Gauges of every slice and of the whole, of a result of `calibdask.watch`.

    The text is valid as version 0.0.4 of Prometheus' format, where ``# EOF`` is a comment, and as OpenMetrics.
    """
    return "".join(f"{line}\n" for line in (*_lines(WatchResult.of(dataset)), "# EOF"))


def _lines(run: WatchResult) -> Iterator[str]:
    watched, alarmed = run.saved.watched, {slice_key(alarm["by"]) for alarm in run.alarms}
    own = dict(zip(_OWN, (run.name, watched.setting, f"{watched.tolerance:g}"), strict=True))
    standing = run.standing
    dims = standing["log_e"].dims
    positions = list(np.ndindex(*standing["log_e"].shape)) if run.saved.periods.size else []
    slices = [slice_labels(standing, dict(zip(dims, at, strict=True))) for at in positions]
    names = _label_names([str(dim) for dim in dims])
    labels = [_labels(own | {names[dim]: label for dim, label in by.items()}) for by in slices]
    for metric, help_text in _OF_SLICES.items():
        if metric == "alarm":
            values = np.array([slice_key(by) in alarmed for by in slices], np.float64)
        else:
            values = np.asarray(standing[metric].values, np.float64).ravel()[: len(slices)]
        yield from _family(metric, help_text, dict(zip(labels, values.tolist(), strict=True)))
    for metric, value in _whole(run).items():
        yield from _family(metric, _OF_ALL[metric], {_labels(own): value})


def _whole(run: WatchResult) -> dict[str, float]:
    pending = run.pending
    values: dict[str, float] = {"periods": run.saved.periods.size}
    if run.saved.periods.size and (last := dates_of(run.saved.periods[-1:])) is not None:
        values["last_period_timestamp_seconds"] = float(last.astype("datetime64[s]").astype(np.int64)[0])
    values |= {"pending_periods": len(pending), "pending_rows": sum(period["rows"] for period in pending)}
    return values | {"late_periods": len(run.late)}


def _family(metric: str, help_text: str, values: Mapping[str, float]) -> Iterator[str]:
    """The description of a metric and its samples; a number that does not exist has none."""
    name = f"{_PREFIX}_{metric}"
    yield f"# HELP {name} {help_text}"
    yield f"# TYPE {name} gauge"
    for labels, value in values.items():
        if math.isfinite(value):
            yield f"{name}{labels} {int(value) if value == int(value) else value!r}"


def _labels(labels: Mapping[str, Any]) -> str:
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items()) + "}"


def _escaped(value: Any) -> str:
    text = "" if value is None else str(value)
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def _label_names(dims: list[str]) -> dict[str, str]:
    """Names of labels, of letters, digits and underscores, that none of the others has."""
    names: dict[str, str] = {}
    for dim in dims:
        name = re.sub(r"\W", "_", dim, flags=re.ASCII).lstrip("_") or "slice"
        name = f"_{name}" if name[0].isdigit() else name
        while name in (*_OWN, *names.values()):
            name += "_"
        names[dim] = name
    return names
