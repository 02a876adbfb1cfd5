"""Places to work, several open at the same time, so that calls in them can take turns."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import dask

from calibdask import cluster
from calibdask.cluster.processes import Processes
from calibdask.cluster.threads import Threads


@dataclass(frozen=True)
class Backend:
    """Threads of this process, or processes with a thread each.

    Parameters
    ----------
    name : str
        ``threads:N`` or ``local:N``, as for the option ``--on`` of calibdask.
    workers : int
        N.
    client : distributed.Client or None
        Of processes.
    """

    name: str
    workers: int
    client: Any = None

    def run(self, call: Callable[[], Any]) -> Any:
        """Call, with Dask computing here."""
        scheduler = {"scheduler": "threads", "num_workers": self.workers} if self.client is None else {}
        with dask.config.set(scheduler or {"scheduler": self.client}):
            return call()

    def on_workers(self, function: Callable[[], Any]) -> list[Any]:
        """What a function returns in every process that computes."""
        return [function()] if self.client is None else list(self.client.run(function).values())


@contextmanager
def opened(names: Sequence[str]) -> Iterator[list[Backend]]:
    """Places by name; processes that are started live until the end."""
    with ExitStack() as stack:
        yield [_opened(name, stack) for name in names]


def _opened(name: str, stack: ExitStack) -> Backend:
    where = cluster.cluster_spec(name)
    if isinstance(where, Threads):
        return Backend(name, where.count)
    if not isinstance(where, Processes) or where.number is None:
        raise ValueError(f"Expected threads:N or local:N as a backend to work, got {name!r}.")
    return Backend(name, where.number, stack.enter_context(cluster.connected(where)))
