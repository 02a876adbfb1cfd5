"""The cells of a study that remain to be computed, and the tasks that compute them."""

import hashlib
import pickle
import platform
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from calibdask.cluster.versions import blas_kernels, installed, other_kernels, version_mismatch
from calibdask.engine.progress_events import advance
from calibdask.errors import Unavailable
from calibdask.safe_text import message
from calibdask.storage.cube_layout import DONE, FAILED
from calibdask.study.cell_executor import CellExecutor, Numbers, TaskResult
from calibdask.study.cube import Cube
from calibdask.study.study import Study


@dataclass(frozen=True)
class ShippedStudy:
    """A function of one argument as bytes, so that the scheduler, which deserialises tasks, need not import its module.

    Parameters
    ----------
    module : str
        Module of the study's class; empty if the class is part of the bytes.
    root : str
        Folder that the module was imported from, which workers search too.
    code : str
        Digest of the files beside the module, which must be the same on workers.
    content : bytes
    """

    module: str
    root: str
    code: str
    content: bytes

    def __call__(self, argument: Any) -> Any:
        """Deserialise the function and call it.

        Raises
        ------
        ImportError
            If the module cannot be found.
        ValueError
            If its code differs.
        """
        return _loaded(self)(argument)


def ship(function: Callable[[Any], Any], kind: type[Any]) -> ShippedStudy:
    """Serialise a function that needs the module of a study's class."""
    import cloudpickle

    content = cloudpickle.dumps(function)
    path = getattr(sys.modules.get(kind.__module__), "__file__", None)
    if path is None or kind.__module__ == "__main__":
        return ShippedStudy("", "", "", content)
    file = Path(path).resolve()
    root = file.parents[kind.__module__.count(".") + (file.name == "__init__.py")]
    return ShippedStudy(kind.__module__, str(root), _digest(file), content)


@lru_cache(maxsize=8)
def _loaded(shipped: ShippedStudy) -> Callable[[Any], Any]:
    if shipped.module:
        if shipped.root not in sys.path:
            # Last, so that the modules that the worker has itself take precedence.
            sys.path.append(shipped.root)
        if _code_of(shipped.module) != shipped.code:
            raise ValueError(
                f"A worker has different code of {shipped.module} than this process. Restart the workers, or install "
                "the same files there."
            )
    function: Callable[[Any], Any] = pickle.loads(shipped.content)
    return function


@cache
def _code_of(module: str) -> str:
    """Digest of a module in this process, cached because files that change later are not the imported ones."""
    spec = find_spec(module)
    if spec is None or spec.origin is None:
        raise ImportError(f"No module named {module!r}", name=module)
    return _digest(Path(spec.origin).resolve())


def _digest(file: Path) -> str:
    """Digest of all code in the folder of a file."""
    digest = hashlib.sha256()
    for path in sorted(file.parent.glob("*.py")):
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()


# Interval of looks whether the cube is still the same.
_LOOK_SECONDS = 10.0


@dataclass(frozen=True)
class Task:
    """Computes cells of a study and writes them to its cube.

    Parameters
    ----------
    study : Study
    cube : Cube
    versions : mapping from str to str, optional
        Versions in the process of the driver, if workers must have the same.
    kernels : str
        BLAS kernels that workers must have; "": any.
    """

    study: Study
    cube: Cube
    versions: Mapping[str, str] | None = None
    kernels: str = ""

    def __call__(self, numbers: list[int]) -> list[int]:
        """Compute and write cells, and return the numbers of those that failed.

        Raises
        ------
        ValueError
            If the versions or the BLAS kernels of this process differ.
        OSError
            If the store cannot be written, which concerns all cells and is not an error of one.
        """
        if self.versions is not None and (problem := version_mismatch(self.versions, installed(), "of a task")):
            raise ValueError(problem)
        if self.kernels and (problem := other_kernels(self.kernels, blas_kernels(), f"on {platform.node()}")):
            raise ValueError(problem)
        return [number for chunk in self.cube.chunks(numbers) for number in self._written(chunk)]

    def _written(self, chunk: list[int]) -> list[int]:
        """Compute the cells of one chunk, and write them together."""
        computed, errors = {}, {}
        for number in chunk:
            try:
                computed[number] = self.study.computed(number)
            except Exception:
                errors[number] = traceback.format_exc()
        if computed:
            self.cube.write(computed)
        for number, text in errors.items():
            self.cube.fail(number, text)
        return list(errors)


