"""Stopping in an orderly way when the system says so."""

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import current_thread, main_thread
from types import FrameType

# What shells report of a process that the signal TERM has ended.
TERMINATED = 128 + signal.SIGTERM
# Batch systems signal a shell and its children, and the shell hands it on: that is one wish.
SECONDS_OF_ONE_WISH = 2.0
_SIGNALS = (signal.SIGTERM, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else []))


@contextmanager
def stopped_by_term() -> Iterator[Callable[[], bool]]:
    """Function that reports whether SIGTERM or SIGHUP has arrived; batch systems send SIGTERM before a limit.

    As long as nobody asks, and when it comes again later, it ends the command in order: what was started is closed.
    """
    came: list[float] = []
    asked = False

    def stop() -> bool:
        nonlocal asked
        asked = True
        return bool(came)

    def note(number: int, frame: FrameType | None) -> None:
        came.append(time.monotonic())
        if not asked or came[-1] - came[0] > SECONDS_OF_ONE_WISH:
            raise SystemExit(TERMINATED)

    if current_thread() is not main_thread():
        yield stop
        return
    # What nohup has told to be ignored stays ignored.
    heard = [number for number in _SIGNALS if signal.getsignal(number) != signal.SIG_IGN]
    before = {number: signal.signal(number, note) for number in heard}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
