"""What the place to work may be, and working there."""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from calibdask.cluster.security import Transport
from calibdask.halted import Halted

__all__ = ["ClusterLost", "Place", "connected", "place"]

_KINDS = "threads, threads:N, local, local:N, tcp://host:port, tls://host:port, a scheduler file, slurm or kubernetes"


class ClusterLost(Halted):
    """The scheduler, or all its workers, have gone in the midst of work."""


@dataclass(frozen=True)
class Place(ABC):
    """Somewhere to work; a description that starts nothing until it is opened.

    Attributes
    ----------
    patience : float
        Seconds to wait for workers once there are none.
    """

    patience: ClassVar[float] = 300.0

    @abstractmethod
    def opened(self) -> AbstractContextManager[Any]:
        """Work there inside the block: a client, or None for threads of this process.

        What is started is closed at the end.

        Raises
        ------
        ValueError
            If nobody answers there, or its connections are not as safe as they have to be.
        """

    def answers(self) -> bool:
        """Whether somebody does; a place that starts its own scheduler always will."""
        return True


def place(where: "str | Place" = "threads", *, tls: str | None = None, insecure: bool = False) -> Place:
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
        from calibdask.cluster.threads import Threads

        return Threads(number)
    if kind == "local" and counted:
        from calibdask.cluster.processes import Processes

        return Processes(number)
    if where == "slurm":
        from calibdask.cluster.slurm import Slurm

        return Slurm(transport)
    if where == "kubernetes":
        from calibdask.cluster.kubernetes import Kubernetes

        return Kubernetes(transport)
    if re.match(r"(tcp|tls)://.", where) or Path(where).is_file():
        from calibdask.cluster.scheduler import Scheduler

        return Scheduler(where, transport)
    raise ValueError(f"Expected {_KINDS} as the place to work, got {where!r}.")


@contextmanager
def connected(where: str | Place = "threads") -> Iterator[Any]:
    """Run what Dask computes inside this block there.

    Parameters
    ----------
    where : str or Place
        See `place`.

    Raises
    ------
    ValueError
        If it is no place, if nobody answers there, or if workers have other versions than this process.
    ClusterLost
        If the scheduler goes away while something is computed, or if that kills the workers.

    Examples
    --------
    >>> import calibdask as cd
    >>> with connected("threads"):
    ...     cd.ece([0, 1, 1, 1], [0.2, 0.4, 0.6, 0.8], bins=2)
    0.25
    """
    from concurrent.futures import CancelledError

    with place(where).opened() as client:
        if client is not None:
            from calibdask.cluster.versions import check_versions

            check_versions(client)
        try:
            yield client
        except CancelledError as error:
            raise ClusterLost(f"The scheduler at {where} has gone, and with it what it held; try again.") from error
        except Exception as error:
            if type(error).__name__ != "KilledWorker":
                raise
            raise ClusterLost(
                "Workers died one after the other of the same piece of work, as they do where memory is short: give "
                f"them more, or smaller chunks. {error}"
            ) from error
