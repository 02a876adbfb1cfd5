"""The format of summaries: states of histograms on the grid as labelled variables that add up, and back."""

import json
import re
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from calibdask.engine.axes import Axis
from calibdask.engine.row_notes import RowNotes
from calibdask.safe_text import listed
from calibdask.statistics.bins.grid import Grid, GridHistogram, GridState, cells_of, support
from calibdask.statistics.bins.sparse_grid import SparseGridState
from calibdask.statistics.exact import Counts
from calibdask.statistics.lattice.lattice_sums import LatticeState
from calibdask.statistics.layout import Layout
from calibdask.statistics.score_sums import ScoreSumsState
from calibdask.statistics.settings import Setting
from calibdask.storage.checked_summary import (
    check_format,
    check_histogram,
    check_occupied,
    check_opened,
    check_scores,
    whole,
)
from calibdask.storage.sparse_cells import SparseCells, settled, sparse_cells
from calibdask.storage.summary_cluster_weights import CLUSTER_WEIGHTED, WEIGHT_PERIODS
from calibdask.storage.summary_clusters import BY_BUCKET, CLUSTER_BUCKET, CLUSTER_CELL, CLUSTER_DIMS, CLUSTER_ROWS
from calibdask.storage.summary_lattice import CELL as SEGMENT_CELL
from calibdask.storage.summary_lattice import CUTS, LATTICE, SEGMENT, Cuts, lattice_variables
from calibdask.storage.summary_scores import SCORES, WORD, WORD_UNIT, score_state, score_variables
from calibdask.storage.summary_totals import MODELS, NOTES, PARTS, TOTALS, check_totals, with_fill, with_totals

# Format 1 had neither totals nor the sums of proper scores.
FORMAT = 2
# Scalar coordinates say what the numbers mean: they outlive sums, selections and files, as attributes need not.
MARK = "calibdask_summary"
_SCALARS = (MARK, "classes", "vector", "cells")
_EXTRA = "extra_dims"
_PARTS = ("count", "offset", "square", "rows")
_PART_NAME = rf"_({'|'.join(_PARTS)})$"
# What the variables of a histogram are called, before its parts.
_HISTOGRAM = r"(confidence|classwise|class|top_k)(?:_(\d+))?(_support)?"


def histograms(settings: Iterable[Setting], classes: int, step: float) -> tuple[GridHistogram, ...]:
    """Histograms of a summary: for each setting one refined histogram on [0, 1], and one on its support if smaller."""
    cells = cells_of(step)
    kept = []
    for setting in settings:
        kept.append(GridHistogram(setting, Grid(cells, refined=True)))
        low = support(setting, classes)
        if low > 0:
            kept.append(GridHistogram(setting, Grid(cells, low)))
    return tuple(kept)


class SummaryAxes(NamedTuple):
    """The axes of a summary: models or replicates, slices, and the names of the classes."""

    batch: tuple[Axis, ...]
    by: tuple[Axis, ...]
    classes: Any = None