class Work:
    """The cells of a study, or of one shard.

    Parameters
    ----------
    study : Study
    cube : Cube
        The cube of the study, already laid out.
    shard : (int, int)
        Index of the shard, counted from 0, and number of shards.
    stop : callable
        Whether to start no further tasks.
    kernels : str
        BLAS kernels of the workers.
    """

    def __init__(
        self, study: Study, cube: Cube, shard: tuple[int, int], stop: Callable[[], bool], kernels: str = ""
    ) -> None:
        self._study, self._cube, self._shard, self._stop, self._kernels = study, cube, shard, stop, kernels
        self.before, _ = self.counted()

    @property
    def total(self) -> int:
        """Number of cells."""
        return int(self._own.sum())

    def counted(self) -> tuple[int, int]:
        """Numbers of cells that the cube marks as done and as failed."""
        status = self._cube.status()[self._own]
        return int((status == DONE).sum()), int((status == FAILED).sum())

    def finished(self) -> tuple[int, int]:
        """Final counts; the cube records its completion when all cells are done."""
        status = self._cube.status()
        if (status == DONE).all():
            self._cube.finish()
        own = status[self._own]
        return int((own == DONE).sum()), int((own == FAILED).sum())

    def compute(self, executor: CellExecutor) -> None:
        """Compute all remaining cells on an executor.

        Raises
        ------
        ValueError
            If the versions of workers differ from those of this process, or they cannot import the study; if another
            run has laid the cube out anew.
        ClusterLost, Unavailable
            If the scheduler, or all workers, are lost.
        OSError
            If the cube cannot be written.
        """
        own = np.flatnonzero(self._own)
        remaining = own[self._cube.status()[own] != DONE].tolist()
        progress = _Progress(len(own) - len(remaining), len(own))
        # Checked by every task, because workers with other versions may join at any time.
        versions, kernels = (None, "") if executor.client is None else (installed(), self._kernels)
        local_task = Task(self._study, self._cube, versions, kernels)
        task = local_task if executor.client is None else ship(local_task, type(self._study))
        suspects: Numbers = []
        looked = time.monotonic()
        for result in executor.results(task, self._tasks(remaining), self._stop):
            if time.monotonic() - looked > _LOOK_SECONDS:
                self._cube.check_current()
                looked = time.monotonic()
            if result.killed:
                suspects += result.numbers
            else:
                progress.add(self._settled(result))
        # One at a time, so that a cell that kills its workers affects no other one.
        status = self._cube.status() if suspects else ()
        for number in (number for number in suspects if status[number] != DONE):
            for result in executor.results(task, iter([[number]]), self._stop):
                progress.add(self._settled(result))

    @cached_property
    def _own(self) -> np.ndarray:
        """Mask of the cells of this shard; shards are independent processes and never share a chunk."""
        index, count = self._shard
        chunks = self._cube.chunk_of(np.arange(self._cube.size))
        return np.asarray(chunks % count == index)

    def _tasks(self, remaining: Numbers) -> Iterator[Numbers]:
        """Whole chunks, combined until a task has at least the batch of the study."""
        task: Numbers = []
        for chunk in self._cube.chunks(remaining):
            task += chunk
            if len(task) >= self._study.batch:
                yield task
                task = []
        if task:
            yield task

    def _settled(self, result: TaskResult) -> TaskResult:
        """Record a result whose cells are all done or failed; raise an error that concerns the whole run.

        Cells store their own errors. Only that of a cell that kills its workers has to be stored here.
        """
        if result.error is None:
            return result
        if result.killed:
            text = "".join(traceback.format_exception(result.error))
            for number in result.numbers:
                self._cube.fail(number, text)
            return TaskResult(result.numbers, result.numbers)
        if isinstance(result.error, OSError | ValueError):
            # The store cannot be written, or workers have other code or other versions.
            raise result.error
        reason = f"{type(result.error).__name__}: {message(result.error)}"
        if isinstance(result.error, ImportError):
            raise ValueError(
                f"Workers cannot import the study ({reason}). They need the same packages as this process, "
                "and the module of the study on their path, for example in a folder of PYTHONPATH."
            ) from result.error
        raise Unavailable(f"Workers cannot compute ({reason}).") from result.error


class _Progress:
    """Emits progress events."""

    def __init__(self, ready: int, total: int) -> None:
        self._ready, self._total, self._failed = ready, total, 0
        advance(ready, total)

    def add(self, result: TaskResult) -> None:
        self._ready += len(result.numbers) - len(result.failed)
        self._failed += len(result.failed)
        advance(self._ready, self._total, failed=self._failed)
