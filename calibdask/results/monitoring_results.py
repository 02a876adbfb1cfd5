"""What is watched over time, as a dataset whose variables say what they are."""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from calibdask import __version__
from calibdask.estimators.about import PartInfo
from calibdask.estimators.slice_totals import TOTALS
from calibdask.results.build import FORMAT, LEAST_PVALUE, variable_attributes

_BOUNDS = ("low", "high")

# What the numbers of `calibdask.watch` are, by the name of the variable.
OVER_TIME: Mapping[str, PartInfo] = {
    "log_e": PartInfo("logarithm of the e-process against calibration within the tolerance", "statistic"),
    "pvalue": PartInfo("p-value that holds at all periods together", "pvalue"),
    "alarm": PartInfo("whether the e-process has ever reached 1 / alpha", "choice"),
    "found": PartInfo("whether the slice is a discovery of e-BH at this period", "choice"),
    "since": PartInfo("the period from which on the evidence is largest", "choice"),
    "gap": PartInfo("mean outcome less mean score of all rows so far", "difference"),
    "error": PartInfo("mean absolute gap over 20 groups of scores of all rows so far", "error"),
    "log_detector": PartInfo("logarithm of the restarting detector", "statistic"),
    "detected": PartInfo("whether the restarting detector has reached 1 / alpha in this period", "choice"),
    "run_length": PartInfo("periods with rows since the detector was restarted", "count"),
    "period_gap": PartInfo("mean outcome less mean score of this period", "difference"),
    "period_pvalue": PartInfo("p-value of this period alone, for one look", "pvalue"),
}
# Those that are of all rows so far.
SO_FAR = (
    *("log_e", "pvalue", "alarm", "found", "since"),
    *("gap", "gap_low", "gap_high", "error", "error_low", "error_high"),
)

_MIX, _WITHIN = "by other shares of the slices", "by other gaps within the slices"
# What the numbers of `calibdask.attribute` are.
CHANGE: Mapping[str, PartInfo] = {
    "mix": PartInfo(f"change of the mean gap {_MIX}", "difference"),
    "within": PartInfo(f"change of the mean gap {_WITHIN}", "difference"),
    "total": PartInfo("change of the mean gap that the slice contributes", "difference"),
    "all_mix": PartInfo(f"change of the mean gap of all rows {_MIX}", "difference"),
    "all_within": PartInfo(f"change of the mean gap of all rows {_WITHIN}", "difference"),
    "all_total": PartInfo("change of the mean gap of all rows", "difference"),
    "rows_before": PartInfo("number of rows before", "count"),
    "rows_after": PartInfo("number of rows after", "count"),
    "gap_before": PartInfo("mean outcome less mean score before", "difference"),
    "gap_after": PartInfo("mean outcome less mean score after", "difference"),
}
_TOTALS = dict(
    zip(TOTALS, ("number of rows", "number of outcomes", "mean score", "frequency of the outcome"), strict=True)
)


def described(
    infos: Mapping[str, PartInfo],
    values: Mapping[str, npt.NDArray[Any]],
    dims: Sequence[Hashable],
    coordinates: Mapping[Hashable, Any],
    setting: str,
    class_dim: str,
    **attributes: Any,
) -> xr.Dataset:
    """The dataset of these values, by name; ends of an interval are called ``<name>_low`` and ``<name>_high``.

    Rows, events, mean score and frequency become coordinates.
    """
    variables, totals = {}, {}
    for name, array in values.items():
        if name in _TOTALS:
            totals[name] = xr.Variable(dims, array, {"meaning": _TOTALS[name]})
            continue
        metric, _, bound = name.rpartition("_")
        if bound not in _BOUNDS or metric not in infos:
            metric, bound = name, ""
        info = infos[metric].settled("number")
        said = variable_attributes(metric, "", info, bound=bound) | {"setting": setting}
        if classes := [dim for dim in dims if dim == class_dim]:
            said["own_dims"] = classes
        # The null hypothesis is never impossible.
        variables[name] = xr.Variable(dims, np.maximum(array, LEAST_PVALUE) if info.kind == "pvalue" else array, said)
    written = {"passes": 0, "calibdask_version": __version__, "setting": setting, "class_dim": class_dim}
    written |= {**attributes, "format": FORMAT}
    return xr.Dataset(variables, {**coordinates, **totals}, written)
