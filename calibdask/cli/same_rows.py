"""Files of several models with the scores of the same rows, read together."""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from calibdask.cli.model_data import joined_on_key
from calibdask.safe_text import visible

if TYPE_CHECKING:
    from calibdask.cli.row_options import RowsRequest
    from calibdask.storage.readers import RowTable, StoredRows


def same_rows(
    command: str, requests: "Mapping[str, RowsRequest]", stored: "Mapping[str, StoredRows]"
) -> "dict[str, RowTable]":
    """The rows of all files by the name of the model; slices and weights are those of the first.

    With ``--skip-missing`` rows that lack anything in one of the files are left out of all of them.

    Raises
    ------
    ValueError
        If labels differ: models are measured on the same rows in the same order.
    """
    tables: dict[str, RowTable] = {}
    for name, request in requests.items():
        own = request if not tables else replace(request, by=(), weight=None)
        if own.key is not None:
            own = replace(own, by=(*own.by, own.key))
        tables[name] = _sized(own.table(stored[name]))
    key = next(iter(requests.values())).key
    if key is not None:
        from calibdask.storage.text_types import OFFSETS

        zones = {name: "UTC" if (zone := rows.zone_of(key)) == OFFSETS else zone for name, rows in stored.items()}
        if len(set(zones.values())) > 1:
            found = " and ".join(f"{zone or 'none'} in {name}" for name, zone in zones.items())
            raise click.UsageError(
                f"--key {key} expects timestamps of one time zone in all files, got {found}; convert them to one zone."
            )
        tables = joined_on_key(tables, key, _note)
    name, *others = tables
    for other in others:
        _check_as_many(
            command, (requests[name].data, tables[name].labels), (requests[other].data, tables[other].labels)
        )
    for other in others:
        if tables[name].skip_missing:
            tables[other] = _without_unlabelled(tables[other])
        _check_same_rows(
            command, (requests[name].data, tables[name].labels), (requests[other].data, tables[other].labels)
        )
    return tables


def _note(text: str) -> None:
    click.echo(f"calibdask: {visible(text)}", err=True)


def _without_unlabelled(table: "RowTable") -> "RowTable":
    """The table without the scores of rows that lack a label or a weight: these are left out of all models."""
    absent = _is_missing(table.labels)
    if table.weights is not None:
        absent = absent | _is_missing(table.weights)
    scores = table.scores.where(~absent) if hasattr(table.scores, "dims") else _blanked(table.scores, absent)
    return replace(table, scores=scores)


def _blanked(scores: Any, absent: Any) -> Any:
    import dask.array as da
    import numpy as np

    where = da.where if hasattr(scores, "dask") or hasattr(absent, "dask") else np.where
    marks = absent if scores.ndim == 1 else absent[:, None]
    return where(marks, scores.dtype.type(np.nan), scores)


def _is_missing(values: Any) -> Any:
    """Whether each value, or one of a row, is missing."""
    absent = _is_missing_value(values)
    return absent if absent.ndim == 1 else absent.any(axis=1)


def _is_missing_value(values: Any) -> Any:
    import pandas as pd

    return values.map_blocks(pd.isna, dtype=bool) if hasattr(values, "dask") else pd.isna(values)


def _sized(table: "RowTable") -> "RowTable":
    """The table with chunks of known sizes: those of several files could not be put together otherwise."""
    arrays = {"labels": table.labels, "scores": table.scores, "weights": table.weights}
    for name, array in arrays.items():
        if hasattr(array, "compute_chunk_sizes") and array.shape[0] != array.shape[0]:
            arrays[name] = array.compute_chunk_sizes()
    by = {
        name: values.compute_chunk_sizes() if hasattr(values, "compute_chunk_sizes") else values
        for name, values in table.by.items()
    }
    return replace(table, by=by, **arrays)


def _check_as_many(command: str, first: tuple[str, Any], second: tuple[str, Any]) -> None:
    """Raise ValueError for other numbers of rows."""
    (path, labels), (other, others) = first, second
    if labels.shape[0] != others.shape[0]:
        raise ValueError(
            f"{command} expects the same rows in the same order, got {labels.shape[0]:,} rows of {path} and "
            f"{others.shape[0]:,} of {other}. Join them on a column of both by --key COLUMN. For different rows: "
            f"calibdask evaluate {path} {other} --ci 0.95."
        )


def _check_same_rows(command: str, first: tuple[str, Any], second: tuple[str, Any]) -> None:
    """Raise ValueError for labels that differ: differences between models are those on the same rows."""
    from calibdask.engine.arrays import in_memory

    (path, labels), (other, others) = first, second
    # A missing label equals no other; such rows are left out, or are an error of their own.
    unequal = (labels != others) & ~_is_missing_value(labels) & ~_is_missing_value(others)
    differing = (unequal if unequal.ndim == 1 else unequal.any(axis=1)).sum()
    count = int(in_memory(differing))
    if count:
        raise ValueError(
            f"{command} expects the same rows in the same order, but {count:,} of {labels.shape[0]:,} labels of {path} "
            f"and {other} differ. Sort both files alike, or join them on a column of both by --key COLUMN; or, for "
            f"different rows: calibdask evaluate {path} {other} --ci 0.95."
        )
