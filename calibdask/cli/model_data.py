"""The data of several models at the shell: files side by side, score columns of one file, rows joined on a key."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click

from calibdask.cli.data_names import named_data
from calibdask.cli.rows_request import RowsRequest

if TYPE_CHECKING:
    from calibdask.storage.readers import RowTable


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
        raise click.UsageError("--score NAME=COLUMN names the model of every column, or of none.")
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
