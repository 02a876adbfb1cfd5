"""Progress of long computations on stderr: a bar on a terminal, periodic lines elsewhere."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from threading import Event, RLock, Thread, Timer
from typing import Any

from calibdask.engine.progress_events import Stage, watching
from calibdask.kernels.compilation import observed
from calibdask.safe_text import visible

# Shorter computations show no bar.
_PATIENCE_SECONDS = 1.0
# Between two lines without a terminal.
_LINE_SECONDS = 30.0
# Widths of a bar in columns, and the columns for the text beside it.
_NARROWEST, _WIDEST, _BESIDE = 5, 40, 50
# How often the scheduler of a cluster is polled, and how long an answer may take.
_POLL_SECONDS = 0.5
_SECONDS_TO_STOP = 5.0
# States of finished tasks: their result is in memory, or has been used already.
_DONE = ("memory", "released")


@contextmanager
def shown_progress(what: str, console: Any = None) -> Iterator[None]:
    """Show on stderr the current pass over the data and its finished blocks.

    For rows in memory, blocks from an iterator, and Dask on threads or on a cluster.

    Parameters
    ----------
    what : str
        Description of the work.
    console : rich.console.Console, optional
        None: stderr. Nothing is shown unless it is a terminal.
    """
    console = _stderr() if console is None else console
    if not console.is_terminal:
        yield
        return
    with (
        _bar(what, console, "tasks") as bar,
        _follow_threads(bar),
        _follow_cluster(bar),
        observed(bar.compile),
        watching(bar, bar.start_stage),
    ):
        yield


@contextmanager
def cell_progress(what: str, console: Any = None) -> Iterator[None]:
    """Show on stderr the finished and failed cells of a study, the rate, and the remaining time.

    A bar on a terminal; elsewhere, as in the log of a batch job, a line every 30 seconds.
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
    """Periodic lines of progress."""

    def __init__(self, what: str, console: Any) -> None:
        self._what, self._console = visible(what), console
        self._pace = _Pace()
        self._last = time.monotonic()

    def __call__(self, done: int, total: int, failed: int = 0) -> None:
        left = self._pace(done + failed, total)
        if time.monotonic() - self._last >= _LINE_SECONDS:
            self._last = time.monotonic()
            self._console.print(
                f"{self._what}: {_counts(done, total, failed, 'cells')}{left}", highlight=False, markup=False
            )


class _Pace:
    """The rate of progress since the first call, and the remaining time."""

    def __init__(self) -> None:
        self._first: tuple[float, int] | None = None

    def __call__(self, done: int, total: int) -> str:
        now = time.monotonic()
        if self._first is None:
            self._first = now, done
        start, before = self._first
        if done == before or now == start:
            return ""
        rate = (done - before) / (now - start)
        return f", {rate:.3g} a second, {_clock((total - done) / rate)} left"


def _clock(seconds: float) -> str:
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02}:{second:02}" if hours else f"{minute}:{second:02}"


def _counts(done: int, total: int, failed: int, unit: str) -> str:
    failures = f", {failed:,} failed" if failed else ""
    of = f" of {total:,}" if total else ""
    return f"{done:,}{of} {unit}{failures}"


class _Bar:
    """A bar on a terminal, the unit that it counts, and the current stage."""

    def __init__(self, what: str, unit: str, shown: Any, pace: _Pace | None) -> None:
        self.what, self.unit = what, unit
        self.stage: Stage | None = None
        self._shown, self._pace = shown, pace
        self._kernels = 0
        self._number = shown.add_task(what, total=None, blocks="", visible=False)
        # Shared with the threads that poll a cluster or wait for the bar to appear.
        self._lock = RLock()

    def appear(self) -> None:
        """Make the bar visible."""
        with self._lock:
            self._shown.update(self._number, visible=True)

    def start_stage(self, stage: Stage) -> None:
        """Begin another stage of the work."""
        with self._lock:
            self.stage, self.unit = stage, stage.unit
            (before,) = self._shown.tasks
            self._shown.remove_task(before.id)
            # A finished task cannot be restarted; a bar without a total only pulses.
            name = f"{self.what}: {stage.name}"
            self._number = self._shown.add_task(name, total=stage.total or None, blocks="", visible=False)
            (task,) = self._shown.tasks
            task.start_time, task.visible = before.start_time, before.visible

    def compile(self, kernel: str) -> None:
        """Say that kernels are being compiled, and which one is; for how many nobody knows beforehand."""
        with self._lock:
            self._kernels += 1
            if self._kernels == 1:
                note = "Compiling kernels, once on this machine; calibdask warm compiles them ahead of time."
                self._shown.console.print(note, style="dim", highlight=False)
            self._shown.update(self._number, blocks=f"compiling kernel {self._kernels}: {kernel}")

    def __call__(self, done: int, total: int, failed: int = 0) -> None:
        """Update the counts; a total of 0 means unknown."""
        with self._lock:
            left = "" if self._pace is None else self._pace(done + failed, total)
            text = _counts(done, total, failed, self.unit) + left
            self._shown.update(self._number, completed=done + failed, total=total or None, blocks=text)


@contextmanager
def _bar(what: str, console: Any, unit: str, pace: _Pace | None = None) -> Iterator[_Bar]:
    """A bar, which appears if the work takes long."""
    from rich.markup import escape
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    # Names are no markup.
    what = escape(visible(what))
    width = max(_NARROWEST, min(_WIDEST, console.width - _BESIDE - len(what)))
    columns = SpinnerColumn(), TextColumn("{task.description}"), BarColumn(width), TextColumn("{task.fields[blocks]}")
    with Progress(*columns, TimeElapsedColumn(), console=console, transient=True) as shown:
        bar = _Bar(what, unit, shown, pace)
        waiting = Timer(_PATIENCE_SECONDS, bar.appear)
        waiting.daemon = True
        waiting.start()
        try:
            yield bar
        finally:
            waiting.cancel()


def _follow_threads(bar: _Bar) -> Any:
    """Follow Dask's threads, if it is imported: the tasks of the current stage, or all tasks if it has none."""
    if "dask" not in sys.modules:
        # As for rows in memory, whose passes tell how far they are themselves.
        return nullcontext()
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
def _follow_cluster(bar: _Bar) -> Iterator[None]:
    """Poll the scheduler of the current cluster, if there is one, for the number of finished tasks."""
    client = _current_client()
    if client is None:
        yield
        return
    stopped = Event()
    poller = Thread(target=_poll, args=(client, bar, stopped), daemon=True)
    poller.start()
    try:
        yield
    finally:
        stopped.set()
        poller.join(_SECONDS_TO_STOP)


def _poll(client: Any, bar: _Bar, stopped: Event) -> None:
    most: tuple[Stage | None, int] = None, 0
    while not stopped.wait(_POLL_SECONDS):
        stage = bar.stage
        if stage is None or not stage.tasks:
            continue
        try:
            states = client.sync(client.scheduler.get_task_prefix_states, callback_timeout=_SECONDS_TO_STOP)
        except Exception:
            # The computation itself reports errors of the cluster.
            return
        done = sum(states.get(name, {}).get(state, 0) for name in stage.tasks for state in _DONE)
        # Tasks are forgotten once all are done, and the next stage may have begun before the answer arrived.
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
