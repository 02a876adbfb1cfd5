"""What is left to do of a study, and doing it."""

import traceback
from collections.abc import Callable, Iterator
from functools import cached_property

import numpy as np

from calibdask.cluster.versions import installed
from calibdask.engine.watching import tell
from calibdask.halted import Halted
from calibdask.study.crew import Crew, Ended, Numbers
from calibdask.study.cube import DONE, FAILED, Cube
from calibdask.study.parcel import packed
from calibdask.study.study import Study
from calibdask.study.task import Task

__all__ = ["Work"]


class Work:
    """The cells of a study, or those of one shard.

    Parameters
    ----------
    study : Study
    cube : Cube
        Laid out.
    shard : (int, int)
        Which one, counted from 0, of how many.
    stop : callable
        Whether to begin no more.
    """

    def __init__(self, study: Study, cube: Cube, shard: tuple[int, int], stop: Callable[[], bool]) -> None:
        self._study, self._cube, self._shard, self._stop = study, cube, shard, stop
        self.before, _ = self.counted()

    @property
    def total(self) -> int:
        """How many cells there are."""
        return int(self._own.sum())

    def counted(self) -> tuple[int, int]:
        """How many cells are done, and how many have failed, by the cube."""
        status = self._cube.status()[self._own]
        return int((status == DONE).sum()), int((status == FAILED).sum())

    def done_by(self, crew: Crew) -> None:
        """Let a crew compute all that is left.

        Raises
        ------
        ValueError
            If workers have other versions than this process, or cannot import the study.
        ClusterLost, Halted
            If the scheduler, or all workers, have gone.
        OSError
            If the cube cannot be written.
        """
        own = np.flatnonzero(self._own)
        wanted = own[self._cube.status()[own] != DONE].tolist()
        progress = _Progress(len(own) - len(wanted), len(own))
        # Workers of other versions may join later than any check of those that were there.
        own_task = Task(self._study, self._cube, None if crew.client is None else installed())
        task = own_task if crew.client is None else packed(own_task, type(self._study))
        suspects: Numbers = []
        for ended in crew.ended(task, self._tasks(wanted), self._stop):
            if ended.killed:
                suspects += ended.numbers
            else:
                progress.add(self._settled(ended))
        # One at a time, so that a cell that kills its workers takes no other one with it.
        status = self._cube.status() if suspects else ()
        for number in (number for number in suspects if status[number] != DONE):
            for ended in crew.ended(task, iter([[number]]), self._stop):
                progress.add(self._settled(ended))

    @cached_property
    def _own(self) -> np.ndarray:
        """Which cells are of this shard: shards share no chunk, since they know nothing of each other."""
        index, count = self._shard
        chunks = self._cube.chunk_of(np.arange(self._cube.size))
        return np.asarray(chunks % count == index)

    def _tasks(self, wanted: Numbers) -> Iterator[Numbers]:
        """Whole chunks, so many together that a task has the cells that the study asks for."""
        task: Numbers = []
        for chunk in self._cube.chunks(wanted):
            task += chunk
            if len(task) >= self._study.batch:
                yield task
                task = []
        if task:
            yield task

    def _settled(self, ended: Ended) -> Ended:
        """A task whose cells are all done or failed: cells keep their own errors, so that any other is of all of them.

        But for that of a cell that kills its workers, who can no longer write it.
        """
        if ended.error is None:
            return ended
        if ended.killed:
            text = "".join(traceback.format_exception(ended.error))
            for number in ended.numbers:
                self._cube.fail(number, text)
            return Ended(ended.numbers, ended.numbers)
        if isinstance(ended.error, OSError | ValueError):
            # The store cannot be written, or other code or other versions compute.
            raise ended.error
        told = f"{type(ended.error).__name__}: {' '.join(str(ended.error).split())}"
        if isinstance(ended.error, ImportError):
            raise ValueError(
                f"Workers cannot import what they need ({told}). They expect the same packages as this process, and "
                "the module of the study where they find it, such as a folder of their PYTHONPATH."
            ) from ended.error
        raise Halted(f"Workers cannot compute ({told}).") from ended.error


class _Progress:
    """Tells whoever watches how far it is."""

    def __init__(self, ready: int, total: int) -> None:
        self._ready, self._total, self._failed = ready, total, 0
        tell(ready, total)

    def add(self, ended: Ended) -> None:
        self._ready += len(ended.numbers) - len(ended.failed)
        self._failed += len(ended.failed)
        tell(self._ready, self._total, failed=self._failed)
