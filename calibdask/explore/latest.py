"""Work for a page, off its event loop: only the newest is finished."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from threading import Event
from time import monotonic
from typing import Any

__all__ = ["Latest", "Stopped", "Watch", "error_words", "soon"]

_Act = Callable[[Any], object]

# A page is told how far work is so often, in seconds.
_OFTEN = 0.15


class Stopped(Exception):
    """A newer choice has made a pass needless."""


@dataclass(frozen=True)
class Watch:
    """What a pass is told, and tells: whether it has been called off, and the share of blocks that are read."""

    is_stopped: Callable[[], bool] = lambda: False
    tell: Callable[[float], object] = lambda _: None

    def part(self, number: int, parts: int) -> "Watch":
        """That of one of several passes."""
        return Watch(self.is_stopped, lambda share: self.tell((number + share) / parts))


class Latest:
    """Jobs of which a newer one calls off the older.

    Parameters
    ----------
    document : bokeh document or None
        Where results are shown, on its event loop; None: jobs are done at once.

    Examples
    --------
    >>> Latest(None).start(lambda watch: 6 * 7, show=lambda answer: answer, fail=lambda error: error)
    """

    def __init__(self, document: Any) -> None:
        self._document = document
        self._pool = ThreadPoolExecutor(1)
        self._called_off = Event()

    def start(
        self,
        job: Callable[[Watch], Any],
        *,
        show: Callable[[Any], object],
        fail: Callable[[Exception], object],
        tell: Callable[[float], object] = lambda _: None,
        is_quick: bool = False,
    ) -> None:
        """Begin a job.

        Parameters
        ----------
        job : function
            Is given a `Watch`.
        show, fail : function
            What to do with its result, or with what went wrong, on the page.
        tell : function
            Is told the share that is done, on the page, now and then.
        is_quick : bool
            Done at once.
        """
        self.stop()
        show = partial(_shown, show, fail)
        if self._document is None or is_quick:
            self._finish(lambda: job(Watch()), show, fail)
            return
        called_off = self._called_off
        watch = Watch(called_off.is_set, self._teller(called_off, tell))
        self._pool.submit(self._run, called_off, lambda: job(watch), show, fail)

    def stop(self) -> None:
        """Call off what runs."""
        self._called_off.set()
        self._called_off = Event()

    def close(self) -> None:
        """Call off what runs, for good."""
        self.stop()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _run(self, called_off: Event, job: Callable[[], Any], show: _Act, fail: _Act) -> None:
        if not called_off.is_set():
            later = partial(self._later, called_off)
            self._finish(job, partial(later, show), partial(later, fail))

    def _finish(self, job: Callable[[], Any], show: _Act, fail: _Act) -> None:
        try:
            found = job()
        except Stopped:
            return
        except Exception as error:
            fail(error)
        else:
            show(found)

    def _later(self, called_off: Event, act: _Act, what: Any) -> None:
        """On the event loop of the page, unless a newer job has begun by then."""

        def now() -> None:
            if not called_off.is_set():
                act(what)

        self._document.add_next_tick_callback(now)

    def _teller(self, called_off: Event, tell: Callable[[float], object]) -> Callable[[float], None]:
        told = monotonic()

        def maybe(share: float) -> None:
            nonlocal told
            if monotonic() - told > _OFTEN:
                told = monotonic()
                self._later(called_off, tell, share)

        return maybe


def _shown(show: _Act, fail: _Act, found: Any) -> None:
    """Show what was found, or what goes wrong with that."""
    try:
        show(found)
    except Exception as error:
        fail(error)


def soon(document: Any, act: Callable[[], object]) -> None:
    """Do something on the event loop of a page, after what is under way; at once where there is none."""
    if document is None:
        act()
    else:
        document.add_next_tick_callback(act)


def error_words(error: Exception) -> str:
    """What went wrong, as a page says it."""
    return str(error) or type(error).__name__
