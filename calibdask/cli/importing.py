"""Imports of a command."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache


@contextmanager
def importing() -> Iterator[None]:
    """Import without garbage collection, neither now nor at exit.

    Searches would take a quarter of a second, a fifth of the time of a small file.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        _freeze()
        gc.enable()


@cache
def _freeze() -> None:
    """Exempt existing objects from garbage collection, once per process.

    Python counts what has been set aside one by one, so that asking it would take longer than a small command.
    """
    gc.freeze()
