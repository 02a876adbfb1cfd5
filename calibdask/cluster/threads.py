"""Threads of this process."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from calibdask.cluster.spec import ClusterSpec


@dataclass(frozen=True)
class Threads(ClusterSpec):
    """Threads of this process; by default one per core that its affinity and the limits of a container allow.

    Raises
    ------
    ValueError
        If the number is 0.
    """

    number: int | None = None

    def __post_init__(self) -> None:
        if self.number == 0:
            raise ValueError("threads:N expects at least one thread, got threads:0.")

    @property
    def count(self) -> int:
        """Number of threads."""
        if self.number is None:
            from dask.system import CPU_COUNT

            return int(CPU_COUNT)
        return self.number

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Compute on Dask's threaded scheduler."""
        import dask

        with dask.config.set(scheduler="threads", num_workers=self.count):
            yield
