"""Values of columns that look like identifiers, such as patients, as numbers."""

from contextlib import suppress
from typing import Any

import numpy as np
import numpy.typing as npt

from calibdask.data.clusters import cluster_numbers
from calibdask.engine.arrays import is_dask, is_pandas, plain, without_zone

_MISSING = -1
# Kinds of NumPy's types: whole numbers and texts.
_KINDS = "iuOUST"


def may_identify(values: Any) -> bool:
    """Whether the values of a column are whole numbers or texts, one for each row."""
    dtype = getattr(values, "dtype", None)
    return getattr(values, "ndim", 0) == 1 and getattr(dtype, "kind", "") in _KINDS


def identifier_numbers(values: Any) -> Any:
    """A hash of 52 bits for each value, as `cluster_numbers`, and -1 for missing ones: NumPy, pandas or Dask."""
    values = without_zone(values)
    if is_dask(values):
        if not hasattr(values, "to_dask_array"):
            return values.map_blocks(_numbers, dtype=np.int64, meta=np.empty(0, np.int64))
        import pandas as pd

        return values.map_partitions(_series, meta=pd.Series([], dtype=np.int64))
    return _series(values) if is_pandas(values) else _numbers(plain(values, "identifiers"))


def _series(series: Any) -> Any:
    import pandas as pd

    return pd.Series(_numbers(series), series.index, dtype=np.int64)


def _numbers(values: Any) -> npt.NDArray[np.int64]:
    import pandas as pd

    array = np.asarray(values)
    absent = np.asarray(pd.isna(values), bool)
    numbers = np.full(array.shape, _MISSING, np.int64)
    # Nobody asked for this column: lists, or texts of broken characters, identify nothing here.
    with suppress(TypeError, ValueError):
        numbers[~absent] = cluster_numbers(array[~absent])
    return numbers
