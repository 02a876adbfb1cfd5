"""Columns of a container that the user names become labels, scores, weights and slices."""

from collections.abc import Mapping, Sequence
from typing import Any

import xarray as xr

from calibdask.data.clusters import may_identify
from calibdask.data.containers import DaskColumns, MemoryColumns, StreamColumns
from calibdask.data.frames import FRAME, aligned
from calibdask.data.options import InputOptions
from calibdask.data.streams import RowStream
from calibdask.storage.columns import ColumnNames, alike_classes, choose_columns, unknown
from calibdask.storage.readers import identifier_names
from calibdask.storage.row_table import RowTable

_WHERE = "The frame"


def named_columns(
    frame: Any,
    columns: MemoryColumns | DaskColumns | StreamColumns,
    by: Any,
    sample_weight: Any,
    options: InputOptions,
) -> RowTable:
    """Rows from named or guessed columns; a mapping of scores gives several models.

    Of a lazy frame, a relation or a reader the labels are a stream that has scores and weights too.

    Raises
    ------
    ValueError
        If columns do not exist, or several could be meant.
    """
    by, sample_weight, groups = _in_order_of(frame, by, sample_weight, options.groups)
    slicing = _slicing(by, columns.names)
    weight = sample_weight if isinstance(sample_weight, str) else None
    clusters = groups if _is_name(groups) else None
    used = [column for column in (*slicing.values(), weight, clusters) if _is_name(column)]
    for name in used:
        if name not in columns.names:
            raise unknown(_WHERE, "column", name, columns.names)
    models = options.score if isinstance(options.score, Mapping) else {"": options.score}
    names = alike_classes(
        {
            model: choose_columns(columns.names, options.label, score, _WHERE, used=used)
            for model, score in models.items()
        }
    )
    first = next(iter(names.values()))
    if isinstance(columns, StreamColumns):
        if groups is not None and clusters is None:
            raise ValueError("groups of a lazy frame, a relation or a reader expects the name of one of its columns.")
        own = names if isinstance(options.score, Mapping) else {}
        return _streamed(columns, first, slicing, weight, sample_weight, own, clusters)
    dims = (options.sample_dims[0], options.class_dim)
    labels = columns.matrix(first.labels, None, dims)
    scores = {model: columns.matrix(one.scores, one.classes, dims) for model, one in names.items()}
    slices = {name: columns.slicing(column) if _is_name(column) else column for name, column in slicing.items()}
    weights = sample_weight if weight is None else columns.values(weight)
    if clusters is not None:
        groups = columns.slicing(clusters)
    several = isinstance(options.score, Mapping)
    checked = {}
    if options.checks_clusters and not isinstance(frame, xr.Dataset):
        others = identifier_names(columns.names, [*used, *(one for name in names.values() for one in name.columns)])
        checked = {name: values for name in others if may_identify(values := columns.slicing(name))}
    return RowTable(
        labels, scores if several else scores[""], weights, slices, first, groups=groups, identifiers=checked
    )


def _in_order_of(frame: Any, by: Any, sample_weight: Any, groups: Any) -> tuple[Any, Any, Any]:
    """Slices, weights and clusters, those that are series of pandas in the order of the index of the frame."""
    names = {name: f"by {name!r}" for name in by} if isinstance(by, Mapping) else {}
    arrays = {FRAME: frame, "sample_weight": sample_weight, "groups": groups}
    rows = aligned(arrays | {names[name]: by[name] for name in names})
    slices = {name: rows[argument] for name, argument in names.items()} if names else by
    return slices, rows["sample_weight"], rows["groups"]


def _slicing(by: Any, names: Sequence[Any]) -> dict[Any, Any]:
    """Slicing variables by name: their columns, or arrays."""
    if by is None:
        return {}
    if isinstance(by, Mapping):
        return dict(by)
    if isinstance(by, str) or not isinstance(by, list | tuple):
        by = [by]
    if not all(_is_name(name) for name in by):
        raise ValueError("by expects names of columns of the frame, or a mapping from names to columns or arrays.")
    return {name: name for name in by}


def _is_name(column: Any) -> bool:
    return isinstance(column, str | int)


def _streamed(
    columns: StreamColumns,
    names: ColumnNames,
    slicing: dict[Any, Any],
    weight: Any,
    sample_weight: Any,
    models: Mapping[Any, ColumnNames],
    clusters: Any,
) -> RowTable:
    if (sample_weight is not None and weight is None) or not all(map(_is_name, slicing.values())):
        raise ValueError("by and sample_weight of a lazy frame, a relation or a reader expect names of its columns.")
    stream = RowStream(columns.batches, names, weight, models=models, groups=clusters)
    return RowTable(stream, None, None, slicing, names)
