"""Clusters in summaries: what a summary holds, by bucket of clusters, and rows by cell of the hash of their cluster.

Every variable of rows, such as ``rows`` or ``confidence_count``, has a second one by bucket, ``rows_buckets`` and so
on, with the dimension ``cluster_bucket``. They add up as the others do. Without them (``drop_dims``) analyses treat
rows as independent, except `calibdask.watch`, which uses the weights of clusters.
"""

from collections.abc import Hashable, Sequence

import numpy as np
import xarray as xr

from calibdask.statistics.cluster_cells import CLUSTER_CELLS
from calibdask.statistics.exact import Counts
from calibdask.statistics.views.clusters import Buckets
from calibdask.storage.checked_summary import check_sums, whole
from calibdask.storage.summary_totals import with_totals

# Ends the names of variables by bucket.
BY_BUCKET = "_buckets"
CLUSTER_BUCKET, CLUSTER_CELL = CLUSTER_DIMS = ("cluster_bucket", "cluster_cell")
CLUSTER_ROWS = "cluster_rows"
# What results call the clusters.
GROUPS = "groups"
LEAST_BUCKETS, MOST_BUCKETS = 16, 512


def check_buckets(buckets: object) -> None:
    """Raise ValueError unless this is a number of buckets."""
    is_whole = isinstance(buckets, int) and not isinstance(buckets, bool)
    if not is_whole or buckets not in [1 << power for power in range(4, 10)]:
        raise ValueError(
            f"buckets expects a power of 2 from {LEAST_BUCKETS} to {MOST_BUCKETS}, such as 64, got {buckets!r}."
        )


def cluster_variables(dataset: xr.Dataset) -> list[str]:
    """The variables of a summary that say something about clusters; none without clusters."""
    return [str(name) for name, variable in dataset.data_vars.items() if CLUSTER_BUCKET in variable.dims]


def bucket_view(dataset: xr.Dataset) -> Buckets | None:
    """How rows were sent to buckets; None without clusters.

    Raises
    ------
    ValueError
        If some of the buckets are missing.
    """
    if not cluster_variables(dataset):
        return None
    buckets = dataset.sizes[CLUSTER_BUCKET]
    labels = dataset[CLUSTER_BUCKET].values
    is_whole = buckets & (buckets - 1) == 0 and buckets >= LEAST_BUCKETS
    if CLUSTER_ROWS not in dataset or not is_whole or not np.array_equal(labels, np.arange(buckets)):
        raise ValueError(
            f"A summary with clusters expects all buckets along {CLUSTER_BUCKET!r} in their order, and {CLUSTER_ROWS}; "
            f"select only slices, or drop the clusters by drop_dims({CLUSTER_BUCKET!r})."
        )
    return Buckets(buckets)


def by_bucket(dataset: xr.Dataset, batch: Sequence[Hashable]) -> xr.Dataset:
    """A summary whose last slices are the buckets."""
    names = {name: name.removesuffix(BY_BUCKET) for name in cluster_variables(dataset) if name.endswith(BY_BUCKET)}
    if f"rows{BY_BUCKET}" not in names:
        raise ValueError(
            f"This summary has lost rows{BY_BUCKET}; select from summaries without dropping variables, or drop the "
            f"clusters by drop_dims({CLUSTER_BUCKET!r})."
        )
    own = dataset[[*names]].rename(names)
    rows = own.variables["rows"].transpose(*dataset.variables["rows"].dims, CLUSTER_BUCKET)
    return with_totals(own.assign(rows=rows), batch)


def cluster_rows(dataset: xr.Dataset, batch: Sequence[Hashable]) -> Counts:
    """Rows by cell of the hash of their cluster, (slices, buckets, cells), of the first model."""
    dims = [dim for dim in dataset.variables["rows"].dims if dim not in batch]
    variable = dataset.variables[CLUSTER_ROWS].isel(dict.fromkeys(batch, 0)).transpose(*dims, *CLUSTER_DIMS)
    if variable.shape[-1] != CLUSTER_CELLS:
        raise ValueError(f"{CLUSTER_ROWS} of a summary expects {CLUSTER_CELLS} cells, got {variable.shape[-1]}.")
    check_sums(CLUSTER_ROWS, variable.values)
    rows: Counts = whole(variable.values)
    return rows.reshape(-1, *variable.shape[len(dims) :])
