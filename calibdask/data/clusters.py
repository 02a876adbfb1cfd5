"""Clusters of rows as numbers: the option ``groups`` of all data, whatever container the rows are in."""

from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from calibdask.data.keys import key_numbers
from calibdask.data.options import InputOptions
from calibdask.data.sample_dims import stacked_slices
from calibdask.engine.arrays import is_dask, is_pandas, plain, without_zone
from calibdask.safe_text import check_unicode

# The name of the clusters of rows among the arrays that users pass.
CLUSTERS = "groups"
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
            "a name stands for a column of a frame or a file."
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
            f"{position[0] if len(position) == 1 else position} of its block; leave these rows out, or give each of "
            "them a value of its own if it belongs to no other row."
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
