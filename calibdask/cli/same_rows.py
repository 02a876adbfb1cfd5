"""Files of several models with the scores of the same rows, read together."""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from calibdask.cli.row_options import RowsRequest
    from calibdask.storage.readers import StoredRows, Table


def same_rows(
    command: str,
    requests: "Mapping[str, RowsRequest]",
    stored: "Mapping[str, StoredRows]",
    *,
    may_skip: bool = False,
) -> "dict[str, Table]":
    """The rows of all files by the name of the model; slices and weights are those of the first.

    With ``may_skip`` and ``--skip-missing`` rows that miss anything in one of the files are left out of all of them.

    Raises
    ------
    ValueError
        If labels differ: models are measured on the same rows in the same order.
    """
    skipping = any(request.skip_missing for request in requests.values())
    if skipping and not may_skip:
        raise click.UsageError(
            f"--skip-missing has no place in {command}: of each file other rows would be left out; leave the same rows "
            "out of all files first."
        )
    tables: dict[str, Table] = {}
    for name, request in requests.items():
        own = request if not tables else replace(request, by=(), weight=None)
        tables[name] = _sized(replace(own, skip_missing=False).table(stored[name]))
    name, *others = tables
    for other in others:
        _check_as_many(
            command, (requests[name].data, tables[name].labels), (requests[other].data, tables[other].labels)
        )
    if skipping:
        tables = _complete(tables, matrix=any(rows.holds == "column" for rows in stored.values()))
    for other in others:
        _check_same_rows(
            command, (requests[name].data, tables[name].labels), (requests[other].data, tables[other].labels)
        )
    return tables


def _complete(tables: "Mapping[str, Table]", *, matrix: bool) -> "dict[str, Table]":
    """The rows that are complete in all tables."""
    from calibdask.engine.inputs.missing import complete_rows, rows_at

    arrays = [{"y_true": one.labels, "y_prob": one.scores, "sample_weight": one.weights} for one in tables.values()]
    keep = complete_rows(arrays, matrix=matrix)
    every = keep.shape[0]
    return {
        name: _sized(
            replace(
                table,
                labels=rows_at(table.labels, keep),
                scores=rows_at(table.scores, keep),
                weights=rows_at(table.weights, keep),
                by={name: rows_at(values, keep) for name, values in table.by.items()},
                skipped=lambda rows: every - rows,
            )
        )
        for name, table in tables.items()
    }


def _sized(table: "Table") -> "Table":
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
            f"{others.shape[0]:,} of {other}. For different rows: calibdask evaluate {path} {other} --ci 0.95."
        )


def _check_same_rows(command: str, first: tuple[str, Any], second: tuple[str, Any]) -> None:
    """Raise ValueError for labels that differ: differences between models are those on the same rows."""
    (path, labels), (other, others) = first, second
    unequal = labels != others
    differing = (unequal if unequal.ndim == 1 else unequal.any(axis=1)).sum()
    if hasattr(differing, "dask"):
        from calibdask.engine.scheduler import scheduler

        differing = differing.compute(scheduler=scheduler())
    count = int(differing)
    if count:
        raise ValueError(
            f"{command} expects the same rows in the same order, but {count:,} of {labels.shape[0]:,} labels of {path} "
            f"and {other} differ. Sort both files alike; or, for different rows: calibdask evaluate {path} {other} "
            "--ci 0.95."
        )
