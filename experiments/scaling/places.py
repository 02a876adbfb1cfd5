"""Places to work, several open at the same time, so that calls in them can take turns."""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import dask

from calibdask.cluster import connected, threads_of

__all__ = ["Place", "opened"]


@dataclass(frozen=True)
class Place:
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

    def each(self, function: Callable[[], Any]) -> list[Any]:
        """What a function returns in every process that computes."""
        return [function()] if self.client is None else list(self.client.run(function).values())


@contextmanager
def opened(names: Sequence[str]) -> Iterator[list[Place]]:
    """Places by name; processes that are started live until the end."""
    with ExitStack() as stack:
        yield [_opened(name, stack) for name in names]


def _opened(name: str, stack: ExitStack) -> Place:
    if threads := threads_of(name):
        return Place(name, threads)
    found = re.fullmatch(r"local:(\d+)", name)
    if not found:
        raise ValueError(f"Expected threads:N or local:N as a place to work, got {name!r}.")
    stack.enter_context(connected(name))
    from distributed import default_client

    return Place(name, int(found[1]), default_client())
