"""Stopping in an orderly way when the system says so."""

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import current_thread, main_thread
from types import FrameType

__all__ = ["TERMINATED", "stopped_by_term"]

# What shells report of a process that the signal TERM has ended.
TERMINATED = 128 + signal.SIGTERM
# Batch systems signal a shell and its children, and the shell hands it on: that is one wish.
_SECONDS_OF_ONE_WISH = 2.0


@contextmanager
def stopped_by_term() -> Iterator[Callable[[], bool]]:
    """Tells whether TERM has come, as batch systems send it before a time limit; again, later, it ends the process."""
    came: list[float] = []
    if current_thread() is not main_thread():
        yield lambda: False
        return

    def note(number: int, frame: FrameType | None) -> None:
        came.append(time.monotonic())
        if came[-1] - came[0] > _SECONDS_OF_ONE_WISH:
            signal.signal(signal.SIGTERM, before)
            signal.raise_signal(signal.SIGTERM)

    before = signal.signal(signal.SIGTERM, note)
    try:
        yield lambda: bool(came)
    finally:
        signal.signal(signal.SIGTERM, before)