def to_dataset(
    stored: Iterable[tuple[GridHistogram, GridState | SparseGridState]],
    scores: ScoreSumsState,
    layout: Layout,
    axes: SummaryAxes,
    class_dim: Hashable,
    *,
    all_cells: bool = False,
) -> xr.Dataset:
    """States as variables ``<setting>_count`` and so on, on plain dimensions; states are used up.

    Of many small slices with their occupied cells alone, unless ``all_cells``.
    """
    dims_of_rows = (*axes.batch, *axes.by)
    variables: dict[str, xr.Variable] = {"rows": _variable(scores.rows, dims_of_rows, ())}
    coordinates: dict[Hashable, Any] = {axis.name: axis.labels for axis in dims_of_rows if axis.labels is not None}
    for histogram, state in stored:
        name, cell = _histogram_name(histogram), _cell(histogram.grid)
        dims: tuple[Hashable, ...] = (cell, "outcome")
        if histogram.setting.per_class:
            dims = (class_dim, *dims)
            coordinates[class_dim] = np.arange(layout.classes) if axes.classes is None else axes.classes
        coordinates["outcome"] = np.arange(2)
        if not histogram.grid.low:
            coordinates["cell_lower"] = (cell, histogram.grid.edges[:-1])
            coordinates["cell_upper"] = (cell, histogram.grid.edges[1:])
        arrays = _arrays(state, histogram, layout)
        # States may take most of the memory.
        del state
        for part, values in zip(_PARTS, arrays, strict=True):
            if values.shape[3]:
                kept = values if histogram.setting.per_class else values[:, :, 0]
                kept = np.asarray(kept) if all_cells else settled(kept, layout.groups)
                variables[f"{name}_{part}"] = _variable(kept, dims_of_rows, dims)
        cells = histogram.grid.cells
    sums, units = score_variables(scores)
    variables |= {name: _variable(values, dims_of_rows, dims) for name, (values, dims) in sums.items()}
    # Every model has histograms of all rows: such dimensions are no slices, and adding them up would count rows twice.
    batch = [str(axis.name) for axis in axes.batch]
    scalars = (FORMAT, layout.classes, np.int8(layout.vector), cells)
    coordinates |= units | {name: ((), value) for name, value in zip(_SCALARS, scalars, strict=True)}
    return with_fill(with_totals(xr.Dataset(variables, coordinates, extra_attributes(batch)), batch))


def with_clusters(summary: xr.Dataset, of_buckets: xr.Dataset, cells: Counts, batch: Sequence[Hashable]) -> xr.Dataset:
    """A summary with clusters: ``of_buckets`` is one whose last slices are the buckets.

    ``cells`` (1, groups, buckets, cells) are the rows by cell of the hash of their cluster.
    """
    names = [str(name) for name in of_buckets.data_vars if name not in TOTALS]
    variables = {f"{name}{BY_BUCKET}": of_buckets.variables[name] for name in names}
    dims = of_buckets.variables["rows"].dims
    shape = [of_buckets.sizes[dim] for dim in dims]
    slices = cells.reshape(*shape[len(batch) :], -1)
    variables[CLUSTER_ROWS] = xr.Variable(
        (*dims, CLUSTER_CELL), np.ascontiguousarray(np.broadcast_to(slices, (*shape, slices.shape[-1])))
    )
    buckets = {CLUSTER_BUCKET: np.arange(of_buckets.sizes[CLUSTER_BUCKET])}
    return with_fill(summary.assign(variables).assign_coords(buckets))


def with_lattice(summary: xr.Dataset, cuts: Cuts, state: LatticeState) -> xr.Dataset:
    """A summary without slices, with the sums of its rows by segment."""
    variables, coordinates = lattice_variables(cuts, state)
    return with_fill(summary.assign(variables).assign_coords(coordinates))


def check_names(names: Sequence[Hashable], class_dim: Hashable) -> None:
    """Refuse names of slices and dimensions that a summary has itself, or that no file can hold.

    Of a histogram whatever setting: summaries of several settings are merged.

    Raises
    ------
    ValueError
        If there is such a name.

    Examples
    --------
    >>> check_names(["country", "class_1_count"], "class")
    Traceback (most recent call last):
    ValueError: A summary has something called 'class_1_count' already; rename this slice or dimension.
    """
    own = {*_SCALARS, NOTES, "rows", "outcome", "cell", "support_cell", "cell_lower", "cell_upper", class_dim}
    own |= {*TOTALS, *SCORES, WORD, WORD_UNIT, *LATTICE, CUTS, SEGMENT, SEGMENT_CELL, *CLUSTER_DIMS, CLUSTER_ROWS}
    own |= {WEIGHT_PERIODS}
    for name in names:
        plain = str(name).removesuffix(BY_BUCKET).removesuffix(CLUSTER_WEIGHTED)
        is_own = plain in own or re.fullmatch(_HISTOGRAM + _PART_NAME, plain)
        if is_own or name in own or names.count(name) > 1:
            raise ValueError(f"A summary has something called {name!r} already; rename this slice or dimension.")
        if not str(name) or "/" in str(name):
            raise ValueError(
                f"A summary expects names of slices that files can hold, not empty and without '/', got {name!r}; "
                "rename this slice, in Python by a mapping: by={'name': values}."
            )


