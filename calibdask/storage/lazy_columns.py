"""Dask arrays of the columns of a file: each block is read once a pass, for all columns."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from calibdask.engine.inputs.arrow import dtype_of
from calibdask.engine.inputs.columns import ColumnNames, choose_columns, unknown
from calibdask.safe_text import message
from calibdask.storage.location import ColumnChoice, Location

__all__ = ["Columns", "check_types", "collected", "lazy_columns", "names_in"]

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
        elif name == names.label and not (number or is_text):
            expected = "numbers or texts"
        elif name in choice.by and types.is_nested(value):
            expected = "numbers, texts or dates"
        if expected:
            mend = "; one column for each class is called score_0, score_1, ..." if name in names.scores else ""
            raise ValueError(f"{location.url}: column {name!r} expects {expected}, got {message(field)}{mend}.")


def collected(choice: ColumnChoice, names: ColumnNames, columns: Columns) -> dict[str, Any]:
    """Arrays in memory by their role."""
    return {
        **choice.collect(columns[names.label], _stacked(columns, names.scores), columns.__getitem__),
        "names": names,
    }


def _stacked(columns: Columns, names: tuple[str, ...]) -> np.ndarray:
    """Scores (n,) of one column, (n, K) of several."""
    return columns[names[0]] if len(names) == 1 else np.stack([columns[name] for name in names], axis=1)


def lazy_columns(
    choice: ColumnChoice,
    names: ColumnNames,
    types: Mapping[str, Any],
    parts: Sequence[Any],
    sizes: Sequence[float],
    load: Callable[[Any], Columns],
) -> dict[str, Any]:
    """Dask arrays by their role; ``load(part)`` reads the columns of a block, of ``sizes`` rows (NaN: not known)."""
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

    if len(names.scores) == 1:
        scores = column(names.scores[0])
    else:
        dtype = np.result_type(*(types[name] for name in names.scores))
        scores = blocks.map_blocks(
            _score_block,
            names.scores,
            dtype=dtype,
            new_axis=1,
            chunks=(*chunks, (len(names.scores),)),
            meta=np.empty((0, 0), dtype),
        )
    return {**choice.collect(column(names.label), scores, column), "names": names}


def _packed(load: Callable[[Any], Columns], part: Any) -> np.ndarray:
    from calibdask.engine.sources.reduction import packed

    return packed(load(part), 1)


def _column(packed: np.ndarray, name: str) -> np.ndarray:
    return np.asarray(packed.item()[name])


def _score_block(packed: np.ndarray, names: tuple[str, ...]) -> np.ndarray:
    return _stacked(packed.item(), names)
