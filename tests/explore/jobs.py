"""A document of a server and the jobs that write to it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event

from calibdask.explore.cancellation import LatestOnly


class Models:
    """The models of a document, of which there are none."""

    def invalidate(self) -> None:
        raise AssertionError("There are none.")


class Document:
    """Collects callbacks of the event loop, and runs them on demand."""

    def __init__(self) -> None:
        self.waiting: list[Callable[[], None]] = []
        self.added = Event()
        self.models = Models()

    def add_next_tick_callback(self, act: Callable[[], None]) -> None:
        self.waiting.append(act)
        self.added.set()

    def run(self) -> None:
        assert self.added.wait(10)
        self.added.clear()
        while self.waiting:
            self.waiting.pop(0)()


@contextmanager
def working(document: Document | None) -> Iterator[LatestOnly]:
    latest = LatestOnly(document)
    try:
        yield latest
    finally:
        latest.close()
