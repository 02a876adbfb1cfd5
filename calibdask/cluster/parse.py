"""Parsing of cluster specifications such as ``local:4`` or ``tls://host:8786``."""

import re
from pathlib import Path

from calibdask.cluster.kubernetes import Kubernetes
from calibdask.cluster.processes import Processes
from calibdask.cluster.scheduler import Scheduler
from calibdask.cluster.security import Transport
from calibdask.cluster.slurm import Slurm
from calibdask.cluster.spec import ClusterSpec
from calibdask.cluster.threads import Threads

_KINDS = "threads, threads:N, local, local:N, tcp://host:port, tls://host:port, a scheduler file, slurm or kubernetes"


def cluster_spec(
    where: str | ClusterSpec = "threads", *, tls: str | None = None, insecure: bool = False
) -> ClusterSpec:
    """Parse a text that specifies a cluster.

    Parameters
    ----------
    where : str or ClusterSpec
        ``threads`` (one per core) or ``threads:4`` of this process; ``local`` or ``local:4``, a cluster of (4)
        processes of this machine, stopped at the end; ``tcp://host:port`` or ``tls://host:port`` of a scheduler; the
        path of a scheduler file; ``slurm`` or ``kubernetes``: workers started for this computation as configured in
        Dask's configuration (``deploy/slurm``, ``deploy/kubernetes``). A `ClusterSpec` is returned unchanged.
    tls : str, optional
        Folder with ``ca.pem``, ``node.pem`` and ``node-key.pem``, as created by ``calibdask certs``; by default the
        folder named by the variable ``CALIBDASK_TLS``, or the files of Dask's configuration.
    insecure : bool, default False
        Allow connections without TLS beyond this machine.

    Raises
    ------
    ValueError
        If the text specifies no such cluster.

    Examples
    --------
    >>> cluster_spec("threads:4")
    Threads(number=4)
    >>> cluster_spec("local:2")
    Processes(number=2)
    """
    if isinstance(where, ClusterSpec):
        return where
    transport = Transport(tls, insecure)
    kind, colon, rest = where.partition(":")
    number = int(rest) if re.fullmatch(r"\d+", rest) else None
    countable = number is not None or not colon
    if kind == "threads" and countable:
        return Threads(number)
    if kind == "local" and countable:
        return Processes(number)
    if where == "slurm":
        return Slurm(transport)
    if where == "kubernetes":
        return Kubernetes(transport)
    if re.fullmatch(r"(tcp|tls)://.+:\d+", where) or ("://" not in where and Path(where).is_file()):
        return Scheduler(where, transport)
    raise ValueError(f"Expected {_KINDS} as the cluster, got {where!r}.")
