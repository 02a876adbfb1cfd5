"""Hashed keys, such as customers: equal values give equal numbers in every process, whatever their type."""

import numpy as np
import numpy.typing as npt

# Whole numbers up to this are floating-point numbers too.
_WHOLE = 2.0**62


def key_numbers(labels: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """A hash of each value, from 0 on; numbers are hashed by value, so that 1 and 1.0 are alike.

    Examples
    --------
    >>> (key_numbers([1, 2]) == key_numbers([1.0, 2.0])).all()
    np.True_
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
    else:
        values = values.astype(str).astype(object)
    return (pd.util.hash_array(values, categorize=False) >> np.uint64(1)).astype(np.int64)
