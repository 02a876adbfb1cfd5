"""Who computes cells: threads of this process, or the workers of a Dask cluster."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, CancelledError, Executor, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any

from calibdask.cluster import ClusterLost, Place, connected, place
from calibdask.cluster.threads import Threads
from calibdask.halted import Halted

__all__ = ["Crew", "Ended", "crew_at"]

# Tasks in flight for each thread: enough that none waits, few enough that a scheduler holds little.
_IN_FLIGHT = 4
# Between looks at whether to stop, and whether there are workers.
_LOOK_SECONDS = 1.0

Numbers = list[int]


@dataclass(frozen=True)
class Ended:
    """A task that has ended: its cells, those of them that failed, and the error, if it did not get so far."""

    numbers: Numbers
    failed: Numbers
    error: BaseException | None = None

    @property
    def killed(self) -> bool:
        """Whether workers died under it: it may have been one of its cells, or a neighbour on those workers."""
        return type(self.error).__name__ == "KilledWorker"


@dataclass(frozen=True)
class Crew:
    """Takes tasks, a bounded number at a time.

    Parameters
    ----------
    executor : Executor
    client : distributed.Client or None
        None for threads of this process.
    patience : float
        Seconds that the cluster may be without workers.
    """

    executor: Executor
    client: Any = None
    patience: float = 0.0

    @property
    def threads(self) -> int:
        """How many there are now."""
        if self.client is None:
            return int(self.executor._max_workers)  # type: ignore[attr-defined]
        with _told_if_lost(self.client):
            return int(sum(self.client.nthreads().values()))

    def ended(
        self, work: Callable[[Numbers], Numbers], tasks: Iterator[Numbers], stop: Callable[[], bool]
    ) -> Iterator[Ended]:
        """Tasks as they end; once it is to stop, those only that had begun.

        Raises
        ------
        ClusterLost
            If the scheduler has gone.
        Halted
            If all workers have, for too long.
        """
        running: dict[Future[Numbers], Numbers] = {}
        watch = _Watch(self)
        try:
            while True:
                if stop():
                    tasks = iter(())
                    running = {future: numbers for future, numbers in running.items() if not future.cancel()}
                # Workers that have gone have left more in flight than the others need.
                for numbers in islice(tasks, max(0, _IN_FLIGHT * max(1, watch.threads()) - len(running))):
                    with _told_if_lost(self.client):
                        running[self.executor.submit(work, numbers)] = numbers
                if not running:
                    return
                for future in wait(running, _LOOK_SECONDS, FIRST_COMPLETED).done:
                    yield _ended(future, running.pop(future))
        finally:
            for future in running:
                future.cancel()


@contextmanager
def _told_if_lost(client: Any) -> Iterator[None]:
    """Say of whatever a client raises that has lost its scheduler that it has."""
    try:
        yield
    except Exception as error:
        if client is None or not (isinstance(error, OSError) or client.status != "running"):
            raise
        raise ClusterLost("The scheduler has gone.") from error


class _Watch:
    """How many threads there are, asked now and then: each time it goes to the scheduler and back."""

    def __init__(self, crew: Crew) -> None:
        self._crew = crew
        self._looked = self._alive = time.monotonic()
        self._threads = crew.threads

    def threads(self) -> int:
        """As of a second ago at most.

        Raises
        ------
        Halted
            If there have been none for too long.
        """
        now = time.monotonic()
        if now - self._looked >= _LOOK_SECONDS:
            self._looked, self._threads = now, self._crew.threads
        if self._threads:
            self._alive = now
        elif now - self._alive > self._crew.patience:
            raise Halted(f"The cluster has had no worker for {self._crew.patience:.0f} seconds.")
        return self._threads


def _ended(future: Future[Numbers], numbers: Numbers) -> Ended:
    try:
        error = future.exception()
    except CancelledError as lost:
        raise ClusterLost("The scheduler has gone.") from lost
    return Ended(numbers, future.result()) if error is None else Ended(numbers, [], error)


@contextmanager
def crew_at(cluster: Any) -> Iterator[Crew]:
    """The crew of a place, or of a client.

    Raises
    ------
    ValueError
        If there is no such place, or nobody answers.
    """
    if cluster is not None and not isinstance(cluster, str | Place):
        yield _of_client(cluster, Place.patience)
        return
    where = place(cluster or "threads")
    if isinstance(where, Threads):
        from threadpoolctl import threadpool_limits

        # Cells run side by side; more threads within each would only get in their way.
        with threadpool_limits(1), ThreadPoolExecutor(where.count) as executor:
            yield Crew(executor)
        return
    with connected(where) as client:
        yield _of_client(client, where.patience)


def _of_client(client: Any, patience: float) -> Crew:
    return Crew(client.get_executor(pure=False), client, patience)
