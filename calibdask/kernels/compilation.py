"""Observers that are notified when kernels are compiled, which takes seconds once."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

_observers: list[Callable[[str], None]] = []


@contextmanager
def observed(observer: Callable[[str], None]) -> Iterator[None]:
    """Call a function with the name of each kernel that is compiled meanwhile, before it is."""
    _observers.append(observer)
    try:
        yield
    finally:
        _observers.remove(observer)


def notify_compilation(name: str) -> None:
    """Tell all observers that a kernel is being compiled."""
    for observer in tuple(_observers):
        observer(name)
