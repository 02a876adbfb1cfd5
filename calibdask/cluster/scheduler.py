"""A scheduler that is there already."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from calibdask.cluster.places import Place
from calibdask.cluster.security import Transport
from calibdask.halted import Halted

__all__ = ["SECONDS_TO_ANSWER", "Scheduler", "hung_after"]

SECONDS_TO_ANSWER = 15
# Dask's own default is 5 minutes.
_HUNG_AFTER, _DASK_DEFAULT = "2 minutes", "5 minutes"


@dataclass(frozen=True)
class Scheduler(Place):
    """Of an address, ``tcp://host:port`` or ``tls://host:port``, or of a scheduler file that holds one."""

    where: str
    transport: Transport

    @property
    def address(self) -> str:
        """Where it listens."""
        if "://" in self.where:
            return self.where
        try:
            address = json.loads(Path(self.where).read_text(encoding="utf-8"))["address"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{self.where} cannot be read as a scheduler file: {error}") from error
        return str(address)

    @contextmanager
    def opened(self) -> Iterator[Any]:
        """A client of it; the scheduler and its workers stay."""
        from distributed import Client

        address = self.address
        security = self.transport.security(address)
        try:
            client = Client(address, security=security, timeout=SECONDS_TO_ANSWER)
        except (OSError, ValueError, TypeError) as error:
            raise Halted(f"No scheduler answers at {self.where}: {' '.join(str(error).split())}") from error
        with client:
            yield client

    def answers(self) -> bool:
        """Whether there is a scheduler."""
        try:
            with self.opened():
                return True
        except Halted:
            return False


@contextmanager
def hung_after() -> Iterator[None]:
    """Give up workers that are silent for two minutes, where a scheduler is started and nothing else is configured."""
    import dask
    import distributed  # noqa: F401 - brings its defaults into the configuration

    name = "distributed.scheduler.worker-ttl"
    known = dask.config.get(name)
    with dask.config.set({name: _HUNG_AFTER if known == _DASK_DEFAULT else known}):
        yield
