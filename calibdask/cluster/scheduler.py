"""An existing Dask scheduler."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from calibdask.cluster.security import Transport
from calibdask.cluster.spec import ClusterSpec
from calibdask.errors import Unavailable
from calibdask.storage.documents import read_json

SECONDS_TO_ANSWER = 15
_WORKER_TTL, _DASK_DEFAULT = "2 minutes", "5 minutes"


@dataclass(frozen=True)
class Scheduler(ClusterSpec):
    """A scheduler given by its address, ``tcp://host:port`` or ``tls://host:port``, or by a scheduler file."""

    where: str
    transport: Transport

    @property
    def address(self) -> str:
        """Address of the scheduler."""
        if "://" in self.where:
            return self.where
        try:
            address = read_json(self.where)["address"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ValueError(
                f"{self.where} cannot be read as a scheduler file: {error}; give the file that 'dask scheduler "
                "--scheduler-file FILE' writes."
            ) from error
        return str(address)

    @contextmanager
    def opened(self) -> Iterator[Any]:
        """Connect a client; the scheduler and its workers keep running afterwards."""
        from distributed import Client
        from distributed.versions import VersionMismatchWarning

        address = self.address
        security = self.transport.security(address)
        try:
            with warnings.catch_warnings():
                # `check_versions` refuses differences that matter; this is a table of all others too.
                warnings.simplefilter("ignore", VersionMismatchWarning)
                client = Client(address, security=security, timeout=SECONDS_TO_ANSWER)
        except (OSError, ValueError, TypeError) as error:
            found = " ".join(str(error).split()).rstrip(".")
            raise Unavailable(
                f"No scheduler answers at {self.where}: {found}. Check that it runs there, and that both use "
                "certificates of the same authority (--tls), or none."
            ) from error
        with client:
            yield client

    def answers(self) -> bool:
        """Whether the scheduler answers."""
        try:
            with self.opened():
                return True
        except Unavailable:
            return False


@contextmanager
def worker_ttl() -> Iterator[None]:
    """Make a scheduler started in this block drop workers silent for two minutes, unless configured otherwise."""
    import dask
    import distributed  # noqa: F401 - adds its defaults to the configuration

    name = "distributed.scheduler.worker-ttl"
    configured = dask.config.get(name)
    with dask.config.set({name: _WORKER_TTL if configured == _DASK_DEFAULT else configured}):
        yield
