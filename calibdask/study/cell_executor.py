"""Execution of cells: on threads of this process, or on the workers of a Dask cluster."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, CancelledError, Executor, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any

from calibdask.cluster import ClusterLost, ClusterSpec, cluster_spec, connected
from calibdask.cluster.spec import PATIENCE, no_worker
from calibdask.cluster.threads import Threads
from calibdask.cluster.versions import blas_kernels, other_kernels
from calibdask.engine.workers import one_thread_for_products

# Tasks in flight per thread: enough that no thread waits, few enough that a scheduler holds little.
_IN_FLIGHT = 4
# Interval of checks whether to stop, and whether there are workers.
_POLL_SECONDS = 1.0
_LOST = "The scheduler was lost."

Numbers = list[int]


@dataclass(frozen=True)
class TaskResult:
    """A finished task: numbers of its cells, numbers of failed cells, and the error if it did not complete."""

    numbers: Numbers
    failed: Numbers
    error: BaseException | None = None

    @property
    def killed(self) -> bool:
        """Whether its workers died, because of one of its cells or of other tasks on these workers."""
        return type(self.error).__name__ == "KilledWorker"


@dataclass(frozen=True)
class CellExecutor:
    """Executes tasks, a bounded number at a time.

    Parameters
    ----------
    executor : Executor
    client : distributed.Client or None
        None for threads of this process.
    patience : float
        Seconds for which the cluster may be without workers.
    own_threads : int
        Number of threads of this process.
    """

    executor: Executor
    client: Any = None
    patience: float = 0.0
    own_threads: int = 0

    @property
    def threads(self) -> int:
        """Current number of threads."""
        if self.client is None:
            return self.own_threads
        with _lost_connections(self.client):
            return int(sum(self.client.nthreads().values()))

    def kernels(self) -> str:
        """The BLAS kernels of all threads or workers.

        Raises
        ------
        ValueError
            If those of workers differ from one another.
        Unavailable
            If there are no workers for longer than the patience.
        """
        if self.client is None:
            return blas_kernels()
        with _lost_connections(self.client):
            # A worker that cannot answer cannot compute either, and the error of its first task says why.
            answers = self.client.run(blas_kernels, on_error="return")
            kernels = {where: answer for where, answer in answers.items() if isinstance(answer, str)}
            if not answers:
                # Workers that come when there are tasks: the first one answers for all.
                return self._first_kernels()
        for where, there in kernels.items():
            if problem := other_kernels(next(iter(kernels.values())), there, where):
                raise ValueError(problem)
        return next(iter(kernels.values()), "")

    def _first_kernels(self) -> str:
        future = self.client.submit(blas_kernels, pure=False)
        try:
            return str(future.result(timeout=self.patience))
        except TimeoutError as error:
            raise no_worker(self.patience) from error
        except ImportError:
            return ""

    def results(
        self, work: Callable[[Numbers], Numbers], tasks: Iterator[Numbers], stop: Callable[[], bool]
    ) -> Iterator[TaskResult]:
        """Results of tasks in order of completion; once ``stop()`` is true, only of those already started.

        Raises
        ------
        ClusterLost
            If the scheduler is lost.
        Unavailable
            If there are no workers for longer than the patience.
        """
        running: dict[Future[Numbers], Numbers] = {}
        thread_count = _ThreadCount(self)
        try:
            while True:
                if stop():
                    tasks = iter(())
                    running = {future: numbers for future, numbers in running.items() if not future.cancel()}
                # After the loss of workers more tasks may be in flight than the others need.
                for numbers in islice(tasks, max(0, _IN_FLIGHT * max(1, thread_count()) - len(running))):
                    with _lost_connections(self.client):
                        running[self.executor.submit(work, numbers)] = numbers
                if not running:
                    return
                for future in wait(running, _POLL_SECONDS, FIRST_COMPLETED).done:
                    numbers = running.pop(future)
                    if _is_lost(future):
                        with _lost_connections(self.client):
                            running[self.executor.submit(work, numbers)] = numbers
                    else:
                        yield _result(future, numbers)
        finally:
            for future in running:
                future.cancel()


@contextmanager
def _lost_connections(client: Any) -> Iterator[None]:
    """Turn errors of a client that has lost its scheduler into ClusterLost."""
    try:
        yield
    except Exception as error:
        if client is None or not (isinstance(error, OSError) or client.status != "running"):
            raise
        raise ClusterLost(_LOST) from error


class _ThreadCount:
    """Current number of threads, cached because each query is a round trip to the scheduler."""

    def __init__(self, executor: CellExecutor) -> None:
        self._executor = executor
        self._polled = self._alive = time.monotonic()
        self._threads = executor.threads

    def __call__(self) -> int:
        """The number as of at most a second ago.

        Raises
        ------
        Unavailable
            If it has been zero for longer than the patience.
        """
        now = time.monotonic()
        if now - self._polled >= _POLL_SECONDS:
            self._polled, self._threads = now, self._executor.threads
        if self._threads:
            self._alive = now
        elif now - self._alive > self._executor.patience:
            raise no_worker(self._executor.patience)
        return self._threads


def _is_lost(future: Future[Numbers]) -> bool:
    """Whether a result went with its worker after it was there and before it was taken.

    The executor of distributed knows no such state. It takes whatever is not finished for an error, and fails at
    reading the error that is not there: a ValueError of its own frame, where errors of tasks have those of the task.
    """
    if future.cancelled():
        return False
    error = future.exception()
    own = error is not None and error.__traceback__ is not None and error.__traceback__.tb_next is None
    return own and isinstance(error, ValueError) and "values to unpack" in str(error)


def _result(future: Future[Numbers], numbers: Numbers) -> TaskResult:
    try:
        error = future.exception()
    except CancelledError as lost:
        raise ClusterLost(_LOST) from lost
    return TaskResult(numbers, future.result()) if error is None else TaskResult(numbers, [], error)


@contextmanager
def cell_executor(cluster: Any) -> Iterator[CellExecutor]:
    """An executor on a cluster, or on that of a client.

    Raises
    ------
    ValueError
        If there is no such cluster.
    Unavailable
        If the scheduler does not answer.
    """
    if cluster is not None and not isinstance(cluster, str | ClusterSpec):
        yield _of_client(cluster, PATIENCE)
        return
    spec = cluster_spec(cluster or "threads")
    if isinstance(spec, Threads):
        # Cells run in parallel; further threads within each of them would only compete.
        with one_thread_for_products(), ThreadPoolExecutor(spec.count) as executor:
            yield CellExecutor(executor, own_threads=spec.count)
        return
    with connected(spec) as client:
        yield _of_client(client, spec.patience)


def _of_client(client: Any, patience: float) -> CellExecutor:
    return CellExecutor(client.get_executor(pure=False), client, patience)
