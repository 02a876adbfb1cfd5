"""Background jobs of a page, off its event loop: a newer job cancels the older."""

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from threading import Event
from time import monotonic
from typing import Any

_Callback = Callable[[Any], object]

# Seconds between two progress reports to a page.
_REPORT_INTERVAL = 0.15


class Cancelled(Exception):
    """A newer choice has made the job obsolete."""


@dataclass(frozen=True)
class CancelToken:
    """Carries the cancellation of a job, and its progress as the share of blocks read."""

    is_cancelled: Callable[[], bool] = lambda: False
    report: Callable[[float], object] = lambda _: None

    def part(self, number: int, parts: int) -> "CancelToken":
        """The token of one of several passes."""
        return CancelToken(self.is_cancelled, lambda share: self.report((number + share) / parts))


class LatestOnly:
    """Runs jobs one at a time; starting one cancels the one before.

    Parameters
    ----------
    document : bokeh document or None
        Where results are shown, on its event loop; None: jobs run synchronously.

    Examples
    --------
    >>> LatestOnly(None).start(lambda token: 6 * 7, show=lambda answer: answer, fail=lambda error: error)
    """

    def __init__(self, document: Any) -> None:
        self._document = document
        self._executor = ThreadPoolExecutor(1)
        self._cancelled = Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(
        self,
        job: Callable[[CancelToken], Any],
        *,
        show: Callable[[Any], object],
        fail: Callable[[Exception], object],
        report: Callable[[float], object] = lambda _: None,
        is_quick: bool = False,
    ) -> None:
        """Start a job.

        Parameters
        ----------
        job : function
            Takes a `CancelToken`.
        show, fail : function
            Called on the page's event loop with the result, or with the exception.
        report : function
            Called on the page's event loop with the share that is done, at intervals.
        is_quick : bool
            Run synchronously.
        """
        self.cancel()
        show = partial(_show_or_fail, show, fail)
        if self._document is None or is_quick:
            self._finish(lambda: job(CancelToken()), show, fail)
            return
        with suppress(RuntimeError):
            self._loop = asyncio.get_running_loop()
        cancelled = self._cancelled
        token = CancelToken(cancelled.is_set, self._throttled(cancelled, report))
        self._executor.submit(self._run, cancelled, lambda: job(token), show, fail)

    def cancel(self) -> None:
        """Cancel the running job."""
        self._cancelled.set()
        self._cancelled = Event()

    def close(self) -> None:
        """Cancel the running job and take no more."""
        self.cancel()
        self._executor.shutdown(wait=False, cancel_futures=True)

    def _run(self, cancelled: Event, job: Callable[[], Any], show: _Callback, fail: _Callback) -> None:
        if not cancelled.is_set():
            schedule = partial(self._schedule, cancelled)
            self._finish(job, partial(schedule, show), partial(schedule, fail))

    def _finish(self, job: Callable[[], Any], show: _Callback, fail: _Callback) -> None:
        try:
            result = job()
        except Cancelled:
            return
        except Exception as error:
            fail(error)
        else:
            show(result)

    def _schedule(self, cancelled: Event, callback: _Callback, argument: Any) -> None:
        """Call back on the event loop of the page, unless a newer job has started by then."""

        def change() -> None:
            if not cancelled.is_set():
                with _models_together(self._document):
                    callback(argument)

        call = partial(_once_shown, change)
        if self._loop is None:
            self._document.add_next_tick_callback(call)
            return
        # Not from the thread of the job: while the loop collects the changes of a page, Panel keeps callbacks in the
        # same list, and loses what another thread adds between reading and emptying it.
        self._loop.call_soon_threadsafe(self._document.add_next_tick_callback, call)

    def _throttled(self, cancelled: Event, report: Callable[[float], object]) -> Callable[[float], None]:
        last = monotonic()

        def report_at_intervals(share: float) -> None:
            nonlocal last
            if monotonic() - last > _REPORT_INTERVAL:
                last = monotonic()
                self._schedule(cancelled, report, share)

        return report_at_intervals


def _show_or_fail(show: _Callback, fail: _Callback, result: Any) -> None:
    """Show a result; what goes wrong in showing it fails like the job itself."""
    try:
        show(result)
    except Exception as error:
        fail(error)


def _once_shown(change: Callable[[], Any]) -> None:
    """Change the page of this callback now, or, if its browser has not said that it shows it, as soon as it has.

    Panel drops changes between sending a page and that word: one that is slow would be "reading …" for ever.
    """
    import panel as pn

    pn.state.onload(change)


@contextmanager
def _models_together(document: Any) -> Iterator[None]:
    """Go through all models of a page once for several changes, not for each; and not at all where none adds any.

    `bokeh.document.models.DocumentModelManager.freeze` does so at the end in any case.
    """
    models, asked = document.models, Event()
    models.invalidate = asked.set
    try:
        yield
    finally:
        del models.invalidate
        if asked.is_set():
            models.invalidate()


def on_next_tick(document: Any, action: Callable[[], object]) -> None:
    """Run an action on the event loop of a page that is shown, after current work; immediately without a document."""
    if document is None:
        action()
    else:
        document.add_next_tick_callback(partial(_once_shown, action))


def error_text(error: Exception) -> str:
    """The message of an exception, as a page shows it."""
    return str(error) or type(error).__name__
