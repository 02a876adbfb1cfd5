"""Checks of the values read from a summary.

Scalars, types and rows are checked when a summary is opened, histograms and sums of scores when they are read, which is
before any number is computed from them.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

import numpy as np
import xarray as xr

from calibdask.statistics.bins.grid import MOST_ROWS, UNIT, GridState
from calibdask.statistics.bins.sparse_grid import SparseGridState
from calibdask.statistics.score_sums import ScoreSumsState

# More than those of the finest step.
_MOST_CELLS = 1 << 24
# Sums of weights in another order differ by rounding.
_ROUNDING = 1e-9
_CELLS_TOGETHER = 1 << 20
_NUMBERS = "iuf"
# Sums that overflow become negative.
_FROM_ZERO = "numbers from 0 on (a cell holds up to 2**33 rows; where there are more, keep slices apart)"


def check_format(name: str, formats: Any) -> None:
    """Raise ValueError unless the mark of a summary is a number, or several equal ones."""
    if formats.dtype.kind not in _NUMBERS or not np.isfinite(formats).all():
        _refuse(name, "the number of a format", _first_value(formats))


def check_opened(dataset: xr.Dataset, numbers: Iterable[str]) -> None:
    """Check scalars, the types of variables and the rows of slices.

    Parameters
    ----------
    dataset : xarray.Dataset
    numbers : iterable of str
        Variables of which numbers are read.

    Raises
    ------
    ValueError
        If a value is one that no pass over data writes.
    """
    variables = dataset.variables
    for name in dict.fromkeys(("classes", "cells", "rows", *numbers)):
        if variables[name].dtype.kind not in _NUMBERS:
            _refuse(name, "numbers", f"the type {variables[name].dtype}")
    if variables["vector"].dtype.kind not in f"b{_NUMBERS}" or not np.isin(variables["vector"], (0, 1)).all():
        _refuse("vector", "0 or 1", _first_value(variables["vector"].values))
    _check_range("classes", variables["classes"].values, 2, 1 << 31)
    _check_range("cells", variables["cells"].values, 1, _MOST_CELLS)
    rows = variables["rows"].values
    if not (rows == np.rint(rows)).all():
        _refuse("rows", "whole numbers", _first_value(rows[~(rows == np.rint(rows))]))
    _check_range("rows", rows, 0, 1 << 53)


def check_histogram(name: str, state: GridState, rows: Any) -> None:
    """Check the sums of cells, (1, groups, columns, cells, outcomes), and their total against the rows of slices."""
    for part, values in zip(("count", "offset", "square", "rows"), state, strict=True):
        check_sums(f"{name}_{part}", values)
    if not state.weighted and state.mass.max(initial=0) > MOST_ROWS:
        _refuse(f"{name}_count", _FROM_ZERO, str(state.mass.max()))
    full = state.mass.astype(np.float64) * (1.0 if state.weighted else 1 / UNIT)
    if (beyond := state.offset > full * (1 + (_ROUNDING if state.weighted else 0.0))).any():
        _refuse(f"{name}_offset", "positions from 0 to 1 in a cell", _first_value(state.offset[beyond]))
    part, counted = ("rows", state.rows) if state.weighted else ("count", state.mass)
    totals = counted.sum((-1, -2))
    expected = np.broadcast_to(np.reshape(rows, (1, -1, 1)), totals.shape)
    if (differ := totals != expected).any():
        _refuse(
            f"{name}_{part}",
            f"{_first_value(expected[differ])} rows in all cells of a slice",
            _first_value(totals[differ]),
        )


def check_occupied(name: str, state: SparseGridState, shape: Sequence[int], rows: Any) -> None:
    """As `check_histogram`, of the occupied cells of a histogram of this shape."""
    parts = ("count", "offset", "square", "rows")[: len(state.sums)]
    if not state.weighted and state.rows.max(initial=0) > MOST_ROWS:
        _refuse(f"{name}_count", _FROM_ZERO, str(state.rows.max()))
    totals = np.zeros(math.prod(shape[:3]))
    # Some cells at a time, so that checks need no memory beside the cells themselves.
    for start in range(0, state.at.size, _CELLS_TOGETHER):
        piece = slice(start, start + _CELLS_TOGETHER)
        for part, values in zip(parts, state.sums, strict=True):
            check_sums(f"{name}_{part}", values[piece])
        offset = state.sums[1][piece]
        full = state.sums[0][piece] * (1.0 + _ROUNDING if state.weighted else 1 / UNIT)
        if (beyond := offset > full).any():
            _refuse(f"{name}_offset", "positions from 0 to 1 in a cell", _first_value(offset[beyond]))
        stratum = state.at[piece] // math.prod(shape[3:])
        sums = np.bincount(stratum - stratum[0], state.rows[piece])
        totals[stratum[0] : stratum[0] + sums.size] += sums
    totals = totals.reshape(shape[1:3])
    expected = np.broadcast_to(np.reshape(rows, (-1, 1)), totals.shape)
    if (differ := totals != expected).any():
        _refuse(
            f"{name}_{parts[-1] if state.weighted else parts[0]}",
            f"{_first_value(expected[differ])} rows in all cells of a slice",
            _first_value(totals[differ].astype(np.int64)),
        )


def check_scores(state: ScoreSumsState, names: tuple[str, ...]) -> None:
    """Check the sums of proper scores under these names: clipped rows, weights, and both scores."""
    for name, values in zip(names, state[1:], strict=True):
        check_sums(name, values)
    if (beyond := state.clipped > state.rows).any():
        _refuse(names[0], "no more than the rows of a slice", _first_value(state.clipped[beyond]))


def check_segments(rows: Any, events: Any, total: int) -> None:
    """Check rows and outcomes of segments, (segments, cells); the first segment is all rows."""
    check_sums("segment_rows", rows)
    check_sums("segment_events", events)
    if (beyond := events > rows).any():
        _refuse("segment_events", "no more than the rows of a cell", _first_value(events[beyond]))
    if (found := int(rows[0].sum())) != total:
        _refuse("segment_rows", f"{total} rows in all segments of a subset", str(found))


def check_sums(name: str, values: Any) -> None:
    """Raise ValueError unless the values are finite and not negative."""
    fit = values >= 0 if values.dtype.kind != "f" else (values >= 0) & (values < np.inf)
    if not fit.all():
        _refuse(name, _FROM_ZERO, _first_value(values[~fit]))


def whole(values: Any) -> Any:
    """Whole numbers as int64: joins of summaries fill with what makes them floats."""
    if values.dtype.kind in "iu":
        return values.astype(np.int64)
    if values.dtype.kind != "f" or not ((values == np.rint(values)) & (abs(values) < 1 << 62)).all():
        raise ValueError("Sums of unweighted rows must be whole numbers; fill values that a join left missing with 0.")
    return values.astype(np.int64)


def _check_range(name: str, values: Any, low: int, high: int) -> None:
    wrong = ~((values >= low) & (values <= high))
    if wrong.any():
        _refuse(name, f"numbers from {low:,} to {high:,}", _first_value(np.asarray(values)[wrong]))


def _first_value(values: Any) -> str:
    """The first value."""
    return str(np.ravel(values)[0]) if np.size(values) else "none"


def _refuse(name: str, expected: str, found: str) -> NoReturn:
    raise ValueError(
        f"{name} of a summary expects {expected}, got {found}, which calibdask never writes: it is damaged, made by "
        "hand, or was lost in a join or a selection. Copy the summary again, or summarize the data again; fill values "
        "that a join left missing with 0."
    )
