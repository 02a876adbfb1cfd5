"""Conversion of columns of Arrow to NumPy arrays."""

from functools import cache
from typing import Any

import numpy as np


def to_numpy(column: Any) -> np.ndarray:
    """A column, an array or a chunked array, as NumPy array.

    Missing numbers and booleans become NaN, missing texts None, missing dates NaT; decimals become the nearest float64.
    Dates with a time zone become those of the clock there.
    Lists and structs of numbers become the rows of a matrix, (n, K), structs in the order of their names; missing ones
    become rows of NaN.

    Raises
    ------
    ValueError
        If lists are of different lengths.

    Examples
    --------
    >>> import pyarrow
    >>> to_numpy(pyarrow.array([1, None, 3], "int8"))
    array([ 1., nan,  3.])
    """
    import pyarrow
    from pyarrow import compute, types

    if isinstance(column.type, pyarrow.BaseExtensionType):
        column = column.cast(column.type.storage_type)
    if types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if _is_list(column.type):
        return _matrix(column)
    if class_names(column.type):
        return np.stack([to_numpy(compute.struct_field(column, name)) for name in class_names(column.type)], axis=1)
    if types.is_decimal(column.type):
        # Through texts, which are rounded correctly; a cast to double is not always.
        column = column.cast(pyarrow.string()).cast(pyarrow.float64())
    elif types.is_timestamp(column.type) and column.type.tz is not None:
        # Slices, periods and audits speak of local hours and days.
        column = compute.local_timestamp(column)
    elif types.is_null(column.type):
        column = column.cast(pyarrow.float64())
    elif types.is_boolean(column.type) and column.null_count:
        column = column.cast(pyarrow.int8())
    if isinstance(column, pyarrow.Array):
        return np.asarray(column.to_numpy(zero_copy_only=False))
    return np.asarray(column.to_numpy())


@cache
def dtype_of(arrow_type: Any) -> np.dtype[Any]:
    """The NumPy type of a column without missing values, of lists of their values; object without one."""
    import pyarrow

    if _is_list(arrow_type):
        return dtype_of(arrow_type.value_type)
    if class_names(arrow_type):
        # A row may lack some.
        return np.dtype(np.float64)
    return to_numpy(pyarrow.chunked_array([], type=arrow_type)).dtype


def list_width(arrow_type: Any) -> int | None:
    """How many values each list, or struct of numbers, has: -1 if the type does not say it, None for single values.

    Examples
    --------
    >>> import pyarrow
    >>> list_width(pyarrow.list_(pyarrow.float32(), 5)), list_width(pyarrow.float32())
    (5, None)
    """
    if not _is_list(arrow_type):
        return len(class_names(arrow_type)) or None
    return int(getattr(arrow_type, "list_size", -1))


def class_names(arrow_type: Any) -> tuple[str, ...]:
    """Names of the numbers in a struct of two or more, such as shares of classes; none of any other type.

    Examples
    --------
    >>> import pyarrow
    >>> class_names(pyarrow.struct([("yes", pyarrow.float64()), ("no", pyarrow.float64())]))
    ('yes', 'no')
    """
    from pyarrow import types

    if not types.is_struct(arrow_type) or arrow_type.num_fields < 2:
        return ()
    fields = [arrow_type.field(k) for k in range(arrow_type.num_fields)]
    some = (types.is_integer, types.is_floating, types.is_null)
    are_numbers = all(any(is_kind(field.type) for is_kind in some) for field in fields)
    return tuple(field.name for field in fields) if are_numbers else ()


def _is_list(arrow_type: Any) -> bool:
    from pyarrow import types

    return any(
        is_kind(arrow_type)
        for is_kind in (types.is_list, types.is_large_list, types.is_fixed_size_list, types.is_list_view)
    )


def _matrix(column: Any) -> np.ndarray:
    """The lists of a column as rows of a matrix; a missing list is a row of NaN."""
    import pyarrow
    from pyarrow import compute

    chunks = column.chunks if isinstance(column, pyarrow.ChunkedArray) else [column]
    present = [chunk.drop_null() for chunk in chunks]
    sizes = np.unique(np.concatenate([np.empty(0, int), *map(compute.list_value_length, present)]))
    if sizes.size > 1:
        raise ValueError(
            f"A column of lists expects one value for each class in every row, got lists of {sizes[0]} and of "
            f"{sizes[-1]}."
        )
    width = int(sizes[0]) if sizes.size else max(0, list_width(column.type) or 0)
    values = [to_numpy(chunk.flatten()) for chunk in present]
    dtype = np.result_type(dtype_of(column.type), *(array.dtype for array in values))
    rows = np.concatenate([np.empty(0, dtype), *values]).reshape(-1, width)
    if not column.null_count:
        return rows
    matrix = np.full((len(column), width), np.nan, np.result_type(dtype, np.float16) if dtype.kind in "iub" else dtype)
    matrix[np.concatenate([chunk.is_valid() for chunk in chunks])] = rows
    return matrix
