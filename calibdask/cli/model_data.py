"""The data of several models at the shell: files side by side, score columns of one file, rows joined on a key."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any

import click

from calibdask.cli.data_names import named_data
from calibdask.cli.rows_request import RowsRequest, rows_of
from calibdask.safe_text import visible

if TYPE_CHECKING:
    from calibdask.cli.rows_request import RowsRequest
    from calibdask.storage.open_store import Store
    from calibdask.storage.readers import StoredRows
    from calibdask.storage.row_table import RowTable


def check_one_model(command: str, request: RowsRequest) -> None:
    """Raise UsageError for ``--score NAME=COLUMN``, which names several models, at a command of one."""
    if score_models(request.score) is not None:
        raise click.UsageError(f"{command} expects the scores of one model: --score COLUMN, without NAME=.")


def score_models(score: Any) -> dict[str, str] | None:
    """The score columns of several models by their names, of ``--score NAME=COLUMN``; None for other columns.

    Raises
    ------
    click.UsageError
        If only some columns have names, or two have the same.

    Examples
    --------
    >>> score_models(["old=p_a", "new=p_b"]), score_models("p_a")
    ({'old': 'p_a', 'new': 'p_b'}, None)
    """
    columns = score if isinstance(score, list) else [] if score is None else [score]
    named = [column.partition("=") for column in columns if "=" in column.strip("=")]
    if not named:
        return None
    several = next((column for column in columns if any("=" in part for part in column.split(",")[1:])), None)
    if several is not None:
        repeated = " ".join(f"--score {part}" for part in several.split(","))
        raise click.UsageError(f"--score NAME=COLUMN is repeated for each model: {repeated}.")
    if len(named) < len(columns):
        raise click.UsageError("--score NAME=COLUMN must name the model of every column or of none.")
    models = {name: column for name, _, column in named}
    if len(models) < len(named):
        raise click.UsageError(f"--score expects different names of models, got {', '.join(columns)}.")
    return models


_KINDS = {"M": "times", **dict.fromkeys("iufb", "numbers")}


@dataclass(frozen=True)
class ModelPlace:
    """Where the scores of a model are: a file, and a column of it where several models share the file."""

    path: str
    score: Any


def model_places(data: tuple[str, ...], score: Any) -> dict[str, ModelPlace]:
    """Where the scores of each model are: of each DATA, or of each ``--score NAME=COLUMN`` of one.

    Raises
    ------
    click.UsageError
        If there are several DATA with several columns.
    """
    files = named_data(data)
    models = score_models(score)
    if models is None:
        return {name: ModelPlace(path, score) for name, path in files.items()}
    if len(files) > 1:
        raise click.UsageError("--score NAME=COLUMN names models of one DATA, got several DATA.")
    (path,) = files.values()
    return {name: ModelPlace(path, column) for name, column in models.items()}


def model_requests(data: tuple[str, ...], where: Mapping[str, Any]) -> dict[str, RowsRequest]:
    """A request for the rows of each model."""
    places = model_places(data, where["score"])
    return {name: RowsRequest(data=place.path, **{**where, "score": place.score}) for name, place in places.items()}


def with_maps(requests: dict[str, RowsRequest], maps: tuple[str, ...]) -> dict[str, RowsRequest]:
    """The models, and the first one once more for each ``[NAME=]MAP``, recalibrated by this map.

    Raises
    ------
    click.UsageError
        If a map and a model have the same name.
    """
    if not maps:
        return requests
    models = {name: replace(request, as_probabilities=True) for name, request in requests.items()}
    first = next(iter(requests.values()))
    for name, path in named_data(maps).items():
        if name in models:
            raise click.UsageError(f"--map {path} and a model would both be called {name!r}; use --map NAME={path}.")
        models[name] = replace(first, map_path=path)
    return models


def joined_on_key(tables: "Mapping[str, RowTable]", key: str, note: Any) -> "dict[str, RowTable]":
    """The rows that all tables have, in the order of the first; ``key`` is among the slices of each, and goes.

    ``note`` is told how many rows of a table have no partner.

    Raises
    ------
    ValueError
        If values of the key are missing or repeated, or no row is in all tables.
    """
    import pandas as pd

    from calibdask.engine.arrays import in_memory

    values = {name: pd.Index(in_memory(table.by[key])) for name, table in tables.items()}
    for name, index in values.items():
        if index.hasnans:
            raise ValueError(f"--key {key} expects a value in every row, some are missing in {name}.")
        if not index.is_unique:
            twice = index[index.duplicated()].tolist()[0]
            raise ValueError(f"--key {key} expects different values in all rows, got {twice!r} twice in {name}.")
    _check_key_types(tables, key)
    first, *others = values.values()
    common = first
    for other in others:
        common = common[common.isin(other)]
    if not len(common):
        raise ValueError(f"--key {key} expects rows with the same values in all files, got none.")
    joined = {}
    for name, table in tables.items():
        positions = values[name].get_indexer(common)
        if len(positions) < len(values[name]):
            note(f"left out {len(values[name]) - len(positions):,} rows of {name}, whose {key} is not in all files")
        joined[name] = _rows_at(table, positions, key)
    return joined


def _check_key_types(tables: "Mapping[str, RowTable]", key: str) -> None:
    """Raise ValueError if the key is text in one table and numeric in another: no values would match."""
    kinds = {name: _KINDS.get(table.by[key].dtype.kind, "texts") for name, table in tables.items()}
    if len(set(kinds.values())) > 1:
        found = " and ".join(f"{kind} in {name}" for name, kind in kinds.items())
        raise ValueError(
            f"--key {key} expects values of one type in all files, got {found}; write the column as text in all of "
            "them, with the same leading zeros."
        )


def _rows_at(table: "RowTable", positions: Any, key: str) -> "RowTable":
    """The rows at these positions, without the key."""
    return replace(
        table,
        labels=table.labels[positions],
        scores=table.scores[positions],
        weights=None if table.weights is None else table.weights[positions],
        by={name: values[positions] for name, values in table.by.items() if name != key},
        groups=None if table.groups is None else table.groups[positions],
        identifiers={name: values[positions] for name, values in table.identifiers.items() if name != key},
    )


def same_rows(
    command: str, requests: "Mapping[str, RowsRequest]", stored: "Mapping[str, StoredRows]"
) -> "dict[str, RowTable]":
    """Tables of all files by model name; slices and weights come from the first.

    With ``--skip-missing`` rows that lack anything for one of the models are left out of all of them.

    Raises
    ------
    ValueError
        If labels differ: models are measured on the same rows in the same order.
    click.UsageError
        If there is a key, but a single file.
    """
    check_key(requests)
    share_a_file = len({request.data for request in requests.values()}) == 1
    tables: dict[str, RowTable] = {}
    for name, request in requests.items():
        own = request if not tables else replace(request, by=(), weight=None)
        if own.key is not None:
            own = replace(own, by=(*own.by, own.key))
        table = own.table(stored[name])
        # Columns of one file have the same chunks, whether their sizes are known or not.
        tables[name] = table if share_a_file else _sized(table)
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
    if not share_a_file:
        labels = {name: (requests[name].data, table.labels) for name, table in tables.items()}
        first, *others = labels.values()
        for other in others:
            _check_as_many(command, first, other)
        for other in others:
            _check_same_rows(command, first, other, key)
    return _of_common_rows(tables) if any(table.skip_missing for table in tables.values()) else tables


def side_by_side(
    command: str, requests: "Mapping[str, RowsRequest]", stored: "Mapping[str, Store]"
) -> "dict[str, RowTable]":
    """Rows of models that are columns of a file or joined on a key; none for other models.

    Raises
    ------
    ValueError, click.UsageError
        As `same_rows`; or if a stored summary is to be joined.
    """
    check_key(requests)
    first, *others = requests.values()
    if not others or (first.key is None and len({request.data for request in requests.values()}) > 1):
        return {}
    tables = same_rows(command, requests, {name: rows_of(store) for name, store in stored.items()})
    of_all = next(iter(tables.values()))
    return {name: replace(table, by=of_all.by, weights=of_all.weights) for name, table in tables.items()}


def check_key(requests: "Mapping[str, RowsRequest]") -> None:
    """Raise UsageError for a key where there is one file."""
    if next(iter(requests.values())).key is not None and len({request.data for request in requests.values()}) == 1:
        raise click.UsageError("--key has no effect on one DATA: it joins the rows of several.")


def _note(text: str) -> None:
    click.echo(f"calibdask: {visible(text)}", err=True)


def _of_common_rows(tables: "Mapping[str, RowTable]") -> "dict[str, RowTable]":
    """The tables without the scores of rows that lack anything in another one: these are left out of all models."""
    without_label = {name: _lacks_label(table) for name, table in tables.items()}
    of_any = reduce(or_, (without_label[name] | _is_missing(table.scores) for name, table in tables.items()))
    # What a row lacks itself is counted as that, not as a score.
    return {
        name: replace(table, scores=_blanked(table.scores, of_any & ~without_label[name]))
        for name, table in tables.items()
    }


def _lacks_label(table: "RowTable") -> Any:
    """Whether each row lacks a label or a weight."""
    absent = _is_missing(table.labels)
    return absent if table.weights is None else absent | _is_missing(table.weights)


def _blanked(scores: Any, absent: Any) -> Any:
    """The scores, missing in some rows."""
    import dask.array as da
    import numpy as np

    if hasattr(scores, "dims"):
        return scores.copy(data=_blanked(scores.data, absent))
    where = da.where if hasattr(scores, "dask") or hasattr(absent, "dask") else np.where
    marks = absent if scores.ndim == 1 else absent[:, None]
    dtype = scores.dtype if scores.dtype.kind == "f" else np.result_type(scores.dtype, np.float32)
    return where(marks, dtype.type(np.nan), scores.astype(dtype))


def _is_missing(values: Any) -> Any:
    """Whether each value, or one of a row, is missing."""
    absent = _is_missing_value(values.data if hasattr(values, "dims") else values)
    return absent if absent.ndim == 1 else absent.any(axis=1)


def _is_missing_value(values: Any) -> Any:
    import pandas as pd

    return values.map_blocks(pd.isna, dtype=bool) if hasattr(values, "dask") else pd.isna(values)


def _sized(table: "RowTable") -> "RowTable":
    """The table with known chunk sizes, as joining several files requires."""
    arrays = {"labels": table.labels, "scores": table.scores, "weights": table.weights, "groups": table.groups}
    for name, array in arrays.items():
        if hasattr(array, "compute_chunk_sizes") and array.shape[0] != array.shape[0]:
            arrays[name] = array.compute_chunk_sizes()
    by = {
        name: values.compute_chunk_sizes() if hasattr(values, "compute_chunk_sizes") else values
        for name, values in table.by.items()
    }
    checked = {
        name: values.compute_chunk_sizes() if hasattr(values, "compute_chunk_sizes") else values
        for name, values in table.identifiers.items()
    }
    return replace(table, by=by, identifiers=checked, **arrays)


def _check_as_many(command: str, first: tuple[str, Any], second: tuple[str, Any]) -> None:
    """Raise ValueError for other numbers of rows."""
    (path, labels), (other, others) = first, second
    if labels.shape[0] != others.shape[0]:
        raise ValueError(
            f"{command} expects the same rows in the same order, got {labels.shape[0]:,} rows of {path} and "
            f"{others.shape[0]:,} of {other}. Join them on a column of both by --key COLUMN. For different rows: "
            f"calibdask evaluate {path} {other} --ci 0.95."
        )


def _check_same_rows(command: str, first: tuple[str, Any], second: tuple[str, Any], key: str | None) -> None:
    """Raise ValueError if labels differ: models can be compared only on identical rows."""
    from calibdask.engine.arrays import in_memory

    (path, labels), (other, others) = first, second
    # A missing label equals no other; such rows are left out, or are an error of their own.
    unequal = (labels != others) & ~_is_missing_value(labels) & ~_is_missing_value(others)
    differing = (unequal if unequal.ndim == 1 else unequal.any(axis=1)).sum()
    count = int(in_memory(differing))
    if count and key is not None:
        raise ValueError(
            f"{command} expects a row to have one label, but {count:,} of {labels.shape[0]:,} labels of rows with the "
            f"same {visible(key)} differ in {path} and {other}; correct them, or leave these rows out."
        )
    if count:
        raise ValueError(
            f"{command} expects the same rows in the same order, but {count:,} of {labels.shape[0]:,} labels of {path} "
            f"and {other} differ. Sort both files in the same way, or join them on a column of both by --key COLUMN; "
            "or, for "
            f"different rows: calibdask evaluate {path} {other} --ci 0.95."
        )