def is_marked(dataset: xr.Dataset) -> bool:
    """Whether this is a summary, or a sum of summaries of different formats, which has lost its mark."""
    return MARK in dataset.variables or set(_SCALARS[1:]) <= set(dataset.variables)


def extra_attributes(batch: Iterable[Hashable]) -> dict[str, str]:
    """The attribute that names the dimensions of models or replicates."""
    names = [str(name) for name in batch]
    return {_EXTRA: json.dumps(names)} if names else {}


def with_notes(dataset: xr.Dataset, notes: RowNotes) -> xr.Dataset:
    """The summary with notes on its rows; those with counts of several periods keep their number of rows."""
    own = notes if notes.joint else replace(notes, rows=rows_of(dataset))
    # Zarr has no specification of texts of fixed width.
    return dataset.assign_coords({NOTES: ((), np.array(own.to_text(), object))}).assign_attrs(own.attributes)


def stored_notes(dataset: xr.Dataset) -> RowNotes:
    """The notes of a summary; notes of summaries that were concatenated, or added by xarray, are merged."""
    if NOTES not in dataset.variables:
        return RowNotes(None)
    notes, parts = xr.broadcast(dataset[NOTES], dataset.get(PARTS, xr.DataArray(1)))
    pairs = zip(np.ravel(notes.values), np.ravel(parts.values), strict=True)
    return RowNotes.merged(RowNotes.from_text(str(text)).times(int(count)) for text, count in pairs)


def rows_of(dataset: xr.Dataset) -> int:
    """The number of rows of a summary; all models have the same."""
    return int(dataset["rows"].isel(dict.fromkeys(extra_dims(dataset), 0)).sum())


def extra_dims(dataset: xr.Dataset) -> tuple[str, ...]:
    """Dimensions of a summary that are models or replicates, not slices."""
    noted = set(json.loads(dataset.attrs.get(_EXTRA, "[]")))
    if MODELS in dataset:
        # Attributes are lost on the way; dimensions of summaries that were concatenated are those of parts too.
        noted |= set(dataset[MODELS].dims) - set(dataset[PARTS].dims)
    return tuple(str(name) for name in dataset["rows"].dims if name in noted)


def stored_states(dataset: xr.Dataset) -> dict[GridHistogram, Callable[[], GridState | SparseGridState]]:
    """The histograms of a summary, each with a function that reads and checks its state.

    Raises
    ------
    ValueError
        If the dataset has another format, or lacks variables or coordinates.
    """
    missing = [name for name in (*_SCALARS, "rows") if name not in dataset.variables]
    if MARK not in missing:
        check_format(MARK, dataset[MARK].values)
    formats = [int(value) for value in np.unique(dataset[MARK])] if MARK not in missing else []
    if unknown := [number for number in formats if number not in range(1, FORMAT + 1)]:
        raise ValueError(
            f"This version of calibdask reads summaries of formats up to {FORMAT}, this one has "
            f"{listed(unknown)}; use the version that wrote it, or summarize the data again."
        )
    if missing:
        raise ValueError(
            f"This summary has lost {listed(missing)}; select from summaries without dropping variables, and add "
            "them by calibdask.merge, as + of xarray drops variables that only one of them has."
        )
    numbers = [name for name in map(str, dataset.data_vars) if name in SCORES or re.search(_PART_NAME, name)]
    check_opened(dataset, numbers)
    if FORMAT in formats:
        check_totals(dataset)
    classes, cells = int(scalar(dataset, "classes")), int(scalar(dataset, "cells"))
    names = [str(name).removesuffix("_count") for name in dataset.data_vars if str(name).endswith("_count")]
    histograms = [_histogram(name, classes, cells) for name in names]
    return {histogram: partial(_state, dataset, histogram) for histogram in histograms}


