"""Stopping in an orderly way when the system says so."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, current_thread, main_thread
from types import FrameType

__all__ = ["TERMINATED", "stopped_by_term"]

# What shells report of a process that the signal TERM has ended.
TERMINATED = 128 + signal.SIGTERM


@contextmanager
def stopped_by_term() -> Iterator[Callable[[], bool]]:
    """Tells whether TERM has come, as batch systems send it before a time limit; a second one ends the process."""
    event = Event()
    if current_thread() is not main_thread():
        yield event.is_set
        return

    def note(number: int, frame: FrameType | None) -> None:
        event.set()
        signal.signal(signal.SIGTERM, before)

    before = signal.signal(signal.SIGTERM, note)
    try:
        yield event.is_set
    finally:
        signal.signal(signal.SIGTERM, before)
