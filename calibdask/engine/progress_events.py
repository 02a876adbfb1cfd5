"""Progress events of long computations."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Stage:
    """A part of long work.

    Parameters
    ----------
    name : str
        Name of the stage, such as ``"pass 2"``.
    unit : str
        The unit that is counted.
    total : int
        Number of these units; 0 where it is not known.
    tasks : tuple of str
        With Dask: names (by `dask.utils.key_split`) of the tasks that each complete one unit.
    """

    name: str
    unit: str = "blocks"
    total: int = 0
    tasks: tuple[str, ...] = ()


_Watcher = Callable[[int, int, int], None]
_watcher: ContextVar[_Watcher | None] = ContextVar("watcher", default=None)
_entering: ContextVar[Callable[[Stage], Any] | None] = ContextVar("entering", default=None)


@contextmanager
def watching(watcher: _Watcher, entering: Callable[[Stage], Any] | None = None) -> Iterator[None]:
    """Call ``watcher(done, total, failed)`` from time to time while long work runs in this process, in this thread.

    The total is 0 where it is not known. ``entering(stage)`` is called when a part of the work begins.
    """
    token, entered = _watcher.set(watcher), _entering.set(entering)
    try:
        yield
    finally:
        _watcher.reset(token)
        _entering.reset(entered)


def advance(done: int, total: int, failed: int = 0) -> None:
    """Say how many of how many are done, and how many others have failed."""
    watcher = _watcher.get()
    if watcher is not None:
        watcher(done, total, failed)


def start_stage(stage: Stage) -> None:
    """Say that a part of the work begins."""
    entering = _entering.get()
    if entering is not None:
        entering(stage)
