"""Processes of this machine."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from calibdask.cluster.places import Place
from calibdask.cluster.scheduler import hung_after

__all__ = ["Processes"]


@dataclass(frozen=True)
class Processes(Place):
    """So many processes of one thread each; None: as Dask divides the cores of the machine.

    Raises
    ------
    ValueError
        For no processes.
    """

    number: int | None = None

    def __post_init__(self) -> None:
        if self.number == 0:
            raise ValueError("local:N expects at least one worker process, got local:0.")

    @contextmanager
    def opened(self) -> Iterator[Any]:
        """A scheduler in this process, on the loopback only, and its workers."""
        import logging

        from distributed import Client, LocalCluster

        threads = {} if self.number is None else {"threads_per_worker": 1}
        with (
            hung_after(),
            LocalCluster(
                n_workers=self.number,
                **threads,
                # No dashboard, and its server on any free port of the loopback, where it gets in nobody's way.
                dashboard_address="127.0.0.1:0",
                scheduler_kwargs={"dashboard": False},
                host="127.0.0.1",
                silence_logs=logging.ERROR,
            ) as cluster,
            Client(cluster) as client,
        ):
            yield client