def stored_scores(dataset: xr.Dataset) -> Callable[[], ScoreSumsState] | None:
    """A function that reads the sums of proper scores; None if there are none, as in format 1."""
    return partial(_scores, dataset) if set(SCORES) & set(dataset.data_vars) else None


def variables_of(dataset: xr.Dataset, histogram: GridHistogram) -> list[str]:
    """The variables that hold a histogram, in the order of the dataset."""
    own = {f"{_histogram_name(histogram)}_{part}" for part in _PARTS}
    return [str(name) for name in dataset.data_vars if name in own]


def class_labels(dataset: xr.Dataset) -> Any:
    """Labels of the classes along their dimension; None without such a dimension."""
    dims = _class_dims(dataset)
    return dataset[dims[0]].values if len(dims) == 1 and dims[0] in dataset.coords else None


def scalar(dataset: xr.Dataset, name: str) -> Any:
    """A scalar coordinate, equal in all summaries that were joined.

    Raises
    ------
    ValueError
        If it is not.
    """
    values = np.unique(dataset.variables[name])
    if values.size != 1:
        raise ValueError(f"These summaries are incompatible: {name} is {listed(values)}.")
    return values[0]


def _variable(values: Any, axes: tuple[Axis, ...], dims: tuple[Hashable, ...]) -> xr.Variable:
    """Values (batch, groups, ...) with these axes unfolded."""
    shape = (*(axis.size for axis in axes), *values.shape[2:])
    return xr.Variable((*(axis.name for axis in axes), *dims), values.reshape(shape))


def _class_dims(summary: xr.Dataset) -> list[Hashable]:
    """The dimension of classes, under whatever name."""
    known: set[Hashable] = {"cell", "support_cell", "outcome", WORD, SEGMENT, SEGMENT_CELL, *CLUSTER_DIMS}
    known |= {*summary.variables["rows"].dims}
    return [dim for dim in summary.dims if dim not in known]


def _cell(grid: Grid) -> str:
    return "support_cell" if grid.low else "cell"


def _histogram_name(histogram: GridHistogram) -> str:
    """Name of a histogram; classes and top-k carry their number."""
    setting = histogram.setting
    word = f"{setting.kind}_{setting.index}" if setting.kind in ("class", "top-k") else setting.kind
    return word.replace("-", "_") + ("_support" if histogram.grid.low else "")


def _histogram(word: str, classes: int, cells: int) -> GridHistogram:
    """The histogram of a name."""
    match = re.fullmatch(_HISTOGRAM, word)
    if match is None:
        raise ValueError(f"{word!r} is not a histogram setting of a summary; use one such as confidence.")
    kind, index, on_support = match.groups()
    setting = Setting(kind.replace("_", "-"), int(index or 0))  # type: ignore[arg-type]
    low = support(setting, classes) if on_support else 0.0
    return GridHistogram(setting, Grid(cells, low, refined=not on_support))


def _arrays(state: GridState | SparseGridState, histogram: GridHistogram, layout: Layout) -> Sequence[Any]:
    """The arrays of a state, (batch, groups, columns, cells, 2); of few occupied cells as arrays of these."""
    if isinstance(state, GridState):
        return state
    columns = histogram.setting.columns(layout.classes)
    shape = (layout.batch, layout.groups, columns, histogram.grid.size, 2)
    sums: list[Any] = [SparseCells(shape, state.at, values) for values in state.released()]
    if not state.weighted:
        none = np.zeros((*shape[:3], 0, 2))
        return [*sums, none, none]
    return [*sums[:3], sums[3].astype(np.int64)]


