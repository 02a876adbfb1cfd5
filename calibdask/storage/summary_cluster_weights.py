"""Summaries with clusters: histograms in which each cluster counts once in each period.

Each of the m rows of one cluster within a period has the weight 1 / m. The histograms of these weights are variables as
those of a summary with weights, ``confidence_count_cluster_weighted`` and so on: a few hundredths of the buckets.
``cluster_weight_periods`` counts, by the slices of the period, the periods in which weights were counted and whose rows
are added up here: the weights of one cluster add up to this number at most.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from calibdask.storage.checked_summary import check_sums, whole
from calibdask.storage.period_labels import are_periods
from calibdask.storage.summary_scores import SCORES
from calibdask.storage.summary_totals import TOTALS, with_fill

# Ends the names of these histograms.
CLUSTER_WEIGHTED = "_cluster_weighted"
WEIGHT_PERIODS = "cluster_weight_periods"
# Names of periods, the likeliest first.
_NAMES = ("period", "day", "date", "hour", "week", "month", "quarter", "year")


def weighted_period(slices: Mapping[str, npt.NDArray[Any]]) -> str | None:
    """Find the slice of periods (a cluster counts once in each of them), or None.

    It has the name of a period, or labels that are dates; best both. Others, such as an hour of the day or the month of
    a cohort, divide a period and are none.

    Examples
    --------
    >>> dates = np.array(["2026-11", "2026-12"])
    >>> weighted_period({"hour": np.arange(24), "day": np.arange(3), "cohort": dates})
    'day'
    >>> weighted_period({"country": np.array(["de"]), "when": dates})
    'when'
    """
    ranks = {}
    for name, labels in slices.items():
        named, dated = name.lower() in _NAMES, are_periods(labels)
        if named or dated:
            ranks[name] = (not (named and dated), not named, _NAMES.index(name.lower()) if named else 0)
    return min(ranks, key=ranks.__getitem__, default=None)


def weighted_names(names: Iterable[Hashable]) -> list[str]:
    """Names of the variables with weights of clusters; empty without clusters."""
    return [str(name) for name in names if str(name).endswith(CLUSTER_WEIGHTED) or name == WEIGHT_PERIODS]


def with_cluster_weights(
    summary: xr.Dataset, weighted: xr.Dataset, period: str | None, batch: Sequence[Hashable]
) -> xr.Dataset:
    """A summary with the histograms of ``weighted``, in which clusters count once in each label of this slice."""
    without = {"rows", *TOTALS, *SCORES}
    variables = {f"{name}{CLUSTER_WEIGHTED}": weighted.variables[name] for name in weighted.data_vars}
    variables = {name: one for name, one in variables.items() if name.removesuffix(CLUSTER_WEIGHTED) not in without}
    rows = summary.variables["rows"].isel(dict.fromkeys(batch, 0))
    rows = rows.sum([dim for dim in rows.dims if dim != period])
    return with_fill(summary.assign(variables | {WEIGHT_PERIODS: (rows > 0).astype(np.int64)}))


def cluster_weighted(dataset: xr.Dataset) -> xr.Dataset | None:
    """The summary in which each cluster counts once, or None if weights are missing. Sums of scores are of rows."""
    own = [name for name in weighted_names(dataset.data_vars) if name != WEIGHT_PERIODS]
    if WEIGHT_PERIODS not in dataset.data_vars or not own:
        return None
    kept = [name for name in ("rows", *TOTALS, *SCORES, WEIGHT_PERIODS) if name in dataset]
    return dataset[[*kept, *own]].rename({name: name.removesuffix(CLUSTER_WEIGHTED) for name in own})


def weight_periods(dataset: xr.Dataset, dims: Sequence[Hashable], batch: Sequence[Hashable]) -> npt.NDArray[np.int64]:
    """The most that the weights of one cluster add up to, along these dimensions of slices: 1 or more.

    Where other slices than these are the periods of the weights, only those of their labels with rows add up.
    """
    variable = dataset.variables[WEIGHT_PERIODS]
    check_sums(WEIGHT_PERIODS, variable.values)
    if pooled := [dim for dim in variable.dims if dim not in dims]:
        rows = dataset.variables["rows"].isel(dict.fromkeys(batch, 0))
        rows = rows.sum([dim for dim in rows.dims if dim not in {*variable.dims, *dims}])
        variable = (variable * (rows > 0)).sum(pooled)
    sizes = {dim: dataset.sizes[dim] for dim in dims}
    return np.maximum(whole(variable.set_dims(sizes).transpose(*dims).values), 1)
