"""The words that places to work are named by."""

import re
from pathlib import Path

from calibdask.cluster.kubernetes import Kubernetes
from calibdask.cluster.places import Place
from calibdask.cluster.processes import Processes
from calibdask.cluster.scheduler import Scheduler
from calibdask.cluster.security import Transport
from calibdask.cluster.slurm import Slurm
from calibdask.cluster.threads import Threads

__all__ = ["place"]

_KINDS = "threads, threads:N, local, local:N, tcp://host:port, tls://host:port, a scheduler file, slurm or kubernetes"


def place(where: str | Place = "threads", *, tls: str | None = None, insecure: bool = False) -> Place:
    """The place that a word means.

    Parameters
    ----------
    where : str
        ``threads`` (one for each core) or ``threads:4`` of this process; ``local`` or ``local:4``, a cluster of (4)
        processes of this machine, closed at the end; ``tcp://host:port`` or ``tls://host:port`` of a scheduler; the
        path of a scheduler file; ``slurm`` or ``kubernetes``: workers started there for this work, as Dask's
        configuration says (``deploy/slurm``, ``deploy/kubernetes``).
    tls : str, optional
        Folder with ``ca.pem``, ``node.pem`` and ``node-key.pem``, as ``calibdask certs`` makes it; None: that of the
        variable ``CALIBDASK_TLS``, or what Dask's configuration says.
    insecure : bool, default False
        Allow connections without TLS beyond this machine.

    Raises
    ------
    ValueError
        If it is none of these.

    Examples
    --------
    >>> place("threads:4")
    Threads(number=4)
    >>> place("local:2")
    Processes(number=2)
    """
    if isinstance(where, Place):
        return where
    transport = Transport(tls, insecure)
    kind, colon, rest = where.partition(":")
    number = int(rest) if re.fullmatch(r"\d+", rest) else None
    counted = number is not None or not colon
    if kind == "threads" and counted:
        return Threads(number)
    if kind == "local" and counted:
        return Processes(number)
    if where == "slurm":
        return Slurm(transport)
    if where == "kubernetes":
        return Kubernetes(transport)
    if re.fullmatch(r"(tcp|tls)://.+:\d+", where) or ("://" not in where and Path(where).is_file()):
        return Scheduler(where, transport)
    raise ValueError(f"Expected {_KINDS} as the place to work, got {where!r}.")
