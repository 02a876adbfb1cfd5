"""Who wants to know how far long work is, and what it is at."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

__all__ = ["Stage", "enter", "tell", "watching"]


@dataclass(frozen=True)
class Stage:
    """A part of long work.

    Parameters
    ----------
    name : str
        What it is, such as ``"pass 2"``.
    unit : str
        What is counted in it.
    total : int
        How many of these there are; 0 where nobody knows.
    tasks : tuple of str
        Where Dask works: the names, as `dask.utils.key_split` has them, of those of its tasks that do one each.
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


def tell(done: int, total: int, failed: int = 0) -> None:
    """Say how many of how many are done, and how many others have failed."""
    watcher = _watcher.get()
    if watcher is not None:
        watcher(done, total, failed)


def enter(stage: Stage) -> None:
    """Say that a part of the work begins."""
    entering = _entering.get()
    if entering is not None:
        entering(stage)
