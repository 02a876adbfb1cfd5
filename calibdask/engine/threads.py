"""Threads of passes over blocks in memory, and of replicates."""

import os
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import lru_cache
from typing import TypeVar

from threadpoolctl import ThreadpoolController

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
