"""Clusters that computations run on: threads, local processes, an existing Dask scheduler, Slurm, Kubernetes."""

from calibdask.cluster.connecting import connected
from calibdask.cluster.parse import cluster_spec
from calibdask.cluster.spec import ClusterLost, ClusterSpec

__all__ = ["ClusterLost", "ClusterSpec", "cluster_spec", "connected"]
