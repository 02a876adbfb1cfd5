"""Conversion of columns of Arrow to NumPy arrays."""

from functools import cache
from typing import Any

import numpy as np

__all__ = ["dtype_of", "to_numpy"]


def to_numpy(column: Any) -> np.ndarray:
    """A column, an array or a chunked array, as NumPy array.

    Missing numbers and booleans become NaN, missing texts None, missing dates NaT; decimals become the nearest float64.

    Examples
    --------
    >>> import pyarrow
    >>> to_numpy(pyarrow.array([1, None, 3], "int8"))
    array([ 1., nan,  3.])
    """
    import pyarrow
    from pyarrow import types

    if isinstance(column.type, pyarrow.BaseExtensionType):
        column = column.cast(column.type.storage_type)
    if types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if types.is_decimal(column.type):
        # Through texts, which are rounded correctly; a cast to double is not always.
        column = column.cast(pyarrow.string()).cast(pyarrow.float64())
    elif types.is_null(column.type):
        column = column.cast(pyarrow.float64())
    elif types.is_boolean(column.type) and column.null_count:
        column = column.cast(pyarrow.int8())
    if isinstance(column, pyarrow.Array):
        return np.asarray(column.to_numpy(zero_copy_only=False))
    return np.asarray(column.to_numpy())


@cache
def dtype_of(arrow_type: Any) -> np.dtype[Any]:
    """The NumPy type of a column without missing values; object for what NumPy has no type for."""
    import pyarrow

    return to_numpy(pyarrow.chunked_array([], type=arrow_type)).dtype
