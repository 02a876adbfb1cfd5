"""A bar on the terminal while long work runs; nothing where nobody looks."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from threading import Timer
from typing import Any

from calibdask.engine.watching import watching

__all__ = ["shown_progress"]

# Shorter work shows no bar.
_PATIENCE_SECONDS = 1.0


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
    if console is None:
        from rich.console import Console

        console = Console(stderr=True)
    if not console.is_terminal:
        yield
        return
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[blocks]}")
    with Progress(*columns, TimeElapsedColumn(), console=console, transient=True) as bars:
        bar = bars.add_task(what, total=None, blocks="", visible=False)
        appear = Timer(_PATIENCE_SECONDS, lambda: bars.update(bar, visible=True))
        appear.daemon = True
        appear.start()
        try:
            with _counting(bars, bar), watching(partial(_show, bars, bar)):
                yield
        finally:
            appear.cancel()


def _show(bars: Any, bar: Any, done: int, total: int) -> None:
    bars.update(bar, completed=done, total=total, blocks=f"{done:,} of {total:,} tasks")


def _counting(bars: Any, bar: Any) -> Any:
    """Follow the tasks of Dask's threads; each pass over the data counts anew."""
    from dask.callbacks import Callback

    done = total = 0

    def start(_graph: Any, state: Any) -> None:
        nonlocal done, total
        done, total = 0, len(state["waiting"]) + len(state["ready"])

    def advance(*_: Any) -> None:
        nonlocal done
        done += 1
        _show(bars, bar, done, total)

    return Callback(start_state=start, posttask=advance)
