"""`merge`: summaries of different rows as one, whatever slices each of them has."""

import math
import warnings
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from calibdask import __version__
from calibdask.engine.row_notes import RowNotes, level_of_caller
from calibdask.statistics.bins.sparse_grid import MOST_BYTES
from calibdask.storage.checked_summary import check_sums, whole
from calibdask.storage.compatibility import check_compatible, shared_attributes
from calibdask.storage.slice_labels import positions, united
from calibdask.storage.sparse_cells import SparseCells, settled, sparse_cells
from calibdask.storage.summary import Summary
from calibdask.storage.summary_cluster_weights import CLUSTER_WEIGHTED, WEIGHT_PERIODS, weighted_names
from calibdask.storage.summary_clusters import BY_BUCKET, cluster_variables
from calibdask.storage.summary_format import FORMAT, MARK, extra_attributes, rows_of, stored_notes, with_notes
from calibdask.storage.summary_lattice import LATTICE
from calibdask.storage.summary_scores import SCORES, carried
from calibdask.storage.summary_totals import with_fill, with_totals


def merge(*summaries: xr.Dataset | Summary) -> xr.Dataset:
    """Merge summaries of different rows: slices are united, and common slices are added.

    Parameters
    ----------
    *summaries : xarray.Dataset
        Results of `calibdask.summarize`, in memory or opened from files, with the same settings, step, classes,
        dimensions of slices and models; either all or none with weights.

    Returns
    -------
    xarray.Dataset
        The summary of all rows. Labels along a dimension of slices are sorted, unless all summaries have the same
        labels in the same order; combinations that no summary has, such as a country on a day without it, have no rows.

    Raises
    ------
    TypeError
        If something is not a summary.
    ValueError
        If there are no summaries, if they are incompatible, or if one cannot be evaluated, for example because it is a
        sum that has lost slices.

    Notes
    -----
    Notes on the rows are merged as well: the labels that count as negative, and the numbers of rows that were left out
    (not known if earlier versions wrote a summary, or of a selection of slices).

    Without weights all sums are integers: the result is the same to the last bit in any order and grouping, and equal
    to the summary of all rows; with weights up to rounding. Two summaries of the same rows cannot be detected: give
    each summary only once. Memory: the result and one variable of one summary at a time.

    In plain xarray ``a + b`` keeps only the slices that both have, and no notes that differ; evaluating it raises an
    error if anything was lost.

    Examples
    --------
    >>> import calibdask as cd
    >>> monday = cd.summarize([0, 1], [0.2, 0.4], by={"day": ["mon", "mon"]}, settings=["binary"])
    >>> tuesday = cd.summarize([1, 1], [0.6, 0.8], by={"day": ["tue", "tue"]}, settings=["binary"])
    >>> both = cd.merge(monday, tuesday)
    >>> both.day.values.tolist(), cd.evaluate(both, metrics=cd.ECE(bins=2)).ece.values.round(6).tolist()
    (['mon', 'tue'], [0.2, 0.3])
    >>> round(float(cd.evaluate(both.sum("day"), metrics=cd.ECE(bins=2)).ece), 12)
    0.25
    """
    if not summaries:
        raise ValueError("merge expects at least one summary, got none.")
    merged = merged_summary([Summary.passed_to("merge", given) for given in summaries])
    stored_notes(merged).others.warn(of_summary=True)
    return merged


def merged_summary(parts: Sequence[Summary]) -> xr.Dataset:
    """As `merge`, without a warning of labels that count as negative."""
    first, *others = parts
    for other in others:
        check_compatible(first, other, "merge expects summaries")
    labels = {axis: _united(axis, parts) for axis in _axes(parts)}
    sums = {name: _added(name, parts, labels) for name in _names(parts)}
    coordinates = {
        name: coordinate.variable
        for name, coordinate in first.dataset.coords.items()
        if not {*coordinate.dims} & {*labels}
        and all(name in part.dataset and coordinate.variable.equals(part.dataset[name].variable) for part in parts)
    }
    # Labels of slices that are left where one of several was selected say nothing of the sum.
    coordinates |= {axis: index for axis, index in labels.items() if axis in first.dataset.coords}
    merged = with_totals(xr.Dataset(sums, coordinates, extra_attributes(first.batch)), first.batch)
    given_notes = (stored_notes(part.dataset).stored_of_rows(part.rows) for part in parts)
    notes = RowNotes.merged(given_notes).stored_of_rows(rows_of(merged))
    return with_fill(with_notes(carried(merged), notes).assign_coords({MARK: FORMAT})).assign_attrs(
        calibdask_version=__version__,
        **shared_attributes(first.dataset),
    )


def _axes(parts: Sequence[Summary]) -> list[Hashable]:
    """Models, then slices, in the order of all summaries or by their names."""
    orders = {tuple(part.dataset["rows"].dims) for part in parts}
    if len(orders) == 1:
        return list(orders.pop())
    return [*parts[0].batch, *sorted(parts[0].slices)]


