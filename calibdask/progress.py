"""How far long work is: a bar on the terminal, now and then a line where there is none."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from threading import Timer
from typing import Any

from calibdask.engine.watching import watching

__all__ = ["shown_progress", "told_cells"]

# Shorter work shows no bar.
_PATIENCE_SECONDS = 1.0
# Between two lines where there is no terminal.
_LINE_SECONDS = 30.0


@contextmanager
def shown_progress(what: str, console: Any = None) -> Iterator[None]:
    """Show on stderr how far Dask's threads, or pairs of rows in memory, are; with a cluster, for how long it works.

    Parameters
    ----------
    what : str
        What is being done.
    console : rich.console.Console, optional
        None: stderr. Where it is no terminal nothing is shown.
    """
    console = _stderr() if console is None else console
    if not console.is_terminal:
        yield
        return
    with _bar(what, console) as show, _counting(show), watching(show):
        yield


@contextmanager
def told_cells(what: str, console: Any = None) -> Iterator[None]:
    """Show on stderr how many cells of a study are done and have failed, how many a second, and the time left.

    A bar on a terminal; elsewhere, as in the log of a batch job, a line every half a minute.
    """
    console = _stderr() if console is None else console
    if console.is_terminal:
        with _bar(what, console, unit="cells") as show, watching(show):
            yield
        return
    with watching(_Lines(what, console)):
        yield


def _stderr() -> Any:
    from rich.console import Console

    return Console(stderr=True)


class _Lines:
    """A line now and then."""

    def __init__(self, what: str, console: Any) -> None:
        self._what, self._console = what, console
        self._pace = _Pace()
        self._told = time.monotonic()

    def __call__(self, done: int, total: int, failed: int = 0) -> None:
        left = self._pace(done + failed, total)
        if time.monotonic() - self._told >= _LINE_SECONDS:
            self._told = time.monotonic()
            self._console.print(f"{self._what}: {_words(done, total, failed, 'cells')}{left}", highlight=False)


class _Pace:
    """How fast it goes, from the first call on, and when it ends."""

    def __init__(self) -> None:
        self._first: tuple[float, int] | None = None

    def __call__(self, done: int, total: int) -> str:
        now = time.monotonic()
        if self._first is None:
            self._first = now, done
        begun, before = self._first
        if done == before or now == begun:
            return ""
        rate = (done - before) / (now - begun)
        return f", {rate:.3g} a second, {_clock((total - done) / rate)} left"


def _clock(seconds: float) -> str:
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02}:{second:02}" if hours else f"{minute}:{second:02}"


def _words(done: int, total: int, failed: int, unit: str) -> str:
    told = f", {failed:,} failed" if failed else ""
    return f"{done:,} of {total:,} {unit}{told}"


@contextmanager
def _bar(what: str, console: Any, unit: str = "tasks") -> Iterator[Callable[..., None]]:
    """A bar; yields what moves it."""
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[blocks]}")
    with Progress(*columns, TimeElapsedColumn(), console=console, transient=True) as bars:
        bar = bars.add_task(what, total=None, blocks="", visible=False)
        appear = Timer(_PATIENCE_SECONDS, lambda: bars.update(bar, visible=True))
        appear.daemon = True
        appear.start()
        try:
            yield partial(_show, bars, bar, unit, _Pace() if unit == "cells" else None)
        finally:
            appear.cancel()


def _show(bars: Any, bar: Any, unit: str, pace: _Pace | None, done: int, total: int, failed: int = 0) -> None:
    left = "" if pace is None else pace(done + failed, total)
    bars.update(bar, completed=done + failed, total=total, blocks=_words(done, total, failed, unit) + left)


def _counting(show: Callable[..., None]) -> Any:
    """Follow the tasks of Dask's threads; each pass over the data counts anew."""
    from dask.callbacks import Callback

    done = total = 0

    def start(_graph: Any, state: Any) -> None:
        nonlocal done, total
        done, total = 0, len(state["waiting"]) + len(state["ready"])

    def advance(*_: Any) -> None:
        nonlocal done
        done += 1
        show(done, total)

    return Callback(start_state=start, posttask=advance)
