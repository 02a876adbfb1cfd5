"""Clusters of rows and other keys, such as customers, as numbers that do not depend on the process."""

from collections.abc import Hashable, Mapping
from contextlib import suppress
from datetime import date
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from calibdask.data.options import InputOptions
from calibdask.data.shapes import stacked_slices
from calibdask.engine.arrays import is_dask, is_pandas, plain, without_zone
from calibdask.safe_text import check_unicode

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


# The name of the clusters of rows among the arrays that users pass.
CLUSTERS = "groups"
# What to do about rows without a cluster.
MEND_MISSING = "; omit these rows, or give each a unique value if it belongs to no other row."
# Hashes of clusters have this many bits: every float64 of that size is exact, so that columns of frames can hold them.
CLUSTER_BITS = 52


def clusters_of(options: InputOptions) -> dict[str, Any]:
    """The numbers of the clusters, as one more of the arrays that belong to the rows; nothing without."""
    if options.groups is None:
        return {}
    groups = options.groups
    if isinstance(groups, str | Mapping):
        raise ValueError(
            f"groups expects an array with the cluster of each row where labels and scores are arrays, got {groups!r}; "
            "a name refers to a column of a frame or a file."
        )
    return {CLUSTERS: cluster_numbers(groups)}


def checked_clusters(clusters: Any, n: float, sample_dim: str) -> Any:
    """The numbers of the clusters as an array (n,); None without."""
    if clusters is None:
        return None
    if isinstance(clusters, xr.DataArray):
        if clusters.dims != (sample_dim,):
            raise ValueError(f"groups expects the one dimension {sample_dim!r}, got {clusters.dims}.")
        clusters = clusters.data
    elif is_pandas(clusters):
        clusters = clusters.to_numpy()
    if clusters.ndim != 1 or (clusters.shape[0] == clusters.shape[0] and n == n and clusters.shape[0] != n):
        raise ValueError(
            f"groups expects one value for each of the {n} rows, got an array of shape {tuple(clusters.shape)}."
        )
    return clusters


def stacked_clusters(clusters: Any, sizes: Mapping[Hashable, int], name: str) -> Any:
    """A number for each sample, of clusters that may lack some of the dimensions of samples."""
    if isinstance(clusters, xr.DataArray) and not {*clusters.dims} <= {*sizes}:
        raise ValueError(f"groups expects dimensions among {', '.join(map(str, sizes))}, got {clusters.dims}.")
    return stacked_slices(clusters, sizes, name)


def cluster_numbers(values: Any) -> Any:
    """A 52-bit number for the cluster of each row, in the input's container: NumPy, Dask, pandas or xarray.

    Equal values have equal numbers in every process. Of 10**7 clusters two share a number with a probability of 1 %,
    and count as one then.

    Raises
    ------
    ValueError
        If a value is missing, or none that tells clusters apart.

    Examples
    --------
    >>> [int(number % 1000) for number in cluster_numbers(["anna", "bert", "anna"])]
    [406, 151, 406]
    """
    if isinstance(values, xr.DataArray):
        return values.copy(data=cluster_numbers(values.data))
    values = without_zone(values)
    if is_dask(values):
        if not hasattr(values, "to_dask_array"):
            return values.map_blocks(_numbers_of_clusters, dtype=np.int64, meta=np.empty((0,) * values.ndim, np.int64))
        import pandas as pd

        return values.map_partitions(_series_of_clusters, meta=pd.Series([], dtype=np.int64))
    if is_pandas(values) and values.ndim == 1:
        return _series_of_clusters(values)
    return _numbers_of_clusters(plain(values, "groups"))


def _series_of_clusters(series: Any) -> Any:
    import pandas as pd

    return pd.Series(_numbers_of_clusters(series), series.index, dtype=np.int64)


def _numbers_of_clusters(values: Any) -> npt.NDArray[np.int64]:
    """The numbers of an array in memory."""
    import pandas as pd

    absent = np.asarray(pd.isna(values), bool)
    if absent.any():
        position = np.argwhere(absent)[0].tolist()
        raise ValueError(
            f"groups expects a value in every row, got {int(absent.sum())} missing ones, the first in row "
            f"{position[0] if len(position) == 1 else position} of its block{MEND_MISSING}"
        )
    array = np.asarray(values)
    if array.dtype.kind not in "iubfmMOUST":
        raise ValueError(f"groups expects numbers, texts or dates, one for each row, got {array.dtype}.")
    if array.dtype.kind in "OUST" and array.size:
        codes, distinct = pd.factorize(array.ravel().astype(object))
        check_unicode("groups", distinct, lambda position: f" in row {int(np.argmax(codes == position))}")
        numbers = key_numbers(np.asarray(distinct, object))[codes].reshape(array.shape)
    else:
        numbers = key_numbers(array.ravel()).reshape(array.shape)
    return numbers >> (63 - CLUSTER_BITS)
