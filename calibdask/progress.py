"""How far long work is: a bar on the terminal, now and then a line where there is none."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, RLock, Thread, Timer
from typing import Any

from calibdask.engine.watching import Stage, watching

__all__ = ["shown_progress", "told_cells"]

# Shorter work shows no bar.
_PATIENCE_SECONDS = 1.0
# Between two lines where there is no terminal.
_LINE_SECONDS = 30.0
# Columns of a bar, and those that words and numbers beside it need.
_NARROWEST, _WIDEST, _BESIDE = 5, 40, 50
# How often the scheduler of a cluster is asked, and how long an answer may take.
_ASK_SECONDS = 0.5
_SECONDS_TO_STOP = 5.0
# States of tasks that have run: their result is there, or has been used already.
_DONE = ("memory", "released")


@contextmanager
def shown_progress(what: str, console: Any = None) -> Iterator[None]:
    """Show on stderr which pass over the data this is, and how many blocks of how many it has done.

    Of rows in memory, of blocks from an iterator, and of Dask on threads or on a cluster.

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
    with _bar(what, console, "tasks") as bar, _threads_watched(bar), _cluster_watched(bar), watching(bar, bar.enter):
        yield


@contextmanager
def told_cells(what: str, console: Any = None) -> Iterator[None]:
    """Show on stderr how many cells of a study are done and have failed, how many a second, and the time left.

    A bar on a terminal; elsewhere, as in the log of a batch job, a line every half a minute.
    """
    console = _stderr() if console is None else console
    if console.is_terminal:
        with _bar(what, console, "cells", _Pace()) as bar, watching(bar):
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
    of = f" of {total:,}" if total else ""
    return f"{done:,}{of} {unit}{told}"


class _Bar:
    """A bar on a terminal, what it counts, and the part of the work that it is at."""

    def __init__(self, what: str, unit: str, shown: Any, pace: _Pace | None) -> None:
        self.what, self.unit = what, unit
        self.stage: Stage | None = None
        self._shown, self._pace = shown, pace
        self._number = shown.add_task(what, total=None, blocks="", visible=False)
        # Threads that watch a cluster, or wait for the bar to appear, have it too.
        self._lock = RLock()

    def appear(self) -> None:
        """Let it be seen."""
        with self._lock:
            self._shown.update(self._number, visible=True)

    def enter(self, stage: Stage) -> None:
        """Begin another part of the work."""
        with self._lock:
            self.stage, self.unit = stage, stage.unit
            (before,) = self._shown.tasks
            self._shown.remove_task(before.id)
            # One that has come to its end would not count again; a bar without a total only moves.
            name = f"{self.what}: {stage.name}"
            self._number = self._shown.add_task(name, total=stage.total or None, blocks="", visible=False)
            (task,) = self._shown.tasks
            task.start_time, task.visible = before.start_time, before.visible

    def __call__(self, done: int, total: int, failed: int = 0) -> None:
        """Say how many of how many are done; a total of 0 is not known."""
        with self._lock:
            left = "" if self._pace is None else self._pace(done + failed, total)
            words = _words(done, total, failed, self.unit) + left
            self._shown.update(self._number, completed=done + failed, total=total or None, blocks=words)


@contextmanager
def _bar(what: str, console: Any, unit: str, pace: _Pace | None = None) -> Iterator[_Bar]:
    """A bar, which appears when the work takes long."""
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    room = max(_NARROWEST, min(_WIDEST, console.width - _BESIDE - len(what)))
    columns = SpinnerColumn(), TextColumn("{task.description}"), BarColumn(room), TextColumn("{task.fields[blocks]}")
    with Progress(*columns, TimeElapsedColumn(), console=console, transient=True) as shown:
        bar = _Bar(what, unit, shown, pace)
        waiting = Timer(_PATIENCE_SECONDS, bar.appear)
        waiting.daemon = True
        waiting.start()
        try:
            yield bar
        finally:
            waiting.cancel()


def _threads_watched(bar: _Bar) -> Any:
    """Follow Dask's threads: the tasks that do what is counted, or all tasks where none do."""
    from dask.callbacks import Callback

    done = 0
    counted: set[Any] = set()

    def start(_graph: Any, state: Any) -> None:
        nonlocal done, counted
        tasks = [*state["waiting"], *state["ready"]]
        done, counted = 0, {task for task in tasks if bar.stage is not None and _name(task) in bar.stage.tasks}
        if not counted:
            bar.unit, counted = "tasks", set(tasks)

    def advance(key: Any, *_: Any) -> None:
        nonlocal done
        if key in counted:
            done += 1
            bar(done, len(counted))

    return Callback(start_state=start, posttask=advance)


def _name(task: Any) -> str:
    from dask.utils import key_split

    return str(key_split(task))


@contextmanager
def _cluster_watched(bar: _Bar) -> Iterator[None]:
    """Ask the scheduler of the current cluster, if there is one, now and then how many tasks are done."""
    client = _current_client()
    if client is None:
        yield
        return
    stopped = Event()
    asking = Thread(target=_ask, args=(client, bar, stopped), daemon=True)
    asking.start()
    try:
        yield
    finally:
        stopped.set()
        asking.join(_SECONDS_TO_STOP)


def _ask(client: Any, bar: _Bar, stopped: Event) -> None:
    most: tuple[Stage | None, int] = None, 0
    while not stopped.wait(_ASK_SECONDS):
        stage = bar.stage
        if stage is None or not stage.tasks:
            continue
        try:
            states = client.sync(client.scheduler.get_task_prefix_states, callback_timeout=_SECONDS_TO_STOP)
        except Exception:
            # Whoever computes says what is wrong with the cluster.
            return
        done = sum(states.get(name, {}).get(state, 0) for name in stage.tasks for state in _DONE)
        # Tasks are forgotten once all are done; and the next part may have begun before the answer came.
        most = stage, max(done, most[1] if most[0] is stage else 0)
        if stage is bar.stage and not stopped.is_set():
            bar(min(most[1], stage.total), stage.total)


def _current_client() -> Any:
    """The client that Dask computes through; None where it uses threads."""
    distributed = sys.modules.get("distributed")
    if distributed is None:
        return None
    try:
        return distributed.default_client()
    except ValueError:
        return None
