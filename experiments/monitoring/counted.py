"""Summaries of streams whose rows are counted, not listed: 10^6 rows a day cost no more than 20."""

from functools import cache

import numpy as np
import xarray as xr

import calibdask as cd
from experiments.monitoring.kinds import SCORES


@cache
def _single_rows() -> xr.Dataset:
    """The summary of one row of each score and outcome, with the rows as slices."""
    outcomes, scores = np.tile([0, 1], SCORES.size), np.repeat(SCORES, 2)
    return cd.summarize(outcomes, scores, by={"row": np.arange(scores.size)}, settings=["binary"], step=0.01)


def summary_of(counts: xr.DataArray) -> xr.Dataset:
    """The summary of so many copies of rows, to the last bit that of the rows themselves.

    Summaries add: that of n equal rows is n times that of one.

    Parameters
    ----------
    counts : xarray.DataArray
        (..., score, outcome): numbers of rows of each of `SCORES` and outcome; leading dimensions become slices.
    """
    single = _single_rows()
    slices = counts.dims[:-2]
    copies = counts.values.reshape(*counts.shape[:-2], -1)
    variables: dict[str, xr.Variable] = {}
    for name, of_row in single.data_vars.items():
        if "row" in of_row.dims:
            variables[str(name)] = _added(copies, of_row.transpose("row", ...).variable, slices)
    # Of sums in two words the lower one is carried over.
    carry = round(float(single.word_unit[0] / single.word_unit[1]))
    for name, words in variables.items():
        if "word" in words.dims:
            high, low = words.values[..., 0], words.values[..., 1]
            variables[name] = words.copy(data=np.stack([high + low // carry, low % carry], -1))
    coordinates = single.drop_vars("row").coords | {name: counts[name] for name in slices if name in counts.coords}
    unchanged = {name: single[name] for name in ("total_parts", "total_models")}
    total = {"total_rows": single.total_rows.copy(data=counts.values.sum())}
    return xr.Dataset({**variables, **total, **unchanged}, coordinates, single.attrs)


def _added(copies: np.ndarray, of_row: xr.Variable, slices: tuple[object, ...]) -> xr.Variable:
    flat = of_row.values.reshape(copies.shape[-1], -1)
    # Each row is in one cell: most cells stay empty.
    used = np.flatnonzero(flat.any(0))
    values = np.zeros((*copies.shape[:-1], flat.shape[1]), flat.dtype)
    values[..., used] = copies @ flat[:, used]
    return xr.Variable((*slices, *of_row.dims[1:]), values.reshape(*copies.shape[:-1], *of_row.shape[1:]), of_row.attrs)
