"""Hashed keys, such as customers: equal values give equal numbers in every process, whatever their type."""

from datetime import date
from typing import Any

import numpy as np
import numpy.typing as npt

# Whole numbers up to this are floating-point numbers too.
_WHOLE = 2.0**62
_LAST_BITS = 2**64 - 1


def key_numbers(labels: npt.ArrayLike) -> npt.NDArray[np.int64]:
    r"""A hash of each value, from 0 on; numbers are hashed by value, so that 1 and 1.0 are alike, objects or not.

    Examples
    --------
    >>> (key_numbers([1, 2]) == key_numbers([1.0, 2.0])).all()
    np.True_
    >>> key_numbers(np.array(["a", "a\0"], object)).tolist() == key_numbers(["a", "a"]).tolist()
    False
    """
    import pandas as pd

    values = np.asarray(labels)
    if values.dtype.kind in "Mm":
        values = values.astype(f"{values.dtype.kind}8[ns]").view(np.int64)
    if values.dtype.kind in "iub":
        values = values.astype(np.int64)
    elif values.dtype.kind == "f":
        whole = (values == np.floor(values)) & (np.abs(values) < _WHOLE)
        values = np.where(whole, np.where(whole, values, 0).astype(np.int64), values.astype(np.float64).view(np.int64))
    elif values.dtype.kind == "O" and pd.api.types.infer_dtype(values, skipna=False) != "string":
        return _of_objects(values)
    else:
        values = _texts(values)
    return (pd.util.hash_array(values, categorize=False) >> np.uint64(1)).astype(np.int64)


def _of_objects(values: npt.NDArray[np.object_]) -> npt.NDArray[np.int64]:
    """Of objects, each by its own type: the other values of a block must not matter."""
    import pandas as pd

    flat = values.ravel()
    numbers = np.empty(flat.size, np.int64)
    are_whole = np.array([isinstance(value, int | np.integer | np.bool_) for value in flat], bool)
    are_floats = np.array([isinstance(value, float | np.floating) for value in flat], bool)
    are_dates = np.array([isinstance(value, date | np.datetime64) for value in flat], bool)
    # Whole numbers of more digits than 64 bits hold keep their last ones.
    whole = np.array([int(value) & _LAST_BITS for value in flat[are_whole]], np.uint64)
    numbers[are_whole] = key_numbers(whole.view(np.int64))
    numbers[are_floats] = key_numbers(flat[are_floats].astype(np.float64))
    if are_dates.any():
        dates = [pd.Timestamp(value).tz_localize(None).to_datetime64() for value in flat[are_dates]]
        numbers[are_dates] = key_numbers(np.array(dates, "M8[ns]"))
    are_others = ~(are_whole | are_floats | are_dates)
    if are_others.any():
        numbers[are_others] = key_numbers(_texts(flat[are_others]))
    return numbers.reshape(values.shape)


def _texts(values: npt.NDArray[Any]) -> npt.NDArray[np.object_]:
    """Texts as objects; NumPy's type of texts drops NUL at their end."""
    texts = values.astype(str).astype(object)
    if values.dtype != object:
        return texts
    exact = np.empty(values.size, object)
    pairs = zip(values.ravel(), texts.ravel(), strict=True)
    exact[:] = [given if isinstance(given, str) else text for given, text in pairs]
    return exact.reshape(values.shape)
