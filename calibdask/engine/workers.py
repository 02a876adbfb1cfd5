"""Who computes: threads of this process, the scheduler of Dask, or workers of a cluster."""

import os
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

from threadpoolctl import ThreadpoolController


def scheduler() -> Any:
    """Dask's choice, or its threads where it has no other: asking it would import distributed, which takes a second.

    Where nobody has imported that package, nobody has a client of it.
    """
    import dask
    import dask.threaded

    if "distributed" in sys.modules or dask.config.get("scheduler", None) is not None:
        return None
    return dask.threaded.get


Result = TypeVar("Result")


def number_of_threads() -> int:
    """One for each core that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def in_parallel(jobs: Iterable[Callable[[], Result]], most: int | None = None) -> list[Result]:
    """The results of all jobs in their order, on one thread for each core, or on ``most`` if these are fewer."""
    waiting = list(jobs)
    threads = min(number_of_threads(), len(waiting), most or len(waiting))
    if threads <= 1:
        return [job() for job in waiting]
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(lambda job: job(), waiting))


def one_thread_for_products() -> AbstractContextManager[object]:
    """While it is open, products of matrices start no threads of their own: they are computed side by side."""
    return _libraries(len(sys.modules)).limit(limits=1)


@lru_cache(maxsize=1)
def _libraries(_modules: int) -> ThreadpoolController:
    """The libraries of this process, found anew where modules were loaded since: looking at all of them takes 3 ms."""
    return ThreadpoolController()


class Workers(NamedTuple):
    """Resources of the processes that compute blocks.

    Attributes
    ----------
    threads : int
        Of the worker with the most.
    memory : int or None
        Bytes that the worker with the least may use; None where none has a limit.
    """

    threads: int
    memory: int | None


def workers_in_force() -> Workers | None:
    """Workers of the active client; None if computations run in this process."""
    import dask

    if "distributed" not in sys.modules or dask.config.get("scheduler", None) not in (
        "dask.distributed",
        "distributed",
    ):
        return None
    from distributed import default_client

    try:
        known = default_client().scheduler_info(n_workers=-1)["workers"].values()
    except ValueError:
        # The client was closed.
        return None
    if not known:
        return None
    limits = [worker["memory_limit"] for worker in known if worker["memory_limit"]]
    return Workers(max(worker["nthreads"] for worker in known), min(limits, default=None))


def memory_in_force() -> Workers:
    """Threads that compute at a time, and bytes that are free for them; None where nothing limits them."""
    import psutil

    workers = workers_in_force()
    return workers or Workers(number_of_threads(), int(psutil.virtual_memory().available))
