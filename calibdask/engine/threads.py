"""Threads of passes over blocks in memory, and of replicates."""

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

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