def _united(axis: Hashable, parts: Sequence[Summary]) -> Any:
    """The labels of all summaries along a dimension; positions of models without labels.

    Raises
    ------
    ValueError
        If slices have no labels, or they cannot be compared.
    """
    indexes = [part.dataset.indexes.get(axis) for part in parts]
    first = indexes[0]
    if axis in parts[0].batch or len(parts) == 1:
        return np.arange(parts[0].dataset.sizes[axis]) if first is None else first.values
    labelled = [index for index in indexes if index is not None]
    if first is None or len(labelled) < len(indexes):
        raise ValueError(
            f"merge expects labels along the slices {axis!r}, to match equal slices; add them by assign_coords."
        )
    return united(axis, labelled, [part.dataset[axis].dtype for part in parts])


def _names(parts: Sequence[Summary]) -> list[str]:
    """The variables that are added up; proper scores only where all summaries have their sums."""
    without = [number for number, part in enumerate(parts) if part.source.scores is None]
    if 0 < len(without) < len(parts):
        listed = ", ".join(str(number + 1) for number in without)
        warnings.warn(
            f"Of these {len(parts)} summaries number {listed} has no sums of proper scores, which earlier versions did "
            "not write; the merged summary has none either.",
            stacklevel=level_of_caller(),
        )
    scores = [] if without else [name for name in SCORES if name in parts[0].dataset]
    lattice = LATTICE if parts[0].cuts is not None else ()
    # Earlier versions did not write them: `watch` says so of the result.
    have_weights = all(WEIGHT_PERIODS in part.dataset for part in parts)
    weighted = weighted_names(parts[0].dataset.data_vars) if have_weights else []
    return ["rows", *parts[0].histogram_variables, *scores, *lattice, *_cluster_names(parts[0], scores), *weighted]


def _cluster_names(part: Summary, scores: Sequence[str]) -> list[str]:
    """The variables of clusters, with sums of proper scores where all summaries have them."""
    without = {f"{name}{BY_BUCKET}" for name in SCORES if name not in scores}
    return [name for name in cluster_variables(part.dataset) if name not in without]


def _added(name: str, parts: Sequence[Summary], labels: Mapping[Hashable, Any]) -> xr.Variable:
    """One variable of all summaries, each added where its slices are."""
    own = [dim for dim in parts[0].dataset[name].dims if dim not in labels]
    # Numbers of periods lack models, and slices that are no periods.
    labels = {axis: index for axis, index in labels.items() if axis in parts[0].dataset[name].dims}
    sizes = [parts[0].dataset.sizes[dim] for dim in own]
    plain = name.removesuffix(BY_BUCKET).removesuffix(CLUSTER_WEIGHTED)
    is_weighted = name.endswith(CLUSTER_WEIGHTED) or parts[0].source.layout.weighted
    is_whole = plain == "rows" or plain.endswith("_rows") or not is_weighted
    shape = [*(len(index) for index in labels.values()), *sizes]
    arrays = [part.dataset.variables[name].data for part in parts if name in part.dataset]
    if any(isinstance(array, SparseCells) for array in arrays) or 8 * math.prod(shape) > MOST_BYTES:
        return xr.Variable((*labels, *own), _sparsely_added(name, parts, labels, own, shape, is_whole=is_whole))
    total = np.zeros(shape, np.int64 if is_whole else np.float64)
    for part in parts:
        values = _values(name, part, labels, own, sizes).values
        check_sums(name, values)
        at = [_positions(part, axis, index) for axis, index in labels.items()]
        _add_at(total, at, whole(values) if is_whole else values)
    return xr.Variable((*labels, *own), total)


def _values(
    name: str, part: Summary, labels: Mapping[Hashable, Any], own: Sequence[Hashable], sizes: Sequence[int]
) -> xr.Variable:
    """One variable of a summary, slices first.

    Raises
    ------
    ValueError
        If the summary has lost it.
    """
    array = part.dataset.get(name)
    if array is None or {*array.dims} != {*labels, *own} or [array.sizes[dim] for dim in own] != list(sizes):
        raise ValueError(f"A summary has lost {name} or a part of it; select only slices, without dropping variables.")
    return array.variable.transpose(*labels, *own)


def _sparsely_added(
    name: str,
    parts: Sequence[Summary],
    labels: Mapping[Hashable, Any],
    own: Sequence[Hashable],
    shape: Sequence[int],
    *,
    is_whole: bool,
) -> Any:
    """Add one variable like `_added`, keeping only nonzero numbers."""
    sizes = list(shape)[len(labels) :]
    total: Any = None
    for part in parts:
        one = sparse_cells(_values(name, part, labels, own, sizes).data)
        check_sums(name, one.values)
        if is_whole:
            one = SparseCells(one.shape, one.at, whole(one.values))
        places = [_positions(part, axis, index) for axis, index in labels.items()]
        moved = one.mapped([*places, *(None for _ in own)], shape)
        total = moved if total is None else total + moved
    return settled(total, math.prod(len(index) for axis, index in labels.items() if axis in parts[0].slices))


def _positions(part: Summary, axis: Hashable, labels: Any) -> npt.NDArray[np.intp]:
    """Where the slices of a summary are in the merged one."""
    own = part.dataset.indexes.get(axis)
    if own is None:
        return np.arange(len(labels))
    return positions(own.values, labels)


def _add_at(total: npt.NDArray[Any], at: Sequence[npt.NDArray[np.intp]], values: npt.NDArray[Any]) -> None:
    positions = np.ix_(*at)
    if all(np.unique(along).size == along.size for along in at):
        total[positions] += values
    else:
        # Summaries that were concatenated may have a slice several times.
        np.add.at(total, positions, values)
