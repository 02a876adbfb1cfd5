"""Totals that a summary carries, by which rows that were lost, or counted twice, are noticed."""

from collections.abc import Hashable, Sequence

import numpy as np
import xarray as xr

from calibdask.safe_text import listed

# Neither has a dimension of slices, so that sums over slices and selections leave them as they are, while additions of
# two summaries add them. A sum over models adds up the last one alone.
ROWS, PARTS, MODELS = "total_rows", "total_parts", "total_models"
TOTALS = (ROWS, PARTS, MODELS)
# Notes on the rows, which only summaries of newer versions have (`calibdask.engine.row_notes`).
NOTES = "row_notes"


def with_totals(dataset: xr.Dataset, batch: Sequence[Hashable]) -> xr.Dataset:
    """The summary with its rows for its total: ``total_rows`` (of each model), one part, one model."""
    counts = dataset.variables["rows"]
    rows = counts.sum([dim for dim in counts.dims if dim not in batch]).load()
    one = np.ones((), np.int64)
    return dataset.assign({ROWS: rows, PARTS: ((), one), MODELS: xr.full_like(rows, 1, np.int64)})


def with_fill(dataset: xr.Dataset) -> xr.Dataset:
    """The summary with a fill value for integers that none of its numbers has: a chunk of Zarr that is lost is seen."""
    for variable in dataset.variables.values():
        if variable.dtype.kind == "i":
            variable.encoding["fill_value"] = int(np.iinfo(variable.dtype).min)
    return dataset


def check_totals(dataset: xr.Dataset) -> None:
    """Refuse sums that have lost rows, or count them more than once.

    A selection of slices has fewer rows than the total too; what tells a sum that has lost some is that it has parts.

    Raises
    ------
    ValueError
        If slices were lost as summaries were added, or models were added up.
    """
    if missing := [name for name in TOTALS if name not in dataset]:
        raise ValueError(
            f"This summary has lost {listed(missing)}, which show whether rows are missing; keep them when selecting "
            "variables, or summarize the data again."
        )
    # What is no sum can have lost nothing: nearly all summaries, and the rest takes a millisecond.
    if any((dataset.variables[name].values != 1).any() for name in (PARTS, MODELS)):
        _check_sum(*(dataset.variables[name].astype(np.float64) for name in ("rows", *TOTALS)))
        if NOTES not in dataset.variables:
            raise ValueError(
                "This sum of summaries has lost the numbers of rows that were left out and the labels that count as "
                "negative: + of xarray drops them where they differ. Add summaries by calibdask.merge(a, b), calibdask "
                "merge at the shell, which adds them up."
            )
    if not dataset.variables["rows"].size:
        raise ValueError(
            "This summary has no slices left; to add summaries use calibdask.merge(a, b), which unites slices, as + of "
            "xarray keeps only common slices."
        )


def _check_sum(rows: xr.Variable, total: xr.Variable, parts: xr.Variable, models: xr.Variable) -> None:
    if (models > parts).any():
        raise ValueError(
            f"This summary adds up {float((models / parts).max()):g} models, or replicates, of the same rows, so every "
            "row is counted that many times; evaluate it without that sum, or select one of them, for example by "
            "isel(model=0)."
        )
    here = rows.sum([dim for dim in rows.dims if dim not in total.dims])
    if (lost := (parts > 1) & (here < total)).any():
        raise ValueError(
            f"This sum of summaries holds {int(here.where(lost, 0).max()):,} of the "
            f"{int(total.where(lost, 0).max()):,} rows that went into it: + of xarray keeps only the slices common to "
            "all summaries. Add them by calibdask.merge(a, b), calibdask merge at the shell, which unites slices; "
            "select slices of the result by sel or isel rather than where."
        )
