"""Who wants to know how far work in memory is."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ["tell", "watching"]

_Watcher = Callable[[int, int, int], None]
_watcher: ContextVar[_Watcher | None] = ContextVar("watcher", default=None)


@contextmanager
def watching(watcher: _Watcher) -> Iterator[None]:
    """Call ``watcher(done, total, failed)`` from time to time while long work runs in this process, in this thread."""
    token = _watcher.set(watcher)
    try:
        yield
    finally:
        _watcher.reset(token)


def tell(done: int, total: int, failed: int = 0) -> None:
    """Say how many tasks of how many are done, and how many others have failed."""
    watcher = _watcher.get()
    if watcher is not None:
        watcher(done, total, failed)
