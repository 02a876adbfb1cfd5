"""Run a study: all cells that are not done, on threads or on a Dask cluster, a bounded number of tasks at a time."""

import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from calibdask.cluster import connected, threads_of
from calibdask.engine.watching import tell
from calibdask.study.announced import check_study
from calibdask.study.cube import DONE, FAILED, TODO, Cube
from calibdask.study.study import Study

__all__ = ["CellCounts", "count_cells", "run"]

# Tasks in flight for each thread: enough that none waits, few enough that a scheduler holds little.
_IN_FLIGHT = 4


@dataclass(frozen=True)
class CellCounts:
    """How many cells of a cube are ``done``, ``failed`` or yet ``todo``; ``computed``, those done in this run."""

    done: int
    failed: int
    todo: int
    computed: int = 0

    @property
    def total(self) -> int:
        """All cells."""
        return self.done + self.failed + self.todo


def run(study: Study, store: Any, cluster: Any = None, resume: bool = True, *, overwrite: bool = False) -> CellCounts:
    """Compute all cells of a study that its cube does not hold yet.

    Parameters
    ----------
    study : Study
        What is computed.
    store : str or path
        Where the cube is, or will be: a path, or a URL that fsspec knows.
    cluster : str or distributed.Client, optional
        None or ``"threads"``: threads of this process, one for each core that it may use; ``"threads:4"``; otherwise a
        client, or where to work as `calibdask.cluster` has it: ``"local:4"``, ``"tcp://..."``, a scheduler file.
    resume : bool, default True
        Go on with a cube that is there; False: refuse one.
    overwrite : bool, default False
        Replace what is there, whatever it is the cube of.

    Returns
    -------
    CellCounts
        ``done``, ``failed``, ``todo`` and, of this run, ``computed``.

    Raises
    ------
    ValueError
        If the cube there is that of another study, of other parameters or of another format: all differences are named.
        If something else is there, which is never replaced; if the study cannot be laid out as it is.

    Warns
    -----
    UserWarning
        If other versions of Python or packages have computed the cells that are there.

    Notes
    -----
    Every cell writes its own chunks and then its status, so that it is done or not, never half, and a run may be killed
    at any time; the next one computes what is left. A cell that raises keeps its traceback in the cube (``error``), and
    the others go on; it is computed anew by the next run. Results do not depend on the order of cells, on the cluster
    or on interruptions, since random numbers are keyed by coordinates (`Seeds`).

    Tasks return numbers of cells, never arrays. With processes the class of the study must be importable there: define
    it in a module.

    Examples
    --------
    >>> import tempfile
    >>> from calibdask.study.example import Means
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     counts = run(Means(replicates=2), folder + "/means.zarr")
    >>> counts.done, counts.failed
    (2, 0)
    """
    cube = Cube(str(store))
    check_study(study)
    _check(cube, study, resume=resume, overwrite=overwrite)
    # Nothing is written before there is someone to work.
    with _workers(cluster) as (executor, threads):
        if overwrite or cube.is_empty:
            cube.lay_out(study)
        else:
            cube.join()
        status = cube.status()
        wanted = np.flatnonzero(status != DONE).tolist()
        total, failed = len(status), 0
        tasks = (wanted[at : at + study.batch] for at in range(0, len(wanted), study.batch))
        before = ready = total - len(wanted)
        tell(ready, total)
        for numbers, bad in _finished(executor, _Task(study, cube), tasks, _IN_FLIGHT * threads):
            for number, text in bad.items():
                # What a lost worker could not write.
                if text:
                    cube.fail(number, text)
            ready, failed = ready + len(numbers) - len(bad), failed + len(bad)
            tell(ready, total, failed=failed)
    return count_cells(cube, computed=ready - before)


def count_cells(cube: Cube, computed: int = 0) -> CellCounts:
    """How far a cube is."""
    status = cube.status()
    done, failed, todo = (int((status == each).sum()) for each in (DONE, FAILED, TODO))
    return CellCounts(done, failed, todo, computed)


def _check(cube: Cube, study: Study, *, resume: bool, overwrite: bool) -> None:
    """See that there is nothing yet, or the cube of the study, or one that may be replaced."""
    if overwrite or cube.is_empty:
        cube.check_replaceable()
    elif not resume:
        raise ValueError(f"{cube.url} is there already; resume it, choose another name, or give overwrite=True.")
    else:
        cube.check(study)


@dataclass(frozen=True)
class _Task:
    """Compute some cells and write them; returns the numbers of those that failed."""

    study: Study
    cube: Cube

    def __call__(self, numbers: list[int]) -> dict[int, str]:
        failed = {}
        for number in numbers:
            try:
                arrays = self.study.computed(number)
            except Exception:
                self.cube.fail(number, traceback.format_exc())
                failed[number] = ""
            else:
                self.cube.write(number, arrays)
        return failed


def _finished(
    executor: Executor, task: Callable[[list[int]], dict[int, str]], tasks: Iterator[list[int]], window: int
) -> Iterator[tuple[list[int], dict[int, str]]]:
    """Cells of each task and those of them that failed, as tasks end; no more than ``window`` are under way."""
    running: dict[Future[dict[int, str]], list[int]] = {}
    try:
        while True:
            for numbers in islice(tasks, window - len(running)):
                running[executor.submit(task, numbers)] = numbers
            if not running:
                return
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                numbers = running.pop(future)
                error = future.exception()
                if error is None:
                    yield numbers, future.result()
                elif isinstance(error, OSError | ValueError):
                    # The store cannot be written: no cell can.
                    raise error
                else:
                    yield numbers, dict.fromkeys(numbers, "".join(traceback.format_exception(error)))
    finally:
        for future in running:
            future.cancel()


@contextmanager
def _workers(cluster: Any) -> Iterator[tuple[Executor, int]]:
    """Where tasks go, and how many threads there are."""
    threads = 0 if cluster is not None and not isinstance(cluster, str) else threads_of(cluster or "threads")
    if threads:
        from threadpoolctl import threadpool_limits

        # Cells run side by side; more threads within each would only get in their way.
        with threadpool_limits(1), ThreadPoolExecutor(threads) as executor:
            yield executor, threads
        return
    if not isinstance(cluster, str):
        yield _executor(cluster)
        return
    with connected(cluster):
        from distributed import get_client

        yield _executor(get_client())


def _executor(client: Any) -> tuple[Executor, int]:
    return client.get_executor(pure=False), max(1, sum(client.nthreads().values()))
