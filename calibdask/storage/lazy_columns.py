"""Dask arrays of the columns of a file: each block is read once a pass, for all columns."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from calibdask.safe_text import message, visible
from calibdask.storage.arrow_columns import dtype_of, list_width
from calibdask.storage.columns import ColumnNames, choose_columns, choose_scores, unknown
from calibdask.storage.location import ColumnChoice, Location

Columns = dict[str, Any]


def names_in(location: Location, choice: ColumnChoice, there: Sequence[str]) -> ColumnNames:
    """The columns to read, of those that are there.

    Raises
    ------
    ValueError
        If one is not there, or several could be meant.
    """
    for name in choice.further:
        if name not in there:
            raise unknown(location.url, "column", name, there)
    return choose_columns(there, choice.label, choice.score, location.url, used=choice.further)


def score_names_in(location: Location, choice: ColumnChoice, there: Sequence[str]) -> ColumnNames:
    """The columns of scores, and of labels if there are some.

    Raises
    ------
    ValueError
        If one is not there, or several could be meant.
    """
    for name in choice.further:
        if name not in there:
            raise unknown(location.url, "column", name, there)
    return choose_scores(there, choice.label, choice.score, location.url, used=choice.further)


def lists_in(schema: Any, names: ColumnNames, further: Sequence[str], location: Location) -> dict[str, int]:
    """The columns of lists and how many values each holds, -1 if their type does not say it.

    Raises
    ------
    ValueError
        If lists stand where one value is expected.
    """
    widths = dict(zip(schema.names, map(list_width, schema.types), strict=True))
    lists = {name: width for name, width in widths.items() if width is not None}
    alone = {group[0] for group in (names.labels, names.scores) if len(group) == 1}
    for name in (*names.columns, *further):
        if name in lists and (name not in alone or name in further):
            raise ValueError(f"{location.url}: column {visible(name)!r} expects one value in each row, got lists.")
    return lists


def check_types(location: Location, choice: ColumnChoice, names: ColumnNames, schema: Any) -> None:
    """Raise ValueError unless scores and weights are numbers, labels these or texts, and slices no nested values."""
    from pyarrow import types

    for name in schema.names:
        field = schema.field(name).type
        value = field.value_type if types.is_dictionary(field) else field
        number = dtype_of(field).kind in "fiub"
        is_text = types.is_string(value) or types.is_large_string(value) or types.is_string_view(value)
        expected = ""
        if name in (*names.scores, choice.weight) and not number:
            expected = "numbers"
        elif name in names.labels and not (number or (is_text and names.labels == (name,))):
            expected = "numbers or texts" if names.labels == (name,) else "numbers"
        elif name in choice.by and types.is_nested(value):
            expected = "numbers, texts or dates"
        if expected:
            mend = "; one column for each class is called score_0, score_1, ..." if name in names.scores else ""
            raise ValueError(f"{location.url}: column {name!r} expects {expected}, got {message(field)}{mend}.")


def collected(choice: ColumnChoice, names: ColumnNames, columns: Columns) -> dict[str, Any]:
    """Arrays in memory by their role."""
    labels, scores = stacked(columns, names.labels), stacked(columns, names.scores)
    return {**choice.collect(labels, scores, columns.__getitem__), "names": names}


def stacked(columns: Columns, names: tuple[str, ...]) -> np.ndarray:
    """One column, (n,) or (n, K) of lists; (n, K) of several."""
    return columns[names[0]] if len(names) == 1 else np.stack([columns[name] for name in names], axis=1)


def lazy_columns(
    choice: ColumnChoice,
    names: ColumnNames,
    types: Mapping[str, Any],
    parts: Sequence[Any],
    sizes: Sequence[float],
    load: Callable[[Any], Columns],
    lists: Mapping[str, int] | None = None,
) -> dict[str, Any]:
    """Dask arrays by their role; ``load(part)`` reads the columns of a block, of ``sizes`` rows (NaN: not known).

    ``lists`` are the columns of lists and how many values each holds, -1 if that takes a look at the first block.
    """
    import dask.array as da
    from dask.layers import ArrayValuesDep

    values = np.empty(len(parts), object)
    values[:] = parts
    chunks = (tuple(sizes),)
    blocks = da.blockwise(
        partial(_packed, load),
        "n",
        ArrayValuesDep(chunks, values),  # type: ignore[arg-type]  # unknown sizes are nan
        "n",
        dtype=object,
        meta=np.empty(0, object),
        # Nothing to align with: there is no array but this.
        align_arrays=False,
    )

    def column(name: str) -> Any:
        return blocks.map_blocks(_column, name, dtype=types[name], meta=np.empty(0, types[name]))

    def matrix(columns: tuple[str, ...]) -> Any:
        width = len(columns) if len(columns) > 1 else (lists or {}).get(columns[0])
        if width is None:
            return column(columns[0])
        width = int(load(parts[0])[columns[0]].shape[1]) if width < 0 else width
        dtype = np.result_type(*(types[name] for name in columns))
        meta = np.empty((0, 0), dtype)
        return blocks.map_blocks(
            _matrix_block, columns, width, dtype=dtype, new_axis=1, chunks=(*chunks, (width,)), meta=meta
        )

    return {**choice.collect(matrix(names.labels), matrix(names.scores), column), "names": names}


def _packed(load: Callable[[Any], Columns], part: Any) -> np.ndarray:
    from calibdask.engine.sources.reduction import packed

    return packed(load(part), 1)


def _column(packed: np.ndarray, name: str) -> np.ndarray:
    return np.asarray(packed.item()[name])


def _matrix_block(packed: np.ndarray, names: tuple[str, ...], width: int) -> np.ndarray:
    block = stacked(packed.item(), names)
    if block.shape[1] != width:
        raise ValueError(
            f"Column {names[0]!r} expects {width} values in every list, as in its first row, got lists of "
            f"{block.shape[1]}."
        )
    return block