def _occupied(histogram: GridHistogram, parts: Sequence[SparseCells | None]) -> SparseGridState:
    """The state of sparse arrays with equal occupied cells."""
    mass, offset, square, rows = parts
    assert mass is not None
    assert offset is not None
    counted = mass if rows is None else rows
    fields = [part for part in (mass, offset, square, rows) if part is not None]
    dtype = np.int64 if rows is None else np.float64
    sums = np.zeros((len(fields), counted.at.size), dtype)
    for values, part in zip(sums, fields, strict=True):
        if part.at is counted.at or np.array_equal(part.at, counted.at):
            # Whole numbers need no copy to be checked.
            is_checked = dtype == np.float64 or part.values.dtype.kind in "iu"
            values[:] = part.values if is_checked else whole(part.values)
            continue
        # A sum of 0 is not kept.
        at = np.searchsorted(counted.at, part.at)
        fits = at < counted.at.size
        if not (fits.all() and (counted.at[at] == part.at).all()):
            raise ValueError(
                f"The variables of {_histogram_name(histogram)} of a summary expect sums in cells with rows alone; "
                "copy the summary again, or summarize the data again."
            )
        values[at] = whole(part.values) if dtype == np.int64 else part.values
    return SparseGridState(counted.at.astype(np.int64, copy=False), sums)


def _state(summary: xr.Dataset, histogram: GridHistogram) -> GridState | SparseGridState:
    """The state of a histogram, checked."""
    axes = summary.variables["rows"].dims
    sums = {part: _sums(summary, histogram, part, axes) for part in _PARTS}
    mass, offset, square, rows = sums.values()
    if mass is None or offset is None or (square is None) != (rows is None):
        lost = ", ".join(f"{_histogram_name(histogram)}_{part}" for part, values in sums.items() if values is None)
        raise ValueError(f"This summary has lost some of {lost}; select from summaries without dropping variables.")
    if any(isinstance(values, SparseCells) for values in (mass, offset, square, rows)):
        parts = [None if values is None else sparse_cells(values) for values in (mass, offset, square, rows)]
        occupied = _occupied(histogram, parts)
        check_occupied(_histogram_name(histogram), occupied, mass.shape, summary.variables["rows"].values)
        return occupied
    if square is None:
        none = np.zeros((*mass.shape[:3], 0, 2))
        state = GridState(whole(mass), whole(offset), none, none.astype(np.int64))
    else:
        state = GridState(mass.astype(np.float64), offset.astype(np.float64), square, whole(rows))
    check_histogram(_histogram_name(histogram), state, summary.variables["rows"].values)
    return state


def _scores(summary: xr.Dataset) -> ScoreSumsState:
    """The sums of proper scores, checked."""
    state = score_state(summary, whole)
    check_scores(state, SCORES)
    return state


def _sums(summary: xr.Dataset, histogram: GridHistogram, part: str, axes: tuple[Hashable, ...]) -> Any:
    """One variable as (1, groups, columns, cells, outcomes); None if it is not there."""
    name, cell = f"{_histogram_name(histogram)}_{part}", _cell(histogram.grid)
    if name not in summary.variables:
        return None
    classes = _class_dims(summary) if histogram.setting.per_class else []
    columns = histogram.setting.columns(int(scalar(summary, "classes")))
    sizes = (*(summary.sizes[dim] for dim in classes), summary.sizes.get(cell), summary.sizes.get("outcome"))
    expected = (*([columns] if histogram.setting.per_class else []), histogram.grid.size, 2)
    if sizes != expected or set(summary.variables[name].dims) != {*axes, *classes, cell, "outcome"}:
        raise ValueError(
            f"{name} expects all classes, cells and outcomes, sizes {expected}, got {sizes}; select and add slices of "
            "a summary, and choose a class by the setting of a metric."
        )
    for order in ("outcome", "cell_lower" if cell == "cell" else ""):
        if order in summary.variables and not (np.diff(summary.variables[order].values) > 0).all():
            raise ValueError(f"A summary expects its cells and outcomes in their order, and {order!r} does not rise.")
    values = summary.variables[name].transpose(*axes, *classes, cell, "outcome").data
    values = values if isinstance(values, SparseCells) else np.asarray(values)
    return values.reshape(1, -1, columns, histogram.grid.size, 2)
