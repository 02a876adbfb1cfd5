"""Processes of this machine."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from calibdask.cluster.scheduler import worker_ttl
from calibdask.cluster.spec import ClusterSpec


@dataclass(frozen=True)
class Processes(ClusterSpec):
    """Processes of this machine with one thread each; by default as Dask divides the cores of the machine.

    Raises
    ------
    ValueError
        If the number is 0.
    """

    number: int | None = None

    def __post_init__(self) -> None:
        if self.number == 0:
            raise ValueError("local:N expects at least one worker process, got local:0.")

    @contextmanager
    def opened(self) -> Iterator[Any]:
        """A scheduler in this process and its workers, which trust only one another.

        Other users of the machine reach the loopback too, and whoever talks to a scheduler may run code as its owner:
        scheduler, workers and client authenticate with certificates that are created for this block.
        """
        import logging

        import dask
        from distributed import Client, LocalCluster

        from calibdask.cluster.certificates import temporary_certificates

        threads = {} if self.number is None else {"threads_per_worker": 1}
        with (
            worker_ttl(),
            # Their HTTP servers run regardless, without authentication: they have no pages.
            dask.config.set({f"distributed.{role}.http.routes": [] for role in ("scheduler", "worker")}),
            temporary_certificates() as security,
            LocalCluster(
                n_workers=self.number,
                **threads,
                protocol="tls://",
                security=security,
                dashboard_address="127.0.0.1:0",
                scheduler_kwargs={"dashboard": False},
                host="127.0.0.1",
                silence_logs=logging.ERROR,
            ) as cluster,
            Client(cluster) as client,
        ):
            yield client
