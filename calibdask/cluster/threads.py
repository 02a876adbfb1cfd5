"""Threads of this process."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from calibdask.cluster.places import Place

__all__ = ["Threads"]


@dataclass(frozen=True)
class Threads(Place):
    """So many threads; None: one for each core that this process may use, as affinity and a container's limits allow.

    Raises
    ------
    ValueError
        For no threads.
    """

    number: int | None = None

    def __post_init__(self) -> None:
        if self.number == 0:
            raise ValueError("threads:N expects at least one thread, got threads:0.")

    @property
    def count(self) -> int:
        """How many threads."""
        if self.number is None:
            from dask.system import CPU_COUNT

            return int(CPU_COUNT)
        return self.number

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Dask's own threads."""
        import dask

        with dask.config.set(scheduler="threads", num_workers=self.count):
            yield
